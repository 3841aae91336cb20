//! The binary as users run it, driven by real clients.
//!
//! [`Server`] is a `hangar up` of its own for each test: it starts in a moment, and a test that ends finds its
//! log free of errors and its exit clean, or fails. [`Kubectl`] is every version of kubectl on the machine;
//! [`Transcript`] is what a person types and what they must see. [`ControlPlane`] is one of many on a
//! server. [`Client`] speaks HTTP for what no kubectl would say. A server stores in what its test binary stands for
//! ([`Engine`]), and others can serve beside it from the same [`Database`]. [`chance`] is what differs from run to run,
//! [`chart`] what Helm makes of our charts.
//!
//! Not here: anything of Hangar's own crates. These tests know what is public: the binary, the wire, the files.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

pub mod chance;
pub mod chart;
mod client;
mod control_plane;
mod database;
mod kubectl;
pub mod linearizable;
mod patterns;
mod server;
mod transcript;

pub use client::{Answer, Client, Credentials, Watch};
pub use control_plane::ControlPlane;
pub use database::{Database, Engine};
pub use kubectl::{Kubectl, Version};
pub use server::{Server, binary, tools_dir};
pub use transcript::Transcript;
