//! Reading and writing `metadata` of a dynamic object.

use serde_json::{Map, Value};

/// A text field of `metadata`; the empty string where it is absent, as Go's zero value.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_str).unwrap_or("")
}

pub fn name(object: &Value) -> &str {
    text(object, "name")
}

pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

pub fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

pub fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
}

pub fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or("")
}

pub fn api_version(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or("")
}

/// A string map of `metadata`, such as labels or annotations.
pub fn map<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_object)
}

pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    map(object, "labels")
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    map(object, "annotations").and_then(|all| all.get(key)).and_then(Value::as_str)
}

pub fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    let list = object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list(object, "finalizers").iter().filter_map(Value::as_str)
}

pub fn owner_references(object: &Value) -> &[Value] {
    list(object, "ownerReferences")
}

/// `metadata` for writing; made if it is absent, and `None` if the object is no object at all.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// Sets a field of `metadata`; the empty string and null take it away.
pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let Some(metadata) = metadata_mut(object) else { return };
    match value.into() {
        Value::Null => {
            metadata.remove(field);
        }
        Value::String(text) if text.is_empty() => {
            metadata.remove(field);
        }
        value => {
            metadata.insert(field.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_or_odd_reads_as_nothing() {
        for object in
            [json!({}), json!(null), json!({"metadata": 1}), json!({"metadata": {"name": 1, "labels": []}})]
        {
            assert_eq!((name(&object), generation(&object), is_deleting(&object)), ("", 0, false));
            assert!(labels(&object).is_none() && finalizers(&object).next().is_none());
        }
        assert!(!is_deleting(&json!({"metadata": {"deletionTimestamp": null}})));
    }

    #[test]
    fn setting_nothing_takes_away() {
        let mut object = json!({});
        set(&mut object, "name", "a");
        set(&mut object, "uid", "u");
        assert_eq!(object, json!({"metadata": {"name": "a", "uid": "u"}}));
        set(&mut object, "uid", "");
        set(&mut object, "name", Value::Null);
        assert_eq!(object, json!({"metadata": {}}));
        let mut text = json!("no object");
        set(&mut text, "name", "a");
        assert_eq!(text, json!("no object"));
    }
}
