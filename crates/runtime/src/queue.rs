//! Keys that wait to be reconciled: each once, control planes in turn, failures later.
//!
//! Plain data with the time passed in; the loop that owns it is in `run`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use objects::CompactString;
use store::Position;
use tokio::time::Instant;

use crate::controller::{Next, Request};
use crate::metrics::QueueDepth;

/// The first failure is tried again at once for most purposes; then the waits double.
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// A key of one controller in one control plane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Item {
    pub controller: usize,
    pub request: Request,
}

/// Where a known key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the line of its control plane.
    Ready,
    /// In `parked`, under this.
    Parked(Instant, u64),
    /// Being reconciled; perhaps asked for again meanwhile, since this position and after this delay.
    Running(Option<(Position, Duration)>),
}

struct Entry {
    place: Place,
    failures: u32,
    /// The first change that asked for it and is not done yet.
    since: Position,
}

/// A control plane that has something ready or running.
#[derive(Default)]
struct Line {
    ready: VecDeque<Arc<Item>>,
    running: usize,
    /// Whether it has a place in `turns`.
    in_turn: bool,
}

pub(crate) struct Queue {
    entries: HashMap<Arc<Item>, Entry>,
    lines: HashMap<CompactString, Line>,
    /// Control planes with something ready and not too much running, in the order of their turns.
    turns: VecDeque<CompactString>,
    parked: BTreeMap<(Instant, u64), Arc<Item>>,
    parkings: u64,
    running: usize,
    ready: usize,
    /// Reconciles of one control plane at once.
    share: usize,
    /// Keys of one control plane that may be ready.
    line: usize,
}

