//! A server with one control plane, the kinds of a provider, and the engine at work on it. It can be killed.

use std::sync::Arc;
use std::time::Duration;

use apiserver::catalog::Offer;
use apiserver::{Config, Engine as Server};
use http::{Method, Request};
use objects::{Value as Json, meta};
use provision::{Engine, Limits, Metrics, Pace, Reviewing, Settings};
use runtime::{Controller, Fleet, Identity, InProcessFleet, Key, Options, Runtime};
use serde_json::json;
use store::{Embedded, Store};
use tempfile::TempDir;
use terraform::driver::Terraform;
use terraform::module::Modules;
use terraform::openings::Openings;
use terraform::plugin::Launch;
use terraform::providers::Providers;
use terraform::queries::Queries;
use terraform::registry::{Registry, Served};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::world::*;

/// A debug build on a machine that others load as well.
const PATIENCE: Duration = Duration::from_secs(120);
/// Who does nothing for so long has nothing to do.
const QUIET: Duration = Duration::from_millis(1_500);
pub const THINGS: &str = "things.thing.shelf.kubeform.com";

/// Where the servers of tests are.
const LOOPBACK: &str = "127.0.0.0/8,::1";

pub struct Plane {
    pub world: World,
    registry: Arc<Registry>,
    server: Arc<Server>,
    fleet: Arc<InProcessFleet>,
    client: kube::Client,
    /// How long the engine waits for a driver that does not say itself how long that may be.
    pub patience: Duration,
    /// Of calls to the cloud.
    pub pace: Pace,
    /// Ranges that the control plane may connect to.
    egress: &'static str,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    _directory: TempDir,
}

impl Plane {
    /// With the shelf as its provider.
    pub async fn new() -> Plane {
        Plane::of(World::new(), "shelf", Launch::new(shelf_program())).await
    }

    /// With the shelf, and destinations in these ranges beside public ones.
    pub async fn reaching(egress: &'static str) -> Plane {
        Plane::with(World::new(), Some(("shelf", Launch::new(shelf_program()))), egress).await
    }

    pub async fn of(world: World, name: &str, launch: Launch) -> Plane {
        Plane::with(world, Some((name, launch)), LOOPBACK).await
    }

    /// Without any provider but those that objects name.
    pub async fn bare() -> Plane {
        Plane::bare_in(World::new()).await
    }

    pub async fn bare_in(world: World) -> Plane {
        let plane = Plane::with(world, None, LOOPBACK).await;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        plane.send(Method::POST, path, &terraform::providers::definition()).await.unwrap();
        plane
    }

