//! A server with one control plane, its definitions, and the engine at work on it. It can be killed at any call.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Config, Engine as Server};
use async_trait::async_trait;
use futures::StreamExt;
use http::{Method, Request};
use objects::{CompactString, Value, meta};
use runtime::{
    Changes, Controller, Cursor, Fleet, FleetError, Identity, InProcessFleet, Key, Kinds, Options, Position,
    Runtime, Stream,
};
use serde_json::json;
use store::{Embedded, Revision, Store};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cloud::{Cloud, Fault};
use super::driver::{KINDS, TestDriver};
use crate::dialect::ack::definitions;
use crate::dialect::ack::exports::FieldExports;
use crate::{Engine, Limits, Metrics, Settings};

const PATIENCE: Duration = Duration::from_secs(90);

/// The fleet of the process, but every write of a controller is a call that may be its last.
pub struct MortalFleet {
    inner: InProcessFleet,
    cloud: Arc<Cloud>,
}

#[async_trait]
impl Fleet for MortalFleet {
    async fn follow(&self, kinds: &Kinds, from: Position) -> Result<Changes, FleetError> {
        self.inner.follow(kinds, from).await
    }

    fn sweep(
        &self,
        kinds: &Kinds,
        control_plane: Option<CompactString>,
        after: Option<(CompactString, Key)>,
    ) -> Stream {
        self.inner.sweep(kinds, control_plane, after)
    }

    fn replay(&self, kinds: &Kinds, control_plane: CompactString, after: Revision, to: Revision) -> Stream {
        self.inner.replay(kinds, control_plane, after, to)
    }

    async fn position(&self) -> Result<Position, FleetError> {
        self.inner.position().await
    }

    async fn get(&self, control_plane: &str, key: &Key) -> Result<Option<Value>, FleetError> {
        self.inner.get(control_plane, key).await
    }

    async fn list(&self, control_plane: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, FleetError> {
        self.inner.list(control_plane, kind, namespace).await
    }

    fn client(&self, control_plane: &str, identity: &Identity) -> kube::Client {
        let (client, cloud) = (self.inner.client(control_plane, identity), self.cloud.clone());
        let mortal = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (client, cloud) = (client.clone(), cloud.clone());
            async move {
                // Events are for people; nothing depends on them.
                let counts = request.method() == Method::PATCH;
                match counts.then(|| cloud.tripwire.pass()).flatten() {
                    Some(Fault::CrashBefore) => cloud.tripwire.crash().await,
                    Some(Fault::CrashAfter) => {
                        let _ = client.send(request).await;
                        cloud.tripwire.crash().await
                    }
                    _ => client.send(request).await,
                }
            }
        });
        kube::Client::new(mortal, "default")
    }

    async fn load(&self) -> Result<Option<Cursor>, FleetError> {
        self.inner.load().await
    }

    async fn save(&self, cursor: &Cursor) -> Result<(), FleetError> {
        self.inner.save(cursor).await
    }
}

pub struct Fixture {
    pub cloud: Arc<Cloud>,
    pub engine: Engine<TestDriver>,
    pub metrics: Arc<Metrics>,
    pub fleet: Arc<MortalFleet>,
    pub server: Arc<Server>,
    store: Arc<dyn Store>,
    pub client: kube::Client,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    _directory: TempDir,
}

fn definition(resource: &str, kind: &str) -> Value {
    let (plural, group) = resource.split_once('.').unwrap();
    let open = |properties: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties});
    let short = |longest: u32| json!({"type": "string", "maxLength": longest});
    let schema =
        open(json!({"spec": open(json!({"zone": short(6)})), "status": open(json!({"note": short(20)}))}));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": resource},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

