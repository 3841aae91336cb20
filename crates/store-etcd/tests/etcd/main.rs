//! The store on a real etcd, which is started for each test.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod cached;
mod conformance;
mod life;
mod opening;
mod replicas;
mod restarts;
mod server;
mod way;
