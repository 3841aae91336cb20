//! What all parts of the store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use store::fanout::Hub;
use store::{StoreError, TenantId};
use tokio::sync::Notify;

use crate::about::About;
use crate::config::Options;
use crate::directory::Counter;
use crate::history::Marks;
use crate::keys::Keys;
use crate::link::{Fault, Link};
use crate::recent::Recent;
use crate::size::Sample;
use crate::transaction::get;
use crate::wire::{Txn, WatchCreate, unsigned};

pub(crate) struct Engine {
    pub link: Link,
    pub keys: Keys,
    pub options: Options,
    pub hub: Arc<Hub>,
    pub recent: Recent,
    pub marks: Mutex<Marks>,
    /// Tenants in use, at most [`TENANTS_IN_MEMORY`] of them.
    pub known: Cache<TenantId, Arc<About>>,
    pub samples: Cache<TenantId, Sample>,
    pub counter: Mutex<Counter>,
    /// There is something to remove.
    pub chores: Notify,
    /// Copies that this process began and did not finish.
    pub abandoned: Mutex<Vec<TenantId>>,
    /// History up to this revision is gone, as far as is known here.
    compacted: AtomicU64,
}

/// About 200 bytes each.
const TENANTS_IN_MEMORY: usize = 10_000;

impl Engine {
    pub(crate) fn new(link: Link, keys: Keys, options: Options) -> Engine {
        Engine {
            link,
            keys,
            hub: Hub::new(options.event_bytes),
            recent: Recent::new(options.event_bytes, 0),
            marks: Mutex::new(Marks::new(0)),
            known: Cache::new(TENANTS_IN_MEMORY),
            samples: Cache::new(TENANTS_IN_MEMORY),
            counter: Mutex::default(),
            chores: Notify::new(),
            abandoned: Mutex::default(),
            compacted: AtomicU64::new(0),
            options,
        }
    }

    /// Everything up to this revision is left to etcd's history.
    pub(crate) fn begin_at(&mut self, revision: u64) {
        self.recent = Recent::new(self.options.event_bytes, revision);
        self.marks = Mutex::new(Marks::new(revision));
    }

    /// etcd's revision, as most of its members know it.
    pub(crate) async fn now(&self) -> Result<u64, Fault> {
        Ok(self.link.read(Txn::read(vec![get(&self.keys.next())])).await?.revision)
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted.load(Ordering::Acquire)
    }

    pub(crate) fn note_compaction(&self, revision: u64) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    /// Asks etcd how much history is gone, once it has refused something for that reason: others may compact, too.
    /// A watch from the beginning is how it tells.
    pub(crate) async fn find_compaction(&self) -> Result<u64, StoreError> {
        let create = WatchCreate { key: self.keys.history(), start_revision: 1, ..WatchCreate::default() };
        let mut stream = self.link.watch(create).await?;
        let telling = async {
            while let Ok(Some(response)) = stream.message().await {
                if response.compact_revision > 0 {
                    return unsigned(response.compact_revision);
                }
                if !response.created {
                    break;
                }
            }
            0
        };
        let told = tokio::time::timeout(self.options.request_timeout, telling).await;
        self.note_compaction(told.map_err(|_| Fault::Away("etcd does not answer".into()))?);
        Ok(self.compacted())
    }
}
