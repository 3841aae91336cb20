//! Outgoing connections that a control plane causes.
//!
//! A tenant chooses where webhooks, state backends, module sources and cloud endpoints are. Every connection to such a
//! destination is made here. [`Policy`] decides which addresses may be dialled, [`dial`] opens a TCP connection to one.
//!
//! **Invariants:** the policy is asked about the socket address that is dialled, after names have been resolved.
//! [`NoResponse`] has the same text whatever went wrong, so that a tenant cannot map the operator's network; the cause
//! goes to the log.

mod dial;
mod policy;
mod ranges;

pub use dial::{NoResponse, dial};
pub use policy::{Policy, Refusal};
pub use ranges::{RangeError, Ranges};
