//! Reads. Each takes a connection that is inside a transaction, so that all of one answer is of one moment.
//!
//! Every record is held against its checksum, and every "there is none" and every end of a range against a second
//! table that would know better. So damage of the file is an error and never an answer.

use bytes::Bytes;
use compact_str::CompactString;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{self, Bounds, integer, number};
use super::fault::{damaged, damaged_entry, is_damage, of_entry};
use super::{fork, past, templates};
use crate::checksum::{self, Record};
use crate::{Entry, Key, Limit, Revision, Tenant, TenantId};

/// What the engine knows of a tenant.
#[derive(Clone, Debug)]
pub(super) struct TenantRow {
    pub id: TenantId,
    pub state: i64,
    pub revision: Revision,
    /// The oldest revision that can still be read, and watched from.
    pub oldest: Revision,
    pub base: Option<Base>,
}

/// Where a fork reads what it has not copied yet: keys after `after`, as the base had them at `revision`.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub tenant: TenantId,
    pub revision: Revision,
    pub after: Vec<u8>,
}

impl TenantRow {
    pub(super) fn new(id: TenantId, state: i64, revision: Revision, oldest: Revision) -> TenantRow {
        TenantRow { id, state, revision, oldest, base: None }
    }

    pub(super) fn sum(&self) -> i64 {
        let base = self.base.as_ref();
        let numbers = [
            self.id.0,
            self.state.cast_unsigned(),
            self.revision.0,
            self.oldest.0,
            base.map_or(0, |base| base.tenant.0 + 1),
            base.map_or(0, |base| base.revision.0),
        ];
        checksum::signed(Record::Tenant, &numbers, base.map_or(&[], |base| &base.after), &[])
    }
}

/// A value with its revisions, wherever it stands.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub created: Revision,
    pub modified: Revision,
    pub value: Bytes,
}

impl Stored {
    pub(super) fn into_entry(self, key: Key) -> Entry {
        Entry { key, created: self.created, modified: self.modified, value: self.value }
    }

    pub(super) fn sum(&self, tenant: TenantId, key: &[u8]) -> i64 {
        checksum::signed(Record::Value, &[tenant.0, self.created.0, self.modified.0], key, &self.value)
    }
}

/// The columns of `current` that [`current_row`] reads.
macro_rules! current_columns {
    () => {
        "created, modified, sum, value,
         CASE WHEN template IS NULL THEN NULL ELSE (SELECT value FROM template WHERE id = current.template) END"
    };
}
pub(super) use current_columns;

/// A row of `current`, held against its checksum.
pub(super) fn current_row(row: &Row<'_>, tenant: TenantId, key: &[u8]) -> rusqlite::Result<Stored> {
    let read = || {
        let template = row.get_ref(4)?.as_blob_or_null()?;
        let value = templates::unpack(template, row.get_ref(3)?.as_blob()?)?;
        let stored = Stored { created: revision(row, 0)?, modified: revision(row, 1)?, value };
        if row.get::<_, Option<i64>>(2)? != Some(stored.sum(tenant, key)) {
            return Err(damaged(WRONG_SUM));
        }
        Ok(stored)
    };
    read().map_err(|error| of_entry(error, key))
}

pub(super) const WRONG_SUM: &str = "it does not fit its checksum";
pub(super) const MISSING: &str = "it is listed and not there";
pub(super) const UNLISTED: &str = "it is there and not listed";

pub(super) fn revision(row: &Row<'_>, column: usize) -> rusqlite::Result<Revision> {
    Ok(Revision(number(row.get(column)?)))
}

pub(super) const LIVES: i64 = 0;
pub(super) const IMPORTING: i64 = 1;
pub(super) const DYING: i64 = 2;

