//! The store on etcd: its own revisions, transactions and watches, for any number of replicas at once.
//!
//! [`Etcd`] is a [`store::Store`]. A tenant's revision is that of etcd's transaction which wrote it last; a transaction
//! of a tenant is one of etcd's; history is etcd's, until it is compacted. What etcd does not have is small and beside
//! it: a head per tenant that every write touches, a table of when which revision was, and rows that say what is being
//! made or removed, so that any replica can take over from one that died.
//!
//! To read: [`keys`] (where things lie), [`about`] (how revisions are numbered), [`write`] and [`reads`], then
//! [`pump`] and [`log`] (watches), [`copies`] and [`chores`] (what takes several steps).
//!
//! Nothing is held for an idle tenant: one watch of etcd and three tasks serve all. Not here: objects, and which
//! replica does what.

mod about;
mod changes;
mod chores;
mod config;
mod copies;
mod directory;
mod engine;
mod fencing;
mod history;
mod keys;
mod link;
mod log;
mod open;
mod past;
mod pump;
mod reads;
mod recent;
mod size;
mod store;
mod stream;
mod transaction;
mod wire;
mod write;

use std::sync::Arc;

use ::store::Fence;
use ::store::fanout::{Hub, Log};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

pub use config::{Config, ConfigError, DEFAULT_PREFIX, Options, Tls};
pub use open::OpenError;

/// An open store on etcd. Dropping the last handle closes it.
#[derive(Clone)]
pub struct Etcd {
    engine: Arc<engine::Engine>,
    log: Arc<dyn Log>,
    /// What all changes made through this handle depend on.
    fence: Option<Arc<Fence>>,
    life: Arc<Life>,
}

/// Shared by all handles.
struct Life {
    engine: Arc<engine::Engine>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Etcd {
    /// Connects, and looks whether this etcd can be used. To be called on the runtime that the store is to live on.
    pub async fn open(config: &Config, options: Options) -> Result<Etcd, OpenError> {
        let engine = Arc::new(open::open(config, options).await?);
        let tasks = vec![
            tokio::spawn(pump::run(engine.clone())),
            tokio::spawn(chores::run(engine.clone())),
            tokio::spawn(chores::beat(engine.clone())),
        ];
        let log = Arc::new(log::EtcdLog(engine.clone()));
        let life = Arc::new(Life { engine: engine.clone(), tasks: Mutex::new(tasks) });
        Ok(Etcd { engine, log, fence: None, life })
    }

    /// The fan-out behind the watches, for what it can tell of its load.
    pub fn hub(&self) -> &Hub {
        &self.engine.hub
    }

    fn fence(&self) -> Option<&Fence> {
        self.fence.as_deref()
    }
}

impl Life {
    fn stop(&self) {
        self.engine.hub.close();
        self.engine.link.close();
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.stop();
    }
}
