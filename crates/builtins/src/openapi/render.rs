//! Paths and operations in the words of either dialect.

use serde_json::{Map, Value, json};

use super::Dialect;
use super::operations::{Answer, Body, Entry, Operation, Parameter};

pub(super) fn bearer_token() -> Value {
    json!({"type": "apiKey", "in": "header", "name": "authorization"})
}

/// The members of `paths`.
pub(super) fn paths(dialect: Dialect, entries: &[Entry]) -> Map<String, Value> {
    entries.iter().map(|entry| (entry.path.clone(), path_item(dialect, entry))).collect()
}

fn path_item(dialect: Dialect, entry: &Entry) -> Value {
    let each = entry.operations.iter().map(|op| {
        let value = match dialect {
            Dialect::V2 => v2_operation(op),
            Dialect::V3 => v3_operation(op),
        };
        (op.method.to_owned(), value)
    });
    let mut item: Map<String, Value> = each.collect();
    if !entry.parameters.is_empty() {
        item.insert("parameters".into(), parameters(dialect, &entry.parameters).into());
    }
    Value::Object(item)
}

fn parameters(dialect: Dialect, all: &[Parameter]) -> Vec<Value> {
    all.iter().map(|one| parameter(dialect, one)).collect()
}

fn parameter(dialect: Dialect, one: &Parameter) -> Value {
    let place = if one.in_path { "path" } else { "query" };
    let mut value = match dialect {
        Dialect::V2 => json!({"name": one.name, "in": place, "type": one.kind, "uniqueItems": true}),
        Dialect::V3 => {
            json!({"name": one.name, "in": place, "schema": {"type": one.kind, "uniqueItems": true}})
        }
    };
    if one.in_path {
        value["required"] = true.into();
    }
    value
}

/// What an operation says in both dialects.
fn common(op: &Operation) -> Map<String, Value> {
    let mut value = Map::new();
    value.insert("operationId".into(), op.id.as_str().into());
    value.insert("tags".into(), json!([op.tag]));
    if let Some((action, kind)) = &op.subject {
        value.insert("x-kubernetes-action".into(), (*action).into());
        let kind = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        value.insert("x-kubernetes-group-version-kind".into(), kind);
    }
    value
}

fn answer(dialect: Dialect, op: &Operation) -> Value {
    match &op.answer {
        Answer::Definition(name) => dialect.reference(name),
        Answer::Text => json!({"type": "string"}),
    }
}

fn v2_operation(op: &Operation) -> Value {
    let mut value = common(op);
    let mut all = parameters(Dialect::V2, op.parameters);
    let body = match &op.body {
        Body::None => None,
        Body::Optional(name) => Some((name, false)),
        Body::Required(name) => Some((name, true)),
    };
    if let Some((name, required)) = body {
        let mut body = json!({"name": "body", "in": "body", "schema": Dialect::V2.reference(name)});
        if required {
            body["required"] = true.into();
        }
        all.insert(0, body);
    }
    if !all.is_empty() {
        value.insert("parameters".into(), all.into());
    }
    let described = |(code, description): &(&str, &str)| {
        ((*code).to_owned(), json!({"description": description, "schema": answer(Dialect::V2, op)}))
    };
    let mut responses: Map<String, Value> = op.codes.iter().map(described).collect();
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    value.insert("responses".into(), Value::Object(responses));
    value.insert("consumes".into(), json!(op.consumes));
    value.insert("produces".into(), json!(op.produces));
    value.insert("schemes".into(), json!(["https"]));
    Value::Object(value)
}

fn v3_operation(op: &Operation) -> Value {
    let mut value = common(op);
    if !op.parameters.is_empty() {
        value.insert("parameters".into(), parameters(Dialect::V3, op.parameters).into());
    }
    let content = |media_types: &[&str], schema: Value| -> Value {
        media_types.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect()
    };
    let body = |name: &str| content(op.consumes, Dialect::V3.reference(name));
    match &op.body {
        Body::None => {}
        Body::Optional(name) => {
            value.insert("requestBody".into(), json!({ "content": body(name) }));
        }
        Body::Required(name) => {
            value.insert("requestBody".into(), json!({"content": body(name), "required": true}));
        }
    }
    let described = |(code, description): &(&str, &str)| {
        let content = content(op.produces, answer(Dialect::V3, op));
        ((*code).to_owned(), json!({"description": description, "content": content}))
    };
    let mut responses: Map<String, Value> = op.codes.iter().map(described).collect();
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    value.insert("responses".into(), Value::Object(responses));
    Value::Object(value)
}
