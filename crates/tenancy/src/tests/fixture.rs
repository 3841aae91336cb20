use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::{ApiServer, Config, Engine, InProcess};
use auth::pki::Authority;
use auth::user::UserInfo;
use http::HeaderValue;
use listener::{Doors, Listener, ServingCertificate};
use objects::{Value, meta};
use runtime::{Handle, InProcessFleet, Options, Runtime};
use serde_json::json;
use store::{Embedded, Store};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::{self, Place};
use crate::{Settings, conditions, names};

const PATIENCE: Duration = Duration::from_secs(30);

/// A hosting control plane with all controllers at work, as its administrator sees it.
pub struct Fixture {
    pub engine: Arc<Engine>,
    pub client: kube::Client,
    store: Arc<dyn Store>,
    directory: TempDir,
    serving: CancellationToken,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    handle: Option<Handle>,
    options: Options,
}

pub fn settings() -> Settings {
    Settings::new("hangar.localhost", 6443)
}

/// A server on a port of its own, with a data key of its own.
async fn open(directory: &Path) -> (Arc<dyn Store>, Arc<Engine>, CancellationToken) {
    let store: Arc<dyn Store> = Arc::new(Embedded::open(directory, Default::default()).unwrap());
    let (now, hour) = (jiff::Timestamp::now(), Duration::from_secs(3_600));
    let authority = Authority::generate("serving", now, hour).unwrap();
    let names = ["localhost".to_owned(), format!("*.{}", settings().domain)];
    let issued = authority.issue_server(&names, &[[127, 0, 0, 1].into()], now, hour).unwrap();
    let certificate = ServingCertificate::from_pem(&issued.certificate, issued.key.expose()).unwrap();
    let doors = Doors { domain: settings().domain, hosting: "host".into() };
    let options = listener::Options { doors, limits: listener::Limits::new(1_000) };
    let socket = Listener::bind(([127, 0, 0, 1], 0).into(), Arc::new(certificate), options).await.unwrap();
    let config =
        Config::new("host", rand::random(), authority.certificate_pem(), socket.local_addr().unwrap());
    let engine = Engine::new(store.clone(), config);
    let stop = CancellationToken::new();
    tokio::spawn(socket.serve(ApiServer::new(engine.clone()), stop.clone()));
    (store, engine, stop)
}

/// The server, as a user who may do everything in a control plane.
pub fn as_admin(engine: &Arc<Engine>, control_plane: &str) -> InProcess {
    let user = Arc::new(UserInfo::new("admin", [auth::user::MASTERS]).authenticated());
    let agent = HeaderValue::from_static("test");
    InProcess::new(ApiServer::new(engine.clone()), control_plane, user, agent)
}

