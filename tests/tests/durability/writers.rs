//! Clients that write and remember exactly what they were told, and the books that are made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use end_to_end::{Answer, Client};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::history::Seen;
use super::kinds::{CHARGED, Kind, NAMESPACES, Owners, Place, Version};

/// Objects of each kind that a writer has.
const OBJECTS: u64 = 4;
/// New secrets in one life of the server: they are never removed, and the quota they share is fought for.
const SECRETS: usize = 3;

/// What a writer knows of one of its objects, which nobody else writes.
#[derive(Default)]
struct Fact {
    /// As last acknowledged; none where it is not there.
    known: Option<Version>,
    /// Sent, and never answered.
    attempt: Option<Attempt>,
}

#[derive(Clone, Copy, Debug)]
enum Attempt {
    Put { mark: u64 },
    Delete,
}

pub struct Writer {
    number: u64,
    rng: StdRng,
    marks: u64,
    facts: BTreeMap<Place, Fact>,
    acknowledged: Vec<(Place, Option<Version>)>,
}

impl Writer {
    pub fn new(number: u64, rng: StdRng) -> Writer {
        let mut facts = BTreeMap::new();
        for kind in [Kind::ConfigMap, Kind::Deployment, Kind::Service] {
            for i in 0..OBJECTS {
                let namespace = NAMESPACES[(number + i) as usize % NAMESPACES.len()].to_owned();
                facts.insert(Place { kind, namespace, name: format!("w{number}-{i}") }, Fact::default());
            }
        }
        Writer { number, rng, marks: 0, facts, acknowledged: Vec::new() }
    }

    /// Writes whatever comes to mind until the server does not answer any more.
    pub fn write(&mut self, client: &Client, owners: &Owners, killed: &AtomicBool) {
        let mut secrets = 0;
        loop {
            let place = match self.rng.random_range(0..10) {
                0 if secrets < SECRETS => {
                    secrets += 1;
                    let name = format!("w{}-{}", self.number, self.marks);
                    Place { kind: Kind::Secret, namespace: CHARGED.to_owned(), name }
                }
                _ => {
                    let chosen = self.rng.random_range(0..self.facts.len());
                    self.facts.keys().nth(chosen).unwrap().clone()
                }
            };
            if !self.write_once(client, owners, place, killed) {
                return;
            }
        }
    }

    /// Returns whether there was an answer.
    fn write_once(&mut self, client: &Client, owners: &Owners, place: Place, killed: &AtomicBool) -> bool {
        self.marks += 1;
        let mark = self.number * 1_000_000 + self.marks;
        let fact = self.facts.entry(place.clone()).or_default();
        let removes = fact.known.is_some() && place.kind != Kind::Secret && self.rng.random_ratio(1, 4);
        fact.attempt = Some(if removes { Attempt::Delete } else { Attempt::Put { mark } });
        let way = self.rng.random_range(0..5);
        let answer = if removes {
            client.try_send("DELETE", &place.path(), None, b"")
        } else {
            put(client, &place, fact.known, place.object(mark, owners), mark, way)
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => {
                assert!(killed.load(Ordering::SeqCst), "{place:?}: no answer from a living server: {why}");
                return false;
            }
        };
        fact.attempt = None;
        if answer.code == 409 && place.kind == Kind::Secret {
            // All writers want the same quota at once; whoever loses too often is told so.
            return true;
        }
        assert!((200..300).contains(&answer.code), "{place:?}: {}: {}", answer.code, answer.text());
        fact.known = (!removes).then(|| Version::of(&answer.json()));
        self.acknowledged.push((place, fact.known));
        true
    }
}

/// One of the ways to write an object.
fn put(
    client: &Client,
    place: &Place,
    known: Option<Version>,
    object: Value,
    mark: u64,
    way: u32,
) -> Result<Answer, ureq::Error> {
    let annotations = json!({"metadata": {"annotations": {"mark": mark.to_string()}}});
    let send = |method: &str, path: &str, content_type: &str, body: Value| {
        client.try_send(method, path, Some(content_type), body.to_string().as_bytes())
    };
    let path = place.path();
    let apply = || {
        let path = format!("{path}?fieldManager=writer&force=true");
        send("PATCH", &path, "application/apply-patch+yaml", object.clone())
    };
    match (known, way) {
        _ if place.kind == Kind::Deployment => apply(),
        (_, 0) => apply(),
        (None, _) => send("POST", &place.collection(), "application/json", object),
        (Some(_), 1) => send("PATCH", &path, "application/merge-patch+json", annotations),
        (Some(_), 2) => send("PATCH", &path, "application/strategic-merge-patch+json", annotations),
        (Some(_), 3) => {
            let operation =
                json!([{"op": "replace", "path": "/metadata/annotations/mark", "value": mark.to_string()}]);
            send("PATCH", &path, "application/json-patch+json", operation)
        }
        (Some(known), _) => {
            let mut object = object;
            object["metadata"]["resourceVersion"] = known.revision.to_string().into();
            send("PUT", &path, "application/json", object)
        }
    }
}

