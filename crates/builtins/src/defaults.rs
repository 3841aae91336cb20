//! What clients may leave out, filled in as Kubernetes fills it in.
//!
//! Mirrors `SetDefaults_*` of `pkg/apis/*/*/defaults.go`, and the fields that Go writes even when they are
//! empty. Everything here may be done twice: what is there already is left alone.

mod access;
mod admission;
mod core;
mod network;
mod pods;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use objects::Value;
use serde_json::json;

pub(crate) use self::access::*;
pub(crate) use self::admission::*;
pub(crate) use self::core::*;
pub(crate) use self::network::*;
pub(crate) use self::pods::*;
pub(crate) use self::storage::*;
pub(crate) use self::workloads::*;
use crate::dotted::Dotted;

/// Sets each path that is absent.
fn absent<const N: usize>(value: &mut Value, fields: [(&str, Value); N]) {
    for (path, default) in fields {
        value.default(path, default);
    }
}

/// Sets numbers that are absent or zero: Go cannot tell the two apart in a field that is no pointer.
fn zero(value: &mut Value, fields: &[(&str, i64)]) {
    for (path, default) in fields {
        if value.number(path) == 0 {
            value.put(path, *default);
        }
    }
}

/// Makes what is absent an empty object, where Go writes a struct that is never absent.
fn empty(value: &mut Value, paths: &[&str]) {
    for path in paths {
        value.default(path, json!({}));
    }
}

/// Does something to a part of an object if it is there.
fn within(value: &mut Value, path: &str, fill: impl FnOnce(&mut Value)) {
    if value.has(path)
        && let Some(part) = value.at_mut(path)
    {
        fill(part);
    }
}
