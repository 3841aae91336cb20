//! Outgoing connections that a control plane causes.
//!
//! A tenant chooses where webhooks, state backends, module sources and cloud endpoints are. Every connection to such a
//! destination is made here. [`Policy`] decides which addresses may be dialled, [`dial`] opens a TCP connection to one,
//! [`Client`] makes HTTP calls. A [`Caller`] is a control plane with all of these at hand.
//!
//! **Invariants:** the policy is asked about the socket address that is dialled, after names have been resolved.
//! [`NoResponse`] has the same text whatever went wrong, so that a tenant cannot map the operator's network; the cause
//! goes to the log. Only destinations that the operator chose ([`Policy::unrestricted`]) are told of with the cause.

mod bounded;
mod caller;
mod client;
mod dial;
mod policy;
mod pool;
mod ranges;
#[cfg(test)]
mod tests;
mod tls;
mod turns;

use async_trait::async_trait;

pub use bounded::Bounded;
pub use caller::{Caller, Egress};
pub use client::{CallError, Client, Terms};
pub use dial::{NoResponse, dial};
pub use policy::{Policy, Refusal};
pub use ranges::{RangeError, Ranges};
pub use tls::Tls;
pub use turns::Limits;

/// Where the policies of control planes come from.
#[async_trait]
pub trait Policies: Send + Sync {
    /// That of the installation, and what the control plane of this name is allowed beyond it.
    async fn of(&self, control_plane: &str) -> Policy;
}

/// The same for all control planes.
#[async_trait]
impl Policies for Policy {
    async fn of(&self, _: &str) -> Policy {
        self.clone()
    }
}
