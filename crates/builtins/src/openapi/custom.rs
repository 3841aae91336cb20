//! The schemas of a custom resource in the words of either dialect.
//!
//! Version 3 says what the author of the definition wrote. Version 2 has fewer words, and the clients that
//! still read it misread some of those it has, so what they cannot take is left out.

use objects::{GroupVersionKind, ResourceType};
use serde_json::{Map, Value, json};

use super::Dialect;
use super::definitions::META;

const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

/// Deeper schemas than any client would read are cut; the parser of requests does not let them in anyway.
const MAX_DEPTH: usize = 128;

/// `com.example.stable.v1.CronTab`
pub(super) fn name_of(kind: &GroupVersionKind) -> String {
    let reversed: Vec<&str> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind)
}

/// The kind and its list.
pub(super) fn schemas(dialect: Dialect, row: &ResourceType, schema: Option<&Value>) -> Map<String, Value> {
    let list = row.group_version().with_kind(row.list_kind.clone());
    let mut schemas = Map::new();
    schemas.insert(name_of(&row.gvk()), own_schema(dialect, row, schema));
    schemas.insert(name_of(&list), list_schema(dialect, row, &list));
    schemas
}

fn own_schema(dialect: Dialect, row: &ResourceType, schema: Option<&Value>) -> Value {
    let words = schema.and_then(Value::as_object).filter(|words| {
        // Clients of version 2 would refuse everything that is not listed.
        dialect == Dialect::V3 || !is_true(words, PRESERVE_UNKNOWN)
    });
    let mut own = match words {
        // With no properties at all clients refuse nothing; with only these three, all else.
        None => Map::from_iter([("type".to_owned(), "object".into())]),
        Some(words) => {
            let mut own = rewrite(dialect, words, 0);
            add_properties(&mut own, type_and_metadata(dialect));
            own
        }
    };
    own.insert("x-kubernetes-group-version-kind".into(), json!([kind_value(&row.gvk())]));
    Value::Object(own)
}

fn list_schema(dialect: Dialect, row: &ResourceType, list: &GroupVersionKind) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": dialect.reference(&format!("{META}.ListMeta")),
            "items": {"type": "array", "items": dialect.reference(&name_of(&row.gvk()))},
        },
        "x-kubernetes-group-version-kind": [kind_value(list)],
    })
}

fn kind_value(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn type_and_metadata(dialect: Dialect) -> [(&'static str, Value); 3] {
    let text = || json!({"type": "string"});
    let metadata = dialect.reference(&format!("{META}.ObjectMeta"));
    [("apiVersion", text()), ("kind", text()), ("metadata", metadata)]
}

fn add_properties(schema: &mut Map<String, Value>, added: [(&'static str, Value); 3]) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.extend(added.map(|(name, value)| (name.to_owned(), value)));
    }
}

fn is_true(words: &Map<String, Value>, word: &str) -> bool {
    words.get(word) == Some(&Value::Bool(true))
}

/// One schema and those in it.
fn rewrite(dialect: Dialect, words: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    if depth > MAX_DEPTH {
        return Map::new();
    }
    let inner = |value: &Value| match value.as_object() {
        Some(words) => Value::Object(rewrite(dialect, words, depth + 1)),
        None => value.clone(),
    };
    let each = words.iter().map(|(word, value)| {
        let value = match (word.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, property)| (name.clone(), inner(property))).collect()
            }
            ("items" | "additionalProperties", _) => inner(value),
            _ => value.clone(),
        };
        (word.clone(), value)
    });
    let mut out: Map<String, Value> = each.collect();
    if dialect == Dialect::V2 {
        narrow(&mut out, words);
    }
    let embeds = is_true(words, "x-kubernetes-embedded-resource");
    if embeds && !(dialect == Dialect::V2 && is_true(words, PRESERVE_UNKNOWN)) {
        add_properties(&mut out, type_and_metadata(dialect));
        require(&mut out, &["kind", "apiVersion"]);
    }
    out
}

fn require(schema: &mut Map<String, Value>, names: &[&str]) {
    let required = schema.entry("required").or_insert_with(|| json!([]));
    let Some(required) = required.as_array_mut() else { return };
    for name in names {
        if !required.iter().any(|one| one == name) {
            required.push((*name).into());
        }
    }
}

/// Takes out of `out` what version 2 cannot say or its clients cannot take; `words` is the schema as written.
fn narrow(out: &mut Map<String, Value>, words: &Map<String, Value>) {
    let mut dropped = vec!["allOf", "anyOf", "oneOf", "not", "nullable"];
    if is_true(words, "nullable") {
        dropped.extend(["type", "items", "properties"]);
    }
    if is_true(words, PRESERVE_UNKNOWN) {
        dropped.extend(["items", "properties"]);
        dropped.extend((words.get("type") == Some(&"object".into())).then_some("type"));
    }
    out.retain(|word, _| !dropped.contains(&word.as_str()));
    if !out.contains_key("items") && out.get("type") == Some(&"array".into()) {
        out.remove("type");
    }
    forgive_nullable(out, words);
}

/// A required property that may be null is not required here: it has no type left to say so.
fn forgive_nullable(out: &mut Map<String, Value>, words: &Map<String, Value>) {
    let may_be_null = |schema: &Value| schema.get("nullable") == Some(&Value::Bool(true));
    let property = |name: &Value| words.get("properties")?.get(name.as_str()?);
    let all = words.get("additionalProperties").is_some_and(may_be_null);
    if let Some(Value::Array(required)) = out.get_mut("required") {
        required.retain(|name| !all && !property(name).is_some_and(may_be_null));
        if required.is_empty() {
            out.remove("required");
        }
    }
}
