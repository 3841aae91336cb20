//! Many clients that create, update and delete while as many watch: no write fails, and every watcher sees every
//! change once and in order. Also on the embedded store.
//!
//! `HANGAR_CHURN=N` says how many clients; `HANGAR_LONG=1` goes through all sizes. `cargo xtask bench` does the same with
//! 1,000, on a build that is made for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use end_to_end::{Client, Engine, Server, Watch, chance};
use serde_json::{Value, json};

use crate::writers::{MAPS, revision};

/// Clients that write, and as many that watch; the first is what is tested every time.
const SIZES: [usize; 2] = [50, 200];
const UPDATES: usize = 3;
/// Handshakes at the same time.
const CONNECTING: usize = 16;
const SELECTOR: &str = "churn%3Dyes";
const FENCE: &str = "fence";
/// Many events to many watchers take their time on a small machine.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn on_embedded() {
    churn(Engine::Embedded, 1);
}

#[test]
fn on_postgres() {
    churn(Engine::Postgres, 2);
}

#[test]
fn on_etcd() {
    churn(Engine::Etcd, 2);
}

fn churn(engine: Engine, servers: usize) {
    let wanted = chance::from_environment("HANGAR_CHURN").map(|clients| vec![clients as usize]);
    let usual = if chance::is_long() { &SIZES[..] } else { &SIZES[..1] };
    for clients in wanted.unwrap_or_else(|| usual.to_vec()) {
        churn_of(engine, servers, clients);
    }
}

fn churn_of(engine: Engine, servers: usize, clients: usize) {
    let first = Server::start_on(engine);
    let others: Vec<Server> = (1..servers).map(|_| first.beside()).collect();
    let servers: Vec<&Server> = [&first].into_iter().chain(&others).collect();
    let from = revision(&first.client().get(MAPS).ok());
    // When each write was acknowledged, by its revision; deletions by their objects, each of which has one.
    let written = Mutex::new(BTreeMap::new());
    let (errors, began) = (AtomicUsize::new(0), Instant::now());
    // All are connected before the first writes: what is tested is churn of objects, not of connections.
    let (connecting, connected) = ([(); CONNECTING].map(|()| Mutex::new(())), Barrier::new(clients));
    let seen: Vec<Vec<Event>> = std::thread::scope(|scope| {
        let watch = |number: usize| {
            let client = servers[number % servers.len()].client();
            let path = format!("{MAPS}?watch=true&resourceVersion={from}&labelSelector={SELECTOR}");
            let watch = client.watch(&path);
            scope.spawn(move || until_the_fence(&watch))
        };
        let watchers: Vec<_> = (0..clients).map(watch).collect();
        let write = |number: usize| {
            let client = servers[number % servers.len()].client().patient_for(PATIENCE);
            let (written, errors, connecting, connected) = (&written, &errors, &connecting, &connected);
            scope.spawn(move || {
                let turn = connecting[number % CONNECTING].lock().unwrap();
                // Who cannot connect now will say so when it writes.
                let _ = client.try_send("GET", "/version", None, b"");
                drop(turn);
                connected.wait();
                let (acknowledged, failed) = live(&client, &format!("churn-{number}"));
                errors.fetch_add(failed, Ordering::SeqCst);
                written.lock().unwrap().extend(acknowledged);
            })
        };
        let writers: Vec<_> = (0..clients).map(write).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        first.client().post(MAPS, &object(FENCE, 0)).ok();
        watchers.into_iter().map(|watcher| watcher.join().unwrap()).collect()
    });
    let written = written.into_inner().unwrap();
    assert_eq!(errors.load(Ordering::SeqCst), 0, "writes failed");
    assert_eq!(written.len(), clients * (UPDATES + 2));
    let mut lags = Vec::new();
    for events in &seen {
        let what = |event: &Event| (event.revision, event.what.clone(), event.name.clone());
        assert!(events.iter().map(what).eq(seen[0].iter().map(what)), "two watchers saw different things");
        assert!(events.is_sorted_by(|a, b| a.revision < b.revision));
        let count = events.iter().filter(|event| written.contains_key(&event.change())).count();
        assert_eq!(count, written.len(), "events of what was written");
        assert_eq!(events.len(), written.len(), "and of nothing else");
        let lag = |event: &Event| event.at.saturating_duration_since(written[&event.change()]);
        lags.extend(events.iter().map(lag));
    }
    lags.sort();
    let at = |share: usize| lags[(lags.len() - 1) * share / 100];
    println!(
        "{engine:?}, {clients} clients and as many watchers: {} writes and {} events in {:?}; no write failed, \
         no event was lost; lag {:?} (median), {:?} (99 %)",
        written.len(),
        lags.len(),
        began.elapsed(),
        at(50),
        at(99),
    );
}

/// A revision, or the object whose only deletion it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Change {
    At(u64),
    End(String),
}

struct Event {
    what: String,
    name: String,
    revision: u64,
    at: Instant,
}

impl Event {
    fn of(event: &Value) -> Event {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["object"];
        assert_ne!(event["type"], "ERROR", "{event:#}");
        let (what, name) = (text(&event["type"]), text(&object["metadata"]["name"]));
        Event { what, name, revision: revision(object), at: Instant::now() }
    }

    fn change(&self) -> Change {
        match self.what.as_str() {
            "DELETED" => Change::End(self.name.clone()),
            _ => Change::At(self.revision),
        }
    }
}

fn until_the_fence(watch: &Watch) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        let event = watch.next_within(PATIENCE).expect("the fence comes last");
        let event = Event::of(&event);
        if event.name == FENCE {
            return seen;
        }
        seen.push(event);
    }
}

fn object(name: &str, turn: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"churn": "yes"}}, "data": {"turn": turn.to_string()},
    })
}

/// Creates, updates and deletes one object. What was acknowledged, and how much was not.
fn live(client: &Client, name: &str) -> (Vec<(Change, Instant)>, usize) {
    let (mut acknowledged, mut failed) = (Vec::new(), 0);
    let path = format!("{MAPS}/{name}");
    let send = |method: &str, path: &str, body: &Value| {
        client.try_send(method, path, Some("application/json"), body.to_string().as_bytes())
    };
    for turn in 0..UPDATES + 2 {
        let answer = match turn {
            0 => send("POST", MAPS, &object(name, turn)),
            _ if turn <= UPDATES => send("PUT", &path, &object(name, turn)),
            _ => send("DELETE", &path, &json!({})),
        };
        match answer {
            Ok(answer) if (200..300).contains(&answer.code) => {
                let change = match turn {
                    _ if turn <= UPDATES => Change::At(revision(&answer.json())),
                    _ => Change::End(name.to_owned()),
                };
                acknowledged.push((change, Instant::now()));
            }
            Ok(answer) => {
                println!("{name}: {}: {}", answer.code, answer.text());
                failed += 1;
            }
            Err(error) => {
                println!("{name}: {error}");
                failed += 1;
            }
        }
    }
    (acknowledged, failed)
}
