//! The copy of what is read of one tenant, fed by one watch of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use compact_str::CompactString;
use futures::StreamExt;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::Registry;
use super::question::Question;
use super::shelf::Shelf;
use crate::{Delivery, Event, Revision, Store, StoreError, TenantId, WatchError};

/// Bytes of changes that may come while a shelf is being filled.
const CHANGES_WHILE_FILLING: usize = 16 << 20;
/// After the feed was waited for in vain, nobody waits for so long.
const LATE: Duration = Duration::from_secs(1);

pub(super) struct Mirror {
    pub(super) tenant: TenantId,
    question: Arc<Question>,
    state: RwLock<State>,
    /// The feed came further, or a shelf was filled.
    moved: Notify,
    feeding: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct State {
    /// All changes up to here have been applied; none before the feed begins.
    reached: Option<Revision>,
    ended: bool,
    late_until: Option<Instant>,
    slots: HashMap<CompactString, Slot>,
}

struct Slot {
    content: Content,
    /// By the registry's clock.
    used: AtomicU64,
}

enum Content {
    /// With what has changed since the filling began, and its bytes.
    Filling(Vec<Arc<Event>>, usize),
    Filled(Shelf),
    TooLarge,
}

/// What became of an attempt to fill a shelf.
pub(super) enum Filling {
    Whole(Shelf),
    TooLarge,
    Failed,
}

/// A shelf that could make room for others.
pub(super) struct Candidate {
    pub mirror: Arc<Mirror>,
    pub kind: CompactString,
    pub used: u64,
}

enum Look<T> {
    Seen(Option<T>),
    /// It is worth waiting for the feed, or for the filling.
    Behind,
    Filling,
    /// The engine has to be asked.
    Never,
}

impl Mirror {
    /// A mirror that begins to be fed.
    pub(super) fn start(engine: &Arc<dyn Store>, registry: &Arc<Registry>, tenant: TenantId) -> Arc<Mirror> {
        let mirror = Arc::new(Mirror {
            tenant,
            question: Question::new(engine.clone(), tenant, registry.counts.clone()),
            state: RwLock::default(),
            moved: Notify::new(),
            feeding: OnceLock::new(),
        });
        let feeding = feed(engine.clone(), Arc::downgrade(registry), Arc::downgrade(&mirror), tenant);
        let weak = Arc::downgrade(&mirror);
        let feeding = tokio::spawn(async move {
            let end = feeding.await;
            tracing::debug!(%tenant, ?end, "the copy of a tenant is not fed any more");
            if let Some(mirror) = weak.upgrade() {
                mirror.end();
            }
        });
        let _ = mirror.feeding.set(feeding.abort_handle());
        mirror
    }

    /// What `read` makes of the shelf, and of the revision it shows: one at or after that of every write acknowledged
    /// before the call. None if the engine has to be asked.
    pub(super) async fn read<T>(
        &self,
        kind: &str,
        registry: &Registry,
        read: impl Fn(&Shelf, Revision) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let before = self.reached();
        let head = self.question.ask().await?;
        if before.is_some_and(|before| head < before) {
            // The database was replaced by an older one; nothing that was copied can be trusted.
            self.end();
            return Ok(None);
        }
        let deadline = tokio::time::Instant::now() + registry.options.patience;
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            // Before looking, so that what comes while looking wakes.
            moved.as_mut().enable();
            let behind = match self.look(kind, head, registry, &read) {
                Look::Seen(seen) => return Ok(seen),
                Look::Never => return Ok(None),
                Look::Behind => true,
                Look::Filling => false,
            };
            if tokio::time::timeout_at(deadline, moved).await.is_err() {
                if behind {
                    self.state.write().late_until = Some(Instant::now() + LATE);
                }
                return Ok(None);
            }
        }
    }

    /// The same as of a revision that the engine has told: what was then does not change, and nothing has to be asked.
    pub(super) fn read_at<T>(
        &self,
        kind: &str,
        at: Revision,
        registry: &Registry,
        read: impl Fn(&Shelf, Revision) -> Option<T>,
    ) -> Option<T> {
        match self.look(kind, at, registry, &read) {
            Look::Seen(seen) => seen,
            Look::Behind | Look::Filling | Look::Never => None,
        }
    }

    fn look<T>(
        &self,
        kind: &str,
        head: Revision,
        registry: &Registry,
        read: impl Fn(&Shelf, Revision) -> Option<T>,
    ) -> Look<T> {
        let state = self.state.read();
        let Some(slot) = state.slots.get(kind) else { return Look::Never };
        match &slot.content {
            Content::TooLarge => Look::Never,
            Content::Filling(..) if registry.options.near => Look::Never,
            Content::Filling(..) => Look::Filling,
            Content::Filled(shelf) => {
                slot.used.store(registry.now(), Ordering::Relaxed);
                let shows = shelf.shows(state.reached.unwrap_or_default());
                if shows >= head {
                    return Look::Seen(read(shelf, shows));
                }
                let late = state.late_until.is_some_and(|until| Instant::now() < until);
                if late { Look::Never } else { Look::Behind }
            }
        }
    }

