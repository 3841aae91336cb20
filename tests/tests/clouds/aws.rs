//! ACK's stories, with kubectl in control planes of a real server, against moto.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use end_to_end::{ControlPlane, Engine, Server, binary};
use serde_json::json;

use super::moto::{
    Moto, bucket, control_plane, flags, give_credentials, resource, server, synced, with_credentials,
};
use super::{condition, eventually, exists, good, is_true, object, refused};

/// What `hangar plan` says of an object.
fn plan(plane: &ControlPlane, moto: &Moto, object: &str) -> String {
    let mut child = Command::new(binary())
        .arg("--kubeconfig")
        .arg(&plane.kubeconfig)
        .args(["plan", "-f", "-", "--aws-region", "us-east-1", "--aws-endpoint-url", &moto.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(object.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_bucket_in_a_control_plane() {
    let moto = Moto::start();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    let create = ["create", "-f", "-"];

    let anybody = ["create", "-f", "-", "--as", "somebody"];
    let told = refused(&plane, &anybody, &bucket("b", json!({}), json!({"name": "seen"})));
    assert!(told.contains("forbidden"), "{told}");
    let told = refused(&plane, &create, &bucket("b", json!({}), json!({"nam": "seen"})));
    assert!(told.contains("unknown field \"spec.nam\""), "{told}");
    let told = refused(&plane, &create, &bucket("b", json!({}), json!({"name": 7})));
    assert!(told.contains("spec.name"), "{told}");

    let told = plan(&plane, &moto, &bucket("b", json!({}), json!({"name": "seen"})));
    assert!(told.starts_with("create Bucket default/b in 123456789012/us-east-1\n"), "{told}");
    assert!(told.contains("  calls s3:CreateBucket\n"), "{told}");
    assert_eq!(moto.s3("HEAD", "seen").0, 404, "a plan made a bucket");

    good(&plane, &create, &bucket("b", json!({}), json!({"name": "seen"})));
    let made = synced(&plane, "bucket", "b");
    assert_eq!(made["status"]["ackResourceMetadata"]["arn"], "arn:aws:s3:::seen");
    assert_eq!(moto.s3("HEAD", "seen").0, 200);

    let spec = json!({"name": "seen", "versioning": {"status": "Enabled"}});
    let told = plan(&plane, &moto, &bucket("b", json!({}), spec));
    assert!(told.starts_with("update Bucket default/b in 123456789012/us-east-1\n"), "{told}");
    assert!(told.contains("  calls s3:PutBucketVersioning\n"), "{told}");
    assert!(!moto.s3("GET", "seen?versioning").1.contains("Enabled"), "a plan changed a bucket");

    let versioning = r#"{"spec": {"versioning": {"status": "Enabled"}}}"#;
    good(&plane, &["patch", "bucket", "b", "--type=merge", "-p", versioning], "");
    eventually("versioning", || moto.s3("GET", "seen?versioning").1.contains("Enabled").then_some(()));
    // The name is for life.
    let told =
        refused(&plane, &["patch", "bucket", "b", "--type=merge", "-p", r#"{"spec": {"name": "x"}}"#], "");
    assert!(told.contains("spec.name"), "{told}");

    good(&plane, &["delete", "bucket", "b"], "");
    assert_eq!(moto.s3("HEAD", "seen").0, 404);
}

#[test]
fn what_is_there_already() {
    let moto = Moto::start();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    let create = ["create", "-f", "-"];
    assert_eq!(moto.s3("PUT", "old").0, 200);

    // Not ours to touch, until somebody says so.
    good(&plane, &create, &bucket("taken", json!({}), json!({"name": "old"})));
    eventually("terminal", || is_true(&object(&plane, "bucket", "taken"), "ACK.Terminal").then_some(()));
    good(&plane, &["delete", "bucket", "taken"], "");
    assert_eq!(moto.s3("HEAD", "old").0, 200, "deleting an object took a bucket that was never its own");

    let adopt = json!({
        "services.k8s.aws/adoption-policy": "adopt", "services.k8s.aws/adoption-fields": r#"{"name": "old"}"#,
        "services.k8s.aws/deletion-policy": "retain",
    });
    good(&plane, &create, &bucket("adopted", adopt, json!({"name": "old"})));
    let adopted = synced(&plane, "bucket", "adopted");
    assert_eq!(adopted["metadata"]["annotations"]["services.k8s.aws/adopted"], "true");
    good(&plane, &["delete", "bucket", "adopted"], "");
    assert_eq!(moto.s3("HEAD", "old").0, 200, "retained");
}

#[test]
fn a_queue_waits_for_its_key_and_tells_a_config_map() {
    let moto = Moto::start();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    let apply = ["apply", "-f", "-"];
    let spec = json!({"queueName": "q", "kmsMasterKeyRef": {"from": {"name": "k"}}});
    good(&plane, &apply, &resource("sqs", "Queue", "q", json!({}), spec));
    eventually("the queue waits", || {
        condition(&object(&plane, "queue", "q"), "ACK.ReferencesResolved")
            .filter(|one| one["status"] != "True")?;
        Some(())
    });
    good(&plane, &apply, &resource("kms", "Key", "k", json!({}), json!({"description": "for q"})));
    let queue = synced(&plane, "queue", "q");
    assert!(queue["spec"].get("kmsMasterKeyID").is_none(), "the value of a reference was stored");

    good(&plane, &["create", "configmap", "told"], "");
    let export = json!({
        "apiVersion": "services.k8s.aws/v1alpha1", "kind": "FieldExport", "metadata": {"name": "e"},
        "spec": {
            "from": {"path": ".status.queueURL", "resource": {"group": "sqs.services.k8s.aws", "kind": "Queue", "name": "q"}},
            "to": {"kind": "configmap", "name": "told", "key": "url"},
        },
    });
    good(&plane, &apply, &export.to_string());
    let told = eventually("the export", || {
        object(&plane, "configmap", "told")["data"]["url"].as_str().map(str::to_owned)
    });
    assert_eq!(queue["status"]["queueURL"], told.as_str());

    good(&plane, &["delete", "queue", "q"], "");
    good(&plane, &["delete", "key.kms.services.k8s.aws", "k"], "");
}

#[test]
fn control_planes_have_regions_and_credentials_of_their_own() {
    let moto = Moto::start();
    let server = server(&moto);
    let (one, two) = (control_plane(&server, "one"), control_plane(&server, "two"));
    let none = ControlPlane::create(&server, "none");
    let region = ["annotate", "namespace", "default", "services.k8s.aws/default-region=eu-west-1"];
    good(&two, &region, "");
    for plane in [&one, &two, &none] {
        let queue = resource("sqs", "Queue", "q", json!({}), json!({"queueName": "same"}));
        good(plane, &["create", "-f", "-"], &queue);
    }
    let arn = |plane| synced(plane, "queue", "q")["status"]["queueARN"].as_str().unwrap().to_owned();
    assert_eq!(arn(&one), "arn:aws:sqs:us-east-1:123456789012:same");
    assert_eq!(arn(&two), "arn:aws:sqs:eu-west-1:123456789012:same");
    let told = eventually("the lack of credentials", || {
        Some(condition(&object(&none, "queue", "q"), "ACK.Recoverable")?["message"].to_string())
    });
    for way in ["Secret ack-system/aws-credentials", "--aws-credentials-for none"] {
        assert!(told.contains(way), "{told}");
    }
    // What was never made goes at once; and credentials that come later are noticed.
    good(&none, &["create", "namespace", "ack-system"], "");
    give_credentials(&none, "key", "hidden");
    let told = eventually("an answer of AWS", || {
        let now = object(&none, "queue", "q");
        let settled = is_true(&now, "ACK.ResourceSynced") || is_true(&now, "ACK.Terminal");
        settled.then_some(now)
    });
    assert!(condition(&told, "ACK.Recoverable").is_none_or(|one| one["status"] != "True"), "{told:#}");
    for plane in [&one, &two] {
        good(plane, &["delete", "queue", "q"], "");
        assert!(!exists(plane, "queue", "q"));
    }
}

/// Its own engine looks after them, and goes on where another process of it ended.
#[test]
fn a_bucket_of_a_control_plane_with_a_process_of_its_own() {
    let moto = Moto::start();
    let server = Server::start_on_with(Engine::Embedded, flags(&moto.url(), &[]));
    let spec = json!({"type": "k8s", "isolation": "process"});
    let plane = ControlPlane::create_as(&server, "apart", &spec);
    let process = || {
        let path = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes/apart";
        let found = server.client().get(path).ok();
        let running = condition(&found, "ProcessRunning").filter(|one| one["status"] == "True")?;
        is_true(&found, "Ready").then_some(())?;
        running["message"].as_str()?.strip_prefix("process ")?.split(';').next().map(str::to_owned)
    };
    let first = eventually("it is ready", process);
    // What its parent was told is not told to it, but for what AWS's programs look for.
    let environment = std::fs::read_to_string(format!("/proc/{first}/environ")).unwrap();
    let names = environment.split('\0').filter_map(|one| one.split_once('=')).map(|(name, _)| name);
    let others: Vec<&str> = names.filter(|name| *name != "HOME" && !name.starts_with("AWS_")).collect();
    assert_eq!(others, [""; 0]);

    with_credentials(&plane);
    let told = refused(&plane, &["create", "-f", "-"], &bucket("b", json!({}), json!({"nam": "seen"})));
    assert!(told.contains("unknown field \"spec.nam\""), "{told}");
    good(&plane, &["create", "-f", "-"], &bucket("b", json!({}), json!({"name": "seen"})));
    synced(&plane, "bucket", "b");
    assert_eq!(moto.s3("HEAD", "seen").0, 200);

    assert!(Command::new("kill").args(["-KILL", &first]).status().unwrap().success());
    eventually("another process", || process().filter(|id| *id != first));
    good(&plane, &["delete", "bucket", "b"], "");
    assert_eq!(moto.s3("HEAD", "seen").0, 404);
}

/// Ended with the test.
pub struct Operator(pub Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The cluster is a control plane of a server that knows nothing of AWS.
#[test]
fn on_a_cluster_that_is_there_already() {
    let moto = Moto::start();
    let server = Server::start();
    let cluster = ControlPlane::create(&server, "cluster");
    let operator = Command::new(binary())
        .arg("operator")
        .arg("--kubeconfig")
        .arg(&cluster.kubeconfig)
        .args(["--clouds-only", "--aws-endpoint-url", &moto.url(), "--aws-region", "us-east-1"])
        .args(["--reconcile-resources", "Bucket,Queue"])
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "hidden")
        .stderr(Stdio::null())
        .spawn();
    let _operator = Operator(operator.unwrap());
    let defined = "customresourcedefinition/buckets.s3.services.k8s.aws";
    eventually("its kinds", || exists(&cluster, "crd", "buckets.s3.services.k8s.aws").then_some(()));
    good(&cluster, &["wait", "--for=condition=Established", defined], "");
    good(&cluster, &["create", "-f", "-"], &bucket("b", json!({}), json!({"name": "elsewhere"})));
    synced(&cluster, "bucket", "b");
    assert_eq!(moto.s3("HEAD", "elsewhere").0, 200);
    good(&cluster, &["delete", "bucket", "b"], "");
    assert_eq!(moto.s3("HEAD", "elsewhere").0, 404);
}
