//! The interface every engine implements, and the values that cross it.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use compact_str::CompactString;
use futures::Stream;

/// A tenant for as long as it lives. Never used again: a tenant created anew under an old name gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(pub u64);

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in the history of one tenant. Only grows; every committed transaction has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in the history of all tenants together: where a reader of [`Store::follow`] stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Where an object is within its tenant. No part may contain a NUL byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// What is stored here, such as `deployments.apps`. Types that begin with `_` are the server's own.
    pub kind: CompactString,
    /// Empty for what is in no namespace.
    pub namespace: CompactString,
    pub name: CompactString,
}

impl Key {
    pub fn new(
        kind: impl Into<CompactString>,
        namespace: impl Into<CompactString>,
        name: impl Into<CompactString>,
    ) -> Self {
        Key { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// A set of keys of one tenant that lie together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything the tenant has.
    All,
    /// All of a type, in the order of (namespace, name).
    Kind(CompactString),
    /// All of a type in one namespace, in the order of names.
    Namespace(CompactString, CompactString),
    One(Key),
}

impl Scope {
    pub fn contains(&self, key: &Key) -> bool {
        match self {
            Scope::All => true,
            Scope::Kind(kind) => key.kind == *kind,
            Scope::Namespace(kind, namespace) => key.kind == *kind && key.namespace == *namespace,
            Scope::One(one) => key == one,
        }
    }
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    /// The revision that made the key, and the one that wrote this value.
    pub created: Revision,
    pub modified: Revision,
    pub value: Bytes,
}

/// What must hold of a key for a transaction to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything, or nothing, may be there.
    Any,
    Absent,
    Present,
    /// The value there is the one this revision wrote.
    Modified(Revision),
}

/// One step of a transaction. All checks are made before any step is taken.
#[derive(Clone, Debug)]
pub enum Operation {
    Put { key: Key, expect: Expect, value: Bytes },
    Delete { key: Key, expect: Expect },
    Check { key: Key, expect: Expect },
}

/// A key that stands as it was written for as long as nobody else has taken what it stands for, such as a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub tenant: TenantId,
    pub key: Key,
    /// The revision that wrote it.
    pub modified: Revision,
}

/// How much one page may hold. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub entries: usize,
    /// Bytes of values. The entry that reaches it is the last of the page, so a page of any range that has one holds at
    /// least one entry.
    pub bytes: usize,
}

/// One page of a range, as of one revision.
#[derive(Clone, Debug)]
pub struct Page {
    /// The revision the page was read at: the one asked for, or the tenant's current one.
    pub revision: Revision,
    pub entries: Vec<Entry>,
    /// Whether keys of the scope follow the last entry.
    pub more: bool,
    /// How many follow, where the engine knows without much work.
    pub remaining: Option<u64>,
}

/// Says of a value whether it may be wanted.
pub type Filter = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What [`Store::search`] found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The entries that were found; `more` and `remaining` are of all entries that follow those looked at.
    pub page: Page,
    /// The last entry that was looked at: where the next search goes on.
    pub looked_at: Option<Key>,
}

/// Entries that are read before their size is known.
const FIRST_LOOK: usize = 32;

impl Page {
    /// Bytes of all values.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.value.len()).sum()
    }

    /// The first part of the page: up to the entry whose value reaches this number of bytes.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Page {
        let mut taken = 0;
        let last = self.entries.iter().position(|entry| {
            taken += entry.value.len();
            bytes > 0 && taken >= bytes
        });
        let kept = last.map_or(self.entries.len(), |last| last + 1);
        let dropped = self.entries.len() - kept;
        if dropped > 0 {
            self.entries.truncate(kept);
            self.more = true;
            self.remaining = self.remaining.map(|remaining| remaining + dropped as u64);
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key was not there before.
    Created,
    Updated,
    /// `value` is the last one; `revision` is that of the deletion.
    Deleted,
}

