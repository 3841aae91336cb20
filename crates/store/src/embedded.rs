//! The engine that needs nothing else: one file in the data directory, one writer, readers on snapshots.
//!
//! SQLite keeps the pages (why: docs/decisions/0002-embedded-engine.md). What is asked of it is little: ordered
//! tables, snapshots, and a commit that is durable. The rest is here, and reads in this order: [`schema`] (what is
//! stored), [`snapshot`], [`past`] and [`lines`] (how it is read, and found to be whole), [`batch`] and [`tenants`] (how it is changed), [`writer`] (how changes of
//! many become one commit), [`chores`] (what is done later), [`housekeeping`] (what is done from time to time).
//!
//! Memory does not grow with tenants: none of them is known here between two calls.

mod batch;
mod check;
mod chores;
mod fault;
mod fork;
mod head;
mod housekeeping;
mod lines;
pub(crate) mod lock;
mod log;
mod loss;
mod past;
mod readers;
mod repair;
mod reserve;
mod schema;
mod snapshot;
mod store;
mod templates;
mod tenants;
#[cfg(test)]
mod tests;
mod trouble;
mod upgrade;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::Fence;
use crate::codec;
use crate::fanout::{Hub, Relay};
use crate::{Retention, TenantId};
use trouble::Trouble;

pub use check::{Finding, MAX_FINDINGS, Report, check};
pub(crate) use fault::store_error;
pub use loss::accept_loss;
pub use repair::repair;
pub(crate) use schema::corrupt_or_unreadable;
pub(crate) use snapshot::row_limit;

/// How an embedded store is opened. The defaults suit a server of one machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for pages of the database, all connections together, whatever the number of tenants; given back when
    /// a busy time is over.
    pub cache_bytes: u64,
    /// Memory for events on their way to watches, all watches together.
    pub event_bytes: usize,
    pub retention: Retention,
    /// How often history beyond the retention is dropped.
    pub compaction_interval: Duration,
    /// How often an idle watch hears how far it is.
    pub progress_interval: Duration,
    /// Room on the disk that is kept, so that something can be deleted when it is full. 0 is none.
    pub reserve_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_bytes: 64 << 20,
            event_bytes: 16 << 20,
            retention: Retention { age: Duration::from_secs(600), bytes: 256 << 20 },
            compaction_interval: Duration::from_secs(30),
            progress_interval: Duration::from_secs(10),
            reserve_bytes: 8 << 20,
        }
    }
}

#[derive(thiserror::Error, Debug)]
pub enum OpenError {
    #[error("the data directory {} cannot be used: {source}", directory.display())]
    Directory { directory: PathBuf, source: std::io::Error },
    #[error("the data directory {} is in use by {}", directory.display(), holder(*pid))]
    InUse { directory: PathBuf, pid: Option<u32> },
    #[error("the database {} is damaged: {why}", file.display())]
    Corrupt { file: PathBuf, why: String },
    #[error(
        "the database {} lacks {lost} changes that were acknowledged: restore a backup, or go on without them after \
         `hangar check --data-dir DIR --accept-loss` (docs/integrity.md)",
        file.display()
    )]
    Lost { file: PathBuf, lost: u64 },
    #[error("the database {} has layout {found}, and this version knows {known}", file.display())]
    Version { file: PathBuf, found: i64, known: i64 },
    #[error("the database {} cannot be opened: {why}", file.display())]
    Database { file: PathBuf, why: String },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
}

/// Whether there is a store in a directory.
pub(crate) fn is_in(directory: &Path) -> bool {
    directory.join(schema::FILE).exists()
}

/// Whether there is a store in a directory, or was one whose database is gone.
pub fn was_in(directory: &Path) -> bool {
    is_in(directory) || directory.join(head::FILE).exists()
}

