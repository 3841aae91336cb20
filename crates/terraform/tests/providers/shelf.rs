//! Protocol 5 over a unix socket with mutual TLS and P-521 keys: the whole life of a resource, and of a process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use terraform::plugin::{ImportBy, Launch, Planned, PluginError, State};
use terraform::value::Value;
use terraform::{change, shape};

use super::world::*;

#[tokio::test]
async fn a_resource_lives() {
    let world = World::new();
    let lease = world.lease().await;
    assert!(lease.catalogue().resource_types().eq(["shelf_thing"]));
    let wanted = json!({
        "name": "one", "size": 12345678901234567_u64, "tags": {"a_b": "c"}, "extra": {"deep": [1, true]},
        "rule": [{"port": 80}, {"port": 443, "cidr": "10.0.0.0/8"}], "network": {"subnet": "s"},
        "timeouts": {"create": 60_000_000_000_i64}
    });
    let schema = schema(&lease);
    let (config, planned) = plan(&lease, &State::none(), wanted.clone()).await.unwrap();
    assert!(!lease.validate(THING, &config).await.unwrap().has_errors());
    assert!(!planned.state.field("id").known() && planned.lenient && planned.replace.is_empty());
    let applied = lease.apply(THING, &State::none(), &planned, &config, None).await.unwrap();
    let state = applied.state.unwrap();
    assert_eq!(state.private.as_ref(), b"planned+applied");
    let shown = shown(&lease, &state);
    assert_eq!((&shown["rule"][1]["ID"], &shown["zones"]), (&json!("r1"), &json!(["a", "b"])));
    assert_eq!(shown["privateIPAddress"], json!("10.0.0.1"));
    assert!(shown.get("token").is_none(), "a secret is not shown");
    assert!(shape::secrets(&schema.block, &state.value).unwrap()["token"].is_string());

    // Nothing to do, as Read and Plan agree.
    let read = lease.read(THING, &state).await.unwrap().answer.unwrap();
    let (_, planned) = plan(&lease, &read, wanted.clone()).await.unwrap();
    assert_eq!(change::differences(&schema.block, &read.value, &planned.state), []);

    // Changed in place, then by a field that cannot be.
    let mut other = wanted.clone();
    other["size"] = json!(4);
    let (config, planned) = plan(&lease, &read, other).await.unwrap();
    let state = lease.apply(THING, &read, &planned, &config, None).await.unwrap().state.unwrap();
    assert_eq!(world.things()[0]["size"], json!(4));
    let mut other = wanted;
    other["name"] = json!("two");
    let (_, planned) = plan(&lease, &state, other).await.unwrap();
    assert_eq!(planned.replace.iter().map(ToString::to_string).collect::<Vec<_>>(), ["name"]);

    // Out of the stored form, and gone.
    let stored = state.value.to_state_json(schema.ty()).unwrap();
    assert!(lease.upgrade(THING, 0, &stored).await.unwrap().answer == state.value);
    let destroy = Planned { state: Value::Null, ..planned };
    let applied = lease.apply(THING, &state, &destroy, &Value::Null, None).await.unwrap();
    assert!(applied.state.is_none() && world.things().is_empty());
    assert!(lease.read(THING, &state).await.unwrap().answer.is_none());
}

#[tokio::test]
async fn imports_and_data() {
    let world = World::new();
    let lease = world.lease().await;
    let state = create(&lease, simple()).await;
    let id = state.value.field("id").as_str().unwrap().to_owned();
    let imported = lease.import(THING, &ImportBy::Id(id)).await.unwrap().answer;
    assert!(imported[0].state.value == state.value && imported[0].state.private.as_ref() == b"imported");
    let error = lease.import(THING, &ImportBy::Id("nothing".into())).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no thing with this id");
    let count = lease.read_data("shelf_count", &Value::Fields(Default::default())).await.unwrap();
    assert_eq!(count.answer.field("count"), &Value::number(1));
    let error = lease.import("shelf_other", &ImportBy::Id("x".into())).await.unwrap_err();
    assert_eq!(error.to_string(), "the provider has no resource type \"shelf_other\"");
}

#[tokio::test]
async fn diagnostics_say_which_field() {
    let world = World::new();
    let lease = world.lease().await;
    let schema = schema(&lease);
    let config =
        shape::desired(&schema.block, &json!({"name": "a", "rule": [{"port": 1}, {"port": 0}]})).unwrap();
    let diagnostics = lease.validate(THING, &config).await.unwrap();
    let error = diagnostics.errors().next().unwrap();
    assert_eq!(shape::field_path("spec.resource", &schema.block, &error.path), "spec.resource.rule[1].port");
    assert_eq!(error.summary, "0 is no port");
}

