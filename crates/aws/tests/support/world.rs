//! A control plane with the definitions of a few kinds, the engine with the driver at work on it, and an emulator behind
//! a proxy. The engine can be killed at any call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Config, Engine as Server};
use async_trait::async_trait;
use aws::client::{CallError, Http};
use aws::credentials::Provider;
use aws::driver::{AwsDriver, Settings};
use aws::grants::{Grant, Grants};
use aws::{crd, endpoint, kinds};
use egress::{Egress, Policies, Policy};
use emulators::{Account, Call, Emulator, Program, Proxy, REGION};
use http::{Method, Request};
use parking_lot::Mutex;
use provision::dialect::ack::place::Defaults;
use provision::{Engine, Limits, Metrics, intent, policies};
use runtime::{Controller, Fleet, Identity, InProcessFleet, Key, Options, Runtime};
use serde_json::{Value, json};
use store::{Embedded, Store};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A service and a kind of it.
pub type Kind = (&'static str, &'static str);

/// How the engine of a world is set up.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// How long a call may take.
    pub timeout: Duration,
    /// How often settled resources are looked at.
    pub interval: Duration,
    /// How long lists may lag behind; emulators show at once what was made.
    pub lag: Duration,
    /// How long is waited for anything to happen.
    pub patience: Duration,
    /// Whether what the engine calls terminal is waited for all the same.
    pub hopeful: bool,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            timeout: Duration::from_secs(60),
            interval: Duration::from_secs(3_600),
            lag: Duration::ZERO,
            patience: Duration::from_secs(60),
            hopeful: true,
        }
    }
}

/// What the operator says of the control plane.
pub struct Operator {
    pub grant: Mutex<Grant>,
    pub policy: Mutex<Policy>,
}

impl Default for Operator {
    fn default() -> Operator {
        Operator { grant: Mutex::new(Grant::Everything), policy: Mutex::default() }
    }
}

#[async_trait]
impl Grants for Operator {
    async fn of(&self, _: &str) -> Grant {
        self.grant.lock().clone()
    }
}

#[async_trait]
impl Policies for Operator {
    async fn of(&self, _: &str) -> Policy {
        self.policy.lock().clone()
    }
}

pub struct World {
    pub operator: Arc<Operator>,
    /// Behind the driver's back.
    account: Account,
    pub proxy: Proxy,
    kube: kube::Client,
    fleet: Arc<InProcessFleet>,
    metrics: Arc<Metrics>,
    running: Mutex<Option<(CancellationToken, JoinHandle<()>)>>,
    tuning: Tuning,
    _server: Arc<Server>,
    _emulator: Arc<Emulator>,
    _directory: TempDir,
}

impl World {
    /// With a moto of its own.
    pub async fn new(of_kinds: &[Kind]) -> World {
        World::tuned(of_kinds, Tuning::default()).await
    }

    pub async fn tuned(of_kinds: &[Kind], tuning: Tuning) -> World {
        let emulator = Emulator::start(Program::Moto);
        let emulator =
            emulator.expect("moto_server cannot be used: cargo xtask test --tools-only installs it");
        World::at(Arc::new(emulator), of_kinds, tuning).await
    }

    pub async fn at(emulator: Arc<Emulator>, of_kinds: &[Kind], tuning: Tuning) -> World {
        let directory = TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(Embedded::open(directory.path(), Default::default()).unwrap());
        let config = Config::new("host", [7; 32], "-----BEGIN CERTIFICATE-----\n", ([127, 0, 0, 1], 6443));
        let server = Server::new(store, config);
        server.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
        let fleet = Arc::new(InProcessFleet::with_cursor(server.clone(), "_clouds"));
        let identity = Identity::administrator("admin", "test");
        let kube = fleet.client("a", &identity);
        let services: BTreeSet<&str> = of_kinds.iter().map(|(service, _)| *service).collect();
        let services: Vec<&str> = services.into_iter().collect();
        let world = World {
            operator: Arc::default(),
            account: Account::at(emulator.url()),
            proxy: Proxy::start(emulator.url(), &services).await,
            kube,
            fleet,
            metrics: Arc::new(Metrics::default()),
            running: Mutex::default(),
            tuning,
            _server: server,
            _emulator: emulator,
            _directory: directory,
        };
        for (service, kind) in of_kinds {
            let definition = crd::definition(kinds::find(service, kind).unwrap()).unwrap();
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            world.send(Method::POST, path, "application/json", &definition).await.unwrap();
        }
        world.start();
        world
    }

