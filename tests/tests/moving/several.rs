//! Servers with several stores, and a control plane of one of them.

use std::process::Command;
use std::time::{Duration, Instant};

use end_to_end::{Client, ControlPlane, Database, Engine, Server};
use serde_json::{Value, json};

pub const CONTROL_PLANES: &str = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes";
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Databases that a server has beside its own.
pub struct Stores {
    postgres: Database,
    etcd: Database,
}

impl Stores {
    pub fn start() -> Stores {
        let start = |engine| Database::start(engine).unwrap();
        Stores { postgres: start(Engine::Postgres), etcd: start(Engine::Etcd) }
    }

    /// Of the two, by the name that servers have it under.
    pub fn named(&self, name: &str) -> &Database {
        if name == "pg" { &self.postgres } else { &self.etcd }
    }

    /// A server that has them as `pg` and `etcd`, with a store of its own for the rest.
    pub fn server(&self, engine: Engine) -> Server {
        let named = |name: &str, database: &Database| {
            ["--with-store".to_owned(), format!("{name}={}", database.url())]
        };
        let flags = named("pg", &self.postgres).into_iter().chain(named("etcd", &self.etcd));
        Server::start_on_with(engine, flags.collect())
    }
}

/// The one that moves.
pub struct Plane {
    inner: ControlPlane,
}

const NAME: &str = "moved";

impl Plane {
    pub fn create(server: &Server) -> Plane {
        Plane { inner: ControlPlane::create(server, NAME) }
    }

    pub fn client(&self, server: &Server) -> Client {
        server.client_as(self.inner.credentials())
    }

    pub fn path(&self, path: &str) -> String {
        self.inner.path(path)
    }

    pub fn status(&self, server: &Server) -> Value {
        server.client().get(&format!("{CONTROL_PLANES}/{NAME}")).ok()["status"].clone()
    }

    /// Returns what it says.
    pub fn move_by_command_line(&self, server: &Server, store: &str) -> String {
        hangar(server, &["move", NAME, "--store", store]).unwrap()
    }

    pub fn ask_to_move(&self, server: &Server, store: &str) {
        let patch = json!({"spec": {"store": store}});
        server.client().patch(&format!("{CONTROL_PLANES}/{NAME}"), "merge", &patch).ok();
    }