#[tokio::test]
async fn what_is_written_only_is_not_kept() {
    let world = World::new();
    let lease = world.lease().await;
    let schema = schema(&lease);
    let draft = shape::Draft::read(&schema.block, &simple()).unwrap();
    let config = draft.with_secrets(&schema.block, &json!({"secret_wo": "once"})).unwrap();
    let config = config.value(&schema.block);
    let proposed = change::proposed(&schema.block, &Value::Null, &config);
    let planned = lease.plan(THING, &State::none(), &proposed, &config).await.unwrap();
    let state = lease.apply(THING, &State::none(), &planned, &config, None).await.unwrap().state.unwrap();
    assert!(state.value.field("secret_wo").is_null());
    // Not even by a provider that tells it.
    world.fault("ApplyResourceChange: tells");
    let told = lease.apply(THING, &State::none(), &planned, &config, None).await.unwrap().state.unwrap();
    assert!(told.value.field("secret_wo").is_null());
    let id = state.value.field("id").as_str().unwrap();
    assert_eq!(std::fs::read_to_string(world.cloud.path().join(format!("{id}.wo"))).unwrap(), "once");
}

#[tokio::test]
async fn one_process_for_the_same_configuration() {
    let world = World::new();
    let (first, second) = tokio::join!(world.lease(), world.lease());
    assert_eq!(first.process_id(), second.process_id());
    let other = world.part("other");
    let config = Value::Fields([("directory".to_owned(), Value::string(other.to_str().unwrap()))].into());
    let third = world.pool.lease(&Launch::new(shelf_program()), DIGEST, &config).await.unwrap();
    assert_ne!(first.process_id(), third.process_id());
    assert_eq!(world.pool.running(), 2);
    // Many at once, all by one process.
    let lease = Arc::new(first);
    let creations = (0..50).map(|_| {
        let lease = lease.clone();
        tokio::spawn(async move { create(&lease, simple()).await })
    });
    for creation in creations.collect::<Vec<_>>() {
        creation.await.unwrap();
    }
    assert_eq!(world.things().len(), 50);
}

#[tokio::test]
async fn idle_ones_stop_and_come_back() {
    let world = World::with(|settings| settings.idle = Duration::from_millis(100));
    let lease = world.lease().await;
    let first = lease.process_id();
    // In use it stays, however long that takes.
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(world.pool.running(), 1);
    drop(lease);
    while world.pool.running() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let process = std::path::PathBuf::from(format!("/proc/{}/exe", first.unwrap()));
    while process.read_link().is_ok_and(|program| program.ends_with("launcher")) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_ne!(world.lease().await.process_id(), first);
}

#[tokio::test]
async fn never_more_than_the_bound() {
    let world = World::with(|settings| settings.most = 1);
    let other = world.part("other");
    let other = Value::Fields([("directory".to_owned(), Value::string(other.to_str().unwrap()))].into());
    let launch = Launch::new(shelf_program());
    let lease = world.lease().await;
    let refused = world.pool.lease(&launch, DIGEST, &other).await.err().unwrap();
    assert!(matches!(refused, PluginError::TooMany { most: 1 }), "{refused}");
    drop(lease);
    // One that nobody uses makes room.
    world.pool.lease(&launch, DIGEST, &other).await.unwrap();
    assert_eq!(world.pool.running(), 1);
}

#[tokio::test]
async fn a_wrong_configuration_is_refused_in_words() {
    let world = World::new();
    let config = |directory: &str, password: &str| {
        let fields = [
            ("directory".to_owned(), Value::string(directory)),
            ("password".to_owned(), Value::string(password)),
        ];
        Value::Fields(fields.into())
    };
    let launch = Launch::new(shelf_program());
    let directory = world.cloud.path().to_str().unwrap();
    let error = world.pool.lease(&launch, DIGEST, &config(directory, "wrong")).await.err().unwrap();
    assert_eq!(error.to_string(), "password: the password is wrong");
    let error = world.pool.lease(&launch, DIGEST, &config("/nowhere", "p")).await.err().unwrap();
    assert_eq!(error.to_string(), "directory: there is no such directory");
    // The next try waits a little, and says so, unless we were slower; another configuration does not.
    let error = loop {
        let error = world.pool.lease(&launch, DIGEST, &config("/nowhere", "p")).await.err().unwrap();
        if matches!(error, PluginError::BackingOff { .. }) {
            break error.to_string();
        }
    };
    assert!(error.contains("shelf failed; it is started again in less than "), "{error}");
    assert!(error.contains(" s: directory: there is no such directory"), "{error}");
    world.pool.lease(&launch, DIGEST, &config(directory, "p")).await.unwrap();
}

#[tokio::test]
async fn with_a_limit_on_memory() {
    let world = World::new();
    let mut launch = Launch::new(shelf_program());
    launch.memory = Some(512 << 20);
    let lease = world.pool.lease(&launch, DIGEST, &world.config()).await.unwrap();
    create(&lease, simple()).await;
    launch.memory = Some(64 << 10);
    let error = world.pool.lease(&launch, DIGEST, &world.config()).await.err().unwrap();
    assert!(matches!(error, PluginError::NoHandshake { .. }), "{error}");
}

#[tokio::test]
async fn one_program_with_other_arguments_is_another_provider() {
    let world = World::new();
    let launch = Launch::new(shelf_program());
    let other = Launch { arguments: vec!["--other".into()], ..launch.clone() };
    let ask = async |launch: &Launch| world.pool.catalogue(launch, DIGEST).await.unwrap();
    let (one, two) = (ask(&launch).await, ask(&other).await);
    assert!(Arc::ptr_eq(&one, &ask(&launch).await) && !Arc::ptr_eq(&one, &two));
}
