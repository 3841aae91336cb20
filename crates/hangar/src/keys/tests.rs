//! Key files; and rotation under load, and values that were moved, on every engine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use apiserver::control_plane::Charter;
use apiserver::{ApiServer, Beginning, Config, Engine, InProcess};
use auth::user::{MASTERS, UserInfo};
use databases::{etcd, postgres};
use http::{HeaderValue, Request};
use serde_json::{Value, json};
use store::{Expect, Key, Operation, Store};

use super::*;
use crate::stores::Place as StorePlace;

#[test]
fn key_files() {
    let check = |bytes: &[u8], expected: Option<&[[u8; 32]]>| {
        assert_eq!(keys_of(bytes).as_deref(), expected);
    };
    check(&[7; 32], Some(&[[7; 32]]));
    check("0a".repeat(32).as_bytes(), Some(&[[10; 32]]));
    check(format!("{}\n", "Fe".repeat(32)).as_bytes(), Some(&[[254; 32]]));
    let two = format!("# new\n{}\n\n# old\n{}\n", "01".repeat(32), "02".repeat(32));
    check(two.as_bytes(), Some(&[[1; 32], [2; 32]]));
    check("xy".repeat(32).as_bytes(), None);
    check(&[7; 31], None);
    check("é".repeat(32).as_bytes(), None);
    check(b"", None);
    check(b"# nothing\n", None);
}

#[test]
fn a_file_that_lists_two_keys_is_read_as_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys/data.key");
    for keys in [vec![[1; 32]], vec![[2; 32], [1; 32]]] {
        write_plain(&path, &keys).unwrap();
        assert_eq!(keys_of(&std::fs::read(&path).unwrap()), Some(keys));
    }
}

#[tokio::test]
async fn a_key_is_made_only_where_nothing_was_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    let options = KeyOptions::default();
    let refused = open(&options, directory.path(), false, true).await.err().unwrap().to_string();
    assert!(refused.contains("it is missing, and the store has control planes"), "{refused}");
    assert!(!directory.path().join("keys/data.key").exists());
    let made = open(&options, directory.path(), false, false).await.unwrap();
    let again = open(&options, directory.path(), false, true).await.unwrap();
    assert_eq!(made.keys.names(), again.keys.names());
    let given = KeyOptions { encryption_key_file: Some("/nowhere/key".into()), ..options };
    let refused = open(&given, directory.path(), false, false).await.err().unwrap().to_string();
    assert_eq!(refused, "read key file /nowhere/key: there is no such file");
}

/// A store of each kind, gone with its database.
struct Database {
    place: StorePlace,
    _directory: tempfile::TempDir,
    _postgres: Option<postgres::Server>,
    _etcd: Option<etcd::Server>,
}

fn databases() -> Vec<Database> {
    let directory = || tempfile::tempdir().unwrap();
    let (embedded, postgres, etcd) =
        (directory(), postgres::Server::new(&["fsync=off"]), etcd::Server::start());
    let by_url = |url: String| crate::stores::Wanted::new(Some(url), None).place(Path::new(".")).unwrap();
    vec![
        Database {
            place: StorePlace::Embedded(embedded.path().join("store")),
            _directory: embedded,
            _postgres: None,
            _etcd: None,
        },
        Database {
            place: by_url(postgres.url()),
            _directory: directory(),
            _postgres: Some(postgres),
            _etcd: None,
        },
        Database { place: by_url(etcd.url()), _directory: directory(), _postgres: None, _etcd: Some(etcd) },
    ]
}

impl Database {
    async fn engine(&self, keys: Arc<InstallationKeys>) -> Arc<Engine> {
        let store = crate::stores::open_engine(&self.place).await.unwrap();
        engine_on(store, keys)
    }
}

fn engine_on(store: Arc<dyn Store>, keys: Arc<InstallationKeys>) -> Arc<Engine> {
    let config = Config::new("host", [0; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
    Engine::new(store, Config { keys, ..config })
}

async fn make(engine: &Arc<Engine>, name: &str) {
    let made = engine.establish(name, Charter::default(), Beginning::Empty).await;
    made.map_err(|failure| failure.0).unwrap();
}

fn client(engine: &Arc<Engine>, plane: &str) -> kube::Client {
    let agent = HeaderValue::from_static("test");
    let user = UserInfo::new("admin", [MASTERS]);
    kube::Client::new(InProcess::new(ApiServer::new(engine.clone()), plane, Arc::new(user), agent), "default")
}

async fn ask(client: &kube::Client, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let answer = client.request::<Value>(request.body(body).unwrap()).await;
    answer.map_err(|error| error.to_string())
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn secret(name: &str, text: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"text": text}})
}