/// Whether the log still reaches back to a moment, in milliseconds.
pub(super) fn is_kept(connection: &Connection, moment: i64) -> rusqlite::Result<bool> {
    if counter(connection, "compacted")? == 0 {
        return Ok(true);
    }
    let mut query = connection.prepare_cached("SELECT time FROM log ORDER BY position LIMIT 1")?;
    let oldest = query.query_row([], |row| row.get::<_, i64>(0)).optional()?;
    Ok(oldest.is_none_or(|oldest| oldest <= moment))
}

/// The first revision of a tenant that was made after a moment.
pub(super) fn first_after(
    connection: &Connection,
    tenant: TenantId,
    moment: i64,
) -> rusqlite::Result<Option<Revision>> {
    connection
        .prepare_cached("SELECT revision FROM log WHERE tenant = ?1 AND time > ?2 ORDER BY revision LIMIT 1")?
        .query_row(rusqlite::params![integer(tenant.0), moment], |row| revision(row, 0))
        .optional()
}

/// A tenant that lives.
pub(super) fn tenant(connection: &Connection, id: TenantId) -> rusqlite::Result<Option<TenantRow>> {
    let row = tenant_row(connection, id)?.filter(|row| row.state == LIVES);
    if row.is_none()
        && let Some(entered) = directory_by_id(connection, id)?
    {
        return Err(damaged(&format!("the tenant {} of the directory is not there", entered.name)));
    }
    Ok(row)
}

/// A tenant in any state.
pub(super) fn tenant_row(connection: &Connection, id: TenantId) -> rusqlite::Result<Option<TenantRow>> {
    match unchecked_tenant_row(connection, id)? {
        Some((row, sum)) if sum != Some(row.sum()) => {
            Err(damaged(&format!("tenant {id} does not fit its checksum")))
        }
        row => Ok(row.map(|(row, _)| row)),
    }
}

/// The row with the checksum beside it.
pub(super) fn unchecked_tenant_row(
    connection: &Connection,
    id: TenantId,
) -> rusqlite::Result<Option<(TenantRow, Option<i64>)>> {
    connection
        .prepare_cached(
            "SELECT revision, oldest, base_tenant, base_revision, base_after, state, sum FROM tenant WHERE id = ?1",
        )?
        .query_row([integer(id.0)], |row| {
            let base = match row.get::<_, Option<i64>>(2)? {
                None => None,
                Some(base) => Some(Base {
                    tenant: TenantId(number(base)),
                    revision: revision(row, 3)?,
                    after: row.get::<_, Option<Vec<u8>>>(4)?.unwrap_or_default(),
                }),
            };
            let (revision, oldest) = (revision(row, 0)?, revision(row, 1)?);
            Ok((TenantRow { id, state: row.get(5)?, revision, oldest, base }, row.get(6)?))
        })
        .optional()
}

pub(super) fn tenant_named(connection: &Connection, name: &str) -> rusqlite::Result<Option<Tenant>> {
    let found = connection
        .prepare_cached("SELECT name, id, sum, record FROM directory INDEXED BY sqlite_autoindex_directory_1 WHERE name = ?1")?
        .query_row([name], directory_row)
        .optional()?;
    let listed = || {
        connection
            .prepare_cached("SELECT 1 FROM directory INDEXED BY directory_names WHERE name = ?1")?
            .exists([name])
    };
    if found.is_none() && listed()? {
        return Err(damaged(&format!("the tenant {name} is listed and not in the directory")));
    }
    Ok(found)
}

pub(super) fn tenant_by_id(connection: &Connection, id: TenantId) -> rusqlite::Result<Option<Tenant>> {
    let found = directory_by_id(connection, id)?;
    if found.is_none() && tenant_row(connection, id)?.is_some_and(|row| row.state == LIVES) {
        return Err(damaged(&format!("tenant {id} is not in the directory")));
    }
    Ok(found)
}

fn directory_by_id(connection: &Connection, id: TenantId) -> rusqlite::Result<Option<Tenant>> {
    connection
        .prepare_cached("SELECT name, id, sum, record FROM directory WHERE id = ?1")?
        .query_row([integer(id.0)], directory_row)
        .optional()
}