    async fn with(world: World, provider: Option<(&str, Launch)>, egress: &'static str) -> Plane {
        let directory = TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(Embedded::open(directory.path(), Default::default()).unwrap());
        let config = Config::new("host", [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
        let server = Server::new(store, config);
        server.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
        let registry = Arc::new(Registry::default());
        if let Some((name, launch)) = provider {
            let catalogue = world.pool.catalogue(&launch, DIGEST).await.unwrap();
            registry.set(Served {
                name: name.into(),
                address: format!("example.com/test/{name}"),
                program: Some(launch),
                digest: DIGEST.into(),
                catalogue,
            });
        }
        let fleet = Arc::new(InProcessFleet::with_cursor(server.clone(), "_clouds"));
        let identity = Identity::administrator("admin", "test");
        let client = fleet.client("a", &identity);
        let patience = Settings::new(&[9; 32]).patience;
        let mut plane = Plane {
            world,
            registry,
            server,
            fleet,
            client,
            patience,
            pace: Pace::default(),
            egress,
            running: None,
            _directory: directory,
        };
        plane.start();
        // What comes during the first sweep is found by it and told of as well, and so may be looked at twice.
        let began = tokio::time::Instant::now();
        while !plane.fleet.load().await.is_ok_and(|cursor| cursor.is_some()) {
            assert!(began.elapsed() < PATIENCE, "the first sweep does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        plane
    }

    pub fn start(&mut self) {
        let (interval, patience) = (Duration::from_secs(3_600), self.patience);
        let settings = Settings { interval, patience, ..Settings::new(&[9; 32]) };
        let driver = Terraform::new(self.registry.clone(), self.world.pool.clone(), &[5; 32]).unwrap();
        let policy = egress::Policy::new(self.egress.parse().unwrap());
        let driver = driver.with_egress(egress::Egress::new(Default::default(), Arc::new(policy)));
        let driver = driver.with_openings(Openings::kept_for(Duration::from_millis(400)));
        let engine = Engine::new(
            Arc::new(driver),
            settings,
            Arc::new(Limits::new(self.pace)),
            Arc::new(Metrics::default()),
        );
        offer(&self.server, &engine);
        let options = Options { save_after: Duration::from_millis(20), ..Options::default() };
        let changed = Arc::new(tokio::sync::Notify::new());
        let providers = Providers {
            registry: self.registry.clone(),
            pool: self.world.pool.clone(),
            hosting: "a".into(),
            cache: self.world.cloud.path().join("cache"),
            directory: None,
            fleets: vec![self.fleet.clone()],
            tells: true,
            changed: {
                let (server, engine, changed) = (self.server.clone(), engine.clone(), changed.clone());
                Arc::new(move || {
                    offer(&server, &engine);
                    changed.notify_one();
                })
            },
        };
        let directory = self.world.cloud.path().join("modules");
        let openings = engine.driver().openings().clone();
        let modules = Modules::new(engine.clone(), Some(directory));
        let queries = Queries::new(engine.clone());
        let controllers: Vec<Box<dyn Controller>> =
            vec![Box::new(engine), Box::new(providers), Box::new(modules), Box::new(queries)];
        let runtime = Runtime::new(self.fleet.clone(), controllers, options);
        let handle = runtime.handle();
        tokio::spawn(async move {
            loop {
                changed.notified().await;
                handle.kinds_changed().await;
            }
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (stop, pool) = (stop.clone(), self.world.pool.clone());
            async move {
                pool.until_ended(stop.cancelled(), runtime.run(stop.clone())).await.unwrap();
                openings.close().await;
            }
        });
        self.running = Some((stop, task));
    }

    /// As if our process had died; its plugins die with it.
    pub async fn kill(&mut self) {
        if let Some((_, task)) = self.running.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// As our process ends when it is told to.
    pub async fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.unwrap();
        }
    }

    /// How often the shelf was asked for a change.
    pub fn applies(&self) -> usize {
        self.asked("ApplyResourceChange")
    }

    /// How often the shelf got one call.
    pub fn asked(&self, method: &str) -> usize {
        let calls = std::fs::read_to_string(self.world.cloud.path().join("calls")).unwrap_or_default();
        calls.lines().filter(|call| *call == method).count()
    }

    /// Has an object looked at, and waits until the provider was asked for its plan of it.
    pub async fn look(&self, kind: &str, name: &str) {
        let before = self.asked("PlanResourceChange");
        self.nudge(kind, name).await;
        self.until(kind, name, |_| self.asked("PlanResourceChange") > before).await;
    }

    /// Waits until nobody asks the shelf for anything any more.
    pub async fn rest(&self) {
        let began = tokio::time::Instant::now();
        loop {
            let calls = self.calls();
            tokio::time::sleep(QUIET).await;
            if self.calls() == calls {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the shelf is asked again and again");
        }
    }

    /// Writes an object as a manifest has it, and nothing else of it.
    pub async fn replace(&self, kind: &str, name: &str, object: Json) -> Json {
        self.send(Method::PUT, &Self::path(kind, name), &object).await.unwrap()
    }

    /// Calls that the shelf was asked since its file of them was last emptied.
    pub fn calls(&self) -> usize {
        let calls = std::fs::read_to_string(self.world.cloud.path().join("calls")).unwrap_or_default();
        calls.lines().count()
    }

    /// Another process, with a pool of its own.
    pub async fn restart(&mut self) {
        self.kill().await;
        self.world.renew();
        self.start();
    }

    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub async fn send(&self, method: Method, path: &str, body: &Json) -> Result<Json, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        self.client.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    fn path(kind: &str, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        match kind.split_once('.') {
            Some((plural, group)) if is_cluster_scoped(kind) => {
                format!("/apis/{group}/v1alpha1/{plural}{slash}{name}")
            }
            Some((plural, group)) => {
                format!("/apis/{group}/v1alpha1/namespaces/default/{plural}{slash}{name}")
            }
            None => format!("/api/v1/namespaces/default/{kind}{slash}{name}"),
        }
    }

    pub async fn create(&self, kind: &str, object: Json) -> Json {
        self.try_create(kind, object).await.unwrap()
    }

    pub async fn try_create(&self, kind: &str, object: Json) -> Result<Json, kube::Error> {
        self.send(Method::POST, &Self::path(kind, ""), &object).await
    }

    pub async fn secret(&self, name: &str, key: &str, value: Json) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {key: value.to_string()},
        });
        self.create("secrets", secret).await;
    }

    /// The Secret with the provider's configuration.
    pub async fn provider_secret(&self) {
        let directory = self.world.cloud.path().to_str().unwrap();
        self.secret("shelf", "provider", json!({"directory": directory})).await;
    }

    pub async fn thing(&self, name: &str, spec: Json) -> Json {
        self.create(THINGS, thing(name, spec)).await
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Json) -> Json {
        self.try_patch(kind, name, patch).await.unwrap()
    }

    pub async fn nudge(&self, kind: &str, name: &str) {
        let now = jiff::Timestamp::now().to_string();
        self.patch(kind, name, json!({"metadata": {"annotations": {"hangar.dev/reconcile": now}}})).await;
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        self.try_delete(kind, name).await.unwrap();
    }

    pub async fn try_delete(&self, kind: &str, name: &str) -> Result<Json, kube::Error> {
        self.send(Method::DELETE, &Self::path(kind, name), &json!({})).await
    }

    pub async fn try_patch(&self, kind: &str, name: &str, patch: Json) -> Result<Json, kube::Error> {
        self.send(Method::PATCH, &Self::path(kind, name), &patch).await
    }

    pub async fn get(&self, kind: &str, name: &str) -> Option<Json> {
        let namespace = if is_cluster_scoped(kind) { "" } else { "default" };
        self.fleet.get("a", &Key::new(kind, namespace, name)).await.unwrap()
    }

    /// What a file says, once it is there.
    pub async fn until_file(&self, path: &std::path::Path) -> String {
        let began = tokio::time::Instant::now();
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if !text.is_empty() => return text,
                _ => assert!(began.elapsed() < PATIENCE, "{} does not come", path.display()),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn list(&self, kind: &str) -> Vec<Json> {
        self.fleet.list("a", kind, "default").await.unwrap()
    }

    #[track_caller]
    pub fn until<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        holds: impl Fn(Option<&Json>) -> bool + 'a,
    ) -> impl Future<Output = Option<Json>> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let began = tokio::time::Instant::now();
            loop {
                let object = self.get(kind, name).await;
                if holds(object.as_ref()) {
                    return object;
                }
                assert!(began.elapsed() < PATIENCE, "in vain at {caller}: {object:#?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Settled: the phase is Current, and of the latest generation.
    #[track_caller]
    pub fn current<'a>(&'a self, kind: &'a str, name: &'a str) -> impl Future<Output = Json> + 'a {
        let settled = self.until(kind, name, |object| {
            object.is_some_and(|object| {
                object["status"]["phase"] == "Current"
                    && object["status"]["observedGeneration"] == json!(meta::generation(object))
            })
        });
        async move { settled.await.unwrap() }
    }

    /// Failed, with this in the message.
    #[track_caller]
    pub fn failed<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        says: &'a str,
    ) -> impl Future<Output = Json> + 'a {
        self.told(kind, name, ("Failed", "Stalled"), says)
    }

    /// Waiting for something else, with this in the message; that is no failure.
    #[track_caller]
    pub fn waits<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        says: &'a str,
    ) -> impl Future<Output = Json> + 'a {
        self.told(kind, name, ("InProgress", "Reconciling"), says)
    }

    #[track_caller]
    fn told<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        (phase, condition): (&'a str, &'a str),
        says: &'a str,
    ) -> impl Future<Output = Json> + 'a {
        let told = self.until(kind, name, move |object| {
            object.is_some_and(|object| {
                object["status"]["phase"] == phase && message(object, condition).contains(says)
            })
        });
        async move { told.await.unwrap() }
    }

    #[track_caller]
    pub fn gone<'a>(&'a self, kind: &'a str, name: &'a str) -> impl Future<Output = Option<Json>> + 'a {
        self.until(kind, name, |object| object.is_none())
    }
}

