//! `--dry-run=server` shows what would be done in the account, and none of it is done.

use end_to_end::ControlPlane;
use serde_json::json;

use super::moto::{Moto, bucket, control_plane, resource, server, synced};
use super::{good, kubectl};

/// What kubectl says on the side.
fn told(plane: &ControlPlane, arguments: &[&str], input: &str) -> String {
    let output = kubectl(plane, arguments, input);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {told}");
    told
}

#[test]
fn what_is_tried_out_is_planned_and_not_done() {
    let moto = Moto::start();
    let server = server(&moto);
    let plane = control_plane(&server, "team");
    let (apply, try_out) = (["apply", "-f", "-"], ["apply", "-f", "-", "--dry-run=server"]);
    moto.record();
    let both = format!(
        "{}\n{}",
        bucket("b", json!({}), json!({"name": "seen"})),
        resource("sqs", "Queue", "q", json!({}), json!({"queueName": "q", "visibilityTimeout": "40"}))
    );
    let lines = told(&plane, &try_out, &both);
    let expect = |lines: &str, line: &str| {
        assert!(lines.lines().any(|one| one == format!("Warning: plan of {line}")), "{line}: {lines}");
    };
    expect(&lines, "Bucket default/b: create in 123456789012/us-east-1");
    expect(&lines, r#"Bucket default/b: spec.name: "seen""#);
    expect(&lines, "Bucket default/b: calls s3:CreateBucket");
    expect(&lines, "Queue default/q: create in 123456789012/us-east-1");
    expect(&lines, r#"Queue default/q: spec.visibilityTimeout: "40""#);
    expect(&lines, "Queue default/q: calls sqs:CreateQueue");
    assert_eq!(moto.writes(), [""; 0]);

    good(&plane, &apply, &both);
    synced(&plane, "bucket", "b");
    synced(&plane, "queue", "q");
    moto.record();
    let spec = json!({"name": "seen", "versioning": {"status": "Enabled"}});
    let changed = bucket("b", json!({}), spec);
    let lines = told(&plane, &try_out, &changed);
    expect(&lines, "Bucket default/b: update in 123456789012/us-east-1");
    expect(&lines, r#"Bucket default/b: spec.versioning: null -> {"status":"Enabled"}"#);
    expect(&lines, "Bucket default/b: calls s3:PutBucketVersioning");
    let server_side = ["apply", "--server-side", "--force-conflicts", "-f", "-", "--dry-run=server"];
    expect(&told(&plane, &server_side, &changed), "Bucket default/b: calls s3:PutBucketVersioning");
    let gone = told(&plane, &["delete", "queue", "q", "--dry-run=server"], "");
    expect(&gone, "Queue default/q: delete in 123456789012/us-east-1");
    assert_eq!(moto.writes(), [""; 0]);

    // What somebody else has is nobody's to make.
    assert_eq!(moto.s3("PUT", "taken").0, 200);
    let lines = told(&plane, &try_out, &bucket("t", json!({}), json!({"name": "taken"})));
    expect(&lines, "Bucket default/t: cannot be made: Resource already exists");

    // Without AWS there is no plan, and a dry run all the same.
    drop(moto);
    let lines = told(&plane, &try_out, &bucket("new", json!({}), json!({"name": "new"})));
    assert!(lines.contains("plan of Bucket default/new: cannot be made: "), "{lines}");
}
