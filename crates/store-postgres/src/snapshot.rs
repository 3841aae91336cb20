//! Reads. Each is one statement, so that all of one answer is of one moment.
//!
//! That is also why dropping a part of the log cannot make a reader see less than there was: a statement holds every
//! part it may read before it looks at anything, and parts are dropped only after it has been said that they are gone.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use store::codec::{self, Bounds, integer, number};
use store::{Change, Entry, Event, Key, Page, Position, Revision, Scope, StoreError, Tenant, TenantId};
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::readers::{Effort, Readers};
use crate::statements::Sql;

/// Where a tenant is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub revision: Revision,
    /// The oldest revision that can still be read, and watched from.
    pub oldest: Revision,
}

impl Point {
    pub(crate) fn from_row(row: &Row) -> Result<Point, Fault> {
        Ok(Point { revision: revision(row, 0)?, oldest: revision(row, 1)? })
    }

    pub(crate) fn readable(&self, at: Revision) -> Result<(), StoreError> {
        if at > self.revision {
            return Err(StoreError::Future { asked: at, current: self.revision });
        }
        if at < self.oldest {
            return Err(StoreError::Compacted { asked: at, oldest: self.oldest });
        }
        Ok(())
    }
}

pub(crate) fn revision(row: &Row, column: usize) -> Result<Revision, Fault> {
    Ok(Revision(number(row.try_get(column)?)))
}

pub(crate) fn bytes(row: &Row, column: usize) -> Result<Bytes, Fault> {
    Ok(Bytes::copy_from_slice(row.try_get(column)?))
}

pub(crate) fn optional_bytes(row: &Row, column: usize) -> Result<Option<Bytes>, Fault> {
    Ok(row.try_get::<_, Option<&[u8]>>(column)?.map(Bytes::copy_from_slice))
}

fn key_of(bytes: &[u8]) -> Result<Key, Fault> {
    let damaged = || StoreError::Failed("the database holds a key of no form".into());
    Ok(codec::decode(bytes).ok_or_else(damaged)?)
}

/// No row is that the tenant does not live.
fn first(rows: &[Row]) -> Result<&Row, Fault> {
    Ok(rows.first().ok_or(StoreError::NoTenant)?)
}

fn row_limit(limit: usize) -> i64 {
    if limit == 0 { i64::MAX } else { i64::try_from(limit).unwrap_or(i64::MAX) }
}

pub(crate) async fn point(readers: &Readers, tenant: TenantId) -> Result<Point, Fault> {
    let rows = readers.read(Sql::Point, Effort::Few, &[&integer(tenant.0)]).await?;
    Point::from_row(first(&rows)?)
}

/// The revision that was current at a moment.
pub(crate) async fn revision_at(
    readers: &Readers,
    tenant: TenantId,
    moment: SystemTime,
) -> Result<Revision, Fault> {
    let rows = readers.read(Sql::After, Effort::Many, &[&integer(tenant.0), &moment]).await?;
    let row = first(&rows)?;
    let (point, next) = (Point::from_row(row)?, row.try_get::<_, Option<i64>>(2)?);
    // Revisions of a tenant leave nothing out: before the next one was the one before it.
    let found = next.map_or(point.revision, |next| Revision(number(next).saturating_sub(1)));
    if !row.try_get::<_, bool>(3)? || found < point.oldest || found == Revision(0) {
        return Err(StoreError::Compacted { asked: found, oldest: point.oldest }.into());
    }
    Ok(found)
}

/// The last position of the log, and the last that has been dropped.
pub(crate) async fn position(readers: &Readers) -> Result<(Position, Position), Fault> {
    let rows = readers.read(Sql::Position, Effort::Few, &[]).await?;
    let row = rows.first().ok_or_else(|| StoreError::Failed("the database has lost its counter".into()))?;
    Ok((Position(number(row.try_get(0)?)), Position(number(row.try_get(1)?))))
}

pub(crate) async fn get(readers: &Readers, tenant: TenantId, key: &Key) -> Result<Option<Entry>, Fault> {
    let encoded = codec::encode(key)?;
    let rows = readers.read(Sql::Get, Effort::Few, &[&integer(tenant.0), &encoded]).await?;
    let row = first(&rows)?;
    let Some(value) = optional_bytes(row, 2)? else { return Ok(None) };
    Ok(Some(Entry { key: key.clone(), created: revision(row, 0)?, modified: revision(row, 1)?, value }))
}

