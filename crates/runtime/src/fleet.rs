//! Where control planes come from: all of this process, or others by the network.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use auth::user::{MASTERS, UserInfo};
use http::HeaderValue;
use objects::{CompactString, Value};
use store::{Key, Position, Revision};

use crate::controller::Kinds;
use crate::cursor::Cursor;
use crate::event::{Event, Told};

/// As whom a controller asks, where the fleet lets it choose.
#[derive(Clone, Debug)]
pub struct Identity {
    pub user: Arc<UserInfo>,
    /// What its writes are tracked by.
    pub agent: HeaderValue,
}

impl Identity {
    /// Somebody who may do everything.
    pub fn administrator(name: &str, agent: &'static str) -> Identity {
        let user = Arc::new(UserInfo::new(name, [MASTERS]).authenticated());
        Identity { user, agent: HeaderValue::from_static(agent) }
    }
}

#[derive(thiserror::Error, Debug)]
pub enum FleetError {
    /// The changes asked for are no longer known: everything has to be looked at.
    #[error("changes after position {0:?} are no longer known")]
    Expired(Position),
    /// The fleet is closing; there is nothing more to follow.
    #[error("the fleet is closing")]
    Closed,
    /// The store is away, which is told by whoever watches over it.
    #[error("{0}")]
    Away(String),
    #[error("{0}")]
    Failed(String),
}

/// Changes, in order.
pub type Changes = Pin<Box<dyn futures::Stream<Item = Result<Told, FleetError>> + Send>>;
/// What a sweep finds.
pub type Stream = Pin<Box<dyn futures::Stream<Item = Result<Event, FleetError>> + Send>>;

/// A source of control planes: all of them, or those of one shard.
#[async_trait]
pub trait Fleet: Send + Sync + 'static {
    /// Changes of these kinds in all control planes after a position, in order, without end.
    async fn follow(&self, kinds: &Kinds, from: Position) -> Result<Changes, FleetError>;

    /// Everything of these kinds that is there now, in all control planes, or in one, in the order of control planes, kinds
    /// and keys; what comes behind `after` only. Read as it is asked for.
    fn sweep(
        &self,
        kinds: &Kinds,
        control_plane: Option<CompactString>,
        after: Option<(CompactString, Key)>,
    ) -> Stream;

    /// Changes of these kinds in one control plane after a revision of it, up to and with another one. Read as it is
    /// asked for. [`FleetError::Expired`] if they are no longer known.
    fn replay(&self, kinds: &Kinds, control_plane: CompactString, after: Revision, to: Revision) -> Stream;

    /// Where [`Fleet::follow`] would begin now.
    async fn position(&self) -> Result<Position, FleetError>;

    /// Whether a control plane is served from here (still): errors of one that is not are nobody's fault.
    async fn has(&self, _control_plane: &str) -> bool {
        true
    }

    /// One object as it is stored, without asking as anybody: what an informer's cache is elsewhere.
    async fn get(&self, control_plane: &str, key: &Key) -> Result<Option<Value>, FleetError>;

    /// All objects of a kind, in one namespace or (empty) in all.
    async fn list(&self, control_plane: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, FleetError>;

    /// A client for one control plane, whether it is there or not: if not, all its answers are 404.
    fn client(&self, control_plane: &str, identity: &Identity) -> kube::Client;

    /// How far this set of controllers had come, if it ever ran.
    async fn load(&self) -> Result<Option<Cursor>, FleetError>;

    async fn save(&self, cursor: &Cursor) -> Result<(), FleetError>;
}
