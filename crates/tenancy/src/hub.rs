//! The kinds of an Open Cluster Management hub: what a control plane of type `ocm` serves from its beginning.
//!
//! `definitions/hub.yaml` has them in a notation of our own, read here:
//!
//! | it says | it is |
//! |---|---|
//! | `string`, `boolean`, `integer`, `int32`, `int64`, `time`, `bytes`, `manifest` | a value of that type |
//! | `A \| B = A` | one of these words, by default the one after `=`; types may have a default too |
//! | `@name` | what stands under that name among the shapes |
//! | `[X]` | a list of X |
//! | `{a!: X, b: Y}` | an object; the names that end in `!` are required |
//! | `$map`, `$atomic` | a map with such values; a list that is written as a whole |
//! | `$list` with `$of`; `$most` with `$of` | a list of which these members are the key; one of at most so many |
//! | `$closed`, `$default` | of an object: it is written as a whole; its default |
//! | `$plain` | a schema as it is |
//!
//! Not here: what a hub does with its objects. Registration comes with a later version, and status says so.

use std::sync::OnceLock;

use futures::future::try_join_all;
use objects::{Value, meta};
use runtime::Error;
use serde_json::{Map, json};

use crate::api::{self, Place};
use crate::names;

const SOURCE: &str = include_str!("definitions/hub.yaml");
/// Shapes may use shapes; none uses itself.
const DEEPEST: usize = 16;

/// The definitions, in the order of the source.
pub fn definitions() -> &'static [Value] {
    static MADE: OnceLock<Vec<Value>> = OnceLock::new();
    MADE.get_or_init(|| {
        // Our own data, read by a test: it cannot fail here without failing there.
        let source = wire::yaml::decode(SOURCE.as_bytes()).map(|decoded| decoded.value).unwrap_or_default();
        let kinds = source["kinds"].as_array().into_iter().flatten();
        kinds.map(|row| definition(row, &source["shapes"])).collect()
    })
}

/// Sees to it that a hub has its kinds. What users have added to the definitions stays.
pub async fn ensure(client: &kube::Client) -> Result<(), Error> {
    try_join_all(definitions().iter().map(async |definition| {
        let name = meta::name(definition);
        let place = Place::new("apiextensions.k8s.io/v1", "customresourcedefinitions", "", name);
        match api::get(client, &place).await? {
            Some(live) if api::covers(&live, definition) => Ok(()),
            _ => api::apply(client, &place, definition, names::MANAGER, true).await.map(drop),
        }
    }))
    .await
    .map(drop)
}

fn definition(row: &Value, shapes: &Value) -> Value {
    let text = |field: &str| row[field].as_str().unwrap_or_default();
    let (kind, plural, group) = (text("kind"), text("plural"), text("group"));
    let mut body = Map::new();
    for field in ["spec", "spec!", "status"] {
        if let Some(value) = row.get(field) {
            body.insert(field.to_owned(), value.clone());
        }
    }
    let mut schema = schema(&Value::Object(body), shapes, DEEPEST);
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = json!({"type": "string"});
    }
    schema["properties"]["metadata"] = json!({"type": "object"});
    let mut names = json!({
        "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
    });
    if let Some(short) = row.get("shortNames") {
        names["shortNames"] = short.clone();
    }
    let mut version = json!({
        "name": text("version"), "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    if row.get("status").is_some() {
        version["subresources"] = json!({"status": {}});
    }
    if let Some(columns) = row.get("columns") {
        version["additionalPrinterColumns"] = columns.clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": text("scope"), "names": names, "versions": [version]},
    })
}

