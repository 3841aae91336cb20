//! Clients that write through any server, try again at another, and know exactly what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use end_to_end::{Answer, Client};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::load::Fleet;
use crate::watchers::Seen;

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Those of these tests.
pub const SELECTOR: &str = "replicas%3Dyes";
const OBJECTS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap()
}

/// Of the write that made it so; none write the same.
pub fn mark(object: &Value) -> u64 {
    object["data"]["mark"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A write as it was acknowledged, or found to have been done.
#[derive(Clone, Debug)]
struct Written {
    name: String,
    mark: u64,
    /// Which server acknowledged it, and when.
    acknowledged: Option<(usize, Instant)>,
}

pub struct Writer {
    number: usize,
    rng: StdRng,
    marks: u64,
    /// Revisions of what is there, which nobody else writes.
    known: BTreeMap<String, u64>,
    written: BTreeMap<u64, Written>,
    deleted: BTreeMap<String, usize>,
    pub cut: usize,
    pub refused: usize,
    pub done_and_not_told: usize,
}

#[derive(Clone, Copy)]
enum Intent {
    Put(u64),
    Delete,
}

enum Outcome {
    Done(Value),
    /// Nobody can say whether it was done.
    Doubtful,
}

impl Writer {
    pub fn new(number: usize, rng: StdRng) -> Writer {
        let (known, written, deleted) = Default::default();
        Writer { number, rng, marks: 0, known, written, deleted, cut: 0, refused: 0, done_and_not_told: 0 }
    }

    /// One write to one of its objects, whatever it takes, and a look at it through the other servers.
    pub fn write(&mut self, fleet: &Fleet) {
        let name = format!("w{}-{}", self.number, self.rng.random_range(0..OBJECTS));
        self.marks += 1;
        let intent = match self.known.contains_key(&name) && self.rng.random_ratio(1, 5) {
            true => Intent::Delete,
            false => Intent::Put(self.number as u64 * 1_000_000 + self.marks),
        };
        self.carry_out(fleet, &name, intent);
        fleet.count_a_write();
        self.look_everywhere(fleet, &name, intent);
    }

    /// Returns its revision.
    pub fn create(&mut self, fleet: &Fleet, name: &str) -> u64 {
        self.marks += 1;
        self.carry_out(fleet, name, Intent::Put(self.number as u64 * 1_000_000 + self.marks));
        self.known[name]
    }

    fn carry_out(&mut self, fleet: &Fleet, name: &str, intent: Intent) {
        let (began, mut doubtful) = (Instant::now(), false);
        loop {
            let server = fleet.choose(&mut self.rng);
            match self.try_once(fleet.client(server), name, intent, doubtful) {
                Outcome::Done(object) => {
                    return self.enter(name, intent, &object, Some((server, Instant::now())));
                }
                Outcome::Doubtful => doubtful = true,
            }
            if let Some(object) = self.find_out(fleet, name, intent) {
                self.done_and_not_told += 1;
                return self.enter(name, intent, &object, None);
            }
            assert!(began.elapsed() < PATIENCE, "{name} cannot be written for {PATIENCE:?}");
            std::thread::sleep(PAUSE);
        }
    }

    fn try_once(&mut self, client: &Client, name: &str, intent: Intent, tried: bool) -> Outcome {
        let answer = match send(client, name, self.known.get(name).copied(), intent) {
            Ok(answer) => answer,
            Err(_) => {
                self.cut += 1;
                return Outcome::Doubtful;
            }
        };
        match answer.code {
            200..300 => Outcome::Done(answer.json()),
            429 | 503 | 504 => {
                self.refused += 1;
                Outcome::Doubtful
            }
            // What was tried before was done after all.
            404 | 409 if tried => Outcome::Doubtful,
            code => panic!("{name}: {code}: {}", answer.text()),
        }
    }

    /// What became of a write that was not answered; none where it was not done. It may still be.
    fn find_out(&mut self, fleet: &Fleet, name: &str, intent: Intent) -> Option<Value> {
        let began = Instant::now();
        loop {
            let server = fleet.choose(&mut self.rng);
            let found = fleet.client(server).try_send("GET", &format!("{MAPS}/{name}"), None, b"");
            let known = self.known.get(name).copied();
            match found.map(|answer| (answer.code, answer)) {
                Ok((200, answer)) => {
                    let object = answer.json();
                    return match intent {
                        Intent::Put(wanted) if mark(&object) == wanted => Some(object),
                        _ if known == Some(revision(&object)) => None,
                        _ => panic!("{name}: at {known:?} as last known, but there is {object:#}"),
                    };
                }
                Ok((404, _)) => {
                    return match intent {
                        Intent::Delete => Some(Value::Null),
                        Intent::Put(_) if known.is_none() => None,
                        Intent::Put(_) => panic!("{name} is gone, and was at {known:?}"),
                    };
                }
                Ok((429 | 503 | 504, _)) | Err(_) => {}
                Ok((code, answer)) => panic!("{name}: {code}: {}", answer.text()),
            }
            assert!(began.elapsed() < PATIENCE, "{name} cannot be read for {PATIENCE:?}");
            std::thread::sleep(PAUSE);
        }
    }

    fn enter(&mut self, name: &str, intent: Intent, object: &Value, acknowledged: Option<(usize, Instant)>) {
        match intent {
            Intent::Delete => {
                self.known.remove(name);
                *self.deleted.entry(name.to_owned()).or_default() += 1;
            }
            Intent::Put(wanted) => {
                assert_eq!(mark(object), wanted, "{object:#}");
                let (revision, name) = (revision(object), name.to_owned());
                let before = self.known.insert(name.clone(), revision);
                assert!(before.is_none_or(|before| before < revision), "{name}: {revision} after {before:?}");
                self.written.insert(revision, Written { name, mark: wanted, acknowledged });
            }
        }
    }

    /// Whoever answers, answers with what was just written. Whoever does not is being killed.
    fn look_everywhere(&mut self, fleet: &Fleet, name: &str, intent: Intent) {
        let by_list = self.rng.random_ratio(1, 8);
        for (number, client) in fleet.clients.iter().enumerate() {
            let path = match by_list {
                true => format!("{MAPS}?fieldSelector=metadata.name%3D{name}"),
                false => format!("{MAPS}/{name}"),
            };
            let Ok(answer) = client.try_send("GET", &path, None, b"") else { continue };
            let found = match answer.code {
                200 if by_list => answer.json()["items"].as_array().unwrap().first().cloned(),
                200 => Some(answer.json()),
                404 => None,
                429 | 503 | 504 => continue,
                code => panic!("{name}: {code}: {}", answer.text()),
            };
            let found = found.map(|object| mark(&object));
            let expected = match intent {
                Intent::Put(mark) => Some(mark),
                Intent::Delete => None,
            };
            assert_eq!(found, expected, "{name} at server {number}, after its write was acknowledged");
        }
    }
}

/// Only what is as it is known to be is written over or deleted.
fn send(client: &Client, name: &str, known: Option<u64>, intent: Intent) -> Result<Answer, ureq::Error> {
    let path = format!("{MAPS}/{name}");
    let json = Some("application/json");
    match (intent, known) {
        (Intent::Put(mark), known) => {
            let mut object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {"replicas": "yes"}}, "data": {"mark": mark.to_string()},
            });
            match known {
                None => client.try_send("POST", MAPS, json, object.to_string().as_bytes()),
                Some(known) => {
                    object["metadata"]["resourceVersion"] = known.to_string().into();
                    client.try_send("PUT", &path, json, object.to_string().as_bytes())
                }
            }
        }
        (Intent::Delete, known) => {
            let known = known.expect("only what is there is deleted").to_string();
            let options = json!({"preconditions": {"resourceVersion": known}}).to_string();
            client.try_send("DELETE", &path, json, options.as_bytes())
        }
    }
}

