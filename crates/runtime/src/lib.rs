//! Controllers over a fleet of control planes: one stream of changes, one fair queue, one set of workers for all.
//!
//! [`Runtime`] reads the changes of a [`Fleet`], asks each [`Controller`] what they mean to it, and has the keys it
//! names reconciled: once at a time each, control planes in turn, failures again after a while. What is not done
//! yet survives a restart by the [`Cursor`].
//!
//! **Invariants:** an idle control plane or key has nothing here: no task, timer, client or entry. The cursor never
//! passes a change whose keys are neither done nor listed in it. A control plane with much to do waits for itself.
//!
//! Processes that share a fleet take turns: by [`Leases`] of a store, each for a [`Shard`] of it where there are such, or as
//! a [`Candidate`] for a Lease of a cluster.
//!
//! Not here: what is to be done (see `controllers`).

mod aside;
mod controller;
mod cursor;
mod election;
mod event;
mod fleet;
mod in_process;
mod lease;
mod members;
mod metrics;
mod queue;
mod remote;
mod run;
mod scan;
mod shard;

pub use aside::Bounds;
pub use controller::{Context, Controller, Error, Kinds, News, Next, Request, Triggers};
pub use cursor::{Cursor, Parked, Pending};
pub use election::{Candidate, Leadership};
pub use event::{Change, Event, Told};
pub use fleet::{Changes, Fleet, FleetError, Identity, Stream};
pub use in_process::InProcessFleet;
pub use lease::{Leases, Term, Terms};
pub use metrics::{ControllerMetrics, Metrics, QueueDepth};
pub use remote::RemoteFleet;
pub use run::{Handle, Options, Runtime, run};
pub use shard::Shard;
pub use store::{Key, Position, Revision};
