//! A store whose reads are answered from memory where that is worth it: for engines that are a network away, and for large types
//! of any engine that are listed again and again.
//!
//! What is read of a tenant more than once is copied ([`mirror`]), a type at a time ([`shelf`]), and fed by one watch
//! of the tenant. A read first asks the engine for the tenant's revision, which is one small question for all reads
//! that came before it was sent ([`question`]), and waits until the copy has come so far: so it shows every write that
//! any replica had acknowledged before, as the engine would. When the copy cannot show that soon, the engine is asked.
//!
//! Copies of all tenants share one bound of bytes ([`room`]); what was not read for a while is dropped. A tenant that
//! nobody reads has nothing here: no watch, no task, no entry.

mod mirror;
mod question;
mod room;
mod shelf;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use compact_str::CompactString;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use self::mirror::{Filling, Mirror};
use self::room::Room;
use self::shelf::Shelf;
use crate::{Limit, Scope, Store, StoreError, TenantId};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory for all copies together.
    pub bytes: usize,
    /// What was not read for so long is dropped.
    pub idle: Duration,
    /// How long a read waits for a copy before it asks the engine.
    pub patience: Duration,
    /// How often ranges of a type are asked for before it is copied: who passes once leaves nothing behind.
    pub passes: u32,
    /// The engine is in this process: only what is read in many pages is copied, of which those after the first count as
    /// passes. Single entries and counts are read from the engine.
    pub near: bool,
}

impl Options {
    /// For an engine in this process: only large types that are listed again and again are worth a copy.
    pub fn near() -> Options {
        Options { bytes: 64 << 20, passes: 16, near: true, ..Options::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            bytes: 256 << 20,
            idle: Duration::from_secs(300),
            patience: Duration::from_millis(100),
            passes: 1,
            near: false,
        }
    }
}

/// Types that were asked for and are not copied yet, at most; beyond that all are forgotten.
const ASKED: usize = 10_000;
/// Types that are read from the engine at the same time.
const FILLINGS: usize = 2;
/// Entries read at a time.
const PAGE: Limit = Limit { entries: 1_000, bytes: 1 << 20 };

/// A store over another, whose reads it answers from copies in memory.
pub struct Cached {
    engine: Arc<dyn Store>,
    registry: Arc<Registry>,
    life: Arc<Life>,
}

/// Shared by all handles; the copies end with the last of them.
struct Life {
    registry: Arc<Registry>,
    sweeping: AbortHandle,
}

impl Life {
    fn end(&self) {
        self.sweeping.abort();
        self.registry.mirrors.lock().clear();
    }
}

impl Cached {
    /// To be called within a runtime.
    pub fn new(engine: Arc<dyn Store>, options: Options) -> Cached {
        let registry = Arc::new(Registry {
            room: Room::new(options.bytes),
            options,
            began: Instant::now(),
            mirrors: Mutex::default(),
            asked: Mutex::default(),
            fillings: Semaphore::new(FILLINGS),
            counts: Arc::default(),
        });
        let sweeping = tokio::spawn(sweep(registry.clone())).abort_handle();
        let life = Arc::new(Life { registry: registry.clone(), sweeping });
        Cached { engine, registry, life }
    }

    /// What tests and metrics look at.
    pub fn load(&self) -> Load {
        let told = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let registry = &self.registry;
        Load {
            tenants: registry.mirrors.lock().len(),
            bytes: registry.room.taken(),
            from_memory: told(&registry.counts.from_memory),
            from_engine: told(&registry.counts.from_engine),
            questions: told(&registry.counts.questions),
            evictions: told(&registry.counts.evictions),
        }
    }

    /// The mirror that has, or will soon have, a copy of a type. With `keep`, one is made when it is asked for often.
    fn mirror(&self, tenant: TenantId, kind: &CompactString, keep: bool) -> Option<Arc<Mirror>> {
        let registry = &self.registry;
        let mut mirrors = registry.mirrors.lock();
        if mirrors.get(&tenant).is_some_and(|mirror| mirror.has_ended()) {
            mirrors.remove(&tenant);
        }
        if let Some(mirror) = mirrors.get(&tenant).filter(|mirror| mirror.has(kind)) {
            return Some(mirror.clone());
        }
        if !keep || !registry.is_asked_for_often(tenant, kind) {
            return None;
        }
        let mirror =
            mirrors.entry(tenant).or_insert_with(|| Mirror::start(&self.engine, registry, tenant)).clone();
        if mirror.begin_filling(kind, registry.now()) {
            let (engine, registry, mirror) = (self.engine.clone(), registry.clone(), mirror.clone());
            let kind = kind.clone();
            tokio::spawn(async move {
                let filling = registry.fill(&*engine, &mirror, &kind).await;
                mirror.end_filling(&kind, filling.unwrap_or(Filling::Failed));
                registry.make_room();
            });
        }
        Some(mirror)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end();
    }
}

