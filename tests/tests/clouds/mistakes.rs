//! What can be wrong: told in the condition that users of ACK look at, and over as soon as it is put right.

use end_to_end::{ControlPlane, Server};
use serde_json::{Value, json};

use super::moto::{Moto, bucket, control_plane, give_credentials, resource, server, server_with, synced};
use super::{condition, eventually, good, object, refused};

/// What an object says is wrong.
fn complaint(plane: &ControlPlane, kind: &str, name: &str, of: &str) -> String {
    eventually(&format!("{of} of {kind} {name}"), || {
        let object = object(plane, kind, name);
        let told = condition(&object, of).filter(|one| one["status"] == "True")?.clone();
        let ready = condition(&object, "Ready").is_some_and(|one| one["status"] == "True");
        assert!(!ready, "{object:#}");
        told["message"].as_str().map(str::to_owned)
    })
}

/// A mistake in an object, and how it is put right.
struct Mistake {
    kind: &'static str,
    name: &'static str,
    wrong: String,
    right: String,
    condition: &'static str,
    says: &'static str,
}

fn mistakes() -> Vec<Mistake> {
    let none = || json!({});
    let policy = |text: &str| json!({"name": "p", "policyDocument": text});
    let fine = json!({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "sqs:ListQueues", "Resource": "*"}]});
    let elsewhere =
        json!({"name": "placed", "createBucketConfiguration": {"locationConstraint": "us-east-1"}});
    vec![
        Mistake {
            kind: "policy.iam.services.k8s.aws",
            name: "p",
            wrong: resource("iam", "Policy", "p", none(), policy("{\"Version\": ")),
            right: resource("iam", "Policy", "p", none(), policy(&fine.to_string())),
            condition: "ACK.Terminal",
            says: "MalformedPolicyDocument",
        },
        Mistake {
            kind: "queue",
            name: "q",
            wrong: resource("sqs", "Queue", "q", none(), json!({"queueName": "not a name"})),
            right: resource("sqs", "Queue", "q", none(), json!({"queueName": "a-name"})),
            condition: "ACK.Terminal",
            says: "InvalidParameterValue",
        },
        Mistake {
            kind: "bucket",
            name: "c",
            wrong: bucket("c", none(), elsewhere),
            right: bucket("c", none(), json!({"name": "placed"})),
            condition: "ACK.Terminal",
            says: "InvalidLocationConstraint",
        },
    ]
}

#[test]
fn objects_that_aws_refuses() {
    let moto = Moto::start();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    for Mistake { kind, name, wrong, right, condition, says } in mistakes() {
        good(&plane, &["apply", "-f", "-"], &wrong);
        let told = complaint(&plane, kind, name, condition);
        assert!(told.contains(says), "{kind} {name}: {told}");
        let changed = super::kubectl(&plane, &["apply", "-f", "-"], &right);
        if !changed.status.success() {
            // What is for life is put right in another life; what was never made goes at once.
            good(&plane, &["delete", kind, name], "");
            good(&plane, &["apply", "-f", "-"], &right);
        }
        synced(&plane, kind, name);
    }
    // What is too large is refused before anybody is asked.
    let large = bucket("large", json!({}), json!({"name": "large", "policy": "x".repeat(4 << 20)}));
    let told = refused(&plane, &["create", "-f", "-"], &large);
    assert!(told.contains("too large"), "{told}");
    is_still_alive(&server);
}

/// No mistake of a user ends the server.
fn is_still_alive(server: &Server) {
    let another = ControlPlane::create(server, "another");
    good(&another, &["get", "namespaces"], "");
}

