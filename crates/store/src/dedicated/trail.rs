//! What happened in all tenants, in one order: each database has only its own.
//!
//! Positions are given as commits are told of, which is before whoever committed is answered. They are of this run of the
//! store: when it was not closed, or when somebody asks for more than is remembered, they are said to be compacted, and
//! whoever follows looks at everything once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::fanout::{Chunk, Cursor, Hub, Kinds, Log, weight};
use crate::{Event, Position, Retention, Revision, Scope, StoreError, TenantId};

/// Events handed over at once.
const CHUNK: usize = 500;

pub(super) struct Trail {
    pub(super) hub: Arc<Hub>,
    retention: Retention,
    state: Mutex<State>,
}

struct State {
    /// Everything after `before`, without a gap.
    kept: VecDeque<(Instant, Arc<Event>)>,
    bytes: u64,
    before: u64,
}

impl State {
    fn last(&self) -> u64 {
        self.before + self.kept.len() as u64
    }

    fn drop_oldest(&mut self) {
        if let Some((_, event)) = self.kept.pop_front() {
            self.before += 1;
            self.bytes -= weight(&event) as u64;
        }
    }
}

impl Trail {
    pub(super) fn new(begin: Position, retention: Retention) -> Arc<Trail> {
        let state = State { kept: VecDeque::new(), bytes: 0, before: begin.0 };
        let hub = Hub::new(usize::try_from(retention.bytes).unwrap_or(usize::MAX));
        Arc::new(Trail { hub, retention, state: Mutex::new(state) })
    }

    /// Told by each database, after each commit.
    pub(super) fn tell(&self, events: &[Arc<Event>]) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut told = Vec::with_capacity(events.len());
        for event in events {
            let event = Arc::new(Event {
                tenant: event.tenant,
                key: event.key.clone(),
                change: event.change,
                revision: event.revision,
                created: event.created,
                value: event.value.clone(),
                previous: event.previous.clone(),
                position: Position(state.last() + 1),
                derived: Default::default(),
            });
            state.bytes += weight(&event) as u64;
            state.kept.push_back((now, event.clone()));
            told.push(event);
        }
        while state.bytes > self.retention.bytes {
            state.drop_oldest();
        }
        // While it is locked, so that all are told in one order.
        self.hub.publish(&told, &[], &[]);
    }

    pub(super) fn position(&self) -> Position {
        Position(self.state.lock().last())
    }

    /// Whether what comes after a position can be told.
    pub(super) fn readable(&self, from: Position) -> Result<(), StoreError> {
        let state = self.state.lock();
        if from.0 > state.last() {
            return Err(StoreError::Future { asked: Revision(from.0), current: Revision(state.last()) });
        }
        if from.0 < state.before {
            return Err(StoreError::Compacted { asked: Revision(from.0), oldest: Revision(state.before) });
        }
        Ok(())
    }

    /// Drops what is beyond a retention.
    pub(super) fn compact(&self, retention: Retention) {
        let mut state = self.state.lock();
        let is_old = |(time, _): &(Instant, Arc<Event>)| time.elapsed() >= retention.age;
        while state.bytes > retention.bytes || state.kept.front().is_some_and(is_old) {
            state.drop_oldest();
        }
        if state.kept.is_empty() {
            state.kept = VecDeque::new();
        }
    }

    /// The same, beyond its own; whether there is nothing left.
    pub(super) fn tidy(&self) -> bool {
        self.compact(self.retention);
        self.state.lock().kept.is_empty()
    }
}

#[async_trait]
impl Log for Trail {
    async fn tenant_events(&self, _: TenantId, _: &Scope, _: Cursor) -> Result<Chunk, StoreError> {
        // Watches of one tenant are its database's.
        Err(StoreError::NoTenant)
    }

    async fn all_events(&self, kinds: &Kinds, after: Position) -> Result<Chunk, StoreError> {
        self.readable(after)?;
        let state = self.state.lock();
        let Some(skip) = after.0.checked_sub(state.before) else {
            return Err(StoreError::Compacted { asked: Revision(after.0), oldest: Revision(state.before) });
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let looked_at = state.kept.len().saturating_sub(skip).min(CHUNK);
        let events = state.kept.iter().skip(skip).take(looked_at).map(|(_, event)| event);
        let events = events.filter(|event| kinds.contains(&event.key.kind)).cloned().collect();
        let position = Position(after.0 + looked_at as u64);
        let read = Cursor { revision: Revision(0), position };
        Ok(Chunk { events, read, caught_up: position.0 == state.last() })
    }
}