/// A store in a directory of this machine.
#[derive(Clone)]
pub struct Embedded {
    readers: Arc<readers::Readers>,
    log: Arc<log::DiskLog>,
    writer: writer::Writer,
    hub: Arc<Hub>,
    trouble: Arc<Trouble>,
    /// What all changes made through this handle depend on.
    fence: Option<Arc<Fence>>,
    life: Arc<Life>,
}

/// Shared by all handles; the store ends with the last of them, if it was not closed.
struct Life {
    writer: writer::Writer,
    hub: Arc<Hub>,
    running: Mutex<Option<Running>>,
}

/// What ends with the store.
struct Running {
    threads: [std::thread::JoinHandle<()>; 2],
    lock: lock::DirectoryLock,
}

impl Running {
    fn end(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
        // Last, when nothing of this store touches the directory any more.
        drop(self.lock);
    }
}

impl Embedded {
    /// Opens the store in `directory`, making it if there is none. A second process is refused.
    pub fn open(directory: &Path, options: Options) -> Result<Embedded, OpenError> {
        Embedded::open_with(directory, options, TenantId(1), None)
    }

    /// The same for one tenant, which has an id already; what happens in it is also told to others.
    pub(crate) fn open_room(
        directory: &Path,
        options: Options,
        tenant: TenantId,
        relay: Relay,
    ) -> Result<Embedded, OpenError> {
        Embedded::open_with(directory, options, tenant, Some(relay))
    }

    fn open_with(
        directory: &Path,
        options: Options,
        first: TenantId,
        relay: Option<Relay>,
    ) -> Result<Embedded, OpenError> {
        let lock = lock::take(directory)?;
        let unusable = |why: String| OpenError::Database { file: directory.join(schema::FILE), why };
        // The writer's cache stays warm; a reader's is of use only until the next commit.
        let access = schema::Access::of(directory);
        let writable = access == schema::Access::Write;
        let (connection, head) = if writable {
            let connection = schema::open_writer(directory, options.cache_bytes / 2)?;
            let head = loss::check(directory, &connection)?;
            (connection, head)
        } else {
            let connection = schema::open_unwritable(directory, access, options.cache_bytes / 2)?;
            let head = loss::check_unwritable(directory, &connection)?;
            (connection, head)
        };
        let head_file = head.file();
        let readers = readers::Readers::new(directory.to_owned(), access, options.cache_bytes / 2);
        let hub = Hub::with_relay(options.event_bytes, relay);
        let (housekeeper, receive) = housekeeping::channel();
        let trouble = Arc::<Trouble>::default();
        let reserve = reserve::Reserve::open(directory, options.reserve_bytes);
        let (writer, writing) = writer::start(writer::Setup {
            connection,
            writable,
            head,
            reserve,
            trouble: trouble.clone(),
            hub: hub.clone(),
            housekeeper: housekeeper.clone(),
            retention: options.retention,
            first,
        })
        .map_err(|error| unusable(error.to_string()))?;
        let schedule = housekeeping::Schedule {
            directory: directory.to_owned(),
            head: head_file,
            trouble: trouble.clone(),
            readers: readers.clone(),
            progress: options.progress_interval,
            compaction: options.compaction_interval,
            retention: options.retention,
        };
        let keeping = housekeeping::start(schedule, &housekeeper, receive, hub.clone(), writer.clone())
            .map_err(|error| unusable(error.to_string()))?;
        let log = Arc::new(log::DiskLog::new(readers.clone()));
        let running = Mutex::new(Some(Running { threads: [writing, keeping], lock }));
        let life = Arc::new(Life { writer: writer.clone(), hub: hub.clone(), running });
        Ok(Embedded { readers, log, writer, hub, trouble, fence: None, life })
    }

    /// The fan-out behind the watches, for what it can tell of its load.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // One that was not closed: watches must not wait for a store that is gone, and whoever opens the directory
        // next must find it free.
        self.hub.close();
        if let Some(running) = self.running.lock().take() {
            self.writer.stop();
            running.end();
        }
    }
}