/// One change of one key. Shared by every watcher that sees it.
pub struct Event {
    pub tenant: TenantId,
    pub key: Key,
    pub change: Change,
    /// The revision of the change: what a watch resumes after.
    pub revision: Revision,
    /// The revision that made the key.
    pub created: Revision,
    pub value: Bytes,
    /// The value this change replaced: present for `Updated`.
    pub previous: Option<Bytes>,
    /// Where the change stands in the history of all tenants.
    pub position: Position,
    /// Room for what the layer above derives from the event once for all watchers, such as its encoding.
    pub derived: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets: say what changed, not to what.
        write!(f, "{:?} {:?} of tenant {} at {}", self.change, self.key, self.tenant, self.revision)
    }
}

/// What a watch delivers.
#[derive(Clone, Debug)]
pub enum Delivery {
    Event(Arc<Event>),
    /// Everything up to here has been delivered. Sent once the watch has caught up with the present, and then
    /// from time to time while nothing happens (about every ten seconds), for bookmarks.
    Progress(Revision),
}

/// A stream of deliveries. Ends with an error and nothing after it; dropping it costs nothing later.
///
/// A watch holds no queue that grows: a slow watcher reads on from the log at its own pace, and is cut with
/// [`WatchError::Compacted`] when the log has moved past it.
pub type Watch = Pin<Box<dyn Stream<Item = Result<Delivery, WatchError>> + Send>>;

/// A stream of all tenants' events, in the order of their positions.
pub type Feed = Pin<Box<dyn Stream<Item = Result<Arc<Event>, WatchError>> + Send>>;

/// A tenant's row in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub id: TenantId,
    pub name: CompactString,
    /// The layer above's own: never looked into here.
    pub record: Bytes,
}

/// How much history is kept. Compaction drops what is beyond both bounds of age, or beyond the size.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// History younger than this is kept, so that watches can resume.
    pub age: std::time::Duration,
    /// More bytes of history than this are not kept, however young.
    pub bytes: u64,
}

#[derive(thiserror::Error, Debug)]
pub enum StoreError {
    #[error("no such tenant")]
    NoTenant,
    #[error("tenant {name:?} already exists")]
    TenantExists { name: CompactString },
    /// The history asked for has been compacted; `oldest` can still be read.
    #[error("revision {asked} has been compacted; the oldest kept is {oldest}")]
    Compacted { asked: Revision, oldest: Revision },
    /// The revision asked for has not happened yet.
    #[error("revision {asked} is in the future; the current one is {current}")]
    Future { asked: Revision, current: Revision },
    /// An expectation of a transaction did not hold; nothing was written.
    #[error("{key:?} is not as expected")]
    Conflict { key: Key, current: Option<Box<Entry>> },
    /// The fence of this handle stands no more; nothing was written, and nothing ever will be through it.
    #[error("the lease that this is written under has been taken by another")]
    Fenced,
    /// What is stored has been altered by something else than the engine: the answer would be wrong. `key` is the
    /// entry, where one can be named; all others can still be read.
    #[error("{} is damaged: {why}", stored_object(key.as_deref()))]
    Damaged { key: Option<Box<Key>>, why: String },
    #[error("the export is damaged: {0}")]
    BadExport(String),
    /// More at once than the engine takes, now and later; nothing was written.
    #[error("{0}")]
    TooLarge(String),
    /// The engine cannot be reached or written; nothing is known to have been lost, and the same call may
    /// succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    #[error("the store failed: {0}")]
    Failed(String),
}

/// How an error names an entry.
fn stored_object(key: Option<&Key>) -> String {
    match key {
        None => "the database".into(),
        Some(Key { kind, namespace, name }) if namespace.is_empty() => format!("the stored {kind} {name:?}"),
        Some(Key { kind, namespace, name }) => {
            format!("the stored {kind} {:?}", format!("{namespace}/{name}"))
        }
    }
}

impl StoreError {
    /// What every engine answers once it is closed.
    pub fn closed() -> StoreError {
        StoreError::Unavailable("the store is closed".into())
    }
}

#[derive(thiserror::Error, Debug, Clone, PartialEq, Eq)]
pub enum WatchError {
    #[error("the history after revision {after} has been compacted")]
    Compacted { after: Revision },
    #[error("the tenant was deleted")]
    TenantDeleted,
    #[error("the store is closing")]
    Closed,
    #[error("the store failed: {0}")]
    Failed(String),
}

/// Chunks of a tenant's export. The format is the same for every engine, versioned and checksummed.
pub type Export = Pin<Box<dyn Stream<Item = Result<Bytes, StoreError>> + Send>>;

