//! Objects that take values from each other, and from themselves.

use serde_json::{Value, json};

use crate::VPC;
use crate::world::World;

const GROUP: (&str, &str) = ("ec2", "SecurityGroup");

/// A rule that lets members of groups in.
fn open_to(groups: &[&str]) -> Value {
    let pair = |name: &&str| json!({"groupRef": {"from": {"name": name}}});
    let pairs: Vec<Value> = groups.iter().map(pair).collect();
    json!([{"ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "userIDGroupPairs": pairs}])
}

/// The groups that a group is open to, as AWS has it.
async fn let_in(world: &World, id: &Value) -> Vec<Value> {
    let found = world.call("ec2", "DescribeSecurityGroups", json!({"GroupIds": [id]})).await.unwrap();
    let permissions = found["SecurityGroups"][0]["IpPermissions"].as_array().cloned().unwrap_or_default();
    let pairs = permissions.iter().flat_map(|rule| rule["UserIdGroupPairs"].as_array().cloned());
    let mut groups: Vec<Value> = pairs.flatten().map(|pair| pair["GroupId"].clone()).collect();
    groups.sort_by_key(Value::to_string);
    groups
}

/// Each is made without its rules, which come when all that they name is there.
#[tokio::test(flavor = "multi_thread")]
async fn groups_that_are_open_to_themselves_and_to_each_other() {
    let world = World::new(&[VPC, GROUP]).await;
    world.create(VPC, "net", json!({}), json!({"cidrBlocks": ["10.0.0.0/16"]})).await;
    let named = |name: &str, rules: Value| {
        let vpc = json!({"from": {"name": "net"}});
        json!({"name": name, "description": "d", "vpcRef": vpc, "ingressRules": rules})
    };
    world.create(GROUP, "one", json!({}), named("one", open_to(&["one", "two"]))).await;
    world.create(GROUP, "two", json!({}), named("two", open_to(&["one"]))).await;
    let [one, two] = [world.settled(GROUP, "one").await, world.settled(GROUP, "two").await];
    let (one, two) = (&one["status"]["id"], &two["status"]["id"]);
    let mut both = vec![one.clone(), two.clone()];
    both.sort_by_key(Value::to_string);
    assert_eq!(let_in(&world, one).await, both);
    assert_eq!(let_in(&world, two).await, std::slice::from_ref(one));
    for name in ["one", "two"] {
        let calls = world.pass(GROUP, name).await;
        assert!(!calls.is_empty() && calls.iter().all(|call| !call.writes), "{name}: {calls:?}");
        let object = world.get(GROUP, name).await.unwrap();
        assert_eq!(object["spec"]["ingressRules"][0]["userIDGroupPairs"][0].get("groupID"), None);
    }

    // One that names a group which is not there is made, and says what it waits for.
    world.create(GROUP, "early", json!({}), named("early", open_to(&["late"]))).await;
    world
        .until(GROUP, "early", "waiting with its resource made", async |world| {
            let object = world.get(GROUP, "early").await.unwrap_or_default();
            object["status"]["id"].is_string()
                && object["status"]["conditions"].to_string().contains("default/late does not exist")
        })
        .await;
    let early = world.get(GROUP, "early").await.unwrap()["status"]["id"].clone();
    assert_eq!(let_in(&world, &early).await, [] as [Value; 0]);
    world.create(GROUP, "late", json!({}), named("late", json!([]))).await;
    world.settled(GROUP, "early").await;
    assert_eq!(let_in(&world, &early).await.len(), 1);

    for name in ["one", "two", "early", "late"] {
        world.delete(GROUP, name).await;
    }
    for name in ["one", "two", "early", "late"] {
        world.vanished(GROUP, name).await;
    }
    world.stop().await;
}
