//! What is in an account already, taken over as it is; and the rights that it takes.

use std::process::Command;

use end_to_end::{ControlPlane, Server, binary};
use serde_json::{Value, json};

use super::moto::{Moto, bucket, control_plane, resource, server, synced};
use super::{eventually, good, object};

/// What `hangar` says: its output and what it says on the side.
fn hangar(moto: &Moto, arguments: &[&str]) -> (String, String) {
    let output = Command::new(binary())
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "hidden")
        .env("AWS_ENDPOINT_URL", moto.url())
        .output()
        .unwrap();
    let aside = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {aside}");
    (String::from_utf8(output.stdout).unwrap(), aside)
}

fn import(moto: &Moto, service: &str, kind: &str) -> (String, String) {
    hangar(moto, &["import", "aws", "--service", service, "--kind", kind, "--region", "us-east-1"])
}

/// Objects of several services, each with something to be seen.
fn inhabitants() -> Vec<(&'static str, &'static str, String)> {
    let trust = json!({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]});
    let versioned = json!({"name": "kept-bucket", "versioning": {"status": "Enabled"}});
    let table = json!({
        "tableName": "kept-table", "billingMode": "PAY_PER_REQUEST",
        "attributeDefinitions": [{"attributeName": "id", "attributeType": "S"}],
        "keySchema": [{"attributeName": "id", "keyType": "HASH"}],
    });
    let role = json!({"name": "kept-role", "assumeRolePolicyDocument": trust.to_string()});
    let none = || json!({});
    vec![
        ("s3", "bucket", bucket("kept-bucket", none(), versioned)),
        ("sqs", "queue", resource("sqs", "Queue", "kept-queue", none(), json!({"queueName": "kept-queue"}))),
        ("sns", "topic", resource("sns", "Topic", "kept-topic", none(), json!({"name": "kept-topic"}))),
        ("dynamodb", "table", resource("dynamodb", "Table", "kept-table", none(), table)),
        ("iam", "role", resource("iam", "Role", "kept-role", none(), role)),
    ]
}

/// Applies them in a control plane, and waits until they are there.
fn inhabit(server: &Server, inhabitants: Vec<(&str, &str, String)>) -> ControlPlane {
    let plane = control_plane(server, "first");
    for (service, kind, manifest) in inhabitants {
        let kind = kind.to_lowercase();
        good(&plane, &["apply", "-f", "-"], &manifest);
        synced(&plane, &format!("{kind}.{service}.services.k8s.aws"), &format!("kept-{kind}"));
    }
    plane
}

/// Looks at an object until nothing is left to be done about it; it is over when one more look has begun.
fn look_again(moto: &Moto, plane: &ControlPlane, resource: &str, name: &str) {
    for moment in ["one", "two"] {
        let before = moto.recorded().len();
        let poke = format!("hangar.dev/reconcile={moment}");
        good(plane, &["annotate", "--overwrite", resource, name, &poke], "");
        eventually("another look", || (moto.recorded().len() > before).then_some(()));
    }
}

#[test]
fn what_is_there_is_written_down_and_taken_over_untouched() {
    let moto = Moto::start();
    let server = server(&moto);
    let _first = inhabit(&server, inhabitants());
    let second = control_plane(&server, "second");
    moto.record();
    for (service, kind, _) in inhabitants() {
        let published = format!("{}{}", kind[..1].to_uppercase(), &kind[1..]);
        let (manifests, aside) = import(&moto, service, &published);
        let name = format!("kept-{kind}");
        assert!(manifests.contains(&name), "{aside}\n{manifests}");
        good(&second, &["apply", "-f", "-"], &manifests);
        let resource = format!("{kind}.{service}.services.k8s.aws");
        let adopted = synced(&second, &resource, &name);
        assert_eq!(adopted["metadata"]["annotations"]["services.k8s.aws/adopted"], "true", "{adopted:#}");
        look_again(&moto, &second, &resource, &name);
    }
    let seen = object(&second, "bucket", "kept-bucket");
    assert_eq!(seen["spec"]["versioning"], json!({"status": "Enabled"}));
    assert_eq!(moto.writes(), [""; 0]);
    // What cannot be listed is named.
    let (_, aside) = import(&moto, "sns", "PlatformEndpoint");
    assert!(aside.contains("sns PlatformEndpoint: cannot be listed"), "{aside}");
}

