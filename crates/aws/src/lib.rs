//! AWS as objects: service models, protocols, signing, resource rules.
//!
//! [`model`] is what AWS publishes about its services; `protocol` writes requests and reads responses by it;
//! `client` signs and sends them.
//!
//! Not here: Kubernetes. Reconciling is the `provision` crate's.

pub mod client;
pub mod crd;
pub mod credentials;
pub mod driver;
pub mod endpoint;
pub mod grants;
pub mod iam;
pub mod kinds;
pub mod model;
pub mod protocol;
pub mod rules;
mod sign;
pub mod value;
