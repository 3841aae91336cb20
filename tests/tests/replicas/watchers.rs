//! Watches that go on at another server when theirs ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use end_to_end::Watch;
use serde_json::Value;

use crate::load::Fleet;
use crate::writers::{MAPS, SELECTOR, mark, revision};

const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Seen {
    pub what: String,
    pub name: String,
    pub revision: u64,
    pub mark: u64,
    /// Which server told it, and when.
    pub server: usize,
    pub at: Instant,
}

impl Seen {
    fn of(event: &Value, server: usize) -> Seen {
        assert_ne!(event["type"], "ERROR", "{event:#}");
        let (object, text) =
            (&event["object"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        Seen {
            what: text(&event["type"]),
            name: text(&object["metadata"]["name"]),
            revision: revision(object),
            mark: mark(object),
            server,
            at: Instant::now(),
        }
    }
}

/// Everything after `from`, up to the revision that `last` comes to hold.
pub fn watch(fleet: &Fleet, first: usize, from: u64, last: &AtomicU64) -> Vec<Seen> {
    let (mut seen, mut position, mut server) = (Vec::new(), from, first);
    let mut waiting_since = Instant::now();
    loop {
        if let Some(watch) = open(fleet, server, position) {
            loop {
                match watch.next_within(PAUSE) {
                    Ok(event) => {
                        let event = Seen::of(&event, server % fleet.len());
                        assert!(event.revision > position, "{event:?} after revision {position}");
                        position = event.revision;
                        seen.push(event);
                        waiting_since = Instant::now();
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                let last = last.load(Ordering::SeqCst);
                if last > 0 && position >= last {
                    assert_eq!(position, last, "nothing was to come after it");
                    return seen;
                }
                let waited = waiting_since.elapsed();
                assert!(last == 0 || waited < PATIENCE, "at {position}, and {last} does not come");
                if last == 0 {
                    waiting_since = Instant::now();
                }
            }
        }
        server += 1;
        std::thread::sleep(PAUSE);
    }
}

/// None where nobody answers; an answer that revisions are gone would be a loss.
fn open(fleet: &Fleet, server: usize, from: u64) -> Option<Watch> {
    let path = format!("{MAPS}?watch=true&resourceVersion={from}&labelSelector={SELECTOR}");
    match fleet.client(server).try_watch(&path) {
        Ok(watch) => Some(watch),
        Err(why) => {
            assert!(!why.starts_with("410"), "a watch cannot go on from {from}: {why}");
            None
        }
    }
}