/// Resources that are listed below others, each after those.
fn families() -> Vec<(&'static str, &'static str, String)> {
    let of = |service: &'static str, kind: &'static str, spec: Value| {
        let name = format!("kept-{}", kind.to_lowercase());
        let manifest = resource(service, kind, &name, json!({}), spec);
        (service, kind, manifest)
    };
    let from = |name: &str| json!({"from": {"name": name}});
    let subnet = |name: &str, block: &str, zone: &str| {
        let spec = json!({"cidrBlock": block, "vpcRef": from("kept-vpc"), "availabilityZone": zone});
        resource("ec2", "Subnet", name, json!({}), spec)
    };
    let forward = json!([{"type": "forward", "targetGroupRef": from("kept-targetgroup")}]);
    vec![
        of("kms", "Key", json!({"description": "a parent"})),
        of(
            "kms",
            "Grant",
            json!({"keyRef": from("kept-key"), "operations": ["Encrypt"],
                "granteePrincipal": "arn:aws:iam::123456789012:root"}),
        ),
        of("kms", "Alias", json!({"name": "alias/kept-alias", "targetKeyRef": from("kept-key")})),
        of("sns", "Topic", json!({"name": "kept-topic"})),
        of(
            "sns",
            "Subscription",
            json!({"topicRef": from("kept-topic"), "protocol": "sqs",
                "endpoint": "arn:aws:sqs:us-east-1:123456789012:q"}),
        ),
        of("eventbridge", "EventBus", json!({"name": "kept-eventbus"})),
        of(
            "eventbridge",
            "Rule",
            json!({"name": "kept-rule", "eventBusRef": from("kept-eventbus"),
                "eventPattern": json!({"source": ["us"]}).to_string()}),
        ),
        of("route53", "HostedZone", json!({"name": "kept.example.com."})),
        of(
            "route53",
            "RecordSet",
            json!({"name": "www", "hostedZoneRef": from("kept-hostedzone"), "recordType": "A", "ttl": 60,
                "resourceRecords": [{"value": "10.0.0.1"}]}),
        ),
        of("ec2", "VPC", json!({"cidrBlocks": ["10.0.0.0/16"]})),
        ("ec2", "Subnet", subnet("kept-subnet", "10.0.1.0/24", "us-east-1a")),
        ("ec2", "Subnet", subnet("other-subnet", "10.0.2.0/24", "us-east-1b")),
        of(
            "elbv2",
            "TargetGroup",
            json!({"name": "kept-targets", "protocol": "HTTP", "port": 80, "vpcRef": from("kept-vpc")}),
        ),
        of(
            "elbv2",
            "LoadBalancer",
            json!({"name": "kept-balancer", "subnetRefs": [from("kept-subnet"), from("other-subnet")]}),
        ),
        of(
            "elbv2",
            "Listener",
            json!({"loadBalancerRef": from("kept-loadbalancer"), "port": 80, "protocol": "HTTP", "defaultActions": forward}),
        ),
    ]
}

/// What is listed below another resource, and how it is seen that it is the right one.
const CHILDREN: &[(&str, &str, &str, &str)] = &[
    ("kms", "Grant", "/spec/granteePrincipal", "arn:aws:iam::123456789012:root"),
    ("kms", "Alias", "/spec/name", "alias/kept-alias"),
    ("sns", "Subscription", "/spec/endpoint", "arn:aws:sqs:us-east-1:123456789012:q"),
    ("eventbridge", "Rule", "/spec/eventBusName", "kept-eventbus"),
    ("route53", "RecordSet", "/spec/name", "www.kept.example.com."),
    ("elbv2", "Listener", "/spec/protocol", "HTTP"),
];

#[test]
fn children_are_found_through_their_parents() {
    let moto = Moto::start();
    let server = server(&moto);
    let _first = inhabit(&server, families());
    let second = control_plane(&server, "second");
    moto.record();
    for (service, kind, at, expected) in CHILDREN {
        let (manifests, aside) = import(&moto, service, kind);
        assert!(aside.contains(&format!("{service} {kind}: 1 found")), "{aside}\n{manifests}");
        assert!(!aside.contains("not read"), "{aside}");
        good(&second, &["apply", "-f", "-"], &manifests);
        let resource = format!("{}.{service}.services.k8s.aws", kind.to_lowercase());
        let name = good(&second, &["get", &resource, "-o", "jsonpath={.items[0].metadata.name}"], "");
        let adopted = synced(&second, &resource, &name);
        assert_eq!(adopted["metadata"]["annotations"]["services.k8s.aws/adopted"], "true", "{adopted:#}");
        assert_eq!(adopted.pointer(at), Some(&json!(expected)), "{adopted:#}");
        look_again(&moto, &second, &resource, &name);
    }
    assert_eq!(moto.writes(), [""; 0]);
}

fn actions(policy: &str) -> Vec<String> {
    let policy: Value = serde_json::from_str(policy).unwrap();
    assert_eq!(policy["Version"], "2012-10-17");
    let statements = policy["Statement"].as_array().unwrap();
    let all = statements.iter().flat_map(|one| one["Action"].as_array().unwrap());
    all.map(|action| action.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_policy_names_every_call_that_was_made() {
    let moto = Moto::start();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    let kubeconfig = plane.kubeconfig.to_str().unwrap();
    moto.record();
    for (service, kind, manifest) in inhabitants().into_iter().filter(|(service, ..)| *service != "s3") {
        good(&plane, &["apply", "-f", "-"], &manifest);
        synced(&plane, &format!("{kind}.{service}.services.k8s.aws"), &format!("kept-{kind}"));
    }
    let (of_plane, _) = hangar(&moto, &["--kubeconfig", kubeconfig, "aws", "iam-policy"]);
    for (service, kind, _) in inhabitants().into_iter().filter(|(service, ..)| *service != "s3") {
        good(&plane, &["delete", &format!("{kind}.{service}.services.k8s.aws"), &format!("kept-{kind}")], "");
    }
    let allowed = actions(&of_plane);
    let made = moto.recorded();
    assert!(made.len() > 10, "{made:?}");
    // Who credentials belong to may be asked by anybody.
    for call in made.iter().filter(|call| *call != "GetCallerIdentity") {
        assert!(allowed.iter().any(|action| action.ends_with(&format!(":{call}"))), "{call}: {allowed:?}");
    }
    let table = "tables.dynamodb.services.k8s.aws";
    let named =
        ["aws", "iam-policy", "--kind", "Queue", "--kind", "Topic", "--kind", table, "--kind", "Role"];
    let (by_name, _) = hangar(&moto, &named);
    assert_eq!(of_plane, by_name);
    assert!(!allowed.iter().any(|action| action.starts_with("s3:")), "{allowed:?}");
}
