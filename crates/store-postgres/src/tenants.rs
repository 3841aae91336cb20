//! How tenants are made, changed, copied and ended.
//!
//! A fork copies: what it costs the database grows with what the source holds, a tenth of a second for ten thousand
//! objects, about. Reading through to the source until a copy in the background is done, as the embedded engine does,
//! would make every read and write of every tenant ask first whether it is a fork; with all the copying on the
//! database's side and nobody waiting but the one who asked, that does not pay here. Neither the source nor anyone
//! else waits for it.

use std::collections::BTreeMap;

use bytes::Bytes;
use compact_str::CompactString;
use futures::StreamExt;
use store::codec::{Bounds, integer, number};
use store::export::{self, Decoder};
use store::{Entry, Export, Key, Revision, Scope, StoreError, Tenant, TenantId};
use tokio_postgres::error::SqlState;

use crate::batch::{LOG_LINE, encoded};
use crate::connection::{Connection, Parameters};
use crate::fault::Fault;
use crate::snapshot::{self, Point};
use crate::statements::Sql;
use crate::store::Postgres;

/// Entries written at a time where a whole tenant passes through, and bytes of them.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 8 << 20;

fn must_be_a_name(name: &str) -> Result<(), StoreError> {
    if name.is_empty() {
        return Err(StoreError::Failed("a tenant must have a name".into()));
    }
    if name.contains('\0') || name.len() > 2000 {
        return Err(StoreError::Failed("the name of a tenant is too long or holds a NUL byte".into()));
    }
    Ok(())
}

/// A name that is taken is told by the database when it is taken again.
fn taken(name: &str) -> impl Fn(Fault) -> Fault {
    move |fault| match fault.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => StoreError::TenantExists { name: name.into() }.into(),
        _ => fault,
    }
}

/// Entries and bytes by type, as columns.
#[derive(Default)]
struct Tallies(BTreeMap<CompactString, (i64, i64)>);

impl Tallies {
    fn add(&mut self, kind: &CompactString, bytes: usize) {
        let tally = self.0.entry(kind.clone()).or_default();
        tally.0 += 1;
        tally.1 += bytes as i64;
    }

    fn columns(&self) -> (Vec<&str>, Vec<i64>, Vec<i64>) {
        let kinds = self.0.keys().map(CompactString::as_str).collect();
        (
            kinds,
            self.0.values().map(|(entries, _)| *entries).collect(),
            self.0.values().map(|(_, b)| *b).collect(),
        )
    }
}

