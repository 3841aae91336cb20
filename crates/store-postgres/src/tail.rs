//! The end of the log: what was committed, by this process or another, goes to the watches in the order of positions.
//!
//! What this process commits comes here by hand, with its values. What others commit is told by the database
//! (NOTIFY), and read from the log; a poll every few seconds finds what was not told. Positions have no holes, so it
//! is always known whether something is missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use store::codec::integer;
use store::fanout::Hub;
use store::{Event, Position, Revision, TenantId};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::connection::{Connector, Hear};
use crate::fault::Fault;
use crate::log::{BYTES, LINES, Lines};
use crate::partitions::Partitions;
use crate::readers::{Effort, Readers};
use crate::snapshot;
use crate::statements::Sql;
use store::codec::number;

/// Batches handed over and not published yet: beyond that the writer waits.
const WAITING: usize = 64;
/// Between attempts while the database is away.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What one commit of this process wrote: the positions after `before`, up to `last`.
pub(crate) struct Committed {
    pub before: Position,
    pub last: Position,
    pub events: Vec<Arc<Event>>,
    pub revisions: Vec<(TenantId, Revision)>,
}

/// Where commits are handed in.
#[derive(Clone)]
pub(crate) struct Tail {
    committed: mpsc::Sender<Committed>,
    look: Arc<Notify>,
}

impl Tail {
    pub(crate) async fn committed(&self, committed: Committed) {
        // Nobody is there any more only when the store is closing, and its watches with it.
        let _ = self.committed.send(committed).await;
    }

    /// Something was committed, wherever.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }
}

/// What the tail works with.
pub(crate) struct Setup {
    pub connector: Arc<Connector>,
    pub readers: Arc<Readers>,
    pub hub: Arc<Hub>,
    pub partitions: Arc<Partitions>,
    /// This process, whose own notifications tell it nothing.
    pub id: i64,
    /// Where the log ends now.
    pub position: Position,
    pub poll: Duration,
    pub stop: CancellationToken,
}

pub(crate) fn start(setup: Setup) -> (Tail, [tokio::task::JoinHandle<()>; 2]) {
    let (send, receive) = mpsc::channel(WAITING);
    let look = Arc::new(Notify::new());
    let (told, heard) = watch::channel(0);
    let listening = listen(setup.connector, setup.id, told, look.clone());
    let stop = setup.stop.clone();
    let listening = tokio::spawn(async move {
        tokio::select! {
            () = listening => {}
            () = stop.cancelled() => {}
        }
    });
    let follower = Follower {
        readers: setup.readers,
        hub: setup.hub,
        partitions: setup.partitions,
        published: setup.position.0,
        stop: setup.stop,
    };
    let following = tokio::spawn(follower.run(receive, heard, look.clone(), setup.poll));
    (Tail { committed: send, look }, [listening, following])
}

