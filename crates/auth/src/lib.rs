//! Who are you, and what may you do: users, certificates, tokens, RBAC.
//!
//! - [`user::UserInfo`]: who asks. [`pki::Authority`] makes it out of client certificates,
//!   [`tokens`] out of bearer tokens, [`impersonation`] out of the headers of somebody who may.
//! - [`authorize`]: what is asked ([`authorize::Attributes`]) and what is answered
//!   ([`authorize::Decision`]); [`rbac::PolicySnapshot`] is the authorizer of Kubernetes,
//!   [`bootstrap`] the policy every control plane starts with.
//! - [`review`]: the API kinds that ask these questions over the wire.
//!
//! Everything is a function of its arguments. Not here: sockets, the store and the clock. Where a
//! decision needs more (is that service account still there?), the answer says what to look up.

pub mod authorize;
pub mod bootstrap;
pub mod impersonation;
mod keys;
pub mod pki;
pub mod rbac;
pub mod review;
mod secret;
pub mod tokens;
pub mod user;

pub use authorize::{Attributes, Authorizer, Decision};
pub use keys::{KeyError, Signer};
pub use secret::{Secret, same_secret};
pub use user::UserInfo;
