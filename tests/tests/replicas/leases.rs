//! The controllers run at one server at a time, and go on at another when that one is gone.

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
    fleet.server(0).forgive("the store is unavailable");
    let (frozen, other) = (fleet.client(0), fleet.client(1));
    let names: Vec<String> = (0..MANY).map(|number| format!("n{number}")).collect();
    names.iter().for_each(|name| begin_namespace(other, name));
    names.iter().for_each(|name| drop(other.delete(&format!("{NAMESPACES}/{name}")).ok()));
    let is_gone = |name: &String| other.get(&format!("{NAMESPACES}/{name}")).code == 404;
    eventually("the first is gone", || names.iter().any(is_gone));
    fleet.server(0).signal("STOP");
    names.iter().for_each(|name| await_end(other, name));
    let now = || revision(&other.get(NAMESPACES).ok());
    let mut before = now();
    eventually("nothing is written any more", || {
        std::thread::sleep(Duration::from_secs(1));
        std::mem::replace(&mut before, now()) == before
    });
    fleet.server(0).signal("CONT");
    eventually("it serves again", || {
        frozen.try_send("GET", NAMESPACES, None, b"").is_ok_and(|answer| answer.code == 200)
    });
    std::thread::sleep(TEMPTATION);
    assert_eq!(now(), before, "something was written by the one that was frozen:\n{}", fleet.server(0).log());
    a_namespace_comes_and_goes(frozen, "after");
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn a_namespace_comes_and_goes(client: &Client, name: &str) {
    begin_namespace(client, name);
    client.delete(&format!("{NAMESPACES}/{name}")).ok();
    await_end(client, name);
}

fn begin_namespace(client: &Client, name: &str) {
    client.post(NAMESPACES, &json!({"metadata": {"name": name}})).ok();
    let content = json!({"metadata": {"name": "content"}});
    client.post(&format!("{NAMESPACES}/{name}/configmaps"), &content).ok();
}

/// It takes a controller that empties it.
fn await_end(client: &Client, name: &str) {
    let path = format!("{NAMESPACES}/{name}");
    eventually(&format!("{name} is gone"), || client.get(&path).code == 404);
}