pub fn admin(engine: &Arc<Engine>, control_plane: &str) -> kube::Client {
    kube::Client::new(as_admin(engine, control_plane), "default")
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Fixture {
        let options = Options { save_after: Duration::from_millis(50), ..options };
        let directory = TempDir::new().unwrap();
        let (store, engine, serving) = open(directory.path()).await;
        engine.create_control_plane("host").await.map_err(|failure| failure.0).unwrap();
        let client = admin(&engine, "host");
        crate::prepare(engine.clone(), &settings(), None).await.unwrap();
        let (running, handle) = (None, None);
        let mut fixture = Fixture { engine, client, store, directory, serving, running, handle, options };
        fixture.start();
        fixture
    }

    pub fn start(&mut self) {
        let fleet = Arc::new(InProcessFleet::new(self.engine.clone()));
        let mut all = controllers::denatured(&self.engine);
        all.extend(crate::controllers(self.engine.clone(), settings(), None));
        let runtime = Runtime::new(fleet, all, self.options.clone());
        self.handle = Some(runtime.handle());
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { runtime.run(stop).await.unwrap() }
        });
        self.running = Some((stop, task));
    }

    pub fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("the controllers have been started")
    }

    /// The controllers end as they should, and begin again.
    pub async fn restart(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            task.await.unwrap();
        }
        self.start();
    }

    /// As if the process had died: no pass is finished, nothing saved.
    pub async fn kill(&mut self) {
        if let Some((_, task)) = self.running.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Somebody in the hosting control plane who may do only what roles allow.
    pub fn user(&self, name: &str) -> kube::Client {
        let user = Arc::new(UserInfo::new(name, [] as [&str; 0]).authenticated());
        let agent = HeaderValue::from_static("test");
        let service = InProcess::new(ApiServer::new(self.engine.clone()), "host", user, agent);
        kube::Client::new(service, "default")
    }

    pub fn tenant(&self, name: &str) -> kube::Client {
        admin(&self.engine, name)
    }

    pub async fn get(&self, api_version: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        api::get(&self.client, &Place::new(api_version, plural, namespace, name)).await.unwrap()
    }

    pub async fn plane(&self, name: &str) -> Option<Value> {
        self.get(names::API_VERSION, "controlplanes", "", name).await
    }

    pub async fn create(&self, object: Value) -> Value {
        self.try_create(object.clone()).await.unwrap_or_else(|error| panic!("{object}: {error}"))
    }

    pub async fn try_create(&self, object: Value) -> Result<Value, runtime::Error> {
        let namespace = meta::namespace(&object).to_owned();
        let place = api::place_of(&self.client, &object, &namespace).await.unwrap().unwrap();
        api::create(&self.client, &place, &object).await
    }

    /// A control plane with this spec.
    pub async fn create_plane(&self, name: &str, spec: Value) -> Value {
        self.create(plane(name, spec)).await
    }

    pub async fn hook(&self, name: &str, spec: Value) -> Value {
        self.create(json!({
            "apiVersion": names::API_VERSION, "kind": "PostCreateHook", "metadata": {"name": name}, "spec": spec,
        }))
        .await
    }

    pub async fn patch(&self, name: &str, patch: Value) -> Result<Value, runtime::Error> {
        api::merge(&self.client, &crate::operator::place(name), "", &patch).await
    }

    pub async fn delete(&self, api_version: &str, plural: &str, namespace: &str, name: &str) {
        let place = Place::new(api_version, plural, namespace, name);
        assert!(
            api::delete(&self.client, &place, None).await.unwrap(),
            "{place:?} is not there to be deleted"
        );
    }

    pub async fn delete_plane(&self, name: &str) {
        self.delete(names::API_VERSION, "controlplanes", "", name).await;
    }

    /// Waits until something is found.
    pub async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut(&Fixture) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look(self).await {
                return found;
            }
            if began.elapsed() > PATIENCE {
                let planes =
                    api::get_path(&self.client, "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes");
                let planes = planes.await.unwrap();
                let status: Vec<&Value> =
                    planes["items"].as_array().unwrap().iter().filter_map(|one| one.get("status")).collect();
                panic!("waited too long: {what}\n{}", serde_json::to_string_pretty(&status).unwrap());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn until_ready(&self, name: &str) -> Value {
        let what = format!("{name} is ready");
        self.until(&what, async |f| {
            f.plane(name).await.filter(|plane| conditions::is_true(&plane["status"], "Ready"))
        })
        .await
    }

    pub async fn until_condition(&self, name: &str, kind: &str, status: &str, reason: &str) -> Value {
        let what = format!("{name} has {kind}={status}/{reason}");
        self.until(&what, async |f| {
            let plane = f.plane(name).await?;
            let found = conditions::find(&plane["status"], kind)?.clone();
            (found["status"] == status && found["reason"] == reason).then_some(found)
        })
        .await
    }

    pub async fn until_gone(&self, name: &str) {
        self.until(&format!("{name} is gone"), async |f| f.plane(name).await.is_none().then_some(())).await;
    }

    /// Events about a control plane: type, reason and message.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let list = api::get_path(&self.client, "/api/v1/namespaces/default/events").await.unwrap();
        let of = list["items"].as_array().unwrap().iter().filter(|one| one["involvedObject"]["name"] == name);
        of.map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("type"), text("reason"), text("message"))
        })
        .collect()
    }

    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(400)).await;
    }

    pub async fn close(mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            let _ = task.await;
        }
        self.serving.cancel();
        self.store.close().await;
        drop(self.directory);
    }
}

pub fn plane(name: &str, spec: Value) -> Value {
    json!({"apiVersion": names::API_VERSION, "kind": "ControlPlane", "metadata": {"name": name}, "spec": spec})
}

/// A kubeconfig out of a Secret.
pub fn config(secret: &Value, key: &str) -> Value {
    let text = crate::kubeconfig::secret_value(secret, key).unwrap_or_else(|| panic!("no {key} in {secret}"));
    wire::yaml::decode(&text).unwrap().value
}