    pub fn await_store(&self, server: &Server, store: &str) {
        let began = Instant::now();
        loop {
            let status = self.status(server);
            if status["store"] == store && synced(&status)["status"] == "True" {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not in {store} after {PATIENCE:?}: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn synced(status: &Value) -> Value {
    condition(status, "Synced")
}

pub fn condition(status: &Value, kind: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

/// What the command line says, or complains about.
pub fn hangar(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let kubeconfig = server.dir().join("kubeconfig-of-commands");
    if !kubeconfig.exists() {
        std::fs::copy(server.kubeconfig(), &kubeconfig).unwrap();
    }
    let output =
        Command::new(end_to_end::binary()).args(arguments).env("KUBECONFIG", &kubeconfig).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    match output.status.success() {
        true => Ok(said),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// The administrator of a control plane.
pub fn admin_of(server: &Server, name: &str) -> Client {
    let file = server.dir().join(format!("{name}-admin"));
    let config: Value = serde_saphyr::from_str(&hangar(server, &["kubeconfig", name]).unwrap()).unwrap();
    // As JSON, which is YAML too: nothing else here reads any other.
    std::fs::write(&file, config.to_string()).unwrap();
    server.client_as(end_to_end::Credentials::from_kubeconfig(&file))
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn wishes(server: &Server) {
    let host = server.client();
    hangar(server, &["create", "one", "--store", "pg", "--no-switch"]).unwrap();
    let listed = hangar(server, &["list", "-o", "wide"]).unwrap();
    let row = listed.lines().find(|line| line.starts_with("one ")).unwrap();
    assert!(row.split_whitespace().any(|cell| cell == "pg"), "{listed}");

    // A copy beside it, and one in another store, have what it has.
    let path = |name: &str, path: &str| format!("/control-planes/{name}{path}");
    let maps = "/api/v1/namespaces/default/configmaps";
    let admin = |name: &str| admin_of(server, name);
    let map = json!({"metadata": {"name": "m"}, "data": {"k": "v"}});
    admin("one").post(&path("one", maps), &map).ok();
    for (copy, flags) in [("near", &[][..]), ("far", &["--store", "etcd"][..])] {
        let arguments = [&["fork", "one", copy, "--no-switch"], flags].concat();
        hangar(server, &arguments).unwrap();
        let found = admin(copy).get(&path(copy, &format!("{maps}/m"))).ok();
        assert_eq!(found["data"]["k"], "v", "{copy}");
        let status = host.get(&format!("{CONTROL_PLANES}/{copy}")).ok()["status"].clone();
        assert_eq!(status["store"], if copy == "far" { "etcd" } else { "pg" }, "{copy}");
    }
    assert_eq!(hangar(server, &["diff", "one", "far"]).unwrap(), "");

    // What is read from a database more than once is read from memory, and counted.
    let counted = |what: &str| {
        let metrics = host.get("/metrics").text();
        let name = format!("hangar_read_cache_{what}{{store=\"pg\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok());
        value.unwrap_or_else(|| panic!("no {name}in\n{metrics}"))
    };
    eventually("lists come from memory", || {
        let hits = counted("hits_total");
        admin("one").get(&path("one", maps)).ok();
        counted("hits_total") > hits
    });
    assert!(counted("misses_total") > 0 && counted("bytes") > 0);

    // So has what is made of a backup.
    let file = server.dir().join("backup").to_str().unwrap().to_owned();
    hangar(server, &["backup", "far", &file]).unwrap();
    hangar(server, &["restore", "again", &file, "--store", "etcd", "--no-switch"]).unwrap();
    assert_eq!(host.get(&format!("{CONTROL_PLANES}/again")).ok()["status"]["store"], "etcd");
    assert_eq!(admin("again").get(&path("again", &format!("{maps}/m"))).ok()["data"]["k"], "v");
    let refused = hangar(server, &["restore", "twice", &file, "--store", "nowhere"]).unwrap_err();
    assert!(refused.contains("there is no store \"nowhere\"; there is default, pg, etcd"), "{refused}");
    assert_eq!(host.get(&format!("{CONTROL_PLANES}/twice")).code, 404);

    let refused = hangar(server, &["move", "one", "--store", "nowhere"]).unwrap_err();
    let why = "spec.store: there is no store \"nowhere\"; there is default, pg, etcd";
    assert!(refused.contains(why), "{refused}");
    // It is where it was, and is served.
    admin("one").get(&path("one", &format!("{maps}/m"))).ok();
    hangar(server, &["move", "one", "--store", "default"]).unwrap();
    admin("one").get(&path("one", &format!("{maps}/m"))).ok();

    // Controllers look after what has come from elsewhere.
    let client = admin("one");
    let namespaces = path("one", "/api/v1/namespaces");
    client.post(&namespaces, &json!({"metadata": {"name": "team"}})).ok();
    client.delete(&format!("{namespaces}/team")).ok();
    let began = Instant::now();
    while client.get(&format!("{namespaces}/team")).code != 404 {
        assert!(began.elapsed() < PATIENCE, "the namespace stays");
        std::thread::sleep(Duration::from_millis(50));
    }

    hangar(server, &["delete", "far"]).unwrap();
    assert_eq!(
        host.get(&path("far", "/version")).code,
        401,
        "as at one that is there and does not know the host"
    );
}

/// More than etcd takes in one request, and less than the server does.
const TOO_LARGE: usize = 2_000_000;

pub fn too_large(server: &Server) {
    let things = "/apis/example.com/v1/namespaces/default/things";
    let path = |name: &str, path: &str| format!("/control-planes/{name}{path}");
    let thing = |name: &str, size: usize| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name},
            "spec": {"text": "x".repeat(size)},
        })
    };
    let define = |name: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        admin_of(server, name).post(&path(name, definitions), &definition).ok();
    };
    hangar(server, &["create", "far", "--store", "etcd", "--no-switch"]).unwrap();
    define("far");
    let refused = admin_of(server, "far").post(&path("far", things), &thing("big", TOO_LARGE));
    let status = refused.json();
    assert_eq!((refused.code, &status["reason"]), (413, &json!("RequestEntityTooLarge")), "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("Request entity too large: ") && message.contains("etcd"), "{message}");

    hangar(server, &["create", "near", "--no-switch"]).unwrap();
    define("near");
    let admin = admin_of(server, "near");
    admin.post(&path("near", things), &thing("big", TOO_LARGE)).ok();
    admin.post(&path("near", things), &thing("small", 10)).ok();
    let refused = hangar(server, &["move", "near", "--store", "etcd"]).unwrap_err();
    assert_eq!(refused.trim_end().lines().count(), 1, "{refused}");
    let why = "\"near\" was not moved: Request entity too large: things.example.com default/big has 20";
    assert!(refused.contains(why) && refused.contains("--max-request-bytes"), "{refused}");
    // It is where it was and as it was, and can be written.
    let object = server.client().get(&format!("{CONTROL_PLANES}/near")).ok();
    assert_eq!(object["status"]["store"], "default");
    assert_eq!(condition(&object["status"], "Refused")["status"], "True");
    assert_eq!(admin.get(&path("near", &format!("{things}/big"))).code, 200);
    admin.post(&path("near", things), &thing("after", 10)).ok();

    // Without it there is nothing in the way.
    admin.delete(&path("near", &format!("{things}/big"))).ok();
    hangar(server, &["move", "near", "--store", "default"]).unwrap();
    hangar(server, &["move", "near", "--store", "etcd"]).unwrap();
    assert_eq!(admin.get(&path("near", things)).ok()["items"].as_array().unwrap().len(), 2);
}
