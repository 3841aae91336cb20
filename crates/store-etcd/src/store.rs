//! The interface, told in terms of the parts.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use compact_str::CompactString;
use store::fanout::{self, Kinds, Telling};
use store::{
    Entry, Export, Feed, Fence, Key, Operation, Page, Position, Retention, Revision, Scope, Store,
    StoreError, Tenant, TenantId, Watch,
};

use crate::Etcd;
use crate::recent::{next_revision, position_after};

impl Etcd {
    async fn watching(
        &self,
        tenant: TenantId,
        scope: Scope,
        from: Revision,
        telling: Telling,
    ) -> Result<Watch, StoreError> {
        let engine = &self.engine;
        engine.keys.scope(tenant, &scope)?;
        let about = engine.about(tenant).await?;
        let head = engine.read_head(&about).await?;
        let current = about.revision(head);
        if from > current {
            return Err(StoreError::Future { asked: from, current });
        }
        // Before its beginning a tenant had nothing; what was copied into it came from nowhere.
        let etcds = match from {
            Revision(0) if !about.copied => Some(about.birth.saturating_sub(1)),
            from => about.etcds(from),
        };
        let Some(etcds) = etcds else { return Err(engine.never_was(&about, from).await) };
        if etcds != head && etcds < engine.compacted() {
            engine.same_state(&about, etcds).await?;
        }
        // Not by the tenant's numbering, which has nothing before the beginning.
        let from = Revision(etcds.saturating_add(about.offset()));
        Ok(fanout::watch(&engine.hub, self.log.clone(), tenant, scope, from, telling))
    }
}

#[async_trait]
impl Store for Etcd {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
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
        self.engine.range(tenant, scope, after, at, limit).await
    }

    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        self.engine.count(tenant, scope).await
    }

    async fn write(&self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, StoreError> {
        self.engine.write(self.fence(), tenant, operations).await
    }

    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError> {
        let about = self.engine.about(tenant).await?;
        Ok(about.revision(self.engine.read_head(&about).await?))
    }

    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        self.engine.revision_at(tenant, moment).await.map(Some)
    }

    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError> {
        self.watching(tenant, scope, from, Telling::OnBeats).await
    }

    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError> {
        self.watching(tenant, Scope::All, from, Telling::AtOnce).await
    }

    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError> {
        let start = async || {
            let current = self.position().await?;
            let from = from.unwrap_or(current);
            if next_revision(from) <= self.engine.compacted() {
                let oldest = Revision(position_after(self.engine.compacted()).0);
                return Err(StoreError::Compacted { asked: Revision(from.0), oldest });
            }
            if from > current {
                return Err(StoreError::Future { asked: Revision(from.0), current: Revision(current.0) });
            }
            Ok(from)
        };
        fanout::feed(&self.engine.hub, self.log.clone(), Kinds::new(kinds), start).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        Ok(position_after(self.engine.now().await?))
    }

    async fn create_tenant(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        self.engine.create(self.fence(), name, record, entries).await
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
        self.engine.update(self.fence(), tenant, record).await
    }

    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError> {
        self.engine.replace(self.fence(), tenant, record).await
    }

    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.engine.delete(self.fence(), tenant).await
    }

    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        self.engine.fork(self.fence(), source, at, name, record).await
    }

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError> {
        self.engine.export(tenant, at).await
    }

    async fn import_tenant(&self, name: &str, record: Bytes, export: Export) -> Result<Tenant, StoreError> {
        self.engine.import(self.fence(), name, record, export).await
    }

    async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        self.engine.compact(retention).await
    }

    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        self.engine.size(tenant).await
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        Arc::new(Etcd { fence: Some(Arc::new(fence)), ..self.clone() })
    }

    async fn close(&self) {
        // Calls that are under way come to their end; later ones are refused.
        self.life.stop();
    }
}
