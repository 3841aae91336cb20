//! What was acknowledged is there after a SIGKILL at any moment, what was not is there wholly or not at all,
//! revisions never repeat, and watches go on where they were.
//!
//! Writers keep exact books of what they were told ([`writers`]); watchers keep exact books of what they saw
//! ([`history`]). After every kill both are held against what the server says and against each other.
//!
//! `HANGAR_SEED=N` repeats a run's choices, `HANGAR_KILLS=N` makes it longer.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "the seed is said, so that a failure can be tried again")]

mod history;
mod kinds;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use end_to_end::{Client, Engine, Server, chance};
use history::History;
use kinds::{CHARGED, Kind, NAMESPACES, Owners, Place, SELECTOR, Version};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use writers::{Books, Writer};

const WRITERS: u64 = 18;
const KILLS: usize = 50;
/// On a database, which has seen such things before.
const KILLS_ON_DATABASES: usize = 5;
/// One in so many servers is killed while it starts.
const KILLED_EARLY: u32 = 5;
/// For what the control plane does in its own time.
const PATIENCE: Duration = Duration::from_secs(30);
/// How far back a watch of an earlier time begins, in events.
const REMEMBERED: usize = 2_000;

#[test]
fn killed_at_any_moment() {
    let mut rng = chance::seeded();
    let mut test = Test::start(&mut rng);
    let (mut kills, wanted) = (0, kills_wanted());
    while kills < wanted {
        test.write_until_killed(Duration::from_millis(rng.random_range(10..500)));
        kills += 1;
        if rng.random_ratio(1, KILLED_EARLY) {
            test.server.start_and_kill(Duration::from_millis(rng.random_range(0..250)));
            kills += 1;
        }
        test.server.restart();
        test.settle(&mut rng);
    }
    println!(
        "{kills} kills, {} writes, {} events",
        test.books.count,
        test.histories.iter().map(History::len).sum::<usize>()
    );
    test.delete_owners();
    assert!(test.books.count > 10 * wanted, "too few writes to prove anything");
}

fn kills_wanted() -> usize {
    let usual = if Engine::of_this_test() == Engine::Embedded { KILLS } else { KILLS_ON_DATABASES };
    chance::kills_wanted(usual)
}

struct Test {
    server: Server,
    writers: Vec<Writer>,
    books: Books,
    owners: Owners,
    /// One for each of [`Kind::ALL`], then the one of addresses.
    histories: Vec<History>,
    /// Objects that mark how far a watch has to have come.
    fences: u64,
}

