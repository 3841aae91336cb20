//! Writes that make, change and end tenants.

use bytes::Bytes;
use rusqlite::params;

use super::batch::{Batch, full};
use super::chores::{self, Chore};
use super::codec::{self, Bounds, integer};
use super::fault::Fault;
use super::snapshot::{self, Base, DYING, IMPORTING, LIVES, Stored, TenantRow};
use crate::{Entry, Key, Revision, Scope, StoreError, Tenant, TenantId};

impl Batch<'_> {
    pub(super) fn create_tenant(
        &mut self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, Fault> {
        self.must_be_free(name)?;
        let mut keyed = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            keyed.push((codec::encode(&key)?, key, value));
        }
        keyed.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        if let Some(pair) = keyed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(StoreError::Failed(format!("a tenant begins with {:?} twice", pair[0].1)).into());
        }
        let first = Revision(1);
        // What a tenant begins with is no change: there is nothing to read of before.
        let oldest = if keyed.is_empty() { Revision(0) } else { first };
        let id = self.insert_tenant(LIVES, first, oldest)?;
        let tenant = self.enter(id, name, record)?;
        for (bytes, key, value) in keyed {
            self.count(id, &key.kind, 1, (bytes.len() + value.len()) as i64)?;
            self.put_common(id, &bytes, &Stored { created: first, modified: first, value }, true)?;
        }
        Ok(tenant)
    }

    fn must_be_free(&self, name: &str) -> Result<(), Fault> {
        if self.full {
            return Err(full());
        }
        if name.is_empty() {
            return Err(StoreError::Failed("a tenant must have a name".into()).into());
        }
        match snapshot::tenant_named(self.connection, name)? {
            Some(_) => Err(StoreError::TenantExists { name: name.into() }.into()),
            None => Ok(()),
        }
    }

    pub(super) fn insert_tenant(
        &mut self,
        state: i64,
        revision: Revision,
        oldest: Revision,
    ) -> Result<TenantId, Fault> {
        self.counters.tenant += 1;
        let id = TenantId(self.counters.tenant);
        let sum = TenantRow::new(id, state, revision, oldest).sum();
        self.connection
            .prepare_cached("INSERT INTO tenant (id, state, revision, oldest, sum) VALUES (?1,?2,?3,?4,?5)")?
            .execute(params![integer(id.0), state, integer(revision.0), integer(oldest.0), sum])?;
        Ok(id)
    }

    pub(super) fn enter(&self, id: TenantId, name: &str, record: Bytes) -> Result<Tenant, Fault> {
        self.connection
            .prepare_cached("INSERT INTO directory (name, id, sum, record) VALUES (?1,?2,?3,?4)")?
            .execute(params![
                name,
                integer(id.0),
                snapshot::directory_sum(name, id, &record),
                record.as_ref()
            ])?;
        Ok(Tenant { id, name: name.into(), record })
    }

    pub(super) fn update_tenant(&mut self, tenant: TenantId, record: &Bytes) -> Result<(), Fault> {
        let entered = snapshot::tenant_by_id(self.connection, tenant)?.ok_or(StoreError::NoTenant)?;
        self.connection.prepare_cached("UPDATE directory SET record = ?2, sum = ?3 WHERE id = ?1")?.execute(
            params![
                integer(tenant.0),
                record.as_ref(),
                snapshot::directory_sum(&entered.name, tenant, record)
            ],
        )?;
        Ok(())
    }

    pub(super) fn replace_record(
        &mut self,
        tenant: TenantId,
        known: &Bytes,
        record: &Bytes,
    ) -> Result<bool, Fault> {
        let entered = snapshot::tenant_by_id(self.connection, tenant)?.ok_or(StoreError::NoTenant)?;
        if entered.record != *known {
            return Ok(false);
        }
        self.update_tenant(tenant, record)?;
        Ok(true)
    }

    /// Gone from the directory and for every reader at once; what it stored is left to a chore.
    pub(super) fn delete_tenant(&mut self, tenant: TenantId) -> Result<(), Fault> {
        self.tenant(tenant)?;
        self.reload(tenant)?;
        self.connection
            .prepare_cached("DELETE FROM directory WHERE id = ?1")?
            .execute(params![integer(tenant.0)])?;
        self.discard(tenant)?;
        self.outcome.deleted.push(tenant);
        Ok(())
    }

    /// Leaves a tenant that is in no directory (any more) to be removed.
    pub(super) fn discard(&mut self, tenant: TenantId) -> Result<(), Fault> {
        if let Some(row) = snapshot::tenant_row(self.connection, tenant)? {
            self.store_tenant(&TenantRow { state: DYING, base: None, ..row })?;
        }
        self.outcome.chores.push(Chore::Remove(tenant));
        Ok(())
    }

    /// A tenant that refers to its source for everything it has not copied yet, so that making it costs the same
    /// whatever the source holds.
    pub(super) fn fork_tenant(
        &mut self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, Fault> {
        let row = self.tenant(source)?;
        let at = at.unwrap_or(row.revision);
        readable(&row, at)?;
        self.must_be_free(name)?;
        self.flush_tenants()?;
        if row.base.is_some() {
            // A base is never a fork in the making, so that reads look one level down at most.
            while !self.copy_step(source, chores::STEP)? {}
        }
        let id = self.insert_tenant(LIVES, at, at)?;
        let base = Base { tenant: source, revision: at, after: Vec::new() };
        self.store_tenant(&TenantRow { base: Some(base), ..TenantRow::new(id, LIVES, at, at) })?;
        self.flush_tallies()?;
        if at == row.revision {
            for (kind, entries, bytes) in snapshot::tallies(self.connection, source)? {
                self.count(id, &kind, integer(entries), integer(bytes))?;
            }
        } else {
            self.tally_of_the_past(id)?;
        }
        self.outcome.chores.push(Chore::Copy(id));
        self.enter(id, name, record)
    }

    fn tally_of_the_past(&mut self, fork: TenantId) -> Result<(), Fault> {
        let Some(row) = snapshot::tenant_row(self.connection, fork)? else { return Ok(()) };
        let mut bounds = Bounds::of(&Scope::All)?;
        loop {
            let page = snapshot::range(self.connection, &row, &bounds, row.revision, 1000)?;
            let Some(last) = page.last() else { return Ok(()) };
            bounds = bounds.after(&codec::encode(&last.key)?);
            for entry in page {
                let bytes = codec::encode(&entry.key)?.len() + entry.value.len();
                self.count(fork, &entry.key.kind, 1, bytes as i64)?;
            }
        }
    }

    /// A tenant that nobody sees until [`Batch::publish_import`].
    pub(super) fn begin_import(&mut self, name: &str) -> Result<TenantId, Fault> {
        self.must_be_free(name)?;
        self.insert_tenant(IMPORTING, Revision(0), Revision(0))
    }

    pub(super) fn import_entries(&mut self, tenant: TenantId, entries: Vec<Entry>) -> Result<(), Fault> {
        for Entry { key, created, modified, value } in entries {
            let bytes = codec::encode(&key)?;
            self.count(tenant, &key.kind, 1, (bytes.len() + value.len()) as i64)?;
            self.put_common(tenant, &bytes, &Stored { created, modified, value }, false)?;
        }
        Ok(())
    }

    pub(super) fn publish_import(
        &mut self,
        tenant: TenantId,
        revision: Revision,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, Fault> {
        self.must_be_free(name)?;
        let row = snapshot::tenant_row(self.connection, tenant)?.ok_or(StoreError::NoTenant)?;
        self.store_tenant(&TenantRow { state: LIVES, revision, oldest: revision, ..row })?;
        self.enter(tenant, name, record)
    }
}

/// Whether a revision is one that can be read.
pub(super) fn readable(row: &snapshot::TenantRow, at: Revision) -> Result<(), StoreError> {
    if at > row.revision {
        return Err(StoreError::Future { asked: at, current: row.revision });
    }
    if at < row.oldest {
        return Err(StoreError::Compacted { asked: at, oldest: row.oldest });
    }
    Ok(())
}
