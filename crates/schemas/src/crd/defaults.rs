//! Defaults in a schema must be what the schema allows, with nothing in them that would be pruned.
//!
//! Mirrors `ValidateDefaults` of `apiextensions-apiserver/pkg/apiserver/schema/defaulting`.

use objects::ErrorList;
use objects::field::{Error, Path};
use serde_json::Value;

use crate::schema::{Cursor, Schema};
use crate::unknown_fields;
use crate::validate::validate_default;

/// Checks every default of a structural schema. `path` is where the schema stands.
pub(super) fn check(json: &Value, schema: &Schema, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(json, schema.root(), path, &mut errors);
    errors
}

fn walk(json: &Value, cursor: Cursor<'_>, path: &Path, errors: &mut ErrorList) {
    if let Some(default) = json.get("default").filter(|default| !default.is_null()) {
        let path = path.child("default");
        if !unknown_fields(cursor, default).is_empty() {
            errors.push(Error::invalid(&path, default.clone(), "must not have unknown fields"));
        }
        errors.extend(validate_default(cursor, default, &path));
    }
    // Not in map entries: there is no one value that a default would take the place of.
    if let (Some(items), Some(cursor)) = (json.get("items"), cursor.items()) {
        walk(items, cursor, &path.child("items"), errors);
    }
    for (name, property) in json.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(cursor) = cursor.property(name) {
            walk(property, cursor, &path.child("properties").key(name), errors);
        }
    }
}
