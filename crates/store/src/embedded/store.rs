//! The interface, told in terms of the engine's parts.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use compact_str::CompactString;
use futures::StreamExt;
use tokio::sync::oneshot;

use super::Embedded;
use super::batch::Batch;
use super::codec::{self, Bounds};
use super::fault::{Fault, store_error};
use super::snapshot::{self, TenantRow};
use super::tenants::readable;
use super::writer::Command;
use crate::export::{self, Decoder, Encoder, Header};
use crate::fanout::{self, Kinds, Telling};
use crate::{
    Entry, Export, Feed, Fence, Key, Limit, Operation, Page, Position, Retention, Revision, Scope, Store,
    StoreError, Tenant, TenantId, Watch,
};

fn living(connection: &rusqlite::Connection, tenant: TenantId) -> Result<TenantRow, StoreError> {
    snapshot::tenant(connection, tenant).map_err(store_error)?.ok_or(StoreError::NoTenant)
}

/// Entries read and written at a time where a whole tenant passes through.
const PAGE: usize = 500;

impl Embedded {
    async fn watching(
        &self,
        tenant: TenantId,
        scope: Scope,
        from: Revision,
        telling: Telling,
    ) -> Result<Watch, StoreError> {
        Bounds::of(&scope)?;
        self.readers.short(|connection| readable(&living(connection, tenant)?, from)).await?;
        Ok(fanout::watch(&self.hub, self.log.clone(), tenant, scope, from, telling))
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
        let bytes = codec::encode(key)?;
        self.readers
            .short(|connection| {
                let tenant = living(connection, tenant)?;
                let stored = snapshot::get(connection, &tenant, &bytes).map_err(store_error)?;
                Ok(stored.map(|stored| stored.into_entry(key.clone())))
            })
            .await
    }

    async fn range(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.range_within(tenant, scope, after, at, Limit { entries: limit, bytes: 0 }).await
    }