pub(super) fn tenants(
    connection: &Connection,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Tenant>> {
    // No name is empty, so all of them come after the empty one.
    let after = after.unwrap_or("");
    let tenants: Vec<Tenant> = connection
        .prepare_cached(
            "SELECT name, id, sum, record FROM directory INDEXED BY sqlite_autoindex_directory_1 WHERE name > ?1 ORDER BY name LIMIT ?2",
        )?
        .query_map(params![after, row_limit(limit)], directory_row)?
        .collect::<Result<_, _>>()?;
    let last = tenants.last().filter(|_| tenants.len() == limit).map(|tenant| tenant.name.as_str());
    let listed: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM directory INDEXED BY directory_names WHERE name > ?1 AND (?2 IS NULL OR name <= ?2)",
        )?
        .query_row(params![after, last], |row| row.get(0))?;
    if number(listed) != tenants.len() as u64 || !tenants.is_sorted_by(|a, b| a.name < b.name) {
        return Err(damaged("the directory of tenants does not have the names that are listed"));
    }
    Ok(tenants)
}

fn directory_row(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    let tenant = Tenant {
        name: row.get_ref(0)?.as_str()?.into(),
        id: TenantId(number(row.get(1)?)),
        record: Bytes::copy_from_slice(row.get_ref(3)?.as_blob()?),
    };
    if row.get::<_, Option<i64>>(2)? != Some(directory_sum(&tenant.name, tenant.id, &tenant.record)) {
        return Err(damaged(&format!("the tenant {} does not fit its checksum", tenant.name)));
    }
    Ok(tenant)
}

pub(super) fn directory_sum(name: &str, id: TenantId, record: &[u8]) -> i64 {
    checksum::signed(Record::Directory, &[id.0], name.as_bytes(), record)
}

/// SQLite's way to say "no limit" is a negative one.
pub(crate) fn row_limit(limit: usize) -> i64 {
    if limit == 0 { -1 } else { i64::try_from(limit).unwrap_or(-1) }
}

pub(super) fn counter(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    let value = connection
        .prepare_cached("SELECT value, sum FROM counter WHERE name = ?1")?
        .query_row([name], |row| Ok((number(row.get(0)?), row.get::<_, Option<i64>>(1)?)))
        .optional()?;
    match value {
        Some((value, sum)) if sum == Some(counter_sum(name, value)) => Ok(value),
        _ => Err(damaged(&format!("the counter {name} does not fit its checksum"))),
    }
}

fn counter_sum(name: &str, value: u64) -> i64 {
    checksum::signed(Record::Counter, &[value], name.as_bytes(), &[])
}

pub(super) fn set_counter(connection: &Connection, name: &str, value: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE counter SET value = ?2, sum = ?3 WHERE name = ?1")?
        .execute(params![name, integer(value), counter_sum(name, value)])?;
    Ok(())
}

/// The same for a counter that may not be there yet.
pub(super) fn put_counter(connection: &Connection, name: &str, value: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO counter (name, value) VALUES (?1, 0)")?
        .execute([name])?;
    set_counter(connection, name, value)
}

/// The value under a key now.
pub(super) fn get(
    connection: &Connection,
    tenant: &TenantRow,
    key: &[u8],
) -> rusqlite::Result<Option<Stored>> {
    match &tenant.base {
        Some(base) if key > base.after.as_slice() => {
            let bounds = Bounds { from: key.to_vec(), to: codec::next(key) };
            let entry = fork::range(connection, tenant, base, &bounds, tenant.revision, 1)?.pop();
            Ok(entry.map(|Entry { created, modified, value, .. }| Stored { created, modified, value }))
        }
        _ => own(connection, tenant.id, key),
    }
}