pub(crate) async fn range(
    readers: &Readers,
    tenant: TenantId,
    scope: &Scope,
    after: Option<&Key>,
    at: Option<Revision>,
    limit: usize,
) -> Result<(Point, Page), Fault> {
    let mut bounds = Bounds::of(scope)?;
    if let Some(after) = after {
        bounds = bounds.after(&codec::encode(after)?);
    }
    let counted = match scope {
        Scope::Kind(kind) if after.is_none() => Some(kind.as_str()),
        _ => None,
    };
    // One more than asked for tells whether there is more.
    let ask = row_limit(if limit == 0 { 0 } else { limit.saturating_add(1) });
    let effort = if (1..=1000).contains(&limit) { Effort::Few } else { Effort::Many };
    let id = integer(tenant.0);
    let rows = match at {
        None => readers.read(Sql::RangeNow, effort, &[&id, &bounds.from, &bounds.to, &ask, &counted]).await?,
        Some(at) => {
            let at = integer(at.0);
            readers.read(Sql::RangeAt, effort, &[&id, &bounds.from, &bounds.to, &ask, &at]).await?
        }
    };
    let row = first(&rows)?;
    let point = Point::from_row(row)?;
    let revision_read = at.unwrap_or(point.revision);
    point.readable(revision_read)?;
    let all: Option<i64> = row.try_get(2)?;
    let mut entries = Vec::with_capacity(rows.len());
    for row in &rows {
        // A tenant without entries is one row without an entry.
        let Some(key) = row.try_get::<_, Option<&[u8]>>(6)? else { continue };
        entries.push(Entry {
            key: key_of(key)?,
            created: revision(row, 3)?,
            modified: revision(row, 4)?,
            value: bytes(row, 5)?,
        });
    }
    // The database hands them over in this order, but only the inner query promises it.
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let more = limit != 0 && entries.len() > limit;
    let mut remaining = (!more).then_some(0);
    if more {
        entries.truncate(limit);
        remaining = all.map(|all| number(all).saturating_sub(limit as u64));
    }
    Ok((point, Page { revision: revision_read, entries, more, remaining }))
}

pub(crate) async fn count(readers: &Readers, tenant: TenantId, scope: &Scope) -> Result<u64, Fault> {
    let bounds = Bounds::of(scope)?;
    let id = integer(tenant.0);
    let rows = readers.read(Sql::CountRange, Effort::Many, &[&id, &bounds.from, &bounds.to]).await?;
    Ok(number(first(&rows)?.try_get(0)?))
}

/// Entries and bytes of a type, or of all.
pub(crate) async fn tally(
    readers: &Readers,
    tenant: TenantId,
    kind: Option<&str>,
) -> Result<(u64, u64), Fault> {
    let rows = readers.read(Sql::Tally, Effort::Few, &[&integer(tenant.0), &kind]).await?;
    let row = first(&rows)?;
    Ok((number(row.try_get(0)?), number(row.try_get(1)?)))
}

fn directory_row(row: &Row) -> Result<Tenant, Fault> {
    Ok(Tenant {
        name: row.try_get::<_, &str>(0)?.into(),
        id: TenantId(number(row.try_get(1)?)),
        record: bytes(row, 2)?,
    })
}

pub(crate) async fn tenant_named(readers: &Readers, name: &str) -> Result<Option<Tenant>, Fault> {
    // The database cannot ask for a name with a NUL byte, and no tenant has one.
    if name.contains('\0') {
        return Ok(None);
    }
    let rows = readers.read(Sql::TenantNamed, Effort::Few, &[&name]).await?;
    rows.first().map(directory_row).transpose()
}

pub(crate) async fn tenant_by_id(readers: &Readers, id: TenantId) -> Result<Option<Tenant>, Fault> {
    let rows = readers.read(Sql::TenantById, Effort::Few, &[&integer(id.0)]).await?;
    rows.first().map(directory_row).transpose()
}

pub(crate) async fn tenants(
    readers: &Readers,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Tenant>, Fault> {
    // No name is empty, so all of them come after the empty one; what follows a NUL byte orders nothing.
    let after = after.unwrap_or("").split('\0').next().unwrap_or("");
    let rows = readers.read(Sql::Tenants, Effort::Many, &[&after, &row_limit(limit)]).await?;
    rows.iter().map(directory_row).collect()
}

/// A line of the log, with what it says.
pub(crate) enum Line {
    Event(Arc<Event>),
    TenantDeleted(TenantId),
    /// Of a tenant whose values are going or gone.
    Forgotten,
}

/// The line in the columns from `first` on, if the row has one; with its position.
pub(crate) fn line(row: &Row, first: usize, lives: bool) -> Result<Option<(Position, Line)>, Fault> {
    let Some(seq) = row.try_get::<_, Option<i64>>(first)? else { return Ok(None) };
    let position = Position(number(seq));
    let tenant = TenantId(number(row.try_get(first + 1)?));
    let change = match row.try_get::<_, i16>(first + 4)? {
        0 => Change::Created,
        1 => Change::Updated,
        2 => Change::Deleted,
        _ => return Ok(Some((position, Line::TenantDeleted(tenant)))),
    };
    if !lives {
        return Ok(Some((position, Line::Forgotten)));
    }
    let (old, new) = (optional_bytes(row, first + 6)?, optional_bytes(row, first + 7)?);
    let (value, previous) = match change {
        Change::Created => (new, None),
        Change::Updated => (new, old),
        Change::Deleted => (old, None),
    };
    let missing = || StoreError::Failed("the database has lost a value of its log".into());
    let event = Event {
        tenant,
        key: key_of(row.try_get(first + 3)?)?,
        change,
        revision: revision(row, first + 2)?,
        created: revision(row, first + 5)?,
        value: value.ok_or_else(missing)?,
        previous,
        position,
        derived: Default::default(),
    };
    Ok(Some((position, Line::Event(Arc::new(event)))))
}
