//! What a provider answers, in values.

use prost::bytes::Bytes;

use super::PluginError;
use crate::diagnostic::{Diagnostics, Path};
use crate::protocol::Call;
use crate::protocol::messages as wire;
use crate::value::Value;

/// A resource as the provider knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub value: Value,
    /// The provider's own notes; nobody else can read them.
    pub private: Bytes,
    pub identity: Option<Value>,
}

impl State {
    /// Of what does not exist.
    pub fn none() -> State {
        State { value: Value::Null, private: Bytes::new(), identity: None }
    }
}

/// An error if the provider cannot say yet: what came with such an answer is a guess.
pub(super) fn unless_deferred(call: Call, deferred: Option<wire::Deferred>) -> Result<(), PluginError> {
    let Some(deferred) = deferred else { return Ok(()) };
    let why = match deferred.reason {
        1 => "the configuration of the resource is not known yet",
        2 => "the configuration of the provider is not known yet",
        3 => "something that it needs does not exist yet",
        _ => "the provider does not say why",
    };
    Err(PluginError::Deferred { call: call.name(), why })
}

/// An answer, and what the provider warns of beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told<T> {
    pub answer: T,
    pub warnings: Diagnostics,
}

impl<T: Default> Told<T> {
    /// As if it had answered that there is nothing.
    pub fn nothing() -> Told<T> {
        Told { answer: T::default(), warnings: Diagnostics::default() }
    }
}

/// What would be made of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub state: Value,
    pub private: Bytes,
    pub identity: Option<Value>,
    /// These cannot be changed in place.
    pub replace: Vec<Path>,
    /// The provider is old and does not keep all the promises of plans.
    pub lenient: bool,
    pub warnings: Diagnostics,
}

/// What was made, as far as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// Nothing when it does not exist (any more).
    pub state: Option<State>,
    /// With errors when it came to nothing, or only to a part of it.
    pub diagnostics: Diagnostics,
}

/// What is to become a resource of another type, as it lies somewhere.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// As Terraform calls it.
    pub provider: &'a str,
    pub type_name: &'a str,
    pub version: i64,
    pub json: &'a str,
    pub private: Bytes,
    pub identity: Option<&'a str>,
    pub identity_version: i64,
}

/// How an existing resource is named.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportBy {
    Id(String),
    Identity(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub type_name: String,
    pub state: State,
}
