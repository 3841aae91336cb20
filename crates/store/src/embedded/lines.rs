//! Lines of the log. A tenant's revisions leave none out, and each line says which of how many of its revision it is,
//! so that a line that is missing is noticed by those around it.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{self, integer, number};
use super::fault::{damaged, damaged_entry, of_entry};
use super::snapshot::{self, MISSING, TenantRow, WRONG_SUM, revision, row_limit};
use crate::checksum::{self, Record};
use crate::{Change, Event, Position, Revision, TenantId};

/// One line of the log, without its value.
#[derive(Clone, Debug)]
pub(super) struct LogRow {
    pub position: Position,
    pub tenant: TenantId,
    pub revision: Revision,
    pub key: Vec<u8>,
    pub change: Change,
    pub created: Revision,
    /// The revision of the value that was superseded.
    pub previous: Option<Revision>,
    pub time: i64,
    pub bytes: i64,
    /// Which of how many of its revision it is, from 1; 0 where that was not written.
    pub line: u64,
    pub lines: u64,
}

impl LogRow {
    pub(super) fn sum(&self) -> i64 {
        let numbers = [
            self.position.0,
            self.tenant.0,
            self.revision.0,
            self.change_number().cast_unsigned(),
            self.created.0,
            self.previous.map_or(0, |previous| previous.0 + 1),
            self.time.cast_unsigned(),
            self.bytes.cast_unsigned(),
            self.line,
            self.lines,
        ];
        checksum::signed(Record::Change, &numbers, &self.key, &[])
    }

    pub(super) fn change_number(&self) -> i64 {
        match self.change {
            Change::Created => 0,
            Change::Updated => 1,
            Change::Deleted => 2,
        }
    }

    /// The columns of [`COLUMNS`] without the checksum held against them.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<LogRow> {
        Ok(LogRow {
            position: Position(number(row.get(0)?)),
            tenant: TenantId(number(row.get(1)?)),
            revision: revision(row, 2)?,
            key: row.get_ref(3)?.as_blob()?.to_vec(),
            change: match row.get::<_, i64>(4)? {
                0 => Change::Created,
                1 => Change::Updated,
                2 => Change::Deleted,
                _ => return Err(damaged("a line of the log is of no kind")),
            },
            created: revision(row, 5)?,
            previous: row.get::<_, Option<i64>>(6)?.map(|previous| Revision(number(previous))),
            time: row.get(7)?,
            bytes: row.get(8)?,
            line: number(row.get(9)?),
            lines: number(row.get(10)?),
        })
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
        let line = LogRow::read(row)?;
        if row.get::<_, Option<i64>>(11)? != Some(line.sum()) {
            return Err(damaged(&format!("change {} of the log does not fit its checksum", line.position.0)));
        }
        Ok(line)
    }

    /// Whether this can be the next line of the same tenant.
    fn follows(&self, last: &LogRow) -> bool {
        if last.position >= self.position {
            return false;
        }
        if self.revision == last.revision {
            self.lines == last.lines && (self.lines == 0 || self.line == last.line + 1)
        } else {
            self.revision.0 == last.revision.0 + 1 && last.ends_revision() && self.begins_revision()
        }
    }

    fn begins_revision(&self) -> bool {
        self.lines == 0 || self.line == 1
    }

    fn ends_revision(&self) -> bool {
        self.line == self.lines
    }
}

macro_rules! line_columns {
    () => {
        "position, tenant, revision, key, change, created, previous, time, bytes, line, lines, sum"
    };
}
pub(super) use line_columns;

pub(super) fn value_sum(position: Position, value: &[u8]) -> i64 {
    checksum::signed(Record::Superseded, &[position.0], &[], value)
}

fn gap(tenant: &TenantRow, after: Revision) -> rusqlite::Error {
    damaged(&format!("the log of tenant {} lacks changes after revision {after}", tenant.id))
}

/// A tenant's changes after a point of its history. As many as `limit`, or all up to the present.
pub(super) fn tenant_log(
    connection: &Connection,
    tenant: &TenantRow,
    after: (Revision, Position),
    limit: usize,
) -> rusqlite::Result<Vec<LogRow>> {
    let lines: Vec<LogRow> = connection
        .prepare_cached(concat!(
            "SELECT ",
            line_columns!(),
            " FROM log INDEXED BY log_by_tenant WHERE tenant = ?1 AND revision >= ?2 AND (revision > ?2 OR position > ?3)
              ORDER BY revision, position LIMIT ?4"
        ))?
        .query_map(
            params![integer(tenant.id.0), integer(after.0.0), integer(after.1.0), row_limit(limit)],
            LogRow::from_row,
        )?
        .collect::<Result<_, _>>()?;
    // What a tenant begins with is its first revision, and no change.
    let (asked, mut last) = (after.0.max(Revision(1)), None::<&LogRow>);
    for line in &lines {
        let fits = match last {
            None => line.revision == asked || (line.revision.0 == asked.0 + 1 && line.begins_revision()),
            Some(last) => line.follows(last),
        };
        if line.tenant != tenant.id || !fits {
            return Err(gap(tenant, last.map_or(asked, |last| last.revision)));
        }
        last = Some(line);
    }
    if limit == 0 || lines.len() < limit {
        let reached = last.map_or(asked, |last| last.revision);
        if reached != tenant.revision.max(Revision(1)) || !last.is_none_or(LogRow::ends_revision) {
            return Err(gap(tenant, reached));
        }
    }
    Ok(lines)
}

