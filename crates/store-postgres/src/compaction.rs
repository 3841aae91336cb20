//! Compaction: first it is said what is gone, then it is dropped.
//!
//! Where the cut lies is found by halving: both the age of a line and the bytes before it grow with its position.

use std::time::Duration;

use store::codec::{integer, number};
use store::{Retention, StoreError};

use crate::connection::Connection;
use crate::fault::Fault;
use crate::partitions;
use crate::schema::Exclusive;
use crate::statements::Sql;

/// Ages beyond this are for ever; the database's calendar ends somewhere.
const FOR_EVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// Drops what is beyond the retention. One process at a time: the others wait, or leave it to that one.
pub(crate) async fn compact(
    connection: &Connection,
    schema: &str,
    retention: Retention,
    wait: bool,
) -> Result<(), Fault> {
    connection.begin().await?;
    let mine = connection.end(mark(connection, schema, retention, wait).await).await?;
    if mine { partitions::drop_spent(connection).await } else { Ok(()) }
}

/// Says what is gone; false when another process is at it.
async fn mark(
    connection: &Connection,
    schema: &str,
    retention: Retention,
    wait: bool,
) -> Result<bool, Fault> {
    if wait {
        connection.run(&Exclusive::Compact.lock(schema)).await?;
    } else if !connection.ask(&Exclusive::Compact.try_lock(schema), &[]).await?.try_get::<_, bool>(0)? {
        return Ok(false);
    }
    raise_horizon(connection, retention).await?;
    Ok(true)
}

async fn raise_horizon(connection: &Connection, retention: Retention) -> Result<(), Fault> {
    let rows = connection.query(Sql::Position, &[]).await?;
    let row = rows.first().ok_or_else(|| StoreError::Failed("the database has lost its counter".into()))?;
    let (end, dropped, total): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let age = retention.age.min(FOR_EVER).as_secs_f64() * 1000.0;
    let bytes = integer(retention.bytes);
    // Everything up to `gone` is beyond the retention, everything from `kept` on is not.
    let (mut gone, mut kept) = (dropped, end + 1);
    while gone + 1 < kept {
        let middle = gone + (kept - gone) / 2;
        let rows = connection.query(Sql::Probe, &[&middle, &age, &total, &bytes]).await?;
        let beyond = rows.first().map_or(Ok(false), |row| row.try_get(1))?;
        if beyond { gone = middle } else { kept = middle }
    }
    if gone == dropped {
        return Ok(());
    }
    // A transaction is dropped whole, or a watch in the middle of it could not tell that the rest is gone.
    let rows = connection.query(Sql::EndOfTransaction, &[&gone]).await?;
    let cut: i64 = rows.first().map_or(Ok(None), |row| row.try_get::<_, Option<i64>>(0))?.unwrap_or(gone);
    connection.query(Sql::RaiseHorizons, &[&dropped, &cut]).await?;
    connection.query(Sql::RaiseHorizon, &[&cut]).await?;
    tracing::debug!(lines = number(cut - dropped), "history was compacted");
    Ok(())
}