    async fn range_within(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: Limit,
    ) -> Result<Page, StoreError> {
        let mut bounds = Bounds::of(scope)?;
        if let Some(after) = after {
            bounds = bounds.after(&codec::encode(after)?);
        }
        let whole_kind = match scope {
            Scope::Kind(kind) if after.is_none() => Some(kind.clone()),
            _ => None,
        };
        self.readers
            .long(move |connection| {
                let tenant = living(connection, tenant)?;
                let revision = at.unwrap_or(tenant.revision);
                readable(&tenant, revision)?;
                // One more than asked for tells whether there is more.
                let rows = if limit.entries == 0 { 0 } else { limit.entries.saturating_add(1) };
                let ask = Limit { entries: rows, bytes: limit.bytes };
                let mut entries = snapshot::range_within(connection, &tenant, &bounds, revision, ask)
                    .map_err(store_error)?;
                let more = limit.entries != 0 && entries.len() > limit.entries;
                if more {
                    entries.truncate(limit.entries);
                }
                let remaining = (!more).then_some(0);
                let mut page = Page { revision, entries, more, remaining }.within(limit.bytes);
                if page.more {
                    page.remaining = None;
                    if let Some(kind) = whole_kind.filter(|_| revision == tenant.revision) {
                        let (all, _) =
                            snapshot::tally(connection, tenant.id, Some(&kind)).map_err(store_error)?;
                        page.remaining = Some(all.saturating_sub(page.entries.len() as u64));
                    }
                }
                Ok(page)
            })
            .await
    }

    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        let kind = match scope {
            Scope::All => None,
            Scope::Kind(kind) => Some(kind.clone()),
            Scope::One(key) => return Ok(u64::from(self.get(tenant, key).await?.is_some())),
            // Namespaces are small, and counts of each would be rows that every write touches.
            Scope::Namespace(..) => {
                let bounds = Bounds::of(scope)?;
                let count = self.readers.long(move |connection| {
                    snapshot::count(connection, &living(connection, tenant)?, &bounds).map_err(store_error)
                });
                return count.await;
            }
        };
        self.readers
            .short(|connection| {
                let tenant = living(connection, tenant)?;
                Ok(snapshot::tally(connection, tenant.id, kind.as_deref()).map_err(store_error)?.0)
            })
            .await
    }

    async fn write(&self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, StoreError> {
        self.change(move |batch| batch.write(tenant, operations)).await
    }

    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError> {
        self.readers.short(|connection| Ok(living(connection, tenant)?.revision)).await
    }

    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        let moment = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        self.readers
            .short(move |connection| {
                let row = living(connection, tenant)?;
                let kept = snapshot::is_kept(connection, moment).map_err(store_error)?;
                let next = snapshot::first_after(connection, tenant, moment).map_err(store_error)?;
                // Revisions of a tenant leave nothing out: before the next one was the one before it.
                let found = next.map_or(row.revision, |next| Revision(next.0.saturating_sub(1)));
                if !kept || found < row.oldest || found == Revision(0) {
                    return Err(StoreError::Compacted { asked: found, oldest: row.oldest });
                }
                Ok(Some(found))
            })
            .await
    }

    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError> {
        self.watching(tenant, scope, from, Telling::OnBeats).await
    }

    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError> {
        self.watching(tenant, Scope::All, from, Telling::AtOnce).await
    }

    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError> {
        let start = async || {
            let (compacted, current) = self
                .readers
                .short(|connection| {
                    let compacted = snapshot::counter(connection, "compacted").map_err(store_error)?;
                    Ok((compacted, snapshot::counter(connection, "position").map_err(store_error)?))
                })
                .await?;
            let from = from.map_or(current, |from| from.0);
            if from < compacted {
                return Err(StoreError::Compacted { asked: Revision(from), oldest: Revision(compacted) });
            }
            if from > current {
                return Err(StoreError::Future { asked: Revision(from), current: Revision(current) });
            }
            Ok(Position(from))
        };
        fanout::feed(&self.hub, self.log.clone(), Kinds::new(kinds), start).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.readers
            .short(|connection| Ok(Position(snapshot::counter(connection, "position").map_err(store_error)?)))
            .await
    }

    async fn create_tenant(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        let name = CompactString::new(name);
        self.change(move |batch| batch.create_tenant(&name, record, entries)).await
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        self.readers.short(|connection| snapshot::tenant_named(connection, name).map_err(store_error)).await
    }

    async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        self.readers.short(|connection| snapshot::tenant_by_id(connection, id).map_err(store_error)).await
    }

    async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        let after = after.map(CompactString::new);
        self.readers
            .long(move |connection| {
                snapshot::tenants(connection, after.as_deref(), limit).map_err(store_error)
            })
            .await
    }

    async fn update_tenant(&self, tenant: TenantId, record: Bytes) -> Result<(), StoreError> {
        self.change(move |batch| batch.update_tenant(tenant, &record)).await
    }

    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError> {
        let (id, known) = (tenant.id, tenant.record.clone());
        self.change(move |batch| batch.replace_record(id, &known, &record)).await
    }

    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.change(move |batch| batch.delete_tenant(tenant)).await
    }

    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        let name = CompactString::new(name);
        self.change(move |batch| batch.fork_tenant(source, at, &name, record)).await
    }

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError> {
        let header = self
            .readers
            .short(|connection| {
                let row = living(connection, tenant)?;
                let at = at.unwrap_or(row.revision);
                readable(&row, at)?;
                Ok(Header { revision: at, latest: row.revision })
            })
            .await?;
        let readers = self.readers.clone();
        let bounds = Bounds::of(&Scope::All)?;
        // Page by page, all as of one revision: an export of any size takes the memory of a page. If compaction
        // overtakes it, it ends with that error.
        let start = Some((Encoder::new(), bounds, true));
        Ok(futures::stream::try_unfold(start, move |state| {
            let readers = readers.clone();
            async move {
                let Some((mut encoder, bounds, first)) = state else { return Ok(None) };
                let from = bounds.clone();
                let page = readers
                    .long(move |connection| {
                        let row = living(connection, tenant)?;
                        readable(&row, header.revision)?;
                        snapshot::range(connection, &row, &from, header.revision, PAGE).map_err(store_error)
                    })
                    .await?;
                if first {
                    encoder.header(&header);
                }
                for entry in &page {
                    encoder.entry(entry)?;
                }
                match page.last() {
                    Some(last) if page.len() == PAGE => {
                        let bounds = bounds.after(&codec::encode(&last.key)?);
                        Ok(Some((encoder.take(), Some((encoder, bounds, false)))))
                    }
                    _ => Ok(Some((encoder.finish(), None))),
                }
            }
        })
        .boxed())
    }

    async fn import_tenant(
        &self,
        name: &str,
        record: Bytes,
        mut export: Export,
    ) -> Result<Tenant, StoreError> {
        let name = CompactString::new(name);
        let hidden = {
            let name = name.clone();
            self.writer.write(move |batch| batch.begin_import(&name)).await?
        };
        // Whatever ends this early, a dropped future included, leaves nothing behind.
        let mut unfinished = Unfinished { engine: self, tenant: Some(hidden) };
        let mut decoder = Decoder::new();
        while let Some(chunk) = export.next().await {
            decoder.push(&chunk?);
            loop {
                let mut entries = Vec::new();
                while entries.len() < PAGE
                    && let Some(entry) = decoder.next_entry()?
                {
                    entries.push(entry);
                }
                if entries.is_empty() {
                    break;
                }
                self.writer.write(move |batch| batch.import_entries(hidden, entries)).await?;
            }
        }
        let header = decoder.finish()?;
        let revision = export::revision_after_import(&header);
        let tenant = self.change(move |batch| batch.publish_import(hidden, revision, &name, record)).await?;
        unfinished.tenant = None;
        Ok(tenant)
    }

    async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        let (done, wait) = oneshot::channel();
        self.writer.send(Command::Compact(retention, Some(done))).await?;
        wait.await.map_err(|_| StoreError::closed())?
    }

    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        self.readers
            .short(|connection| {
                let tenant = living(connection, tenant)?;
                Ok(snapshot::tally(connection, tenant.id, None).map_err(store_error)?.1)
            })
            .await
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        Arc::new(Embedded { fence: Some(Arc::new(fence)), ..self.clone() })
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.why()
    }

    async fn close(&self) {
        let running = self.life.running.lock().take();
        let Some(running) = running else { return };
        let (done, wait) = oneshot::channel();
        if self.writer.send(Command::Stop(done)).await.is_ok() {
            let _ = wait.await;
        }
        self.hub.close();
        self.readers.close();
        let _ = tokio::task::spawn_blocking(move || running.end()).await;
    }
}

impl Embedded {
    /// A change that others see, if the fence of this handle stands.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let fence = self.fence.clone();
        let fenced = move |batch: &mut Batch<'_>| {
            if let Some(fence) = fence {
                batch.must_stand(&fence)?;
            }
            work(batch)
        };
        self.writer.write(fenced).await
    }
}

/// An import that has not come to its end.
struct Unfinished<'e> {
    engine: &'e Embedded,
    tenant: Option<TenantId>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(tenant) = self.tenant {
            // If the writer is too busy to hear it, the next start removes it.
            self.engine.writer.later(move |batch| batch.discard(tenant));
        }
    }
}