/// What a tenant itself has under a key now.
pub(super) fn own(connection: &Connection, tenant: TenantId, key: &[u8]) -> rusqlite::Result<Option<Stored>> {
    let read = || {
        connection
            .prepare_cached(concat!(
                "SELECT ",
                current_columns!(),
                " FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 AND key = ?2"
            ))?
            .query_row(params![integer(tenant.0), key], |row| current_row(row, tenant, key))
            .optional()
    };
    let found = read().map_err(|error| of_entry(error, key))?;
    if found.is_none() && is_listed(connection, tenant, key).map_err(|error| of_entry(error, key))? {
        return Err(damaged_entry(key, MISSING));
    }
    Ok(found)
}

pub(super) fn is_listed(connection: &Connection, tenant: TenantId, key: &[u8]) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM current INDEXED BY current_keys WHERE tenant = ?1 AND key = ?2")?
        .exists(params![integer(tenant.0), key])
}

const NOW: &str = concat!(
    "SELECT ",
    current_columns!(),
    ", key FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4"
);

/// Entries in key order, as of `at`, at most `limit` (0 is no limit).
pub(super) fn range(
    connection: &Connection,
    tenant: &TenantRow,
    bounds: &Bounds,
    at: Revision,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    match &tenant.base {
        None if at >= tenant.revision => now(connection, tenant.id, bounds, limit),
        None => past::range(connection, tenant, bounds, at, limit),
        Some(base) => fork::range(connection, tenant, base, bounds, at, limit),
    }
}

/// Entries of the past that are read before their size is known.
const FIRST_LOOK: usize = 16;

/// The same for who holds a limited number of bytes: up to the entry after the one that reaches it.
pub(super) fn range_within(
    connection: &Connection,
    tenant: &TenantRow,
    bounds: &Bounds,
    at: Revision,
    limit: Limit,
) -> rusqlite::Result<Vec<Entry>> {
    if tenant.base.is_none() && at >= tenant.revision {
        return now_within(connection, tenant.id, bounds, limit);
    }
    if limit.bytes == 0 {
        return range(connection, tenant, bounds, at, limit.entries);
    }
    // The past is put together of several tables: a few entries first, and then as many as should fit.
    let most = if limit.entries == 0 { usize::MAX } else { limit.entries };
    let (mut entries, mut bounds, mut wanted) = (Vec::<Entry>::new(), bounds.clone(), FIRST_LOOK.min(most));
    loop {
        let page = range(connection, tenant, &bounds, at, wanted)?;
        let is_last = page.len() < wanted;
        entries.extend(page);
        let Some(last) = entries.last().filter(|_| !is_last && entries.len() < most) else { break };
        let bytes: usize = entries.iter().map(|entry| entry.value.len()).sum();
        if bytes - last.value.len() >= limit.bytes {
            break;
        }
        let key = codec::encode(&last.key).map_err(|_| damaged("a key of no form"))?;
        bounds = bounds.after(&key);
        let fitting = limit.bytes.saturating_sub(bytes) / (bytes / entries.len()).max(1) + 2;
        wanted = fitting.min(4 * entries.len()).min(most - entries.len());
    }
    Ok(entries)
}

/// What a tenant itself has now.
pub(super) fn now(
    connection: &Connection,
    tenant: TenantId,
    bounds: &Bounds,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    now_within(connection, tenant, bounds, Limit { entries: limit, bytes: 0 })
}