/// What there is in memory, and what it was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Tenants of which something is copied, and the bytes of all copies.
    pub tenants: usize,
    pub bytes: usize,
    /// Reads answered by a copy, and by the engine; and how often the engine was asked for a revision.
    pub from_memory: u64,
    pub from_engine: u64,
    pub questions: u64,
    /// Types of tenants that were dropped, to make room or because nobody read them.
    pub evictions: u64,
}

#[derive(Default)]
struct Counts {
    from_memory: AtomicU64,
    from_engine: AtomicU64,
    questions: AtomicU64,
    evictions: AtomicU64,
}

fn count(one: &AtomicU64) {
    one.fetch_add(1, Ordering::Relaxed);
}

/// All copies.
struct Registry {
    options: Options,
    room: Arc<Room>,
    began: Instant,
    mirrors: Mutex<HashMap<TenantId, Arc<Mirror>>>,
    /// How often, and when last, what is not copied was asked for.
    asked: Mutex<HashMap<(TenantId, CompactString), (u32, u64)>>,
    fillings: Semaphore,
    counts: Arc<Counts>,
}

impl Registry {
    /// Milliseconds of a clock of its own.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn idle_since(&self) -> u64 {
        self.now().saturating_sub(u64::try_from(self.options.idle.as_millis()).unwrap_or(u64::MAX))
    }

    fn is_asked_for_often(&self, tenant: TenantId, kind: &CompactString) -> bool {
        let mut asked = self.asked.lock();
        if asked.len() >= ASKED {
            asked.clear();
        }
        let (times, last) = asked.entry((tenant, kind.clone())).or_default();
        *times += 1;
        *last = self.now();
        *times > self.options.passes
    }

    /// Reads a type whole, at one revision.
    async fn fill(
        &self,
        engine: &dyn Store,
        mirror: &Mirror,
        kind: &CompactString,
    ) -> Result<Filling, StoreError> {
        let Ok(_turn) = self.fillings.acquire().await else { return Ok(Filling::Failed) };
        if !mirror.fed().await {
            return Ok(Filling::Failed);
        }
        let scope = Scope::Kind(kind.clone());
        let mut shelf = Shelf::new(kind.clone(), self.room.clone());
        let mut page = engine.range_within(mirror.tenant, &scope, None, None, PAGE).await?;
        let revision = page.revision;
        loop {
            for entry in &page.entries {
                shelf.put(&entry.key, entry.created, entry.modified, &entry.value);
            }
            // One type may not push out all others.
            if shelf.bytes() > self.room.limit() / 2 {
                return Ok(Filling::TooLarge);
            }
            self.make_room();
            let Some(last) = page.entries.pop().filter(|_| page.more) else { break };
            page = engine.range_within(mirror.tenant, &scope, Some(&last.key), Some(revision), PAGE).await?;
        }
        shelf.filled_at(revision);
        Ok(Filling::Whole(shelf))
    }

    /// Drops what was not used for longest, until there is room again and some to spare.
    fn make_room(&self) {
        if !self.room.is_crowded() {
            return;
        }
        let mut candidates = Vec::new();
        let mirrors: Vec<_> = self.mirrors.lock().values().cloned().collect();
        mirrors.iter().for_each(|mirror| mirror.candidates(&mut candidates));
        candidates.sort_by_key(|candidate| candidate.used);
        for candidate in candidates {
            if self.room.taken() <= self.room.limit() / 10 * 9 {
                break;
            }
            if candidate.mirror.forget(&candidate.kind) {
                count(&self.counts.evictions);
            }
        }
        self.drop_empty();
    }

    fn drop_empty(&self) {
        self.mirrors.lock().retain(|_, mirror| !mirror.is_empty());
    }
}

/// Drops what is not used, from time to time.
async fn sweep(registry: Arc<Registry>) {
    let mut ticks = tokio::time::interval(registry.options.idle / 4);
    loop {
        ticks.tick().await;
        let then = registry.idle_since();
        let mirrors: Vec<_> = registry.mirrors.lock().values().cloned().collect();
        let forgotten: u64 = mirrors.iter().map(|mirror| mirror.forget_unused(then)).sum();
        registry.counts.evictions.fetch_add(forgotten, Ordering::Relaxed);
        registry.drop_empty();
        registry.asked.lock().retain(|_, (_, last)| *last >= then);
    }
}