impl Fixture {
    pub async fn new() -> Fixture {
        let directory = TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(Embedded::open(directory.path(), Default::default()).unwrap());
        let config = Config::new("host", [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
        let server = Server::new(store.clone(), config);
        server.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
        let cloud = Arc::new(Cloud::default());
        let fleet = Arc::new(MortalFleet {
            inner: InProcessFleet::with_cursor(server.clone(), "_clouds"),
            cloud: cloud.clone(),
        });
        let identity = Identity::administrator("admin", "test");
        let client = fleet.inner.client("a", &identity);
        let metrics = Arc::new(Metrics::default());
        let engine = Self::engine(&cloud, &metrics);
        let mut fixture = Fixture {
            cloud,
            engine,
            metrics,
            fleet,
            server,
            store,
            client,
            running: None,
            _directory: directory,
        };
        for (resource, kind) in KINDS {
            fixture.create(definition(resource, kind)).await;
        }
        for definition in definitions::all() {
            fixture.create(definition).await;
        }
        fixture.start();
        // What comes during the first sweep is found by it and told of as well, and so may be looked at twice.
        fixture
            .until("the first sweep is over", async |f| f.fleet.load().await.is_ok_and(|told| told.is_some()))
            .await;
        fixture
    }

    fn engine(cloud: &Arc<Cloud>, metrics: &Arc<Metrics>) -> Engine<TestDriver> {
        let settings = Settings { interval: Duration::from_secs(3_600), ..Settings::new(&[9; 32]) };
        let driver = Arc::new(TestDriver::new(cloud.clone()));
        Engine::new(driver, settings, Arc::new(Limits::default()), metrics.clone())
    }

    pub fn start(&mut self) {
        // Nothing of before survives in memory.
        self.engine = Self::engine(&self.cloud, &self.metrics);
        let options = Options { save_after: Duration::from_millis(20), ..Options::default() };
        let exports = FieldExports::new(self.engine.driver().clone(), true);
        let controllers: Vec<Box<dyn Controller>> = vec![Box::new(self.engine.clone()), Box::new(exports)];
        let runtime = Runtime::new(self.fleet.clone(), controllers, options);
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { runtime.run(stop).await.unwrap() }
        });
        self.running = Some((stop, task));
    }

    /// As if the process had died: no reconcile is finished, nothing saved.
    pub async fn kill(&mut self) {
        if let Some((_, task)) = self.running.take() {
            task.abort();
            let _ = task.await;
        }
    }

    pub async fn restart(&mut self) {
        self.kill().await;
        self.start();
    }

