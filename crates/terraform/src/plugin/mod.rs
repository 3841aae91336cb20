//! Provider plugins as processes: started, asked, watched, and stopped.
//!
//! [`Pool`] hands out a [`Provider`] for a program and a configuration; everybody in a control plane with the same two
//! shares one process. [`Isolation`] is what the process sees and whom it reaches.
//! [`Provider`] asks in terms of schemas and values; [`process`] is the life of one process and [`handshake`] and
//! [`tls`] are how it is met.
//!
//! A plugin is somebody else's program. It may hang, crash, write without end or answer nonsense: each call has its
//! time, each answer its size, its output is read and mostly dropped, and none of it reaches another plugin's users.

mod answers;
mod beside;
mod call;
mod catalogue;
mod ephemeral;
mod handshake;
mod isolation;
mod journal;
mod listing;
mod pool;
pub(crate) mod process;
mod provider;
mod stamp;
mod tls;

use std::time::Duration;

pub use answers::{Applied, ImportBy, Imported, Planned, Source, State, Told};
pub use catalogue::{Catalogue, Function, IdentityAttribute, IdentitySchema, Parameter};
pub use ephemeral::{Ephemeral, Hold};
pub use isolation::{Isolation, ProviderPath};
pub use listing::{Listed, Listing};
pub use pool::{Lease, Pool, PoolSettings};
pub use process::Launch;
pub use provider::Provider;
pub use stamp::Stamp;

use crate::diagnostic::Diagnostics;
use crate::schema::SchemaError;
use crate::value::ValueError;

/// How long a plugin may take, and how much it may say.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the start of the process to the line that says where it listens.
    pub start: Duration,
    /// Calls that only look or compute.
    pub look: Duration,
    /// Calls that change something; providers wait in them until the cloud is done.
    pub change: Duration,
    /// One answer, schemas included.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            start: Duration::from_secs(60),
            look: Duration::from_secs(120),
            // Some databases take most of an hour to create.
            change: Duration::from_secs(90 * 60),
            answer_bytes: 64 << 20,
        }
    }
}

/// Why a plugin did not do what was asked. No text of it contains configuration.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PluginError {
    #[error("the program of provider {program} is another than the one that was looked at")]
    Replaced { program: String },
    #[error(
        "no provider is started: {reason}; the operator can let providers run without isolation \
         (--trust-terraform-providers)"
    )]
    NoSandbox { reason: String },
    #[error("provider {program} cannot be started: {reason}")]
    NotStarted { program: String, reason: String },
    #[error("provider {program} is not a program for this machine ({machine}); use the build for it")]
    WrongArchitecture { program: String, machine: &'static str },
    #[error("provider {program} ended ({status}) before it said where it listens{said}")]
    NoHandshake { program: String, status: String, said: String },
    #[error("provider {program} did not say within {} seconds where it listens", .after.as_secs())]
    SlowHandshake { program: String, after: Duration },
    #[error("provider {program} does not speak the plugin protocol: {reason}")]
    Handshake { program: String, reason: String },
    #[error("provider {program} speaks plugin protocol {version}; this host speaks 5 and 6")]
    Protocol { program: String, version: String },
    #[error("provider {program} listens where nobody can connect: {reason}")]
    Connect { program: String, reason: String },
    #[error(
        "too many providers are running ({most}); this one starts when another has been idle for a while"
    )]
    TooMany { most: usize },
    #[error("provider {program} failed; it is started again in less than {} s: {last}", .wait.as_secs() + 1)]
    BackingOff { program: String, wait: Duration, last: String },
    #[error("the provider cannot do {call}")]
    Unsupported { call: &'static str },
    #[error("the provider did not answer {call} within {} seconds", .after.as_secs())]
    TimedOut { call: &'static str, after: Duration },
    /// Nothing of the call has reached it.
    #[error("the provider was not there for {call} ({status})")]
    Unsent { call: &'static str, status: String },
    #[error("the provider ended during {call} ({status})")]
    Died { call: &'static str, status: String },
    #[error("the provider answered {call} with more than {most} bytes")]
    TooLarge { call: &'static str, most: usize },
    #[error("the provider failed in {call}: {reason}")]
    Failed { call: &'static str, reason: String },
    /// Something else has to be there first.
    #[error("the provider puts {call} off: {why}")]
    Deferred { call: &'static str, why: &'static str },
    #[error("the provider answered {call} with what is no answer: {reason}")]
    Nonsense { call: &'static str, reason: String },
    #[error("{0}")]
    Refused(Diagnostics),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("the provider has no {what} {name:?}")]
    NoSuch { what: &'static str, name: String },
    #[error("the value does not fit the provider's schema: {0}")]
    Value(#[from] ValueError),
}

impl PluginError {
    /// The process is of no more use to anybody.
    pub fn is_fatal(&self) -> bool {
        matches!(self, PluginError::TimedOut { .. } | PluginError::Died { .. } | PluginError::Unsent { .. })
    }
}
