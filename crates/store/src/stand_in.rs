//! Stores that stand for another, which may not be at hand, or not yet in the way that is needed.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use compact_str::CompactString;

use crate::{
    Entry, Export, Feed, Fence, Filter, Key, Limit, Operation, Page, Position, Retention, Revision, Scope,
    Search, Store, StoreError, Tenant, TenantId, Watch,
};

/// Finds the store that is stood for, or says why it cannot be used.
#[async_trait]
pub(crate) trait StandsFor: Send + Sync + 'static {
    /// For whatever changes nothing.
    async fn to_read(&self) -> Result<Arc<dyn Store>, StoreError>;

    async fn to_change(&self) -> Result<Arc<dyn Store>, StoreError>;

    fn fenced(&self, fence: Fence) -> Arc<dyn Store>;

    fn trouble(&self) -> Option<String>;

    async fn close(&self);
}

/// The interface, by whatever finds the store.
pub(crate) struct StandIn<S>(pub S);

#[async_trait]
impl<S: StandsFor> Store for StandIn<S> {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.0.to_read().await?.get(tenant, key).await
    }

    async fn range(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.0.to_read().await?.range(tenant, scope, after, at, limit).await
    }

    async fn range_within(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: Limit,
    ) -> Result<Page, StoreError> {
        self.0.to_read().await?.range_within(tenant, scope, after, at, limit).await
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
        self.0.to_read().await?.search(tenant, scope, after, at, limit, filter).await
    }

    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        self.0.to_read().await?.count(tenant, scope).await
    }

    async fn write(&self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, StoreError> {
        self.0.to_change().await?.write(tenant, operations).await
    }

    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError> {
        self.0.to_read().await?.revision(tenant).await
    }

    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        self.0.to_read().await?.revision_at(tenant, moment).await
    }

    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError> {
        self.0.to_read().await?.watch(tenant, scope, from).await
    }

    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError> {
        self.0.to_read().await?.mirror(tenant, from).await
    }

    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError> {
        self.0.to_read().await?.follow(kinds, from).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.0.to_read().await?.position().await
    }

    async fn create_tenant(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        self.0.to_change().await?.create_tenant(name, record, entries).await
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        self.0.to_read().await?.tenant(name).await
    }

    async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        self.0.to_read().await?.tenant_by_id(id).await
    }

    async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        self.0.to_read().await?.tenants(after, limit).await
    }

    async fn update_tenant(&self, tenant: TenantId, record: Bytes) -> Result<(), StoreError> {
        self.0.to_change().await?.update_tenant(tenant, record).await
    }

    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError> {
        self.0.to_change().await?.replace_record(tenant, record).await
    }

    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.0.to_change().await?.delete_tenant(tenant).await
    }

    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        self.0.to_change().await?.fork_tenant(source, at, name, record).await
    }

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError> {
        self.0.to_read().await?.export_tenant(tenant, at).await
    }

    async fn import_tenant(&self, name: &str, record: Bytes, export: Export) -> Result<Tenant, StoreError> {
        self.0.to_change().await?.import_tenant(name, record, export).await
    }

    async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        self.0.to_read().await?.compact(retention).await
    }

    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        self.0.to_read().await?.size(tenant).await
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        self.0.fenced(fence)
    }

    fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
