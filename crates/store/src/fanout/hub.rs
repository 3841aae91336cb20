//! The channels, and the memory they share.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use compact_str::CompactString;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Event, Revision, Scope, TenantId};

/// Told of all that is published.
pub(crate) type Relay = Box<dyn Fn(&[Arc<Event>]) + Send + Sync>;

/// Where commits are published and watches are woken.
pub struct Hub {
    state: Mutex<State>,
    relay: Option<Relay>,
    /// How often watches have been woken to tell progress: one clock for all.
    beats: AtomicU64,
    closed: AtomicBool,
    limit: usize,
}

#[derive(Default)]
struct State {
    /// Only tenants that are watched.
    tenants: HashMap<TenantId, Watched>,
    /// All events, while somebody follows all tenants.
    feed: Option<Arc<Channel>>,
    /// Every event that is in some channel, oldest first.
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    /// How many of them were there at the last beat.
    aged: usize,
}

struct Watched {
    tenant: Arc<TenantState>,
    /// By type; the empty one is that of watches of all types.
    channels: HashMap<CompactString, Arc<Channel>>,
}

const ALL_KINDS: &str = "";

#[derive(Default)]
pub(super) struct TenantState {
    /// The last revision published, or 0 if none was since the tenant is watched.
    revision: AtomicU64,
    deleted: AtomicBool,
}

#[derive(Default)]
pub(super) struct Channel {
    queue: Mutex<Queue>,
    pub(super) wake: Notify,
}

#[derive(Default)]
struct Queue {
    /// The number of the first event still here; numbers begin at 0 when the channel is made.
    first: u64,
    events: VecDeque<Arc<Event>>,
    subscribers: usize,
    /// A publication is under way that will wake the subscribers at its end.
    waking: bool,
}

/// What a watch finds in its channel.
pub(super) enum Found {
    Events,
    Nothing,
    /// What comes next has left the channel already: read the log.
    Behind,
}

/// Taken at once from a channel, so that a burst costs one lock for many events.
const AT_ONCE: usize = 64;

/// What an event keeps in memory, about.
pub(crate) fn weight(event: &Event) -> usize {
    event.value.len() + event.previous.as_ref().map_or(0, |previous| previous.len()) + 256
}

impl Hub {
    /// `limit` is how many bytes of events all channels keep together.
    pub fn new(limit: usize) -> Arc<Hub> {
        Hub::with_relay(limit, None)
    }

    /// One that also tells somebody else of every commit, before whoever waits for it is answered.
    pub(crate) fn with_relay(limit: usize, relay: Option<Relay>) -> Arc<Hub> {
        Arc::new(Hub {
            state: Mutex::default(),
            relay,
            beats: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            limit,
        })
    }

    /// Called by the one who commits, in the order of commits, after each commit.
    pub fn publish(&self, events: &[Arc<Event>], revisions: &[(TenantId, Revision)], deleted: &[TenantId]) {
        if let Some(relay) = &self.relay {
            relay(events);
        }
        let mut to_wake = Vec::new();
        {
            let mut state = self.state.lock();
            let state = &mut *state;
            for event in events {
                let watched = state.tenants.get(&event.tenant);
                let by_kind = watched.and_then(|watched| watched.channels.get(event.key.kind.as_str()));
                let by_tenant = watched.and_then(|watched| watched.channels.get(ALL_KINDS));
                let mut kept = false;
                for channel in [state.feed.as_ref(), by_kind, by_tenant].into_iter().flatten() {
                    kept = true;
                    let mut queue = channel.queue.lock();
                    queue.events.push_back(event.clone());
                    if !std::mem::replace(&mut queue.waking, true) {
                        to_wake.push(channel.clone());
                    }
                }
                if kept {
                    state.ring_bytes += weight(event);
                    state.ring.push_back(event.clone());
                }
            }
            // After the events: whoever sees the revision finds the events in its channel.
            for (tenant, revision) in revisions {
                if let Some(watched) = state.tenants.get(tenant) {
                    watched.tenant.revision.fetch_max(revision.0, Ordering::Release);
                }
            }
            for watched in deleted.iter().filter_map(|tenant| state.tenants.get(tenant)) {
                watched.tenant.deleted.store(true, Ordering::Release);
                to_wake.extend(watched.channels.values().cloned());
            }
            state.evict(self.limit);
        }
        for channel in to_wake {
            channel.queue.lock().waking = false;
            channel.wake.notify_waiters();
        }
    }

    /// From now on every watch ends once it has delivered what it has.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Lets watches that have nothing to tell tell that. To be called every few seconds.
    ///
    /// What was there at the last beat goes: who has not seen it by now reads it from the log, and a server that was busy
    /// does not keep what it was busy with.
    pub fn beat(&self) {
        // A few at a time: who commits waits for this lock.
        loop {
            let mut state = self.state.lock();
            for _ in 0..state.aged.min(AT_ONCE) {
                state.evict_oldest();
            }
            if state.aged == 0 {
                state.aged = state.ring.len();
                // Room for many more than there usually are is memory, too.
                let room = 2 * state.aged;
                state.ring.shrink_to(room);
                break;
            }
        }
        self.beats.fetch_add(1, Ordering::Release);
        self.wake_all();
    }

    /// Events may have passed that were not published: every watch reads on from the log. For engines that learn of
    /// commits by a connection, which may be lost for longer than what it missed is kept.
    pub fn forget(&self) {
        {
            let mut state = self.state.lock();
            state.forget_ring();
            let channels = state.tenants.values().flat_map(|watched| watched.channels.values());
            for channel in channels.chain(&state.feed) {
                let mut queue = channel.queue.lock();
                // One more than there were: also those who have read all of them are behind.
                queue.first += queue.events.len() as u64 + 1;
                queue.events.clear();
            }
        }
        self.wake_all();
    }

