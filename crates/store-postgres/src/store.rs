//! The interface, told in terms of the engine's parts; and how they are put together.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use compact_str::CompactString;
use futures::StreamExt;
use parking_lot::Mutex;
use store::codec::Bounds;
use store::export::{Encoder, Header};
use store::fanout::{self, Hub, Kinds, Telling};
use store::{
    Entry, Export, Feed, Fence, Key, Operation, Page, Position, Retention, Revision, Scope, Store,
    StoreError, Tenant, TenantId, Watch,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::address::{NOT_FOR_READS, Surroundings};
use crate::batch::Transaction;
use crate::chores::{self, Chores};
use crate::connection::{Bench, Connector, OpenError};
use crate::log::RemoteLog;
use crate::partitions::Partitions;
use crate::readers::Readers;
use crate::tail::{self, Tail};
use crate::writer::{Desk, Writer};
use crate::{address, compaction, schema, snapshot};

/// How a store on PostgreSQL is opened. The defaults suit a replica of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where all tables are. One database may hold several installations, each in a schema of its own.
    pub schema: String,
    /// What the address may leave out.
    pub surroundings: Surroundings,
    /// Connections for reads, at most, unless the address says how many there may be in all. A process has up to six
    /// more: it writes, listens, compacts, copies.
    pub connections: usize,
    /// Memory for events on their way to watches, all watches together.
    pub event_bytes: usize,
    pub retention: Retention,
    /// How often history beyond the retention is dropped.
    pub compaction_interval: Duration,
    /// How often an idle watch hears how far it is.
    pub progress_interval: Duration,
    /// How often is looked for what other replicas wrote and the database did not tell.
    pub poll_interval: Duration,
    /// How long a call waits for a database that is away before it says so.
    pub patience: Duration,
    /// Lines of history in one partition of the log: what is dropped at once.
    pub partition_lines: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            schema: "hangar".into(),
            surroundings: Surroundings::default(),
            connections: 6,
            event_bytes: 16 << 20,
            retention: Retention { age: Duration::from_secs(600), bytes: 256 << 20 },
            compaction_interval: Duration::from_secs(30),
            progress_interval: Duration::from_secs(10),
            poll_interval: Duration::from_secs(5),
            patience: Duration::from_secs(1),
            partition_lines: 50_000,
        }
    }
}

/// Copies of whole tenants under way at once, each with a connection of its own.
const COPIES: usize = 2;
/// Entries read at a time where a whole tenant passes through.
const PAGE: usize = 500;

/// A store in a PostgreSQL database.
#[derive(Clone)]
pub struct Postgres {
    connector: Arc<Connector>,
    readers: Arc<Readers>,
    bench: Arc<Bench>,
    partitions: Arc<Partitions>,
    writer: Arc<Writer>,
    tail: Tail,
    log: Arc<RemoteLog>,
    hub: Arc<Hub>,
    copies: Arc<Semaphore>,
    removal: Arc<Notify>,
    id: i64,
    /// What all changes made through this handle depend on.
    fence: Option<Arc<Fence>>,
    /// Where fenced changes of the directory are made.
    fenced: Arc<Bench>,
    life: Arc<Life>,
}

/// Shared by all handles; the store ends with the last of them, if it was not closed.
struct Life {
    hub: Arc<Hub>,
    writer: Arc<Writer>,
    stop: CancellationToken,
    running: Mutex<Option<Running>>,
}

/// What ends with the store.
struct Running {
    writing: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
}

