//! One thread for what happens from time to time: checkpoints, compaction, the beat of progress deliveries, and
//! giving back memory after a busy time.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::readers::Readers;
use super::schema;
use super::trouble::Trouble;
use super::writer::{Command, Writer};
use crate::Retention;
use crate::fanout::Hub;

/// Rows changed between checkpoints: up to about 16 MB of write-ahead log.
const ROWS_PER_CHECKPOINT: u64 = 2000;
/// From this many pages (128 MiB) the writer itself makes the log begin anew: while it writes without pause, a
/// checkpoint beside it never meets the end of the log.
const LONG_LOG: u64 = 16 * 1024;
/// Reads, or rows changed, between two beats that count as rest: a lease that is renewed does not keep caches.
const REST: u64 = 64;

/// The writer's side: says how much was written.
#[derive(Clone)]
pub(super) struct Housekeeper {
    send: mpsc::SyncSender<()>,
    /// Rows changed so far.
    written: Arc<AtomicU64>,
    /// Rows changed when the last checkpoint was asked for.
    checkpointed: Arc<AtomicU64>,
    /// Pages in the write-ahead log, as the last checkpoint saw them.
    log_pages: Arc<AtomicU64>,
}

impl Housekeeper {
    /// Tells how many rows the writer has changed since it was opened.
    pub(super) fn wrote(&self, rows: u64) {
        self.written.store(rows, Ordering::Relaxed);
        if rows.saturating_sub(self.checkpointed.load(Ordering::Relaxed)) >= ROWS_PER_CHECKPOINT {
            self.checkpointed.store(rows, Ordering::Relaxed);
            self.checkpoint();
        }
    }

    pub(super) fn checkpoint(&self) {
        // One waiting checkpoint is enough.
        let _ = self.send.try_send(());
    }
}

pub(super) struct Schedule {
    pub directory: PathBuf,
    /// Where the end of the log is written down.
    pub head: Option<Arc<File>>,
    pub trouble: Arc<Trouble>,
    pub readers: Arc<Readers>,
    pub progress: Duration,
    pub compaction: Duration,
    pub retention: Retention,
}

pub(super) fn channel() -> (Housekeeper, mpsc::Receiver<()>) {
    let (send, receive) = mpsc::sync_channel(1);
    (
        Housekeeper {
            send,
            written: Arc::default(),
            checkpointed: Arc::default(),
            log_pages: Arc::default(),
        },
        receive,
    )
}

/// Runs until every [`Housekeeper`] is gone.
pub(super) fn start(
    schedule: Schedule,
    housekeeper: &Housekeeper,
    receive: mpsc::Receiver<()>,
    hub: Arc<Hub>,
    writer: Writer,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (log_pages, written) = (housekeeper.log_pages.clone(), housekeeper.written.clone());
    std::thread::Builder::new().name("store-housekeeping".into()).spawn(move || {
        let mut checkpointer = None;
        let (mut reads, mut writes) = (Activity::default(), Activity::default());
        let (mut beat, mut compaction) = (Instant::now(), Instant::now());
        loop {
            let next = (beat + schedule.progress).min(compaction + schedule.compaction);
            match receive.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(()) => checkpoint(&schedule, &mut checkpointer, &log_pages),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if beat.elapsed() >= schedule.progress {
                beat = Instant::now();
                hub.beat();
                if reads.is_over(schedule.readers.reads()) {
                    schedule.readers.rest();
                }
                if schedule.trouble.why().is_some() {
                    writer.try_send(Command::Probe);
                }
                if writes.is_over(written.load(Ordering::Relaxed)) {
                    writer.try_send(Command::Rest);
                }
            }
            if compaction.elapsed() >= schedule.compaction {
                compaction = Instant::now();
                writer.try_send(Command::Compact(schedule.retention, None));
            }
        }
    })
}

/// Whether something that was busy has come to rest, from how often it has happened at each beat.
#[derive(Default)]
struct Activity {
    count: u64,
    busy: bool,
}

impl Activity {
    /// True once after each busy time.
    fn is_over(&mut self, count: u64) -> bool {
        let was_busy = self.busy;
        self.busy |= count.wrapping_sub(self.count) > REST;
        let over = was_busy && count.wrapping_sub(self.count) <= REST;
        self.busy &= !over;
        self.count = count;
        over
    }
}

fn checkpoint(schedule: &Schedule, connection: &mut Option<Connection>, log_pages: &AtomicU64) {
    if connection.is_none() {
        *connection = schema::open_checkpointer(&schedule.directory).ok();
    }
    let Some(open) = connection else { return };
    // Before the log begins anew: what the head says is on the disk by then.
    if let Some(Err(error)) = schedule.head.as_ref().map(|head| head.sync_data()) {
        tracing::debug!(%error, "the end of the log could not be written down");
    }
    // Passive: neither readers nor the writer wait for it.
    let pages = open.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
    match pages {
        Ok(pages) => log_pages.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed),
        Err(error) => {
            tracing::warn!(%error, "a checkpoint failed; trying again later");
            *connection = None;
        }
    }
}

/// Called by the writer between commits.
pub(super) fn restart_log_if_long(connection: &Connection, housekeeper: &Housekeeper) {
    if housekeeper.log_pages.load(Ordering::Relaxed) < LONG_LOG {
        return;
    }
    housekeeper.log_pages.store(0, Ordering::Relaxed);
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())) {
        tracing::warn!(%error, "the write-ahead log could not begin anew; trying again later");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_comes_once_after_each_busy_time() {
        let mut activity = Activity::default();
        let seen: Vec<bool> =
            [10, 20, 500, 900, 910, 920, 2_000, 2_001].map(|count| activity.is_over(count)).into();
        assert_eq!(seen, [false, false, false, false, true, false, false, true]);
    }
}
