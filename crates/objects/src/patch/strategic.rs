//! Strategic merge patch: maps merge, and lists merge or are replaced as the schema of their field says.
//!
//! Mirrors the applying half of `k8s.io/apimachinery/pkg/util/strategicpatch`. Where a patch brings a value for which
//! the document has nothing to merge with, nulls and directives are taken out of it, as upstream does.

mod lists;

use serde_json::{Map, Value};

use super::PatchError;

/// What a schema knows about patching, walked along with the document.
pub trait PatchSchema: Copy {
    fn field(self, name: &str) -> Option<Self>;
    fn items(self) -> Option<Self>;
    /// `x-kubernetes-patch-merge-key` of this place
    fn merge_key(&self) -> Option<&str>;
    /// `x-kubernetes-patch-strategy` of this place: several may be joined by commas
    fn strategy(&self) -> Option<&str>;
}

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch. Fields the schema does not know are merged as maps and replaced as lists.
pub fn strategic<S: PatchSchema>(document: &Value, patch: &Value, schema: S) -> Result<Value, PatchError> {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            merge_map(document.clone(), patch, Some(schema)).map(Value::Object)
        }
        _ => Err(malformed("invalid JSON document")),
    }
}

fn malformed(text: &str) -> PatchError {
    PatchError::Malformed(text.to_owned())
}

/// The strategy that remains when `retainKeys`, which only concerns those who make patches, is left out.
fn has_strategy<S: PatchSchema>(schema: Option<S>, wanted: &str) -> bool {
    schema.is_some_and(|schema| schema.strategy().is_some_and(|all| all.split(',').any(|one| one == wanted)))
}

/// The field a directive such as `$setElementOrder/ports` is about.
fn about<'k>(key: &'k str, directive: &str) -> Option<&'k str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE
        || key == RETAIN_KEYS
        || key.starts_with(DELETE_FROM_LIST)
        || key.starts_with(ELEMENT_ORDER)
}

fn merge_map<S: PatchSchema>(
    mut original: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Option<S>,
) -> Result<Map<String, Value>, PatchError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => return Ok(plain_map(patch)),
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(other) => return Err(unknown_directive(other, patch)),
    }
    retain_keys(&mut original, patch)?;
    // Lists whose order is given are merged here, and not once more below.
    let mut ordered: Vec<&str> = Vec::new();
    for (key, order) in patch.iter().filter(|(key, _)| key.starts_with(ELEMENT_ORDER)) {
        let bad_format = || malformed("invalid patch format of setElementOrder list");
        let field = about(key, ELEMENT_ORDER).ok_or_else(bad_format)?;
        let order = order.as_array().ok_or_else(bad_format)?;
        let list = |value: Option<&Value>| match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(_) => Err(bad_format()),
        };
        let (old, new) = (list(original.get(field))?, list(patch.get(field))?);
        if old.is_none() && new.is_none() || patch.get(field).is_some_and(Value::is_null) {
            continue;
        }
        let schema = schema.and_then(|schema| schema.field(field));
        let merged = lists::merge_in_order(old.unwrap_or_default(), new, order, schema)?;
        original.insert(field.to_owned(), Value::Array(merged));
        ordered.push(field);
    }
    for (key, change) in patch {
        if let Some(field) = about(key, DELETE_FROM_LIST) {
            delete_from_list(&mut original, field, change, schema)?;
        } else if key.starts_with(DELETE_FROM_LIST) {
            return Err(malformed("invalid patch format of primitive list"));
        } else if !is_directive(key) && !ordered.contains(&key.as_str()) {
            merge_field(&mut original, key, change, schema.and_then(|schema| schema.field(key)))?;
        }
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    let map = Value::Object(map.clone());
    PatchError::DoesNotApply(format!("unknown patch type: {directive} in map: {map}"))
}

fn merge_field<S: PatchSchema>(
    original: &mut Map<String, Value>,
    field: &str,
    change: &Value,
    schema: Option<S>,
) -> Result<(), PatchError> {
    let merged = match (original.remove(field), change) {
        (_, Value::Null) => return Ok(()),
        (Some(Value::Object(old)), Value::Object(new)) if !has_strategy(schema, "replace") => {
            Value::Object(merge_map(old, new, schema)?)
        }
        (Some(Value::Array(old)), Value::Array(new)) if has_strategy(schema, "merge") => {
            Value::Array(lists::merge(old, new, schema)?)
        }
        (_, new) => plain(new),
    };
    original.insert(field.to_owned(), merged);
    Ok(())
}

/// `$retainKeys`: whatever it does not name goes away, and a patch may not bring what it does not name.
fn retain_keys(original: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let bad_format = || malformed("invalid patch format of retainKeys");
    let retained = retained.as_array().ok_or_else(bad_format)?;
    let named = |key: &str| retained.iter().any(|name| name.as_str() == Some(key));
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !named(key)) {
        return Err(bad_format());
    }
    original.retain(|key, _| named(key));
    Ok(())
}

fn delete_from_list<S: PatchSchema>(
    original: &mut Map<String, Value>,
    field: &str,
    gone: &Value,
    schema: Option<S>,
) -> Result<(), PatchError> {
    let bad_format = || malformed("invalid patch format of primitive list");
    let gone = gone.as_array().ok_or_else(bad_format)?;
    let Some(Value::Array(items)) = original.get_mut(field) else { return Ok(()) };
    if !has_strategy(schema.and_then(|schema| schema.field(field)), "merge") {
        return Err(bad_format());
    }
    lists::delete_scalars(items, gone)
}

/// A value of the patch as it stands in a document: without nulls in maps, and without directives.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(plain_map(fields)),
        Value::Array(items) => {
            let kept = items.iter().filter(|item| item.get(DIRECTIVE).is_none());
            Value::Array(kept.map(plain).collect())
        }
        other => other.clone(),
    }
}

fn plain_map(fields: &Map<String, Value>) -> Map<String, Value> {
    if matches!(fields.get(DIRECTIVE), Some(Value::String(directive)) if directive == "delete") {
        return Map::new();
    }
    let kept = fields.iter().filter(|(key, value)| !value.is_null() && !is_directive(key));
    kept.map(|(key, value)| (key.clone(), plain(value))).collect()
}

#[cfg(test)]
mod tests;
