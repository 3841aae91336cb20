//! Connections for readers, opened when needed, bounded in number and in cache.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{fault, schema};
use crate::StoreError;

/// More than the cores of a usual machine, so that a reader waiting for the disk does not stop the next.
const CONNECTIONS: usize = 8;
/// Long reads may not take all of them: a point read waits for another point read at most.
const LONG_READS: usize = 5;

pub(super) struct Readers {
    directory: PathBuf,
    access: schema::Access,
    cache_bytes_each: u64,
    /// The one used last is used next: its cache is the warmest.
    idle: Mutex<Vec<Connection>>,
    /// How many there were.
    reads: AtomicU64,
    permits: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(directory: PathBuf, access: schema::Access, cache_bytes: u64) -> Arc<Readers> {
        Arc::new(Readers {
            directory,
            access,
            cache_bytes_each: cache_bytes / CONNECTIONS as u64,
            idle: Mutex::new(Vec::new()),
            reads: AtomicU64::new(0),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            long: Arc::new(Semaphore::new(LONG_READS)),
        })
    }

    /// A read of a few rows, in place: it takes microseconds, less than handing it to another thread would.
    pub(super) async fn short<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| StoreError::closed())?;
        self.run(work)
    }

    /// A read of many rows, on a thread that may block.
    pub(super) async fn long<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let long = self.long.clone().acquire_owned().await.map_err(|_| StoreError::closed())?;
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| StoreError::closed())?;
        let readers = self.clone();
        tokio::task::spawn_blocking(move || {
            let _held_until_done = (long, permit);
            readers.run(work)
        })
        .await
        .map_err(|error| StoreError::Failed(format!("a read ended early: {error}")))?
    }

    fn run<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let connection = match self.idle.lock().pop() {
            Some(connection) => connection,
            None => schema::open_reader(&self.directory, self.access, self.cache_bytes_each)
                .map_err(fault::store_error)?,
        };
        let begin = |sql| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        begin("BEGIN").map_err(fault::store_error)?;
        let result = work(&connection);
        // One that cannot end its transaction is dropped, and another opened when it is missed.
        if begin("COMMIT").is_ok() {
            self.idle.lock().push(connection);
        }
        result
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Gives back what was needed for a busy time; it is opened again when there is another.
    pub(super) fn rest(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        // Closed when the lock is free again: whoever comes now opens its own.
        drop(idle);
    }

    /// No read begins after this; connections are closed.
    pub(super) fn close(&self) {
        self.permits.close();
        self.long.close();
        self.idle.lock().clear();
    }
}
