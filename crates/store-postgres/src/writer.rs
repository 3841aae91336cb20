//! The one task of a process that writes: all that waits goes into one transaction, and is answered after it.
//!
//! Two trips to the database per batch. The first locks the tenants and reads the keys; the second brings everything
//! and commits. Between them [`batch`](crate::batch) decides who is refused.
//!
//! A tenant that somebody else holds for long holds up nobody but itself: what is to be written to it is put by and tried
//! again with each batch, in its order, while the others go on.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::codec::{integer, number};
use store::{Position, Revision, StoreError, TenantId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_postgres::error::SqlState;

use crate::batch::{Held, Plan, Stored, Transaction};
use crate::connection::{Connection, Connector, Parameters};
use crate::fault::Fault;
use crate::partitions::Partitions;
use crate::snapshot::{bytes, revision};
use crate::statements::Sql;
use crate::tail::{Committed, Tail};

/// Calls that wait beyond this wait in their callers, who then feel how busy the database is.
const WAITING: usize = 1024;
/// A batch of more than this helps nobody: each waits for the slowest.
const LARGEST_BATCH: usize = 512;
const HEAVIEST_BATCH: usize = 8 << 20;
/// Of what waits for tenants that somebody else holds, a batch tries so much at most, to have room for others.
const PUT_BY: usize = LARGEST_BATCH / 2;
/// How long the database may take for one trip of a batch.
const TRIP: Duration = Duration::from_secs(10);
/// How long a batch waits for tenants that somebody else holds, before it goes on without them. Another replica holds one
/// for a commit, and there may be several in line.
const LOCK: Duration = Duration::from_millis(500);
/// Between attempts to get hold of them, if there is nothing else to write.
const RETRY: Duration = Duration::from_millis(20);
/// So often they are waited for again, though there is something else to write: who only looks whether they are free may
/// never meet them so.
const INSIST: Duration = Duration::from_secs(2);
/// What could not be written for so long is not, and its caller is told.
const LOCKED: Duration = Duration::from_secs(10);
/// Between questions about the end of a transaction whose connection was lost.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Request {
    transaction: Transaction,
    answer: oneshot::Sender<Result<Revision, StoreError>>,
    came: Instant,
}

/// Where callers hand in what is to be written.
pub(crate) struct Writer(parking_lot::Mutex<Option<mpsc::Sender<Request>>>);

impl Writer {
    pub(crate) fn start(desk: Desk) -> (Writer, tokio::task::JoinHandle<()>) {
        let (send, receive) = mpsc::channel(WAITING);
        (Writer(parking_lot::Mutex::new(Some(send))), tokio::spawn(desk.run(receive)))
    }

    pub(crate) async fn write(&self, transaction: Transaction) -> Result<Revision, StoreError> {
        let send = self.0.lock().clone().ok_or_else(StoreError::closed)?;
        let (answer, wait) = oneshot::channel();
        send.send(Request { transaction, answer, came: Instant::now() })
            .await
            .map_err(|_| StoreError::closed())?;
        wait.await.map_err(|_| StoreError::closed())?
    }

    /// Nothing is taken from here on; what was is finished.
    pub(crate) fn close(&self) {
        *self.0.lock() = None;
    }
}

/// What the writer works with.
pub(crate) struct Desk {
    connector: Arc<Connector>,
    connection: Option<Connection>,
    tail: Tail,
    partitions: Arc<Partitions>,
    /// This process among those that write.
    id: i64,
    channel: String,
    /// The last batch this process has tried to commit.
    batch: i64,
    patience: Duration,
    /// Tenants that somebody else held at the last attempt.
    busy: HashSet<TenantId>,
    /// When such were last waited for.
    insisted: Instant,
}

/// What became of each transaction; nothing of those whose tenants somebody else holds.
type Results = Vec<Option<Result<Revision, StoreError>>>;

/// How an attempt to commit ended.
enum Attempt {
    /// Everyone's answer; with what was committed, unless nothing was, or nobody heard its position.
    Done(Plan, Option<Position>),
    /// Nothing was written.
    Failed(Fault),
    /// The connection was lost with the COMMIT on its way.
    Unknown(Plan),
}

