//! Three control planes with the same objects in them, behind a real listener on a real store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::control_plane::ControlPlane;
use apiserver::{ApiServer, Config, Engine};
use auth::pki::{Authority, Issued};
use auth::tokens::Reference;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listener::{Doors, Limits, Listener, Options, ServingCertificate};
use rustls::RootCertStore;
use serde_json::{Value, json};
use store::Store;
use store::embedded::Embedded;
use store_etcd::Etcd;
use store_postgres::Postgres;
use tokio_util::sync::CancellationToken;

use super::client::{Answer, Credential, Door, Network};

pub const DOMAIN: &str = "hangar.test";
pub const HOUR: Duration = Duration::from_secs(3_600);
/// In every control plane, and with something else in it in each.
pub const NOTE: &str = "/api/v1/namespaces/team/configmaps/note";

pub struct World {
    pub network: Network,
    pub engine: Arc<Engine>,
    /// Of the certificate that the server shows.
    pub serving: Authority,
    stop: CancellationToken,
    _database: Database,
}

/// What the server stores in, gone with it.
enum Database {
    Embedded(tempfile::TempDir),
    Postgres(databases::postgres::Server),
    Etcd(databases::etcd::Server),
}

impl Database {
    /// The one that this test binary stands for: `on_postgres` and `on_etcd` hold the same tests as `isolation`.
    fn start() -> Database {
        let test = std::env::current_exe().unwrap();
        let name = test.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("on_postgres") {
            Database::Postgres(databases::postgres::Server::new(&["fsync=off", "full_page_writes=off"]))
        } else if name.starts_with("on_etcd") {
            Database::Etcd(databases::etcd::Server::start())
        } else {
            Database::Embedded(tempfile::tempdir().unwrap())
        }
    }

    async fn open(&self) -> Arc<dyn Store> {
        // A machine that builds beside its tests is slow to let anybody in.
        let patience = Duration::from_secs(20);
        match self {
            Database::Embedded(dir) => {
                Arc::new(Embedded::open(dir.path(), store::embedded::Options::default()).unwrap())
            }
            Database::Postgres(server) => {
                let options = store_postgres::Options { patience, ..Default::default() };
                Arc::new(Postgres::open(&server.url(), options).await.unwrap())
            }
            Database::Etcd(server) => {
                let config = store_etcd::Config::parse(&server.url()).unwrap();
                let options = store_etcd::Options {
                    request_timeout: patience,
                    connect_timeout: patience,
                    ..Default::default()
                };
                Arc::new(Etcd::open(&config, options).await.unwrap())
            }
        }
    }
}

/// A control plane, everything that opens it, and what only it may show.
pub struct Tenant {
    pub name: &'static str,
    /// Stands in its objects and nowhere else.
    pub mark: String,
    pub plane: Arc<ControlPlane>,
    /// All of them may do everything in this control plane.
    pub credentials: Vec<Credential>,
    /// Somebody this control plane knows and allows nothing.
    pub weak: Credential,
    /// The second page of its config maps begins here.
    pub continue_token: String,
    pub revision: u64,
}

impl World {
    /// With the control planes `host`, `a` and `b`.
    pub async fn with_tenants() -> (World, [Tenant; 3]) {
        let world = World::open().await;
        let tenants = [world.tenant("host").await, world.tenant("a").await, world.tenant("b").await];
        (world, tenants)
    }

    async fn open() -> World {
        World::with_limits(Limits::new(1_000)).await
    }

    /// With no control plane yet.
    pub async fn with_limits(limits: Limits) -> World {
        World::configured(limits, apiserver::Limits::default()).await
    }

    /// With limits of connections and of requests.
    pub async fn configured(limits: Limits, requests: apiserver::Limits) -> World {
        let database = Database::start();
        let store = database.open().await;
        let now = jiff::Timestamp::now();
        let serving = Authority::generate("serving", now, HOUR).unwrap();
        let names = ["localhost".to_owned(), DOMAIN.to_owned(), format!("*.{DOMAIN}")];
        let shown = serving.issue_server(&names, &[[127, 0, 0, 1].into()], now, HOUR).unwrap();
        let certificate = ServingCertificate::from_pem(&shown.certificate, shown.key.expose()).unwrap();
        let doors = Doors { domain: DOMAIN.to_owned(), hosting: "host".into() };
        let options = Options { doors, limits };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(any, Arc::new(certificate), options).await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config {
            limits: requests,
            max_token_lifetime: Some(2 * HOUR),
            ..Config::new("host", [7; 32], serving.certificate_pem(), address)
        };
        let engine = Engine::new(store, config);
        let stop = CancellationToken::new();
        tokio::spawn(listener.serve(ApiServer::new(engine.clone()), stop.clone()));
        let mut roots = RootCertStore::empty();
        roots.add(serving.certificate_der().clone()).unwrap();
        World {
            network: Network { address, roots: Arc::new(roots) },
            engine,
            serving,
            stop,
            _database: database,
        }
    }

