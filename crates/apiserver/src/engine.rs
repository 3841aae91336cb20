//! What all requests of all control planes share.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use objects::{CompactString, Status};
use store::{Fence, Store, StoreError, TenantId};
use tokio::sync::watch;

use crate::audit;
use crate::catalog::Catalogs;
use crate::control_plane::{ControlPlane, ControlPlaneError, ControlPlanes};
use crate::elsewhere::Elsewhere;
use crate::encryption::{InstallationKeys, Pending};
use crate::extension::{Extension, Rotator};
use crate::foresight::{Foresight, Foresights};
use crate::metrics::Metrics;
use crate::paths::Documents;
use crate::pulse::Pulse;
use crate::stations::authenticate::Credentials;
use crate::stations::fairness::{Fairness, Limits};
use crate::{genesis, moving};

/// What the process decides about its server.
pub struct Config {
    /// The control plane that hosts the others.
    pub hosting: CompactString,
    /// Encrypt the rows of control planes, with the keys of their objects in them.
    pub keys: Arc<InstallationKeys>,
    /// The authority of the serving certificate, PEM: published in every namespace.
    pub serving_authority: String,
    /// Where clients reach the server, `https://host:port`: the API's endpoints.
    pub address: SocketAddr,
    pub issuers: Issuers,
    /// The longest life of a service account's token that a client can ask for.
    pub max_token_lifetime: Option<Duration>,
    pub limits: Limits,
    /// Which destinations control planes may have the server connect to.
    pub egress: egress::Policy,
    /// A token that is the administrator of the hosting control plane.
    pub admin_token: Option<auth::Secret<String>>,
    /// Where requests are told of, if they are.
    pub audit: Option<audit::Log>,
}

impl Config {
    /// What has to be said; the usual limits, nobody with a token, and no audit.
    pub fn new(
        hosting: impl Into<CompactString>,
        data_key: [u8; 32],
        serving_authority: impl Into<String>,
        address: impl Into<SocketAddr>,
    ) -> Config {
        let address = address.into();
        Config {
            hosting: hosting.into(),
            keys: Arc::new(InstallationKeys::new(data_key, [])),
            serving_authority: serving_authority.into(),
            address,
            issuers: Issuers::Path(address),
            max_token_lifetime: None,
            limits: Limits::default(),
            egress: egress::Policy::default(),
            admin_token: None,
            audit: None,
        }
    }
}

/// The URLs by which control planes issue tokens: one for each, and their discovery documents are found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Issuers {
    /// `https://NAME.DOMAIN:PORT`
    Host { domain: String, port: u16 },
    /// `https://ADDRESS/control-planes/NAME`, and the address alone for the hosting control plane.
    Path(SocketAddr),
    /// The process serves one control plane, whose issuer this is.
    One(String),
}

impl Issuers {
    pub fn url(&self, name: &str, hosting: &str) -> String {
        match self {
            Issuers::One(url) => url.clone(),
            // As clients write it.
            Issuers::Host { domain, port: 443 } => format!("https://{name}.{domain}"),
            Issuers::Host { domain, port } => format!("https://{name}.{domain}:{port}"),
            Issuers::Path(address) if name == hosting => format!("https://{address}"),
            Issuers::Path(address) => format!("https://{address}/control-planes/{name}"),
        }
    }
}

/// The name of the store that has the hosting control plane.
pub const DEFAULT_STORE: &str = "default";

/// The name of the store in which every control plane has a database of its own.
pub const DEDICATED_STORE: &str = "dedicated";

/// The shared engine of one store; cheap to hand around.
#[derive(Clone)]
pub struct Engine {
    /// What the store is called.
    pub name: CompactString,
    pub store: Arc<dyn Store>,
    pub planes: Arc<ControlPlanes>,
    pub config: Arc<Config>,
    pub fairness: Arc<Fairness>,
    pub credentials: Arc<Credentials>,
    pub metrics: Arc<Metrics>,
    /// Calls to destinations that control planes chose; one client for all stores.
    pub egress: egress::Client,
    pub(crate) documents: Arc<Documents>,
    pub(crate) extension: Arc<OnceLock<Arc<dyn Extension>>>,
    pub(crate) rotator: Arc<OnceLock<Arc<dyn Rotator>>>,
    pub(crate) foresights: Arc<Foresights>,
    pub(crate) elsewhere: Arc<OnceLock<Arc<dyn Elsewhere>>>,
    /// Where processes that share the store talk to each other, if there may be several.
    pub(crate) replicas: Arc<OnceLock<TenantId>>,
    pub(crate) pulse: Arc<Pulse>,
    /// Control planes with values that are encrypted with an older key.
    pub(crate) renewals: Arc<Pending>,
    /// What control planes begin with.
    pub(crate) drafts: Arc<OnceLock<Vec<genesis::Draft>>>,
    stage: watch::Sender<Stage>,
}