impl Desk {
    pub(crate) fn new(
        connector: Arc<Connector>,
        tail: Tail,
        partitions: Arc<Partitions>,
        id: i64,
        patience: Duration,
    ) -> Desk {
        let channel = connector.channel();
        let (busy, insisted) = (HashSet::new(), Instant::now());
        Desk {
            connector,
            connection: None,
            tail,
            partitions,
            id,
            channel,
            batch: 0,
            patience,
            busy,
            insisted,
        }
    }

    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        // What waits for tenants that somebody else holds, at most [`PUT_BY`].
        let mut put_by: Vec<Request> = Vec::new();
        loop {
            let first = if put_by.is_empty() {
                match requests.recv().await {
                    Some(first) => Some(first),
                    None => return,
                }
            } else {
                match timeout(RETRY, requests.recv()).await {
                    Ok(None) => {
                        tokio::time::sleep(RETRY).await;
                        None
                    }
                    first => first.unwrap_or(None),
                }
            };
            let others = first.iter().any(|first| !self.is_busy(&first.transaction));
            let mut weight = first.as_ref().map_or(0, |first| first.transaction.weight);
            // In front of what came later.
            let mut batch = std::mem::take(&mut put_by);
            batch.extend(first);
            while batch.len() < LARGEST_BATCH
                && weight < HEAVIEST_BATCH
                && let Ok(next) = requests.try_recv()
            {
                weight += next.transaction.weight;
                batch.push(next);
            }
            if !others || self.insisted.elapsed() >= INSIST {
                self.insisted = Instant::now();
                self.busy.clear();
            }
            let left = self.commit(batch).await;
            let (waiting, late) = left.into_iter().partition(|request| request.came.elapsed() < LOCKED);
            put_by = waiting;
            put_by.splice(PUT_BY.min(put_by.len()).., []).chain(late).for_each(|request: Request| {
                let why = "somebody else holds the tenant in the database";
                let _ = request.answer.send(Err(StoreError::Unavailable(why.into())));
            });
            if put_by.is_empty() {
                self.busy.clear();
            }
        }
    }

    fn is_busy(&self, transaction: &Transaction) -> bool {
        transaction.tenants().any(|tenant| self.busy.contains(&tenant))
    }

    /// Returns what could not be tried, in its order.
    async fn commit(&mut self, batch: Vec<Request>) -> Vec<Request> {
        let transactions: Vec<&Transaction> = batch.iter().map(|request| &request.transaction).collect();
        match self.carry_through(&transactions).await {
            Ok(results) => answer(batch, results),
            // Something about one of them that only the database knows: each for itself.
            Err(fault)
                if batch.len() > 1 && matches!(fault, Fault::Database(_)) && !fault.is_unavailable() =>
            {
                let mut left: Vec<Request> = Vec::new();
                for request in batch {
                    // Not before what came before it.
                    if left.iter().any(|one| one.transaction.tenant == request.transaction.tenant) {
                        left.push(request);
                        continue;
                    }
                    let alone = self.carry_through(&[&request.transaction]).await;
                    let results = alone.unwrap_or_else(|fault| vec![Some(Err(fault.into()))]);
                    left.extend(answer(vec![request], results));
                }
                left
            }
            Err(fault) => {
                let error = StoreError::from(fault);
                for request in batch {
                    let same = match &error {
                        StoreError::Failed(why) => StoreError::Failed(why.clone()),
                        StoreError::Unavailable(why) => StoreError::Unavailable(why.clone()),
                        other => StoreError::Unavailable(other.to_string()),
                    };
                    let _ = request.answer.send(Err(same));
                }
                Vec::new()
            }
        }
    }

    /// Tries until it is done, it is clear that it cannot be, or patience ends.
    async fn carry_through(&mut self, transactions: &[&Transaction]) -> Result<Results, Fault> {
        let until = Instant::now() + self.patience;
        loop {
            let fault = match self.attempt(transactions).await {
                Attempt::Done(plan, position) => {
                    let results = self.publish(plan, position).await;
                    return Ok(self.each(transactions, results));
                }
                Attempt::Unknown(plan) => match self.settle(until).await {
                    Some(true) => {
                        let results = self.publish_unheard(plan);
                        return Ok(self.each(transactions, results));
                    }
                    Some(false) => Fault::Away("the database was lost in the middle of a commit".into()),
                    None => {
                        let why = "the connection to the database was lost during a commit; it may have happened, or not";
                        return Err(StoreError::Unavailable(why.into()).into());
                    }
                },
                Attempt::Failed(fault) => fault,
            };
            // Nothing was written, so trying again is safe.
            if fault.code() == Some(&SqlState::CHECK_VIOLATION) {
                // The log has no partition for these positions yet.
                let lines = transactions.iter().map(|transaction| transaction.steps.len() as u64).sum();
                self.partitions.make(lines).await?;
            } else if fault.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
                // Without those that somebody else holds, whichever they are.
                self.busy = transactions.iter().flat_map(|of| of.tenants()).collect();
                continue;
            } else if !fault.is_collision() && !fault.is_lost() && !matches!(fault, Fault::Away(_)) {
                return Err(fault);
            } else if !fault.is_collision() {
                tokio::time::sleep(PAUSE.min(until.saturating_duration_since(Instant::now()))).await;
            }
            if Instant::now() >= until {
                return Err(fault);
            }
        }
    }

    /// Results of all, of those that were tried.
    fn each(&self, transactions: &[&Transaction], tried: Vec<Result<Revision, StoreError>>) -> Results {
        let mut tried = tried.into_iter();
        transactions.iter().map(|of| if self.is_busy(of) { None } else { tried.next() }).collect()
    }

    async fn attempt(&mut self, transactions: &[&Transaction]) -> Attempt {
        let connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => match self.connector.is_heard() {
                Ok(()) => connection,
                Err(fault) => {
                    self.connection = Some(connection);
                    return Attempt::Failed(fault);
                }
            },
            None => match self.connect().await {
                Ok(connection) => connection,
                Err(fault) => return Attempt::Failed(fault),
            },
        };
        let reading = Box::pin(self.lock_and_read(&connection, transactions));
        let held = match self.within(reading).await {
            Ok((held, busy)) => {
                self.busy = busy;
                held
            }
            Err(fault) => {
                self.undo(connection, &fault).await;
                return Attempt::Failed(fault);
            }
        };
        let tried: Vec<&Transaction> = transactions.iter().filter(|of| !self.is_busy(of)).copied().collect();
        let plan = Plan::new(&tried, &held);
        if plan.lines.is_empty() {
            if self.within(connection.run("ROLLBACK")).await.is_ok() {
                self.connection = Some(connection);
            }
            return Attempt::Done(plan, None);
        }
        self.batch += 1;
        match self.within(self.apply(&connection, &plan)).await {
            Ok(position) => {
                self.connection = Some(connection);
                Attempt::Done(plan, Some(position))
            }
            Err(fault) if fault.is_lost() => Attempt::Unknown(plan),
            Err(fault) => {
                self.undo(connection, &fault).await;
                Attempt::Failed(fault)
            }
        }
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.connector.answered(TRIP, work).await
    }

    async fn connect(&self) -> Result<Connection, Fault> {
        let connection = self.connector.connect().await?;
        self.within(async {
            connection.query(Sql::EnterWriter, &[&self.id]).await?;
            for sql in [
                Sql::LockWriter,
                Sql::LockTenants,
                Sql::TryTenants,
                Sql::LivingTenants,
                Sql::ReadKeys,
                Sql::Apply,
            ] {
                connection.prepare(sql).await?;
            }
            Ok(())
        })
        .await?;
        Ok(connection)
    }

    /// Keeps the connection if it can still be used.
    async fn undo(&mut self, connection: Connection, fault: &Fault) {
        let usable = !fault.spoils_connection() && !matches!(fault, Fault::Away(_));
        if usable && self.within(connection.run("ROLLBACK")).await.is_ok() {
            self.connection = Some(connection);
        }
    }

    /// The first trip. Tenants that somebody else held at the last attempt are not waited for, the others for a moment.
    /// With what is held, those that are not to be had.
    async fn lock_and_read(
        &self,
        connection: &Connection,
        transactions: &[&Transaction],
    ) -> Result<(Held, HashSet<TenantId>), Fault> {
        let ids: BTreeSet<TenantId> = transactions.iter().flat_map(|of| of.tenants()).collect();
        let (tried, awaited): (Vec<TenantId>, Vec<TenantId>) =
            ids.into_iter().partition(|tenant| self.busy.contains(tenant));
        let integers = |ids: &[TenantId]| ids.iter().map(|tenant| integer(tenant.0)).collect::<Vec<i64>>();
        let (tried, awaited) = (integers(&tried), integers(&awaited));
        let mut places: Vec<(TenantId, &[u8])> = transactions.iter().flat_map(|of| of.places()).collect();
        places.sort_unstable();
        places.dedup();
        let tenants: Vec<i64> = places.iter().map(|(tenant, _)| integer(tenant.0)).collect();
        let keys: Vec<&[u8]> = places.iter().map(|(_, key)| *key).collect();
        // In one flight: the database takes them one after the other, and reads the keys when the tenants are
        // locked, with eyes of that moment.
        let (of_writer, of_awaited, of_tried, of_keys): (
            Parameters<'_>,
            Parameters<'_>,
            Parameters<'_>,
            Parameters<'_>,
        ) = (&[&self.id], &[&awaited], &[&tried], &[&tenants, &keys]);
        let limit = format!("SET LOCAL lock_timeout = {}", LOCK.as_millis());
        let trying = async {
            if tried.is_empty() {
                return Ok((Vec::new(), Vec::new()));
            }
            let (got, living) = futures::join!(
                connection.query(Sql::TryTenants, of_tried),
                connection.query(Sql::LivingTenants, of_tried),
            );
            Ok::<_, Fault>((got?, living?))
        };
        let (begun, writer, limited, locked, unlimited, others, read) = futures::join!(
            connection.begin(),
            connection.query(Sql::LockWriter, of_writer),
            connection.run(&limit),
            connection.query(Sql::LockTenants, of_awaited),
            // Commits stand in line for longer.
            connection.run("SET LOCAL lock_timeout = 0"),
            trying,
            connection.query(Sql::ReadKeys, of_keys),
        );
        begun?;
        let writer = writer?;
        limited?;
        let locked = locked?;
        unlimited?;
        let (got, living) = others?;
        let read = read?;
        if writer.is_empty() {
            // Forgotten, after a day without a write. A new connection enters it again.
            return Err(Fault::Away("the writer was forgotten".into()));
        }
        let mut held = Held::default();
        for row in locked.iter().chain(&got) {
            held.revisions.insert(TenantId(number(row.try_get(0)?)), revision(row, 1)?);
        }
        let mut busy = HashSet::new();
        for row in living {
            let tenant = TenantId(number(row.try_get(0)?));
            if !held.revisions.contains_key(&tenant) {
                busy.insert(tenant);
            }
        }
        for row in read {
            let line = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
            let Some((tenant, key)) = places.get(line.wrapping_sub(1)) else { continue };
            let stored =
                Stored { created: revision(&row, 1)?, modified: revision(&row, 2)?, value: bytes(&row, 3)? };
            held.entries.insert((*tenant, key.to_vec()), stored);
        }
        Ok((held, busy))
    }

    /// The second trip.
    async fn apply(&self, connection: &Connection, plan: &Plan) -> Result<Position, Fault> {
        let (mut tenants, mut revisions) = (Vec::new(), Vec::new());
        for (tenant, revision) in &plan.advanced {
            tenants.push(integer(tenant.0));
            revisions.push(integer(revision.0));
        }
        let mut put = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::<&[u8]>::new());
        let mut deleted = (Vec::new(), Vec::new());
        for ((tenant, key), stored) in &plan.last {
            let tenant = integer(tenant.0);
            match stored {
                Some(stored) => {
                    put.0.push(tenant);
                    put.1.push(key.as_slice());
                    put.2.push(integer(stored.created.0));
                    put.3.push(integer(stored.modified.0));
                    put.4.push(stored.value.as_ref());
                }
                None => {
                    deleted.0.push(tenant);
                    deleted.1.push(key.as_slice());
                }
            }
        }
        let mut tally = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((tenant, kind), (entries, size)) in &plan.tallies {
            tally.0.push(integer(tenant.0));
            tally.1.push(kind.as_str());
            tally.2.push(*entries);
            tally.3.push(*size);
        }
        let lines = &plan.lines;
        let column = |of: fn(&crate::batch::Line) -> i64| lines.iter().map(of).collect::<Vec<i64>>();
        let line_tenants = column(|line| integer(line.tenant.0));
        let line_revisions = column(|line| integer(line.revision.0));
        let line_created = column(|line| integer(line.created.0));
        let line_keys: Vec<&[u8]> = lines.iter().map(|line| line.bytes.as_slice()).collect();
        let line_changes: Vec<i16> = lines.iter().map(|line| line.change().0).collect();
        let line_previous: Vec<Option<i64>> =
            lines.iter().map(|line| line.before.as_ref().map(|before| integer(before.modified.0))).collect();
        let line_weights: Vec<i32> = lines.iter().map(crate::batch::Line::weight).collect();
        let old = |line: &crate::batch::Line| -> Option<Bytes> {
            line.before.as_ref().filter(|_| !line.stands).map(|before| before.value.clone())
        };
        let line_old: Vec<Option<Bytes>> = lines.iter().map(old).collect();
        let line_old: Vec<Option<&[u8]>> = line_old.iter().map(Option::as_deref).collect();
        let line_stands: Vec<bool> = lines.iter().map(|line| line.stands).collect();
        let line_before: Vec<i64> = lines
            .iter()
            .scan(0, |before, line| {
                let here = *before;
                *before += line.history() as i64;
                Some(here)
            })
            .collect();
        let (count, history) = (lines.len() as i64, plan.history());
        let (channel, sender) = (self.channel.as_str(), self.id.to_string());
        let parameters: Parameters<'_> = &[
            &tenants,
            &revisions,
            &put.0,
            &put.1,
            &put.2,
            &put.3,
            &put.4,
            &deleted.0,
            &deleted.1,
            &tally.0,
            &tally.1,
            &tally.2,
            &tally.3,
            &line_tenants,
            &line_revisions,
            &line_keys,
            &line_changes,
            &line_created,
            &line_previous,
            &line_weights,
            &line_old,
            &line_stands,
            &line_before,
            &count,
            &history,
            &channel,
            &sender,
            &self.batch,
            &self.id,
        ];
        let (applied, committed) =
            futures::join!(connection.query(Sql::Apply, parameters), connection.run("COMMIT"));
        // If applying failed, the database has made a rollback of the commit.
        let rows = applied?;
        committed?;
        let row =
            rows.first().ok_or_else(|| StoreError::Failed("the database has lost its counter".into()))?;
        Ok(Position(number(row.try_get(0)?)))
    }

    /// What became of the last transaction, once it has come to its end: its first act was to lock our row.
    async fn settle(&self, until: Instant) -> Option<bool> {
        // At least one question, even where the loss itself has used up all patience.
        let until = until.max(Instant::now() + self.patience);
        loop {
            let asked = async {
                let connection = self.connector.connect().await?;
                connection.query(Sql::LockWriter, &[&self.id]).await
            };
            let left = until.saturating_duration_since(Instant::now());
            if let Ok(Ok(rows)) = timeout(left, asked).await {
                let batch: Option<i64> = rows.first().and_then(|row| row.try_get(0).ok());
                return batch.map(|batch| batch == self.batch);
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn publish(&self, plan: Plan, position: Option<Position>) -> Vec<Result<Revision, StoreError>> {
        if let Some(last) = position {
            let before = Position(last.0.saturating_sub(plan.lines.len() as u64));
            let events = Plan::events(plan.lines, last);
            let revisions = plan.advanced.into_iter().collect();
            self.partitions.reached(last);
            self.tail.committed(Committed { before, last, events, revisions }).await;
        }
        plan.results
    }

    /// Committed, but where is not known: the tail finds it in the log.
    fn publish_unheard(&self, plan: Plan) -> Vec<Result<Revision, StoreError>> {
        self.tail.look();
        plan.results
    }
}

/// Tells everyone their result. Returns those who have none, in their order.
fn answer(batch: Vec<Request>, results: Results) -> Vec<Request> {
    let mut left = Vec::new();
    for (request, result) in batch.into_iter().zip(results) {
        match result {
            // The caller may have gone; what it asked for is done all the same.
            Some(result) => _ = request.answer.send(result),
            None => left.push(request),
        }
    }
    left
}
