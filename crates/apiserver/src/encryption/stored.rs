//! What is encrypted, as it lies in a store under several control planes.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use store::{Expect, Key, Operation, Store, TenantId};

use super::*;
use crate::codec::tests::as_before;
use crate::codec::{Codec, SchemaTag};
use crate::control_plane::Charter;
use crate::fixture::Fixture;
use crate::{Beginning, Config, Engine};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// The fixture's installation key.
const INSTALLATION: [u8; 32] = [7; 32];

fn mark() -> Key {
    Key::new("secrets", "default", "mark")
}

fn body(text: &str) -> String {
    json!({"metadata": {"name": "mark"}, "stringData": {"text": text}}).to_string()
}

async fn value(store: &dyn Store, tenant: TenantId) -> Bytes {
    store.get(tenant, &mark()).await.unwrap().unwrap().value
}

async fn put(store: &dyn Store, tenant: TenantId, value: Bytes) {
    store.write(tenant, vec![Operation::Put { key: mark(), expect: Expect::Any, value }]).await.unwrap();
}

async fn id(engine: &Engine, name: &str) -> TenantId {
    engine.store.tenant(name).await.unwrap().unwrap().id
}

async fn make(fixture: &Fixture, name: &str, beginning: Beginning) {
    let made = fixture.engine.establish(name, Charter::default(), beginning).await;
    made.map_err(|failure| failure.0).unwrap();
}

/// What reading the Secret answers, by itself and in a list.
async fn read(fixture: &Fixture, plane: &str) -> [(u16, String); 2] {
    [
        fixture.ask(plane, "GET", &format!("{SECRETS}/mark"), "").await,
        fixture.ask(plane, "GET", SECRETS, "").await,
    ]
}

async fn refused(fixture: &Fixture, plane: &str) {
    for (code, answer) in read(fixture, plane).await {
        assert_eq!(code, 500, "{answer}");
        assert!(answer.contains(r#"decrypt secrets \"default/mark\""#), "{answer}");
    }
}

async fn readable(fixture: &Fixture, plane: &str, text: &str) {
    let encoded = STANDARD.encode(text);
    for (code, answer) in read(fixture, plane).await {
        assert!(code == 200 && answer.contains(&encoded), "{plane}: {code} {answer}");
    }
}

#[tokio::test]
async fn a_secret_that_is_moved_to_another_control_plane_is_refused() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    make(&fixture, "b", Beginning::Empty).await;
    for plane in ["a", "b"] {
        assert_eq!(fixture.ask(plane, "POST", SECRETS, &body(plane)).await.0, 201);
    }
    let (a, b) = (id(engine, "a").await, id(engine, "b").await);
    put(&*engine.store, a, value(&*engine.store, b).await).await;
    refused(&fixture, "a").await;
    readable(&fixture, "b", "b").await;
}

#[tokio::test]
async fn a_plain_secret_is_refused() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    assert_eq!(fixture.ask("a", "POST", SECRETS, &body("text")).await.0, 201);
    let a = engine.planes.find("a").await.unwrap().unwrap();
    let opened = a.codec.opened(&mark(), &value(&*engine.store, a.id).await).unwrap();
    put(&*engine.store, a.id, opened).await;
    refused(&fixture, "a").await;
}

#[tokio::test]
async fn a_fork_opens_what_it_was_made_of_and_keeps_its_own_to_itself() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    assert_eq!(fixture.ask("a", "POST", SECRETS, &body("before")).await.0, 201);
    let a = id(engine, "a").await;
    make(&fixture, "fork", Beginning::Fork(a, None)).await;
    readable(&fixture, "fork", "before").await;
    let put_path = format!("{SECRETS}/mark");
    assert_eq!(fixture.ask("fork", "PUT", &put_path, &body("after")).await.0, 200);
    readable(&fixture, "fork", "after").await;
    readable(&fixture, "a", "before").await;
    put(&*engine.store, a, value(&*engine.store, id(engine, "fork").await).await).await;
    refused(&fixture, "a").await;
}

