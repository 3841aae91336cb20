//! The latest events of all tenants, in memory: what a watch that begins near the present reads instead of etcd.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use store::{Event, Position};
use tokio::sync::watch;

/// A place within all of etcd's history: its revision, and which of the objects changed by it.
///
/// etcd numbers transactions, not the changes within them; a reader of ours may stop between two changes.
const INDEX_BITS: u32 = 17;
const LAST_INDEX: u64 = (1 << INDEX_BITS) - 1;

/// The position of one change of a revision.
pub(crate) fn position(revision: u64, index: u64) -> Position {
    Position(revision.min(u64::MAX >> INDEX_BITS) << INDEX_BITS | index.min(LAST_INDEX))
}

/// The position behind all changes of a revision.
pub(crate) fn position_after(revision: u64) -> Position {
    position(revision, LAST_INDEX)
}

pub(crate) fn revision_at(position: Position) -> u64 {
    position.0 >> INDEX_BITS
}

/// The first revision that may have changes after a position.
pub(crate) fn next_revision(position: Position) -> u64 {
    revision_at(position) + u64::from(position.0 & LAST_INDEX == LAST_INDEX)
}

pub(crate) struct Recent {
    state: Mutex<State>,
    /// The last revision seen: who has read something newer from etcd waits for it here.
    reached: watch::Sender<u64>,
    limit: usize,
}

struct State {
    /// Everything after this revision, up to the one reached, is in `events`.
    floor: u64,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

pub(crate) struct Snapshot {
    pub events: Vec<Arc<Event>>,
    pub reached: u64,
}

fn weight(event: &Event) -> usize {
    event.value.len() + event.previous.as_ref().map_or(0, |previous| previous.len()) + 256
}

impl Recent {
    /// `limit` is how many bytes of events are kept.
    pub(crate) fn new(limit: usize, floor: u64) -> Recent {
        let state = Mutex::new(State { floor, events: VecDeque::new(), bytes: 0 });
        Recent { state, reached: watch::Sender::new(floor), limit }
    }

    pub(crate) fn reached(&self) -> u64 {
        *self.reached.borrow()
    }

    pub(crate) fn floor(&self) -> u64 {
        self.state.lock().floor
    }

    /// Takes the events of a revision.
    pub(crate) fn push(&self, revision: u64, events: &[Arc<Event>]) {
        let mut state = self.state.lock();
        for event in events {
            state.bytes += weight(event);
            state.events.push_back(event.clone());
        }
        while state.bytes > self.limit {
            let Some(event) = state.events.pop_front() else { break };
            state.bytes = state.bytes.saturating_sub(weight(&event));
            state.floor = revision_at(event.position);
        }
        // Within the lock: whoever sees that it was reached finds the events.
        self.reached.send_replace(revision);
    }

    /// Begins anew after a gap.
    pub(crate) fn reset(&self, floor: u64) {
        let mut state = self.state.lock();
        *state = State { floor, events: VecDeque::new(), bytes: 0 };
        self.reached.send_replace(floor);
    }

    pub(crate) async fn wait_for(&self, revision: u64) {
        // The sender is ours, so it is not gone.
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= revision).await;
    }

    /// The events after a position that `wanted` accepts, or none if older ones have been dropped.
    pub(crate) fn after(&self, position: Position, wanted: impl Fn(&Event) -> bool) -> Option<Snapshot> {
        let state = self.state.lock();
        if next_revision(position) <= state.floor {
            return None;
        }
        let first = state.events.partition_point(|event| event.position <= position);
        let events = state.events.range(first..).filter(|event| wanted(event)).cloned().collect();
        Some(Snapshot { events, reached: *self.reached.borrow() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use bytes::Bytes;
    use store::{Change, Key, Revision, TenantId};

    use super::*;

    fn event(revision: u64, index: u64) -> Arc<Event> {
        Arc::new(Event {
            tenant: TenantId(1),
            key: Key::new("things", "", format!("{revision}-{index}")),
            change: Change::Created,
            revision: Revision(revision),
            created: Revision(revision),
            value: Bytes::from_static(&[0; 744]),
            previous: None,
            position: position(revision, index),
            derived: OnceLock::new(),
        })
    }

    fn names(recent: &Recent, after: Position) -> Option<Vec<String>> {
        let snapshot = recent.after(after, |_| true)?;
        Some(snapshot.events.iter().map(|event| event.key.name.to_string()).collect())
    }

    #[test]
    fn what_was_dropped_is_not_pretended_to_be_there() {
        // Room for four.
        let recent = Recent::new(4000, 10);
        assert_eq!(names(&recent, position_after(10)), Some(vec![]));
        assert_eq!(names(&recent, position_after(9)), None);
        for revision in [12, 15] {
            recent.push(revision, &[event(revision, 0), event(revision, 1)]);
        }
        let strings = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(names(&recent, position_after(10)), strings(&["12-0", "12-1", "15-0", "15-1"]));
        assert_eq!(names(&recent, position(12, 0)), strings(&["12-1", "15-0", "15-1"]));
        assert_eq!(names(&recent, position_after(13)), strings(&["15-0", "15-1"]));
        recent.push(16, &[event(16, 0)]);
        // Half of revision 12 is gone, so nothing of it can be read here.
        assert_eq!(names(&recent, position_after(11)), None);
        assert_eq!(names(&recent, position(12, 0)), None);
        assert_eq!(names(&recent, position_after(12)), strings(&["15-0", "15-1", "16-0"]));
        recent.reset(20);
        assert_eq!(names(&recent, position_after(16)), None);
        assert_eq!((recent.reached(), recent.floor()), (20, 20));
    }
}
