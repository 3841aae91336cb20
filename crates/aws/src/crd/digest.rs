//! The short form of a definition, and what differs between two of them.
//!
//! A digest keeps names, columns, and of every field type, format, required members and rules. A leaf is its type
//! (`"string"`); `p` are properties, `i` items, `m` the values of a map, `r` what is required, `t` the type where
//! more is said, `cel` the rules.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The digest of a CustomResourceDefinition; empty where it is none.
pub fn digest(definition: &Value) -> Value {
    let spec = &definition["spec"];
    let version = &spec["versions"][0];
    let properties = &version["schema"]["openAPIV3Schema"]["properties"];
    let group = spec["group"].as_str().unwrap_or_default();
    let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten().map(|column| {
        let priority = column["priority"].as_i64().unwrap_or(0);
        json!([column["name"], column["jsonPath"], column["type"], priority])
    });
    json!({
        "service": group.split('.').next(),
        "group": group,
        "kind": spec["names"]["kind"],
        "plural": spec["names"]["plural"],
        "short": spec["names"].get("shortNames").cloned().unwrap_or_else(|| json!([])),
        "scope": spec["scope"],
        "columns": columns.collect::<Vec<Value>>(),
        "spec": node(&properties["spec"]),
        "status": node(&properties["status"]),
    })
}

fn node(schema: &Value) -> Value {
    let mut node = Map::new();
    if let Some(properties) = schema["properties"].as_object() {
        let digests = properties.iter().map(|(name, schema)| (name.clone(), self::node(schema))).collect();
        node.insert("p".to_owned(), Value::Object(digests));
    }
    for (word, short) in [("items", "i"), ("additionalProperties", "m")] {
        if schema[word].is_object() {
            node.insert(short.to_owned(), self::node(&schema[word]));
        }
    }
    if let Some(required) = schema["required"].as_array() {
        let sorted: BTreeSet<&str> = required.iter().filter_map(Value::as_str).collect();
        node.insert("r".to_owned(), json!(sorted));
    }
    if let Some(rules) = schema["x-kubernetes-validations"].as_array() {
        node.insert("cel".to_owned(), rules.iter().map(|rule| rule["rule"].clone()).collect());
    }
    for word in ["format", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields"] {
        if let Some(value) = schema.get(word) {
            node.insert(word.to_owned(), value.clone());
        }
    }
    let holds = ["p", "i", "m"].iter().any(|short| node.contains_key(*short));
    if holds {
        return Value::Object(node);
    }
    let kind = schema["type"].clone();
    if node.is_empty() {
        return kind;
    }
    node.insert("t".to_owned(), kind);
    Value::Object(node)
}

/// What is wrong with a derived definition, and what it has beyond the published one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub missing: Vec<String>,
    pub differing: Vec<String>,
    /// Fields of a newer model; no fault.
    pub extra: Vec<String>,
}

impl Difference {
    /// Nothing missing, nothing differs.
    pub fn is_sound(&self) -> bool {
        self.missing.is_empty() && self.differing.is_empty()
    }
}

/// Holds a derived digest against a published one.
pub fn compare(published: &Value, derived: &Value) -> Difference {
    let mut difference = Difference::default();
    for word in ["group", "kind", "plural", "short", "scope", "columns"] {
        if published[word] != derived[word] {
            difference.differing.push(format!("{word}: {} is {}", published[word], derived[word]));
        }
    }
    for word in ["spec", "status"] {
        walk(word, &published[word], &derived[word], &mut difference);
    }
    difference
}

fn walk(path: &str, published: &Value, derived: &Value, difference: &mut Difference) {
    let (Value::Object(one), Value::Object(other)) = (published, derived) else {
        if published != derived {
            difference.differing.push(format!("{path}: {} is {}", brief(published), brief(derived)));
        }
        return;
    };
    let words: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for word in words {
        match (word.as_str(), one.get(word), other.get(word)) {
            ("p", Some(Value::Object(one)), Some(Value::Object(other))) => {
                for (name, published) in one {
                    match other.get(name) {
                        Some(derived) => walk(&format!("{path}.{name}"), published, derived, difference),
                        None => difference.missing.push(format!("{path}.{name}")),
                    }
                }
                let extra = other.keys().filter(|name| !one.contains_key(*name));
                difference.extra.extend(extra.map(|name| format!("{path}.{name}")));
            }
            ("i", Some(one), Some(other)) => walk(&format!("{path}[]"), one, other, difference),
            ("m", Some(one), Some(other)) => walk(&format!("{path}{{}}"), one, other, difference),
            (_, one, other) if one != other => {
                let brief = |value: Option<&Value>| value.map_or("absent".to_owned(), brief);
                difference.differing.push(format!("{path} ({word}): {} is {}", brief(one), brief(other)));
            }
            _ => {}
        }
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.len() > 120 { format!("{}...", text.chars().take(120).collect::<String>()) } else { text }
}
