//! What is done from time to time, by whichever replica comes first.

use std::sync::Arc;
use std::time::Duration;

use store::codec::{integer, number};
use store::fanout::Hub;
use store::{Retention, StoreError, TenantId};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::compaction;
use crate::connection::Bench;
use crate::fault::Fault;
use crate::partitions::Partitions;
use crate::readers::{Effort, Readers};
use crate::statements::Sql;

/// Entries removed by one statement: a few milliseconds.
const STEP: i64 = 1000;

pub(crate) struct Chores {
    pub readers: Arc<Readers>,
    pub bench: Arc<Bench>,
    pub partitions: Arc<Partitions>,
    pub schema: String,
    pub retention: Retention,
    pub interval: Duration,
    /// A tenant was deleted.
    pub removal: Arc<Notify>,
    pub stop: CancellationToken,
}

/// Lets watches that have nothing to tell tell that.
pub(crate) fn beat(hub: Arc<Hub>, every: Duration, stop: CancellationToken) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut beat = tokio::time::interval(every);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = beat.tick() => hub.beat(),
                () = stop.cancelled() => return,
            }
        }
    })
}

/// How chores go: what is told once, however long it lasts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Well,
    Badly,
}

impl Course {
    /// Whether it is news how the last one went.
    fn goes(&mut self, well: bool) -> bool {
        let now = if well { Course::Well } else { Course::Badly };
        std::mem::replace(self, now) != now
    }
}

impl Chores {
    pub(crate) fn start(self) -> tokio::task::JoinHandle<()> {
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = self.run() => {}
                // Whatever is cut here is done in steps that each stand alone, and taken up again.
                () = stop.cancelled() => {}
            }
        })
    }

    async fn run(self) {
        let mut rounds = tokio::time::interval(self.interval);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut course = Course::Well;
        loop {
            let done = tokio::select! {
                _ = rounds.tick() => self.round().await,
                () = self.partitions.wanted.notified() => self.partitions.make(0).await,
                () = self.removal.notified() => self.remove().await,
            };
            let news = course.goes(done.is_ok());
            let Err(fault) = done else {
                if news {
                    tracing::info!("the chores of the store are done again");
                }
                continue;
            };
            let error = StoreError::from(fault);
            if news {
                tracing::warn!(%error, "a chore of the store failed; trying again until it is done");
            } else {
                tracing::debug!(%error, "a chore of the store failed again");
            }
            // Not again at once, whoever asks for it.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn round(&self) -> Result<(), Fault> {
        let seat = self.bench.seat().await?;
        let done = compaction::compact(&seat.connection, &self.schema, self.retention, false).await;
        seat.leave(done)?;
        self.remove().await?;
        self.readers.change(Sql::ForgetWriters, &[]).await?;
        Ok(())
    }

    /// Removes what deleted tenants stored, and imports that nobody goes on with.
    async fn remove(&self) -> Result<(), Fault> {
        let unfinished = self.readers.read(Sql::Unfinished, Effort::Many, &[]).await?;
        for row in unfinished {
            let tenant = TenantId(number(row.try_get(0)?));
            if row.try_get::<_, i16>(1)? == 1 {
                self.readers.change(Sql::DiscardImport, &[&integer(tenant.0)]).await?;
            }
            self.remove_one(tenant).await?;
        }
        Ok(())
    }

    async fn remove_one(&self, tenant: TenantId) -> Result<(), Fault> {
        let id = integer(tenant.0);
        loop {
            let rows = self.readers.change(Sql::RemoveEntries, &[&id, &STEP]).await?;
            match rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()? {
                Some(removed) if removed >= STEP => {}
                Some(_) => break,
                // Another replica is at it.
                None => return Ok(()),
            }
        }
        self.readers.change(Sql::RemoveTenant, &[&id]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_and_so_is_its_end() {
        let mut course = Course::Well;
        let told = [true, false, false, false, true, true, false].map(|well| course.goes(well));
        assert_eq!(told, [false, true, false, false, true, false, true]);
    }
}
