//! The store as seen from above: how long each operation takes, and how often it fails. Whatever engine it is.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use objects::CompactString;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use store::{
    Entry, Export, Feed, Fence, Filter, Key, Limit, Page, Position, Retention, Revision, Scope, Search,
    Store, StoreError, Tenant, TenantId, Watch,
};

use super::count_of;
use super::histogram::Histogram;
use super::outage::Outage;

#[derive(Clone, Copy)]
enum Operation {
    Get,
    Range,
    Count,
    Write,
    Revision,
    Watch,
    Follow,
    Directory,
    CreateTenant,
    DeleteTenant,
    CopyTenant,
    Compact,
}

impl Operation {
    fn writes(self) -> bool {
        use Operation::*;
        matches!(self, Write | CreateTenant | DeleteTenant | CopyTenant | Compact)
    }
}

const NAMES: [&str; 12] = [
    "get",
    "range",
    "count",
    "write",
    "revision",
    "watch",
    "follow",
    "directory",
    "create_tenant",
    "delete_tenant",
    "copy_tenant",
    "compact",
];

#[derive(Debug, Default)]
struct Series {
    duration: Histogram,
    failures: AtomicU64,
}

#[derive(Debug, Default)]
pub struct Operations {
    series: [Series; NAMES.len()],
    /// Transactions whose expectations did not hold: retried above, and no fault of the store.
    conflicts: AtomicU64,
    /// The stores of the process: few, and named in its configuration.
    stores: Mutex<Vec<Named>>,
}

struct Named {
    name: String,
    store: Weak<dyn Store>,
    outage: Arc<Outage>,
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What does not work of a store although it answers.
fn trouble(store: &dyn Store, outage: &Outage) -> Option<String> {
    store.trouble().or_else(|| outage.damage())
}

impl Operations {
    fn done<T>(&self, operation: Operation, began: Instant, result: &Result<T, StoreError>) {
        let series = &self.series[operation as usize];
        series.duration.observe(began.elapsed());
        match result {
            Err(StoreError::Conflict { .. }) => _ = self.conflicts.fetch_add(1, Ordering::Relaxed),
            Err(
                StoreError::Unavailable(_)
                | StoreError::Failed(_)
                | StoreError::Damaged { .. }
                | StoreError::BadExport(_),
            ) => {
                series.failures.fetch_add(1, Ordering::Relaxed);
            }
            // Asking for what is not there, or not any more, is an answer.
            Ok(_) | Err(_) => {}
        }
    }
}

impl Collector for Operations {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let used = || NAMES.iter().zip(&self.series).filter(|(_, series)| !series.duration.is_empty());
        let help = "Time of operations of the store, in seconds";
        let name = "hangar_store_operation_duration_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (name, series) in used() {
            series.duration.encode(&mut metric, &[("operation", *name)])?;
        }
        let help = "Operations that the store failed at";
        let mut metric =
            encoder.encode_descriptor("hangar_store_failures", help, None, MetricType::Counter)?;
        for (name, series) in used() {
            count_of(&mut metric, &[("operation", *name)], series.failures.load(Ordering::Relaxed))?;
        }
        let help = "Whether a store is well: 0 while nothing can be written, and after damage was met";
        let mut metric = encoder.encode_descriptor("hangar_store_healthy", help, None, MetricType::Gauge)?;
        for Named { name, store, outage } in &*self.stores.lock() {
            let Some(store) = store.upgrade() else { continue };
            let healthy = i64::from(trouble(&*store, outage).is_none());
            metric.encode_family(&[("store", name.as_str())])?.encode_gauge(&healthy)?;
        }
        let help = "Transactions not committed because an object was not as expected";
        let metric = encoder.encode_descriptor("hangar_store_conflicts", help, None, MetricType::Counter)?;
        super::count(metric, &self.conflicts.load(Ordering::Relaxed))
    }
}

/// A store whose operations are counted.
pub struct Measured {
    inner: Arc<dyn Store>,
    operations: Arc<Operations>,
    /// Of this store: another one of the process may be there all the while.
    outage: Arc<Outage>,
}