fn now_within(
    connection: &Connection,
    tenant: TenantId,
    bounds: &Bounds,
    limit: Limit,
) -> rusqlite::Result<Vec<Entry>> {
    let read = || {
        let (mut entries, mut bytes, mut is_full) = (Vec::new(), 0, false);
        let mut order = Order::new(bounds);
        let mut statement = connection.prepare_cached(NOW)?;
        let mut rows =
            statement.query(params![integer(tenant.0), bounds.from, bounds.to, row_limit(limit.entries)])?;
        while !is_full && let Some(row) = rows.next()? {
            let key = row.get_ref(5)?.as_blob()?;
            let stored = current_row(row, tenant, key)?;
            order.next(key)?;
            is_full = limit.bytes > 0 && bytes >= limit.bytes;
            bytes += stored.value.len();
            entries.push(stored.into_entry(codec::decode(key).ok_or(damaged("a key of no form"))?));
        }
        is_full |= limit.entries != 0 && entries.len() >= limit.entries;
        let to = if is_full { order.end() } else { bounds.to.clone() };
        must_be_all(connection, tenant, &bounds.from, &to, entries.len())?;
        Ok(entries)
    };
    read().map_err(|error| named(connection, tenant, bounds, error))
}

/// Keys of a range as they come: each is within the bounds and after the one before.
pub(super) struct Order<'b> {
    bounds: &'b Bounds,
    last: Vec<u8>,
    any: bool,
}

impl<'b> Order<'b> {
    pub(super) fn new(bounds: &'b Bounds) -> Self {
        Order { bounds, last: Vec::new(), any: false }
    }

