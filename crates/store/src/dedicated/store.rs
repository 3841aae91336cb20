//! The interface: what concerns one tenant is asked of its database, the rest of the ledger and the trail.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use compact_str::CompactString;
use futures::StreamExt;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::rooms::{Entries, Room};
use super::{Dedicated, House};
use crate::fanout::{self, Kinds};
use crate::{
    Embedded, Entry, Export, Feed, Fence, Filter, Key, Limit, Operation, Page, Position, Retention, Revision,
    Scope, Search, Store, StoreError, Tenant, TenantId, Watch,
};

/// Held while something is changed.
enum Passed<'h> {
    Together(#[expect(dead_code, reason = "held")] RwLockReadGuard<'h, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'h, ()>),
}

/// What fills the database of a new tenant.
enum Beginning {
    Entries(Entries),
    Export(Export),
}

impl Beginning {
    async fn fill(self, store: &Embedded, name: &str) -> Result<TenantId, StoreError> {
        let made = match self {
            Beginning::Entries(entries) => store.create_tenant(name, Bytes::new(), entries).await,
            Beginning::Export(export) => store.import_tenant(name, Bytes::new(), export).await,
        };
        made.map(|tenant| tenant.id)
    }
}

impl Dedicated {
    async fn room(&self, tenant: TenantId) -> Result<Arc<Room>, StoreError> {
        self.house.room(tenant).await
    }

    /// What a database answered. One that was closed because its tenant was deleted meanwhile is no outage.
    fn answered<T>(&self, tenant: TenantId, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match answer {
            Err(StoreError::Unavailable(_)) if matches!(self.house.ledger.by_id(tenant), Ok(None)) => {
                Err(StoreError::NoTenant)
            }
            answer => answer,
        }
    }

    /// To be held from before a change to after it.
    async fn pass(&self) -> Result<Passed<'_>, StoreError> {
        let Some(fence) = &self.fence else { return Ok(Passed::Together(self.house.gate.read().await)) };
        let alone = self.house.gate.write().await;
        let stands = match self.get(fence.tenant, &fence.key).await {
            Ok(found) => found.is_some_and(|entry| entry.modified == fence.modified),
            Err(StoreError::NoTenant) => false,
            Err(error) => return Err(error),
        };
        if stands { Ok(Passed::Alone(alone)) } else { Err(StoreError::Fenced) }
    }

    /// In a task of its own: whoever goes away before it is done leaves nothing half made.
    async fn make(&self, name: &str, record: Bytes, beginning: Beginning) -> Result<Tenant, StoreError> {
        let (making, name) = (self.clone(), CompactString::new(name));
        let made = tokio::spawn(async move { making.make_whole(name, record, beginning).await }).await;
        made.map_err(|error| StoreError::Failed(format!("a tenant was not made: {error}")))?
    }

    async fn make_whole(
        &self,
        name: CompactString,
        record: Bytes,
        beginning: Beginning,
    ) -> Result<Tenant, StoreError> {
        let house = &self.house;
        let id = house.blocking({
            let name = name.clone();
            move |house| house.ledger.begin(&name)
        });
        let id = id.await?;
        let furnished = house.furnish(id, async |store, inside| beginning.fill(store, inside).await).await;
        let published = match furnished {
            Ok(()) => self.publish(id, &name, &record).await,
            Err(error) => Err(error),
        };
        match published {
            Ok(()) => Ok(Tenant { id, name, record }),
            Err(error) => {
                // What cannot be taken away now is at the next start.
                let _ = house.clear_away(id).await;
                Err(error)
            }
        }
    }

    async fn publish(&self, id: TenantId, name: &CompactString, record: &Bytes) -> Result<(), StoreError> {
        let _passed = self.pass().await?;
        let (name, record) = (name.clone(), record.clone());
        self.house.blocking(move |house| house.ledger.publish(id, &name, &record)).await
    }

    fn must_be_free(&self, name: &str) -> Result<(), StoreError> {
        if name.is_empty() {
            return Err(StoreError::Failed("a tenant must have a name".into()));
        }
        match self.house.ledger.named(name)? {
            Some(_) => Err(StoreError::TenantExists { name: name.into() }),
            None => Ok(()),
        }
    }
}

/// A watch uses a database for as long as it is there.
fn watching(room: Arc<Room>, watch: Watch) -> Watch {
    watch.map(move |told| told.map_err(|error| room.end_of(error))).boxed()
}