impl Test {
    fn start(rng: &mut StdRng) -> Test {
        let server = Server::start();
        let client = server.client();
        for namespace in NAMESPACES.iter().chain([&CHARGED]) {
            client.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).ok();
        }
        let hard = json!({"secrets": "1000000"});
        let quotas = format!("/api/v1/namespaces/{CHARGED}/resourcequotas");
        client.post(&quotas, &json!({"metadata": {"name": "quota"}, "spec": {"hard": hard}})).ok();
        // From when the control plane has first counted, a write is charged as it is made.
        let counted = || client.get(&format!("{quotas}/quota")).ok()["status"]["used"]["secrets"] == "0";
        let began = Instant::now();
        while !counted() {
            assert!(began.elapsed() < PATIENCE, "the quota is not counted after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let owners = Owners::make(&client);

        let collections = Kind::ALL.iter().map(|kind| kind.collection()).chain([ADDRESSES]);
        let histories =
            collections.map(|path| History::from(path, revision_of(&client.get(path).ok()))).collect();
        let writers = (0..WRITERS).map(|i| Writer::new(i, StdRng::seed_from_u64(rng.random()))).collect();
        let mut test = Test { server, writers, books: Books::default(), owners, histories, fences: 0 };
        test.settle(rng);
        test
    }

    /// All writers at once, and the server gone in the middle of it.
    fn write_until_killed(&mut self, after: Duration) {
        let began = Instant::now();
        let (killed, server, owners) = (AtomicBool::new(false), &mut self.server, &self.owners);
        std::thread::scope(|scope| {
            for writer in &mut self.writers {
                let client = server.client();
                let killed = &killed;
                scope.spawn(move || writer.write(&client, owners, killed));
            }
            std::thread::sleep(after.saturating_sub(began.elapsed()));
            killed.store(true, Ordering::SeqCst);
            server.kill();
        });
        for history in &mut self.histories {
            history.read_to_end();
        }
    }

    /// The server is back and nobody writes: everything must fit together.
    fn settle(&mut self, rng: &mut StdRng) {
        let client = self.server.client();
        let listed: BTreeMap<Place, Version> =
            Kind::ALL.iter().flat_map(|kind| list(&client, *kind, &self.books)).collect();
        for writer in &mut self.writers {
            self.books.take(writer, &listed);
        }
        self.books.check_nobody_else(&listed);
        check_addresses(&client);
        check_quota(&client, &listed);

        let highest = self.books.highest;
        for history in &mut self.histories {
            history.resume(&client);
        }
        self.fences += 1;
        for kind in Kind::ALL {
            let (place, version) = writers::fence(&client, &self.owners, kind, self.fences);
            assert!(
                version.revision > highest,
                "{place:?} got revision {}, after {highest}",
                version.revision
            );
            self.books.fence(place, version);
            self.histories[kind as usize].read_until(version.revision);
            if kind == Kind::Service {
                self.histories[Kind::ALL.len()].read_until(version.revision);
            }
        }
        for kind in Kind::ALL {
            let history = &mut self.histories[kind as usize];
            let now: BTreeMap<Place, Version> = list(&client, kind, &self.books).collect();
            history.check_state(kind, &now);
            self.books.compare(kind, history.take_new());
        }
        self.check_addresses_came_with_services();
        let chosen = rng.random_range(0..self.histories.len());
        let history = &self.histories[chosen];
        let oldest = history.len().saturating_sub(REMEMBERED);
        if oldest + 1 < history.len() {
            history.check_watch_from(&client, rng.random_range(oldest..history.len() - 1));
        }
        let seen = self.histories.iter().map(History::last).max().unwrap_or_default();
        self.books.highest = self.books.highest.max(seen);
    }

    /// What belongs to an owner is found by an index that is written with it: whatever goes with its owner was in it.
    fn delete_owners(&self) {
        let client = self.server.client();
        self.owners.delete(&client);
        let began = Instant::now();
        loop {
            let left = list(&client, Kind::ConfigMap, &self.books).count();
            if left == 0 {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{left} config maps are not collected after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// An address is taken and given back in the very revision of its Service's creation and deletion.
    fn check_addresses_came_with_services(&self) {
        let of = |history: &History| -> BTreeSet<(u64, String)> {
            let changes = history.events().filter(|event| event.what != "MODIFIED");
            changes.map(|event| (event.revision, event.what.clone())).collect()
        };
        let services = of(&self.histories[Kind::Service as usize]);
        let addresses = of(&self.histories[Kind::ALL.len()]);
        assert_eq!(
            addresses.symmetric_difference(&services).collect::<Vec<_>>(),
            Vec::<&(u64, String)>::new(),
            "addresses and Services change together"
        );
    }
}

const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse().unwrap()
}

/// What is there of a kind, in pages, as a careful client reads it.
fn list(client: &Client, kind: Kind, books: &Books) -> impl Iterator<Item = (Place, Version)> + use<> {
    let (mut found, mut from) = (Vec::new(), String::new());
    loop {
        let page = client
            .get(&format!("{}?labelSelector={SELECTOR}&limit=100&continue={from}", kind.collection()))
            .ok();
        assert!(
            revision_of(&page) >= books.highest,
            "revisions went back to {}, after {}",
            revision_of(&page),
            books.highest
        );
        found.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|object| (Place::of(kind, object), Version::of(object))),
        );
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => from = next.to_owned(),
            _ => return found.into_iter(),
        }
    }
}

/// Every Service has the address it names, and every address the Service it names.
fn check_addresses(client: &Client) {
    let services = client.get("/api/v1/services").ok();
    let services = services["items"].as_array().unwrap().iter().map(|service| {
        let metadata = &service["metadata"];
        (
            service["spec"]["clusterIP"].to_string(),
            [metadata["namespace"].to_string(), metadata["name"].to_string()],
        )
    });
    let addresses = client.get(ADDRESSES).ok();
    let addresses = addresses["items"].as_array().unwrap().iter().map(|address| {
        let parent = &address["spec"]["parentRef"];
        (
            address["metadata"]["name"].to_string(),
            [parent["namespace"].to_string(), parent["name"].to_string()],
        )
    });
    assert_eq!(services.collect::<BTreeMap<_, _>>(), addresses.collect::<BTreeMap<_, _>>());
}

/// What is charged is what is there.
fn check_quota(client: &Client, listed: &BTreeMap<Place, Version>) {
    let quota = client.get(&format!("/api/v1/namespaces/{CHARGED}/resourcequotas/quota")).ok();
    let there = listed.keys().filter(|place| place.kind == Kind::Secret).count();
    assert_eq!(quota["status"]["used"]["secrets"], there.to_string(), "{quota:#}");
}