    fn path(kind: &str, namespace: &str, name: &str) -> String {
        let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
        let version = if group == "services.k8s.aws" {
            format!("apis/{group}/v1alpha1")
        } else if !group.is_empty() {
            format!("apis/{group}/v1")
        } else {
            "api/v1".to_owned()
        };
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        match namespace {
            "" => format!("/{version}/{plural}{name}"),
            namespace => format!("/{version}/namespaces/{namespace}/{plural}{name}"),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        self.client.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    /// Creates any object; its kind tells where.
    pub async fn create(&self, object: Value) -> Value {
        let group = meta::api_version(&object).split_once('/').map_or("", |(group, _)| group);
        let plural = format!("{}s", meta::kind(&object).to_lowercase());
        let kind = if group.is_empty() { plural } else { format!("{plural}.{group}") };
        let path = Self::path(&kind, meta::namespace(&object), "");
        self.send(Method::POST, &path, "application/json", &object).await.unwrap()
    }

    /// Creates an object of the cloud.
    pub async fn make(&self, kind: &str, name: &str, annotations: Value, spec: Value) -> Value {
        let (_, singular) = KINDS.iter().find(|(resource, _)| *resource == kind).unwrap();
        let metadata = json!({"name": name, "namespace": "default", "annotations": annotations});
        self.create(
            json!({"apiVersion": "cloud.test/v1", "kind": singular, "metadata": metadata, "spec": spec}),
        )
        .await
    }

    pub async fn secret(&self, name: &str, password: &str) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
            "stringData": {"password": password},
        }))
        .await;
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        let path = Self::path(kind, "default", name);
        self.send(Method::PATCH, &path, "application/merge-patch+json", &patch).await.unwrap()
    }

    pub async fn patch_namespace(&self, patch: Value) {
        let path = "/api/v1/namespaces/default";
        self.send(Method::PATCH, path, "application/merge-patch+json", &patch).await.unwrap();
    }

    pub async fn edit(&self, kind: &str, name: &str, spec: Value) -> Value {
        self.patch(kind, name, json!({"spec": spec})).await
    }

    pub async fn annotate(&self, kind: &str, name: &str, annotations: Value) -> Value {
        self.patch(kind, name, json!({"metadata": {"annotations": annotations}})).await
    }

    /// Has it looked at now.
    pub async fn nudge(&self, kind: &str, name: &str) {
        let when = jiff::Timestamp::now().to_string();
        self.annotate(kind, name, json!({crate::policies::RECONCILE: when})).await;
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        let path = Self::path(kind, "default", name);
        self.send(Method::DELETE, &path, "application/json", &json!({})).await.unwrap();
    }

    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.fleet.get("a", &Key::new(kind, "default", name)).await.unwrap()
    }

    pub async fn list(&self, kind: &str) -> Vec<Value> {
        self.fleet.list("a", kind, "default").await.unwrap()
    }

    /// Waits until something holds, looking again whenever anything changes.
    #[track_caller]
    pub fn until<'a>(
        &'a self,
        what: &'a str,
        holds: impl AsyncFn(&Fixture) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let plane = self.server.planes.find("a").await.unwrap().unwrap().id;
            let from = self.store.revision(plane).await.unwrap();
            let mut changes = self.store.watch(plane, store::Scope::All, from).await.unwrap();
            let waited = tokio::time::timeout(PATIENCE, async {
                while !holds(self).await {
                    // Not all that is waited for is a change of the control plane.
                    let _ = tokio::time::timeout(Duration::from_millis(50), changes.next()).await;
                }
            });
            if waited.await.is_err() {
                let mut left = Vec::new();
                for (kind, _) in KINDS {
                    left.extend(self.list(kind).await);
                }
                let sprung = self.cloud.tripwire.is_sprung();
                let running = self.running.as_ref().is_some_and(|(_, task)| !task.is_finished());
                panic!("in vain at {caller}: {what}; sprung {sprung}, running {running}; {left:#?}");
            }
        }
    }

    #[track_caller]
    pub fn synced<'a>(&'a self, kind: &'a str, name: &'a str) -> impl Future<Output = ()> + 'a {
        self.until("synced", async move |f| {
            let Some(object) = f.get(kind, name).await else { return false };
            let applied = crate::applied::Applied::of(&object).generation == Some(meta::generation(&object));
            applied && condition(&object, "ACK.ResourceSynced").is_some_and(|one| one["status"] == "True")
        })
    }

    #[track_caller]
    pub fn gone<'a>(&'a self, kind: &'a str, name: &'a str) -> impl Future<Output = ()> + 'a {
        self.until("gone", async move |f| f.get(kind, name).await.is_none())
    }

    /// Waits for a condition with this status and a text in its message or reason.
    #[track_caller]
    pub fn told<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        condition_type: &'a str,
        status: &'a str,
        text: &'a str,
    ) -> impl Future<Output = ()> + 'a {
        self.until(condition_type, async move |f| {
            let Some(object) = f.get(kind, name).await else { return false };
            let all =
                object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            all.iter().any(|one| {
                let says = format!("{} {}", one["reason"], one["message"]);
                one["type"] == condition_type && one["status"] == status && says.contains(text)
            })
        })
    }

    /// Waits until the last pass is over, so that its calls are not taken for those of the next.
    pub async fn settle_writes(&self) {
        tokio::time::sleep(Duration::from_millis(30)).await;
    }

    /// Waits until the cloud is not called any more, for a while at least.
    pub async fn rest(&self) {
        let rests = async {
            loop {
                self.cloud.calls();
                tokio::time::sleep(Duration::from_secs(1)).await;
                if self.cloud.calls().is_empty() {
                    return;
                }
            }
        };
        assert!(tokio::time::timeout(PATIENCE, rests).await.is_ok(), "the cloud is called again and again");
    }

    /// Gives the engine time to do what it should not do.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|one| one["type"] == kind)
}