    fn wake_all(&self) {
        let state = self.state.lock();
        let channels = state.tenants.values().flat_map(|watched| watched.channels.values());
        let channels: Vec<_> = channels.chain(&state.feed).cloned().collect();
        drop(state);
        channels.iter().for_each(|channel| channel.wake.notify_waiters());
    }

    /// How many channels exist, and how many bytes of events they hold: what tests and metrics look at.
    pub fn load(&self) -> (usize, usize) {
        let state = self.state.lock();
        let channels: usize = state.tenants.values().map(|watched| watched.channels.len()).sum();
        (channels + usize::from(state.feed.is_some()), state.ring_bytes)
    }

    pub(super) fn subscribe(self: &Arc<Self>, tenant: TenantId, scope: &Scope) -> Subscription {
        let kind = match scope {
            Scope::All => CompactString::new(ALL_KINDS),
            Scope::Kind(kind) | Scope::Namespace(kind, _) => kind.clone(),
            Scope::One(key) => key.kind.clone(),
        };
        let mut state = self.state.lock();
        let watched = state
            .tenants
            .entry(tenant)
            .or_insert_with(|| Watched { tenant: Arc::default(), channels: HashMap::new() });
        let channel = watched.channels.entry(kind.clone()).or_default().clone();
        let tenant_state = watched.tenant.clone();
        Subscription::new(self, channel, Some((tenant, kind, tenant_state)))
    }

    pub(super) fn subscribe_to_all(self: &Arc<Self>) -> Subscription {
        let mut state = self.state.lock();
        let channel = state.feed.get_or_insert_default().clone();
        Subscription::new(self, channel, None)
    }

    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl State {
    fn forget_ring(&mut self) {
        (self.ring, self.ring_bytes, self.aged) = (VecDeque::new(), 0, 0);
    }

    fn evict(&mut self, limit: usize) {
        while self.ring_bytes > limit && !self.ring.is_empty() {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        let Some(event) = self.ring.pop_front() else { return };
        self.aged = self.aged.saturating_sub(1);
        self.ring_bytes = self.ring_bytes.saturating_sub(weight(&event));
        let watched = self.tenants.get(&event.tenant);
        let by_kind = watched.and_then(|watched| watched.channels.get(event.key.kind.as_str()));
        let by_tenant = watched.and_then(|watched| watched.channels.get(ALL_KINDS));
        for channel in [self.feed.as_ref(), by_kind, by_tenant].into_iter().flatten() {
            let mut queue = channel.queue.lock();
            // A channel made after the event was published does not have it.
            if queue.events.front().is_some_and(|front| Arc::ptr_eq(front, &event)) {
                queue.events.pop_front();
                queue.first += 1;
                if queue.events.is_empty() {
                    queue.events.shrink_to(AT_ONCE);
                }
            }
        }
    }
}

/// A watch's place in a channel. Dropping it leaves nothing behind.
pub(super) struct Subscription {
    hub: Arc<Hub>,
    pub(super) channel: Arc<Channel>,
    tenant: Option<(TenantId, CompactString, Arc<TenantState>)>,
    next: u64,
}

impl Subscription {
    /// With the hub's state locked by the caller, so that no event is between the channel's making and this.
    fn new(
        hub: &Arc<Hub>,
        channel: Arc<Channel>,
        tenant: Option<(TenantId, CompactString, Arc<TenantState>)>,
    ) -> Subscription {
        let next = {
            let mut queue = channel.queue.lock();
            queue.subscribers += 1;
            queue.first + queue.events.len() as u64
        };
        Subscription { hub: hub.clone(), channel, tenant, next }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Goes to the channel's end: what is there now is to be read from the log.
    pub(super) fn skip(&mut self) {
        let queue = self.channel.queue.lock();
        self.next = queue.first + queue.events.len() as u64;
    }

    /// Hands over what is new.
    pub(super) fn take(&mut self, each: impl FnMut(&Arc<Event>)) -> Found {
        let queue = self.channel.queue.lock();
        let Some(from) = self.next.checked_sub(queue.first) else { return Found::Behind };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let count = queue.events.len().saturating_sub(from).min(AT_ONCE);
        if count == 0 {
            return Found::Nothing;
        }
        queue.events.range(from..from + count).for_each(each);
        self.next += count as u64;
        Found::Events
    }

    /// The tenant's last published revision.
    pub(super) fn revision(&self) -> Revision {
        Revision(self.tenant.as_ref().map_or(0, |(_, _, tenant)| tenant.revision.load(Ordering::Acquire)))
    }

    pub(super) fn tenant_deleted(&self) -> bool {
        self.tenant.as_ref().is_some_and(|(_, _, tenant)| tenant.deleted.load(Ordering::Acquire))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        {
            let mut queue = self.channel.queue.lock();
            queue.subscribers -= 1;
            if queue.subscribers > 0 {
                return;
            }
        }
        match &self.tenant {
            None => state.feed = None,
            Some((tenant, kind, _)) => {
                if let Some(watched) = state.tenants.get_mut(tenant) {
                    watched.channels.remove(kind);
                    if watched.channels.is_empty() {
                        state.tenants.remove(tenant);
                    }
                }
            }
        }
        if state.tenants.is_empty() && state.feed.is_none() {
            // Nobody can ask for them any more.
            state.forget_ring();
        }
    }
}
