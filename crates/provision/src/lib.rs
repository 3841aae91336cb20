//! The cloud engine: one reconcile for every cloud resource.
//!
//! A [`Driver`] knows a cloud: which kinds there are, what is there, what would change, and how to make it so. The
//! engine does the rest, the same for all of them: policies, references, secrets, finalizers, adoption, the journal
//! that keeps a crash from making a resource twice, drift, limits, and telling the user in the [`Dialect`] that the
//! kind's users know.
//!
//! **Invariants:** a resource is never made twice and never lost: an intent stands on the object before the call
//! that makes it, and what the call made is recorded before anything else is done. A resource that is as desired
//! causes no write, neither in the cloud nor on its object. Nothing is kept for an idle control plane.
//!
//! Not here: how any cloud is called. Only drivers know; see `aws` and `terraform`.

mod applied;
pub mod calls;
pub mod dialect;
pub mod driver;
pub mod engine;
mod events;
pub mod facts;
pub mod failure;
pub mod intent;
pub mod limits;
mod machine;
pub mod metrics;
mod pass;
pub mod paths;
pub mod plan;
pub mod policies;
pub mod reading;
mod references;
pub mod review;
pub mod secrets;
#[cfg(test)]
mod tests;
mod writing;

pub use calls::{Calls, OperationType};
pub use dialect::Dialect;
pub use driver::{
    Connection, Deleted, Driver, LateInitialization, Made, Observation, Observed, Place, Readiness, Record,
    Recovery, RoleSelected, Subject, Surroundings, Updated,
};
pub use engine::{Engine, Settings, Watched, WeakEngine};
pub use facts::{Facts, Reference, SecretField};
pub use failure::{Class, Failure};
pub use intent::{Action, Intent};
pub use limits::{LimitKey, Limits, Pace};
pub use metrics::Metrics;
pub use plan::{Change, Plan, Preview, Verb};
pub use reading::{Dependants, FleetSource, Interest, Reader, Source};
pub use review::Reviewing;
pub use secrets::Secrets;