    pub(super) fn next(&mut self, key: &[u8]) -> rusqlite::Result<()> {
        let follows = !self.any || self.last.as_slice() < key;
        if !follows || key < self.bounds.from.as_slice() || key >= self.bounds.to.as_slice() {
            return Err(damaged_entry(key, "it is not where its key belongs"));
        }
        self.any = true;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// The bound after the last key.
    pub(super) fn end(&self) -> Vec<u8> {
        codec::next(&self.last)
    }
}

/// Holds the number of rows that were read against that of the keys that are listed.
pub(super) fn must_be_all(
    connection: &Connection,
    tenant: TenantId,
    from: &[u8],
    to: &[u8],
    read: usize,
) -> rusqlite::Result<()> {
    let listed = listed(connection, tenant, from, to)?;
    if listed == read as u64 {
        return Ok(());
    }
    Err(damaged(&format!("{listed} entries are listed and {read} are there")))
}

fn listed(connection: &Connection, tenant: TenantId, from: &[u8], to: &[u8]) -> rusqlite::Result<u64> {
    let count = connection
        .prepare_cached(
            "SELECT count(*) FROM current INDEXED BY current_keys WHERE tenant = ?1 AND key >= ?2 AND key < ?3",
        )?
        .query_row(params![integer(tenant.0), from, to], |row| row.get(0))?;
    Ok(number(count))
}

/// Damage in a range, with the first entry that it is damage of.
pub(super) fn named(
    connection: &Connection,
    tenant: TenantId,
    bounds: &Bounds,
    error: rusqlite::Error,
) -> rusqlite::Error {
    if !is_damage(&error) {
        return error;
    }
    first_damaged(connection, tenant, bounds).unwrap_or(error)
}

/// The first entry of a range that cannot be read, found by reading each one of those that are listed.
fn first_damaged(connection: &Connection, tenant: TenantId, bounds: &Bounds) -> Option<rusqlite::Error> {
    let mut statement = connection
        .prepare_cached(
            "SELECT key FROM current INDEXED BY current_keys
             WHERE tenant = ?1 AND key >= ?2 AND key < ?3 ORDER BY key",
        )
        .ok()?;
    let mut rows = statement.query(params![integer(tenant.0), bounds.from, bounds.to]).ok()?;
    while let Ok(Some(row)) = rows.next() {
        let key: Vec<u8> = row.get(0).ok()?;
        if let Err(error) = own(connection, tenant, &key).map_err(|error| of_entry(error, &key)) {
            return Some(error);
        }
    }
    // All of those are well: one is there that is not listed.
    let mut statement = connection
        .prepare_cached(
            "SELECT key FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 AND key >= ?2 AND key < ?3 ORDER BY key",
        )
        .ok()?;
    let mut rows = statement.query(params![integer(tenant.0), bounds.from, bounds.to]).ok()?;
    while let Ok(Some(row)) = rows.next() {
        let key: Vec<u8> = row.get(0).ok()?;
        match is_listed(connection, tenant, &key) {
            Ok(true) => {}
            Ok(false) => return Some(damaged_entry(&key, UNLISTED)),
            Err(error) => return Some(of_entry(error, &key)),
        }
    }
    None
}

/// How many entries there are now, by looking at each.
pub(super) fn count(connection: &Connection, tenant: &TenantRow, bounds: &Bounds) -> rusqlite::Result<u64> {
    if tenant.base.is_some() {
        return Ok(range(connection, tenant, bounds, tenant.revision, 0)?.len() as u64);
    }
    let count: i64 = connection
        .prepare_cached("SELECT count(*) FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 AND key >= ?2 AND key < ?3")?
        .query_row(params![integer(tenant.id.0), bounds.from, bounds.to], |row| row.get(0))
        .map_err(|error| named(connection, tenant.id, bounds, error))?;
    let all = must_be_all(connection, tenant.id, &bounds.from, &bounds.to, count.cast_unsigned() as usize);
    all.map_err(|error| named(connection, tenant.id, bounds, error))?;
    Ok(number(count))
}

/// How many entries a tenant has of a type, or of all types, and of how many bytes.
pub(super) fn tally(
    connection: &Connection,
    tenant: TenantId,
    kind: Option<&str>,
) -> rusqlite::Result<(u64, u64)> {
    let Some(kind) = kind else {
        let all = tallies(connection, tenant)?;
        return Ok(all.iter().fold((0, 0), |sum, (_, entries, bytes)| (sum.0 + entries, sum.1 + bytes)));
    };
    let own = own_tally(connection, tenant, kind)?;
    if own.is_none()
        && tenant_row(connection, tenant)?.is_some_and(|row| row.base.is_none())
        && let Ok(bounds) = Bounds::of(&crate::Scope::Kind(kind.into()))
        && listed(connection, tenant, &bounds.from, &bounds.to)? != 0
    {
        return Err(damaged(&format!("the count of {kind} is missing")));
    }
    Ok(own.unwrap_or_default())
}

/// All that a tenant has, by type.
pub(super) fn tallies(
    connection: &Connection,
    tenant: TenantId,
) -> rusqlite::Result<Vec<(CompactString, u64, u64)>> {
    connection
        .prepare_cached("SELECT kind, entries, bytes, sum FROM tally WHERE tenant = ?1 ORDER BY kind")?
        .query_map([integer(tenant.0)], |row| {
            let kind = row.get_ref(0)?.as_str()?;
            let (entries, bytes) = tally_row(row, tenant, kind)?;
            Ok((kind.into(), entries, bytes))
        })?
        .collect()
}

/// The row of a type, if there is one.
pub(super) fn own_tally(
    connection: &Connection,
    tenant: TenantId,
    kind: &str,
) -> rusqlite::Result<Option<(u64, u64)>> {
    connection
        .prepare_cached("SELECT kind, entries, bytes, sum FROM tally WHERE tenant = ?1 AND kind = ?2")?
        .query_row(params![integer(tenant.0), kind], |row| tally_row(row, tenant, kind))
        .optional()
}

fn tally_row(row: &Row<'_>, tenant: TenantId, kind: &str) -> rusqlite::Result<(u64, u64)> {
    let (entries, bytes) = (number(row.get(1)?), number(row.get(2)?));
    if row.get::<_, Option<i64>>(3)? != Some(tally_sum(tenant, kind, entries, bytes)) {
        return Err(damaged(&format!("the count of {kind} does not fit its checksum")));
    }
    Ok((entries, bytes))
}

pub(super) fn tally_sum(tenant: TenantId, kind: &str, entries: u64, bytes: u64) -> i64 {
    checksum::signed(Record::Tally, &[tenant.0, entries, bytes], kind.as_bytes(), &[])
}
