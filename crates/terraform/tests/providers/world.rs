//! Where the programs are, and a pool to run them in.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use sandbox::{Launcher, Sandbox, Share};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use terraform::plugin::{
    Isolation, Launch, Lease, Limits, Planned, PluginError, Pool, PoolSettings, ProviderPath, State,
};
use terraform::schema::Schema;
use terraform::value::Value;
use terraform::{change, shape};

/// The provider in `examples/shelf`, built with the tests.
pub fn shelf_program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().parent().unwrap().join("examples/shelf");
    assert!(built.exists(), "{} is not built; run the tests of the whole package", built.display());
    built
}

/// Sandboxes of this machine, tried once.
pub fn sandbox() -> Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    let probe = || {
        let launcher = Launcher::program(shelf_program().with_file_name("launcher"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let probed = runtime.block_on(Sandbox::probe(launcher.clone(), Vec::new()));
        probed.unwrap_or_else(|error| {
            eprintln!("without sandboxes: {error}");
            Sandbox::none(launcher)
        })
    };
    // Tests have runtimes of their own.
    let tried = || std::thread::spawn(probe).join().unwrap();
    SANDBOX.get_or_init(tried).clone()
}

/// What providers of tests may reach.
pub fn loopback() -> egress::Policy {
    egress::Policy::new("127.0.0.0/8,::1".parse().unwrap())
}

/// What a provider writes, whoever it is in its sandbox.
pub fn open_to_all(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
}

fn shared(path: &Path, writable: bool) -> ProviderPath {
    ProviderPath { provider: None, share: Share { path: path.to_owned(), writable } }
}

/// For providers that are scripts around the shelf.
pub fn scripts(settings: &mut PoolSettings) {
    let paths = [shared(Path::new("/bin/sh"), false), shared(shelf_program().parent().unwrap(), false)];
    settings.isolation = settings.isolation.clone().with_paths(paths);
}

/// A pool, and a directory that is the cloud.
pub struct World {
    pub pool: Pool,
    pub cloud: TempDir,
    settings: PoolSettings,
    _sockets: TempDir,
}

/// Where providers of tests that are no single file have their parts.
fn tools() -> Vec<ProviderPath> {
    let tools = shelf_program().parent().unwrap().parent().unwrap().parent().unwrap().join("test-tools");
    let interpreter = std::fs::canonicalize(tools.join("provider-venv/bin/python")).ok();
    let python = interpreter.as_deref().and_then(|python| python.parent()?.parent()).map(Path::to_path_buf);
    let frameworks = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frameworks"));
    // A Python of the system is among its libraries.
    let python = python.filter(|path| path != Path::new("/usr")).or_else(|| interpreter.clone());
    let all = [Some(tools), Some(frameworks), python].into_iter().flatten();
    // Scripts name their interpreter by the path that it really has.
    let all = all.flat_map(|path| [std::fs::canonicalize(&path).ok(), Some(path)]).flatten();
    let mut all: Vec<_> = all.filter(|path| path.exists()).map(|path| shared(&path, false)).collect();
    all.dedup();
    all
}

pub const DIGEST: &str = "test";

impl World {
    pub fn new() -> World {
        World::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut PoolSettings)) -> World {
        let sockets = TempDir::with_prefix("tf").unwrap();
        let cloud = TempDir::new().unwrap();
        open_to_all(cloud.path());
        let paths = std::iter::once(shared(cloud.path(), true)).chain(tools());
        let isolation = Isolation::new(Ok(sandbox()), sockets.path(), loopback()).with_paths(paths);
        let mut settings = PoolSettings::new(isolation);
        settings.limits = Limits { start: Duration::from_secs(20), ..Limits::default() };
        change(&mut settings);
        let pool = Pool::new(settings.clone());
        World { pool, cloud, settings, _sockets: sockets }
    }

    /// A part of the cloud.
    pub fn part(&self, name: &str) -> PathBuf {
        let part = self.cloud.path().join(name);
        std::fs::create_dir_all(&part).unwrap();
        open_to_all(&part);
        part
    }

    /// Another pool, as a new process of ours would have it.
    pub fn renew(&mut self) {
        self.pool = Pool::new(self.settings.clone());
    }

    pub fn config(&self) -> Value {
        let directory = self.cloud.path().to_str().unwrap();
        Value::Fields(
            [("directory".to_owned(), Value::string(directory)), ("password".to_owned(), Value::Null)].into(),
        )
    }

    pub async fn lease(&self) -> Lease {
        self.pool.lease(&Launch::new(shelf_program()), DIGEST, &self.config()).await.unwrap()
    }

    /// Lines of `Method: fault`.
    pub fn fault(&self, text: &str) {
        std::fs::write(self.cloud.path().join("fault"), text).unwrap();
    }

    pub fn things(&self) -> Vec<Json> {
        let entries = std::fs::read_dir(self.cloud.path()).unwrap().flatten();
        let things = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "json"));
        // One may go between the two.
        let read = things.filter_map(|entry| std::fs::read(entry.path()).ok());
        read.map(|text| serde_json::from_slice(&text).unwrap()).collect()
    }
}

/// A shelf with one fault from the start.
pub fn faulty(fault: &str) -> Launch {
    let mut launch = Launch::new(shelf_program());
    launch.environment.insert("FAULT".into(), auth::Secret::new(fault.to_owned()));
    launch
}

pub const THING: &str = "shelf_thing";

pub fn schema(lease: &Lease) -> std::sync::Arc<Schema> {
    lease.catalogue().resource(THING).unwrap()
}

/// Plans what the fields say of a resource.
pub async fn plan(lease: &Lease, prior: &State, object: Json) -> Result<(Value, Planned), PluginError> {
    let schema = schema(lease);
    let config = shape::desired(&schema.block, &object).unwrap();
    let proposed = change::proposed(&schema.block, &prior.value, &config);
    let planned = lease.plan(THING, prior, &proposed, &config).await?;
    Ok((config, planned))
}

pub async fn create(lease: &Lease, object: Json) -> State {
    let (config, planned) = plan(lease, &State::none(), object).await.unwrap();
    let applied = lease.apply(THING, &State::none(), &planned, &config, None).await.unwrap();
    assert!(!applied.diagnostics.has_errors(), "{}", applied.diagnostics);
    applied.state.unwrap()
}

pub fn shown(lease: &Lease, state: &State) -> Json {
    shape::shown(&schema(lease).block, &state.value)
}

pub fn simple() -> Json {
    json!({"name": "one", "size": 3})
}
