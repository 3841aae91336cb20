//! A share for every control plane, and within it one for every user: a noisy one slows itself.
//!
//! [`seats`] counts requests, [`pool`] runs heavy work, [`budget`] counts the bytes in flight, and [`sending`] holds a
//! request's share until the last byte of its answer has been sent.
//!
//! **Invariant:** a control plane has an entry here only while it has requests or watches open, or has lately
//! used up part of its rate; idle ones have none.

mod budget;
mod flow_control;
mod pool;
mod seats;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use auth::user::UserInfo;
use objects::{Reason, Status};
use parking_lot::Mutex;
use store::TenantId;
use tokio::time::timeout;

use crate::call::Head;
use crate::control_plane::{ControlPlane, Quota};
use crate::route::{Action, Target};
use crate::service::Failure;
use seats::{Class, Levels, Turn};

pub use budget::{Budget, Reservation};
pub use flow_control::{FLOW_KINDS, FlowControl, Marks};
pub use pool::{HEAVY, Placed, Pool};
pub use sending::Sending;

/// A user of a control plane, as a number.
pub type Flow = u64;

/// A control plane of one of the stores of the process: ids of tenants are unique within a store only.
pub type Owner = (u32, TenantId);

/// The share of one control plane.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests being worked on at once, watches not counted; administrators have as many of their own.
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

/// Seats of administrators, so that nobody of less power shuts them out.
const ADMINISTRATORS: seats::LevelId = 0;
/// Seats of all others.
const EVERYBODY: seats::LevelId = 1;

/// A control plane with more requests in flight for each core does its work on the pool, where others get their turn.
const MANY_PER_CORE: usize = 32;

/// One in so many watches, and requests of the rate, is kept for administrators.
const KEPT_WATCHES: u32 = 16;
const KEPT_BURST: f64 = 8.0;

/// How a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    flow: Flow,
    /// Health checks, and the server's own controllers: they take no seat and are never refused.
    exempt: bool,
    administrator: bool,
    watch: bool,
    /// Lasts for as long as the client wants it to.
    long_running: bool,
    /// The control plane's own priority level that it is in.
    level: Option<flow_control::Level>,
    /// Seats of its level; none if these are all of the control plane's.
    seats: Option<u32>,
}

impl Kind {
    /// Returns true if the control plane's flow schemas decide where the request waits. Administrators are in a level of
    /// their own, as upstream's are exempt.
    pub fn is_classified(&self) -> bool {
        !self.exempt && !self.administrator
    }

    fn class(&self, limits: &Limits) -> Class {
        let all = limits.requests_in_flight;
        let (level, seats, queue) = match self.level {
            _ if self.administrator => (ADMINISTRATORS, all, limits.requests_waiting),
            // Nobody takes more than a control plane has: exempt is who has seats of the administrators.
            Some(level) if level.exempt => (ADMINISTRATORS, all, limits.requests_waiting),
            Some(level) => (level.id, self.seats.unwrap_or(all), level.queue.min(limits.requests_waiting)),
            None => (EVERYBODY, self.seats.unwrap_or(all), limits.requests_waiting),
        };
        Class { level, flow: self.flow, seats, queue, shared: queue > 0, patience: PATIENCE }
    }

    /// Returns true if the request has to end within [`REQUEST_TIMEOUT`].
    pub fn is_timed(&self) -> bool {
        !self.long_running && !self.exempt
    }
}

/// As upstream: what a request may take that is no watch and no stream to a container.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Subresources whose requests last for as long as the client wants them to, as upstream.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

struct Share {
    /// Being worked on, or waiting for it.
    open: u32,
    watches: u32,
    levels: Levels,
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
    /// Makes flows of users; nobody outside can find two users with the same.
    flows: RandomState,
    stores: AtomicU32,
}

