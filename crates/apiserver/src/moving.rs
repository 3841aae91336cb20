//! A control plane moves from one store to another, with everything in it and under its own keys.
//!
//! | step | what is there then |
//! |---|---|
//! | intend | `_move` in the source, which is served as before |
//! | copy | a copy under seal, which nobody finds, of what was there at one revision |
//! | catch up | the copy has all that was written meanwhile, but for the last moment |
//! | freeze | `_frozen` in the source, which every write checks: no process can write past it |
//! | catch up | the copy has everything |
//! | **decide** | `_move` says so: from here on there is no way back |
//! | leave | the source is gone: who still asks it is told to come again, and reads nothing old |
//! | open | the copy is served; controllers are told to look at it |
//!
//! Only freezing to opening is a pause. What breaks off before the decision is called off, what breaks off after it is
//! finished ([`Engines::settle`]). To call off is to take away the `_move` that was read, to decide is to change it:
//! of a mover that was paused and whoever came after it, one succeeds, and only who called it off removes the copy.
//!
//! Revisions only grow: an imported tenant begins beyond what the exported one can have served. Watches end, and
//! whoever comes again with an old revision has to list.

mod copying;
mod settling;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use objects::{CompactString, Reason, Status};
use serde::{Deserialize, Serialize};
use store::{Expect, Key, Operation, Revision, StoreError, Tenant};

use self::copying::Copying;
use crate::engine::{Engine, no_control_plane};
use crate::engines::Engines;
use crate::service::Failure;

const FROZEN: &str = "_frozen";
const MOVE: &str = "_move";

/// Taken away from a control plane when it is served from its new store, or was made as a copy: whoever follows the store
/// looks at all of it.
/// Not one of the server's own kinds, because those who follow everything do not see these.
pub const ARRIVAL: &str = "arrivals.hangar.dev";

/// The name of that mark on a copy, whose original goes on: who looks after something outside leaves it to the original.
pub const COPIED: &str = "copied";

/// What a store error says of a write that met a control plane on its way.
pub(crate) const UNDERWAY: &str = "the control plane is being moved to another store";

fn key(kind: &str) -> Key {
    Key::new(kind, "", "")
}

/// What a write of any object depends on.
pub(crate) fn check() -> Operation {
    Operation::Check { key: key(FROZEN), expect: Expect::Absent }
}

/// A write that met a control plane on its way is to be tried again soon, and finds it where it went.
pub(crate) fn explain(error: StoreError) -> StoreError {
    match error {
        StoreError::Conflict { key, .. } if key.kind == FROZEN => {
            StoreError::Unavailable(UNDERWAY.to_owned())
        }
        error => error,
    }
}

pub(crate) fn underway() -> Status {
    Status::new(Reason::ServiceUnavailable, UNDERWAY).retry_after(1)
}

/// For a request that had found a control plane where it is no longer.
pub(crate) fn elsewhere() -> Status {
    let message = "the control plane is no longer where it was; please try again";
    Status::new(Reason::ServiceUnavailable, message).retry_after(1)
}

/// What stands under `_move`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Intent {
    /// The store to move to.
    to: CompactString,
    /// Whether the copy there is whole.
    decided: bool,
}

impl Intent {
    fn put(&self, expect: Expect) -> Result<Operation, Failure> {
        let value = Bytes::from(serde_json::to_vec(self).map_err(Status::internal)?);
        Ok(Operation::Put { key: key(MOVE), expect, value })
    }
}

/// A move that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub from: CompactString,
    pub to: CompactString,
    /// Keys that it has.
    pub entries: u64,
    pub took: Duration,
    /// For how long it could not be written.
    pub pause: Duration,
}

impl Engines {
    /// Moves a control plane to another store; none if it is there already. Returns when it is served from there.
    /// What an earlier move left behind has to be settled before.
    pub async fn move_to(&self, name: &str, to: &Arc<Engine>) -> Result<Option<Moved>, Failure> {
        let Some((from, _)) = self.find(name).await? else { return Err(no_control_plane().into()) };
        if Arc::ptr_eq(from, to) {
            return Ok(None);
        }
        let Some(tenant) = from.store.tenant(name).await? else { return Err(elsewhere().into()) };
        if to.store.tenant(name).await?.is_some() {
            let message = format!("the store {:?} has a control plane {name:?} of its own", to.name);
            return Err(Status::new(Reason::AlreadyExists, message).into());
        }
        let intent = Intent { to: to.name.clone(), decided: false };
        // The copy's row is made now and stored later.
        let _held = from.config.keys.hold();
        let begun = match from.store.write(tenant.id, vec![intent.put(Expect::Absent)?]).await {
            Err(StoreError::Conflict { .. }) => return Err(underway().into()),
            begun => begun?,
        };
        let moving = Move { from, to, tenant: &tenant, begun };
        let moved = moving.carry_out().await;
        if moved.is_err() {
            // The store to move to may be what failed: the control plane is written again in any case.
            settling::call_off(from, tenant.id, begun).await?;
            self.settle(name, from.planes.charter(&tenant)?.owner.as_deref()).await?;
        }
        moved.map(Some)
    }
}

struct Move<'a> {
    from: &'a Arc<Engine>,
    to: &'a Arc<Engine>,
    tenant: &'a Tenant,
    /// The revision of the intent: whoever finds another one there has been overtaken.
    begun: Revision,
}

impl Move<'_> {
    async fn carry_out(&self) -> Result<Moved, Failure> {
        let began = Instant::now();
        let mut copying = Copying::begin(self.from, self.to, self.tenant).await?;
        copying.catch_up().await?;
        let paused = Instant::now();
        let frozen = self.freeze().await?;
        copying.catch_up_to(frozen).await?;
        self.decide().await?;
        settling::finish(self.from, self.to, self.tenant).await?;
        let (pause, took) = (paused.elapsed(), began.elapsed());
        let entries = self.to.store.count(copying.copy, &store::Scope::All).await?;
        Ok(Moved { from: self.from.name.clone(), to: self.to.name.clone(), entries, took, pause })
    }

    async fn freeze(&self) -> Result<Revision, Failure> {
        let still = Operation::Check { key: key(MOVE), expect: Expect::Modified(self.begun) };
        let put = Operation::Put { key: key(FROZEN), expect: Expect::Any, value: Bytes::new() };
        self.unless_overtaken(vec![still, put]).await
    }

    async fn decide(&self) -> Result<(), Failure> {
        let decided = Intent { to: self.to.name.clone(), decided: true };
        self.unless_overtaken(vec![decided.put(Expect::Modified(self.begun))?]).await.map(drop)
    }

    async fn unless_overtaken(&self, operations: Vec<Operation>) -> Result<Revision, Failure> {
        match self.from.store.write(self.tenant.id, operations).await {
            Err(StoreError::Conflict { .. }) => {
                let message = "the move was called off by another server";
                Err(Status::new(Reason::ServiceUnavailable, message).retry_after(1).into())
            }
            written => Ok(written?),
        }
    }
}

#[cfg(test)]
mod tests;
