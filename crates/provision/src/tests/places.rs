//! Which account, role and region an object's calls go to.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use objects::Value;
use runtime::Key;
use serde_json::json;

use crate::dialect::ack::place::{Defaults, Wanted, wanted};
use crate::dialect::ack::{Ack, Gates};
use crate::driver::Surroundings;
use crate::facts::Facts;
use crate::failure::Failure;
use crate::intent::{self, Action, Intent};
use crate::reading::{Reader, Source};

struct Objects(BTreeMap<(String, String), Value>);

#[async_trait]
impl Source for Objects {
    async fn get(&self, key: &Key) -> Result<Option<Value>, runtime::Error> {
        Ok(self.0.get(&(key.kind.to_string(), key.name.to_string())).cloned())
    }

    async fn list(&self, kind: &str, _: &str) -> Result<Vec<Value>, runtime::Error> {
        Ok(self.0.iter().filter(|((one, _), _)| one == kind).map(|(_, object)| object.clone()).collect())
    }
}

struct World {
    namespace: Value,
    map: Value,
    object: Value,
    gates: Gates,
}

impl Default for World {
    fn default() -> Self {
        World { namespace: json!({}), map: json!({}), object: json!({}), gates: Gates::default() }
    }
}

async fn place(world: World) -> Result<Wanted, Failure> {
    let selector = json!({"metadata": {"name": "s"}, "spec": {"arn": "arn:aws:iam::444444444444:role/s"}});
    let objects = [
        (("namespaces", "ns"), json!({"metadata": {"name": "ns", "annotations": world.namespace}})),
        (("configmaps", "ack-role-account-map"), json!({"data": world.map})),
        (("configmaps", "ack-role-team-map"), json!({"data": world.map})),
        (("iamroleselectors.services.k8s.aws", "s"), selector),
    ];
    let objects = objects.map(|((kind, name), object)| ((kind.to_owned(), name.to_owned()), object));
    let source = Objects(objects.into_iter().collect());
    let facts =
        Arc::new(Facts::new("queues.sqs.services.k8s.aws", "Queue", "sqs", "f", Arc::new(Ack::default())));
    let mut object = json!({"apiVersion": "sqs.services.k8s.aws/v1alpha1", "kind": "Queue"});
    objects::patch::merge(&mut object, &json!({"metadata": {"name": "q", "namespace": "ns"}}));
    objects::patch::merge(&mut object, &world.object);
    let reader = Reader::new(&source, "a", None);
    let surroundings = Surroundings {
        control_plane: "a",
        facts: &facts,
        object: &object,
        reader: &reader,
        now: Timestamp::UNIX_EPOCH,
    };
    let defaults = Defaults { region: "eu-west-1".into(), gates: world.gates, ..Defaults::default() };
    wanted(&surroundings, &defaults, "111111111111").await
}

const OWNER: &str = "services.k8s.aws/owner-account-id";

#[tokio::test]
async fn regions() {
    let tried = |region: &str| json!({"status": {"ackResourceMetadata": {"region": region}}});
    let recorded = |region: &str| {
        let mut object = tried(region);
        object["metadata"] = json!({"finalizers": ["f"]});
        object
    };
    assert_eq!(place(World::default()).await.unwrap().region, "eu-west-1");
    let namespace =
        json!({"services.k8s.aws/default-region": "eu-north-1", "services.k8s.aws/endpoint-url": "http://x"});
    let by_namespace = place(World { namespace: namespace.clone(), ..World::default() }).await.unwrap();
    assert_eq!(
        (by_namespace.region.as_str(), by_namespace.endpoint.as_deref()),
        ("eu-north-1", Some("http://x"))
    );
    let object = json!({"metadata": {"annotations": {"services.k8s.aws/region": "us-east-1"}}});
    let by_object = place(World { namespace, object, ..World::default() }).await.unwrap();
    assert_eq!(by_object.region, "us-east-1");
    assert_eq!(
        place(World { object: recorded("eu-west-1"), ..World::default() }).await.unwrap().region,
        "eu-west-1"
    );
    let moved = place(World { object: recorded("us-east-1"), ..World::default() }).await.unwrap_err();
    assert!(moved.message.contains("cannot be moved"), "{moved}");
    let mut doubtful = recorded("nowhere-1");
    doubtful["metadata"]["annotations"][intent::ANNOTATION] =
        Intent::new(Action::Create, &doubtful, Timestamp::UNIX_EPOCH).to_annotation();
    let doubtful = place(World { object: doubtful, ..World::default() }).await.unwrap_err();
    assert!(doubtful.message.contains(intent::ANNOTATION), "{doubtful}");
    let put_right = place(World { object: tried("nowhere-1"), ..World::default() }).await.unwrap();
    assert_eq!(put_right.region, "eu-west-1", "nothing was made where it was tried first");
}

#[tokio::test]
async fn accounts_and_roles() {
    let own = place(World::default()).await.unwrap();
    assert_eq!((own.account.as_str(), own.role), ("111111111111", None));
    let owner = json!({OWNER: "222222222222"});
    let missing = place(World { namespace: owner.clone(), ..World::default() }).await.unwrap_err();
    assert_eq!(missing.code, "IAMRoleNotAvailable");
    let arn = "arn:aws:iam::222222222222:role/r";
    let map = json!({"222222222222": arn, "sqs.222222222222": "arn:aws:iam::222222222222:role/q", "team": "arn:aws:iam::333333333333:role/t"});
    let found =
        place(World { namespace: owner.clone(), map: map.clone(), ..World::default() }).await.unwrap();
    assert_eq!((found.account.as_str(), found.role.as_deref()), ("222222222222", Some(arn)));
    let gates = Gates { service_level_carm: true, ..Gates::default() };
    let found =
        place(World { namespace: owner.clone(), map: map.clone(), gates, ..World::default() }).await.unwrap();
    assert_eq!(found.role.as_deref(), Some("arn:aws:iam::222222222222:role/q"));
    let gates = Gates { team_level_carm: true, ..Gates::default() };
    let team = json!({"services.k8s.aws/team-id": "team"});
    let found = place(World { namespace: team, map: map.clone(), gates, ..World::default() }).await.unwrap();
    assert_eq!(found.account, "333333333333", "the account is that of the role");
    let gates = Gates { iam_role_selector: true, ..Gates::default() };
    let found = place(World { namespace: owner, map, gates, ..World::default() }).await.unwrap();
    assert_eq!(found.account, "444444444444");
    assert_eq!(found.selected.unwrap().selector, "s");
    let mut object = json!({"status": {"ackResourceMetadata": {"ownerAccountID": "999999999999"}}});
    let put_right = place(World { object: object.clone(), ..World::default() }).await.unwrap();
    assert_eq!(put_right.account, "111111111111", "nothing was made with the credentials of before");
    object["metadata"] = json!({"finalizers": ["f"]});
    let moved = place(World { object, ..World::default() }).await.unwrap_err();
    assert!(moved.code == "IAMRoleNotAvailable", "another account needs a role: {moved}");
}
