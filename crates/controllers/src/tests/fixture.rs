use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Config, Engine};
use futures::StreamExt;
use objects::Value;
use runtime::{Fleet, Handle, Identity, InProcessFleet, Options, Runtime};
use serde_json::json;
use store::{Embedded, Store};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::resource::{Delete, Propagation, Resource};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server with its controllers, in a directory of its own.
pub struct Fixture {
    pub engine: Arc<Engine>,
    pub store: Arc<dyn Store>,
    directory: TempDir,
    running: Option<Running>,
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    handle: Handle,
}

fn open(directory: &Path) -> (Arc<dyn Store>, Arc<Engine>) {
    let store: Arc<dyn Store> = Arc::new(Embedded::open(directory, Default::default()).unwrap());
    let config = Config::new("host", [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
    (store.clone(), Engine::new(store, config))
}

impl Fixture {
    /// With one control plane, `a`, and all controllers at work.
    pub async fn new() -> Fixture {
        let mut fixture = Fixture::stopped().await;
        fixture.start();
        fixture
    }

    pub async fn stopped() -> Fixture {
        let directory = TempDir::new().unwrap();
        let (store, engine) = open(directory.path());
        let fixture = Fixture { engine, store, directory, running: None };
        fixture.create("a").await;
        fixture
    }

    pub async fn create(&self, name: &str) {
        self.engine.create_control_plane(name).await.map_err(|failure| failure.0).unwrap();
    }

    pub fn start(&mut self) {
        let fleet = Arc::new(InProcessFleet::new(self.engine.clone()));
        let options = Options { save_after: Duration::from_millis(50), ..Options::default() };
        let runtime = Runtime::new(fleet, crate::denatured(&self.engine), options);
        let (stop, handle) = (CancellationToken::new(), runtime.handle());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { runtime.run(stop).await.unwrap() }
        });
        self.running = Some(Running { stop, task, handle });
    }

    pub fn handle(&self) -> &Handle {
        &self.running.as_ref().expect("the controllers run").handle
    }

    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.cancel();
            running.task.await.unwrap();
        }
    }

    /// As if the process had died: no reconcile is finished, nothing saved.
    pub async fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.task.abort();
            let _ = running.task.await;
        }
    }

    pub async fn reopen(mut self) -> Fixture {
        self.stop().await;
        self.store.close().await;
        let Fixture { engine, store, directory, .. } = self;
        drop((engine, store));
        // The lock goes with the last of the store's threads.
        for _ in 0..200 {
            if let Ok(probe) = Embedded::open(directory.path(), Default::default()) {
                probe.close().await;
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (store, engine) = open(directory.path());
        Fixture { engine, store, directory, running: None }
    }

    /// A user who may do everything.
    pub async fn plane(&self, name: &str) -> Plane {
        self.plane_of(&self.engine, name).await
    }

    pub async fn plane_of(&self, engine: &Arc<Engine>, name: &str) -> Plane {
        let id = engine.planes.find(name).await.unwrap().unwrap().id;
        let identity = Identity::administrator("admin", "test");
        let fleet = Arc::new(InProcessFleet::new(engine.clone()));
        let client = fleet.client(name, &identity);
        Plane { name: name.to_owned(), client, id, fleet, store: self.store.clone() }
    }
}

/// One control plane, as its administrator sees it.
pub struct Plane {
    pub name: String,
    pub client: kube::Client,
    pub id: store::TenantId,
    fleet: Arc<InProcessFleet>,
    store: Arc<dyn Store>,
}

impl Plane {
    fn place(object: &Value) -> (String, String) {
        let kind = objects::meta::kind(object).to_ascii_lowercase();
        (format!("{kind}s"), objects::meta::api_version(object).to_owned())
    }

    /// Creates an object; its kind tells where.
    pub async fn create(&self, object: Value) -> Value {
        let (plural, version) = Self::place(&object);
        let resource = Resource::new(&self.client, &version, objects::meta::namespace(&object), &plural);
        match resource.create(&object).await {
            Ok(created) => created,
            Err(error) => panic!("{object} cannot be created: {error}"),
        }
    }

    pub async fn namespace(&self, name: &str) -> Value {
        self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await
    }

    /// A config map with owners and finalizers.
    pub async fn map(&self, namespace: &str, name: &str, owners: Value, finalizers: &[&str]) -> Value {
        self.create(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners, "finalizers": finalizers},
        }))
        .await
    }

    pub fn resource(&self, namespace: &str, plural: &str) -> Resource<'_> {
        Resource::core(&self.client, namespace, plural)
    }

    pub async fn delete(&self, kind: &str, namespace: &str, name: &str, propagation: Option<Propagation>) {
        let options = Delete { propagation, ..Delete::default() };
        assert!(
            self.resource(namespace, kind).delete(name, &options).await.unwrap(),
            "{kind} {name} is not there"
        );
    }

    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        self.fleet.get(&self.name, &store::Key::new(kind, namespace, name)).await.unwrap()
    }

    pub async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        self.fleet.list(&self.name, kind, namespace).await.unwrap()
    }

    pub async fn unfinalize(&self, kind: &str, namespace: &str, name: &str) {
        let patch = json!({"metadata": {"finalizers": null}});
        self.resource(namespace, kind).patch(name, "", &patch).await.unwrap();
    }

    /// Waits until something holds, looking again whenever anything changes.
    #[track_caller]
    pub fn until<'a>(
        &'a self,
        what: &'a str,
        holds: impl AsyncFn(&Plane) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let from = self.store.revision(self.id).await.unwrap();
            let mut changes = self.store.watch(self.id, store::Scope::All, from).await.unwrap();
            let waited = tokio::time::timeout(PATIENCE, async {
                while !holds(self).await {
                    changes.next().await.unwrap().unwrap();
                }
            });
            assert!(waited.await.is_ok(), "in vain at {caller}: {what}");
        }
    }

    #[track_caller]
    pub fn gone<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> impl Future<Output = ()> + 'a {
        self.until(name, async move |plane| plane.get(kind, namespace, name).await.is_none())
    }

    #[track_caller]
    pub fn there<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> impl Future<Output = ()> + 'a {
        self.until(name, async move |plane| plane.get(kind, namespace, name).await.is_some())
    }

    /// Gives controllers time to do what they should not do.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// A reference to an owner.
pub fn owner(object: &Value, block: bool) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"], "blockOwnerDeletion": block,
    })
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|one| one["type"] == kind)
}
