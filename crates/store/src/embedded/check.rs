//! A whole database, looked at record by record while nobody uses it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use compact_str::CompactString;
use rusqlite::{Connection, params};

use super::codec::{self, integer, number};
use super::fault::{of_entry, store_error};
use super::lines::{self, History};
use super::snapshot::{self, TenantRow, UNLISTED};
use super::{OpenError, lock, loss, schema};
use crate::{Key, Position, StoreError, TenantId};

/// More are not told: whoever has so many restores a backup.
pub const MAX_FINDINGS: usize = 1000;
/// Lines of the log read at a time.
const LINES: usize = 1000;

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the tenant that it is of, where one is.
    pub tenant: Option<CompactString>,
    /// The entry, where it is damage of one.
    pub key: Option<Key>,
    pub why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tenant) = &self.tenant {
            write!(f, "{tenant}: ")?;
        }
        match &self.key {
            None => f.write_str(&self.why),
            Some(Key { kind, namespace, name }) if namespace.is_empty() => {
                write!(f, "{kind} {name}: {}", self.why)
            }
            Some(Key { kind, namespace, name }) => write!(f, "{kind} {namespace}/{name}: {}", self.why),
        }
    }
}

/// What was looked at, and what was found.
#[derive(Debug, Default)]
pub struct Report {
    pub tenants: u64,
    pub entries: u64,
    pub changes: u64,
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn found(&mut self, tenant: Option<&CompactString>, error: rusqlite::Error) {
        let (key, why) = match store_error(error) {
            StoreError::Damaged { key, why } => (key.map(|key| *key), why),
            other => (None, other.to_string()),
        };
        self.push(Finding { tenant: tenant.cloned(), key, why });
    }

    fn push(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS && !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// Looks at every record of the store in a directory, which no process may have open.
pub fn check(directory: &Path) -> Result<Report, OpenError> {
    let _lock = lock::take(directory)?;
    let connection = schema::open_writer(directory, 64 << 20)?;
    let mut report = Report::default();
    if let Some(lost) = loss::lost(directory, &connection)? {
        let why = format!("{lost} changes that were acknowledged are missing at the end of the log");
        report.push(Finding { tenant: None, key: None, why });
    }
    if let Err(error) = structure(&connection, &mut report) {
        report.found(None, error);
    }
    if let Err(error) = snapshot::tenants(&connection, None, 0) {
        report.found(None, error);
    }
    for name in ["position", "compacted", "tenant", "history_bytes"] {
        if let Err(error) = snapshot::counter(&connection, name) {
            report.found(None, error);
        }
    }
    match ids(&connection) {
        Err(error) => report.found(None, error),
        Ok(ids) => ids.into_iter().for_each(|id| tenant(&connection, id, &mut report)),
    }
    Ok(report)
}

/// What SQLite itself says.
fn structure(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check(100)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let why: String = row.get(0)?;
        if why != "ok" {
            report.push(Finding { tenant: None, key: None, why });
        }
    }
    Ok(())
}

pub(super) fn ids(connection: &Connection) -> rusqlite::Result<Vec<TenantId>> {
    let mut statement = connection.prepare("SELECT id FROM tenant ORDER BY id")?;
    statement.query_map([], |row| Ok(TenantId(number(row.get(0)?))))?.collect()
}

fn tenant(connection: &Connection, id: TenantId, report: &mut Report) {
    let row = match snapshot::tenant_row(connection, id) {
        Ok(Some(row)) if row.state == snapshot::LIVES => row,
        // What is left of one that is being removed is nobody's.
        Ok(_) => return,
        Err(error) => return report.found(None, error),
    };
    let name = match snapshot::tenant_by_id(connection, id) {
        Ok(found) => found.map(|tenant| tenant.name),
        Err(error) => {
            report.found(None, error);
            None
        }
    };
    report.tenants += 1;
    for part in [entries, changes, history] {
        if let Err(error) = part(connection, &row, name.as_ref(), report) {
            report.found(name.as_ref(), error);
        }
    }
}

fn entries(
    connection: &Connection,
    row: &TenantRow,
    name: Option<&CompactString>,
    report: &mut Report,
) -> rusqlite::Result<()> {
    let mut kinds = BTreeMap::<CompactString, u64>::new();
    let mut statement = connection
        .prepare("SELECT key FROM current INDEXED BY current_keys WHERE tenant = ?1 ORDER BY key")?;
    let mut listed = statement.query([integer(row.id.0)])?;
    while let Some(next) = listed.next()? {
        let key: Vec<u8> = next.get(0)?;
        report.entries += 1;
        if let Some(key) = codec::decode(&key) {
            *kinds.entry(key.kind).or_default() += 1;
        }
        if let Err(error) = snapshot::own(connection, row.id, &key) {
            report.found(name, of_entry(error, &key));
        }
    }
    let mut statement = connection.prepare(
        "SELECT key FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 ORDER BY key",
    )?;
    let mut there = statement.query([integer(row.id.0)])?;
    while let Some(next) = there.next()? {
        let key: Vec<u8> = next.get(0)?;
        if !snapshot::is_listed(connection, row.id, &key)? {
            report.found(name, super::fault::damaged_entry(&key, UNLISTED));
        }
    }
    // What a fork has not copied yet is counted already.
    if row.base.is_some() {
        return Ok(());
    }
    for (kind, counted, _) in snapshot::tallies(connection, row.id)? {
        let there = kinds.remove(&kind).unwrap_or_default();
        if there != counted {
            let why = format!("{counted} {kind} are counted and {there} are listed");
            report.push(Finding { tenant: name.cloned(), key: None, why });
        }
    }
    for (kind, there) in kinds {
        let why = format!("no {kind} are counted and {there} are listed");
        report.push(Finding { tenant: name.cloned(), key: None, why });
    }
    Ok(())
}

fn changes(
    connection: &Connection,
    row: &TenantRow,
    name: Option<&CompactString>,
    report: &mut Report,
) -> rusqlite::Result<()> {
    let mut after = (row.oldest, Position(u64::MAX));
    loop {
        let lines = lines::tenant_log(connection, row, after, LINES)?;
        for line in &lines {
            report.changes += 1;
            if let Err(error) = lines::event(connection, line) {
                report.found(name, error);
            }
        }
        match lines.last() {
            Some(last) if lines.len() == LINES => after = (last.revision, last.position),
            _ => return Ok(()),
        }
    }
}

fn history(
    connection: &Connection,
    row: &TenantRow,
    name: Option<&CompactString>,
    report: &mut Report,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(
        "SELECT modified, superseded, created, position, sum, key FROM history WHERE tenant = ?1 ORDER BY key, modified",
    )?;
    let mut rows = statement.query(params![integer(row.id.0)])?;
    while let Some(next) = rows.next()? {
        let key: Vec<u8> = next.get(5)?;
        let read = History::from_row(next, row.id, &key)
            .and_then(|history| lines::superseded(connection, history.position));
        if let Err(error) = read {
            report.found(name, of_entry(error, &key));
        }
    }
    Ok(())
}
