//! The published definitions in the words of either dialect.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use objects::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::Dialect;
use crate::schema;

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// All definitions as JSON. Large: read it, use it, drop it.
pub(super) struct Published {
    schemas: BTreeMap<String, Value>,
    by_kind: HashMap<GroupVersionKind, String>,
}

impl Published {
    pub fn read() -> Published {
        let schemas: BTreeMap<String, Value> = schema::lines().collect();
        let mut by_kind = HashMap::new();
        for (name, schema) in &schemas {
            for kind in
                schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array).into_iter().flatten()
            {
                let text = |word: &str| kind.get(word).and_then(Value::as_str).unwrap_or_default();
                by_kind.insert(
                    GroupVersionKind::new(text("group"), text("version"), text("kind")),
                    name.clone(),
                );
            }
        }
        Published { schemas, by_kind }
    }

    pub fn name_of(&self, kind: &GroupVersionKind) -> Option<String> {
        self.by_kind.get(kind).cloned()
    }

    /// These definitions and all they reach.
    pub fn in_dialect(&self, dialect: Dialect, names: BTreeSet<&str>) -> Map<String, Value> {
        let mut found: BTreeMap<String, Value> = BTreeMap::new();
        let mut next: Vec<String> = names.into_iter().map(str::to_owned).collect();
        while let Some(name) = next.pop() {
            if found.contains_key(&name) {
                continue;
            }
            let Some(schema) = self.schemas.get(&name) else { continue };
            let mut further = BTreeSet::new();
            references(schema, &mut further);
            next.extend(further);
            let written = match dialect {
                Dialect::V2 => in_v2(schema),
                Dialect::V3 => in_v3(&name, schema),
            };
            found.insert(name, written);
        }
        found.into_iter().collect()
    }
}

/// The names that the references of a schema end in.
fn references(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(words) => {
            for (word, value) in words {
                match value.as_str() {
                    Some(reference) if word == "$ref" => {
                        into.extend(reference.rsplit('/').next().map(str::to_owned));
                    }
                    _ => references(value, into),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

/// The committed definitions are version 2's, but for defaults, which only version 3 publishes.
fn in_v2(schema: &Value) -> Value {
    rewrite(schema, &|mut words| {
        words.remove("default");
        Value::Object(words)
    })
}

fn in_v3(name: &str, schema: &Value) -> Value {
    match name {
        // What version 2 could not say.
        QUANTITY => return json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        INT_OR_STRING => {
            return json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
        }
        _ => {}
    }
    rewrite(schema, &|mut words| {
        let Some(Value::String(reference)) = words.get("$ref") else { return Value::Object(words) };
        let target = Dialect::V3.reference(reference.rsplit('/').next().unwrap_or_default());
        words.remove("$ref");
        if words.is_empty() {
            return target;
        }
        // Words beside a reference are ignored in OpenAPI 3.0, so the reference moves into a list of one.
        words.insert("allOf".into(), json!([target]));
        Value::Object(words)
    })
}

/// Applies a change to the schema and to each schema in it, the inner ones first.
fn rewrite(schema: &Value, change: &dyn Fn(Map<String, Value>) -> Value) -> Value {
    let Value::Object(words) = schema else { return schema.clone() };
    let each = words.iter().map(|(word, value)| {
        let value = match (word.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, property)| (name.clone(), rewrite(property, change))).collect()
            }
            ("items" | "additionalProperties", _) => rewrite(value, change),
            _ => value.clone(),
        };
        (word.clone(), value)
    });
    change(each.collect())
}
