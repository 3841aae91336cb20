//! Emulators of AWS of a test's own ([`Emulator`]), on free ports, gone with the test; an [`Account`] to look at what is in
//! them; and a [`Proxy`] in front of them that sees every call, and does wrong by script what networks and services do.
//!
//! The driver's tests and the end-to-end tests both start from this.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod account;
mod emulator;
mod proxy;

pub use account::{Account, REGION};
pub use emulator::{Emulator, Program};
pub use proxy::{Call, Fault, Proxy};
