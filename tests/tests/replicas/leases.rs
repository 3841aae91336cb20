//! The controllers run at one server at a time for each shard, and go on at another when that one is gone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use end_to_end::{Client, ControlPlane, Engine};
use serde_json::json;

use crate::load::Fleet;
use crate::writers::revision;

/// A lease expires, and then there is work to do.
const PATIENCE: Duration = Duration::from_secs(90);

pub fn the_controllers_go_on_elsewhere(engine: Engine) {
    let fleet = Fleet::start(engine, 2);
    a_namespace_comes_and_goes(fleet.client(1), "before");
    fleet.server(0).kill();
    a_namespace_comes_and_goes(fleet.client(1), "without-the-first");
    fleet.server(0).restart();
    // What only the first does is done by the first, whoever does the rest.
    ControlPlane::create(&fleet.server(0), "made-again");
    fleet.server(1).kill();
    a_namespace_comes_and_goes(fleet.client(0), "without-the-second");
    fleet.server(1).restart();
    // Given back, not left to expire: the other goes on at once.
    fleet.server(0).stop();
    a_namespace_comes_and_goes(fleet.client(1), "after-a-stop");
    fleet.server(0).restart();
}

const NAMESPACES: &str = "/api/v1/namespaces";
/// Enough that a holder that is frozen when the first of them is gone has others in hand.
const MANY: usize = 30;
/// For the one that was frozen to do what it must not.
const TEMPTATION: Duration = Duration::from_secs(5);

/// What it had in hand is done by the other, and nothing of it comes once it runs again.
pub fn a_frozen_holder_writes_nothing_later(engine: Engine) {
    let fleet = Fleet::start(engine, 2);
    until_spread(&fleet, &[0, 1]);
    let victim = (0..2).find(|number| controllers(&fleet, *number).contains(OF_THE_HOST)).unwrap();
    fleet.server(victim).forgive("the store is unavailable");
    let (frozen, other) = (fleet.client(victim), fleet.client(victim + 1));
    let names: Vec<String> = (0..MANY).map(|number| format!("n{number}")).collect();
    names.iter().for_each(|name| begin_namespace(other, NAMESPACES, name));
    names.iter().for_each(|name| drop(other.delete(&format!("{NAMESPACES}/{name}")).ok()));
    let is_gone = |name: &String| other.get(&format!("{NAMESPACES}/{name}")).code == 404;
    eventually("the first is gone", || names.iter().any(is_gone));
    fleet.server(victim).signal("STOP");
    names.iter().for_each(|name| await_end(other, NAMESPACES, name));
    let now = || revision(&other.get(NAMESPACES).ok());
    let mut before = now();
    eventually("nothing is written any more", || {
        std::thread::sleep(Duration::from_secs(1));
        std::mem::replace(&mut before, now()) == before
    });
    fleet.server(victim).signal("CONT");
    eventually("it serves again", || {
        frozen.try_send("GET", NAMESPACES, None, b"").is_ok_and(|answer| answer.code == 200)
    });
    std::thread::sleep(TEMPTATION);
    let log = fleet.server(victim).log();
    assert_eq!(now(), before, "something was written by the one that was frozen:\n{log}");
    a_namespace_comes_and_goes(frozen, "after");
}

const SHARDS: usize = 8;
/// The lease of the shard that the hosting control plane is in.
const OF_THE_HOST: &str = "controllers-4-of-8";

fn controllers(fleet: &Fleet, number: usize) -> BTreeSet<String> {
    let held = fleet.server(number).leases("default");
    held.into_iter().filter(|lease| lease.starts_with("controllers-")).collect()
}

/// Every shard is at one of these servers, and none of them has two more than another.
fn until_spread(fleet: &Fleet, servers: &[usize]) {
    let mut at = Vec::new();
    let spread = || {
        at = servers.iter().map(|number| controllers(fleet, *number)).collect();
        let (all, sizes): (BTreeSet<_>, Vec<_>) =
            (at.iter().flatten().collect(), at.iter().map(BTreeSet::len).collect());
        all.len() == SHARDS
            && sizes.iter().sum::<usize>() == SHARDS
            && sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1
    };
    eventually("shards are spread", spread);
}

/// Control planes of several shards.
const PLANES: [&str; 5] = ["a", "d", "g", "h", "one"];

/// Three share the work; what a killed one had is done by the others, and it gets its part again.
pub fn shards_go_to_whoever_is_there(engine: Engine) {
    let fleet = Fleet::start(engine, 3);
    until_spread(&fleet, &[0, 1, 2]);
    let planes = PLANES.map(|name| ControlPlane::create(&fleet.server(0), name));
    let works = |server: usize, namespace: &str| {
        for plane in &planes {
            let client = fleet.server(server).client_as(plane.credentials());
            a_namespace_comes_and_goes_in(&client, &plane.path(NAMESPACES), namespace);
        }
    };
    works(0, "by-three");
    fleet.server(1).kill();
    works(2, "by-two");
    until_spread(&fleet, &[0, 2]);
    fleet.server(1).restart();
    until_spread(&fleet, &[0, 1, 2]);
    // Given back, not left to expire.
    fleet.server(2).stop();
    until_spread(&fleet, &[0, 1]);
    works(1, "by-two-others");
    fleet.server(2).restart();
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn a_namespace_comes_and_goes(client: &Client, name: &str) {
    a_namespace_comes_and_goes_in(client, NAMESPACES, name);
}

/// The same in a control plane whose namespaces are at `all`.
fn a_namespace_comes_and_goes_in(client: &Client, all: &str, name: &str) {
    begin_namespace(client, all, name);
    client.delete(&format!("{all}/{name}")).ok();
    await_end(client, all, name);
}

fn begin_namespace(client: &Client, all: &str, name: &str) {
    client.post(all, &json!({"metadata": {"name": name}})).ok();
    let content = json!({"metadata": {"name": "content"}});
    client.post(&format!("{all}/{name}/configmaps"), &content).ok();
}

/// It takes a controller that empties it.
fn await_end(client: &Client, all: &str, name: &str) {
    let path = format!("{all}/{name}");
    eventually(&format!("{name} is gone"), || client.get(&path).code == 404);
}