impl Measured {
    /// `name` is what the store is called.
    pub fn new(name: &str, inner: Arc<dyn Store>, operations: Arc<Operations>) -> Self {
        let outage = Arc::new(Outage::of(name));
        let named = Named { name: name.to_owned(), store: Arc::downgrade(&inner), outage: outage.clone() };
        operations.stores.lock().push(named);
        Measured { inner, operations, outage }
    }
}

/// Does something with the store within, and counts it.
macro_rules! measured {
    ($self:ident, $operation:ident, $call:expr) => {{
        let began = Instant::now();
        let result = $call.await;
        $self.operations.done(Operation::$operation, began, &result);
        // What the engine knows of itself it logs by itself, once; deletions on a full disk are no end of it.
        if !matches!(&result, Err(StoreError::Unavailable(_))) || $self.inner.trouble().is_none() {
            $self.outage.heard(Operation::$operation.writes(), &result);
        }
        result
    }};
}

#[async_trait]
impl Store for Measured {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
        measured!(self, Get, self.inner.get(tenant, key))
    }

    async fn range(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        measured!(self, Range, self.inner.range(tenant, scope, after, at, limit))
    }

    async fn range_within(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: Limit,
    ) -> Result<Page, StoreError> {
        measured!(self, Range, self.inner.range_within(tenant, scope, after, at, limit))
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
        measured!(self, Range, self.inner.search(tenant, scope, after, at, limit, filter))
    }

    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        measured!(self, Count, self.inner.count(tenant, scope))
    }

    async fn write(
        &self,
        tenant: TenantId,
        operations: Vec<store::Operation>,
    ) -> Result<Revision, StoreError> {
        measured!(self, Write, self.inner.write(tenant, operations))
    }

    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError> {
        measured!(self, Revision, self.inner.revision(tenant))
    }

    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: std::time::SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        measured!(self, Revision, self.inner.revision_at(tenant, moment))
    }

    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError> {
        measured!(self, Watch, self.inner.watch(tenant, scope, from))
    }

    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError> {
        measured!(self, Watch, self.inner.mirror(tenant, from))
    }

    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError> {
        measured!(self, Follow, self.inner.follow(kinds, from))
    }

    async fn position(&self) -> Result<Position, StoreError> {
        measured!(self, Revision, self.inner.position())
    }

    async fn create_tenant(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        measured!(self, CreateTenant, self.inner.create_tenant(name, record, entries))
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        measured!(self, Directory, self.inner.tenant(name))
    }

    async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        measured!(self, Directory, self.inner.tenant_by_id(id))
    }

    async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        measured!(self, Directory, self.inner.tenants(after, limit))
    }

    async fn update_tenant(&self, tenant: TenantId, record: Bytes) -> Result<(), StoreError> {
        measured!(self, Directory, self.inner.update_tenant(tenant, record))
    }

    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError> {
        measured!(self, Directory, self.inner.replace_record(tenant, record))
    }

    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        measured!(self, DeleteTenant, self.inner.delete_tenant(tenant))
    }

    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        measured!(self, CopyTenant, self.inner.fork_tenant(source, at, name, record))
    }

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError> {
        measured!(self, CopyTenant, self.inner.export_tenant(tenant, at))
    }

    async fn import_tenant(&self, name: &str, record: Bytes, export: Export) -> Result<Tenant, StoreError> {
        measured!(self, CopyTenant, self.inner.import_tenant(name, record, export))
    }

    async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        measured!(self, Compact, self.inner.compact(retention))
    }

    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        measured!(self, Count, self.inner.size(tenant))
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        let (operations, outage) = (self.operations.clone(), self.outage.clone());
        Arc::new(Measured { inner: self.inner.fenced(fence), operations, outage })
    }

    fn trouble(&self) -> Option<String> {
        trouble(&*self.inner, &self.outage)
    }

    async fn close(&self) {
        self.outage.close();
        self.inner.close().await;
    }
}