#[tokio::test]
async fn a_secret_that_is_moved_between_control_planes_is_refused_on_every_engine() {
    for database in databases() {
        let engine = database.engine(Arc::new(InstallationKeys::new([7; 32], []))).await;
        for plane in ["a", "b"] {
            make(&engine, plane).await;
            ask(&client(&engine, plane), "POST", SECRETS, &secret("mark", plane)).await.unwrap();
        }
        let tenant = async |name: &str| engine.store.tenant(name).await.unwrap().unwrap().id;
        let (a, b) = (tenant("a").await, tenant("b").await);
        let key = Key::new("secrets", "default", "mark");
        let value = engine.store.get(b, &key).await.unwrap().unwrap().value;
        let put = Operation::Put { key, expect: Expect::Present, value };
        engine.store.write(a, vec![put]).await.unwrap();
        for path in [SECRETS.to_owned(), format!("{SECRETS}/mark")] {
            let refused = ask(&client(&engine, "a"), "GET", &path, &Value::Null).await.unwrap_err();
            let said =
                "decrypt secrets \"default/mark\": no data key of this control plane opens the stored value";
            assert!(refused.contains(said), "{:?} {path}: {refused}", database.place);
            ask(&client(&engine, "b"), "GET", &path, &Value::Null).await.unwrap();
        }
        engine.store.close().await;
    }
}

/// What writers and readers of one control plane came to.
#[derive(Default)]
struct Load {
    ended: AtomicBool,
    answered: AtomicU64,
    failed: Mutex<Vec<String>>,
}

impl Load {
    fn note(&self, answer: Result<Value, String>) -> Value {
        self.answered.fetch_add(1, Ordering::Relaxed);
        answer.unwrap_or_else(|error| {
            self.failed.lock().push(error);
            Value::Null
        })
    }

    /// Writes a Secret again and again, each time what no one else wrote; the last text of each.
    async fn write(&self, client: kube::Client, writer: usize) -> BTreeMap<String, String> {
        let mut last = BTreeMap::new();
        for round in 0.. {
            if self.ended.load(Ordering::SeqCst) {
                break;
            }
            let (name, text) = (format!("s-{writer}-{}", round % 20), format!("text {round}"));
            let object = secret(&name, &text);
            let path = format!("{SECRETS}/{name}");
            let (method, path) =
                if last.contains_key(&name) { ("PUT", path.as_str()) } else { ("POST", SECRETS) };
            self.note(ask(&client, method, path, &object).await);
            last.insert(name, text);
        }
        last
    }

    async fn read(&self, client: kube::Client) {
        while !self.ended.load(Ordering::SeqCst) {
            self.note(ask(&client, "GET", SECRETS, &Value::Null).await);
        }
    }

