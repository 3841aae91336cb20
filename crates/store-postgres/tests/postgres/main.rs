//! The store on a real PostgreSQL, which these tests start for themselves.

// Also what tests share says where it failed by failing there.
#![allow(clippy::unwrap_used)]

mod cached;
mod conformance;
mod encryption;
mod fences;
mod kine;
mod opening;
mod outages;
mod proxy;
mod replicas;
mod server;