/// How far a process has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// Everything is served as before, and whoever asks is told to turn elsewhere.
    Retiring,
    Stopping,
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, config: Config) -> Arc<Engine> {
        let metrics = Arc::new(Metrics::new(config.audit.as_ref()));
        let fairness = Fairness::new(config.limits);
        let egress = egress::Client::default();
        Engine::of(DEFAULT_STORE.into(), store, Arc::new(config), metrics, egress, Arc::default(), fairness)
    }

    /// The engine of a further store of the same process: the same keys, the same kinds, one set of numbers.
    pub fn beside(&self, name: impl Into<CompactString>, store: Arc<dyn Store>) -> Arc<Engine> {
        let (config, metrics) = (self.config.clone(), self.metrics.clone());
        let catalogs = self.planes.catalogs.clone();
        let egress = self.egress.clone();
        Engine::of(name.into(), store, config, metrics, egress, catalogs, self.fairness.beside())
    }

    fn of(
        name: CompactString,
        store: Arc<dyn Store>,
        config: Arc<Config>,
        metrics: Arc<Metrics>,
        egress: egress::Client,
        catalogs: Arc<Catalogs>,
        fairness: Fairness,
    ) -> Arc<Engine> {
        let store = metrics.measured(&name, store);
        Arc::new(Engine {
            name,
            planes: Arc::new(ControlPlanes::new(store.clone(), config.clone(), catalogs)),
            fairness: Arc::new(fairness),
            credentials: Arc::default(),
            metrics,
            egress,
            documents: Arc::default(),
            extension: Arc::default(),
            rotator: Arc::default(),
            foresights: Arc::default(),
            elsewhere: Arc::default(),
            replicas: Arc::default(),
            pulse: Arc::default(),
            renewals: Arc::default(),
            drafts: Arc::default(),
            stage: watch::Sender::new(Stage::Serving),
            store,
            config,
        })
    }

    /// The same engine for whoever holds a lease: nothing is written through it once another has taken that.
    pub fn fenced(&self, fence: Fence) -> Arc<Engine> {
        Arc::new(Engine { store: self.store.fenced(fence), ..self.clone() })
    }

    /// The same engine for whoever holds a lease of another store.
    pub(crate) fn claimed(&self, home: &Engine, fence: Fence) -> Arc<Engine> {
        let store = store::claimed(home.store.clone(), fence, self.store.clone());
        Arc::new(Engine { store, ..self.clone() })
    }

    /// Adds paths to the hosting control plane; the first one counts.
    pub fn extend(&self, extension: Arc<dyn Extension>) {
        let _ = self.extension.set(extension);
    }

    /// Has keys replaced by this one when somebody asks for it; the first one counts.
    pub fn rotate_with(&self, rotator: Arc<dyn Rotator>) {
        let _ = self.rotator.set(rotator);
    }

    pub fn rotator(&self) -> Option<&Arc<dyn Rotator>> {
        self.rotator.get()
    }

    /// Asks this one too what writes that are only tried out would lead to.
    pub fn foresee_with(&self, foresight: Arc<dyn Foresight>) {
        self.foresights.add(foresight);
    }

    /// Passes requests on that are for control planes of other processes; the first one counts.
    pub fn pass_on(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _ = self.elsewhere.set(elsewhere);
    }

    /// Whoever serves this control plane, if it is another process.
    pub fn elsewhere(&self, control_plane: &str) -> Option<&Arc<dyn Elsewhere>> {
        self.elsewhere.get().filter(|elsewhere| elsewhere.serves(control_plane))
    }

    /// Says that the process is about to end: it is not ready for more, and does what it is asked all the same.
    pub fn retire(&self) {
        self.stage.send_if_modified(|stage| {
            let first = *stage < Stage::Retiring;
            *stage = (*stage).max(Stage::Retiring);
            first
        });
    }

    /// Ends all watches, so that connections can drain.
    pub fn stop(&self) {
        self.stage.send_replace(Stage::Stopping);
    }

    /// Resolves when [`Engine::stop`] is called.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stage = self.stage.subscribe();
        async move {
            // An error means that the engine itself is gone, which is a stop too.
            let _ = stage.wait_for(|stage| *stage == Stage::Stopping).await;
        }
    }

    pub fn is_stopping(&self) -> bool {
        *self.stage.borrow() == Stage::Stopping
    }

    pub fn is_retiring(&self) -> bool {
        *self.stage.borrow() >= Stage::Retiring
    }

    /// Which destinations a control plane may have the server connect to: those of all, and its own.
    pub fn egress_policy(&self, plane: &ControlPlane) -> egress::Policy {
        self.config.egress.and(&plane.charter.egress)
    }

    pub fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