#[test]
fn secrets_and_regions() {
    let moto = Moto::start();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    let reference = json!({"name": "s", "secretString": {"name": "values", "key": "password"}});
    let secret = resource("secretsmanager", "Secret", "s", json!({}), reference);
    good(&plane, &["apply", "-f", "-"], &secret);
    let kind = "secret.secretsmanager.services.k8s.aws";
    let told = complaint(&plane, kind, "s", "ACK.Terminal");
    assert!(told.contains("values"), "{told}");
    good(&plane, &["create", "secret", "generic", "values", "--from-literal=password=hidden-word"], "");
    let seen = synced(&plane, kind, "s");
    assert!(!seen.to_string().contains("hidden-word"), "{seen:#}");

    // A region that is none can be put right: nobody could be asked there whether the name is taken, so nothing was made.
    // But nothing moves from one region to another.
    let queue = |region: &str| {
        resource("sqs", "Queue", "q", json!({"services.k8s.aws/region": region}), json!({"queueName": "q"}))
    };
    good(&plane, &["apply", "-f", "-"], &queue("nowhere-1"));
    complaint(&plane, "queue", "q", "ACK.Recoverable");
    good(&plane, &["apply", "-f", "-"], &queue("eu-west-1"));
    synced(&plane, "queue", "q");
    good(&plane, &["apply", "-f", "-"], &queue("us-west-2"));
    let told = complaint(&plane, "queue", "q", "ACK.Terminal");
    assert!(told.contains("eu-west-1") && told.contains("us-west-2"), "{told}");
    good(&plane, &["apply", "-f", "-"], &queue("eu-west-1"));
    synced(&plane, "queue", "q");
}

#[test]
fn an_endpoint_that_nobody_answers_at() {
    let moto = Moto::start();
    let port = moto.port();
    drop(moto);
    let server = server_with(&format!("http://127.0.0.1:{port}"), &[]);
    let plane = control_plane(&server, "team");
    good(&plane, &["apply", "-f", "-"], &bucket("b", json!({}), json!({"name": "late"})));
    let told = complaint(&plane, "bucket", "b", "ACK.Recoverable");
    assert!(told.contains("cannot be found out") || told.contains("connect"), "{told}");
    let moto = Moto::start_at(port, &[]);
    synced(&plane, "bucket", "b");
    assert_eq!(moto.s3("HEAD", "late").0, 200);
}

/// The emulator asks everybody who they are, after the three calls that make somebody.
fn strict_moto() -> (Moto, String, String) {
    let moto = Moto::start_with(&[("INITIAL_NO_AUTH_ACTION_COUNT", "3")]);
    let allow = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}]});
    moto.query("iam", &[("Action", "CreateUser"), ("UserName", "u")]);
    let policy = allow.to_string();
    moto.query(
        "iam",
        &[("Action", "PutUserPolicy"), ("UserName", "u"), ("PolicyName", "p"), ("PolicyDocument", &policy)],
    );
    let made = moto.query("iam", &[("Action", "CreateAccessKey"), ("UserName", "u")]);
    let value = |name: &str| {
        let after = made.split(&format!("<{name}>")).nth(1).unwrap_or_else(|| panic!("{name}: {made}"));
        after.split('<').next().unwrap().to_owned()
    };
    let (access, hidden) = (value("AccessKeyId"), value("SecretAccessKey"));
    (moto, access, hidden)
}

#[test]
fn credentials_that_are_wrong_or_not_enough() {
    let (moto, access, hidden) = strict_moto();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    let queue = resource("sqs", "Queue", "q", json!({}), json!({"queueName": "q"}));
    good(&plane, &["apply", "-f", "-"], &queue);
    let told = complaint(&plane, "queue", "q", "ACK.Recoverable");
    assert!(told.contains("InvalidClientTokenId") || told.contains("security token"), "{told}");
    // The right ones are noticed; that they are accepted also says that the signatures are.
    give_credentials(&plane, &access, &hidden);
    let made: Value = synced(&plane, "queue", "q");
    assert_eq!(made["status"]["queueARN"], "arn:aws:sqs:us-east-1:123456789012:q");
    let topic = resource("sns", "Topic", "t", json!({}), json!({"name": "t"}));
    good(&plane, &["apply", "-f", "-"], &topic);
    let told = complaint(&plane, "topic", "t", "ACK.Recoverable");
    assert!(told.contains("not authorized to perform: sns:"), "{told}");
}