    /// Starts the engine. Nothing of before survives in memory.
    pub fn start(&self) {
        let settings = Settings {
            endpoints: endpoint::Settings { url: Some(self.proxy.url()), ..Default::default() },
            defaults: Defaults { region: REGION.into(), ..Defaults::default() },
            lag: self.tuning.lag,
            grants: self.operator.clone(),
            egress: Egress::new(egress::Client::default(), self.operator.clone()),
            ..Settings::default()
        };
        let http = Arc::new(Http::new(self.tuning.timeout));
        let driver = Arc::new(AwsDriver::new(http, Provider::given("test", "test", None), settings));
        let settings =
            provision::Settings { interval: self.tuning.interval, ..provision::Settings::new(&[9; 32]) };
        let engine = Engine::new(driver, settings, Arc::new(Limits::default()), self.metrics.clone());
        let controllers: Vec<Box<dyn Controller>> = vec![Box::new(engine)];
        let options = Options { save_after: Duration::from_millis(20), ..Options::default() };
        let runtime = Runtime::new(self.fleet.clone(), controllers, options);
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { runtime.run(stop).await.unwrap() }
        });
        *self.running.lock() = Some((stop, task));
    }

    /// As if the process had died: no pass is finished, nothing saved.
    pub async fn kill(&self) {
        let running = self.running.lock().take();
        if let Some((_, task)) = running {
            task.abort();
            let _ = task.await;
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        self.kube.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    fn path(kind: Kind, name: &str) -> String {
        let facts = kinds::find(kind.0, kind.1).unwrap();
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        format!("/apis/{}/v1alpha1/namespaces/default/{}{name}", facts.group(), facts.plural)
    }

    /// Without a spec if that is null.
    pub async fn create(&self, kind: Kind, name: &str, annotations: Value, spec: Value) {
        let facts = kinds::find(kind.0, kind.1).unwrap();
        let mut object = json!({
            "apiVersion": format!("{}/v1alpha1", facts.group()), "kind": facts.kind,
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        });
        if !spec.is_null() {
            object["spec"] = spec;
        }
        self.send(Method::POST, &Self::path(kind, ""), "application/json", &object).await.unwrap();
    }

    /// A Secret `trial` with some text under `value`.
    pub async fn create_secret(&self) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "trial", "namespace": "default"},
            "stringData": {"value": "Some-text-1"}});
        let path = "/api/v1/namespaces/default/secrets";
        self.send(Method::POST, path, "application/json", &secret).await.unwrap();
    }

    /// Writes an object of the core API, by its plural; objects of the cluster with an empty namespace.
    pub async fn apply(&self, plural: &str, namespace: &str, object: &Value) {
        let place = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/{place}{plural}/{name}?fieldManager=test&force=true");
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", object).await.unwrap();
    }

    /// Another text under `value` of that Secret.
    pub async fn change_secret(&self, text: &str) {
        let path = "/api/v1/namespaces/default/secrets/trial";
        let patch = json!({"stringData": {"value": text}});
        self.send(Method::PATCH, path, "application/merge-patch+json", &patch).await.unwrap();
    }

    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) {
        let content = "application/merge-patch+json";
        self.send(Method::PATCH, &Self::path(kind, name), content, &patch).await.unwrap();
    }

    /// Has an object looked at now.
    pub async fn nudge(&self, kind: Kind, name: &str) {
        let when = jiff::Timestamp::now().to_string();
        let annotations = json!({policies::RECONCILE: when});
        self.patch(kind, name, json!({"metadata": {"annotations": annotations}})).await;
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        self.send(Method::DELETE, &Self::path(kind, name), "application/json", &json!({})).await.unwrap();
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let facts = kinds::find(kind.0, kind.1).unwrap();
        let stored = format!("{}.{}", facts.plural, facts.group());
        self.fleet.get("a", &Key::new(stored.as_str(), "default", name)).await.unwrap()
    }

    /// Events with this reason.
    pub async fn events(&self, reason: &str) -> Vec<Value> {
        let events = self.fleet.list("a", "events", "default").await.unwrap();
        events.into_iter().filter(|event| event["reason"] == reason).collect()
    }

    /// A call to AWS, as anybody could make it.
    pub async fn call(&self, service: &str, operation: &str, input: Value) -> Result<Value, CallError> {
        self.account.call(service, operation, input).await
    }

    /// How many resources a list of AWS shows.
    pub async fn count(&self, service: &str, list: &str, at: &str) -> usize {
        self.account.count(service, list, at).await
    }

    pub async fn until(&self, kind: Kind, name: &str, what: &str, holds: impl AsyncFn(&World) -> bool) {
        let waited = tokio::time::timeout(self.tuning.patience, async {
            while !holds(self).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if waited.await.is_err() {
            let calls: Vec<String> = self.proxy.take().iter().map(Call::to_string).collect();
            let last = calls[calls.len().saturating_sub(12)..].join(", ");
            let object = self.get(kind, name).await.unwrap_or_default();
            let (conditions, spec) = (&object["status"]["conditions"], &object["spec"]);
            panic!("in vain: {what}; {conditions}; {spec}; {} calls, at last {last}", calls.len());
        }
    }

    pub async fn synced(&self, kind: Kind, name: &str) {
        self.until(kind, name, "synced", async |world| {
            let object = world.get(kind, name).await.unwrap_or_default();
            condition(&object, "ACK.ResourceSynced") == Some("True".to_owned())
        })
        .await;
    }

    pub async fn gone(&self, kind: Kind, name: &str) {
        self.until(kind, name, "gone", async |world| world.get(kind, name).await.is_none()).await;
    }

    /// Waits until the object as it is now has been applied and all is well. Whoever waits may ask for haste.
    pub async fn settled(&self, kind: Kind, name: &str) -> Value {
        let hurrying = self.hurry(kind, name);
        let settled = self.until(kind, name, "settled", async |world| {
            let object = world.get(kind, name).await.unwrap_or_default();
            let hopeless = condition(&object, "ACK.Terminal") == Some("True".to_owned());
            assert!(self.tuning.hopeful || !hopeless, "hopeless: {}", object["status"]["conditions"]);
            is_settled(&object)
        });
        tokio::select! {
            () = settled => {}
            () = hurrying => {}
        }
        self.quiet().await;
        self.get(kind, name).await.unwrap()
    }

    /// Waits until nothing happens any more: whoever was in a hurry may have asked once too often.
    async fn quiet(&self) {
        let now = || (self.metrics.passes(), self.proxy.count());
        let mut before = now();
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let after = now();
            if after == before {
                return;
            }
            before = after;
        }
    }

    /// Waits until the object is gone, and asks for haste meanwhile.
    pub async fn vanished(&self, kind: Kind, name: &str) {
        let hurrying = self.hurry(kind, name);
        tokio::select! {
            () = self.gone(kind, name) => {}
            () = hurrying => {}
        }
    }

    /// Has an object looked at again and again, as somebody would who does not want to wait for the next look: as soon as
    /// a look is over that did not settle it.
    async fn hurry(&self, kind: Kind, name: &str) {
        let mut seen = self.metrics.passes();
        loop {
            let idle = async {
                while self.metrics.passes() == seen {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_millis(400), idle).await;
            seen = self.metrics.passes();
            if self.get(kind, name).await.is_some_and(|object| !is_settled(&object)) {
                let annotations = json!({policies::RECONCILE: jiff::Timestamp::now().to_string()});
                let patch = json!({"metadata": {"annotations": annotations}});
                let content = "application/merge-patch+json";
                // It may be gone by now.
                let _ = self.send(Method::PATCH, &Self::path(kind, name), content, &patch).await;
            }
            // Not more often than an account can bear.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Has an object looked at once, and gives the calls that it took.
    pub async fn pass(&self, kind: Kind, name: &str) -> Vec<Call> {
        self.proxy.take();
        let before = self.metrics.passes();
        self.nudge(kind, name).await;
        self.until(kind, name, "looked at", async |world| world.metrics.passes() > before).await;
        self.proxy.take()
    }

    /// Waits until nothing is under way any more: what was done last may have left a look behind.
    pub async fn at_rest(&self) {
        let under_way = || (self.metrics.passes(), self.proxy.count());
        let resting = async {
            let mut last = under_way();
            loop {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let now = under_way();
                if std::mem::replace(&mut last, now) == now {
                    break;
                }
            }
        };
        // One that never rests is looked at all the same.
        let _ = tokio::time::timeout(self.tuning.patience, resting).await;
    }

    pub async fn stop(self) {
        let running = self.running.lock().take();
        if let Some((stop, task)) = running {
            stop.cancel();
            let _ = task.await;
        }
    }
}

/// A test that fails leaves no engine behind that goes on asking the emulator of the others.
impl Drop for World {
    fn drop(&mut self) {
        if let Some((_, task)) = self.running.lock().take() {
            task.abort();
        }
    }
}

pub fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

/// Whether an object says that it is applied as it stands, is synced, and has nothing to complain of.
fn is_settled(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    let applied = annotations[policies::APPLIED].as_str().unwrap_or("{}");
    let applied: Value = serde_json::from_str(applied).unwrap();
    let complaint = |kind: &str| condition(object, kind) == Some("True".to_owned());
    applied["generation"] == object["metadata"]["generation"]
        && annotations.get(intent::ANNOTATION).is_none()
        && condition(object, "ACK.ResourceSynced") == Some("True".to_owned())
        && !["ACK.Terminal", "ACK.Recoverable", "ACK.Advisory"].into_iter().any(complaint)
}