/// An object that nobody has written yet; whoever has seen it has seen all that was written before.
pub fn fence(client: &Client, owners: &Owners, kind: Kind, number: u64) -> (Place, Version) {
    let namespace = if kind == Kind::Secret { CHARGED } else { NAMESPACES[0] };
    let place = Place { kind, namespace: namespace.to_owned(), name: format!("fence-{number}") };
    let made = client.post(&place.collection(), &place.object(0, owners)).ok();
    (place, Version::of(&made))
}

/// What all writers were told together.
#[derive(Default)]
pub struct Books {
    /// The highest revision anybody has seen.
    pub highest: u64,
    /// Writes in all.
    pub count: usize,
    owned: BTreeSet<Place>,
    /// Since they were last compared.
    writes: BTreeMap<u64, (Place, u64)>,
    deletions: BTreeMap<Place, usize>,
}

impl Books {
    /// Takes over what a writer was told, and finds out what became of what it was not told about.
    pub fn take(&mut self, writer: &mut Writer, listed: &BTreeMap<Place, Version>) {
        for (place, version) in writer.acknowledged.drain(..) {
            self.enter(place, version);
        }
        for (place, fact) in &mut writer.facts {
            self.owned.insert(place.clone());
            let found = listed.get(place).copied();
            let attempt = fact.attempt.take();
            if found == fact.known {
                continue;
            }
            let newer = |found: Version| fact.known.is_none_or(|known| found.revision > known.revision);
            match (attempt, found) {
                (Some(Attempt::Put { mark }), Some(found)) if found.mark == mark && newer(found) => {}
                (Some(Attempt::Delete), None) => {}
                _ => panic!(
                    "{place:?}: acknowledged was {:?}, then was tried {attempt:?}, but there is {found:?}",
                    fact.known
                ),
            }
            fact.known = found;
            self.enter(place.clone(), found);
        }
    }

    pub fn fence(&mut self, place: Place, version: Version) {
        self.owned.insert(place.clone());
        self.enter(place, Some(version));
    }

    fn enter(&mut self, place: Place, version: Option<Version>) {
        self.count += 1;
        match version {
            Some(Version { revision, mark }) => {
                self.highest = self.highest.max(revision);
                let before = self.writes.insert(revision, (place.clone(), mark));
                assert!(before.is_none(), "revision {revision} is that of {before:?} and of {place:?}");
            }
            None => *self.deletions.entry(place).or_default() += 1,
        }
    }

    /// There is nothing that nobody wrote.
    pub fn check_nobody_else(&self, listed: &BTreeMap<Place, Version>) {
        for place in listed.keys() {
            assert!(self.owned.contains(place), "nobody wrote {place:?}");
        }
    }

    /// What was seen since the last time is exactly what was written.
    pub fn compare(&mut self, kind: Kind, seen: &[Seen]) {
        let (written, rest) =
            std::mem::take(&mut self.writes).into_iter().partition(|(_, (place, _))| place.kind == kind);
        self.writes = rest;
        let (deleted, rest) =
            std::mem::take(&mut self.deletions).into_iter().partition(|(place, _)| place.kind == kind);
        self.deletions = rest;
        let (written, deleted): (BTreeMap<u64, (Place, u64)>, BTreeMap<Place, usize>) = (written, deleted);
        let mut seen_written = BTreeMap::new();
        let mut seen_deleted = BTreeMap::<Place, usize>::new();
        for event in seen {
            let place = Place { kind, namespace: event.namespace.clone(), name: event.name.clone() };
            match event.what.as_str() {
                "DELETED" => *seen_deleted.entry(place).or_default() += 1,
                _ => drop(seen_written.insert(event.revision, (place, event.mark))),
            }
        }
        let unseen: Vec<_> =
            written.iter().filter(|(revision, write)| seen_written.get(revision) != Some(write)).collect();
        assert!(unseen.is_empty(), "written and not seen by the watch: {unseen:?}");
        let unwritten: Vec<_> =
            seen_written.keys().filter(|revision| !written.contains_key(revision)).collect();
        assert!(unwritten.is_empty(), "seen by the watch, but never written: {unwritten:?}");
        assert_eq!(seen_deleted, deleted, "deletions seen, and those that were");
    }
}
