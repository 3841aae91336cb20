//! One control plane, several accounts: ACK's maps of roles, and its selectors.

use end_to_end::ControlPlane;
use serde_json::{Value, json};

use super::moto::{Moto, control_plane, resource, server_with, synced};
use super::{condition, eventually, good, object};

const ELSEWHERE: &str = "222222222222";

fn namespace(plane: &ControlPlane, name: &str, annotations: Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "annotations": annotations, "labels": {"team": name}}});
    good(plane, &["apply", "-f", "-"], &namespace.to_string());
}

fn role_map(plane: &ControlPlane, name: &str, key: &str, account: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ack-system"},
        "data": {key: format!("arn:aws:iam::{account}:role/hangar")}});
    good(plane, &["apply", "-f", "-"], &map.to_string());
}

fn queue(plane: &ControlPlane, namespace: &str) {
    let queue = resource("sqs", "Queue", "q", json!({}), json!({"queueName": namespace}));
    good(plane, &["apply", "-n", namespace, "-f", "-"], &queue);
}

fn in_namespace(plane: &ControlPlane, namespace: &str) -> Value {
    serde_json::from_str(&good(plane, &["get", "queue", "q", "-n", namespace, "-o", "json"], "")).unwrap()
}

/// The ARN of the queue once it is there.
fn arn(plane: &ControlPlane, namespace: &str) -> String {
    eventually(&format!("the queue of {namespace}"), || {
        let queue = in_namespace(plane, namespace);
        let synced = condition(&queue, "ACK.ResourceSynced").is_some_and(|one| one["status"] == "True");
        synced.then(|| queue["status"]["ackResourceMetadata"]["arn"].as_str().unwrap().to_owned())
    })
}

#[test]
fn roles_lead_to_other_accounts() {
    let moto = Moto::start();
    let gates = ["--feature-gates", "TeamLevelCARM=true,IAMRoleSelector=true"];
    let server = server_with(&moto.url(), &gates);
    let plane = control_plane(&server, "team");

    // By the owner of the namespace. Without a role there is no way there, until the map says one.
    namespace(&plane, "owned", json!({"services.k8s.aws/owner-account-id": ELSEWHERE}));
    queue(&plane, "owned");
    let told = eventually("the lack of a role", || {
        let queue = in_namespace(&plane, "owned");
        condition(&queue, "ACK.ResourceSynced")
            .filter(|one| one["message"] == "IAM Role is not available")
            .cloned()
    });
    assert_eq!(told["status"], "False", "{told}");
    assert!(told["reason"].as_str().unwrap().contains("ack-role-account-map"), "{told}");
    role_map(&plane, "ack-role-account-map", ELSEWHERE, ELSEWHERE);
    assert_eq!(arn(&plane, "owned"), format!("arn:aws:sqs:us-east-1:{ELSEWHERE}:owned"));
    let metadata = in_namespace(&plane, "owned")["status"]["ackResourceMetadata"].clone();
    assert_eq!(metadata["ownerAccountID"], ELSEWHERE);

    // By the team of the namespace.
    namespace(&plane, "members", json!({"services.k8s.aws/team-id": "blue"}));
    role_map(&plane, "ack-role-team-map", "blue", "333333333333");
    queue(&plane, "members");
    assert_eq!(arn(&plane, "members"), "arn:aws:sqs:us-east-1:333333333333:members");

    // By a selector.
    namespace(&plane, "selected", json!({}));
    let selector = json!({"apiVersion": "services.k8s.aws/v1alpha1", "kind": "IAMRoleSelector", "metadata": {"name": "s"},
    "spec": {
        "arn": "arn:aws:iam::444444444444:role/hangar",
        "namespaceSelector": {"names": [], "labelSelector": {"matchLabels": {"team": "selected"}}},
        "resourceTypeSelector": [{"group": "sqs.services.k8s.aws", "kind": "Queue", "version": "v1alpha1"}],
    }});
    good(&plane, &["apply", "-f", "-"], &selector.to_string());
    queue(&plane, "selected");
    assert_eq!(arn(&plane, "selected"), "arn:aws:sqs:us-east-1:444444444444:selected");
    let chosen = in_namespace(&plane, "selected");
    let chosen = condition(&chosen, "ACK.IAMRoleSelected").unwrap().clone();
    assert_eq!(chosen["status"], "True");
    assert!(
        chosen["message"].as_str().unwrap().contains("arn:aws:iam::444444444444:role/hangar"),
        "{chosen}"
    );

    // All others are at home.
    let here = resource("sqs", "Queue", "here", json!({}), json!({"queueName": "here"}));
    good(&plane, &["apply", "-f", "-"], &here);
    synced(&plane, "queue", "here");
    assert_eq!(
        object(&plane, "queue", "here")["status"]["queueARN"],
        "arn:aws:sqs:us-east-1:123456789012:here"
    );
    for namespace in ["owned", "members", "selected"] {
        good(&plane, &["delete", "queue", "q", "-n", namespace], "");
    }
}
