//! Revisions, ranges and watches over one of several engines.
//!
//! Everything above this crate sees [`Store`]; nothing above it knows which engine runs.
//! A key is always (tenant, type, namespace, name), so whatever is done to a tenant is done to a range.
//!
//! Not here: objects. This crate moves bytes and knows nothing of Kubernetes.

mod interface;

pub use interface::*;
