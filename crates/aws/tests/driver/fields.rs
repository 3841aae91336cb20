//! Fields that a creating call takes and no plain answer shows, and what has to be done before something can go.

use std::sync::Arc;

use emulators::{Emulator, Fault, Program};
use serde_json::{Value, json};

use crate::world::{Tuning, World, condition};
use crate::{BUCKET, QUEUE};

const SECRET: (&str, &str) = ("secretsmanager", "Secret");
const DISTRIBUTION: (&str, &str) = ("cloudfront", "Distribution");

/// With a ministack of its own, where that is installed.
async fn elsewhere(kinds: &[(&'static str, &'static str)]) -> Option<World> {
    Program::Ministack.file()?;
    let emulator = Emulator::start(Program::Ministack).unwrap();
    Some(World::at(Arc::new(emulator), kinds, Tuning::default()).await)
}

/// Whoever adopts a bucket sees its grants, or the canned list that says the same, and never both.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_adopted_with_its_lock_and_its_grants() {
    let world = World::new(&[BUCKET]).await;
    let everybody = r#"uri="http://acs.amazonaws.com/groups/global/AllUsers""#;
    let adopted = async |name: &str, created: Value, acl: Value| {
        let mut input =
            json!({"Bucket": name, "CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}});
        objects::patch::merge(&mut input, &created);
        world.call("s3", "CreateBucket", input).await.unwrap();
        let mut input = json!({"Bucket": name});
        objects::patch::merge(&mut input, &acl);
        world.call("s3", "PutBucketAcl", input).await.unwrap();
        let annotations = json!({
            "services.k8s.aws/adoption-policy": "adopt",
            "services.k8s.aws/adoption-fields": json!({"name": name}).to_string(),
        });
        world.create(BUCKET, name, annotations, Value::Null).await;
        world.settled(BUCKET, name).await["spec"].clone()
    };
    let lock = json!({"ObjectLockEnabledForBucket": true});
    let locked = adopted("locked", lock, json!({"GrantWrite": everybody})).await;
    assert_eq!(locked["objectLockEnabledForBucket"], true, "{locked}");
    assert_eq!((&locked["grantWrite"], locked.get("acl")), (&json!(everybody), None), "{locked}");
    let plain = adopted("plain", json!({}), json!({"ACL": "public-read"})).await;
    assert_eq!((plain["acl"].as_str(), plain.get("grantRead")), (Some("public-read"), None), "{plain}");
    world.stop().await;
}

/// The status names the version that is in use, also after the value was changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_tells_its_version() {
    let world = World::new(&[SECRET]).await;
    world.create_secret().await;
    let spec = json!({"name": "told", "secretString": {"name": "trial", "key": "value"}});
    world.create(SECRET, "told", json!({}), spec).await;
    let first = world.settled(SECRET, "told").await["status"]["versionID"].clone();
    assert!(first.is_string(), "{first}");
    world.change_secret("Some-text-2").await;
    let current = async || {
        let shown =
            world.call("secretsmanager", "GetSecretValue", json!({"SecretId": "told"})).await.unwrap();
        (shown["SecretString"] == "Some-text-2").then(|| shown["VersionId"].clone())
    };
    world.until(SECRET, "told", "changed", async |_| current().await.is_some()).await;
    let second = current().await.unwrap();
    world
        .until(SECRET, "told", "told", async |world| {
            world.get(SECRET, "told").await.unwrap()["status"]["versionID"] == second
        })
        .await;
    assert_ne!(first, second);
    world.stop().await;
}

/// Only what is switched off can go: it is, and then it goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_distribution_is_disabled_before_it_is_deleted() {
    let Some(world) = elsewhere(&[DISTRIBUTION]).await else { return };
    let origin = json!({"id": "o", "domainName": "example.com",
        "customOriginConfig": {"httpPort": 80, "httpSPort": 443, "originProtocolPolicy": "http-only"}});
    let behaviour = json!({"targetOriginID": "o", "viewerProtocolPolicy": "allow-all", "minTTL": 0,
        "forwardedValues": {"queryString": false, "cookies": {"forward": "none"}}});
    let spec = json!({"distributionConfig": {"comment": "c", "enabled": true, "origins": {"items": [origin]},
        "defaultCacheBehavior": behaviour}});
    world.create(DISTRIBUTION, "cdn", json!({}), spec).await;
    world.settled(DISTRIBUTION, "cdn").await;
    world.proxy.take();
    world.delete(DISTRIBUTION, "cdn").await;
    world.vanished(DISTRIBUTION, "cdn").await;
    let writes = world.proxy.take().into_iter().filter(|call| call.writes);
    let writes: Vec<String> = writes.map(|call| call.operation).collect();
    assert_eq!(writes, ["UpdateDistribution", "DeleteDistribution"]);
    assert_eq!(world.count("cloudfront", "ListDistributions", "/DistributionList/Items").await, 0);
    world.stop().await;
}

/// Two control planes of one account make the same queue at the same instant, and AWS answers both as if each had made it.
#[tokio::test(flavor = "multi_thread")]
async fn what_two_make_at_once_becomes_one_s() {
    if Program::Ministack.file().is_none() {
        return;
    }
    let emulator = Arc::new(Emulator::start(Program::Ministack).unwrap());
    let [quick, slow] = [
        World::at(emulator.clone(), &[QUEUE], Tuning::default()).await,
        World::at(emulator, &[QUEUE], Tuning::default()).await,
    ];
    let spec = json!({"queueName": "same"});
    // What the slow one sees of it later is from before it was there.
    slow.create(QUEUE, "same", json!({}), spec.clone()).await;
    slow.settled(QUEUE, "same").await;
    slow.delete(QUEUE, "same").await;
    slow.vanished(QUEUE, "same").await;
    quick.create(QUEUE, "same", json!({}), spec.clone()).await;
    quick.settled(QUEUE, "same").await;
    slow.proxy.take();
    slow.proxy.arm(Fault::Stale, 0, 1);
    slow.create(QUEUE, "same", json!({}), spec).await;
    slow.until(QUEUE, "same", "told that the name is taken", async |world| {
        let object = world.get(QUEUE, "same").await.unwrap();
        condition(&object, "ACK.Terminal").as_deref() == Some("True")
    })
    .await;
    let calls = slow.proxy.take();
    assert!(calls.iter().any(|call| call.operation == "CreateQueue"), "{calls:?}");
    slow.delete(QUEUE, "same").await;
    slow.vanished(QUEUE, "same").await;
    let calls = quick.pass(QUEUE, "same").await;
    assert!(calls.iter().all(|call| !call.writes), "it is as it was: {calls:?}");
    for world in [quick, slow] {
        world.stop().await;
    }
}
