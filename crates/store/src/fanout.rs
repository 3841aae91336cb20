//! One fan-out for all watches of all tenants.
//!
//! A watch reads the log until it has caught up, and then lives on a channel that it shares with everyone who
//! watches the same type of the same tenant. A commit touches the channels of what it changed and no others; a
//! channel that nobody watches does not exist. Events in channels are bounded together, by bytes ([`Hub`]): a watch
//! that falls behind that reads the log again, at its own pace. No watch has a queue of its own.
//!
//! An engine brings its [`Log`], and publishes what it commits.

mod hub;
mod watcher;

use std::sync::Arc;

use async_trait::async_trait;
use compact_str::CompactString;

use crate::{Event, Position, Revision, Scope, StoreError, TenantId};

pub use hub::Hub;
pub(crate) use hub::{Relay, weight};
pub use watcher::{feed, watch};

/// When a watch tells how far it is while it has nothing else to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// With the beats of the hub.
    OnBeats,
    /// With those, and whenever all of a revision has been told.
    AtOnce,
}

/// How far a watch has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub revision: Revision,
    pub position: Position,
}

/// Some of the log, in order.
#[derive(Debug)]
pub struct Chunk {
    pub events: Vec<Arc<Event>>,
    /// Everything up to here was looked at.
    pub read: Cursor,
    /// Whether there was no more when the chunk was read.
    pub caught_up: bool,
}

/// The log as an engine keeps it. A chunk is of bounded size, and of one moment.
#[async_trait]
pub trait Log: Send + Sync + 'static {
    /// Changes of `scope` after `after`. At the end of the log, `read` is the tenant's current revision and the
    /// store's current position.
    async fn tenant_events(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Cursor,
    ) -> Result<Chunk, StoreError>;

    /// Changes of all tenants after a position.
    async fn all_events(&self, kinds: &Kinds, after: Position) -> Result<Chunk, StoreError>;
}

/// Which types a feed carries.
#[derive(Clone, Debug)]
pub struct Kinds(Vec<CompactString>);

impl Kinds {
    /// These types, or, when none is named, all but the server's own.
    pub fn new(kinds: Vec<CompactString>) -> Self {
        Kinds(kinds)
    }

    pub fn contains(&self, kind: &str) -> bool {
        if self.0.is_empty() { !kind.starts_with('_') } else { self.0.iter().any(|named| named == kind) }
    }
}
