//! Reads. Each takes a connection that is inside a transaction, so that all of one answer is of one moment.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{self, Bounds, integer, number};
use super::templates;
use crate::{Change, Entry, Event, Key, Position, Revision, Tenant, TenantId};

/// What the engine knows of a tenant that lives.
#[derive(Clone, Debug)]
pub(super) struct TenantRow {
    pub id: TenantId,
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

/// A value with its revisions, wherever it stands.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub created: Revision,
    pub modified: Revision,
    pub value: Bytes,
}

impl Stored {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Stored> {
        Ok(Stored { created: revision(row, 0)?, modified: revision(row, 1)?, value: unpacked(row, 2)? })
    }

    pub(super) fn into_entry(self, key: Key) -> Entry {
        Entry { key, created: self.created, modified: self.modified, value: self.value }
    }
}

/// A value of `current`, and of which template it is: for [`unpacked`].
macro_rules! current_value {
    () => {
        "value, CASE WHEN template IS NULL THEN NULL ELSE (SELECT value FROM template WHERE id = current.template) END"
    };
}

/// A value that the log has: those are whole.
macro_rules! past_value {
    () => {
        "log.value, NULL"
    };
}

/// The value in a column and its template in the next.
fn unpacked(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    let template = row.get_ref(column + 1)?.as_blob_or_null()?;
    templates::unpack(template, row.get_ref(column)?.as_blob()?)
}

fn revision(row: &Row<'_>, column: usize) -> rusqlite::Result<Revision> {
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

pub(super) fn tenant(connection: &Connection, id: TenantId) -> rusqlite::Result<Option<TenantRow>> {
    connection
        .prepare_cached(
            "SELECT revision, oldest, base_tenant, base_revision, base_after FROM tenant WHERE id = ?1 AND state = 0",
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
            Ok(TenantRow { id, revision: revision(row, 0)?, oldest: revision(row, 1)?, base })
        })
        .optional()
}

pub(super) fn tenant_named(connection: &Connection, name: &str) -> rusqlite::Result<Option<Tenant>> {
    connection
        .prepare_cached("SELECT name, id, record FROM directory WHERE name = ?1")?
        .query_row([name], directory_row)
        .optional()
}

pub(super) fn tenant_by_id(connection: &Connection, id: TenantId) -> rusqlite::Result<Option<Tenant>> {
    connection
        .prepare_cached("SELECT name, id, record FROM directory WHERE id = ?1")?
        .query_row([integer(id.0)], directory_row)
        .optional()
}

