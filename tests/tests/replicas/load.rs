//! The servers, and everybody who uses them at once.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use end_to_end::chance::{self, SetWhenDropped};
use end_to_end::{Client, Engine, Server};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::watchers::{self, Seen};
use crate::writers::{self, Writer};

const WRITERS: usize = 8;
/// Kills where nothing else is said.
const FEW: usize = 3;
const MANY: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);

pub fn kills_wanted() -> usize {
    chance::kills_wanted(if chance::is_long() { MANY } else { FEW })
}

pub fn between(rng: &mut StdRng, milliseconds: Range<u64>) -> Duration {
    Duration::from_millis(rng.random_range(milliseconds))
}

/// Servers on one database: the first is an `up`, the others serve beside it.
pub struct Fleet {
    servers: Vec<Mutex<Server>>,
    pub clients: Vec<Client>,
    /// Writes that were acknowledged, by anybody.
    acknowledged: AtomicUsize,
    /// Which servers clients are sent to, where a load balancer stands before them.
    ready: Option<Vec<AtomicBool>>,
}

/// How often a load balancer asks.
const LOOK: Duration = Duration::from_millis(100);

impl Fleet {
    pub fn start(engine: Engine, count: usize) -> Fleet {
        let first = Server::start_on(engine);
        let others = (1..count).map(|_| first.beside()).collect::<Vec<_>>();
        let servers: Vec<Server> = [first].into_iter().chain(others).collect();
        let clients = servers.iter().map(Server::client).collect();
        let servers = servers.into_iter().map(Mutex::new).collect();
        Fleet { servers, clients, acknowledged: AtomicUsize::new(0), ready: None }
    }

    /// Clients are sent to those that say they are ready, for as long as [`Fleet::balance`] looks.
    pub fn balanced(self) -> Fleet {
        let ready = self.clients.iter().map(|_| AtomicBool::new(true)).collect();
        Fleet { ready: Some(ready), ..self }
    }

    fn balance(&self, over: &AtomicBool) {
        let Some(ready) = &self.ready else { return };
        while !over.load(Ordering::SeqCst) {
            for (client, ready) in self.clients.iter().zip(ready) {
                let answer = client.try_send("GET", "/readyz", None, b"");
                ready.store(answer.is_ok_and(|answer| answer.code == 200), Ordering::SeqCst);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// A server for a request.
    pub fn choose(&self, rng: &mut StdRng) -> usize {
        loop {
            let server = rng.random_range(0..self.len());
            if self.ready.as_ref().is_none_or(|ready| ready[server].load(Ordering::SeqCst)) {
                return server;
            }
        }
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Counted round and round.
    pub fn server(&self, number: usize) -> MutexGuard<'_, Server> {
        self.servers[number % self.servers.len()].lock().unwrap()
    }

    pub fn client(&self, number: usize) -> &Client {
        &self.clients[number % self.clients.len()]
    }

    pub fn count_a_write(&self) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    pub fn wait_for_a_write(&self) {
        let (began, before) = (Instant::now(), self.acknowledged.load(Ordering::SeqCst));
        // One may have been on its way back already.
        while self.acknowledged.load(Ordering::SeqCst) < before + WRITERS + 1 {
            assert!(began.elapsed() < PATIENCE, "no write is acknowledged for {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Writers, and one watcher that began at each server.
pub struct Load {
    fleet: Arc<Fleet>,
    writers: Vec<Writer>,
    /// The revision after which nothing comes; zero until it is known.
    last: Arc<AtomicU64>,
    watchers: Vec<JoinHandle<Vec<Seen>>>,
}

impl Load {
    pub fn begin(fleet: Fleet, rng: &mut StdRng) -> Load {
        let fleet = Arc::new(fleet);
        let from = writers::revision(&fleet.client(0).get(writers::MAPS).ok());
        let last = Arc::new(AtomicU64::new(0));
        let watch = |number| {
            let (fleet, last) = (fleet.clone(), last.clone());
            std::thread::spawn(move || watchers::watch(&fleet, number, from, &last))
        };
        let watchers = (0..fleet.len()).map(watch).collect();
        let writers = (0..WRITERS).map(|i| Writer::new(i, StdRng::seed_from_u64(rng.random()))).collect();
        Load { fleet, writers, last, watchers }
    }

    /// So many writes of each writer.
    pub fn write(&mut self, count: usize) {
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                let fleet = &self.fleet;
                scope.spawn(move || (0..count).for_each(|_| writer.write(fleet)));
            }
        });
    }

    /// Writes for as long as something else takes.
    pub fn write_while(&mut self, rng: &mut StdRng, meanwhile: impl FnOnce(&Fleet, &mut StdRng)) {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                let (fleet, over) = (&self.fleet, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::SeqCst) {
                        writer.write(fleet);
                    }
                });
            }
            scope.spawn(|| self.fleet.balance(&over));
            // Also when it fails: the scope ends only when all have ended.
            let _ends = SetWhenDropped(&over);
            meanwhile(&self.fleet, rng);
        });
    }

    /// Holds what was seen against what was written, and both against what is there.
    pub fn finish(self) -> End {
        let mut writers = self.writers;
        let fence = writers[0].create(&self.fleet, "fence");
        self.last.store(fence, Ordering::SeqCst);
        let seen: Vec<Vec<Seen>> = self.watchers.into_iter().map(|watcher| watcher.join().unwrap()).collect();
        let books = writers::merge(&writers);
        let mut delays = Vec::new();
        for (number, events) in seen.iter().enumerate() {
            books.compare(events, number);
            delays.extend(books.delays(events));
        }
        for client in &self.fleet.clients {
            books.compare_list(client);
        }
        delays.sort();
        let at = |share: usize| delays.get(delays.len().saturating_sub(1) * share / 100).copied();
        End {
            writes: books.len(),
            cut: writers.iter().map(|writer| writer.cut).sum(),
            refused: writers.iter().map(|writer| writer.refused).sum(),
            done_and_not_told: writers.iter().map(|writer| writer.done_and_not_told).sum(),
            median_delay: at(50).unwrap_or_default(),
            p99_delay: at(99).unwrap_or_default(),
        }
    }
}

/// What came of it.
pub struct End {
    pub writes: usize,
    /// Requests whose connection ended, or was never made.
    pub cut: usize,
    /// Requests that were answered with: try again.
    pub refused: usize,
    /// Requests of the first kind whose write was done.
    pub done_and_not_told: usize,
    /// From the acknowledgement of a write to its event at another server.
    median_delay: Duration,
    p99_delay: Duration,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes, {} tries cut off ({} of them done), {} refused; watch delay across servers \
             {:?} (median), {:?} (99 %)",
            self.writes, self.cut, self.done_and_not_told, self.refused, self.median_delay, self.p99_delay
        )
    }
}
