//! How many connections a listener keeps open, and which ones it closes when there are too many.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

/// Limits of the connections of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections in all. When there are as many, the oldest idle ones are closed for new ones.
    pub max_connections: usize,
    /// Connections from one source address. Generous by default, since it can be that of a load balancer.
    pub max_per_address: usize,
    /// Connections on which no request has been authenticated.
    pub max_unauthenticated: usize,
    /// From the end of the TLS handshake to the head of the first request.
    pub first_request_timeout: Duration,
    /// How long something may wait for a client that does not read.
    pub stall_timeout: Duration,
}

/// Open files that are never used for connections of clients: at least this many, or a quarter, if that is more.
const MIN_RESERVED_FILES: u64 = 64;
/// A quarter of a high limit is more than the stores and the outgoing connections need.
const MAX_RESERVED_FILES: u64 = 4_096;
/// A server that can be reached by nobody is of no use, however low the limit of open files is.
const MIN_CONNECTIONS: u64 = 16;
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A full listener is reported once, and then as often as this for as long as it goes on.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

impl Limits {
    /// This many connections; half of them from one address, a quarter of them not authenticated.
    pub fn new(max_connections: usize) -> Limits {
        Limits {
            max_connections,
            max_per_address: (max_connections / 2).max(1),
            max_unauthenticated: (max_connections / 4).max(1),
            first_request_timeout: FIRST_REQUEST_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
        }
    }

    /// The same, but no more than the process may open files, less a reserve for its stores and outgoing connections.
    pub fn within_open_files(max_connections: usize) -> Limits {
        let Some(files) = getrlimit(Resource::Nofile).current else { return Limits::new(max_connections) };
        Limits::new(max_connections.min(usable(files)))
    }
}

/// The part of the limit of open files that connections of clients may use.
fn usable(files: u64) -> usize {
    let reserved = (files / 4).clamp(MIN_RESERVED_FILES, MAX_RESERVED_FILES);
    usize::try_from(files.saturating_sub(reserved).max(MIN_CONNECTIONS)).unwrap_or(usize::MAX)
}

/// The open connections of a listener.
pub struct Connections {
    limits: Limits,
    began: Instant,
    state: Mutex<State>,
    /// A connection has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Those that are not being closed.
    open: HashMap<u64, Arc<Entry>>,
    /// Told to close, and not gone yet.
    closing: usize,
    addresses: HashMap<IpAddr, usize>,
    unauthenticated: usize,
    incident: Incident,
}

/// What was done since the last log line about a full listener.
#[derive(Default)]
struct Incident {
    reported: Option<Instant>,
    closed: usize,
    refused: usize,
}

struct Entry {
    number: u64,
    address: IpAddr,
    requests: AtomicU32,
    /// When the last request began or ended, in microseconds since the table was made.
    used: AtomicU64,
    asked: AtomicBool,
    authenticated: AtomicBool,
    close: Notify,
}

/// A connection in the table, until it is dropped.
pub struct Open {
    table: Arc<Connections>,
    entry: Arc<Entry>,
}

/// A request of a connection. The connection is idle when it has none.
pub struct Active(Arc<Open>);

impl Connections {
    pub fn new(limits: Limits) -> Arc<Connections> {
        Arc::new(Connections { limits, began: Instant::now(), state: Mutex::default(), ended: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits until one more connection may be accepted, and closes idle ones for it.
    pub async fn room(&self) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.make_room() {
                return;
            }
            ended.await;
        }
    }

    fn make_room(&self) -> bool {
        let mut state = self.state();
        let limits = &self.limits;
        // Some are closed at a time, because finding the oldest ones looks at all of them.
        let batch = limits.max_connections / 32 + 1;
        if state.unauthenticated >= limits.max_unauthenticated {
            let batch = limits.max_unauthenticated / 32 + 1;
            state.close_oldest(batch, |entry| !entry.authenticated.load(Ordering::Relaxed));
        }
        if state.open.len() + batch > limits.max_connections && state.closing < batch {
            let closed = state.close_oldest(batch, |entry| entry.authenticated.load(Ordering::Relaxed));
            if closed == 0 {
                state.close_oldest(batch, |_| true);
            }
        }
        state.open.len() + state.closing < limits.max_connections
    }

    /// The system has no more open files: closes idle connections before the next try.
    pub fn out_of_files(&self) {
        let mut state = self.state();
        let batch = state.open.len() / 32 + 1;
        state.close_oldest(batch, |_| true);
    }

    /// Takes a new connection into the table; none if its address has too many that are not idle.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Open> {
        let address = source(address);
        let mut state = self.state();
        let of_address = state.addresses.get(&address).copied().unwrap_or_default();
        if of_address >= self.limits.max_per_address {
            let batch = self.limits.max_per_address / 32 + 1;
            if state.close_oldest(batch, |entry| entry.address == address) == 0 {
                state.incident.refused += 1;
                state.report();
                return None;
            }
        }
        let number = state.next;
        state.next += 1;
        let entry = Arc::new(Entry {
            number,
            address,
            requests: AtomicU32::new(0),
            used: AtomicU64::new(self.now()),
            asked: AtomicBool::new(false),
            authenticated: AtomicBool::new(false),
            close: Notify::new(),
        });
        state.open.insert(number, entry.clone());
        *state.addresses.entry(address).or_default() += 1;
        state.unauthenticated += 1;
        drop(state);
        Some(Open { table: self.clone(), entry })
    }

    #[cfg(test)]
    fn counts(&self) -> (usize, usize, usize) {
        let state = self.state();
        (state.open.len(), state.unauthenticated, state.addresses.values().sum())
    }
}