impl Postgres {
    /// Opens the store in the database at `address`, a connection string as PostgreSQL's own clients take it, making
    /// or upgrading its schema if need be.
    pub async fn open(address: &str, options: Options) -> Result<Postgres, OpenError> {
        let surroundings = &options.surroundings;
        let address = address::parse_in(address, surroundings)?;
        let for_reads = address.connections.map_or(options.connections, |all| all - NOT_FOR_READS);
        let connector = Connector::new(address, surroundings, &options.schema, options.patience)?;
        let connector = Arc::new(connector);
        let explain = |fault| connector.explain_fault(fault);
        let connection = connector.first().await?;
        schema::migrate(&connector, &connection).await?;
        let partitions = Arc::new(Partitions::new(connector.clone(), options.partition_lines));
        partitions.make_on(&connection, 0).await.map_err(explain)?;
        drop(connection);
        let readers = Arc::new(Readers::new(connector.clone(), for_reads, options.patience));
        let (position, _) = snapshot::position(&readers).await.map_err(explain)?;

        let hub = Hub::new(options.event_bytes);
        let stop = CancellationToken::new();
        // Positive, so that it reads well where people meet it.
        let id = i64::try_from(rand::random::<u64>() >> 1).unwrap_or(1);
        let (tail, [listening, following]) = tail::start(tail::Setup {
            connector: connector.clone(),
            readers: readers.clone(),
            hub: hub.clone(),
            partitions: partitions.clone(),
            id,
            position,
            poll: options.poll_interval,
            stop: stop.clone(),
        });
        let desk = Desk::new(connector.clone(), tail.clone(), partitions.clone(), id, options.patience);
        let (writer, writing) = Writer::start(desk);
        let writer = Arc::new(writer);
        let bench = Arc::new(Bench::new(connector.clone()));
        let removal = Arc::new(Notify::new());
        let chores = Chores {
            readers: readers.clone(),
            bench: bench.clone(),
            partitions: partitions.clone(),
            schema: options.schema.clone(),
            retention: options.retention,
            interval: options.compaction_interval,
            removal: removal.clone(),
            stop: stop.clone(),
        };
        let beating = chores::beat(hub.clone(), options.progress_interval, stop.clone());
        let others = vec![listening, following, chores.start(), beating];
        Ok(Postgres {
            log: Arc::new(RemoteLog::new(readers.clone())),
            fence: None,
            fenced: Arc::new(Bench::new(connector.clone())),
            life: Arc::new(Life {
                hub: hub.clone(),
                writer: writer.clone(),
                stop,
                running: Mutex::new(Some(Running { writing, others })),
            }),
            connector,
            readers,
            bench,
            partitions,
            writer,
            tail,
            hub,
            copies: Arc::new(Semaphore::new(COPIES)),
            removal,
            id,
        })
    }

    /// The fan-out behind the watches, for what it can tell of its load.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    async fn watching(
        &self,
        tenant: TenantId,
        scope: Scope,
        from: Revision,
        telling: Telling,
    ) -> Result<Watch, StoreError> {
        Bounds::of(&scope)?;
        snapshot::point(&self.readers, tenant).await?.readable(from)?;
        Ok(fanout::watch(&self.hub, self.log.clone(), tenant, scope, from, telling))
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    pub(crate) fn shared_readers(&self) -> Arc<Readers> {
        self.readers.clone()
    }

    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    pub(crate) fn tail(&self) -> &Tail {
        &self.tail
    }

    pub(crate) fn copies(&self) -> &Semaphore {
        &self.copies
    }

    pub(crate) fn removal(&self) -> &Arc<Notify> {
        &self.removal
    }

    pub(crate) fn fence(&self) -> Option<&Fence> {
        self.fence.as_deref()
    }

    pub(crate) fn bench_of_fenced(&self) -> &Bench {
        &self.fenced
    }

    pub(crate) fn channel(&self) -> String {
        self.connector.channel()
    }

    pub(crate) fn id(&self) -> i64 {
        self.id
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // One that was not closed: watches must not wait for a store that is gone.
        self.hub.close();
        self.writer.close();
        self.stop.cancel();
    }
}

#[async_trait]
impl Store for Postgres {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError> {
        Ok(snapshot::get(&self.readers, tenant, key).await?)
    }

    async fn range(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        Ok(snapshot::range(&self.readers, tenant, scope, after, at, limit).await?.1)
    }

    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError> {
        Ok(match scope {
            Scope::All => snapshot::tally(&self.readers, tenant, None).await?.0,
            Scope::Kind(kind) => snapshot::tally(&self.readers, tenant, Some(kind)).await?.0,
            // Namespaces are small, and counts of each would be rows that every write touches.
            Scope::Namespace(..) | Scope::One(_) => snapshot::count(&self.readers, tenant, scope).await?,
        })
    }

