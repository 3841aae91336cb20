//! Lists whose items are unique: by value (`set`) or by their keys (`map`).
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use std::collections::HashMap;

use objects::ErrorList;
use objects::field::{Error, Path};
use serde_json::{Map, Value};

use crate::schema::{Cursor, ListType};

pub(super) fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    items.iter().any(|item| !seen.insert(item))
}

/// The duplicates in every list below, and items that cannot have the keys of their list.
pub(super) fn check(cursor: Cursor<'_>, value: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(cursor, value, path, &mut errors);
    errors
}

fn walk(cursor: Cursor<'_>, value: &Value, path: &Path, errors: &mut ErrorList) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                // Most values are leaves: no path is made for them.
                if !field.is_object() && !field.is_array() {
                    continue;
                }
                if let Some(property) = cursor.property(name) {
                    walk(property, field, &path.child(name), errors);
                } else if let Some(entry) = cursor.field(name) {
                    walk(entry, field, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &cursor.node().list_type {
                ListType::Set => errors.extend(
                    repeated(items.iter()).map(|i| Error::duplicate(&path.index(i), items[i].clone())),
                ),
                ListType::Map(keys) => by_keys(keys, items, path, errors),
                ListType::Atomic => {}
            }
            let Some(schema) = cursor.items() else { return };
            for (i, item) in items.iter().enumerate().filter(|(_, item)| item.is_object() || item.is_array())
            {
                walk(schema, item, &path.index(i), errors);
            }
        }
        _ => {}
    }
}

fn by_keys(keys: &[objects::CompactString], items: &[Value], path: &Path, errors: &mut ErrorList) {
    let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some((i, item)) = odd.and_then(|i| items.get(i).map(|item| (i, item))) {
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&path.index(i), item.clone(), detail));
        return;
    }
    let keyed = |item: &Value| {
        let present = keys.iter().filter_map(|key| Some((key.to_string(), item.get(key.as_str())?.clone())));
        Value::Object(present.collect::<Map<String, Value>>())
    };
    let found: Vec<Value> = items.iter().map(keyed).collect();
    errors.extend(repeated(found.iter()).map(|i| Error::duplicate(&path.index(i), found[i].clone())));
}

/// Where a value stands for the second time; further times are not told.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> impl Iterator<Item = usize> {
    let mut times: HashMap<&Value, usize> = HashMap::new();
    let mut second = Vec::new();
    for (i, value) in values.enumerate() {
        let seen = times.entry(value).or_insert(0);
        *seen += 1;
        if *seen == 2 {
            second.push(i);
        }
    }
    second.into_iter()
}