/// What all writers did together.
pub struct Books {
    written: BTreeMap<u64, Written>,
    deleted: BTreeMap<String, usize>,
    known: BTreeMap<String, u64>,
}

pub fn merge(writers: &[Writer]) -> Books {
    let (mut written, mut deleted, mut known) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for writer in writers {
        for (revision, write) in &writer.written {
            let before = written.insert(*revision, write.clone());
            assert!(before.is_none(), "revision {revision} is that of {before:?} and of {write:?}");
        }
        deleted.extend(writer.deleted.clone());
        known.extend(writer.known.clone());
    }
    Books { written, deleted, known }
}

impl Books {
    pub fn len(&self) -> usize {
        self.written.len() + self.deleted.values().sum::<usize>()
    }

    /// A watch saw exactly what was written, and each once.
    pub fn compare(&self, seen: &[Seen], watcher: usize) {
        let mut deleted = BTreeMap::<String, usize>::new();
        let mut written = BTreeSet::new();
        let mut there = BTreeSet::new();
        for event in seen {
            let was_there = match event.what.as_str() {
                "DELETED" => {
                    *deleted.entry(event.name.clone()).or_default() += 1;
                    there.remove(&event.name)
                }
                _ => {
                    let write = self.written.get(&event.revision).map(|write| (&write.name, write.mark));
                    assert_eq!(write, Some((&event.name, event.mark)), "watcher {watcher} saw {event:?}");
                    written.insert(event.revision);
                    !there.insert(event.name.clone())
                }
            };
            assert_eq!(was_there, event.what != "ADDED", "watcher {watcher} saw {event:?}");
        }
        let unseen: Vec<_> = self.written.iter().filter(|(at, _)| !written.contains(at)).collect();
        assert!(unseen.is_empty(), "watcher {watcher} did not see {unseen:?}");
        assert_eq!(deleted, self.deleted, "deletions that watcher {watcher} saw, and those that were");
    }

    /// What is there is what was written last.
    pub fn compare_list(&self, client: &Client) {
        let list = client.get(&format!("{MAPS}?labelSelector={SELECTOR}")).ok();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        let items = list["items"].as_array().unwrap().iter();
        let listed: BTreeMap<String, u64> = items.map(|object| (name(object), revision(object))).collect();
        assert_eq!(listed, self.known);
    }

    /// From each acknowledgement to the event at another server.
    pub fn delays(&self, seen: &[Seen]) -> Vec<Duration> {
        let delay = |event: &Seen| {
            let (server, at) = self.written.get(&event.revision)?.acknowledged?;
            (server != event.server).then(|| event.at.saturating_duration_since(at))
        };
        seen.iter().filter_map(delay).collect()
    }
}
