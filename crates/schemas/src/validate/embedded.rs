//! Resources inside of resources: they must say what they are, and their metadata must be metadata.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use objects::field::{Error, Path};
use objects::{ErrorList, GroupVersion, metadata, names};
use serde_json::{Value, json};

use super::outcome::Place;
use crate::schema::Cursor;

/// Checks every embedded resource below. The root of a schema is checked elsewhere, with its own name rules.
pub(super) fn check(cursor: Cursor<'_>, value: &Value, path: &Path, errors: &mut ErrorList) {
    let is_root = cursor.id() == cursor.schema().root().id();
    if cursor.node().embedded_resource && !is_root && value.is_object() {
        check_resource(value, path, errors);
    }
    walk(cursor, value, &Place::Root, path, errors);
}

fn walk(cursor: Cursor<'_>, value: &Value, place: &Place<'_>, root: &Path, errors: &mut ErrorList) {
    let mut descend = |cursor: Cursor<'_>, value: &Value, place: Place<'_>| {
        if cursor.node().embedded_resource && value.is_object() {
            check_resource(value, &place.under(root), errors);
        }
        walk(cursor, value, &place, root, errors);
    };
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(property) = cursor.property(name) {
                    descend(property, field, Place::Field(place, name));
                } else if let Some(entry) = cursor.field(name) {
                    descend(entry, field, Place::Entry(place, name));
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = cursor.items() else { return };
            for (i, item) in items.iter().enumerate() {
                descend(schema, item, Place::Item(place, i));
            }
        }
        _ => {}
    }
}

fn check_resource(resource: &Value, path: &Path, errors: &mut ErrorList) {
    for (name, wrong) in [("apiVersion", api_version as fn(&str) -> Option<String>), ("kind", kind)] {
        let path = path.child(name);
        match resource.get(name) {
            None => errors.push(Error::required(&path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(&path, "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                errors.extend(wrong(text).map(|detail| Error::invalid(&path, text.as_str(), detail)));
            }
            Some(other) => errors.push(Error::invalid(&path, other.clone(), "must be a string")),
        }
    }
    let path = path.child("metadata");
    let Some(given) = resource.get("metadata") else { return };
    if let Some(reason) = metadata::type_error(resource) {
        errors.push(Error::invalid(&path, given.clone(), reason));
        return;
    }
    // A template needs no name of its own.
    let mut named = json!({"metadata": given});
    if objects::meta::name(&named).is_empty() {
        objects::meta::set(&mut named, "name", "fakename");
    }
    let namespaced = !objects::meta::namespace(&named).is_empty();
    errors.extend(metadata::validate(&named, namespaced, names::path_segment, &path));
}

fn api_version(text: &str) -> Option<String> {
    let slashes = text.matches('/').count();
    (slashes > 1 || GroupVersion::parse(text).is_none())
        .then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind(text: &str) -> Option<String> {
    let wrong = names::dns1035_label(&text.to_lowercase());
    (!wrong.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {}", wrong.join(",")))
}