    /// Control planes that are made and changed meanwhile, whose rows are the ones that are encrypted anew.
    async fn make_planes(&self, engine: Arc<Engine>) -> usize {
        let mut made = 0;
        while !self.ended.load(Ordering::SeqCst) {
            let name = format!("made-{made}");
            make(&engine, &name).await;
            let limits = engine.change_charter(&name, |charter| charter.quota = Default::default()).await;
            limits.map_err(|failure| failure.0).unwrap();
            made += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        made
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_is_rotated_under_load_on_every_engine() {
    for database in databases() {
        let data = tempfile::tempdir().unwrap();
        let shared = database.place.is_shared();
        let opened = open(&KeyOptions::default(), data.path(), shared, false).await.unwrap();
        let path = data.path().join("keys/data.key");
        let mut before = keys_of(&std::fs::read(&path).unwrap()).unwrap();
        let mut earlier = Vec::new();
        let engine = database.engine(opened.keys.clone()).await;
        make(&engine, "host").await;
        make(&engine, "a").await;
        let rotation = Rotation::new(opened, engine.clone().into());
        let load = Arc::new(Load::default());
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (load, client) = (load.clone(), client(&engine, "a"));
                tokio::spawn(async move { load.write(client, writer).await })
            })
            .collect();
        let reader = tokio::spawn({
            let (load, client) = (load.clone(), client(&engine, "a"));
            async move { load.read(client).await }
        });
        let maker = tokio::spawn({
            let (load, engine) = (load.clone(), engine.clone());
            async move { load.make_planes(engine).await }
        });
        for round in 0..3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if shared {
                // Nothing is made where others would have to know of it.
                let refused = rotation.rotate_data_key().await.unwrap_err().to_string();
                assert!(refused.contains("put the new key before the old one"), "{refused}");
                write_plain(&path, &[[round + 1; 32], before[0]]).unwrap();
            }
            let done = rotation.rotate_data_key().await.unwrap();
            assert!(done.rows >= 2, "{done:?}");
            if shared {
                write_plain(&path, &[[round + 1; 32]]).unwrap();
            }
            let now = keys_of(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(now.len(), 1);
            assert_ne!(now, before);
            earlier.push(before[0]);
            before = now;
        }
        load.ended.store(true, Ordering::SeqCst);
        let mut last = BTreeMap::new();
        for writer in writers {
            last.extend(writer.await.unwrap());
        }
        reader.await.unwrap();
        let made = maker.await.unwrap();
        assert_eq!(*load.failed.lock(), Vec::<String>::new(), "{:?}", database.place);
        assert!(load.answered.load(Ordering::Relaxed) > 20 && made > 0, "too little to prove anything");

        // Whoever has the last key and no other reads everything; whoever has an earlier one reads nothing.
        let fresh = engine_on(engine.store.clone(), Arc::new(InstallationKeys::new(before[0], [])));
        let listed = ask(&client(&fresh, "a"), "GET", SECRETS, &Value::Null).await.unwrap();
        let items = listed["items"].as_array().unwrap().iter();
        let found: BTreeMap<String, String> = items
            .filter_map(|item| {
                use base64::Engine as _;
                let text = base64::engine::general_purpose::STANDARD.decode(item["data"]["text"].as_str()?);
                let name = item["metadata"]["name"].as_str()?.to_owned();
                Some((name, String::from_utf8(text.unwrap()).unwrap()))
            })
            .collect();
        assert_eq!(found, last);
        for made in 0..made {
            assert!(fresh.planes.find(&format!("made-{made}")).await.unwrap().is_some());
        }
        for old in earlier {
            let old = engine_on(engine.store.clone(), Arc::new(InstallationKeys::new(old, [])));
            assert!(old.planes.find("a").await.is_err());
        }
        engine.store.close().await;
    }
}

#[tokio::test]
async fn a_rotation_that_broke_off_is_finished_at_the_next_start() {
    let database = databases().swap_remove(0);
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("keys/data.key");
    let engine = database.engine(Arc::new(InstallationKeys::new([1; 32], []))).await;
    for plane in ["host", "a", "b"] {
        make(&engine, plane).await;
    }
    // Killed when the file was written and one row of three was encrypted anew.
    write_plain(&path, &[[2; 32], [1; 32]]).unwrap();
    let opened = open(&KeyOptions::default(), data.path(), false, true).await.unwrap();
    let engine = engine_on(engine.store.clone(), opened.keys.clone());
    let limits = engine.change_charter("a", |charter| charter.quota = Default::default()).await;
    limits.map_err(|failure| failure.0).unwrap();
    for plane in ["host", "a", "b"] {
        assert!(engine.planes.find(plane).await.unwrap().is_some(), "both keys are accepted");
    }
    Rotation::new(opened, engine.clone().into()).go_on().await;
    assert_eq!(keys_of(&std::fs::read(&path).unwrap()), Some(vec![[2; 32]]));
    let one = |key: u8| engine_on(engine.store.clone(), Arc::new(InstallationKeys::new([key; 32], [])));
    for plane in ["host", "a", "b"] {
        assert!(one(2).planes.find(plane).await.unwrap().is_some());
        assert!(one(1).planes.find(plane).await.is_err(), "the old key is useless");
    }
}