/// Keeps one connection that the database tells commits to.
async fn listen(connector: Arc<Connector>, own: i64, told: watch::Sender<u64>, look: Arc<Notify>) {
    let own = own.to_string();
    let mut pause = FIRST_PAUSE;
    loop {
        let (told, own) = (told.clone(), own.clone());
        let hear: Hear = Arc::new(move |payload: &str| {
            let Some((sender, position)) = payload.split_once(' ') else { return };
            let Ok(position) = position.parse::<u64>() else { return };
            if sender != own {
                told.send_if_modified(|last| position > std::mem::replace(last, position.max(*last)));
            }
        });
        let connected = match connector.connect_now(Some(hear)).await {
            Ok(connection) => {
                connection.run(&format!("LISTEN {}", connector.channel())).await.map(|()| connection).ok()
            }
            Err(error) => {
                tracing::debug!(%error, "not listening to the database");
                None
            }
        };
        if let Some(mut connection) = connected {
            pause = FIRST_PAUSE;
            // What was committed while nobody listened.
            look.notify_one();
            connection.ended().await;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

struct Follower {
    readers: Arc<Readers>,
    hub: Arc<Hub>,
    partitions: Arc<Partitions>,
    /// Everything up to here is published.
    published: u64,
    stop: CancellationToken,
}

impl Follower {
    async fn run(
        mut self,
        mut committed: mpsc::Receiver<Committed>,
        mut heard: watch::Receiver<u64>,
        look: Arc<Notify>,
        poll: Duration,
    ) {
        let mut poll = tokio::time::interval(poll);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stop = self.stop.clone();
        loop {
            tokio::select! {
                own = committed.recv() => match own {
                    Some(own) => self.publish_own(own).await,
                    None => return,
                },
                Ok(()) = heard.changed() => {
                    let last = *heard.borrow_and_update();
                    self.catch_up(last).await;
                }
                () = look.notified() => self.look().await,
                _ = poll.tick() => self.look().await,
                () = stop.cancelled() => return,
            }
        }
    }

    async fn publish_own(&mut self, own: Committed) {
        self.catch_up(own.before.0).await;
        // Met in the log already, if another's commit made us look there.
        if own.last.0 <= self.published {
            return;
        }
        self.hub.publish(&own.events, &own.revisions, &[]);
        self.published = own.last.0;
    }

    /// Reads up to the end of the log, wherever that is.
    async fn look(&mut self) {
        match snapshot::position(&self.readers).await {
            Ok((end, _)) if end.0 < self.published => {
                tracing::error!(
                    "the database has gone back from position {} to {}: acknowledged writes are lost. \
                     Was it replaced by a copy that was not up to date?",
                    self.published,
                    end.0
                );
                self.hub.forget();
                self.published = end.0;
            }
            Ok((end, _)) => self.catch_up(end.0).await,
            // The next poll comes.
            Err(_) => {}
        }
    }

    /// Publishes what was committed up to `last`, as soon as the database can be asked for it.
    async fn catch_up(&mut self, last: u64) {
        let mut pause = FIRST_PAUSE;
        while self.published < last && !self.stop.is_cancelled() {
            if self.hub.load().0 == 0 {
                // Nobody watches. Whoever begins to from here on reads the log first, where all this is.
                self.published = last;
                break;
            }
            match self.read(last).await {
                Ok(()) => pause = FIRST_PAUSE,
                Err(fault) if !fault.is_unavailable() => {
                    // It will not get better: let every watch find out for itself what it can still have.
                    tracing::error!(error = %store::StoreError::from(fault), "a part of the log cannot be read");
                    self.hub.forget();
                    self.published = last;
                }
                Err(fault) => {
                    tracing::debug!(error = %store::StoreError::from(fault), "the log cannot be read; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        self.partitions.reached(Position(self.published));
    }

    async fn read(&mut self, last: u64) -> Result<(), Fault> {
        let (after, upto) = (integer(self.published), integer(last));
        let rows = self.readers.read(Sql::AllLines, Effort::Many, &[&after, &upto, &LINES, &BYTES]).await?;
        let dropped = rows.first().map_or(Ok(0), |row| row.try_get(1))?;
        if self.published < number(dropped) {
            // Gone before we saw it: let every watch look for itself whether it missed something.
            self.hub.forget();
            self.published = last;
            return Ok(());
        }
        let lines = Lines::read(&rows, 2, |row| Ok(row.try_get(3)?))?;
        let mut revisions = BTreeMap::new();
        for event in &lines.events {
            revisions.insert(event.tenant, event.revision);
        }
        // A page may end within a transaction, of which it cannot be said yet that all has been told.
        if let Some(last) = lines.events.last().filter(|_| !lines.all) {
            revisions.insert(last.tenant, Revision(last.revision.0.saturating_sub(1)));
        }
        let revisions: Vec<_> = revisions.into_iter().collect();
        self.hub.publish(&lines.events, &revisions, &lines.deleted);
        self.published = if lines.all { last } else { lines.last.0.max(self.published) };
        Ok(())
    }
}
