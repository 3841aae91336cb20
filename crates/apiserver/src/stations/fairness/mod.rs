//! A share for every control plane, and no more: a noisy one slows itself.
//!
//! [`pool`] runs heavy work, [`budget`] counts the bytes in flight.
//!
//! **Invariant:** a control plane has an entry here only while it has requests or watches open, or has lately
//! used up part of its rate; idle ones have none.

mod budget;
mod pool;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use objects::{Reason, Status};
use parking_lot::Mutex;
use store::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::call::Head;
use crate::control_plane::{ControlPlane, Quota};
use crate::route::Target;
use crate::service::Failure;

pub use budget::{Budget, Reservation};
pub use pool::{HEAVY, Placed, Pool};

/// A control plane of one of the stores of the process: ids of tenants are unique within a store only.
pub type Owner = (u32, TenantId);

/// The share of one control plane.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests being worked on at once, watches not counted.
    pub requests_in_flight: u32,
    /// Requests beyond those that wait for their turn, in order.
    pub requests_waiting: u32,
    pub watches: u32,
    /// Requests a second in the long run, and how many may come at once after a quiet time.
    pub requests_per_second: f64,
    pub burst: f64,
    /// Bytes of bodies, decoded values and answers in flight, of all control planes together.
    pub memory: usize,
    /// Processor cores that heavy work may use.
    pub cores: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // In flight as upstream's 400 reads and 200 writes; the rate is far above what a busy cluster asks.
        Limits {
            requests_in_flight: 600,
            requests_waiting: 10_000,
            watches: 20_000,
            requests_per_second: 20_000.0,
            burst: 40_000.0,
            // The process derives it from its memory limit; this is for whoever does not.
            memory: 1 << 30,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Limits {
    /// The smaller of the server's share and what the control plane was given.
    fn within(self, quota: &Quota) -> Limits {
        let rate = quota
            .requests_per_second
            .map_or(self.requests_per_second, |rate| rate.min(self.requests_per_second));
        Limits {
            watches: quota.watches.map_or(self.watches, |watches| watches.min(self.watches)),
            requests_per_second: rate,
            // Two seconds' worth, as in the server's own limits; whoever may ask at all may ask once.
            burst: if quota.requests_per_second.is_some() { (rate * 2.0).max(1.0) } else { self.burst },
            ..self
        }
    }
}

/// How long a request waits for its turn: as upstream, a quarter of what a request may take.
const PATIENCE: Duration = Duration::from_secs(15);

struct Share {
    /// Being worked on, or waiting for it.
    open: u32,
    watches: u32,
    turns: Arc<Semaphore>,
    tokens: f64,
    at: Instant,
    limits: Limits,
}

impl Share {
    /// Gains what has come in meanwhile.
    fn refill(&mut self, now: Instant) {
        let gained = now.duration_since(self.at).as_secs_f64() * self.limits.requests_per_second;
        self.tokens = (self.tokens + gained).min(self.limits.burst);
        self.at = now;
    }

    /// Whether nothing would be lost with it.
    fn is_idle(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.open == 0 && self.watches == 0 && self.tokens >= self.limits.burst
    }
}

/// Shares of a shard that are looked through for idle ones when there are more: those with a low rate stay for a while.
const CROWDED: usize = 256;

/// Shards keep threads of different control planes out of each other's way.
const SHARDS: usize = 16;

pub struct Fairness {
    limits: Limits,
    /// Which of the stores of the process this one is for.
    store: u32,
    shards: Arc<[Mutex<HashMap<TenantId, Share>>; SHARDS]>,
    process: Arc<Process>,
}

/// What all stores of the process share.
struct Process {
    pool: Arc<Pool>,
    budget: Arc<Budget>,
    stores: AtomicU32,
}

/// Room for one request; given back when dropped.
pub struct Seat {
    shards: Arc<[Mutex<HashMap<TenantId, Share>>; SHARDS]>,
    tenant: TenantId,
    watch: bool,
    /// Watches have none, and neither has whoever watches over the server.
    turn: Option<OwnedSemaphorePermit>,
}

fn too_many() -> Failure {
    Status::new(Reason::TooManyRequests, "Too many requests, please try again later.").retry_after(1).into()
}

fn shard(tenant: TenantId) -> usize {
    tenant.0 as usize % SHARDS
}

impl Fairness {
    pub fn new(limits: Limits) -> Self {
        let (pool, budget) = (Arc::new(Pool::new(limits.cores)), Budget::new(limits.memory));
        Fairness::of(limits, Arc::new(Process { pool, budget, stores: AtomicU32::new(0) }))
    }

    /// For a further store of the same process.
    #[must_use]
    pub fn beside(&self) -> Self {
        Fairness::of(self.limits, self.process.clone())
    }

    fn of(limits: Limits, process: Arc<Process>) -> Self {
        let store = process.stores.fetch_add(1, Ordering::Relaxed);
        let shards = Arc::new(std::array::from_fn(|_| Mutex::default()));
        Fairness { limits, store, shards, process }
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.process.pool
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.process.budget
    }

    /// Reserves bytes for a control plane; 429 if that would be more than its share.
    pub fn reserve(&self, tenant: TenantId, bytes: usize) -> Result<Reservation, Failure> {
        self.process.budget.reserve((self.store, tenant), bytes)
    }

    /// Runs a slice of heavy work on the pool, in the control plane's turn. A slice should take a few milliseconds at
    /// most. A slice that waits is cancelled by dropping the future.
    pub async fn run<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.process.pool.spawn((self.store, tenant), async move { work() })?.await)
    }

    /// The same for a future: each part between two awaits is a slice.
    pub async fn run_future<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.process.pool.spawn((self.store, tenant), work)?.await)
    }

    /// Begins a slice of heavy work within a request. What follows runs on the pool; other control planes get their turn
    /// first. To be awaited before each few hundred kilobytes of work.
    pub async fn slice(&self, tenant: TenantId) -> Result<(), Failure> {
        pool::slice(&self.process.pool, (self.store, tenant)).await
    }

    /// Room for this request, as soon as it is its turn; 429 if that would be too long.
    pub async fn admit(&self, plane: &ControlPlane, head: &Head, target: &Target) -> Result<Seat, Failure> {
        plane.asked.fetch_add(1, Ordering::Relaxed);
        // Whoever watches over the server must be heard when it is full.
        let exempt = matches!(target, Target::Path(path) if path.ends_with('z'));
        let watch = matches!(target, Target::Resource(_)) && head.wants_watch();
        let limits = self.limits.within(&plane.charter.quota);
        let (mut seat, turns) = self.enter(plane.id, limits, watch, exempt).ok_or_else(too_many)?;
        if !watch && !exempt {
            let turn = timeout(PATIENCE, turns.acquire_owned()).await;
            seat.turn = Some(turn.ok().and_then(Result::ok).ok_or_else(too_many)?);
        }
        Ok(seat)
    }

    /// Counts a request that comes in, unless there are too many; with what it waits for.
    fn enter(
        &self,
        tenant: TenantId,
        limits: Limits,
        watch: bool,
        exempt: bool,
    ) -> Option<(Seat, Arc<Semaphore>)> {
        let mut shares = self.shards[shard(tenant)].lock();
        let now = Instant::now();
        if shares.len() > CROWDED && !shares.contains_key(&tenant) {
            shares.retain(|_, share| !share.is_idle(now));
        }
        let share = shares.entry(tenant).or_insert_with(|| {
            let turns = Arc::new(Semaphore::new(limits.requests_in_flight as usize));
            Share { open: 0, watches: 0, turns, tokens: limits.burst, at: now, limits }
        });
        share.limits = limits;
        share.refill(now);
        let full = share.tokens < 1.0
            || (watch && share.watches >= limits.watches)
            || (!watch && share.open >= limits.requests_in_flight + limits.requests_waiting);
        if full && !exempt {
            return None;
        }
        share.tokens -= 1.0;
        if watch {
            share.watches += 1;
        } else {
            share.open += 1;
        }
        let turns = share.turns.clone();
        Some((Seat { shards: self.shards.clone(), tenant, watch, turn: None }, turns))
    }

    /// Requests and watches open in a control plane now.
    pub fn open(&self, tenant: TenantId) -> (u32, u32) {
        let shares = self.shards[shard(tenant)].lock();
        shares.get(&tenant).map_or((0, 0), |share| (share.open, share.watches))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut shares = self.shards[shard(self.tenant)].lock();
        let Some(share) = shares.get_mut(&self.tenant) else { return };
        if self.watch {
            share.watches -= 1;
        } else {
            share.open -= 1;
        }
        if share.is_idle(Instant::now()) {
            shares.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(7);

    fn fairness() -> (Fairness, Limits) {
        let limits = Limits { requests_in_flight: 1, requests_waiting: 1, ..Limits::default() };
        (Fairness::new(limits), limits)
    }

    #[test]
    fn who_finds_no_room_to_wait_is_sent_away() {
        let (fairness, limits) = fairness();
        let enter = |exempt| fairness.enter(TENANT, limits, false, exempt);
        let (first, second) = (enter(false).unwrap(), enter(false).unwrap());
        assert!(enter(false).is_none());
        assert!(enter(true).is_some(), "whoever watches over the server is heard");
        drop(second);
        assert!(enter(false).is_some());
        drop(first);
        assert_eq!(fairness.open(TENANT), (0, 0));
    }

    #[tokio::test]
    async fn a_turn_comes_when_another_one_ends() {
        let (fairness, limits) = fairness();
        let (mut first, turns) = fairness.enter(TENANT, limits, false, false).unwrap();
        first.turn = Some(turns.acquire_owned().await.unwrap());
        let (second, turns) = fairness.enter(TENANT, limits, false, false).unwrap();
        let mut turn = Box::pin(turns.acquire_owned());
        assert!(futures::poll!(&mut turn).is_pending());
        drop(first);
        assert!(turn.await.is_ok());
        drop(second);
        assert_eq!(fairness.open(TENANT), (0, 0));
    }
}