/// Room for one request; given back when dropped.
pub struct Seat {
    shards: Arc<[Mutex<HashMap<TenantId, Share>>; SHARDS]>,
    tenant: TenantId,
    kind: Kind,
    /// None of those that are exempt, and of watches.
    class: Option<Class>,
    seated: bool,
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
        Fairness::of(
            limits,
            Arc::new(Process { pool, budget, flows: RandomState::new(), stores: AtomicU32::new(0) }),
        )
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
        self.run_future(tenant, async move { work() }).await
    }

    /// The same for a future: each part between two awaits is a slice.
    pub async fn run_future<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        let (pool, owner) = (&self.process.pool, (self.store, tenant));
        pool.check_room(owner)?;
        Ok(pool.spawn(owner, work).await)
    }

    /// Begins a slice of heavy work within a request. What follows runs on the pool; other control planes get their turn
    /// first. To be awaited before each few hundred kilobytes of work.
    pub async fn slice(&self, tenant: TenantId) -> Result<(), Failure> {
        pool::slice(&self.process.pool, (self.store, tenant)).await
    }

    /// The answer to a request, which holds its share until it has been sent.
    pub fn sending(&self, seat: Arc<Seat>) -> Sending {
        Sending::new(self.process.pool.clone(), (self.store, seat.tenant), seat)
    }

    /// How a request is to be counted: by what is asked and who asks.
    pub fn kind(&self, head: &Head, target: &Target, user: &UserInfo) -> Kind {
        let flow = self.process.flows.hash_one(&user.name);
        let is_internal = head.door.identity.is_some() && head.door.remote.is_none();
        let (watch, long_running) = match target {
            Target::Resource(target) => {
                let action = Action::of(&head.method, target, head.wants_watch());
                let watch = action == Some(Action::Watch);
                (watch, watch || LONG_RUNNING.contains(&target.subresource.as_str()))
            }
            // Extensions send archives; what they serve belongs to the process.
            Target::Path(path) => (false, path.starts_with(crate::extension::PREFIX)),
        };
        let exempt = is_internal || target.is_health();
        let administrator = user.is_master();
        Kind { flow, exempt, administrator, watch, long_running, level: None, seats: None }
    }

    /// Finds the control plane's own priority level for a request. Returns what the answer tells of it.
    pub fn classify(
        &self,
        kind: &mut Kind,
        flow_control: &FlowControl,
        head: &Head,
        target: &Target,
        user: &UserInfo,
    ) -> Option<Marks> {
        if flow_control.is_empty() {
            return None;
        }
        let verb = flow_control::verb(&head.method, target, head.wants_watch());
        let matched = flow_control.classify(user, &verb, target);
        let level = matched.as_ref().map(|matched| matched.level);
        kind.seats = Some(flow_control.seats(level.as_ref(), self.limits.requests_in_flight));
        kind.level = level;
        let matched = matched?;
        kind.flow = self.process.flows.hash_one(&matched.flow);
        Some(matched.marks)
    }

    /// Counts a request that comes in; 429 if there are too many. It has no seat yet.
    pub fn enter(&self, plane: &ControlPlane, kind: Kind) -> Result<Seat, Failure> {
        plane.asked.fetch_add(1, Ordering::Relaxed);
        pool::set_flow(kind.flow);
        self.count(plane.id, self.limits.within(&plane.charter.quota), kind).ok_or_else(too_many)
    }

    fn count(&self, tenant: TenantId, limits: Limits, kind: Kind) -> Option<Seat> {
        let mut shares = self.shards[shard(tenant)].lock();
        let now = Instant::now();
        if shares.len() > CROWDED && !shares.contains_key(&tenant) {
            shares.retain(|_, share| !share.is_idle(now));
        }
        let share = shares.entry(tenant).or_insert_with(|| Share {
            open: 0,
            watches: 0,
            levels: Levels::default(),
            tokens: limits.burst,
            at: now,
            limits,
        });
        share.limits = limits;
        share.refill(now);
        let class = (!kind.exempt && !kind.watch).then(|| kind.class(&limits));
        if !kind.exempt {
            let kept = if kind.administrator { limits.burst / KEPT_BURST } else { 0.0 };
            let watches = limits.watches - if kind.administrator { 0 } else { limits.watches / KEPT_WATCHES };
            let full = share.tokens < 1.0 - kept || (kind.watch && share.watches >= watches);
            if full || !class.as_ref().is_none_or(|class| share.levels.enter(class)) {
                return None;
            }
        }
        share.tokens -= 1.0;
        if kind.watch {
            share.watches += 1;
        } else {
            share.open += 1;
        }
        Some(Seat { shards: self.shards.clone(), tenant, kind, class, seated: false })
    }

    /// Waits for the request's turn; 429 if that would be too long. Returns true if the control plane has so many that
    /// this one is to be worked on in the control plane's turn.
    pub async fn turn(&self, seat: &mut Seat) -> Result<bool, Failure> {
        let Some(class) = seat.class else { return Ok(false) };
        let turn = {
            let mut shares = self.shards[shard(seat.tenant)].lock();
            let share = shares.get_mut(&seat.tenant).ok_or_else(too_many)?;
            let many = share.open as usize > MANY_PER_CORE * self.limits.cores;
            match share.levels.take(&class) {
                Turn::Now => Ok(many),
                Turn::Later(number, receiver) => Err((number, receiver)),
            }
        };
        let (number, receiver) = match turn {
            Ok(many) => {
                seat.seated = true;
                return Ok(many);
            }
            Err(later) => later,
        };
        let mut waiting = Waiting { seat: &*seat, class, number, came: false };
        let turn = timeout(class.patience, receiver).await;
        turn.ok().and_then(Result::ok).ok_or_else(too_many)?;
        waiting.came = true;
        drop(waiting);
        seat.seated = true;
        Ok(true)
    }

    /// Requests and watches open in a control plane now.
    pub fn open(&self, tenant: TenantId) -> (u32, u32) {
        let shares = self.shards[shard(tenant)].lock();
        shares.get(&tenant).map_or((0, 0), |share| (share.open, share.watches))
    }
}

impl Seat {
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }
}

/// A request that waits for its turn. Dropped before that came, it has given up.
struct Waiting<'a> {
    seat: &'a Seat,
    class: Class,
    number: u64,
    came: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.came {
            return;
        }
        let mut shares = self.seat.shards[shard(self.seat.tenant)].lock();
        if let Some(share) = shares.get_mut(&self.seat.tenant) {
            share.levels.give_up(&self.class, self.number);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut shares = self.shards[shard(self.tenant)].lock();
        let Some(share) = shares.get_mut(&self.tenant) else { return };
        if let Some(class) = &self.class {
            share.levels.leave(class, self.seated);
        }
        if self.kind.watch {
            share.watches -= 1;
        } else {
            share.open -= 1;
        }
        if share.is_idle(Instant::now()) {
            shares.remove(&self.tenant);
        }
    }
}
