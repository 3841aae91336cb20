//! Values as providers know them: Terraform's types, and what stands in them.
//!
//! A [`Value`] carries no type; whoever encodes or decodes it says of which [`Type`] it is. Elements of a set are kept
//! sorted and once each, so that `==` means what a provider means by it.
//!
//! Not here: schemas (which attribute is computed, sensitive or nested) and Kubernetes' names.

mod json;
mod msgpack;
mod number;
mod types;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub use number::Number;
pub use types::{Type, TypeError};

/// How deep values may be nested; a provider that sends deeper ones means harm, or does not know what it does.
pub(crate) const DEEPEST: usize = 100;

/// Fields of an object or entries of a map.
pub type Fields = BTreeMap<String, Value>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Null,
    /// Decided only when the change is made. What the provider promises of it (a prefix, bounds) is kept as it came,
    /// since the provider wants it back with the plan.
    Unknown(Option<Box<[u8]>>),
    Bool(bool),
    Number(Number),
    String(String),
    /// A list, a tuple, or a set.
    Sequence(Vec<Value>),
    /// An object or a map.
    Fields(Fields),
    /// A value in a place that takes any type, with the type it has.
    Typed(Box<(Type, Value)>),
}

/// Values may be secret, and nobody can tell from the value alone: only its shape is shown.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Unknown(_) => f.write_str("unknown"),
            Value::Bool(_) => f.write_str("bool"),
            Value::Number(_) => f.write_str("number"),
            Value::String(_) => f.write_str("string"),
            Value::Sequence(elements) => f.debug_list().entries(elements).finish(),
            Value::Fields(fields) => f.debug_map().entries(fields).finish(),
            Value::Typed(typed) => write!(f, "{:?}: {:?}", typed.0, typed.1),
        }
    }
}

impl Value {
    pub fn string(text: impl Into<String>) -> Value {
        Value::String(text.into())
    }

    pub fn number(number: i64) -> Value {
        Value::Number(number.into())
    }

    /// A set of these elements.
    pub fn set(mut elements: Vec<Value>) -> Value {
        elements.sort();
        // Two unknown elements may become two different ones.
        elements.dedup_by(|a, b| a == b && a.known());
        Value::Sequence(elements)
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// No part of it is unknown.
    pub fn known(&self) -> bool {
        match self {
            Value::Unknown(_) => false,
            Value::Sequence(elements) => elements.iter().all(Value::known),
            Value::Fields(fields) => fields.values().all(Value::known),
            Value::Typed(typed) => typed.1.known(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_fields(&self) -> Option<&Fields> {
        match self {
            Value::Fields(fields) => Some(fields),
            _ => None,
        }
    }

    pub fn as_sequence(&self) -> Option<&[Value]> {
        match self {
            Value::Sequence(elements) => Some(elements),
            _ => None,
        }
    }

    /// The field of an object; null when it is not there.
    pub fn field(&self, name: &str) -> &Value {
        self.as_fields().and_then(|fields| fields.get(name)).unwrap_or(&Value::Null)
    }

    /// In the words of errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Unknown(_) => "a value that is not known yet",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Sequence(_) => "a list",
            Value::Fields(_) => "an object",
            Value::Typed(_) => "a value with its own type",
        }
    }
}

/// A value that does not fit its type, or bytes that are no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .path.as_deref().map(|path| format!("{path}: ")).unwrap_or_default())]
pub struct ValueError {
    path: Option<String>,
    problem: String,
}

impl ValueError {
    pub(crate) fn new(problem: impl Into<String>) -> ValueError {
        ValueError { path: None, problem: problem.into() }
    }

    pub(crate) fn expected(expected: &str, found: &str) -> ValueError {
        ValueError::new(format!("expected {expected}, found {found}"))
    }

    /// The same, seen from one step further out.
    #[must_use]
    pub(crate) fn within(mut self, step: impl fmt::Display) -> ValueError {
        self.path = Some(match self.path {
            Some(path) if path.starts_with('[') => format!("{step}{path}"),
            Some(path) => format!("{step}.{path}"),
            None => step.to_string(),
        });
        self
    }

    #[must_use]
    pub(crate) fn at(self, index: usize) -> ValueError {
        self.within(format_args!("[{index}]"))
    }
}