pub(super) fn tenants(
    connection: &Connection,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Tenant>> {
    // No name is empty, so all of them come after the empty one.
    connection
        .prepare_cached("SELECT name, id, record FROM directory WHERE name > ?1 ORDER BY name LIMIT ?2")?
        .query_map(params![after.unwrap_or(""), row_limit(limit)], directory_row)?
        .collect()
}

fn directory_row(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    Ok(Tenant {
        name: row.get_ref(0)?.as_str()?.into(),
        id: TenantId(number(row.get(1)?)),
        record: Bytes::copy_from_slice(row.get_ref(2)?.as_blob()?),
    })
}

/// SQLite's way to say "no limit" is a negative one.
pub(crate) fn row_limit(limit: usize) -> i64 {
    if limit == 0 { -1 } else { i64::try_from(limit).unwrap_or(-1) }
}

pub(super) fn counter(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    let value = connection
        .prepare_cached("SELECT value FROM counter WHERE name = ?1")?
        .query_row([name], |row| row.get(0))?;
    Ok(number(value))
}

/// The value under a key now.
pub(super) fn get(
    connection: &Connection,
    tenant: &TenantRow,
    key: &[u8],
) -> rusqlite::Result<Option<Stored>> {
    let own = connection
        .prepare_cached(concat!(
            "SELECT created, modified, ",
            current_value!(),
            " FROM current WHERE tenant = ?1 AND key = ?2"
        ))?
        .query_row(params![integer(tenant.id.0), key], Stored::from_row)
        .optional()?;
    match &tenant.base {
        Some(base) if own.is_none() && key > base.after.as_slice() => {
            // A fork that ever touched a key has its own history of it.
            let touched = connection
                .prepare_cached("SELECT 1 FROM history WHERE tenant = ?1 AND key = ?2 LIMIT 1")?
                .exists(params![integer(tenant.id.0), key])?;
            if touched { Ok(None) } else { get_at(connection, base.tenant, key, base.revision) }
        }
        _ => Ok(own),
    }
}

/// The value under a key of a tenant that is no unfinished fork, as of a revision.
fn get_at(
    connection: &Connection,
    tenant: TenantId,
    key: &[u8],
    at: Revision,
) -> rusqlite::Result<Option<Stored>> {
    connection
        .prepare_cached(concat!(
            "SELECT created, modified, ",
            current_value!(),
            " FROM current WHERE tenant = ?1 AND key = ?2 AND modified <= ?3
             UNION ALL
             SELECT history.created, modified, ",
            past_value!(),
            " FROM history CROSS JOIN log USING (position)
             WHERE history.tenant = ?1 AND history.key = ?2 AND modified <= ?3 AND superseded > ?3"
        ))?
        .query_row(params![integer(tenant.0), key, integer(at.0)], Stored::from_row)
        .optional()
}

const NOW: &str = concat!(
    "SELECT created, modified, ",
    current_value!(),
    ", key FROM current WHERE tenant = ?1 AND key >= ?2 AND key < ?3
    ORDER BY key LIMIT ?4"
);

macro_rules! as_of {
    () => {
        concat!(
            "SELECT created, modified, ",
            current_value!(),
            ", key FROM current
            WHERE tenant = ?1 AND key >= ?2 AND key < ?3 AND modified <= ?5
            UNION ALL
            SELECT past.created, modified, ",
            past_value!(),
            ", past.key FROM history AS past CROSS JOIN log USING (position)
            WHERE past.tenant = ?1 AND past.key >= ?2 AND past.key < ?3 AND modified <= ?5 AND superseded > ?5 "
        )
    };
}

const AS_OF: &str = concat!(as_of!(), "ORDER BY key LIMIT ?4");

/// As above, and what an unfinished fork has neither copied nor touched, from its base.
const AS_OF_FORK: &str = concat!(
    as_of!(),
    "UNION ALL
    SELECT created, modified, ",
    current_value!(),
    ", key FROM current
    WHERE tenant = ?6 AND key >= ?8 AND key < ?3 AND modified <= ?7
      AND NOT EXISTS (SELECT 1 FROM current AS own WHERE own.tenant = ?1 AND own.key = current.key)
      AND NOT EXISTS (SELECT 1 FROM history AS own WHERE own.tenant = ?1 AND own.key = current.key)
    UNION ALL
    SELECT base.created, modified, ",
    past_value!(),
    ", base.key FROM history AS base CROSS JOIN log USING (position)
    WHERE base.tenant = ?6 AND base.key >= ?8 AND base.key < ?3 AND modified <= ?7 AND superseded > ?7
      AND NOT EXISTS (SELECT 1 FROM current AS own WHERE own.tenant = ?1 AND own.key = base.key)
      AND NOT EXISTS (SELECT 1 FROM history AS own WHERE own.tenant = ?1 AND own.key = base.key)
    ORDER BY key LIMIT ?4"
);

/// Entries in key order, as of `at`, at most `limit` (0 is no limit).
pub(super) fn range(
    connection: &Connection,
    tenant: &TenantRow,
    bounds: &Bounds,
    at: Revision,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut take = |row: &Row<'_>| -> rusqlite::Result<()> {
        let stored = Stored::from_row(row)?;
        let key = codec::decode(row.get_ref(4)?.as_blob()?).ok_or(damaged("a key of no form"))?;
        entries.push(stored.into_entry(key));
        Ok(())
    };
    let id = integer(tenant.id.0);
    let limit = row_limit(limit);
    let mut statement;
    let mut rows = match &tenant.base {
        None if at >= tenant.revision => {
            statement = connection.prepare_cached(NOW)?;
            statement.query(params![id, bounds.from, bounds.to, limit])?
        }
        None => {
            statement = connection.prepare_cached(AS_OF)?;
            statement.query(params![id, bounds.from, bounds.to, limit, integer(at.0)])?
        }
        Some(base) => {
            statement = connection.prepare_cached(AS_OF_FORK)?;
            let base_from = bounds.from.clone().max(codec::next(&base.after));
            statement.query(params![
                id,
                bounds.from,
                bounds.to,
                limit,
                integer(at.0),
                integer(base.tenant.0),
                integer(base.revision.0),
                base_from
            ])?
        }
    };
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(entries)
}

