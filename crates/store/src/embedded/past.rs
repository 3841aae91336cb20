//! Ranges as of a revision of the past: what stands since before it, and what was superseded or deleted after it.
//!
//! The second is known twice, by key in `history` and by time in the log. Both must agree.

use std::collections::BTreeMap;

use rusqlite::{Connection, Rows, params};

use super::codec::{self, Bounds, integer};
use super::fault::{damaged, damaged_entry, of_entry};
use super::lines::{self, History};
use super::snapshot::{self, MISSING, Order, Stored, TenantRow, current_columns, current_row};
use crate::{Change, Entry, Position, Revision};

/// Entries in key order, at most `limit` (0 is no limit), of a tenant that is no unfinished fork; or those that an
/// unfinished fork has itself.
pub(super) fn range(
    connection: &Connection,
    tenant: &TenantRow,
    bounds: &Bounds,
    at: Revision,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    let read = || merged(connection, tenant, bounds, at, limit);
    read().map_err(|error| snapshot::named(connection, tenant.id, bounds, error))
}

fn merged(
    connection: &Connection,
    tenant: &TenantRow,
    bounds: &Bounds,
    at: Revision,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    let id = tenant.id;
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        current_columns!(),
        ", key FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 AND key >= ?2 AND key < ?3 ORDER BY key"
    ))?;
    let parameters = params![integer(id.0), bounds.from, bounds.to];
    let mut current = statement.query(parameters)?;
    let mut order = Order::new(bounds);
    let mut statement = connection.prepare_cached(
        "SELECT modified, superseded, created, position, sum, key FROM history
         WHERE tenant = ?1 AND key >= ?2 AND key < ?3 ORDER BY key, modified",
    )?;
    let mut history = statement.query(parameters)?;
    let mut undone = undone(connection, tenant, bounds, at)?;
    let mut entries = Vec::new();
    let mut end = bounds.to.clone();
    let mut now = next_present(&mut current, &mut order, tenant, at)?;
    let mut then = next_past(&mut history, tenant, at)?;
    loop {
        let from_past = match (&now, &then) {
            (None, None) => break,
            (Some((present, _)), Some((past, _))) if present == past => {
                return Err(damaged_entry(past, "it has two values at one revision"));
            }
            (Some((present, _)), Some((past, _))) => past < present,
            (now, _) => now.is_none(),
        };
        let (key, stored) = if from_past {
            let Some((key, past)) = then.take() else { break };
            if undone.remove(&key) != Some(past.position) {
                return Err(damaged_entry(&key, "its history and the log do not agree"));
            }
            let value =
                lines::superseded(connection, past.position).map_err(|error| of_entry(error, &key))?;
            then = next_past(&mut history, tenant, at)?;
            (key, Stored { created: past.created, modified: past.modified, value })
        } else {
            let Some(present) = now.take() else { break };
            if limit == 0 || entries.len() + 1 < limit {
                now = next_present(&mut current, &mut order, tenant, at)?;
            }
            present
        };
        let decoded = codec::decode(&key).ok_or(damaged("a key of no form"))?;
        entries.push(stored.into_entry(decoded));
        if limit != 0 && entries.len() >= limit {
            end = codec::next(&key);
            break;
        }
    }
    // Rows of `current` may have been read beyond the end, so those before it are counted.
    let read: i64 = connection
        .prepare_cached("SELECT count(*) FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 AND key >= ?2 AND key < ?3")?
        .query_row(params![integer(id.0), bounds.from, end], |row| row.get(0))?;
    let read = usize::try_from(read).unwrap_or(usize::MAX);
    snapshot::must_be_all(connection, id, &bounds.from, &end, read)?;
    match undone.range(..end).next() {
        Some((missing, _)) => Err(damaged_entry(missing, MISSING)),
        None => Ok(entries),
    }
}

/// The next row of `current` that stood at a revision already.
fn next_present(
    rows: &mut Rows<'_>,
    order: &mut Order<'_>,
    tenant: &TenantRow,
    at: Revision,
) -> rusqlite::Result<Option<(Vec<u8>, Stored)>> {
    while let Some(row) = rows.next()? {
        let key = row.get_ref(5)?.as_blob()?;
        order.next(key)?;
        let stored = current_row(row, tenant.id, key)?;
        if stored.modified <= at {
            return Ok(Some((key.to_vec(), stored)));
        }
    }
    Ok(None)
}

/// The next value of `history` that stood at a revision.
fn next_past(
    rows: &mut Rows<'_>,
    tenant: &TenantRow,
    at: Revision,
) -> rusqlite::Result<Option<(Vec<u8>, History)>> {
    while let Some(row) = rows.next()? {
        let key = row.get_ref(5)?.as_blob()?;
        let past = History::from_row(row, tenant.id, key)?;
        if past.modified <= at && past.superseded > at {
            return Ok(Some((key.to_vec(), past)));
        }
    }
    Ok(None)
}

/// The keys of a range whose value at a revision was superseded later, as the log tells it, with the change that did.
fn undone(
    connection: &Connection,
    tenant: &TenantRow,
    bounds: &Bounds,
    at: Revision,
) -> rusqlite::Result<BTreeMap<Vec<u8>, Position>> {
    if at >= tenant.revision {
        return Ok(BTreeMap::new());
    }
    let mut first = BTreeMap::new();
    for line in lines::tenant_log(connection, tenant, (at, Position(u64::MAX)), 0)? {
        if bounds.from <= line.key && line.key < bounds.to {
            let superseded = (line.change != Change::Created).then_some(line.position);
            first.entry(line.key).or_insert(superseded);
        }
    }
    Ok(first.into_iter().filter_map(|(key, superseded)| Some((key, superseded?))).collect())
}
