//! The one thread that writes: all that waits goes into one commit, and is answered after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::batch::{Batch, Counters, Outcome};
use super::chores::{self, Chore};
use super::fault::{self, Fault};
use super::head::{Head, Known};
use super::housekeeping::{self, Housekeeper};
use super::reserve::Reserve;
use super::snapshot;
use super::trouble::Trouble;
use crate::fanout::Hub;
use crate::{Retention, StoreError, TenantId};

/// Calls that wait beyond this wait in their callers, who then feel how busy the disk is.
const WAITING: usize = 1024;
/// A commit of more than this helps nobody: each waits for the slowest.
const LARGEST_BATCH: usize = 512;

/// Without a write for so long, nobody is kept waiting by a longer chore.
const LULL: Duration = Duration::from_millis(20);

/// Told how the commit went; answers the caller.
type Answer = Box<dyn FnOnce(Result<(), &StoreError>) + Send>;
/// Adds to a batch, or is told that there is none; with the error that broke the database, if one did.
type Work = Box<dyn FnOnce(Result<&mut Batch<'_>, &StoreError>) -> (Answer, Option<rusqlite::Error>) + Send>;

pub(super) enum Command {
    Write(Work),
    Compact(Retention, Option<oneshot::Sender<Result<(), StoreError>>>),
    /// Finds out whether something can be written again.
    Probe,
    /// Gives back the memory of a busy time.
    Rest,
    /// Lets the tests make the disk misbehave.
    #[cfg(test)]
    Pragma(&'static str, i64),
    Stop(oneshot::Sender<()>),
}

/// Where callers hand in what is to be written.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Command>);

impl Writer {
    /// Runs `work` in the next batch and returns what it returned, once that is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, wait) = oneshot::channel();
        let work: Work = Box::new(move |batch| {
            let (result, broken) = match batch.map(work) {
                Ok(Ok(value)) => (Some(Ok(value)), None),
                Ok(Err(Fault::Refused(error))) => (Some(Err(error)), None),
                Ok(Err(Fault::Broken(error))) => (None, Some(error)),
                Err(_) => (None, None),
            };
            let reply: Answer = Box::new(move |committed| {
                // The caller may have gone; what it asked for is done all the same.
                let _ = answer.send(match (committed, result) {
                    (Ok(()), Some(result)) => result,
                    (Err(error), _) => Err(fault::same(error)),
                    (Ok(()), None) => Err(StoreError::Failed("a broken write was committed".into())),
                });
            });
            (reply, broken)
        });
        self.send(Command::Write(work)).await?;
        wait.await.map_err(|_| StoreError::closed())?
    }

    pub(super) async fn send(&self, command: Command) -> Result<(), StoreError> {
        self.0.send(command).await.map_err(|_| StoreError::closed())
    }

    /// Work that nobody waits for.
    pub(super) fn later(&self, work: impl FnOnce(&mut Batch<'_>) -> Result<(), Fault> + Send + 'static) {
        let writer = self.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { writer.write(work).await });
        }
    }

    /// Ends the writer after what it is doing, from a place that cannot wait in the usual way.
    pub(super) fn stop(&self) {
        loop {
            let (done, _) = oneshot::channel();
            match self.0.try_send(Command::Stop(done)) {
                Err(mpsc::error::TrySendError::Full(_)) => std::thread::sleep(Duration::from_millis(1)),
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        }
    }

    /// For a caller that would rather try again later than wait.
    pub(super) fn try_send(&self, command: Command) -> bool {
        self.0.try_send(command).is_ok()
    }
}

pub(super) struct Setup {
    pub connection: Connection,
    /// Not on a read-only file system.
    pub writable: bool,
    pub head: Head,
    pub reserve: Reserve,
    pub trouble: Arc<Trouble>,
    pub hub: Arc<Hub>,
    pub housekeeper: Housekeeper,
    pub retention: Retention,
    /// The id of the first tenant; later ones follow.
    pub first: TenantId,
}

pub(super) fn start(setup: Setup) -> rusqlite::Result<(Writer, std::thread::JoinHandle<()>)> {
    let (send, receive) = mpsc::channel(WAITING);
    let mut counters = Counters::load(&setup.connection)?;
    counters.tenant = counters.tenant.max(setup.first.0.saturating_sub(1));
    let mut desk = Desk {
        counters,
        noted: Known::default(),
        copies: VecDeque::new(),
        removals: VecDeque::new(),
        compactions: VecDeque::new(),
        // What an earlier process did not come to.
        shrink: setup.writable,
        shrink_steps: 0,
        waits_for_disk: true,
        setup,
    };
    if desk.setup.writable {
        desk.take_up(chores::unfinished(&desk.setup.connection)?);
    } else {
        desk.setup.trouble.began("the data directory is on a read-only file system");
    }
    let unusable = |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(unusable)?;
    let thread = std::thread::Builder::new()
        .name("store-writer".into())
        .spawn(move || desk.run(receive, &clock))
        .map_err(unusable)?;
    Ok((Writer(send), thread))
}

struct Compaction {
    retention: Retention,
    done: Option<oneshot::Sender<Result<(), StoreError>>>,
}

/// What lies on the writer's desk.
struct Desk {
    setup: Setup,
    counters: Counters,
    /// What the head says.
    noted: Known,
    copies: VecDeque<TenantId>,
    removals: VecDeque<TenantId>,
    compactions: VecDeque<Compaction>,
    /// Something was removed, and the file may be larger than it has to be.
    shrink: bool,
    shrink_steps: u32,
    /// Chores do not, writes always do.
    waits_for_disk: bool,
}

impl Desk {
    fn run(&mut self, mut commands: mpsc::Receiver<Command>, clock: &Runtime) {
        let mut last_write = Instant::now();
        loop {
            let idle = !self.has_chores() && !self.shrink;
            let first = match LULL.checked_sub(last_write.elapsed()) {
                _ if idle => commands.blocking_recv(),
                // Between two commits of a busy time there often is nothing for a moment: the next writes are on their way,
                // and the processor is theirs.
                Some(rest) => {
                    clock.block_on(async { tokio::time::timeout(rest, commands.recv()).await.ok().flatten() })
                }
                None => commands.try_recv().ok(),
            };
            if first.is_none() && (idle || commands.is_closed()) {
                return;
            }
            let mut writes = VecDeque::new();
            let mut stop = None;
            let mut next = first;
            while let Some(command) = next {
                match command {
                    Command::Write(work) => writes.push_back(work),
                    Command::Compact(retention, done) => {
                        self.compactions.push_back(Compaction { retention, done })
                    }
                    Command::Probe => self.probe(),
                    Command::Rest => self.rest(),
                    #[cfg(test)]
                    Command::Pragma(name, value) => {
                        let _ = self.setup.connection.pragma_update(None, name, value);
                    }
                    Command::Stop(done) => stop = Some(done),
                }
                next = if writes.len() < LARGEST_BATCH && stop.is_none() {
                    commands.try_recv().ok()
                } else {
                    None
                };
            }
            let written = writes.len();
            if written > 0 {
                self.commit(writes);
                last_write = Instant::now();
            }
            if let Some(done) = stop {
                // What is unfinished is found at the next start.
                commands.close();
                let _ = done.send(());
                return;
            }
            let busy = last_write.elapsed() < LULL;
            if !busy && !self.has_chores() {
                self.shrink_some();
            }
            self.do_some_chore(if busy { chores::step_beside(written) } else { chores::STEP });
        }
    }

    fn has_chores(&self) -> bool {
        !(self.copies.is_empty() && self.removals.is_empty() && self.compactions.is_empty())
    }

    /// A step of making the file smaller, when nobody writes and nothing is left to be removed.
    fn shrink_some(&mut self) {
        if !self.shrink || self.wait_for_disk(false).is_err() {
            return;
        }
        match chores::shrink_step(&self.setup.connection) {
            Ok(done) => {
                self.shrink = !done;
                self.shrink_steps = self.shrink_steps.wrapping_add(1);
            }
            Err(error) => {
                tracing::debug!(%error, "the database could not be made smaller");
                self.shrink = false;
            }
        }
        self.keep_log_short();
        // The file is cut off when the log has been moved to it; and a log of moved pages is not to become long.
        if !self.shrink || self.shrink_steps.is_multiple_of(STEPS_PER_CHECKPOINT) {
            self.setup.housekeeper.checkpoint();
        }
    }

    fn rest(&self) {
        if let Err(error) = self.setup.connection.execute_batch("PRAGMA shrink_memory") {
            tracing::debug!(%error, "the database's cache could not be given back");
        }
    }

    fn take_up(&mut self, chores: Vec<Chore>) {
        for chore in chores {
            match chore {
                Chore::Copy(fork) => self.copies.push_back(fork),
                Chore::Remove(tenant) => self.removals.push_back(tenant),
            }
        }
    }

    /// All that waits in one commit. If one breaks it, those before it fail with it, and those after it have
    /// another.
    fn commit(&mut self, mut writes: VecDeque<Work>) {
        while !writes.is_empty() {
            let mut answers = Vec::with_capacity(writes.len());
            // Once there is room, everything is taken again.
            if self.setup.reserve.is_given_up() {
                self.setup.reserve.take();
            }
            let changed = self.setup.connection.total_changes();
            let durable = self.wait_for_disk(true);
            let result = durable.and_then(|()| {
                self.transact(|batch| {
                    while let Some(work) = writes.pop_front() {
                        let (answer, broken) = work(Ok(&mut *batch));
                        answers.push(answer);
                        if let Some(error) = broken {
                            return Err(error.into());
                        }
                    }
                    Ok(())
                })
            });
            if result.is_ok() {
                self.note_head();
                if self.setup.connection.total_changes() != changed {
                    self.could_write();
                }
            }
            if let Err(error) = &result {
                if answers.is_empty() {
                    // It could not even begin: no other would.
                    answers.extend(writes.drain(..).map(|work| work(Err(error)).0));
                }
                self.could_not_write(error, answers.len());
            }
            for answer in answers {
                answer(result.as_ref().copied());
            }
        }
        self.keep_log_short();
        // On a full disk the past is what can be given up first.
        let nothing = Retention { age: Duration::ZERO, bytes: 0 };
        let retention = if self.setup.reserve.is_given_up() { nothing } else { self.setup.retention };
        if retention.bytes < self.counters.history_bytes && self.compactions.is_empty() {
            self.compactions.push_back(Compaction { retention, done: None });
        }
    }

    fn could_write(&self) {
        // Deletions are written while the disk is full.
        if !self.setup.reserve.is_given_up() {
            self.setup.trouble.ended();
        }
    }

    /// Empties the log, so that it begins anew and does not grow. Between commits, on the writer's own thread: beside it the end
    /// of the log is never met.
    fn keep_log_short(&self) {
        if self.setup.writable
            && self.setup.reserve.is_short()
            && let Err(error) =
                self.setup.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        {
            tracing::debug!(%error, "a checkpoint failed");
        }
    }

    fn could_not_write(&mut self, error: &StoreError, writes: usize) {
        match error {
            StoreError::Unavailable(why) => {
                self.setup.trouble.began(why);
                if why.starts_with(fault::FULL) {
                    self.setup.reserve.give_up();
                }
            }
            // Told by whoever asks, once for each object.
            StoreError::Damaged { .. } => tracing::debug!(%error, writes, "a commit failed"),
            error => tracing::error!(%error, writes, "a commit failed; nothing of it was written"),
        }
    }

    fn probe(&mut self) {
        let there_is_room = !self.setup.reserve.is_given_up() || self.setup.reserve.take();
        let time = u64::try_from(now()).unwrap_or(0);
        let wrote = self.transact(|batch| Ok(snapshot::put_counter(batch.connection, "probe", time)?));
        if there_is_room && wrote.is_ok() {
            self.setup.trouble.ended();
        }
    }

    /// Writes down how far the log reaches: what has just been committed is durable, and nobody knows of it yet.
    fn note_head(&mut self) {
        let known = self.counters.known();
        if known == self.noted {
            return;
        }
        match self.setup.head.write(known) {
            Ok(()) => self.noted = known,
            // It is behind from now on, and loss is noticed less exactly; no reason to fail what is durable.
            Err(error) => tracing::debug!(%error, "the end of the log could not be written down"),
        }
    }

    /// One commit: all of `work` or nothing.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let connection = &self.setup.connection;
        let run = |sql: &str| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        let attempt = || -> Result<(T, Counters, Outcome), Fault> {
            run("BEGIN IMMEDIATE")?;
            let mut batch = Batch::new(connection, self.counters, now());
            batch.full = self.setup.reserve.is_given_up();
            let value = work(&mut batch)?;
            let (counters, outcome) = batch.finish()?;
            run("COMMIT")?;
            Ok((value, counters, outcome))
        };
        match attempt() {
            Ok((value, counters, outcome)) => {
                self.counters = counters;
                self.setup.housekeeper.wrote(connection.total_changes());
                housekeeping::restart_log_if_long(connection, &self.setup.housekeeper);
                self.take_up(outcome.chores);
                self.setup.hub.publish(&outcome.events, &outcome.revisions, &outcome.deleted);
                Ok(value)
            }
            Err(error) => {
                // Some failures have ended the transaction already.
                if !connection.is_autocommit() {
                    let _ = run("ROLLBACK");
                }
                Err(match error {
                    Fault::Refused(error) => error,
                    Fault::Broken(error) => fault::store_error(error),
                })
            }
        }
    }

    /// One step of what waits, so that a writer waits for one step at most. Copies come first: what is removed or
    /// compacted may be what is being copied.
    /// At most so many rows of one, without waiting for the disk: a chore that a crash undoes is done again.
    fn do_some_chore(&mut self, rows: usize) {
        if self.has_chores() && self.wait_for_disk(false).is_ok() {
            self.do_chore(rows);
            self.keep_log_short();
        }
    }

    /// Whether commits from now on are on disk when they return.
    fn wait_for_disk(&mut self, wait: bool) -> Result<(), StoreError> {
        if self.waits_for_disk != wait {
            let level = if wait { "full" } else { "normal" };
            let told = self.setup.connection.pragma_update(None, "synchronous", level);
            told.map_err(fault::store_error)?;
            self.waits_for_disk = wait;
        }
        Ok(())
    }

    fn do_chore(&mut self, rows: usize) {
        let result = if let Some(fork) = self.copies.front().copied() {
            self.transact(|batch| batch.copy_step(fork, rows)).map(|done| {
                if done {
                    self.copies.pop_front();
                }
            })
        } else if !self.removals.is_empty() {
            self.shrink = true;
            self.remove_some(rows)
        } else if let Some(compaction) = self.compactions.pop_front() {
            let before = self.setup.connection.total_changes();
            self.compact_some(compaction, rows);
            self.shrink |= self.setup.connection.total_changes() != before;
            Ok(())
        } else {
            Ok(())
        };
        if let Err(error) = result {
            match &error {
                StoreError::Unavailable(why) => self.setup.trouble.began(why),
                error => tracing::warn!(%error, "a chore of the store failed; trying again"),
            }
            std::thread::sleep(AFTER_A_FAILURE);
        }
    }

    /// As many tenants as fit into one step: removing small ones must not cost a commit each.
    fn remove_some(&mut self, step: usize) -> Result<(), StoreError> {
        let removals = std::mem::take(&mut self.removals);
        let removed = self.transact(|batch| {
            let (mut rows, mut tenants) = (0, 0);
            for tenant in &removals {
                let asked = step - rows;
                let removed = batch.remove_step(*tenant, asked)?;
                if removed == asked {
                    break;
                }
                // A tenant without rows is some work, too.
                rows = (rows + removed + 1).min(step - 1);
                tenants += 1;
            }
            Ok(tenants)
        });
        // What the commit itself has left to be removed comes after what was there before.
        let new = std::mem::replace(&mut self.removals, removals);
        self.removals.extend(new);
        removed.map(|tenants| drop(self.removals.drain(..tenants)))
    }

    fn compact_some(&mut self, compaction: Compaction, rows: usize) {
        let finished = match self.transact(|batch| batch.compact_step(&compaction.retention, rows)) {
            Ok(false) => return self.compactions.push_front(compaction),
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        match (compaction.done, finished) {
            (Some(done), finished) => drop(done.send(finished)),
            (None, Err(StoreError::Unavailable(why))) => self.setup.trouble.began(&why),
            (None, Err(error)) => tracing::warn!(%error, "compaction failed; trying again later"),
            (None, Ok(())) => {}
        }
    }
}

/// Steps of shrinking between checkpoints: up to 32 MB of write-ahead log.
const STEPS_PER_CHECKPOINT: u32 = 16;

/// A full disk does not empty itself in microseconds.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