/// All changes after a position, of tenants that live and of others.
pub(super) fn log_after(
    connection: &Connection,
    after: Position,
    limit: usize,
) -> rusqlite::Result<Vec<LogRow>> {
    let lines: Vec<LogRow> = connection
        .prepare_cached(concat!(
            "SELECT ",
            line_columns!(),
            " FROM log WHERE position > ?1 ORDER BY position LIMIT ?2"
        ))?
        .query_map(params![integer(after.0), row_limit(limit)], LogRow::from_row)?
        .collect::<Result<_, _>>()?;
    let mut last = std::collections::HashMap::<TenantId, &LogRow>::new();
    for line in &lines {
        if let Some(last) = last.insert(line.tenant, line)
            && !line.follows(last)
        {
            let after = last.revision;
            return Err(damaged(&format!(
                "the log of tenant {} lacks changes after revision {after}",
                line.tenant
            )));
        }
    }
    Ok(lines)
}

/// The value that the change at a position superseded.
pub(super) fn superseded(connection: &Connection, position: Position) -> rusqlite::Result<Bytes> {
    let found = connection
        .prepare_cached("SELECT value, value_sum FROM log WHERE position = ?1")?
        .query_row([integer(position.0)], |row| {
            let value = row.get_ref(0)?.as_blob()?;
            if row.get::<_, Option<i64>>(1)? != Some(value_sum(position, value)) {
                return Err(damaged(WRONG_SUM));
            }
            Ok(Bytes::copy_from_slice(value))
        })
        .optional()?;
    found.ok_or_else(|| damaged(MISSING))
}

/// Where a value of the past is.
pub(super) struct History {
    pub modified: Revision,
    pub superseded: Revision,
    pub created: Revision,
    pub position: Position,
}

impl History {
    pub(super) fn sum(&self, tenant: TenantId, key: &[u8]) -> i64 {
        let numbers = [tenant.0, self.modified.0, self.superseded.0, self.created.0, self.position.0];
        checksum::signed(Record::History, &numbers, key, &[])
    }

    /// The columns modified, superseded, created, position, sum.
    pub(super) fn from_row(row: &Row<'_>, tenant: TenantId, key: &[u8]) -> rusqlite::Result<History> {
        let history = History {
            modified: revision(row, 0)?,
            superseded: revision(row, 1)?,
            created: revision(row, 2)?,
            position: Position(number(row.get(3)?)),
        };
        if row.get::<_, Option<i64>>(4)? != Some(history.sum(tenant, key)) {
            return Err(damaged_entry(key, "a value of its past does not fit its checksum"));
        }
        Ok(history)
    }
}

/// The event of a line of the log. What the log points at is kept as long as the log itself.
pub(super) fn event(connection: &Connection, row: &LogRow) -> rusqlite::Result<Arc<Event>> {
    let read = || {
        let superseded = || superseded(connection, row.position);
        let (value, previous) = match row.change {
            Change::Created => (written(connection, row)?, None),
            Change::Updated => (written(connection, row)?, Some(superseded()?)),
            Change::Deleted => (superseded()?, None),
        };
        Ok((value, previous))
    };
    let (value, previous) = read().map_err(|error| of_entry(error, &row.key))?;
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

/// The value that a line tells of, where it is now.
fn written(connection: &Connection, line: &LogRow) -> rusqlite::Result<Bytes> {
    if let Some(stored) = snapshot::own(connection, line.tenant, &line.key)?
        && stored.modified == line.revision
    {
        return Ok(stored.value);
    }
    let past = connection
        .prepare_cached(
            "SELECT modified, superseded, created, position, sum FROM history
             WHERE tenant = ?1 AND key = ?2 AND modified = ?3",
        )?
        .query_row(params![integer(line.tenant.0), line.key, integer(line.revision.0)], |row| {
            History::from_row(row, line.tenant, &line.key)
        })
        .optional()?;
    superseded(connection, past.ok_or_else(|| damaged(MISSING))?.position)
}