impl State {
    /// Tells some idle connections to close, those first that have been idle for longest. Returns how many.
    fn close_oldest(&mut self, count: usize, concerns: impl Fn(&Entry) -> bool) -> usize {
        let idle = self.open.values().filter(|entry| entry.is_idle() && concerns(entry));
        let mut idle: Vec<(u64, u64)> =
            idle.map(|entry| (entry.used.load(Ordering::Relaxed), entry.number)).collect();
        if idle.len() > count {
            idle.select_nth_unstable(count);
            idle.truncate(count);
        }
        for (_, number) in &idle {
            if let Some(entry) = self.remove(*number) {
                self.closing += 1;
                entry.close.notify_one();
            }
        }
        if !idle.is_empty() {
            self.incident.closed += idle.len();
            self.report();
        }
        idle.len()
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Entry>> {
        let entry = self.open.remove(&number)?;
        if let Some(count) = self.addresses.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&entry.address);
            }
        }
        if !entry.authenticated.load(Ordering::Relaxed) {
            self.unauthenticated -= 1;
        }
        Some(entry)
    }

    fn report(&mut self) {
        let incident = &mut self.incident;
        if incident.reported.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) {
            return;
        }
        let (closed, refused) = (incident.closed, incident.refused);
        *incident = Incident { reported: Some(Instant::now()), closed: 0, refused: 0 };
        tracing::warn!(
            open = self.open.len(),
            unauthenticated = self.unauthenticated,
            closed,
            refused,
            "too many connections; the ones that have been idle for longest are closed"
        );
    }
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }
}

impl Open {
    /// Notes the beginning of a request.
    pub fn begin(self: &Arc<Self>) -> Active {
        self.entry.requests.fetch_add(1, Ordering::Relaxed);
        self.entry.asked.store(true, Ordering::Relaxed);
        Active(self.clone())
    }

    /// Returns true after the head of a first request.
    pub fn has_asked(&self) -> bool {
        self.entry.asked.load(Ordering::Relaxed)
    }

    pub fn is_idle(&self) -> bool {
        self.entry.is_idle()
    }

    /// Notes that a request of this connection was authenticated.
    pub fn authenticated(&self) {
        if self.entry.authenticated.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.table.state();
        let counted = state.open.contains_key(&self.entry.number);
        if !self.entry.authenticated.swap(true, Ordering::Relaxed) && counted {
            state.unauthenticated -= 1;
        }
    }

    /// Waits until the table wants this connection closed.
    pub async fn closed(&self) {
        self.entry.close.notified().await;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.table.state();
        if state.remove(self.entry.number).is_none() {
            state.closing -= 1;
        }
        drop(state);
        self.table.ended.notify_one();
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let open = &self.0;
        open.entry.used.store(open.table.now(), Ordering::Relaxed);
        open.entry.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What counts as one source: an address, or the network of 64 bits that one customer gets of IPv6.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn table(max_connections: usize) -> Arc<Connections> {
        Connections::new(Limits {
            max_per_address: max_connections,
            max_unauthenticated: max_connections,
            ..Limits::new(max_connections)
        })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn open(table: &Arc<Connections>, last: u8) -> Arc<Open> {
        assert!(table.room().now_or_never().is_some(), "there is room");
        Arc::new(table.admit(address(last)).expect("it is admitted"))
    }

    fn is_closed(open: &Open) -> bool {
        open.closed().now_or_never().is_some()
    }

    #[test]
    fn usable_files_leave_a_reserve() {
        for (files, expected) in
            [(20_000, 15_904), (1_024, 768), (300, 225), (64, 16), (0, 16), (1 << 20, (1 << 20) - 4_096)]
        {
            assert_eq!(usable(files), expected, "{files}");
        }
    }

    #[test]
    fn the_oldest_idle_connection_is_closed_for_a_new_one() {
        let table = table(3);
        let first = open(&table, 1);
        let busy = first.begin();
        let (second, third) = (open(&table, 2), open(&table, 3));
        let mut room = Box::pin(table.room());
        assert!(room.as_mut().now_or_never().is_none(), "one has to end first");
        assert!(is_closed(&second) && !is_closed(&first) && !is_closed(&third));
        drop(second);
        assert!(room.now_or_never().is_some());
        drop((busy, first, third));
        assert_eq!(table.counts(), (0, 0, 0));
    }

    #[test]
    fn authenticated_connections_are_not_closed_for_unauthenticated_ones() {
        let table =
            Connections::new(Limits { max_unauthenticated: 2, max_per_address: 10, ..Limits::new(10) });
        let known = open(&table, 1);
        known.authenticated();
        let unknown: Vec<_> = (0..4).map(|_| open(&table, 2)).collect();
        let closed: Vec<bool> = unknown.iter().map(|open| is_closed(open)).collect();
        assert_eq!(closed, [true, true, false, false]);
        assert!(!is_closed(&known));
        assert_eq!(table.counts(), (3, 2, 3));
    }

    #[test]
    fn an_address_has_a_share() {
        let table =
            Connections::new(Limits { max_per_address: 2, max_unauthenticated: 10, ..Limits::new(10) });
        let (first, second) = (open(&table, 1), open(&table, 1));
        let busy = second.begin();
        let third = open(&table, 1);
        assert!(is_closed(&first), "the idle one is closed for it");
        let also = third.begin();
        assert!(table.admit(address(1)).is_none(), "all of them are busy");
        assert!(table.admit(address(2)).is_some(), "others are not concerned");
        drop((busy, also));
        assert!(table.admit(address(1)).is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let parse = |text: &str| source(text.parse().unwrap());
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:1"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:10.0.0.1"), parse("10.0.0.1"));
    }
}
