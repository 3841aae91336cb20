//! The driver under the engine, in a control plane, against moto: objects are applied, and AWS follows.
//!
//! They need `moto_server` (or what `HANGAR_MOTO_SERVER` names), which `cargo xtask test` installs.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod circles;
mod credentials;
mod fields;
mod identities;
#[path = "../support/world.rs"]
#[allow(dead_code, reason = "other tests ask for other things")]
mod world;

use std::time::Duration;

use emulators::Fault;
use serde_json::{Value, json};
use world::{Tuning, World, condition};

const BUCKET: (&str, &str) = ("s3", "Bucket");
const QUEUE: (&str, &str) = ("sqs", "Queue");
const TABLE: (&str, &str) = ("dynamodb", "Table");
const ROLE: (&str, &str) = ("iam", "Role");
const TOPIC: (&str, &str) = ("sns", "Topic");
const VPC: (&str, &str) = ("ec2", "VPC");
const KEY: (&str, &str) = ("kms", "Key");

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_lives() {
    let world = World::new(&[BUCKET]).await;
    let spec = json!({
        "name": "photos", "versioning": {"status": "Enabled"},
        "tagging": {"tagSet": [{"key": "team", "value": "blue"}]},
    });
    world.create(BUCKET, "photos", json!({}), spec).await;
    world.synced(BUCKET, "photos").await;
    let object = world.get(BUCKET, "photos").await.unwrap();
    let metadata = &object["status"]["ackResourceMetadata"];
    assert_eq!(metadata["arn"], "arn:aws:s3:::photos");
    assert_eq!(
        (&metadata["ownerAccountID"], &metadata["region"]),
        (&json!("123456789012"), &json!("eu-west-1"))
    );
    assert_eq!(
        world.call("s3", "GetBucketVersioning", json!({"Bucket": "photos"})).await.unwrap()["Status"],
        "Enabled"
    );
    let tags = world.call("s3", "GetBucketTagging", json!({"Bucket": "photos"})).await.unwrap();
    assert!(tags["TagSet"].as_array().unwrap().contains(&json!({"Key": "team", "Value": "blue"})), "{tags}");
    assert_eq!(
        object["spec"]["tagging"]["tagSet"],
        json!([{"key": "team", "value": "blue"}]),
        "default tags are not shown"
    );

    world.patch(BUCKET, "photos", json!({"spec": {"versioning": {"status": "Suspended"}}})).await;
    let suspended = async |world: &World| {
        world.call("s3", "GetBucketVersioning", json!({"Bucket": "photos"})).await.unwrap()["Status"]
            == "Suspended"
    };
    world.until(BUCKET, "photos", "suspended", suspended).await;

    // Somebody else changes it, and it is changed back.
    let drifted = json!({"Bucket": "photos", "VersioningConfiguration": {"Status": "Enabled"}});
    world.call("s3", "PutBucketVersioning", drifted).await.unwrap();
    world.nudge(BUCKET, "photos").await;
    world.until(BUCKET, "photos", "suspended again", suspended).await;

    world.delete(BUCKET, "photos").await;
    world.gone(BUCKET, "photos").await;
    let error = world.call("s3", "HeadBucket", json!({"Bucket": "photos"})).await.unwrap_err();
    assert_eq!(error.http_status, Some(404));
    world.stop().await;
}

/// What a creating call cannot carry is no drift.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_made_whole_even_where_drift_is_left_alone() {
    let world = World::new(&[BUCKET]).await;
    let annotations = json!({provision::policies::DRIFT_POLICY: "report"});
    let spec = json!({"name": "whole", "versioning": {"status": "Enabled"}});
    world.create(BUCKET, "whole", annotations, spec).await;
    world.settled(BUCKET, "whole").await;
    let versioning =
        async || world.call("s3", "GetBucketVersioning", json!({"Bucket": "whole"})).await.unwrap();
    assert_eq!(versioning().await["Status"], "Enabled");
    let drifted = json!({"Bucket": "whole", "VersioningConfiguration": {"Status": "Suspended"}});
    world.call("s3", "PutBucketVersioning", drifted).await.unwrap();
    world.nudge(BUCKET, "whole").await;
    world
        .until(BUCKET, "whole", "told", async |world| {
            let object = world.get(BUCKET, "whole").await.unwrap();
            object["status"]["conditions"].to_string().contains("spec.versioning")
        })
        .await;
    assert_eq!(versioning().await["Status"], "Suspended", "it is told and left alone");
    world.stop().await;
}

