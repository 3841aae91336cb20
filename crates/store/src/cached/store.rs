//! The interface: reads from memory if they can be, everything else as the engine does it.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use compact_str::CompactString;

use super::shelf::{Asked, Shelf};
use super::{Cached, count};
use crate::{
    Entry, Export, Feed, Fence, Filter, Key, Limit, Operation, Page, Position, Retention, Revision, Scope,
    Search, Store, StoreError, Tenant, TenantId, Watch, codec,
};

impl Cached {
    /// What `read` makes of a copy that shows the present, or a revision. None if the engine has to be asked.
    async fn remembered<T>(
        &self,
        tenant: TenantId,
        kind: &CompactString,
        keep: bool,
        at: Option<Revision>,
        read: impl Fn(&Shelf, Revision) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let found = match self.mirror(tenant, kind, keep) {
            Some(mirror) => match at {
                Some(at) => mirror.read_at(kind, at, &self.registry, read),
                None => mirror.read(kind, &self.registry, read).await?,
            },
            None => None,
        };
        let counts = &self.registry.counts;
        count(if found.is_some() { &counts.from_memory } else { &counts.from_engine });
        Ok(found)
    }
}

impl Cached {
    /// Whether a range is a reason to copy all of its type.
    fn is_worth_a_copy(&self, after: Option<&Key>, at: Option<Revision>) -> bool {
        !self.registry.options.near || (after.is_some() && at.is_some())
    }
}

/// The one type a scope is of. What no engine can hold is left to the engine to refuse.
fn kind_of(scope: &Scope) -> Option<&CompactString> {
    codec::Bounds::of(scope).ok()?;
    match scope {
        Scope::All => None,
        Scope::Kind(kind) | Scope::Namespace(kind, _) => Some(kind),
        Scope::One(key) => Some(&key.kind),
    }
}

#[async_trait]
impl Store for Cached {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
        // Single entries are no reason to copy all of their type.
        if !self.registry.options.near
            && codec::encode(key).is_ok()
            && let Some(found) =
                self.remembered(tenant, &key.kind, false, None, |shelf, _| Some(shelf.get(key))).await?
        {
            return Ok(found);
        }
        self.engine.get(tenant, key).await
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
        let asked = Asked { scope, after, limit };
        let page = |shelf: &Shelf, shows: Revision| {
            let revision = at.unwrap_or(shows);
            (revision <= shows && shelf.showed(revision)).then(|| shelf.page(&asked, revision))
        };
        if let Some(kind) = kind_of(scope)
            && after.is_none_or(|after| codec::encode(after).is_ok())
            && let Some(page) =
                self.remembered(tenant, kind, self.is_worth_a_copy(after, at), at, page).await?
        {
            return Ok(page);
        }
        self.engine.range_within(tenant, scope, after, at, limit).await
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
        let asked = Asked { scope, after, limit };
        let found = |shelf: &Shelf, shows: Revision| {
            let revision = at.unwrap_or(shows);
            (revision <= shows && shelf.showed(revision)).then(|| shelf.search(&asked, revision, &**filter))
        };
        if let Some(kind) = kind_of(scope)
            && after.is_none_or(|after| codec::encode(after).is_ok())
            && let Some(found) =
                self.remembered(tenant, kind, self.is_worth_a_copy(after, at), at, found).await?
        {
            return Ok(found);
        }
        self.engine.search(tenant, scope, after, at, limit, filter).await
    }

    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        if let Some(kind) = kind_of(scope)
            && !self.registry.options.near
            && let Some(count) =
                self.remembered(tenant, kind, false, None, |shelf, _| Some(shelf.count(scope))).await?
        {
            return Ok(count);
        }
        self.engine.count(tenant, scope).await
    }

    async fn write(&self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, StoreError> {
        self.engine.write(tenant, operations).await
    }

    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError> {
        self.engine.revision(tenant).await
    }

    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        self.engine.revision_at(tenant, moment).await
    }

    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError> {
        self.engine.watch(tenant, scope, from).await
    }

    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError> {
        self.engine.mirror(tenant, from).await
    }

    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError> {
        self.engine.follow(kinds, from).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.engine.position().await
    }

    async fn create_tenant(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        self.engine.create_tenant(name, record, entries).await
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        self.engine.tenant(name).await
    }

    async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        self.engine.tenant_by_id(id).await
    }

    async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        self.engine.tenants(after, limit).await
    }

    async fn update_tenant(&self, tenant: TenantId, record: Bytes) -> Result<(), StoreError> {
        self.engine.update_tenant(tenant, record).await
    }

    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError> {
        self.engine.replace_record(tenant, record).await
    }

    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.engine.delete_tenant(tenant).await
    }

    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        self.engine.fork_tenant(source, at, name, record).await
    }

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError> {
        self.engine.export_tenant(tenant, at).await
    }

    async fn import_tenant(&self, name: &str, record: Bytes, export: Export) -> Result<Tenant, StoreError> {
        self.engine.import_tenant(name, record, export).await
    }

    async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        self.engine.compact(retention).await
    }

    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        self.engine.size(tenant).await
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        let engine = self.engine.fenced(fence);
        Arc::new(Cached { engine, registry: self.registry.clone(), life: self.life.clone() })
    }

    fn trouble(&self) -> Option<String> {
        self.engine.trouble()
    }

    async fn close(&self) {
        self.life.end();
        self.engine.close().await;
    }
}
