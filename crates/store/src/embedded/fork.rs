//! Ranges of a fork that has not copied everything yet: what it has itself, and what it has not touched, from its base.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::codec::{self, Bounds, integer};
use super::fault::damaged;
use super::snapshot::{self, Base, TenantRow};
use super::{lines, past};
use crate::{Entry, Position, Revision};

/// Entries of the base read at a time where a page is asked for.
const PAGE: usize = 500;

pub(super) fn range(
    connection: &Connection,
    fork: &TenantRow,
    base: &Base,
    bounds: &Bounds,
    at: Revision,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    let own = if at >= fork.revision {
        snapshot::now(connection, fork.id, bounds, limit)?
    } else {
        past::range(connection, fork, bounds, at, limit)?
    };
    let mut entries = keyed(own)?;
    entries.extend(untouched(connection, fork, base, bounds, limit)?);
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    if limit != 0 {
        entries.truncate(limit);
    }
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

fn keyed(entries: Vec<Entry>) -> rusqlite::Result<Vec<(Vec<u8>, Entry)>> {
    let keyed = |entry: Entry| {
        let key = codec::encode(&entry.key).map_err(|_| damaged("a key of no form"))?;
        Ok((key, entry))
    };
    entries.into_iter().map(keyed).collect()
}

/// What the base had and the fork has neither copied nor changed.
fn untouched(
    connection: &Connection,
    fork: &TenantRow,
    base: &Base,
    bounds: &Bounds,
    limit: usize,
) -> rusqlite::Result<Vec<(Vec<u8>, Entry)>> {
    let source = source(connection, base)?;
    let touched = touched(connection, fork, base)?;
    let mut bounds = bounds.clone().after(&base.after);
    let mut found = Vec::new();
    while bounds.from < bounds.to {
        let ask = if limit == 0 { 0 } else { limit.max(PAGE) };
        let page = keyed(past::range(connection, &source, &bounds, base.revision, ask)?)?;
        let whole = ask == 0 || page.len() < ask;
        if let Some((last, _)) = page.last() {
            bounds = bounds.after(last);
        }
        for (key, entry) in page {
            if !touched.contains(&key) && !is_own(connection, fork, &key)? {
                found.push((key, entry));
            }
        }
        if whole || found.len() >= limit {
            break;
        }
    }
    Ok(found)
}

/// The row of a base, which may have been deleted since.
pub(super) fn source(connection: &Connection, base: &Base) -> rusqlite::Result<TenantRow> {
    let source = snapshot::tenant_row(connection, base.tenant)?;
    source.ok_or_else(|| damaged(&format!("tenant {}, which a fork reads, is not there", base.tenant)))
}

/// The keys that a fork has changed: nothing of its log is compacted before it has been copied.
pub(super) fn touched(
    connection: &Connection,
    fork: &TenantRow,
    base: &Base,
) -> rusqlite::Result<HashSet<Vec<u8>>> {
    let lines = lines::tenant_log(connection, fork, (base.revision, Position(u64::MAX)), 0)?;
    Ok(lines.into_iter().map(|line| line.key).collect())
}

/// Whether a fork has a key, by either table that would know.
pub(super) fn is_own(connection: &Connection, fork: &TenantRow, key: &[u8]) -> rusqlite::Result<bool> {
    Ok(snapshot::is_listed(connection, fork.id, key)?
        || connection
            .prepare_cached(
                "SELECT 1 FROM current INDEXED BY sqlite_autoindex_current_1 WHERE tenant = ?1 AND key = ?2",
            )?
            .exists(params![integer(fork.id.0), key])?)
}
