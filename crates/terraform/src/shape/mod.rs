//! Objects as Kubeform writes them, and the values they stand for.
//!
//! A field has Kubeform's name, a list that holds at most one element is that element, what is secret is left out and
//! kept in a Secret under the provider's names, and timeouts are nanoseconds. [`desired`] reads `spec.resource`,
//! [`Draft`] reads it together with the Secret, [`shown`] writes `spec.state`, [`secrets`] the Secret, and
//! [`field_path`] says where in the object a provider's path is.

mod read;
mod write;

#[cfg(test)]
pub(crate) mod tests;

pub use read::{Draft, desired};
pub use write::{secrets, shown};

use serde_json::Value as Json;

use crate::diagnostic::{Path, Step};
use crate::names::FieldNames;
use crate::schema::{Block, Member, Nesting, Shape};
use crate::value::Type;

/// A field of an object that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct FieldError {
    /// Such as `rule[0].port`, below `spec.resource`.
    pub path: String,
    pub problem: String,
}

/// The block that a user gives times in, however the provider declares it.
pub(crate) const TIMEOUTS: &str = "timeouts";
pub(crate) const TIMES: [&str; 5] = ["create", "read", "update", "delete", "default"];

/// Whether a member is the block of times.
pub(crate) fn is_timeouts(name: &str, member: &Member, top: bool) -> bool {
    let Shape::Nested(nested) = &member.shape else { return false };
    let times = |(name, member): (&String, &Member)| {
        TIMES.contains(&name.as_str()) && member.shape == Shape::Plain(Type::String)
    };
    top && name == TIMEOUTS && nested.block.members.iter().all(times)
}

pub(crate) fn names(block: &Block, top: bool) -> FieldNames {
    FieldNames::new(block.members.keys(), top)
}

/// Whether what stands at a field such as `rule.0.port` is kept secret, by itself or with what is around it.
pub fn is_secret(block: &Block, field: &str) -> bool {
    let (mut block, mut top) = (block, true);
    let mut steps = field.split('.').filter(|step| step.parse::<usize>().is_err());
    while let Some(step) = steps.next() {
        let names = names(block, top);
        let Some(member) = names.member(step).and_then(|name| block.members.get(name)) else { return false };
        if member.is_secret() {
            return true;
        }
        let Shape::Nested(nested) = &member.shape else { return false };
        if nested.nesting == Nesting::Map {
            steps.next();
        }
        (block, top) = (&nested.block, false);
    }
    false
}

/// Whether the type can have something at a field such as `rule.0.port`. What is below a plain value is not judged.
pub fn has_field(block: &Block, field: &str) -> bool {
    let (mut block, mut top) = (block, true);
    let mut steps = field.split('.').filter(|step| step.parse::<usize>().is_err());
    while let Some(step) = steps.next() {
        // What is secret has the provider's name.
        let names = names(block, top);
        let name = names.member(step).unwrap_or(step);
        let Some(member) = block.members.get(name) else { return false };
        let Shape::Nested(nested) = &member.shape else { return true };
        if nested.nesting == Nesting::Map {
            steps.next();
        }
        (block, top) = (&nested.block, false);
    }
    true
}

/// The first field of an object whose value should be in a Secret and stands there for all to see.
pub fn exposed(block: &Block, object: &Json) -> Option<FieldError> {
    exposed_in(block, object, "", true)
}

fn exposed_in(block: &Block, object: &Json, path: &str, top: bool) -> Option<FieldError> {
    let names = names(block, top);
    let mut given = object.as_object()?.iter().filter(|(_, value)| !value.is_null());
    given.find_map(|(field, value)| {
        let member = names.member(field).and_then(|name| block.members.get(name))?;
        let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        if member.is_secret() {
            return Some(FieldError { path, problem: "this is sensitive".to_owned() });
        }
        let Shape::Nested(nested) = &member.shape else { return None };
        let inner = |path: &str, value: &Json| exposed_in(&nested.block, value, path, false);
        match (nested.nesting, value) {
            (Nesting::Map, Json::Object(entries)) => {
                entries.iter().find_map(|(key, value)| inner(&format!("{path}.{key}"), value))
            }
            (_, Json::Array(elements)) => {
                let mut elements = elements.iter().enumerate();
                elements.find_map(|(index, value)| inner(&format!("{path}[{index}]"), value))
            }
            (_, value) => inner(&path, value),
        }
    })
}

/// The field of an object that a provider's path is about, such as `spec.resource.rule[0].port`; below `root`.
pub fn field_path(root: &str, block: &Block, path: &Path) -> String {
    let mut text = root.to_owned();
    let mut block = Some(block);
    let mut top = true;
    // After a list that is shown as its one element, the index is left out.
    let mut one = false;
    for step in &path.0 {
        match step {
            Step::Attribute(name) => {
                let known = block.and_then(|block| Some((block, block.members.get(name)?)));
                text.push('.');
                match known {
                    Some((of, member)) => {
                        text.push_str(names(of, top).field(name).unwrap_or(name));
                        (block, one) = match &member.shape {
                            Shape::Nested(nested) => (Some(&nested.block), nested.is_one()),
                            Shape::Plain(_) => (None, false),
                        };
                    }
                    None => {
                        text.push_str(FieldNames::new([name].into_iter(), false).field(name).unwrap_or(name));
                        block = None;
                    }
                }
                top = false;
            }
            Step::Index(_) if one => one = false,
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Key(key) => text.push_str(&format!("[{key:?}]")),
        }
    }
    text
}
