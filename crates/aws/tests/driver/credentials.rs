//! Whose credentials calls are signed with, and where a tenant may have them sent.

use aws::grants::{Grant, TenantGrant};
use egress::Policy;
use serde_json::{Value, json};

use crate::QUEUE;
use crate::world::{World, condition};

const OWNER: &str = "222222222222";

fn granted(direct: bool, roles: &[&str]) -> Grant {
    let roles = roles.iter().map(|role| role.parse().unwrap()).collect();
    Grant::Tenant(TenantGrant { external_id: "uid-of-a".to_owned(), direct, roles })
}

/// Waits until the object complains in these words, without having come to the service.
async fn refused(world: &World, name: &str, words: &str) -> Value {
    world
        .until(QUEUE, name, words, async |world| {
            world.nudge(QUEUE, name).await;
            let object = world.get(QUEUE, name).await.unwrap_or_default();
            let complains = ["ACK.Recoverable", "ACK.Terminal"]
                .iter()
                .any(|kind| condition(&object, kind) == Some("True".to_owned()));
            complains && object["status"]["conditions"].to_string().contains(words)
        })
        .await;
    let calls: Vec<String> = world.proxy.take().iter().map(ToString::to_string).collect();
    assert_eq!(calls, Vec::<String>::new());
    world.get(QUEUE, name).await.unwrap()
}

async fn annotate_namespace(world: &World, annotations: Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "default", "annotations": annotations}});
    world.apply("namespaces", "", &namespace).await;
}

async fn system_namespace(world: &World) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ack-system"}});
    world.apply("namespaces", "", &namespace).await;
}

async fn map_account(world: &World, role: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ack-role-account-map", "namespace": "ack-system"}, "data": {OWNER: role}});
    world.apply("configmaps", "ack-system", &map).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_credentials_are_for_those_who_are_listed() {
    let world = World::new(&[QUEUE]).await;
    *world.operator.grant.lock() = Grant::Nothing;
    world.create(QUEUE, "one", json!({}), json!({"queueName": "one"})).await;
    refused(&world, "one", "--aws-credentials-for a").await;
    assert_eq!(world.proxy.take_identities(), [], "nothing is signed, not even to ask whose the key is");
    *world.operator.grant.lock() = granted(true, &[]);
    world.settled(QUEUE, "one").await;
    // What was granted can be taken away.
    *world.operator.grant.lock() = Grant::Nothing;
    world.proxy.take();
    refused(&world, "one", "--aws-credentials-for a").await;
    *world.operator.grant.lock() = granted(true, &[]);
    world.delete(QUEUE, "one").await;
    world.vanished(QUEUE, "one").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_assumed_as_they_are_listed() {
    let world = World::new(&[QUEUE]).await;
    let (ours, other) = ("arn:aws:iam::222222222222:role/a-queues", "arn:aws:iam::222222222222:role/of-b");
    *world.operator.grant.lock() = granted(false, &["arn:aws:iam::222222222222:role/a-*"]);
    // Not without a role.
    world.create(QUEUE, "one", json!({}), json!({"queueName": "one"})).await;
    refused(&world, "one", "only to assume roles").await;
    system_namespace(&world).await;
    map_account(&world, other).await;
    annotate_namespace(&world, json!({"services.k8s.aws/owner-account-id": OWNER})).await;
    refused(&world, "one", &format!("role {other} is not listed for this control plane")).await;
    let asked = world.proxy.take_identities();
    assert!(asked.iter().all(|call| call.operation == "GetCallerIdentity"), "{asked:?}");
    map_account(&world, ours).await;
    let object = world.settled(QUEUE, "one").await;
    assert_eq!(object["status"]["ackResourceMetadata"]["ownerAccountID"], OWNER);
    let asked = world.proxy.take_identities();
    let assumed: Vec<_> = asked.iter().filter(|call| call.operation == "AssumeRole").collect();
    assert_eq!(assumed.len(), 1, "{asked:?}");
    for sent in [
        "RoleArn=arn%3Aaws%3Aiam%3A%3A222222222222%3Arole%2Fa-queues",
        "RoleSessionName=hangar-a",
        "ExternalId=uid-of-a",
        "Tags.member.1.Key=hangar.dev%2Fcontrol-plane",
        "Tags.member.1.Value=a",
    ] {
        assert!(assumed[0].request.contains(sent), "{sent} in {}", assumed[0].request);
    }
    // The operator's own control plane does as ACK does.
    *world.operator.grant.lock() = Grant::Everything;
    map_account(&world, other).await;
    world.nudge(QUEUE, "one").await;
    world.settled(QUEUE, "one").await;
    let asked = world.proxy.take_identities();
    let assumed = asked.iter().find(|call| call.operation == "AssumeRole").expect("another role is assumed");
    assert!(
        assumed.request.contains("RoleSessionName=hangar&")
            || assumed.request.ends_with("RoleSessionName=hangar")
    );
    assert!(!assumed.request.contains("ExternalId") && !assumed.request.contains("Tags"), "{assumed:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_namespaces_follow_the_policy() {
    let world = World::new(&[QUEUE]).await;
    *world.operator.grant.lock() = Grant::Nothing;
    system_namespace(&world).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "aws-credentials", "namespace": "ack-system"},
        "stringData": {"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "own"}});
    world.apply("secrets", "ack-system", &secret).await;
    // The same place as the operator's own endpoint, but it is the tenant who says it.
    annotate_namespace(&world, json!({"services.k8s.aws/endpoint-url": world.proxy.url()})).await;
    world.create(QUEUE, "one", json!({}), json!({"queueName": "one"})).await;
    let object = refused(&world, "one", "whether the operator's egress policy allows the destination").await;
    assert!(!object["status"]["conditions"].to_string().contains("refused"), "{object}");
    // A closed port is told of in the same words.
    let words = |object: &Value| {
        object["status"]["conditions"][0]["message"]
            .as_str()
            .map(|text| text.split("no valid response").nth(1).unwrap_or_default().to_owned())
    };
    let before = words(&object);
    *world.operator.policy.lock() = Policy::new("127.0.0.0/8".parse().unwrap());
    annotate_namespace(&world, json!({"services.k8s.aws/endpoint-url": "http://127.0.0.1:1"})).await;
    let object = refused(&world, "one", "no valid response").await;
    assert_eq!(words(&object), before);
    annotate_namespace(&world, json!({"services.k8s.aws/endpoint-url": world.proxy.url()})).await;
    world.settled(QUEUE, "one").await;
    world.delete(QUEUE, "one").await;
    world.vanished(QUEUE, "one").await;
    world.stop().await;
}
