//! The store on a real etcd, which is started for each test.

mod conformance;
mod life;
mod opening;
mod replicas;
mod restarts;
mod server;
