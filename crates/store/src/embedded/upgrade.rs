//! Checksums for the records of a database that was made without.
//!
//! In steps of one commit each, before the store is used. One that is interrupted goes on at the next start.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::codec::number;
use super::lines::{self, History, LogRow, line_columns};
use super::snapshot::{self, current_columns};
use super::templates;
use crate::{Position, TenantId};

/// Records of one commit.
const STEP: i64 = 2000;

const UNFINISHED: &str = "without_sum";

pub(super) fn add_checksums(connection: &mut Connection) -> rusqlite::Result<()> {
    let unfinished: Option<i64> = connection
        .query_row("SELECT value FROM counter WHERE name = ?1", [UNFINISHED], |row| row.get(0))
        .optional()?;
    if unfinished != Some(1) {
        return Ok(());
    }
    let mut records = 0;
    for step in [tenants, directory, tallies] {
        loop {
            let done = in_one_commit(connection, step)?;
            records += done;
            if done == 0 {
                break;
            }
        }
    }
    records += from_first_to_last(connection, i64::MIN, log)?;
    records += from_first_to_last(connection, (i64::MIN, Vec::new(), 0), history)?;
    records += from_first_to_last(connection, (i64::MIN, Vec::new()), current)?;
    in_one_commit(connection, counters)?;
    if records > 0 {
        tracing::info!(records, "checksums added to the database");
    }
    Ok(())
}

/// Takes what follows a key; how many records it changed, and the last key that it looked at.
type Step<K> = fn(&Connection, &K) -> rusqlite::Result<(usize, Option<K>)>;

/// Steps through a large table in its order.
fn from_first_to_last<K>(
    connection: &mut Connection,
    mut after: K,
    step: Step<K>,
) -> rusqlite::Result<usize> {
    let mut records = 0;
    loop {
        let transaction = connection.transaction()?;
        let (done, last) = step(&transaction, &after)?;
        transaction.commit()?;
        records += done;
        let Some(last) = last else { return Ok(records) };
        after = last;
    }
}