fn is_cluster_scoped(kind: &str) -> bool {
    [terraform::providers::RESOURCE, terraform::module::kinds::DEFINITIONS].contains(&kind)
}

fn offer(server: &Arc<Server>, engine: &Engine<Terraform>) {
    let offers = engine.driver().registry().offers().into_iter().map(|offer| Offer {
        definition: offer.definition,
        schema: Arc::new(move |_| (offer.schema)()),
        fingerprint: offer.fingerprint,
    });
    let review = Arc::new(Reviewing::new(engine.clone(), server));
    server.planes.catalogs.offer_reviewed("terraform", offers.collect(), review);
}

pub fn thing(name: &str, mut spec: Json) -> Json {
    if spec.get("providerRef").is_none() {
        spec["providerRef"] = json!({"name": "shelf"});
    }
    json!({
        "apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing", "metadata": {"name": name}, "spec": spec,
    })
}

pub fn message(object: &Json, kind: &str) -> String {
    let all = object.pointer("/status/conditions").and_then(Json::as_array);
    let one = all.into_iter().flatten().find(|one| one["type"] == kind);
    one.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned()
}

/// What a Secret holds under a key.
pub fn secret_value(secret: &Json, key: &str) -> Option<String> {
    use base64::Engine as _;
    let text = secret["data"][key].as_str()?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
