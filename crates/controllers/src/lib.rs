//! What `kube-controller-manager` does for a control plane without nodes, for all of them at once.
//!
//! One file per controller, each a [`runtime::Controller`]; [`denatured`] is the set of them. They read through the
//! runtime, write through `kube::Client` as upstream's service accounts with upstream's roles, and keep nothing for
//! a control plane in which nothing happens.
//!
//! Not here: workloads (deployments, jobs and the like), nodes, and anything a control plane of its own type adds.

mod aggregation;
mod certificates;
mod conditions;
mod countdown;
mod definitions;
mod event_expiry;
mod garbage;
mod legacy_tokens;
mod namespace;
mod quota;
mod resource;
mod root_certificate;
mod service_account;
#[cfg(test)]
mod tests;
mod token_cleaner;
mod volume_protection;

use std::sync::Arc;

use apiserver::Engine;
use runtime::Controller;

pub use aggregation::RoleAggregation;
pub use certificates::Certificates;
pub use definitions::Definitions;
pub use event_expiry::EventExpiry;
pub use garbage::GarbageCollector;
pub use legacy_tokens::LegacyTokens;
pub use namespace::Namespaces;
pub use quota::Quotas;
pub use root_certificate::RootCertificates;
pub use service_account::ServiceAccounts;
pub use token_cleaner::TokenCleaner;
pub use volume_protection::{ClaimProtection, VolumeProtection};

/// The controllers of a control plane without workloads.
pub fn denatured(engine: &Arc<Engine>) -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(Namespaces::new(engine.clone())),
        Box::new(GarbageCollector::new(engine.clone())),
        Box::new(ServiceAccounts),
        Box::new(RootCertificates::new(engine.config.serving_authority.clone())),
        Box::new(LegacyTokens::new(engine.clone())),
        Box::new(TokenCleaner),
        Box::new(Certificates::new(engine.clone())),
        Box::new(Definitions::new(engine.clone())),
        Box::new(RoleAggregation),
        Box::new(ClaimProtection),
        Box::new(VolumeProtection),
        Box::new(Quotas),
        Box::new(EventExpiry::default()),
    ]
}