/// How many entries there are now, by looking at each.
pub(super) fn count(connection: &Connection, tenant: &TenantRow, bounds: &Bounds) -> rusqlite::Result<u64> {
    if tenant.base.is_some() {
        return Ok(range(connection, tenant, bounds, tenant.revision, 0)?.len() as u64);
    }
    let count = connection
        .prepare_cached("SELECT count(*) FROM current WHERE tenant = ?1 AND key >= ?2 AND key < ?3")?
        .query_row(params![integer(tenant.id.0), bounds.from, bounds.to], |row| row.get(0))?;
    Ok(number(count))
}

/// How many entries a tenant has of a type, or of all types, and of how many bytes.
pub(super) fn tally(
    connection: &Connection,
    tenant: TenantId,
    kind: Option<&str>,
) -> rusqlite::Result<(u64, u64)> {
    let (entries, bytes) = connection
        .prepare_cached(
            "SELECT coalesce(sum(entries), 0), coalesce(sum(bytes), 0) FROM tally
             WHERE tenant = ?1 AND (?2 IS NULL OR kind = ?2)",
        )?
        .query_row(params![integer(tenant.0), kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((number(entries), number(bytes)))
}

/// One line of the log, without the values it points at.
pub(super) struct LogRow {
    pub position: Position,
    pub tenant: TenantId,
    pub revision: Revision,
    pub key: Vec<u8>,
    change: Change,
    created: Revision,
}

impl LogRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
        Ok(LogRow {
            position: Position(number(row.get(0)?)),
            tenant: TenantId(number(row.get(1)?)),
            revision: revision(row, 2)?,
            key: row.get(3)?,
            change: match row.get::<_, i64>(4)? {
                0 => Change::Created,
                1 => Change::Updated,
                _ => Change::Deleted,
            },
            created: revision(row, 5)?,
        })
    }
}

/// A tenant's changes of some keys after a point of its history.
pub(super) fn tenant_log(
    connection: &Connection,
    tenant: TenantId,
    bounds: &Bounds,
    after: (Revision, Position),
    limit: usize,
) -> rusqlite::Result<Vec<LogRow>> {
    connection
        .prepare_cached(
            "SELECT position, tenant, revision, key, change, created FROM log
             WHERE tenant = ?1 AND revision >= ?2 AND (revision > ?2 OR position > ?3) AND key >= ?4 AND key < ?5
             ORDER BY revision, position LIMIT ?6",
        )?
        .query_map(
            params![integer(tenant.0), integer(after.0.0), integer(after.1.0), bounds.from, bounds.to, row_limit(limit)],
            LogRow::from_row,
        )?
        .collect()
}

/// All changes after a position, those of tenants that live.
pub(super) fn log_after(
    connection: &Connection,
    after: Position,
    limit: usize,
) -> rusqlite::Result<Vec<LogRow>> {
    connection
        .prepare_cached(
            "SELECT position, tenant, log.revision, key, change, created FROM log
             JOIN tenant ON tenant.id = log.tenant AND tenant.state = 0
             WHERE position > ?1 ORDER BY position LIMIT ?2",
        )?
        .query_map(params![integer(after.0), row_limit(limit)], LogRow::from_row)?
        .collect()
}

/// The event of a line of the log. What the log points at is kept as long as the log itself.
pub(super) fn event(connection: &Connection, row: &LogRow) -> rusqlite::Result<Arc<Event>> {
    let value = |row: &Row<'_>| Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?));
    let superseded = || {
        connection
            .prepare_cached("SELECT value FROM log WHERE position = ?1")?
            .query_row([integer(row.position.0)], value)
    };
    let written = || {
        connection
            .prepare_cached(concat!(
                "SELECT ",
                current_value!(),
                " FROM current WHERE tenant = ?1 AND key = ?2 AND modified = ?3
                 UNION ALL
                 SELECT ",
                past_value!(),
                " FROM history CROSS JOIN log USING (position)
                 WHERE history.tenant = ?1 AND history.key = ?2 AND modified = ?3"
            ))?
            .query_row(params![integer(row.tenant.0), row.key, integer(row.revision.0)], |row| {
                unpacked(row, 0)
            })
    };
    let (value, previous) = match row.change {
        Change::Created => (written()?, None),
        Change::Updated => (written()?, Some(superseded()?)),
        Change::Deleted => (superseded()?, None),
    };
    Ok(Arc::new(Event {
        tenant: row.tenant,
        key: codec::decode(&row.key).ok_or(damaged("a key of no form"))?,
        change: row.change,
        revision: row.revision,
        created: row.created,
        value,
        previous,
        position: row.position,
        derived: Default::default(),
    }))
}

pub(super) fn damaged(what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        0,
        rusqlite::types::Type::Blob,
        format!("the database holds {what}").into(),
    )
}