    fn reached(&self) -> Option<Revision> {
        self.state.read().reached
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.read().ended
    }

    pub(super) fn has(&self, kind: &str) -> bool {
        self.state.read().slots.contains_key(kind)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.read().slots.is_empty()
    }

    /// Whether the caller is the one to fill it.
    pub(super) fn begin_filling(&self, kind: &CompactString, now: u64) -> bool {
        let mut state = self.state.write();
        if state.ended || state.slots.contains_key(kind) {
            return false;
        }
        let content = Content::Filling(Vec::new(), 0);
        state.slots.insert(kind.clone(), Slot { content, used: AtomicU64::new(now) });
        true
    }

    /// Once the feed has begun: what is read from then on is of a revision from which on it tells all changes.
    pub(super) async fn fed(&self) -> bool {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            {
                let state = self.state.read();
                if state.ended || state.reached.is_some() {
                    return !state.ended;
                }
            }
            moved.await;
        }
    }

    pub(super) fn end_filling(&self, kind: &str, filling: Filling) {
        {
            let mut state = self.state.write();
            let Some(slot) = state.slots.get_mut(kind) else { return };
            let Content::Filling(changes, bytes) = &mut slot.content else { return };
            match filling {
                Filling::Whole(mut shelf) if *bytes <= CHANGES_WHILE_FILLING => {
                    changes.iter().for_each(|event| shelf.apply(event));
                    slot.content = Content::Filled(shelf);
                }
                Filling::TooLarge => slot.content = Content::TooLarge,
                Filling::Whole(_) | Filling::Failed => _ = state.slots.remove(kind),
            }
        }
        self.moved.notify_waiters();
    }

    /// Takes what whole transactions changed, after which everything up to `reached` has been taken.
    fn apply(&self, events: &mut Vec<Arc<Event>>, reached: Revision) {
        {
            let mut state = self.state.write();
            for event in events.drain(..) {
                let Some(slot) = state.slots.get_mut(&event.key.kind) else { continue };
                match &mut slot.content {
                    Content::Filled(shelf) => shelf.apply(&event),
                    Content::Filling(changes, bytes) => {
                        *bytes += event.value.len();
                        if *bytes <= CHANGES_WHILE_FILLING {
                            changes.push(event);
                        }
                    }
                    Content::TooLarge => {}
                }
            }
            state.reached = state.reached.max(Some(reached));
        }
        self.moved.notify_waiters();
    }

    /// Nothing is shown any more.
    fn end(&self) {
        {
            let mut state = self.state.write();
            state.ended = true;
            state.slots = HashMap::new();
        }
        if let Some(feeding) = self.feeding.get() {
            feeding.abort();
        }
        self.moved.notify_waiters();
    }

    /// Drops what was not used since `then`, and says how much that was.
    pub(super) fn forget_unused(&self, then: u64) -> u64 {
        let unused = |slot: &Slot| {
            slot.used.load(Ordering::Relaxed) < then && !matches!(slot.content, Content::Filling(..))
        };
        let mut state = self.state.write();
        state.slots.extract_if(|_, slot| unused(slot)).count() as u64
    }

    pub(super) fn candidates(self: &Arc<Self>, into: &mut Vec<Candidate>) {
        let state = self.state.read();
        for (kind, slot) in &state.slots {
            if let Content::Filled(_) = slot.content {
                let (mirror, used) = (self.clone(), slot.used.load(Ordering::Relaxed));
                into.push(Candidate { mirror, kind: kind.clone(), used });
            }
        }
    }

    /// Whether there was something to forget.
    pub(super) fn forget(&self, kind: &str) -> bool {
        self.state.write().slots.remove(kind).is_some()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(feeding) = self.feeding.get() {
            feeding.abort();
        }
    }
}

/// Feeds a mirror until the watch ends, or nobody has the mirror.
async fn feed(
    engine: Arc<dyn Store>,
    registry: Weak<Registry>,
    mirror: Weak<Mirror>,
    tenant: TenantId,
) -> Result<(), String> {
    let told = |error: StoreError| error.to_string();
    let from = engine.revision(tenant).await.map_err(told)?;
    let mut watch = engine.mirror(tenant, from).await.map_err(told)?;
    drop(engine);
    // The changes of one revision, until it is known that there are no more of it: a shelf never shows half of one.
    let mut revision = from;
    let mut changes = Vec::new();
    let Some(begun) = mirror.upgrade() else { return Ok(()) };
    begun.apply(&mut changes, from);
    drop(begun);
    while let Some(delivery) = watch.next().await {
        let delivery = delivery.map_err(|error: WatchError| error.to_string())?;
        let (Some(mirror), Some(registry)) = (mirror.upgrade(), registry.upgrade()) else { return Ok(()) };
        match delivery {
            Delivery::Event(event) => {
                if event.revision > revision {
                    mirror.apply(&mut changes, revision);
                    revision = event.revision;
                }
                changes.push(event);
            }
            Delivery::Progress(reached) => {
                mirror.apply(&mut changes, reached);
                revision = revision.max(reached);
            }
        }
        registry.make_room();
    }
    Ok(())
}
