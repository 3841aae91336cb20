//! Whose a resource is, and which one: names that are taken, names that are edited, what cannot be changed, and what reads
//! show only when they are asked rightly.

use provision::policies::REPLACE_POLICY;
use serde_json::{Value, json};

use crate::world::{Kind, World, condition};
use crate::{QUEUE, ROLE, TOPIC, trust};

const CLUSTER: Kind = ("ecs", "Cluster");
const INSTANCE: Kind = ("ec2", "Instance");
const LOG_GROUP: Kind = ("cloudwatchlogs", "LogGroup");
const SERVICE: Kind = ("ecs", "Service");
const SUBNET: Kind = ("ec2", "Subnet");

/// Waits until the object is refused with these words.
async fn refused(world: &World, kind: Kind, name: &str, words: &str) {
    world
        .until(kind, name, words, async |world| {
            let object = world.get(kind, name).await.unwrap_or_default();
            condition(&object, "ACK.Terminal") == Some("True".to_owned())
                && condition(&object, "ACK.ResourceSynced") == Some("False".to_owned())
                && object["status"]["conditions"].to_string().contains(words)
        })
        .await;
}

/// Calls that make what is there already answer as if they had made it. It is somebody else's all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_have_is_not_taken_over() {
    let world = World::new(&[QUEUE, TOPIC]).await;
    for (kind, field) in [(QUEUE, "queueName"), (TOPIC, "name")] {
        world.create(kind, "first", json!({}), json!({field: "shared"})).await;
        world.settled(kind, "first").await;
        world.create(kind, "second", json!({}), json!({field: "shared"})).await;
        refused(&world, kind, "second", "Resource already exists").await;
        world.delete(kind, "second").await;
        world.gone(kind, "second").await;
        // Whoever asks for what is there gets it.
        let annotations = json!({
            "services.k8s.aws/adoption-policy": "adopt-or-create", "services.k8s.aws/deletion-policy": "retain",
        });
        world.create(kind, "third", annotations, json!({field: "shared"})).await;
        world.settled(kind, "third").await;
        world.delete(kind, "third").await;
        world.gone(kind, "third").await;
    }
    assert_eq!(world.count("sqs", "ListQueues", "/QueueUrls").await, 1, "the first one keeps its own");
    assert_eq!(world.count("sns", "ListTopics", "/Topics").await, 1);
    for kind in [QUEUE, TOPIC] {
        world.delete(kind, "first").await;
        world.gone(kind, "first").await;
    }
    assert_eq!(world.count("sqs", "ListQueues", "/QueueUrls").await, 0);
    world.stop().await;
}

/// An edited name is no other resource: nothing is made, and what was made goes with the object.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_keeps_its_name() {
    let world = World::new(&[ROLE, LOG_GROUP, CLUSTER]).await;
    let role = json!({"name": "before", "assumeRolePolicyDocument": trust("ec2.amazonaws.com")});
    for (kind, spec) in
        [(ROLE, role), (LOG_GROUP, json!({"name": "before"})), (CLUSTER, json!({"name": "before"}))]
    {
        world.create(kind, "one", json!({}), spec).await;
        world.settled(kind, "one").await;
        world.patch(kind, "one", json!({"spec": {"name": "after"}})).await;
        refused(&world, kind, "one", "spec.name cannot be changed in place").await;
        world.patch(kind, "one", json!({"spec": {"name": "before"}})).await;
        world.settled(kind, "one").await;
        // With leave to replace it, the old one goes and a new one comes.
        let annotations = json!({REPLACE_POLICY: "delete-first"});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"name": "after"}});
        world.patch(kind, "one", patch).await;
        world.settled(kind, "one").await;
        let patch = json!({"metadata": {"annotations": {REPLACE_POLICY: null}}, "spec": {"name": "again"}});
        world.patch(kind, "one", patch).await;
        refused(&world, kind, "one", "spec.name cannot be changed in place").await;
        world.delete(kind, "one").await;
        world.gone(kind, "one").await;
    }
    assert_eq!(world.count("iam", "ListRoles", "/Roles").await, 0, "nothing is left behind");
    assert_eq!(world.count("cloudwatchlogs", "DescribeLogGroups", "/logGroups").await, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_call_changes_is_refused() {
    let world = World::new(&[SUBNET]).await;
    let vpc = world.call("ec2", "CreateVpc", json!({"CidrBlock": "10.7.0.0/16"})).await.unwrap();
    let spec = json!({"vpcID": vpc["Vpc"]["VpcId"], "cidrBlock": "10.7.1.0/24"});
    world.create(SUBNET, "one", json!({}), spec).await;
    world.settled(SUBNET, "one").await;
    world.patch(SUBNET, "one", json!({"spec": {"cidrBlock": "10.7.2.0/24"}})).await;
    refused(&world, SUBNET, "one", "spec.cidrBlock cannot be changed in place").await;
    assert_eq!(world.events("Updated").await, Vec::<Value>::new(), "nothing was written");
    world.patch(SUBNET, "one", json!({"spec": {"cidrBlock": "10.7.1.0/24"}})).await;
    world.settled(SUBNET, "one").await;
    world.delete(SUBNET, "one").await;
    world.gone(SUBNET, "one").await;
    world.stop().await;
}

/// Waits until what was made has been seen.
async fn seen(world: &World, kind: Kind, name: &str) -> Value {
    world
        .until(kind, name, "seen", async |world| {
            let object = world.get(kind, name).await.unwrap_or_default();
            let made = object.pointer("/status/ackResourceMetadata").is_some();
            made && object["metadata"]["annotations"].get(provision::intent::ANNOTATION).is_none()
        })
        .await;
    world.get(kind, name).await.unwrap()
}

/// Instances lie in lists of lists, services are only shown with their cluster.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_is_seen() {
    let world = World::new(&[INSTANCE, SERVICE]).await;
    world
        .create(INSTANCE, "one", json!({}), json!({"imageID": "ami-12c6146b", "instanceType": "t3.micro"}))
        .await;
    let object = seen(&world, INSTANCE, "one").await;
    let states = async || {
        let found = world.call("ec2", "DescribeInstances", json!({})).await.unwrap();
        let instances =
            found["Reservations"].as_array().unwrap().iter().flat_map(|one| one["Instances"].as_array());
        let states = instances.flatten().map(|one| (one["InstanceId"].clone(), one["State"]["Name"].clone()));
        states.collect::<Vec<_>>()
    };
    assert_eq!(states().await, [(object["status"]["instanceID"].clone(), json!("running"))]);
    world.delete(INSTANCE, "one").await;
    world.gone(INSTANCE, "one").await;
    assert!(states().await.iter().all(|(_, state)| *state != "running"));

    world.call("ecs", "CreateCluster", json!({"clusterName": "c"})).await.unwrap();
    let container = json!([{"name": "n", "image": "i", "memory": 64}]);
    let task = json!({"family": "t", "containerDefinitions": container});
    world.call("ecs", "RegisterTaskDefinition", task).await.unwrap();
    let spec = json!({"name": "s", "cluster": "c", "taskDefinition": "t", "desiredCount": 0});
    world.create(SERVICE, "one", json!({}), spec).await;
    seen(&world, SERVICE, "one").await;
    world.delete(SERVICE, "one").await;
    world.gone(SERVICE, "one").await;
    let left =
        world.call("ecs", "DescribeServices", json!({"cluster": "c", "services": ["s"]})).await.unwrap();
    assert!(left["services"].as_array().unwrap().iter().all(|one| one["status"] == "INACTIVE"), "{left}");
    world.stop().await;
}