impl Postgres {
    pub(crate) async fn create(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, Fault> {
        must_be_a_name(name)?;
        let mut keyed = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            keyed.push((encoded(&key)?, key, value));
        }
        keyed.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        if let Some(pair) = keyed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(StoreError::Failed(format!("a tenant begins with {:?} twice", pair[0].1)).into());
        }
        let mut tallies = Tallies::default();
        let (mut weights, mut befores, mut history) = (Vec::new(), Vec::new(), 0i64);
        for (bytes, key, value) in &keyed {
            tallies.add(&key.kind, bytes.len() + value.len());
            weights.push(i32::try_from(LOG_LINE + value.len()).unwrap_or(i32::MAX));
            befores.push(history);
            history += (LOG_LINE + bytes.len()) as i64;
        }
        let keys: Vec<&[u8]> = keyed.iter().map(|(bytes, ..)| bytes.as_slice()).collect();
        let values: Vec<&[u8]> = keyed.iter().map(|(.., value)| value.as_ref()).collect();
        let (kinds, counts, sizes) = tallies.columns();
        let (channel, sender) = (self.channel(), self.id().to_string());
        let lines = keyed.len() as i64;
        let parameters: Parameters<'_> = &[
            &name,
            &record.as_ref(),
            &keys,
            &values,
            &weights,
            &befores,
            &lines,
            &history,
            &kinds,
            &counts,
            &sizes,
            &channel,
            &sender,
        ];
        let rows = match self.change(None, Sql::CreateTenant, parameters).await {
            // The log has no partition for these positions yet.
            Err(fault) if fault.code() == Some(&SqlState::CHECK_VIOLATION) => {
                self.partitions().make(keyed.len() as u64).await?;
                self.change(None, Sql::CreateTenant, parameters).await
            }
            done => done,
        }
        .map_err(taken(name))?;
        let row = rows.first().ok_or_else(|| StoreError::Failed("no tenant was made".into()))?;
        self.tail().look();
        Ok(Tenant { id: TenantId(number(row.try_get(0)?)), name: name.into(), record })
    }

    pub(crate) async fn update(&self, tenant: TenantId, record: Bytes) -> Result<(), Fault> {
        let rows = self.change(None, Sql::UpdateTenant, &[&integer(tenant.0), &record.as_ref()]).await?;
        if rows.is_empty() { Err(StoreError::NoTenant.into()) } else { Ok(()) }
    }

    /// The same if the record is the one that is known. A commit whose end was lost is told as a record that is another's.
    pub(crate) async fn replace(&self, tenant: &Tenant, record: Bytes) -> Result<bool, Fault> {
        let parameters: Parameters<'_> = &[&integer(tenant.id.0), &record.as_ref(), &tenant.record.as_ref()];
        if !self.change(None, Sql::ReplaceRecord, parameters).await?.is_empty() {
            return Ok(true);
        }
        match snapshot::tenant_by_id(self.readers(), tenant.id).await? {
            Some(_) => Ok(false),
            None => Err(StoreError::NoTenant.into()),
        }
    }

    pub(crate) async fn delete(&self, tenant: TenantId) -> Result<(), Fault> {
        let (id, channel, sender) = (integer(tenant.0), self.channel(), self.id().to_string());
        let parameters: Parameters<'_> = &[&id, &channel, &sender];
        let rows = match self.change(Some(tenant), Sql::DeleteTenant, parameters).await {
            Err(fault) if fault.code() == Some(&SqlState::CHECK_VIOLATION) => {
                self.partitions().make(1).await?;
                self.change(Some(tenant), Sql::DeleteTenant, parameters).await?
            }
            done => done?,
        };
        if rows.is_empty() {
            return Err(StoreError::NoTenant.into());
        }
        self.tail().look();
        self.removal().notify_one();
        Ok(())
    }

    pub(crate) async fn fork(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, Fault> {
        must_be_a_name(name)?;
        let point = snapshot::point(self.readers(), source).await?;
        let at = at.unwrap_or(point.revision);
        point.readable(at)?;
        let _turn = self.copies().acquire().await.map_err(|_| crate::readers::closed())?;
        // A connection of its own: whatever ends this early ends it, and nothing was made.
        let connection = self.connector().connect().await?;
        connection.begin().await?;
        let copied = self.copy(&connection, (source, at), name, &record).await;
        let made = connection.end(copied).await.map_err(taken(name))?;
        Ok(Tenant { id: TenantId(number(made)), name: name.into(), record })
    }

    async fn copy(
        &self,
        connection: &Connection,
        (source, at): (TenantId, Revision),
        name: &str,
        record: &Bytes,
    ) -> Result<i64, Fault> {
        let everything = Bounds::of(&Scope::All)?;
        let (source, revision) = (integer(source.0), integer(at.0));
        let rows = connection.query(Sql::MakeFork, &[&name, &record.as_ref(), &revision]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Failed("no tenant was made".into()))?;
        let fork: i64 = row.try_get(0)?;
        let parameters: Parameters<'_> = &[&source, &everything.from, &everything.to, &fork, &revision];
        connection.query(Sql::CopyEntries, parameters).await?;
        connection.query(Sql::CopyTally, &[&fork]).await?;
        // Had the source been deleted, or its past been dropped, while it was read, this shows it: both are
        // committed before anything is taken away.
        let rows = connection.query(Sql::Point, &[&source]).await?;
        Point::from_row(rows.first().ok_or(StoreError::NoTenant)?)?.readable(at)?;
        // Last, for whoever renews what the fence stands for waits from here on.
        self.must_stand(connection, None).await?;
        Ok(fork)
    }

    pub(crate) async fn import(
        &self,
        name: &str,
        record: Bytes,
        mut export: Export,
    ) -> Result<Tenant, Fault> {
        must_be_a_name(name)?;
        if snapshot::tenant_named(self.readers(), name).await?.is_some() {
            return Err(StoreError::TenantExists { name: name.into() }.into());
        }
        let rows = self.readers().change(Sql::BeginImport, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Failed("no tenant was made".into()))?;
        let hidden: i64 = row.try_get(0)?;
        // Whatever ends this early, a dropped future included, leaves nothing behind.
        let mut unfinished = Unfinished { engine: self, tenant: Some(hidden) };
        let mut decoder = Decoder::new();
        while let Some(chunk) = export.next().await {
            decoder.push(&chunk?);
            loop {
                let (mut page, mut weight) = (Vec::new(), 0);
                while page.len() < PAGE
                    && weight < PAGE_BYTES
                    && let Some(entry) = decoder.next_entry()?
                {
                    weight += entry.value.len();
                    page.push(entry);
                }
                if page.is_empty() {
                    break;
                }
                self.import_page(hidden, &page).await?;
            }
        }
        let header = decoder.finish()?;
        let revision = integer(export::revision_after_import(&header).0);
        let rows = self
            .change(None, Sql::PublishImport, &[&hidden, &revision, &name, &record.as_ref()])
            .await
            .map_err(taken(name))?;
        if rows.is_empty() {
            return Err(given_up());
        }
        unfinished.tenant = None;
        Ok(Tenant { id: TenantId(number(hidden)), name: name.into(), record })
    }

    async fn import_page(&self, tenant: i64, page: &[Entry]) -> Result<(), Fault> {
        let mut tallies = Tallies::default();
        let mut keys = Vec::with_capacity(page.len());
        for entry in page {
            let bytes = encoded(&entry.key)?;
            tallies.add(&entry.key.kind, bytes.len() + entry.value.len());
            keys.push(bytes);
        }
        let created: Vec<i64> = page.iter().map(|entry| integer(entry.created.0)).collect();
        let modified: Vec<i64> = page.iter().map(|entry| integer(entry.modified.0)).collect();
        let values: Vec<&[u8]> = page.iter().map(|entry| entry.value.as_ref()).collect();
        let (kinds, counts, sizes) = tallies.columns();
        let rows = self
            .readers()
            .change(
                Sql::ImportEntries,
                &[&tenant, &keys, &created, &modified, &values, &kinds, &counts, &sizes],
            )
            .await?;
        if rows.is_empty() { Err(given_up()) } else { Ok(()) }
    }
}

fn given_up() -> Fault {
    StoreError::Unavailable("the import stood still for too long and was given up".into()).into()
}

/// An import that has not come to its end.
struct Unfinished<'e> {
    engine: &'e Postgres,
    tenant: Option<i64>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let Some(tenant) = self.tenant else { return };
        let (readers, removal) = (self.engine.shared_readers(), self.engine.removal().clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // If that fails, it is found by its age.
                if readers.change(Sql::DiscardImport, &[&tenant]).await.is_ok() {
                    removal.notify_one();
                }
            });
        }
    }
}
