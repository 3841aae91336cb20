//! Who did what, when, to which object of which control plane: one line of JSON per stage of a request.
//!
//! A [`Policy`] decides how much of a request is told; a [`Record`] goes along with the request and collects it;
//! the [`Log`] writes lines of all control planes to one file, each with the name of its control plane in the
//! annotation [`CONTROL_PLANE`]. A server without a log makes no records, and pays a comparison per request.
//!
//! Not here: when the stages are reached (see `service` and `trail`).

mod event;
mod log;
mod policy;
mod record;
#[cfg(test)]
mod tests;

pub use log::{Log, LogOptions, WhenFull};
pub use policy::{Level, Policy, PolicyError, Stage};
pub(crate) use record::{Asked, Record};

/// The annotation that names the control plane of an event.
pub const CONTROL_PLANE: &str = "hangar.dev/control-plane";
/// The uid of the object that the control plane was made for: another of the same name has another.
pub const CONTROL_PLANE_UID: &str = "hangar.dev/control-plane-uid";