fn schema(short: &Value, shapes: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    let inner = |short: &Value| schema(short, shapes, depth - 1);
    let list = |of: &Value| json!({"type": "array", "items": inner(of)});
    match short {
        Value::String(text) => match text.strip_prefix('@') {
            Some(name) => inner(&shapes[name]),
            None => scalar(text),
        },
        Value::Array(items) => list(items.first().unwrap_or(&Value::Null)),
        Value::Object(members) => {
            let of = members.get("$of").unwrap_or(&Value::Null);
            if let Some(plain) = members.get("$plain") {
                plain.clone()
            } else if let Some(values) = members.get("$map") {
                json!({"type": "object", "additionalProperties": inner(values)})
            } else if let Some(items) = members.get("$atomic") {
                let mut made = inner(items);
                made["x-kubernetes-list-type"] = "atomic".into();
                made
            } else if let Some(keys) = members.get("$list") {
                let mut made = list(of);
                made["x-kubernetes-list-type"] = "map".into();
                made["x-kubernetes-list-map-keys"] = keys.clone();
                made
            } else if let Some(most) = members.get("$most") {
                let mut made = list(of);
                made["maxItems"] = most.clone();
                made
            } else {
                object(members, &inner)
            }
        }
        _ => Value::Null,
    }
}

fn object(members: &Map<String, Value>, inner: &dyn Fn(&Value) -> Value) -> Value {
    let mut made = json!({"type": "object"});
    let mut required = Vec::new();
    for (name, value) in members {
        match name.as_str() {
            "$default" => made["default"] = value.clone(),
            "$closed" => made["x-kubernetes-map-type"] = "atomic".into(),
            name => {
                let plain = name.strip_suffix('!');
                required.extend(plain.map(Value::from));
                made["properties"][plain.unwrap_or(name)] = inner(value);
            }
        }
    }
    if !required.is_empty() {
        made["required"] = required.into();
    }
    made
}

fn scalar(text: &str) -> Value {
    let (kind, default) = match text.split_once('=') {
        Some((kind, default)) => (kind.trim(), Some(default.trim())),
        None => (text.trim(), None),
    };
    let mut made = match kind {
        "string" | "boolean" | "integer" => json!({"type": kind}),
        "int32" | "int64" => json!({"type": "integer", "format": kind}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "bytes" => json!({"type": "string", "format": "byte"}),
        "manifest" => json!({
            "type": "object",
            "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        }),
        words if words.contains('|') => {
            let words: Vec<&str> = words.split('|').map(str::trim).filter(|word| !word.is_empty()).collect();
            json!({"type": "string", "enum": words})
        }
        _ => Value::Null,
    };
    if let Some(default) = default {
        let is_number = made["type"] == "integer";
        let number = default.parse::<i64>().ok().filter(|_| is_number);
        made["default"] = number.map_or_else(|| default.into(), Value::from);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation() {
        let shapes = json!({"name": {"first!": "string", "last": "string"}});
        let check = |short: Value, expected: Value| assert_eq!(schema(&short, &shapes, DEEPEST), expected);
        check(json!("int32 = 60"), json!({"type": "integer", "format": "int32", "default": 60}));
        check(json!("string ="), json!({"type": "string", "default": ""}));
        check(json!("A | B = A"), json!({"type": "string", "enum": ["A", "B"], "default": "A"}));
        check(json!("A |"), json!({"type": "string", "enum": ["A"]}));
        let name = json!({
            "type": "object", "required": ["first"],
            "properties": {"first": {"type": "string"}, "last": {"type": "string"}},
        });
        check(json!("@name"), name.clone());
        check(json!(["@name"]), json!({"type": "array", "items": name}));
        check(
            json!({"$list": ["first"], "$of": "@name"}),
            json!({
                "type": "array", "items": name,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["first"],
            }),
        );
        check(
            json!({"$default": {"a": "b"}, "$closed": true, "a": "string"}),
            json!({
                "type": "object", "default": {"a": "b"}, "x-kubernetes-map-type": "atomic",
                "properties": {"a": {"type": "string"}},
            }),
        );
        check(
            json!({"$map": "string"}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        );
    }

    #[test]
    fn everything_in_the_source_is_understood() {
        fn whole(value: &Value, at: &str) {
            match value {
                Value::Null => panic!("{at} is not understood"),
                Value::Array(items) => items.iter().for_each(|item| whole(item, at)),
                Value::Object(members) => {
                    members.iter().for_each(|(name, value)| whole(value, &format!("{at}.{name}")))
                }
                Value::String(text) => assert!(!text.starts_with('@'), "{at}: {text}"),
                _ => {}
            }
        }
        let all = definitions();
        assert_eq!(all.len(), 12);
        for definition in all {
            whole(definition, meta::name(definition));
        }
    }
}