/// Kinds that are only called basic: they come, are seen, and go.
#[tokio::test(flavor = "multi_thread")]
async fn basic_kinds_come_and_go() {
    let kinds: &[(Kind, Value)] = &[
        (("ec2", "LaunchTemplate"), json!({"name": "lt", "data": {"imageID": "ami-12c6146b"}})),
        (("ec2", "ManagedPrefixList"), json!({"name": "pl", "addressFamily": "IPv4", "maxEntries": 2})),
        (("ec2", "EgressOnlyInternetGateway"), json!({"vpcID": "VPC"})),
        (("ec2", "TransitGateway"), json!({"description": "d", "tags": [{"key": "a", "value": "1"}]})),
        (("ec2", "VPCPeeringConnection"), json!({"vpcID": "VPC", "peerVPCID": "PEER"})),
        (
            ("ec2", "NetworkACL"),
            json!({"vpcID": "VPC", "entries": [{"ruleNumber": 100, "egress": false, "protocol": "-1", "ruleAction": "allow", "cidrBlock": "10.0.0.0/8"}]}),
        ),
        (
            ("ec2", "FlowLog"),
            json!({"resourceID": "VPC", "resourceType": "VPC", "trafficType": "ALL", "logDestinationType": "s3", "logDestination": "arn:aws:s3:::logs"}),
        ),
        (("backup", "BackupVault"), json!({"name": "vault"})),
        (("ssm", "PatchBaseline"), json!({"name": "baseline"})),
    ];
    let of: Vec<Kind> = kinds.iter().map(|(kind, _)| *kind).collect();
    let world = World::new(&of).await;
    let vpc = async |block: &str| {
        world.call("ec2", "CreateVpc", json!({"CidrBlock": block})).await.unwrap()["Vpc"]["VpcId"].clone()
    };
    let (one, other) = (vpc("10.3.0.0/16").await, vpc("10.4.0.0/16").await);
    world
        .call(
            "s3",
            "CreateBucket",
            json!({"Bucket": "logs", "CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}),
        )
        .await
        .unwrap();
    for (kind, spec) in kinds {
        let named =
            |text: String, from: &str, to: &Value| text.replace(&format!("\"{from}\""), &to.to_string());
        // Words of the table that stand for what is only known now; types of resources are such words too.
        let text = named(spec.to_string(), "PEER", &other).replace("ID\":\"VPC\"", &format!("ID\":{one}"));
        world.create(*kind, "one", json!({}), serde_json::from_str(&text).unwrap()).await;
        let object = seen(&world, *kind, "one").await;
        assert_ne!(condition(&object, "ACK.Terminal"), Some("True".to_owned()), "{kind:?} {object:#}");
        if kind.1 == "NetworkACL" {
            world.synced(*kind, "one").await;
            let found = world
                .call("ec2", "DescribeNetworkAcls", json!({"NetworkAclIds": [object["status"]["id"]]}))
                .await
                .unwrap();
            let entries = found["NetworkAcls"][0]["Entries"].as_array().unwrap();
            assert!(entries.iter().any(|entry| entry["RuleNumber"] == 100), "{found}");
        }
        if kind.1 == "TransitGateway" {
            let found = world.call("ec2", "DescribeTransitGateways", json!({})).await.unwrap();
            assert!(found.to_string().contains(r#"{"Key":"a","Value":"1"}"#), "{found}");
        }
        world.delete(*kind, "one").await;
        world.gone(*kind, "one").await;
    }
    world.stop().await;
}