impl Queue {
    pub fn new(share: usize, line: usize) -> Queue {
        Queue {
            entries: HashMap::new(),
            lines: HashMap::new(),
            turns: VecDeque::new(),
            parked: BTreeMap::new(),
            parkings: 0,
            running: 0,
            ready: 0,
            share,
            line,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn depth(&self) -> QueueDepth {
        QueueDepth { ready: self.ready, parked: self.parked.len(), running: self.running }
    }

    /// How many keys of a control plane wait for a worker.
    pub fn ready_of(&self, control_plane: &str) -> usize {
        self.lines.get(control_plane).map_or(0, |line| line.ready.len())
    }

    /// Asks for a key because of a change at `since`. Returns whether there was room for it: if not, whoever asked
    /// has to look at the change again later.
    #[must_use]
    pub fn add(&mut self, item: Item, since: Position, delay: Duration, now: Instant) -> bool {
        self.add_below(self.line, item, since, delay, now)
    }

    /// The same for what a reconcile asks for: it has some room that changes do not have, so that its control plane comes
    /// to an end of what it has.
    #[must_use]
    pub fn add_following(&mut self, item: Item, since: Position, delay: Duration, now: Instant) -> bool {
        self.add_below(2 * self.line, item, since, delay, now)
    }

    fn add_below(&mut self, line: usize, item: Item, since: Position, delay: Duration, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&item) else {
            if delay.is_zero() && self.ready_of(&item.request.control_plane) >= line {
                return false;
            }
            let item = Arc::new(item);
            let place = Place::Ready;
            self.entries.insert(item.clone(), Entry { place, failures: 0, since });
            if delay.is_zero() {
                self.ready(item);
            } else {
                self.park(item, now + delay);
            }
            return true;
        };
        match &mut entry.place {
            Place::Ready => entry.since = entry.since.min(since),
            Place::Running(again) => {
                let (position, wait) = again.unwrap_or((since, delay));
                *again = Some((position.min(since), wait.min(delay)));
            }
            Place::Parked(due, number) => {
                entry.since = entry.since.min(since);
                if now + delay < *due {
                    let at = (*due, *number);
                    if let Some(item) = self.parked.remove(&at) {
                        if delay.is_zero() { self.ready(item) } else { self.park(item, now + delay) }
                    }
                }
            }
        }
        true
    }

    fn ready(&mut self, item: Arc<Item>) {
        if let Some(entry) = self.entries.get_mut(&item) {
            entry.place = Place::Ready;
        }
        let plane = item.request.control_plane.clone();
        let line = self.lines.entry(plane.clone()).or_default();
        line.ready.push_back(item);
        self.ready += 1;
        self.line_up(&plane);
    }

    fn park(&mut self, item: Arc<Item>, due: Instant) {
        self.parkings += 1;
        if let Some(entry) = self.entries.get_mut(&item) {
            entry.place = Place::Parked(due, self.parkings);
        }
        self.parked.insert((due, self.parkings), item);
    }

    fn line_up(&mut self, plane: &CompactString) {
        let Some(line) = self.lines.get_mut(plane) else { return };
        if line.ready.is_empty() {
            if line.running == 0 && !line.in_turn {
                self.lines.remove(plane);
            }
        } else if !line.in_turn && line.running < self.share {
            line.in_turn = true;
            self.turns.push_back(plane.clone());
        }
    }

    /// When the first parked key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.parked.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next key to reconcile, of the control plane whose turn it is.
    pub fn pop(&mut self, now: Instant) -> Option<Arc<Item>> {
        while let Some(first) = self.parked.first_entry().filter(|first| first.key().0 <= now) {
            let item = first.remove();
            self.ready(item);
        }
        let plane = self.turns.pop_front()?;
        let line = self.lines.get_mut(&plane)?;
        line.in_turn = false;
        let item = line.ready.pop_front()?;
        line.running += 1;
        self.ready -= 1;
        self.running += 1;
        if let Some(entry) = self.entries.get_mut(&item) {
            entry.place = Place::Running(None);
        }
        self.line_up(&plane);
        Some(item)
    }

    /// A key that was popped has been reconciled; none is a failure. `chance` in [0, 1) spreads retries.
    pub fn done(&mut self, item: &Arc<Item>, outcome: Option<Next>, now: Instant, chance: f64) {
        let plane = &item.request.control_plane;
        if let Some(line) = self.lines.get_mut(plane) {
            line.running = line.running.saturating_sub(1);
        }
        self.running = self.running.saturating_sub(1);
        if let Some(entry) = self.entries.get_mut(item) {
            let again = if let Place::Running(again) = entry.place { again } else { None };
            match (outcome, again) {
                (Some(next), Some((since, delay))) => {
                    let mut failures = 0;
                    entry.since = since;
                    let delay = match next {
                        Next::Done => delay,
                        Next::Again => Duration::ZERO,
                        Next::After(wait) => wait.min(delay),
                        Next::Backoff => {
                            failures = entry.failures.saturating_add(1);
                            backoff(failures, chance).min(delay)
                        }
                    };
                    entry.failures = failures;
                    if delay.is_zero() {
                        self.ready(item.clone())
                    } else {
                        self.park(item.clone(), now + delay)
                    }
                }
                (Some(Next::Done), None) => drop(self.entries.remove(item)),
                (Some(Next::Again), None) => {
                    entry.failures = 0;
                    self.ready(item.clone());
                }
                (Some(Next::After(wait)), None) => {
                    entry.failures = 0;
                    self.park(item.clone(), now + wait);
                }
                (Some(Next::Backoff), None) => {
                    entry.failures = entry.failures.saturating_add(1);
                    let wait = backoff(entry.failures, chance);
                    self.park(item.clone(), now + wait);
                }
                (None, again) => {
                    entry.since = again.map_or(entry.since, |(since, _)| since.min(entry.since));
                    entry.failures = entry.failures.saturating_add(1);
                    let wait = backoff(entry.failures, chance);
                    self.park(item.clone(), now + wait);
                }
            }
        }
        self.line_up(&plane.clone());
    }

    /// A key that is being reconciled waits for something slow: others have its worker meanwhile. It is still not given
    /// to anybody else.
    pub fn leave(&mut self, item: &Item) {
        let plane = &item.request.control_plane;
        if let Some(line) = self.lines.get_mut(plane) {
            line.running = line.running.saturating_sub(1);
        }
        self.running = self.running.saturating_sub(1);
        self.line_up(plane);
    }

    /// What it waited for has come.
    pub fn return_to(&mut self, item: &Item) {
        self.lines.entry(item.request.control_plane.clone()).or_default().running += 1;
        self.running += 1;
    }

    /// Every key, and when it is due.
    pub fn all(&self, now: Instant) -> impl Iterator<Item = (&Item, Duration)> {
        self.entries.iter().map(move |(item, entry)| match entry.place {
            Place::Parked(due, _) => (&**item, due.saturating_duration_since(now)),
            Place::Ready | Place::Running(_) => (&**item, Duration::ZERO),
        })
    }

    /// The first change that asked for a key and is not done yet.
    pub fn since(&self, item: &Item) -> Option<Position> {
        self.entries.get(item).map(|entry| entry.since)
    }

    /// The first change that is not done.
    pub fn oldest(&self) -> Option<Position> {
        self.entries.values().map(|entry| entry.since).min()
    }

    /// Memory that a busy time left behind is given back.
    pub fn shrink(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > 1_024 {
            self.entries = HashMap::new();
            self.lines = HashMap::new();
            self.turns = VecDeque::new();
        }
    }
}

/// Doubling, and up to half of it left to chance.
fn backoff(failures: u32, chance: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    let whole = FIRST_BACKOFF.saturating_mul(1 << doublings).min(LONGEST_BACKOFF);
    whole.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
