//! A control plane with the definitions of a few kinds, the engine with the driver at work on it, and an emulator.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Config, Engine as Server};
use auth::user::{MASTERS, UserInfo};
use aws::client::{Client, Http};
use aws::credentials::Provider;
use aws::driver::{AwsDriver, Settings};
use aws::{crd, endpoint, kinds, model};
use http::{HeaderValue, Method, Request};
use provision::dialect::ack::place::Defaults;
use provision::{Engine, Limits, Metrics};
use runtime::{Controller, Fleet, Identity, InProcessFleet, Key, Options, Runtime};
use serde_json::{Value, json};
use store::{Embedded, Store};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::emulator::{Emulator, Program};

const PATIENCE: Duration = Duration::from_secs(60);
pub const REGION: &str = "eu-west-1";

pub struct World {
    /// For looking at AWS, and changing it, behind the driver's back.
    pub aws: Client,
    kube: kube::Client,
    fleet: Arc<InProcessFleet>,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    driver_url: String,
    server: Arc<Server>,
    _emulator: Emulator,
    _directory: TempDir,
}

fn client(url: &str) -> Client {
    let settings = endpoint::Settings { url: Some(url.to_owned()), ..Default::default() };
    let http = Arc::new(Http::new(Duration::from_secs(60)).unwrap());
    Client::new(http, Provider::given("test", "test", None), REGION, settings)
}

impl World {
    pub async fn new(of_kinds: &[(&str, &str)]) -> World {
        let emulator = Emulator::start(Program::Moto);
        let emulator =
            emulator.expect("moto_server cannot be used: cargo xtask test --tools-only installs it");
        let directory = TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(Embedded::open(directory.path(), Default::default()).unwrap());
        let config = Config {
            hosting: "host".into(),
            data_key: [7; 32],
            serving_authority: "-----BEGIN CERTIFICATE-----\n".into(),
            address: ([127, 0, 0, 1], 6443).into(),
            limits: Default::default(),
            admin_token: None,
            audit: None,
        };
        let server = Server::new(store, config);
        server.create_control_plane("a").await.map_err(|failure| failure.0).unwrap();
        let fleet = Arc::new(InProcessFleet::with_cursor(server.clone(), "_clouds"));
        let identity = Identity {
            user: Arc::new(UserInfo::new("admin", [MASTERS]).authenticated()),
            agent: HeaderValue::from_static("test"),
        };
        let kube = fleet.client("a", &identity);
        let mut world = World {
            aws: client(emulator.url()),
            kube,
            fleet,
            running: None,
            driver_url: emulator.url().to_owned(),
            server,
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
    pub fn start(&mut self) {
        let settings = Settings {
            endpoints: endpoint::Settings { url: Some(self.driver_url.clone()), ..Default::default() },
            defaults: Defaults { region: REGION.into(), ..Defaults::default() },
            ..Settings::default()
        };
        let http = Arc::new(Http::new(Duration::from_secs(60)).unwrap());
        let driver = Arc::new(AwsDriver::new(http, Provider::given("test", "test", None), settings));
        let settings = provision::Settings {
            interval: Duration::from_secs(3_600),
            ..provision::Settings::new(&[9; 32])
        };
        let engine = Engine::new(driver, settings, Arc::new(Limits::default()), Arc::new(Metrics::default()));
        let controllers: Vec<Box<dyn Controller>> = vec![Box::new(engine)];
        let runtime = Runtime::new(self.fleet.clone(), controllers, Options::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { runtime.run(stop).await.unwrap() }
        });
        self.running = Some((stop, task));
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

    fn path(kind: (&str, &str), name: &str) -> String {
        let facts = kinds::find(kind.0, kind.1).unwrap();
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        format!("/apis/{}/v1alpha1/namespaces/default/{}{name}", facts.group(), facts.plural)
    }

    pub async fn create(&self, kind: (&str, &str), name: &str, annotations: Value, spec: Value) {
        let facts = kinds::find(kind.0, kind.1).unwrap();
        let object = json!({
            "apiVersion": format!("{}/v1alpha1", facts.group()), "kind": facts.kind,
            "metadata": {"name": name, "namespace": "default", "annotations": annotations}, "spec": spec,
        });
        self.send(Method::POST, &Self::path(kind, ""), "application/json", &object).await.unwrap();
    }

    pub async fn patch(&self, kind: (&str, &str), name: &str, patch: Value) {
        let content = "application/merge-patch+json";
        self.send(Method::PATCH, &Self::path(kind, name), content, &patch).await.unwrap();
    }

    /// Has an object looked at now.
    pub async fn nudge(&self, kind: (&str, &str), name: &str) {
        let when = jiff::Timestamp::now().to_string();
        let annotations = json!({provision::policies::RECONCILE: when});
        self.patch(kind, name, json!({"metadata": {"annotations": annotations}})).await;
    }

    pub async fn delete(&self, kind: (&str, &str), name: &str) {
        self.send(Method::DELETE, &Self::path(kind, name), "application/json", &json!({})).await.unwrap();
    }

    pub async fn get(&self, kind: (&str, &str), name: &str) -> Option<Value> {
        let facts = kinds::find(kind.0, kind.1).unwrap();
        let stored = format!("{}.{}", facts.plural, facts.group());
        self.fleet.get("a", &Key::new(stored.as_str(), "default", name)).await.unwrap()
    }

    /// A call to AWS, as anybody could make it.
    pub async fn call(
        &self,
        service: &str,
        operation: &str,
        input: Value,
    ) -> Result<Value, aws::client::CallError> {
        self.aws.call(model::service(service).unwrap(), operation, &input).await
    }

    pub async fn until(
        &self,
        kind: (&str, &str),
        name: &str,
        what: &str,
        holds: impl AsyncFn(&World) -> bool,
    ) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(self).await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        if waited.await.is_err() {
            panic!("in vain: {what}; {:#}", self.get(kind, name).await.unwrap_or_default());
        }
    }

    pub async fn synced(&self, kind: (&str, &str), name: &str) {
        self.until(kind, name, "synced", async |world| {
            let object = world.get(kind, name).await.unwrap_or_default();
            condition(&object, "ACK.ResourceSynced") == Some("True".to_owned())
        })
        .await;
    }

    pub async fn gone(&self, kind: (&str, &str), name: &str) {
        self.until(kind, name, "gone", async |world| world.get(kind, name).await.is_none()).await;
    }

    pub async fn stop(mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            let _ = task.await;
        }
        let _ = &self.server;
    }
}

pub fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}
