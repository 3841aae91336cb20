//! Filling in what a schema says for what is absent.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go`.

use serde_json::Value;

use crate::schema::{Additional, Cursor};

/// Sets absent fields to their defaults, and nulls where null is no value, at any depth: in lists, in map
/// entries, and in what a default has just put there. Objects are not made up to hold a nested default.
pub fn default(cursor: Cursor<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, id) in &cursor.node().properties {
                let property = cursor.to(*id).node();
                let Some(default) = &property.default else { continue };
                let wanted =
                    fields.get(name.as_str()).is_none_or(|given| given.is_null() && !property.nullable);
                if wanted {
                    fields.insert(name.to_string(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(property) = cursor.property(name) {
                    self::default(property, field);
                } else if let Additional::Schema(id) = cursor.node().additional {
                    replace_null(cursor.to(id), field);
                    self::default(cursor.to(id), field);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = cursor.items() else { return };
            for item in list {
                replace_null(items, item);
                self::default(items, item);
            }
        }
        _ => {}
    }
}

fn replace_null(cursor: Cursor<'_>, value: &mut Value) {
    let node = cursor.node();
    if let Some(default) = &node.default
        && value.is_null()
        && !node.nullable
    {
        *value = default.clone();
    }
}
