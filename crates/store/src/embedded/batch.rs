//! Writes: what one commit of the database holds, from any number of callers.
//!
//! A batch remembers what it changed in the rows that every write touches (a tenant's revision, counts, counters)
//! and writes those once, at its end. Nothing of it is seen by anyone before the commit.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use rusqlite::{Connection, params};

use super::chores::Chore;
use super::codec::{self, integer, number};
use super::fault::{self, Fault};
use super::head::Known;
use super::lines::{self, History, LogRow};
use super::snapshot::{self, Stored, TenantRow};
use super::templates::{self, Packed};
use crate::{Change, Event, Expect, Fence, Key, Operation, Position, Revision, StoreError, TenantId};

/// The numbers that belong to the whole store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    /// The last position of the log.
    pub position: u64,
    /// The last tenant made.
    pub tenant: u64,
    /// What compaction has in view: the log, and the values only history needs.
    pub history_bytes: u64,
}

impl Counters {
    pub(super) fn known(&self) -> Known {
        Known { position: self.position, tenant: self.tenant }
    }

    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Counters> {
        Ok(Counters {
            position: snapshot::counter(connection, "position")?,
            tenant: snapshot::counter(connection, "tenant")?,
            history_bytes: snapshot::counter(connection, "history_bytes")?,
        })
    }
}

/// A value of SQLite may be a billion bytes at most; far less is already a mistake of the caller.
const LARGEST_VALUE: usize = 256 << 20;
/// While the disk is full a value may become so much longer: what is deleted in two steps is marked first.
const SMALL_GROWTH: usize = 512;
/// What a line of the log takes beside its key and the value it supersedes.
const LOG_LINE: usize = 64;

pub(super) struct Batch<'c> {
    pub(super) connection: &'c Connection,
    pub(super) counters: Counters,
    counters_before: Counters,
    /// The tenants touched, as this batch leaves them.
    tenants: HashMap<TenantId, TenantRow>,
    advanced: HashSet<TenantId>,
    tallies: HashMap<(TenantId, CompactString), Tally>,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) outcome: Outcome,
    /// Whether only what makes the store smaller is taken.
    pub(super) full: bool,
}

/// What the rest of the engine learns once the batch is committed.
#[derive(Default)]
pub(super) struct Outcome {
    pub events: Vec<Arc<Event>>,
    pub revisions: Vec<(TenantId, Revision)>,
    pub deleted: Vec<TenantId>,
    pub chores: Vec<Chore>,
}

/// What a tenant has of a type: as it was stored, if it was, and as this batch leaves it.
#[derive(Clone, Copy, Default)]
struct Tally {
    stored: Option<(u64, u64)>,
    entries: i64,
    bytes: i64,
}

/// Which of how many changes of its revision a change is.
#[derive(Clone, Copy)]
pub(super) struct Line {
    line: u64,
    lines: u64,
}

/// A change of one key, checked and about to happen.
struct Step {
    key: Key,
    bytes: Vec<u8>,
    before: Option<Stored>,
    after: Option<Bytes>,
}

impl<'c> Batch<'c> {
    pub(super) fn new(connection: &'c Connection, counters: Counters, time: i64) -> Self {
        Batch {
            connection,
            counters,
            counters_before: counters,
            tenants: HashMap::new(),
            advanced: HashSet::new(),
            tallies: HashMap::new(),
            time,
            outcome: Outcome::default(),
            full: false,
        }
    }

    pub(super) fn tenant(&mut self, id: TenantId) -> Result<TenantRow, Fault> {
        if let Some(row) = self.tenants.get(&id) {
            return Ok(row.clone());
        }
        let row = snapshot::tenant(self.connection, id).map_err(refused)?.ok_or(StoreError::NoTenant)?;
        self.tenants.insert(id, row.clone());
        Ok(row)
    }

    /// Forgets what is remembered of a tenant whose row was changed past the batch.
    pub(super) fn reload(&mut self, id: TenantId) -> Result<(), Fault> {
        self.flush_tenant(id)?;
        self.tenants.remove(&id);
        Ok(())
    }