/// A store error that no verb has a better word for.
pub fn store_status(error: StoreError) -> Status {
    match error {
        // It was there when the request began: it went, or it moved. Whoever asks again is told which.
        StoreError::NoTenant => moving::elsewhere(),
        StoreError::Compacted { .. } => Status::expired("The provided continue parameter is too old."),
        StoreError::Future { asked, current } => too_large(asked.0, current.0),
        StoreError::Unavailable(why) if why == moving::UNDERWAY => moving::underway(),
        StoreError::Unavailable(why) => {
            // Told in the log once for all who meet it.
            let message = format!("the store is unavailable: {why}");
            Status::new(objects::Reason::ServiceUnavailable, message).retry_after(1)
        }
        StoreError::TooLarge(why) => {
            Status::new(objects::Reason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
        }
        // Whoever held the lease is about to end; nobody is to hear of a fault.
        StoreError::Fenced => Status::new(objects::Reason::ServiceUnavailable, error.to_string()),
        // Told in the log once for each object.
        StoreError::Damaged { .. } => Status::internal(error),
        other => {
            tracing::error!(error = %other, "the store failed");
            Status::internal(other)
        }
    }
}

/// A revision that has not happened yet, as upstream words it; clients retry.
pub fn too_large(asked: u64, current: u64) -> Status {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    Status::new(objects::Reason::Timeout, message).retry_after(1).cause(
        "ResourceVersionTooLarge",
        "Too large resource version",
        "",
    )
}

pub fn no_control_plane() -> Status {
    Status::new(objects::Reason::NotFound, "the server could not find the requested resource")
}

impl From<ControlPlaneError> for crate::service::Failure {
    fn from(error: ControlPlaneError) -> Self {
        crate::service::Failure(Box::new(match error {
            ControlPlaneError::Store(error) => store_status(error),
            many @ ControlPlaneError::TooManyRotations(_) => Status::bad_request(many.to_string()),
            other => {
                tracing::error!(error = %other, "a control plane cannot be opened");
                Status::internal(other)
            }
        }))
    }
}

impl From<StoreError> for crate::service::Failure {
    fn from(error: StoreError) -> Self {
        crate::service::Failure(Box::new(store_status(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Issuers;
    use crate::fixture::Fixture;

    #[test]
    fn every_control_plane_has_its_issuer() {
        let check = |issuers: Issuers, name: &str, expected: &str| {
            assert_eq!(issuers.url(name, "host"), expected);
        };
        let host = |port| Issuers::Host { domain: "planes.example.com".to_owned(), port };
        check(host(6443), "a", "https://a.planes.example.com:6443");
        check(host(443), "a", "https://a.planes.example.com");
        check(host(443), "host", "https://host.planes.example.com");
        let path = || Issuers::Path(([127, 0, 0, 1], 6443).into());
        check(path(), "a", "https://127.0.0.1:6443/control-planes/a");
        check(path(), "host", "https://127.0.0.1:6443");
        check(Issuers::One("https://x".to_owned()), "a", "https://x");
    }

    #[tokio::test]
    async fn whoever_retires_says_so_and_serves_on() {
        let fixture = Fixture::new().await;
        let code = async |path: &str| fixture.ask("a", "GET", path, "").await.0;
        assert_eq!(code("/readyz").await, 200);
        fixture.engine.retire();
        assert_eq!(code("/readyz").await, 500);
        assert_eq!(code("/livez").await, 200);
        assert_eq!(code("/api/v1/namespaces/default/configmaps").await, 200);
        let stopped = fixture.engine.stopped();
        assert!(tokio::time::timeout(Duration::from_millis(50), stopped).await.is_err(), "watches end later");
        fixture.engine.stop();
        fixture.engine.stopped().await;
        fixture.engine.retire();
        assert!(fixture.engine.is_stopping(), "what has ended does not come back");
    }
}