#[tokio::test]
async fn a_restored_control_plane_has_data_keys_of_its_own() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    assert_eq!(fixture.ask("a", "POST", SECRETS, &body("text")).await.0, 201);
    let a = engine.planes.find("a").await.unwrap().unwrap();
    let export = engine.store.export_tenant(a.id, None).await.unwrap();
    let backup = crate::backup::opened(export, a.codec.clone());
    make(&fixture, "restored", Beginning::Export(backup)).await;
    readable(&fixture, "restored", "text").await;
    let restored = engine.planes.find("restored").await.unwrap().unwrap();
    let stored = value(&*engine.store, restored.id).await;
    assert!(restored.codec.decode(&mark(), &stored, store::Revision(1)).is_ok());
    assert!(a.codec.decode(&mark(), &stored, store::Revision(1)).is_err());
}

/// The row of a control plane as versions before wrote it.
fn old_record(name: &str, json: &Value) -> Bytes {
    let mut out = BytesMut::from([codec::UNBOUND, 0, 0, 0, 0, 0, 0, 0, 0].as_slice());
    let json = json.to_string().into_bytes();
    Cipher::new(&INSTALLATION).encrypt(&codec::place(&record_key(name)), json, &mut out).unwrap();
    out.freeze()
}

/// Makes a control plane and a Secret of it as if a version before had.
pub(crate) async fn as_before_this_format(fixture: &Fixture, name: &str, text: &str) {
    let engine = &fixture.engine;
    assert_eq!(fixture.ask(name, "POST", SECRETS, &body(text)).await.0, 201);
    let plane = engine.planes.find(name).await.unwrap().unwrap();
    let entry = engine.store.get(plane.id, &mark()).await.unwrap().unwrap();
    let object = plane.codec.decode(&mark(), &entry.value, entry.modified).unwrap().to_value().unwrap();
    put(&*engine.store, plane.id, as_before(&INSTALLATION, &mark(), &object)).await;
    let row = engine.store.tenant(name).await.unwrap().unwrap();
    let keys = InstallationKeys::new(INSTALLATION, []);
    let mut record: Value =
        serde_json::from_slice(&keys.open_record(name, &row.record).unwrap().json).unwrap();
    for new in ["data_keys", "clouds_key"] {
        record.as_object_mut().unwrap().remove(new).unwrap();
    }
    engine.store.update_tenant(plane.id, old_record(name, &record)).await.unwrap();
    engine.planes.forget(name);
}

#[tokio::test]
async fn what_versions_before_stored_is_read_and_is_written_in_the_new_format() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    as_before_this_format(&fixture, "a", "text").await;
    readable(&fixture, "a", "text").await;
    let a = id(engine, "a").await;
    assert_eq!(value(&*engine.store, a).await[0], codec::UNBOUND);
    assert_eq!(fixture.ask("a", "PUT", &format!("{SECRETS}/mark"), &body("new")).await.0, 200);
    assert_ne!(value(&*engine.store, a).await[0], codec::UNBOUND);
    readable(&fixture, "a", "new").await;
    // Another process that comes to it at the same time has the same keys.
    let config = Config::new(crate::fixture::HOST, INSTALLATION, "", ([127, 0, 0, 1], 6444));
    let beside = Engine::new(engine.store.clone(), config);
    let plane = beside.planes.find("a").await.unwrap().unwrap();
    assert!(plane.codec.decode(&mark(), &value(&*engine.store, a).await, store::Revision(1)).is_ok());
    // The record is written anew with the next change of it.
    let limits = fixture.engine.change_charter("a", |charter| charter.quota = Default::default()).await;
    limits.map_err(|failure| failure.0).unwrap();
    assert_eq!(engine.store.tenant("a").await.unwrap().unwrap().record[0], RECORD);
    readable(&fixture, "a", "new").await;
}

async fn compact(engine: &Engine) {
    let nothing = store::Retention { age: Duration::ZERO, bytes: 0 };
    engine.store.compact(nothing).await.unwrap();
}

async fn renew(engine: &Engine, name: &str) -> bool {
    engine.renew(name).await.map_err(|failure| failure.0).unwrap()
}

