//! etcd's watches as revisions, one after the other, each whole.
//!
//! How far a silent watch has come is not asked of etcd: up to 3.4.24 and 3.5.7 its notifications of progress can
//! overtake events. A tenant's head says it instead (see [`crate::log`]).

use std::collections::VecDeque;

use tonic::Streaming;

use crate::engine::Engine;
use crate::keys::Span;
use crate::link::Fault;
use crate::wire::{WatchCreate, WatchEvent, WatchResponse, signed, unsigned};

pub(crate) struct Revisions {
    stream: Streaming<WatchResponse>,
    events: VecDeque<WatchEvent>,
    /// The last of `events` ends its revision.
    whole: bool,
}

pub(crate) struct One {
    pub revision: u64,
    pub events: Vec<WatchEvent>,
}

fn revision_of(event: &WatchEvent) -> u64 {
    event.kv.as_ref().map_or(0, |kv| unsigned(kv.mod_revision))
}

impl Engine {
    /// All changes of a span from a revision on.
    pub(crate) async fn revisions(&self, span: &Span, from: u64) -> Result<Revisions, Fault> {
        let create = WatchCreate {
            key: span.from.clone(),
            range_end: span.to.clone(),
            start_revision: signed(from),
            prev_kv: true,
            fragment: true,
            ..WatchCreate::default()
        };
        let stream = self.link.watch(create).await?;
        Ok(Revisions { stream, events: VecDeque::new(), whole: true })
    }
}

impl Revisions {
    /// The next revision that changed something of the span.
    pub(crate) async fn next(&mut self) -> Result<One, Fault> {
        loop {
            if let Some(revision) = self.events.front().map(revision_of) {
                // Events of a revision come together; a piece may end within one.
                let end = self.events.iter().position(|event| revision_of(event) != revision);
                if let Some(end) = end.or(self.whole.then_some(self.events.len())) {
                    return Ok(One { revision, events: self.events.drain(..end).collect() });
                }
            }
            let response =
                self.stream.message().await.map_err(|status| Fault::Away(status.message().into()))?;
            let Some(response) = response else { return Err(Fault::Away("etcd ended the watch".into())) };
            if response.compact_revision > 0 {
                return Err(Fault::Compacted);
            }
            if response.canceled {
                return Err(match response.cancel_reason.contains("permission denied") {
                    true => Fault::NoRights,
                    false => Fault::Away(format!("etcd ended the watch: {}", response.cancel_reason)),
                });
            }
            self.whole = !response.fragment;
            self.events.extend(response.events);
        }
    }
}
