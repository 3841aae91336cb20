//! The parts of the log: made before they are needed, dropped when all in them is history nobody may ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::Position;
use store::codec::{integer, number};
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;

use crate::connection::{Connection, Connector};
use crate::fault::Fault;
use crate::schema::Exclusive;
use crate::statements::Sql;

pub(crate) struct Partitions {
    connector: Arc<Connector>,
    /// Lines per partition.
    size: u64,
    /// The last position that has a place, as far as this process knows.
    last: AtomicU64,
    /// Somebody should make more.
    pub wanted: Notify,
}

impl Partitions {
    pub(crate) fn new(connector: Arc<Connector>, size: u64) -> Partitions {
        Partitions { connector, size: size.max(16), last: AtomicU64::new(0), wanted: Notify::new() }
    }

    /// Tells how far the log has come.
    pub(crate) fn reached(&self, position: Position) {
        if position.0 + self.size / 2 > self.last.load(Ordering::Relaxed) {
            self.wanted.notify_one();
        }
    }

    /// Makes room for `lines` more, and for as many after them that nobody comes here again soon.
    pub(crate) async fn make(&self, lines: u64) -> Result<(), Fault> {
        let connection = self.connector.connect().await?;
        self.make_on(&connection, lines).await
    }

    pub(crate) async fn make_on(&self, connection: &Connection, lines: u64) -> Result<(), Fault> {
        let (end, mut last) = ends(connection).await?;
        if last < end.saturating_add(lines).saturating_add(self.size / 2) {
            connection.begin().await?;
            last = connection.end(self.make_some(connection, lines).await).await?;
        }
        self.last.fetch_max(last, Ordering::Relaxed);
        Ok(())
    }

    async fn make_some(&self, connection: &Connection, lines: u64) -> Result<u64, Fault> {
        connection.run(&Exclusive::Partition.lock(&self.connector.schema)).await?;
        // Another process may have made some while we waited.
        let (end, mut last) = ends(connection).await?;
        let needed = end.saturating_add(lines).saturating_add(self.size);
        while last < needed {
            last = self.make_one(connection, last + 1).await?;
        }
        Ok(last)
    }

    /// Made apart and then attached: that way nobody who reads or writes the log waits for it.
    async fn make_one(&self, connection: &Connection, first: u64) -> Result<u64, Fault> {
        let (name, beyond) = (name(first), first + self.size);
        connection
            .run(&format!(
                "CREATE TABLE {name} (LIKE log INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
                 ALTER TABLE log ATTACH PARTITION {name} FOR VALUES FROM ({first}) TO ({beyond});"
            ))
            .await?;
        connection.query(Sql::EnterPartition, &[&integer(first), &integer(beyond - 1)]).await?;
        Ok(beyond - 1)
    }
}

fn name(first: u64) -> String {
    format!("log_{first}")
}

/// The last position, and the last that has a place.
async fn ends(connection: &Connection) -> Result<(u64, u64), Fault> {
    let rows = connection.query(Sql::LastPartition, &[]).await?;
    let row =
        rows.first().ok_or_else(|| store::StoreError::Failed("the database has lost its counter".into()))?;
    Ok((number(row.try_get(0)?), number(row.try_get(1)?)))
}

/// Drops what compaction has left behind entirely. Dropping asks for the whole log for a moment; if others are
/// at it for longer than a moment, they have precedence, and the next compaction tries again.
pub(crate) async fn drop_spent(connection: &Connection) -> Result<(), Fault> {
    for row in connection.query(Sql::SpentPartitions, &[]).await? {
        let first = number(row.try_get(0)?);
        connection.begin().await?;
        let dropped = connection
            .run(&format!(
                "SET LOCAL lock_timeout = '100ms';
                 DROP TABLE IF EXISTS {};
                 DELETE FROM log_part WHERE first = {first};",
                name(first)
            ))
            .await;
        let dropped = connection.end(dropped).await;
        match dropped {
            Err(fault) if fault.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) || fault.is_collision() => {
                return Ok(());
            }
            other => other?,
        }
    }
    Ok(())
}