    pub(super) fn write(&mut self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, Fault> {
        let row = self.tenant(tenant)?;
        if row.base.is_some() {
            self.flush_tenants()?;
        }
        let steps = self.check(&row, operations)?;
        if steps.is_empty() {
            return Ok(row.revision);
        }
        if self.full && !steps.iter().any(|step| step.after.is_none()) {
            let grows = |step: &Step| {
                let before = step.before.as_ref().map(|before| before.value.len() + SMALL_GROWTH);
                step.after.as_ref().map_or(0, Bytes::len) > before.unwrap_or(0)
            };
            if steps.iter().any(grows) {
                return Err(full());
            }
        }
        // Whatever is damaged is met before anything is changed, so that it fails this transaction and no other.
        for step in &steps {
            self.tally(tenant, &step.key.kind).map_err(refused)?;
        }
        let revision = Revision(row.revision.0 + 1);
        let lines = steps.len() as u64;
        for (line, step) in (1..).zip(steps) {
            self.apply(tenant, revision, step, Line { line, lines })?;
        }
        self.advance(tenant, revision);
        Ok(revision)
    }

    pub(super) fn must_stand(&mut self, fence: &Fence) -> Result<(), Fault> {
        let row = match self.tenant(fence.tenant) {
            Err(Fault::Refused(StoreError::NoTenant)) => return Err(StoreError::Fenced.into()),
            row => row?,
        };
        if row.base.is_some() {
            self.flush_tenants()?;
        }
        let stored = snapshot::get(self.connection, &row, &codec::encode(&fence.key)?).map_err(refused)?;
        match stored {
            Some(stored) if stored.modified == fence.modified => Ok(()),
            _ => Err(StoreError::Fenced.into()),
        }
    }

    /// Every expectation of a transaction, before anything happens. A deletion of nothing is no step.
    fn check(&self, row: &TenantRow, operations: Vec<Operation>) -> Result<Vec<Step>, Fault> {
        let mut changed = HashSet::new();
        let mut steps = Vec::with_capacity(operations.len());
        for operation in operations {
            let (key, expect, after, changes) = match operation {
                Operation::Put { key, expect, value } => (key, expect, Some(value), true),
                Operation::Delete { key, expect } => (key, expect, None, true),
                Operation::Check { key, expect } => (key, expect, None, false),
            };
            let bytes = codec::encode(&key)?;
            if let Some(value) = after.as_ref().filter(|value| value.len() > LARGEST_VALUE) {
                let why = format!("a value of {} bytes is more than the store takes", value.len());
                return Err(StoreError::TooLarge(why).into());
            }
            let before = snapshot::get(self.connection, row, &bytes).map_err(refused)?;
            let holds = match expect {
                Expect::Any => true,
                Expect::Absent => before.is_none(),
                Expect::Present => before.is_some(),
                Expect::Modified(revision) => {
                    before.as_ref().is_some_and(|before| before.modified == revision)
                }
            };
            if !holds {
                let current = before.map(|before| Box::new(before.into_entry(key.clone())));
                return Err(StoreError::Conflict { key, current }.into());
            }
            if !changes || (before.is_none() && after.is_none()) {
                continue;
            }
            if !changed.insert(bytes.clone()) {
                return Err(StoreError::Failed(format!("a transaction changes {key:?} twice")).into());
            }
            steps.push(Step { key, bytes, before, after });
        }
        Ok(steps)
    }

    fn apply(&mut self, tenant: TenantId, revision: Revision, step: Step, line: Line) -> Result<(), Fault> {
        let Step { key, bytes, before, after } = step;
        let id = integer(tenant.0);
        let created = before.as_ref().map_or(revision, |before| before.created);
        match &after {
            Some(value) => {
                let stored = Stored { created, modified: revision, value: value.clone() };
                // A row of the same size is changed where it stands; a fork may not have copied it yet.
                if before.is_none() || !self.replace(tenant, &bytes, &stored)? {
                    self.put(tenant, &bytes, &stored)?;
                }
            }
            None => {
                self.connection
                    .prepare_cached("DELETE FROM current WHERE tenant = ?1 AND key = ?2")?
                    .execute(params![id, bytes])?;
            }
        }
        let weight = |value: &Bytes| (bytes.len() + value.len()) as i64;
        let was = before.as_ref().map_or(0, |before| weight(&before.value));
        let is = after.as_ref().map_or(0, weight);
        self.count(tenant, &key.kind, i64::from(after.is_some()) - i64::from(before.is_some()), is - was)?;

        if let Some(before) = &before {
            let history = History {
                modified: before.modified,
                superseded: revision,
                created: before.created,
                // The line that `record` is about to write.
                position: Position(self.counters.position + 1),
            };
            self.connection
                .prepare_cached(
                    "INSERT INTO history (tenant, key, modified, superseded, created, position, sum)
                     VALUES (?1,?2,?3,?4,?5,?6,?7)",
                )?
                .execute(params![
                    id,
                    bytes,
                    integer(history.modified.0),
                    integer(history.superseded.0),
                    integer(history.created.0),
                    integer(history.position.0),
                    history.sum(tenant, &bytes)
                ])?;
        }
        self.record(tenant, revision, key, bytes, created, before, after, line)
    }

    fn replace(&self, tenant: TenantId, key: &[u8], stored: &Stored) -> Result<bool, Fault> {
        let changed = self
            .connection
            .prepare_cached("UPDATE current SET modified = ?3, value = ?4, sum = ?5, template = NULL WHERE tenant = ?1 AND key = ?2")?
            .execute(params![
                integer(tenant.0),
                key,
                integer(stored.modified.0),
                stored.value.as_ref(),
                stored.sum(tenant, key)
            ])?;
        Ok(changed > 0)
    }

    /// Puts a new row into `current`, past history and log.
    pub(super) fn put(&self, tenant: TenantId, key: &[u8], stored: &Stored) -> Result<(), Fault> {
        self.put_packed(tenant, key, stored, &Packed::whole(&stored.value))
    }

    /// The same for what other tenants probably have as well. With `make`, the value is kept as a template for them.
    pub(super) fn put_common(
        &self,
        tenant: TenantId,
        key: &[u8],
        stored: &Stored,
        make: bool,
    ) -> Result<(), Fault> {
        let packed = templates::pack(self.connection, key, &stored.value, make)?;
        self.put_packed(tenant, key, stored, &packed)
    }

    fn put_packed(
        &self,
        tenant: TenantId,
        key: &[u8],
        stored: &Stored,
        packed: &Packed,
    ) -> Result<(), Fault> {
        self.connection
            .prepare_cached(
                "INSERT INTO current (tenant, key, created, modified, value, template, sum) VALUES (?1,?2,?3,?4,?5,?6,?7)",
            )?
            .execute(params![
                integer(tenant.0),
                key,
                integer(stored.created.0),
                integer(stored.modified.0),
                packed.bytes.as_ref(),
                packed.template,
                stored.sum(tenant, key)
            ])?;
        Ok(())
    }

    /// A change that happened: a line of the log, and an event for those who watch.
    #[expect(clippy::too_many_arguments, reason = "the columns of the log")]
    fn record(
        &mut self,
        tenant: TenantId,
        revision: Revision,
        key: Key,
        key_bytes: Vec<u8>,
        created: Revision,
        before: Option<Stored>,
        after: Option<Bytes>,
        Line { line, lines }: Line,
    ) -> Result<(), Fault> {
        let previous = before.as_ref().map(|before| before.modified);
        let old = before.map(|before| before.value);
        let bytes = LOG_LINE + key_bytes.len() + old.as_ref().map_or(0, Bytes::len);
        let change = match (&old, &after) {
            (None, _) => Change::Created,
            (Some(_), Some(_)) => Change::Updated,
            (Some(_), None) => Change::Deleted,
        };
        self.counters.position += 1;
        self.counters.history_bytes += bytes as u64;
        let position = Position(self.counters.position);
        let (time, bytes) = (self.time, bytes as i64);
        let row = LogRow {
            position,
            tenant,
            revision,
            key: key_bytes,
            change,
            created,
            previous,
            time,
            bytes,
            line,
            lines,
        };
        self.connection
            .prepare_cached(
                "INSERT INTO log (position, tenant, revision, key, change, created, previous, time, bytes, line, lines,
                     sum, value_sum, value)
                 VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
            )?
            .execute(params![
                integer(position.0),
                integer(tenant.0),
                integer(revision.0),
                row.key,
                row.change_number(),
                integer(created.0),
                previous.map(|revision| integer(revision.0)),
                time,
                bytes,
                integer(line),
                integer(lines),
                row.sum(),
                old.as_ref().map(|old| lines::value_sum(position, old)),
                old.as_deref()
            ])?;
        let (value, previous) = match after {
            Some(value) => (value, old),
            None => (old.unwrap_or_default(), None),
        };
        self.outcome.events.push(Arc::new(Event {
            tenant,
            key,
            change,
            revision,
            created,
            value,
            previous,
            position,
            derived: Default::default(),
        }));
        Ok(())
    }

