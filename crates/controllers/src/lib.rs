//! What `kube-controller-manager` does for a control plane without nodes, for all of them at once.
//!
//! One file per controller, each a [`runtime::Controller`]; [`denatured`] is the set of them. They read through the
//! runtime, write through `kube::Client` as upstream's service accounts with upstream's roles, and keep nothing for
//! a control plane in which nothing happens.
//!
//! Not here: workloads (deployments, jobs and the like), nodes, and anything a control plane of its own type adds.

mod conditions;
mod garbage;
mod namespace;
mod resource;
mod root_certificate;
mod service_account;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use apiserver::Engine;
use runtime::Controller;

pub use garbage::GarbageCollector;
pub use namespace::Namespaces;
pub use root_certificate::RootCertificates;
pub use service_account::ServiceAccounts;

/// The controllers of a control plane without workloads.
pub fn denatured(engine: &Arc<Engine>) -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(Namespaces::new(engine.clone())),
        Box::new(GarbageCollector::new(engine.clone())),
        Box::new(ServiceAccounts),
        Box::new(RootCertificates::new(engine.config.serving_authority.clone())),
    ]
}