/// Nobody asks for it; the interval is over.
#[tokio::test(flavor = "multi_thread")]
async fn drift_is_found_by_itself() {
    let world = World::new(&[QUEUE]).await;
    let annotations = json!({provision::policies::DRIFT_INTERVAL: "1s"});
    world.create(QUEUE, "seen", annotations, json!({"queueName": "seen", "delaySeconds": "5"})).await;
    let object = world.settled(QUEUE, "seen").await;
    let url = &object["status"]["queueURL"];
    let drifted = json!({"QueueUrl": url, "Attributes": {"DelaySeconds": "9"}});
    world.call("sqs", "SetQueueAttributes", drifted).await.unwrap();
    world
        .until(QUEUE, "seen", "put right", async |world| {
            let ask = json!({"QueueUrl": url, "AttributeNames": ["All"]});
            let found = world.call("sqs", "GetQueueAttributes", ask).await.unwrap();
            found["Attributes"]["DelaySeconds"] == "5"
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_lives() {
    let world = World::new(&[QUEUE]).await;
    world
        .create(
            QUEUE,
            "jobs",
            json!({}),
            json!({"queueName": "jobs", "delaySeconds": "5", "tags": {"a": "1"}}),
        )
        .await;
    world.synced(QUEUE, "jobs").await;
    let object = world.get(QUEUE, "jobs").await.unwrap();
    assert_eq!(object["spec"]["visibilityTimeout"], "30", "what AWS chose is in the spec: {object:#}");
    let url = object["status"]["queueURL"].as_str().unwrap().to_owned();
    assert!(object["status"]["ackResourceMetadata"]["arn"].as_str().unwrap().ends_with(":jobs"));

    world.patch(QUEUE, "jobs", json!({"spec": {"delaySeconds": "7", "tags": {"a": null, "b": "2"}}})).await;
    world
        .until(QUEUE, "jobs", "changed", async |world| {
            let ask = json!({"QueueUrl": url, "AttributeNames": ["All"]});
            let attributes = world.call("sqs", "GetQueueAttributes", ask).await.unwrap();
            let tags = world.call("sqs", "ListQueueTags", json!({"QueueUrl": url})).await.unwrap();
            attributes["Attributes"]["DelaySeconds"] == "7"
                && tags["Tags"]["b"] == "2"
                && tags["Tags"].get("a").is_none()
        })
        .await;
    world.delete(QUEUE, "jobs").await;
    world.gone(QUEUE, "jobs").await;
    let left = world.call("sqs", "ListQueues", json!({})).await.unwrap();
    assert!(left.get("QueueUrls").is_none_or(|urls| urls == &json!([])), "{left}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_lives() {
    let world = World::new(&[TABLE]).await;
    let spec = json!({
        "tableName": "people", "billingMode": "PAY_PER_REQUEST",
        "attributeDefinitions": [{"attributeName": "id", "attributeType": "S"}],
        "keySchema": [{"attributeName": "id", "keyType": "HASH"}],
        "timeToLive": {"attributeName": "until", "enabled": true},
    });
    world.create(TABLE, "people", json!({}), spec).await;
    world.synced(TABLE, "people").await;
    let ttl = world.call("dynamodb", "DescribeTimeToLive", json!({"TableName": "people"})).await.unwrap();
    assert_eq!(ttl["TimeToLiveDescription"]["TimeToLiveStatus"], "ENABLED");
    world.patch(TABLE, "people", json!({"spec": {"tags": [{"key": "k", "value": "v"}]}})).await;
    let arn = world.get(TABLE, "people").await.unwrap()["status"]["ackResourceMetadata"]["arn"].clone();
    world
        .until(TABLE, "people", "tagged", async |world| {
            let tags =
                world.call("dynamodb", "ListTagsOfResource", json!({"ResourceArn": arn})).await.unwrap();
            tags["Tags"].as_array().unwrap().contains(&json!({"Key": "k", "Value": "v"}))
        })
        .await;
    world.delete(TABLE, "people").await;
    world.gone(TABLE, "people").await;
    assert_eq!(world.call("dynamodb", "ListTables", json!({})).await.unwrap()["TableNames"], json!([]));
    world.stop().await;
}

fn trust(service: &str) -> String {
    let statement = json!({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"});
    json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_lives() {
    let world = World::new(&[ROLE]).await;
    let inline = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]});
    let spec = json!({
        "name": "worker", "assumeRolePolicyDocument": trust("ec2.amazonaws.com"),
        "inlinePolicies": {"storage": inline.to_string()},
    });
    world.create(ROLE, "worker", json!({}), spec).await;
    world.synced(ROLE, "worker").await;
    let names = world.call("iam", "ListRolePolicies", json!({"RoleName": "worker"})).await.unwrap();
    assert_eq!(names["PolicyNames"], json!(["storage"]));
    let edit = json!({"spec": {"description": "works", "inlinePolicies": {"storage": null}, "assumeRolePolicyDocument": trust("lambda.amazonaws.com")}});
    world.patch(ROLE, "worker", edit).await;
    world
        .until(ROLE, "worker", "changed", async |world| {
            let role = world.call("iam", "GetRole", json!({"RoleName": "worker"})).await.unwrap();
            let names = world.call("iam", "ListRolePolicies", json!({"RoleName": "worker"})).await.unwrap();
            let document = role["Role"]["AssumeRolePolicyDocument"].as_str().unwrap_or_default();
            role["Role"]["Description"] == "works"
                && document.contains("lambda")
                && names["PolicyNames"] == json!([])
        })
        .await;
    world.delete(ROLE, "worker").await;
    world.gone(ROLE, "worker").await;
    assert_eq!(
        world.call("iam", "GetRole", json!({"RoleName": "worker"})).await.unwrap_err().code,
        "NoSuchEntity"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_lives() {
    let world = World::new(&[TOPIC]).await;
    world.create(TOPIC, "news", json!({}), json!({"name": "news", "displayName": "News"})).await;
    world.synced(TOPIC, "news").await;
    let arn = world.get(TOPIC, "news").await.unwrap()["status"]["ackResourceMetadata"]["arn"].clone();
    world.patch(TOPIC, "news", json!({"spec": {"displayName": "Olds"}})).await;
    world
        .until(TOPIC, "news", "renamed", async |world| {
            let found = world.call("sns", "GetTopicAttributes", json!({"TopicArn": arn})).await.unwrap();
            found["Attributes"]["DisplayName"] == "Olds"
        })
        .await;
    world.delete(TOPIC, "news").await;
    world.gone(TOPIC, "news").await;
    assert_eq!(world.call("sns", "ListTopics", json!({})).await.unwrap()["Topics"], json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_name_is_made_once_and_found_by_its_mark() {
    let world = World::new(&[VPC, KEY]).await;
    world
        .create(
            VPC,
            "net",
            json!({}),
            json!({"cidrBlocks": ["10.9.0.0/16"], "tags": [{"key": "a", "value": "1"}]}),
        )
        .await;
    world.create(KEY, "key", json!({}), json!({"description": "for tests"})).await;
    world.synced(VPC, "net").await;
    world.synced(KEY, "key").await;
    let object = world.get(VPC, "net").await.unwrap();
    let filter =
        json!({"Filters": [{"Name": "tag:hangar.dev/owner", "Values": [object["metadata"]["uid"]]}]});
    let found = world.call("ec2", "DescribeVpcs", filter).await.unwrap();
    assert_eq!(found["Vpcs"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["Vpcs"][0]["VpcId"], object["status"]["vpcID"]);
    assert_eq!(object["spec"]["tags"], json!([{"key": "a", "value": "1"}]));
    for (kind, name) in [(VPC, "net"), (KEY, "key")] {
        world.delete(kind, name).await;
        world.gone(kind, name).await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_adopted_or_refused() {
    let world = World::new(&[QUEUE, ROLE]).await;
    let made = world
        .call("sqs", "CreateQueue", json!({"QueueName": "old", "Attributes": {"DelaySeconds": "9"}}))
        .await
        .unwrap();
    let annotations = json!({
        "services.k8s.aws/adoption-policy": "adopt",
        "services.k8s.aws/adoption-fields": json!({"queueURL": made["QueueUrl"]}).to_string(),
    });
    world.create(QUEUE, "old", annotations, json!({"queueName": "old"})).await;
    world.synced(QUEUE, "old").await;
    let object = world.get(QUEUE, "old").await.unwrap();
    assert_eq!(object["spec"]["delaySeconds"], "9", "{object:#}");
    assert_eq!(object["metadata"]["annotations"]["services.k8s.aws/adopted"], "true");

    let role = json!({"RoleName": "taken", "AssumeRolePolicyDocument": trust("ec2.amazonaws.com")});
    world.call("iam", "CreateRole", role).await.unwrap();
    let spec = json!({"name": "taken", "assumeRolePolicyDocument": trust("ec2.amazonaws.com")});
    world.create(ROLE, "taken", json!({}), spec).await;
    world
        .until(ROLE, "taken", "refused", async |world| {
            let object = world.get(ROLE, "taken").await.unwrap_or_default();
            condition(&object, "ACK.Terminal") == Some("True".to_owned())
        })
        .await;
    world.delete(ROLE, "taken").await;
    world.gone(ROLE, "taken").await;
    let there: Value = world.call("iam", "GetRole", json!({"RoleName": "taken"})).await.unwrap();
    assert_eq!(there["Role"]["RoleName"], "taken");
    world.stop().await;
}

/// A service that takes longer than we wait makes what nobody waits for any more. Doubt lasts from when the call was given
/// up, not from when it began: until then lists are not believed that do not show it.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_made_late() {
    let (timeout, lag) = (Duration::from_millis(3_000), Duration::from_millis(2_500));
    let world = World::tuned(&[KEY], Tuning { timeout, lag, ..Tuning::default() }).await;
    let late = Fault::Late(Duration::from_millis(4_000));
    world.proxy.arm_service("kms", late, 0, true);
    world.create(KEY, "late", json!({}), json!({"description": "late"})).await;
    let made = world.settled(KEY, "late").await;
    assert_eq!(world.count("kms", "ListKeys", "/Keys").await, 1, "{made:#}");
    world.delete(KEY, "late").await;
    world.gone(KEY, "late").await;
    assert_eq!(world.count("kms", "ListKeys", "/Keys").await, 0);
    world.stop().await;
}

/// One answer tells of several fields, and of what lies beside the object.
#[tokio::test(flavor = "multi_thread")]
async fn statuses_tell_what_answers_tell() {
    let (zone, parameters, group) =
        (("route53", "HostedZone"), ("rds", "DBParameterGroup"), ("ec2", "SecurityGroup"));
    let world = World::new(&[zone, parameters, group, VPC]).await;
    world.create(zone, "zone", json!({}), json!({"name": "example.com."})).await;
    let spec = json!({"name": "p", "family": "postgres16", "description": "d",
        "parameterOverrides": {"log_statement": "all"}});
    world.create(parameters, "p", json!({}), spec).await;
    world.create(VPC, "net", json!({}), json!({"cidrBlocks": ["10.0.0.0/16"]})).await;
    let spec = json!({"name": "g", "description": "d", "vpcRef": {"from": {"name": "net"}}, "ingressRules": [
        {"ipProtocol": "tcp", "fromPort": 80, "toPort": 80, "ipRanges": [{"cidrIP": "10.0.0.0/8"}]}]});
    world.create(group, "g", json!({}), spec).await;

    let told = world.settled(zone, "zone").await;
    let servers = told["status"]["delegationSet"]["nameServers"].as_array().map(Vec::len);
    assert!(servers.is_some_and(|servers| servers > 0), "{told:#}");
    let told = world.settled(parameters, "p").await;
    assert_eq!(told["status"]["parameterOverrideStatuses"][0]["parameterName"], "log_statement", "{told:#}");
    let told = world.settled(group, "g").await;
    let rules = told["status"]["rules"].as_array().cloned().unwrap_or_default();
    assert!(rules.iter().any(|rule| rule["cidrIPv4"] == "10.0.0.0/8"), "{told:#}");
    world.stop().await;
}

/// AWS has versions of what it locks, and does not let them be suspended.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_with_locks_keeps_its_versions() {
    let world = World::new(&[BUCKET]).await;
    let spec = json!({"name": "locked", "objectLockEnabledForBucket": true});
    world.create(BUCKET, "locked", json!({}), spec).await;
    world.settled(BUCKET, "locked").await;
    let versioning = world.call("s3", "GetBucketVersioning", json!({"Bucket": "locked"})).await.unwrap();
    assert_eq!(versioning["Status"], "Enabled");
    let calls = world.pass(BUCKET, "locked").await;
    assert!(!calls.is_empty() && calls.iter().all(|call| !call.writes), "{calls:?}");
    world.stop().await;
}
