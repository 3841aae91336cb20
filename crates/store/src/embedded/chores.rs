//! Work that outlives the call that caused it, done in small steps between commits and resumed after a restart.

use rusqlite::{Connection, params};

use super::batch::Batch;
use super::codec::{self, Bounds, integer, number};
use super::fault::Fault;
use super::snapshot::{self, Base, Stored, TenantRow};
use super::{fork, past};
use crate::{Retention, Revision, Scope, TenantId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// Copy what a fork still reads from its base.
    Copy(TenantId),
    /// Remove what a deleted tenant stored.
    Remove(TenantId),
}

/// Rows per step: a few milliseconds.
pub(super) const STEP: usize = 500;
/// Rows per step while there are writes, so few that nobody notices.
const SMALL_STEP: std::ops::RangeInclusive<usize> = 16..=64;

/// Rows per step beside a commit of so many writes: chores gain on what makes them, and take no longer than it does.
pub(super) fn step_beside(writes: usize) -> usize {
    (2 * writes).clamp(*SMALL_STEP.start(), *SMALL_STEP.end())
}

/// What was left to do when the store was last closed, or killed.
pub(super) fn unfinished(connection: &Connection) -> rusqlite::Result<Vec<Chore>> {
    connection
        .prepare(
            "SELECT id, state FROM tenant WHERE state <> 0 OR base_tenant IS NOT NULL ORDER BY state, id",
        )?
        .query_map([], |row| {
            let id = TenantId(number(row.get(0)?));
            // An import that did not reach its end is nobody's.
            Ok(if row.get::<_, i64>(1)? == snapshot::LIVES { Chore::Copy(id) } else { Chore::Remove(id) })
        })?
        .collect()
}

/// Free pages that are kept, for what is written next: 8 MiB, or as many as a fifth of the others.
const KEPT_PAGES: i64 = 1_024;
/// Pages given back at once: a few milliseconds, most of it for those that have to be moved.
const PAGES: i64 = 256;

/// Gives back some of the pages that are free beyond what is kept; true when there are none (any more).
pub(super) fn shrink_step(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    // 2 is incremental; in other databases free pages stay.
    if number("auto_vacuum")? != 2 {
        return Ok(true);
    }
    let free = number("freelist_count")?;
    let kept = KEPT_PAGES.max((number("page_count")? - free) / 5);
    let more = (free - kept).min(PAGES);
    if more <= 0 {
        return Ok(true);
    }
    connection.execute_batch(&format!("PRAGMA incremental_vacuum({more})"))?;
    Ok(free - more <= kept)
}