    /// The tally of a type, read if this batch has not done so yet.
    fn tally(&mut self, tenant: TenantId, kind: &CompactString) -> rusqlite::Result<&mut Tally> {
        match self.tallies.entry((tenant, kind.clone())) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let stored = snapshot::own_tally(self.connection, tenant, kind)?;
                let (entries, bytes) = stored.unwrap_or_default();
                Ok(place.insert(Tally { stored, entries: integer(entries), bytes: integer(bytes) }))
            }
        }
    }

    pub(super) fn count(
        &mut self,
        tenant: TenantId,
        kind: &CompactString,
        entries: i64,
        bytes: i64,
    ) -> Result<(), Fault> {
        let tally = self.tally(tenant, kind)?;
        tally.entries += entries;
        tally.bytes += bytes;
        Ok(())
    }

    fn advance(&mut self, tenant: TenantId, revision: Revision) {
        if let Some(row) = self.tenants.get_mut(&tenant) {
            row.revision = revision;
        }
        self.advanced.insert(tenant);
    }

    /// Writes the revisions of this batch, for reads of forks: they hold the log of their base against its row.
    pub(super) fn flush_tenants(&mut self) -> Result<(), Fault> {
        for tenant in self.advanced.iter().copied().collect::<Vec<_>>() {
            self.flush_tenant(tenant)?;
        }
        Ok(())
    }

    fn flush_tenant(&mut self, tenant: TenantId) -> Result<(), Fault> {
        if let Some(row) = self.tenants.get(&tenant).filter(|_| self.advanced.remove(&tenant)) {
            self.store_tenant(row)?;
            self.outcome.revisions.push((tenant, row.revision));
        }
        Ok(())
    }

    /// Writes a tenant's row, which is there.
    pub(super) fn store_tenant(&self, row: &TenantRow) -> Result<(), Fault> {
        let base = row.base.as_ref();
        self.connection
            .prepare_cached(
                "UPDATE tenant SET state = ?2, revision = ?3, oldest = ?4, base_tenant = ?5, base_revision = ?6,
                 base_after = ?7, sum = ?8 WHERE id = ?1",
            )?
            .execute(params![
                integer(row.id.0),
                row.state,
                integer(row.revision.0),
                integer(row.oldest.0),
                base.map(|base| integer(base.tenant.0)),
                base.map(|base| integer(base.revision.0)),
                base.map(|base| base.after.as_slice()),
                row.sum()
            ])?;
        Ok(())
    }

    /// Writes the counts that have been gathered so far.
    pub(super) fn flush_tallies(&mut self) -> Result<(), Fault> {
        for ((tenant, kind), tally) in self.tallies.drain() {
            let (entries, bytes) = (number(tally.entries), number(tally.bytes));
            if tally.stored.unwrap_or_default() == (entries, bytes) {
                continue;
            }
            if entries == 0 {
                self.connection
                    .prepare_cached("DELETE FROM tally WHERE tenant = ?1 AND kind = ?2")?
                    .execute(params![integer(tenant.0), kind.as_str()])?;
                continue;
            }
            let sum = snapshot::tally_sum(tenant, &kind, entries, bytes);
            self.connection
                .prepare_cached(
                    "INSERT INTO tally (tenant, kind, entries, bytes, sum) VALUES (?1,?2,?3,?4,?5) ON CONFLICT DO UPDATE
                     SET entries = excluded.entries, bytes = excluded.bytes, sum = excluded.sum",
                )?
                .execute(params![integer(tenant.0), kind.as_str(), tally.entries, tally.bytes, sum])?;
        }
        Ok(())
    }

    /// Writes what was remembered. The commit is the caller's.
    pub(super) fn finish(mut self) -> Result<(Counters, Outcome), Fault> {
        self.flush_tenants()?;
        self.flush_tallies()?;
        let (before, now) = (self.counters_before, self.counters);
        for (name, before, now) in [
            ("position", before.position, now.position),
            ("tenant", before.tenant, now.tenant),
            ("history_bytes", before.history_bytes, now.history_bytes),
        ] {
            if before != now {
                snapshot::set_counter(self.connection, name, now)?;
            }
        }
        Ok((self.counters, self.outcome))
    }
}

/// The answer to what would make a full store larger.
pub(super) fn full() -> Fault {
    StoreError::Unavailable("the disk is full: something has to be deleted first".into()).into()
}

/// Damage that is met before anything is changed breaks nothing of others.
fn refused(error: rusqlite::Error) -> Fault {
    if fault::is_damage(&error) { Fault::Refused(fault::store_error(error)) } else { Fault::Broken(error) }
}
