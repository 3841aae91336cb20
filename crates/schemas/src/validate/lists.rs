//! Lists whose items are unique: by value (`set`) or by their keys (`map`).
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use std::collections::HashMap;

use objects::ErrorList;
use objects::field::{Error, Path};
use serde_json::{Map, Value};

use super::outcome::Place;
use crate::schema::{Cursor, ListType};

pub(super) fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    items.iter().any(|item| !seen.insert(item))
}

/// The duplicates in every list below, and items that cannot have the keys of their list.
pub(super) fn check(cursor: Cursor<'_>, value: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(cursor, value, &Place::Root, path, &mut errors);
    errors
}

fn walk(cursor: Cursor<'_>, value: &Value, place: &Place<'_>, root: &Path, errors: &mut ErrorList) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                // Owners and finalizers may stand twice in metadata; nobody is refused for that.
                if name == "metadata" && cursor.node().embedded_resource {
                    continue;
                }
                if let Some(property) = cursor.property(name) {
                    walk(property, field, &Place::Field(place, name), root, errors);
                } else if let Some(entry) = cursor.field(name) {
                    walk(entry, field, &Place::Entry(place, name), root, errors);
                }
            }
        }
        Value::Array(items) => {
            match &cursor.node().list_type {
                ListType::Set => {
                    let again = repeated(items.iter()).into_iter();
                    errors.extend(
                        again.map(|(i, item)| Error::duplicate(&place.under(root).index(i), item.clone())),
                    );
                }
                ListType::Map(keys) => by_keys(keys, items, &place.under(root), errors),
                ListType::Atomic => {}
            }
            let Some(schema) = cursor.items() else { return };
            for (i, item) in items.iter().enumerate() {
                walk(schema, item, &Place::Item(place, i), root, errors);
            }
        }
        _ => {}
    }
}

fn by_keys(keys: &[objects::CompactString], items: &[Value], path: &Path, errors: &mut ErrorList) {
    let is_odd = |item: &Value| !item.is_object() && !item.is_null();
    if let Some((i, item)) = items.iter().enumerate().find(|(_, item)| is_odd(item)) {
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&path.index(i), item.clone(), detail));
        return;
    }
    if items.len() < 2 {
        return;
    }
    let keyed = |item: &Value| {
        let present = keys.iter().filter_map(|key| Some((key.to_string(), item.get(key.as_str())?.clone())));
        Value::Object(present.collect::<Map<String, Value>>())
    };
    let found: Vec<Value> = items.iter().map(keyed).collect();
    errors.extend(
        repeated(found.iter()).into_iter().map(|(i, keys)| Error::duplicate(&path.index(i), keys.clone())),
    );
}

/// Values that stand for the second time, and where; further times are not told.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<(usize, &'a Value)> {
    let mut times: HashMap<&Value, usize> = HashMap::new();
    let mut second = Vec::new();
    for (i, value) in values.enumerate() {
        let seen = times.entry(value).or_insert(0);
        *seen += 1;
        if *seen == 2 {
            second.push((i, value));
        }
    }
    second
}