/// A durable, multi-tenant, multi-version map with watches.
///
/// Promises, tested by the conformance suite on every engine:
/// an acknowledged write is durable, and every later read and every watch sees it;
/// writes of a tenant are linearizable; a range is a snapshot; a watch delivers each change exactly once and
/// in order, also across restarts; no operation on a tenant touches another.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    async fn get(&self, tenant: TenantId, key: &Key) -> Result<Option<Entry>, StoreError>;

    /// Entries of `scope` in key order, those after `after` only, at most `limit` (0 is no limit), as of `at`
    /// or of now.
    async fn range(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Page, StoreError>;

    /// The same for a reader that can hold a limited number of bytes.
    ///
    /// An engine that does not know the size of values before it reads them reads a few and then as many as should fit.
    async fn range_within(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: Limit,
    ) -> Result<Page, StoreError> {
        if limit.bytes == 0 {
            return self.range(tenant, scope, after, at, limit.entries).await;
        }
        let most = if limit.entries == 0 { usize::MAX } else { limit.entries };
        let mut page = self.range(tenant, scope, after, at, most.min(FIRST_LOOK)).await?;
        loop {
            let (count, bytes) = (page.entries.len(), page.bytes());
            let Some(last) = page.entries.last().filter(|_| page.more && count < most && bytes < limit.bytes)
            else {
                return Ok(page.within(limit.bytes));
            };
            // As many as fit if they are as large as those before, but not many more than those tell of.
            let fitting = (limit.bytes - bytes) / (bytes / count).max(1) + 1;
            let wanted = fitting.min(4 * count).min(most - count);
            let next =
                self.range(tenant, scope, Some(&last.key.clone()), Some(page.revision), wanted).await?;
            page.entries.extend(next.entries);
            (page.more, page.remaining) = (next.more, next.remaining);
        }
    }

    /// The same for a reader that wants few of the entries. `limit.entries` bounds those looked at, `limit.bytes` the values
    /// found. Entries that the filter does not want may be left out: an engine that can look at values where they lie
    /// need not copy them.
    async fn search(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Option<&Key>,
        at: Option<Revision>,
        limit: Limit,
        filter: &Filter,
    ) -> Result<Search, StoreError> {
        let _ = filter;
        let page = self.range_within(tenant, scope, after, at, limit).await?;
        let looked_at = page.entries.last().map(|entry| entry.key.clone());
        Ok(Search { page, looked_at })
    }

    /// How many keys a scope has now.
    async fn count(&self, tenant: TenantId, scope: &Scope) -> Result<u64, StoreError>;

    /// All or nothing, durable when it returns. A transaction that changes nothing (an empty one, one of checks only,
    /// a deletion of what is not there) takes no revision and returns the current one. A key may be changed once.
    async fn write(&self, tenant: TenantId, operations: Vec<Operation>) -> Result<Revision, StoreError>;

    /// The tenant's current revision: at least that of every write acknowledged before the call.
    async fn revision(&self, tenant: TenantId) -> Result<Revision, StoreError>;

    /// The revision that was the tenant's current one at a moment, for as long as history tells
    /// ([`StoreError::Compacted`] after that). None from an engine that keeps no times.
    async fn revision_at(
        &self,
        tenant: TenantId,
        moment: std::time::SystemTime,
    ) -> Result<Option<Revision>, StoreError> {
        let _ = (tenant, moment);
        Ok(None)
    }

    /// Changes of `scope` after `from`, for as long as the tenant and the server live. From 0 is from the beginning,
    /// which is [`StoreError::Compacted`] once the beginning is; from beyond the present is [`StoreError::Future`].
    async fn watch(&self, tenant: TenantId, scope: Scope, from: Revision) -> Result<Watch, StoreError>;

    /// A watch of all that the tenant has, for who keeps a copy of it: progress is told whenever there is some, as soon
    /// as all of a revision has been delivered.
    async fn mirror(&self, tenant: TenantId, from: Revision) -> Result<Watch, StoreError>;

    /// Changes of these types in all tenants after `from`, or from now on. With no type named: of all types but the
    /// server's own, those that begin with `_`.
    ///
    /// Making a tenant with its first entries, deleting, forking and importing one need not emit an event per key: whoever
    /// follows looks at a new tenant once, and forgets a deleted one. Changes of a tenant that has been deleted since
    /// may be left out.
    ///
    /// Positions in errors ([`StoreError::Compacted`], [`StoreError::Future`], [`WatchError::Compacted`]) stand
    /// where revisions do.
    async fn follow(&self, kinds: Vec<CompactString>, from: Option<Position>) -> Result<Feed, StoreError>;

    /// Where [`Store::follow`] would begin now.
    async fn position(&self) -> Result<Position, StoreError>;

    /// Makes a tenant with its first entries, all at its first revision, in one durable step.
    async fn create_tenant(
        &self,
        name: &str,
        record: Bytes,
        entries: Vec<(Key, Bytes)>,
    ) -> Result<Tenant, StoreError>;

    async fn tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError>;

    /// The tenant that an event of a feed is of, while it is there.
    async fn tenant_by_id(&self, id: TenantId) -> Result<Option<Tenant>, StoreError>;

    /// Tenants in the order of their names, those after `after` only, at most `limit`.
    async fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, StoreError>;

    async fn update_tenant(&self, tenant: TenantId, record: Bytes) -> Result<(), StoreError>;

    /// The same if the record is still the one that was read. False, and nothing written, if it is another one.
    async fn replace_record(&self, tenant: &Tenant, record: Bytes) -> Result<bool, StoreError>;

    /// The tenant is gone when this returns, for readers and watchers; its bytes go in the background.
    async fn delete_tenant(&self, tenant: TenantId) -> Result<(), StoreError>;

    /// A new tenant with everything the source has (or had at `at`). Its history begins there, and its revision is
    /// the source's at that point. Takes about the same time whatever the source holds.
    ///
    /// An engine on a server with revisions of its own (etcd) copies in time by the size of the source, and numbers
    /// the copy anew, beyond the source.
    async fn fork_tenant(
        &self,
        source: TenantId,
        at: Option<Revision>,
        name: &str,
        record: Bytes,
    ) -> Result<Tenant, StoreError>;

    async fn export_tenant(&self, tenant: TenantId, at: Option<Revision>) -> Result<Export, StoreError>;

    /// A new tenant from an export. Its revision is beyond any the exported tenant had served. An export that is not
    /// whole makes nothing ([`StoreError::BadExport`]).
    async fn import_tenant(&self, name: &str, record: Bytes, export: Export) -> Result<Tenant, StoreError>;

    /// Drops history beyond the retention. Also done by the engine itself from time to time.
    async fn compact(&self, retention: Retention) -> Result<(), StoreError>;

    /// Bytes a tenant takes, about: what quotas and `top` show.
    async fn size(&self, tenant: TenantId) -> Result<u64, StoreError>;

    /// The same store for whoever holds what a fence stands for: every change made through the handle, of objects and
    /// of the directory alike, commits only if the fence stands at that moment ([`StoreError::Fenced`] if not). What
    /// takes several steps is judged when it would be seen. Reading is not judged, nor is anybody else's handle.
    ///
    /// Changes through the handle wait for writes to the fence's tenant and those wait for them, so that a tenant of
    /// its own for each fence is best.
    fn fenced(&self, fence: Fence) -> Arc<dyn Store>;

    /// What does not work although the store answers, such as writing while the disk is full. For `/readyz`; the engine
    /// itself logs when it begins and when it ends.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Stops the engine, for all handles: pending writes are finished, watches end with [`WatchError::Closed`].
    async fn close(&self);
}

/// The row of the directory under which the server keeps something of its own, made if it is not there; its name
/// begins with `_`. Several processes may ask at once.
pub async fn own_tenant(store: &dyn Store, name: &str) -> Result<TenantId, StoreError> {
    if let Some(found) = store.tenant(name).await? {
        return Ok(found.id);
    }
    match store.create_tenant(name, Bytes::new(), Vec::new()).await {
        Ok(made) => Ok(made.id),
        // Another process was quicker.
        Err(StoreError::TenantExists { .. }) => {
            store.tenant(name).await?.map(|found| found.id).ok_or(StoreError::NoTenant)
        }
        Err(error) => Err(error),
    }
}