#[tokio::test]
async fn values_of_the_format_before_are_rewritten_and_then_refused() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    as_before_this_format(&fixture, "a", "text").await;
    let a = id(engine, "a").await;
    let old = value(&*engine.store, a).await;
    assert!(!renew(engine, "a").await, "history still has the old value");
    assert_ne!(value(&*engine.store, a).await[0], codec::UNBOUND);
    readable(&fixture, "a", "text").await;
    put(&*engine.store, a, old.clone()).await;
    readable(&fixture, "a", "text").await;
    assert_eq!(fixture.ask("a", "PUT", &format!("{SECRETS}/mark"), &body("new")).await.0, 200);
    compact(engine).await;
    assert!(renew(engine, "a").await);
    // That is recorded: also for whoever comes later.
    let config = Config::new(crate::fixture::HOST, INSTALLATION, "", ([127, 0, 0, 1], 6444));
    let later = Engine::new(engine.store.clone(), config);
    readable(&fixture, "a", "new").await;
    put(&*engine.store, a, old.clone()).await;
    refused(&fixture, "a").await;
    let plane = later.planes.find("a").await.unwrap().unwrap();
    assert!(plane.codec.decode(&mark(), &old, Revision(1)).is_err());
    assert!(renew(engine, "a").await, "what nobody can read stops nothing");
}

#[tokio::test]
async fn a_fork_forgets_the_keys_of_its_original() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    assert_eq!(fixture.ask("a", "POST", SECRETS, &body("before")).await.0, 201);
    let a = id(engine, "a").await;
    make(&fixture, "fork", Beginning::Fork(a, None)).await;
    let fork = id(engine, "fork").await;
    let shared = value(&*engine.store, fork).await;
    let watched = fixture.engine.clone().renew_values();
    let rewritten = async {
        while value(&*engine.store, fork).await == shared {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = watched => unreachable!("it goes on until the engine stops"),
        () = rewritten => {}
    }
    readable(&fixture, "fork", "before").await;
    while !renew(engine, "fork").await {
        compact(engine).await;
    }
    readable(&fixture, "fork", "before").await;
    readable(&fixture, "a", "before").await;
    put(&*engine.store, fork, value(&*engine.store, a).await).await;
    refused(&fixture, "fork").await;
}

#[tokio::test]
async fn rows_are_encrypted_with_the_first_key_and_changes_in_between_stay() {
    let fixture = Fixture::new().await;
    let engine = &fixture.engine;
    let read = engine.store.tenant("a").await.unwrap().unwrap();
    engine.config.keys.replace([8; 32], [INSTALLATION]);
    let quota = crate::control_plane::Quota { objects: Some(7), ..Default::default() };
    let limits = engine.change_charter("a", |charter| charter.quota = quota).await;
    limits.map_err(|failure| failure.0).unwrap();
    // Whoever read the row before finds it changed, and does not write over it.
    let changed = engine.change_record(&read, |row| engine.planes.rewrapped(row)).await;
    assert!(!changed.map_err(|failure| failure.0).unwrap());
    assert_eq!(engine.planes.find("a").await.unwrap().unwrap().charter.quota, quota);
    assert_eq!(engine.rewrap_records().await.map_err(|failure| failure.0).unwrap(), 1, "the other one");
    assert_eq!(engine.rewrap_records().await.map_err(|failure| failure.0).unwrap(), 0);
    engine.config.keys.forget_others();
    engine.planes.forget_all();
    assert!(engine.planes.find("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_write_that_cannot_be_encrypted_fails_and_stores_nothing() {
    let fixture = Fixture::new().await;
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mark"}});
    let broken = Codec::new(DataKeys::broken());
    assert!(broken.encode(&mark(), &object, SchemaTag::default()).is_err());
    // The same for a request: nothing is in the store after it.
    let engine = &fixture.engine;
    let row = engine.store.tenant("a").await.unwrap().unwrap();
    engine.planes.hold_broken(&row).unwrap();
    let (code, answer) = fixture.ask("a", "POST", SECRETS, &body("text")).await;
    assert_eq!(code, 500, "{answer}");
    assert!(answer.contains(r#"encrypt secrets \"default/mark\""#), "{answer}");
    assert!(engine.store.get(row.id, &mark()).await.unwrap().is_none());
    assert_eq!(
        fixture
            .ask(
                "a",
                "POST",
                &SECRETS.replace("secrets", "configmaps"),
                &body("x").replace("stringData", "data")
            )
            .await
            .0,
        201
    );
}