impl Batch<'_> {
    /// Copies a little of what a fork still reads from its base; true when nothing is left.
    pub(super) fn copy_step(&mut self, fork: TenantId, rows: usize) -> Result<bool, Fault> {
        self.flush_tenants()?;
        // Deleted meanwhile, or copied before a fork of it was made.
        let Some(row) = snapshot::tenant(self.connection, fork)? else { return Ok(true) };
        let Some(base) = row.base.clone() else { return Ok(true) };
        let bounds = Bounds::of(&Scope::All)?.after(&base.after);
        let source = fork::source(self.connection, &base)?;
        let touched = fork::touched(self.connection, &row, &base)?;
        let page = past::range(self.connection, &source, &bounds, base.revision, rows)?;
        let mut after = base.after.clone();
        let done = page.len() < rows;
        for entry in page {
            after = codec::encode(&entry.key)?;
            if !touched.contains(&after) && !fork::is_own(self.connection, &row, &after)? {
                let stored = Stored { created: entry.created, modified: entry.modified, value: entry.value };
                self.put_common(fork, &after, &stored, false)?;
            }
        }
        self.reload(fork)?;
        // With the revision that the batch has written just now.
        let Some(row) = snapshot::tenant(self.connection, fork)? else { return Ok(true) };
        let base = (!done).then_some(Base { after, ..base });
        self.store_tenant(&TenantRow { base, ..row })?;
        Ok(done)
    }

    /// Removes at most `rows` of what a deleted tenant stored; with how many it removed, fewer when nothing is left.
    /// Not to be called while a fork is being copied: the tenant may be its base.
    pub(super) fn remove_step(&mut self, tenant: TenantId, rows: usize) -> Result<usize, Fault> {
        let id = integer(tenant.0);
        let forgotten: i64 = self
            .connection
            .prepare_cached(
                "SELECT coalesce(sum(bytes), 0) FROM
                 (SELECT bytes FROM log WHERE tenant = ?1 ORDER BY revision, position LIMIT ?2)",
            )?
            .query_row([id, rows as i64], |row| row.get(0))?;
        self.counters.history_bytes = self.counters.history_bytes.saturating_sub(number(forgotten));
        let mut removed = 0;
        for table in [
            // The same rows as above, and first, so that all of `rows` are theirs.
            "DELETE FROM log WHERE position IN
             (SELECT position FROM log WHERE tenant = ?1 ORDER BY revision, position LIMIT ?2)",
            "DELETE FROM current WHERE tenant = ?1 AND key IN (SELECT key FROM current WHERE tenant = ?1 LIMIT ?2)",
            "DELETE FROM history WHERE tenant = ?1 AND (key, modified) IN
             (SELECT key, modified FROM history WHERE tenant = ?1 LIMIT ?2)",
            "DELETE FROM tally WHERE tenant = ?1 AND kind IN (SELECT kind FROM tally WHERE tenant = ?1 LIMIT ?2)",
        ] {
            removed += self.connection.prepare_cached(table)?.execute([id, (rows - removed) as i64])?;
            if removed >= rows {
                return Ok(removed);
            }
        }
        self.connection.prepare_cached("DELETE FROM tenant WHERE id = ?1")?.execute([id])?;
        Ok(removed)
    }

    /// Drops the oldest of the log that is beyond the retention, with what only it pointed at; true when nothing
    /// more is beyond it. Not to be called while a fork is being copied: its base must keep its past.
    pub(super) fn compact_step(&mut self, retention: &Retention, rows: usize) -> Result<bool, Fault> {
        let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
        let newest_to_drop = self.time.saturating_sub(age);
        struct Line {
            position: i64,
            tenant: i64,
            revision: i64,
            key: Vec<u8>,
            previous: Option<i64>,
            time: i64,
            bytes: i64,
        }
        let lines: Vec<Line> = self
            .connection
            .prepare_cached(
                "SELECT position, tenant, revision, key, previous, time, bytes FROM log ORDER BY position LIMIT ?1",
            )?
            .query_map([rows as i64], |row| {
                Ok(Line {
                    position: row.get(0)?,
                    tenant: row.get(1)?,
                    revision: row.get(2)?,
                    key: row.get(3)?,
                    previous: row.get(4)?,
                    time: row.get(5)?,
                    bytes: row.get(6)?,
                })
            })?
            .collect::<Result<_, _>>()?;
        let mut oldest = std::collections::HashMap::new();
        let mut last = None;
        let mut dropped = 0;
        for line in &lines {
            if line.time > newest_to_drop && self.counters.history_bytes <= retention.bytes {
                break;
            }
            if let Some(previous) = line.previous {
                self.connection
                    .prepare_cached("DELETE FROM history WHERE tenant = ?1 AND key = ?2 AND modified = ?3")?
                    .execute(params![line.tenant, line.key, previous])?;
            }
            oldest.insert(line.tenant, line.revision);
            last = Some(line.position);
            dropped += 1;
            self.counters.history_bytes = self.counters.history_bytes.saturating_sub(number(line.bytes));
        }
        let Some(last) = last else { return Ok(true) };
        self.connection.prepare_cached("DELETE FROM log WHERE position <= ?1")?.execute([last])?;
        snapshot::set_counter(self.connection, "compacted", number(last))?;
        for (tenant, revision) in oldest {
            let tenant = TenantId(number(tenant));
            self.reload(tenant)?;
            if let Some(row) = snapshot::tenant_row(self.connection, tenant)? {
                let oldest = row.oldest.max(Revision(number(revision)));
                self.store_tenant(&TenantRow { oldest, ..row })?;
            }
        }
        Ok(dropped < lines.len() || lines.len() < rows)
    }
}