fn in_one_commit(
    connection: &mut Connection,
    step: fn(&Connection) -> rusqlite::Result<usize>,
) -> rusqlite::Result<usize> {
    let transaction = connection.transaction()?;
    let done = step(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

fn tenants(connection: &Connection) -> rusqlite::Result<usize> {
    let ids: Vec<i64> = connection
        .prepare_cached("SELECT id FROM tenant WHERE sum IS NULL LIMIT ?1")?
        .query_map([STEP], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for id in &ids {
        let row = snapshot::unchecked_tenant_row(connection, TenantId(number(*id)))?;
        let Some((row, _)) = row else { continue };
        connection
            .prepare_cached("UPDATE tenant SET sum = ?2 WHERE id = ?1")?
            .execute(params![id, row.sum()])?;
    }
    Ok(ids.len())
}

fn directory(connection: &Connection) -> rusqlite::Result<usize> {
    let sums: Vec<(String, i64)> = connection
        .prepare_cached("SELECT name, id, record FROM directory WHERE sum IS NULL LIMIT ?1")?
        .query_map([STEP], |row| {
            let name: String = row.get(0)?;
            let id = TenantId(number(row.get(1)?));
            let sum = snapshot::directory_sum(&name, id, row.get_ref(2)?.as_blob()?);
            Ok((name, sum))
        })?
        .collect::<Result<_, _>>()?;
    for (name, sum) in &sums {
        connection
            .prepare_cached("UPDATE directory SET sum = ?2 WHERE name = ?1")?
            .execute(params![name, sum])?;
    }
    Ok(sums.len())
}

fn tallies(connection: &Connection) -> rusqlite::Result<usize> {
    let sums: Vec<(i64, String, i64)> = connection
        .prepare_cached("SELECT tenant, kind, entries, bytes FROM tally WHERE sum IS NULL LIMIT ?1")?
        .query_map([STEP], |row| {
            let (tenant, kind): (i64, String) = (row.get(0)?, row.get(1)?);
            let (entries, bytes) = (number(row.get(2)?), number(row.get(3)?));
            let sum = snapshot::tally_sum(TenantId(number(tenant)), &kind, entries, bytes);
            Ok((tenant, kind, sum))
        })?
        .collect::<Result<_, _>>()?;
    for (tenant, kind, sum) in &sums {
        connection
            .prepare_cached("UPDATE tally SET sum = ?3 WHERE tenant = ?1 AND kind = ?2")?
            .execute(params![tenant, kind, sum])?;
    }
    Ok(sums.len())
}

fn counters(connection: &Connection) -> rusqlite::Result<usize> {
    snapshot::set_counter(connection, UNFINISHED, 0)?;
    let counters: Vec<(String, i64)> = connection
        .prepare_cached("SELECT name, value FROM counter WHERE sum IS NULL")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (name, value) in &counters {
        snapshot::set_counter(connection, name, number(*value))?;
    }
    Ok(counters.len())
}

type HistoryKey = (i64, Vec<u8>, i64);

fn history(connection: &Connection, after: &HistoryKey) -> rusqlite::Result<(usize, Option<HistoryKey>)> {
    let sums: Vec<(HistoryKey, i64)> = connection
        .prepare_cached(
            "SELECT tenant, key, modified, superseded, created, position FROM history
             WHERE (tenant, key, modified) > (?1, ?2, ?3) ORDER BY tenant, key, modified LIMIT ?4",
        )?
        .query_map(params![after.0, after.1, after.2, STEP], |row| {
            let (tenant, key): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let history = History {
                modified: snapshot::revision(row, 2)?,
                superseded: snapshot::revision(row, 3)?,
                created: snapshot::revision(row, 4)?,
                position: Position(number(row.get(5)?)),
            };
            let sum = history.sum(TenantId(number(tenant)), &key);
            Ok(((tenant, key, row.get(2)?), sum))
        })?
        .collect::<Result<_, _>>()?;
    for ((tenant, key, modified), sum) in &sums {
        connection
            .prepare_cached("UPDATE history SET sum = ?4 WHERE tenant = ?1 AND key = ?2 AND modified = ?3")?
            .execute(params![tenant, key, modified, sum])?;
    }
    Ok((sums.len(), sums.into_iter().next_back().map(|(key, _)| key)))
}

fn log(connection: &Connection, after: &i64) -> rusqlite::Result<(usize, Option<i64>)> {
    let sums: Vec<(i64, i64, Option<i64>)> = connection
        .prepare_cached(concat!(
            "SELECT ",
            line_columns!(),
            ", value FROM log WHERE position > ?1 ORDER BY position LIMIT ?2"
        ))?
        .query_map([*after, STEP], |row| {
            let line = LogRow::read(row)?;
            let value =
                row.get_ref(12)?.as_blob_or_null()?.map(|value| lines::value_sum(line.position, value));
            Ok((row.get(0)?, line.sum(), value))
        })?
        .collect::<Result<_, _>>()?;
    for (position, sum, value) in &sums {
        connection
            .prepare_cached("UPDATE log SET sum = ?2, value_sum = ?3 WHERE position = ?1")?
            .execute(params![position, sum, value])?;
    }
    Ok((sums.len(), sums.last().map(|(position, ..)| *position)))
}

type CurrentKey = (i64, Vec<u8>);

fn current(connection: &Connection, after: &CurrentKey) -> rusqlite::Result<(usize, Option<CurrentKey>)> {
    let mut sums = Vec::new();
    let mut last = None;
    {
        let mut statement = connection.prepare_cached(concat!(
            "SELECT ",
            current_columns!(),
            ", tenant, key FROM current INDEXED BY sqlite_autoindex_current_1 WHERE (tenant, key) > (?1, ?2) ORDER BY tenant, key LIMIT ?3"
        ))?;
        let mut rows = statement.query(params![after.0, after.1, STEP])?;
        while let Some(row) = rows.next()? {
            let (tenant, key): (i64, Vec<u8>) = (row.get(5)?, row.get(6)?);
            last = Some((tenant, key.clone()));
            if !matches!(row.get_ref(2)?, ValueRef::Null) {
                continue;
            }
            // One that cannot be read stays without, and is damaged.
            let template = row.get_ref(4)?.as_blob_or_null()?;
            let Ok(value) = templates::unpack(template, row.get_ref(3)?.as_blob()?) else { continue };
            let (created, modified) = (snapshot::revision(row, 0)?, snapshot::revision(row, 1)?);
            let stored = snapshot::Stored { created, modified, value };
            let sum = stored.sum(TenantId(number(tenant)), &key);
            sums.push((tenant, key, sum));
        }
    }
    for (tenant, key, sum) in &sums {
        connection
            .prepare_cached("UPDATE current SET sum = ?3 WHERE tenant = ?1 AND key = ?2")?
            .execute(params![tenant, key, sum])?;
    }
    Ok((sums.len(), last))
}