    async fn write(&self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, StoreError> {
        self.writer.write(Transaction::new(tenant, operations, self.fence())?).await
    }

    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError> {
        Ok(snapshot::point(&self.readers, tenant).await?.revision)
    }

    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        Ok(Some(snapshot::revision_at(&self.readers, tenant, moment).await?))
    }

    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError> {
        self.watching(tenant, scope, from, Telling::OnBeats).await
    }

    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError> {
        self.watching(tenant, Scope::All, from, Telling::AtOnce).await
    }

    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError> {
        let start = async || {
            let (current, compacted) = snapshot::position(&self.readers).await?;
            let from = from.unwrap_or(current);
            let as_revision = |position: Position| Revision(position.0);
            if from < compacted {
                let (asked, oldest) = (as_revision(from), as_revision(compacted));
                return Err(StoreError::Compacted { asked, oldest });
            }
            if from > current {
                return Err(StoreError::Future { asked: as_revision(from), current: as_revision(current) });
            }
            Ok(from)
        };
        fanout::feed(&self.hub, self.log.clone(), Kinds::new(kinds), start).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        Ok(snapshot::position(&self.readers).await?.0)
    }

    async fn create_tenant(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError> {
        Ok(self.create(name, record, entries).await?)
    }

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        Ok(snapshot::tenant_named(&self.readers, name).await?)
    }

    async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        Ok(snapshot::tenant_by_id(&self.readers, id).await?)
    }

    async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError> {
        Ok(snapshot::tenants(&self.readers, after, limit).await?)
    }

    async fn update_tenant(&self, tenant: TenantId, record: Bytes) -> Result<(), StoreError> {
        Ok(self.update(tenant, record).await?)
    }

    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError> {
        Ok(self.replace(tenant, record).await?)
    }

    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        Ok(self.delete(tenant).await?)
    }

    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError> {
        Ok(self.fork(source, at, name, record).await?)
    }

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError> {
        let point = snapshot::point(&self.readers, tenant).await?;
        let at = at.unwrap_or(point.revision);
        point.readable(at)?;
        let header = Header { revision: at, latest: point.revision };
        let readers = self.readers.clone();
        // Page by page, all as of one revision: an export of any size takes the memory of a page. If compaction
        // overtakes it, it ends with that error.
        let start = Some((Encoder::new(), None::<Key>));
        Ok(futures::stream::try_unfold(start, move |state| {
            let readers = readers.clone();
            async move {
                let Some((mut encoder, after)) = state else { return Ok(None) };
                if after.is_none() {
                    encoder.header(&header);
                }
                let (_, page) =
                    snapshot::range(&readers, tenant, &Scope::All, after.as_ref(), Some(at), PAGE).await?;
                for entry in &page.entries {
                    encoder.entry(entry)?;
                }
                match page.entries.last() {
                    Some(last) if page.more => {
                        Ok(Some((encoder.take(), Some((encoder, Some(last.key.clone()))))))
                    }
                    _ => Ok(Some((encoder.finish(), None))),
                }
            }
        })
        .boxed())
    }

    async fn import_tenant(&self, name: &str, record: Bytes, export: Export) -> Result<Tenant, StoreError> {
        Ok(self.import(name, record, export).await?)
    }

    async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        let seat = self.bench.seat().await?;
        let done = compaction::compact(&seat.connection, &self.connector.schema, retention, true).await;
        Ok(seat.leave(done)?)
    }

    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        Ok(snapshot::tally(&self.readers, tenant, None).await?.1)
    }

    fn fenced(&self, fence: Fence) -> Arc<dyn Store> {
        Arc::new(Postgres { fence: Some(Arc::new(fence)), ..self.clone() })
    }

    async fn close(&self) {
        let running = self.life.running.lock().take();
        let Some(running) = running else { return };
        self.writer.close();
        let _ = running.writing.await;
        self.hub.close();
        self.life.stop.cancel();
        self.readers.close().await;
        self.bench.close().await;
        self.fenced.close().await;
        for task in running.others {
            let _ = task.await;
        }
    }
}