#[async_trait]
impl Store for Dedicated {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
        let answer = self.room(tenant).await?.store.get(tenant, key).await;
        self.answered(tenant, answer)
    }

    async fn range(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let answer = self.room(tenant).await?.store.range(tenant, scope, after, at, limit).await;
        self.answered(tenant, answer)
    }

    async fn range_within(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: Limit,
    ) -> Result<Page, StoreError> {
        let answer = self.room(tenant).await?.store.range_within(tenant, scope, after, at, limit).await;
        self.answered(tenant, answer)
    }

    async fn search(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: Limit,
        filter: &Filter,
    ) -> Result<Search, StoreError> {
        let answer = self.room(tenant).await?.store.search(tenant, scope, after, at, limit, filter).await;
        self.answered(tenant, answer)
    }

    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        let answer = self.room(tenant).await?.store.count(tenant, scope).await;
        self.answered(tenant, answer)
    }

    async fn write(&self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, StoreError> {
        let room = self.room(tenant).await?;
        let _passed = self.pass().await?;
        let answer = room.store.write(tenant, operations).await;
        self.answered(tenant, answer)
    }

    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError> {
        let answer = self.room(tenant).await?.store.revision(tenant).await;
        self.answered(tenant, answer)
    }

    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        let answer = self.room(tenant).await?.store.revision_at(tenant, moment).await;
        self.answered(tenant, answer)
    }

    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError> {
        let room = self.room(tenant).await?;
        let watch = self.answered(tenant, room.store.watch(tenant, scope, from).await)?;
        Ok(watching(room, watch))
    }

    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError> {
        let room = self.room(tenant).await?;
        let watch = self.answered(tenant, room.store.mirror(tenant, from).await)?;
        Ok(watching(room, watch))
    }

    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError> {
        let trail = &self.house.trail;
        let start = async || {
            let from = from.unwrap_or_else(|| trail.position());
            trail.readable(from).map(|()| from)
        };
        fanout::feed(&trail.hub, trail.clone(), Kinds::new(kinds), start).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        Ok(self.house.trail.position())
    }

    async fn create_tenant(&self, name: &str, record: Bytes, entries: Entries) -> Result<Tenant, StoreError> {
        self.must_be_free(name)?;
        if !entries.is_empty() {
            return self.make(name, record, Beginning::Entries(entries)).await;
        }
        let _passed = self.pass().await?;
        let name = CompactString::new(name);
        let entered = self.house.blocking(move |house: &House| {
            let id = house.ledger.enter(&name, &record)?;
            Ok(Tenant { id, name, record })
        });
        entered.await
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        self.house.ledger.named(name)
    }

    async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        Ok(self.house.ledger.by_id(id)?.map(|(tenant, _)| tenant))
    }

    async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        self.house.ledger.page(after, limit)
    }

    async fn update_tenant(&self, tenant: TenantId, record: Bytes) -> Result<(), StoreError> {
        let _passed = self.pass().await?;
        self.house.blocking(move |house| house.ledger.update(tenant, &record)).await
    }

    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError> {
        let _passed = self.pass().await?;
        let (id, known) = (tenant.id, tenant.record.clone());
        self.house.blocking(move |house| house.ledger.replace(id, &known, &record)).await
    }

    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        let passed = self.pass().await?;
        self.house.blocking(move |house| house.ledger.leave(tenant)).await?;
        drop(passed);
        let house = self.house.clone();
        let cleared = tokio::spawn(async move { house.clear_away(tenant).await }).await;
        if let Ok(Err(error)) = cleared {
            tracing::warn!(%error, %tenant, "a removed database stays until the next start");
        }
        Ok(())
    }

    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        let export = self.export_tenant(source, at).await?;
        self.import_tenant(name, record, export).await
    }

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError> {
        let room = self.room(tenant).await?;
        let export = self.answered(tenant, room.store.export_tenant(tenant, at).await)?;
        // So does an export.
        Ok(export.inspect(move |_| _ = &room).boxed())
    }

    async fn import_tenant(&self, name: &str, record: Bytes, export: Export) -> Result<Tenant, StoreError> {
        self.must_be_free(name)?;
        self.make(name, record, Beginning::Export(export)).await
    }

    async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        for room in self.house.open_rooms() {
            room.store.compact(retention).await?;
        }
        self.house.trail.compact(retention);
        Ok(())
    }

    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        let answer = self.room(tenant).await?.store.size(tenant).await;
        self.answered(tenant, answer)
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        Arc::new(Dedicated { house: self.house.clone(), fence: Some(Arc::new(fence)) })
    }

    async fn close(&self) {
        self.house.close().await;
    }
}
