//! One request from decode to answer, for any control plane.
//!
//! [`ApiServer`] is a `tower::Service`. The way of a request is the order of the modules:
//! [`service`] receives it with its [`Door`], `stations` establish who asks and whether they may,
//! [`verbs`] do it, [`write`] admits, validates and commits, [`codec`] is how objects lie in the store.
//! [`surface`] is the table of types that everything is driven by.
//!
//! **Invariants:** the control plane comes from the door and every store call takes its id. Objects that need no
//! conversion are served as the bytes that were stored. There is no handler per kind: a kind is a row.
//!
//! Not here: sockets (see `listener`), controllers (see `controllers`), configuration.

mod absent;
mod admit;
pub mod audit;
pub mod backup;
mod body;
pub mod call;
pub mod catalog;
pub mod codec;
mod compress;
pub mod control_plane;
mod convert;
mod crd;
mod door;
mod elsewhere;
mod encryption;
mod engine;
mod engines;
pub mod extension;
#[cfg(test)]
mod fixture;
pub mod foreign;
mod foresight;
mod genesis;
mod in_process;
mod incoming;
mod lifecycle;
mod managed;
pub mod metrics;
mod moving;
mod owners;
mod paths;
mod present;
mod pulse;
mod read;
mod replicas;
pub mod route;
pub mod service;
mod stations;
mod subresources;
pub mod surface;
mod trail;
mod verbs;
mod webhook;
mod write;

pub use body::{Body, BoxError, status_response};
pub use door::Door;
pub use elsewhere::Elsewhere;
pub use encryption::{DataKeys, InstallationKeys, KeySource};
pub use engine::{Config, DEDICATED_STORE, DEFAULT_STORE, Engine, Issuers};
pub use engines::Engines;
pub use extension::{Extension, Needed, RotationFailure, RotationReport, Rotator, Writing};
pub use foresight::Foresight;
pub use genesis::{Beginning, root_certificate};
pub use in_process::{Dependants, InProcess, Unconverted};
pub use moving::{ARRIVAL, COPIED, Moved};
pub use service::ApiServer;
pub use stations::fairness::Limits;
