//! What is wrong with an object, with the field paths and sentences that users of Kubernetes know.
//!
//! One function per kind, each over a [`Place`]: a value that knows where in the object it stands and
//! collects what is said about it. Metadata is checked in `objects`, shapes and types by the schema;
//! here is what only the meaning of the fields tells.

mod access;
mod admission;
mod cluster;
mod config;
mod containers;
mod cron;
mod devices;
mod jobs;
mod network;
mod place;
mod pod_updates;
mod pods;
mod quotas;
mod scheduling;
mod security;
mod selectors;
mod services;
mod storage;
#[cfg(test)]
mod tests;
mod volumes;
pub(crate) mod warnings;
mod workloads;

pub(crate) use self::access::*;
pub(crate) use self::admission::*;
pub(crate) use self::cluster::*;
pub(crate) use self::config::*;
pub(crate) use self::devices::*;
pub(crate) use self::jobs::*;
pub(crate) use self::network::*;
pub(crate) use self::place::{Place, checked};
pub(crate) use self::pod_updates::*;
pub(crate) use self::pods::*;
pub(crate) use self::quotas::*;
pub(crate) use self::services::*;
pub(crate) use self::storage::*;
pub(crate) use self::workloads::*;
