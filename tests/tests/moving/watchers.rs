//! Clients that list and watch as informers do: on from where they were, and anew where they are told that this is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::load::{Doors, FENCE, mark, marks, name, revision};

const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);
const SELECTOR: &str = "labelSelector=moving%3Dyes";

/// What one of them saw.
pub struct Seen {
    pub there: BTreeMap<String, u64>,
    pub lists: usize,
    /// From one list to the next: after which revision, up to which, and those of the events between.
    stretches: Vec<(u64, u64, BTreeSet<u64>)>,
}

impl Seen {
    /// Every acknowledged write that falls into a stretch was told there. Returns how many those are.
    pub fn compare(&self, acknowledged: &BTreeMap<u64, (String, u64)>) -> usize {
        let mut count = 0;
        for (from, to, events) in &self.stretches {
            for (revision, write) in acknowledged.range((Excluded(*from), Included(*to))) {
                assert!(
                    events.contains(revision),
                    "{write:?} at {revision} was not seen between {from} and {to}"
                );
                count += 1;
            }
        }
        count
    }
}

/// Until the fence is seen.
pub fn watch(doors: &Doors, first: usize) -> Seen {
    let mut seen = Seen { there: BTreeMap::new(), lists: 0, stretches: Vec::new() };
    let (mut position, mut door, began) = (0, first, Instant::now());
    while !seen.there.contains_key(FENCE) {
        assert!(began.elapsed() < PATIENCE, "the fence is not seen");
        match list(doors, door) {
            None => std::thread::sleep(PAUSE),
            Some(listed) => {
                seen.lists += 1;
                assert!(revision(&listed) >= position, "a list at {} after {position}", revision(&listed));
                position = revision(&listed);
                seen.there = marks(&listed);
                let from = position;
                let events = follow(doors, &mut door, &mut position, &mut seen.there);
                seen.stretches.push((from, position, events));
            }
        }
        door += 1;
    }
    seen
}

fn list(doors: &Doors, door: usize) -> Option<Value> {
    let answer =
        doors.client(door).try_send("GET", &format!("{}?{SELECTOR}", doors.maps()), None, b"").ok()?;
    match answer.code {
        200 => Some(answer.json()),
        429 | 503 | 504 => None,
        code => panic!("{code}: {}", answer.text()),
    }
}

/// Watches on until it has to list again, or has seen the fence.
fn follow(
    doors: &Doors,
    door: &mut usize,
    position: &mut u64,
    there: &mut BTreeMap<String, u64>,
) -> BTreeSet<u64> {
    let mut events = BTreeSet::new();
    while !there.contains_key(FENCE) {
        let path = format!("{}?watch=true&resourceVersion={position}&{SELECTOR}", doors.maps());
        let watch = match doors.client(*door).try_watch(&path) {
            Ok(watch) => watch,
            Err(why) if why.starts_with("410") => return events,
            Err(why) => {
                assert!(!why.starts_with("404"), "{why}");
                *door += 1;
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        while !there.contains_key(FENCE) {
            match watch.next_within(PAUSE) {
                Ok(event) if event["type"] == "ERROR" => {
                    assert_eq!(event["object"]["code"], 410, "{event:#}");
                    return events;
                }
                Ok(event) => {
                    let at = revision(&event["object"]);
                    assert!(at > *position, "{event} after {position}");
                    *position = at;
                    events.insert(at);
                    enter(&event, there);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    events
}

fn enter(event: &Value, there: &mut BTreeMap<String, u64>) {
    let object = &event["object"];
    let before = match event["type"].as_str() {
        Some("DELETED") => there.remove(&name(object)).filter(|before| *before == mark(object)).is_some(),
        Some("ADDED") => there.insert(name(object), mark(object)).is_none(),
        _ => there.insert(name(object), mark(object)).is_some_and(|before| before < mark(object)),
    };
    assert!(before, "{event} does not follow from what was seen");
}
