//! Where the programs are, and a pool to run them in.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use terraform::plugin::{Launch, Lease, Limits, Planned, PluginError, Pool, PoolSettings, State};
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

/// A pool, and a directory that is the cloud.
pub struct World {
    pub pool: Pool,
    pub cloud: TempDir,
    settings: PoolSettings,
    _sockets: TempDir,
}

pub const DIGEST: &str = "test";

impl World {
    pub fn new() -> World {
        World::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut PoolSettings)) -> World {
        let sockets = TempDir::with_prefix("tf").unwrap();
        let mut settings = PoolSettings::new(sockets.path());
        settings.limits = Limits { start: Duration::from_secs(20), ..Limits::default() };
        change(&mut settings);
        let pool = Pool::new(settings.clone());
        World { pool, cloud: TempDir::new().unwrap(), settings, _sockets: sockets }
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
