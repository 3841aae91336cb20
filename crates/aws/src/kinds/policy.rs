//! Documents that are the same though they are written in two ways.
//!
//! In an IAM policy the order of statements, actions, resources and principals does not count, one and a list of one
//! are the same, actions are not case-sensitive, and a principal may be an account's id or its root's ARN. In any
//! JSON document, white space and the order of members do not count.

use serde_json::{Map, Value};

/// Whether two policies say the same. Texts that are no JSON are compared as texts.
pub fn same(one: &Value, other: &Value) -> bool {
    match (document(one), document(other)) {
        (Some(one), Some(other)) => canonical(&one) == canonical(&other),
        _ => one == other,
    }
}

/// Whether two JSON documents are the same.
pub fn same_document(one: &Value, other: &Value) -> bool {
    match (document(one), document(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// The document that a text holds, URL-encoded or not.
pub fn document(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => {
            let text = text.trim();
            let parsed = serde_json::from_str(text).ok();
            parsed.or_else(|| serde_json::from_str(&url_decoded(text)).ok())
        }
        Value::Object(_) | Value::Array(_) => Some(value.clone()),
        _ => None,
    }
}

/// A text without its percent signs; what is not encoded properly stays as it is.
pub fn url_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// A policy in the one form that all policies that say the same have.
fn canonical(policy: &Value) -> Value {
    let Value::Object(members) = policy else { return policy.clone() };
    let canonical = members.iter().map(|(name, value)| {
        let value = match name.as_str() {
            "Statement" => sorted(many(value).iter().map(statement).collect()),
            _ => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(canonical.collect())
}

fn statement(statement: &Value) -> Value {
    let Value::Object(members) = statement else { return statement.clone() };
    let mut canonical = Map::new();
    for (name, value) in members {
        let value = match name.as_str() {
            "Action" | "NotAction" => set(value, |text| text.to_lowercase()),
            "Resource" | "NotResource" => set(value, str::to_owned),
            "Principal" | "NotPrincipal" => principals(value),
            "Condition" => condition(value),
            _ => value.clone(),
        };
        canonical.insert(name.clone(), value);
    }
    Value::Object(canonical)
}

/// `"*"` is everybody at AWS; an account is its root.
fn principals(value: &Value) -> Value {
    let Value::Object(members) = value else {
        return match value.as_str() {
            Some("*") => Value::Object(Map::from_iter([("AWS".to_owned(), set(value, str::to_owned))])),
            _ => value.clone(),
        };
    };
    let root = |text: &str| {
        let account = text.strip_prefix("arn:").and_then(|rest| rest.strip_suffix(":root"));
        account.and_then(|rest| rest.rsplit(':').next()).unwrap_or(text).to_owned()
    };
    Value::Object(members.iter().map(|(name, value)| (name.clone(), set(value, root))).collect())
}

fn condition(value: &Value) -> Value {
    let Value::Object(operators) = value else { return value.clone() };
    let keys = |value: &Value| match value {
        Value::Object(keys) => Value::Object(
            keys.iter().map(|(key, value)| (key.to_lowercase(), set(value, str::to_owned))).collect(),
        ),
        other => other.clone(),
    };
    Value::Object(operators.iter().map(|(operator, value)| (operator.clone(), keys(value))).collect())
}

fn many(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    }
}

/// One or many texts, in order, each once. Truths and numbers count as their texts, as IAM has it.
fn set(value: &Value, normal: impl Fn(&str) -> String) -> Value {
    let texts = many(value).into_iter().map(|item| match item {
        Value::String(text) => Value::from(normal(&text)),
        Value::Bool(truth) => Value::from(truth.to_string()),
        Value::Number(number) => Value::from(number.to_string()),
        other => other,
    });
    let mut texts = texts.collect::<Vec<Value>>();
    texts.dedup();
    match sorted(texts) {
        Value::Array(mut items) => {
            items.dedup();
            Value::Array(items)
        }
        other => other,
    }
}

fn sorted(mut items: Vec<Value>) -> Value {
    items.sort_by_cached_key(Value::to_string);
    Value::Array(items)
}
