//! What the standard admission plugins of Kubernetes do, as functions of objects.
//!
//! The API server fetches what a plugin needs to know (the LimitRanges of a namespace, its quotas, the
//! service account of a pod, ...) and calls the plugin's function; the object is changed in place or the
//! request is refused with a [`Refusal`], worded as Kubernetes words it.
//!
//! | plugin | here |
//! |---|---|
//! | NamespaceLifecycle | [`namespace_lifecycle`] |
//! | LimitRanger | [`limit_ranger`] |
//! | ResourceQuota | [`quota`] (also what its controller counts) |
//! | ServiceAccount | [`service_account`] |
//! | Priority | [`priority`] |
//! | DefaultTolerationSeconds, RuntimeClass | [`tolerations`], [`runtime_class`] |
//! | DefaultStorageClass, PersistentVolumeClaimResize | [`storage`] |
//! | TaintNodesByCondition | [`nodes`] |
//! | PodSecurity | [`pod_security`] |
//!
//! Not here: fetching, webhooks and policies, and any state. Time is passed in.

mod amounts;
pub mod limit_ranger;
pub mod namespace_lifecycle;
pub mod nodes;
mod pod;
pub mod pod_security;
pub mod priority;
pub mod quota;
mod refusal;
pub mod runtime_class;
pub mod service_account;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod tolerations;

pub use amounts::Amounts;
pub use refusal::Refusal;

/// What a request does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}