    /// Makes a control plane and puts the same into it as into all others, but for the mark.
    pub async fn tenant(&self, name: &'static str) -> Tenant {
        let plane = self.engine.create_control_plane(name).await.unwrap();
        let mark = format!("only-{name}-{}", rand::random::<u64>());
        let issue =
            |user: &str, groups: &[&str]| self.engine.issue_client(&plane, user, groups, HOUR).unwrap();
        let admin =
            Credential::certificate(format!("{name}'s certificate"), &issue("admin", &["system:masters"]));
        let weak = Credential::certificate(format!("{name}'s weak certificate"), &issue("weak", &[]));
        let door = self.by_path(name);
        let make = async |path: &str, object: Value| -> Value {
            let made = self.network.ask(&door, &admin, "POST", path, &object.to_string()).await;
            assert_eq!(made.code, 201, "{path}: {}", made.text);
            body(&made)
        };
        make("/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
        for name in ["note", "one", "two", "zero"] {
            let object = json!({"metadata": {"name": name}, "data": {"text": mark}});
            make("/api/v1/namespaces/team/configmaps", object).await;
        }
        let secret = json!({"metadata": {"name": "s"}, "stringData": {"text": mark}});
        make("/api/v1/namespaces/team/secrets", secret).await;
        let robot =
            make("/api/v1/namespaces/team/serviceaccounts", json!({"metadata": {"name": "robot"}})).await;
        let uid = robot["metadata"]["uid"].as_str().unwrap();
        let subjects = json!([
            {"kind": "ServiceAccount", "namespace": "team", "name": "robot"},
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:bootstrappers"},
        ]);
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
        let binding = json!({"metadata": {"name": "robots"}, "subjects": subjects, "roleRef": role});
        make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;

        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = make("/api/v1/namespaces/team/serviceaccounts/robot/token", request).await;
        let bound = token["status"]["token"].as_str().unwrap().to_owned();
        let legacy = plane.issuer.issue_legacy("team", &Reference::new("robot", uid), "robot-token").unwrap();
        let kept = json!({
            "metadata": {"name": "robot-token", "annotations": {
                "kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": uid,
            }},
            "type": "kubernetes.io/service-account-token", "data": {"token": STANDARD.encode(legacy.expose())},
        });
        make("/api/v1/namespaces/team/secrets", kept).await;
        // The same id in all control planes, with another secret in each.
        let secret = format!("{:016x}", rand::random::<u64>());
        let bootstrap = json!({
            "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
            "stringData": {"token-id": "abcdef", "token-secret": secret, "usage-bootstrap-authentication": "true"},
        });
        make("/api/v1/namespaces/kube-system/secrets", bootstrap).await;

        let page =
            self.network.ask(&door, &admin, "GET", "/api/v1/namespaces/team/configmaps?limit=1", "").await;
        let metadata = body(&page)["metadata"].clone();
        let credentials = vec![
            admin,
            Credential::token(format!("{name}'s service account token"), bound),
            Credential::token(format!("{name}'s legacy token"), legacy.expose()),
            Credential::token(format!("{name}'s bootstrap token"), format!("abcdef.{secret}")),
        ];
        Tenant {
            name,
            mark,
            plane,
            credentials,
            weak,
            continue_token: metadata["continue"].as_str().unwrap().to_owned(),
            revision: metadata["resourceVersion"].as_str().unwrap().parse().unwrap(),
        }
    }

    pub fn by_path(&self, name: &str) -> Door {
        Door {
            server_name: None,
            host: self.network.address.to_string(),
            prefix: format!("/control-planes/{name}"),
        }
    }

    pub fn by_name(&self, name: &str) -> Door {
        let host = format!("{name}.{DOMAIN}");
        Door {
            host: format!("{host}:{}", self.network.address.port()),
            server_name: Some(host),
            prefix: String::new(),
        }
    }

    /// Every door of a control plane.
    pub fn doors(&self, name: &str) -> Vec<Door> {
        // A client without a name for the handshake, which puts one into the request.
        let by_host = Door { server_name: None, ..self.by_name(name) };
        let by_path = Door { server_name: Some("localhost".to_owned()), ..self.by_path(name) };
        // One that says it in both ways, as our kubeconfigs have it.
        let both = Door { server_name: self.by_name(name).server_name, ..self.by_path(name) };
        let mut doors = vec![self.by_name(name), self.by_path(name), by_host, by_path, both];
        if name == "host" {
            doors.push(Door { prefix: String::new(), ..self.by_path(name) });
        }
        doors
    }

    /// A certificate of whatever authority, for the master of all.
    pub fn master(&self, authority: &Authority, now: jiff::Timestamp) -> Issued {
        authority.issue_client("admin", &["system:masters"], now, HOUR).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.engine.stop();
        self.stop.cancel();
    }
}

/// The object of an answer.
pub fn body(answer: &Answer) -> Value {
    let start = answer.text.find('{').unwrap_or_else(|| panic!("no object: {}", answer.text));
    serde_json::Deserializer::from_str(&answer.text[start..]).into_iter().next().unwrap().unwrap()
}
