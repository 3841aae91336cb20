//! What a definition's schema may say, beyond being structural.
//!
//! Mirrors `ValidateCustomResourceDefinitionOpenAPISchema` of
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation`, but for the rules' expressions, which `rules`
//! compiles.

use objects::ErrorList;
use objects::field::{Error, Path};
use serde_json::{Map, Value};

use super::{flag, json_path, list, present, text};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// Where in a resource a schema is, as far as it changes what it may say.
#[derive(Clone, Copy, Default)]
struct Context<'a> {
    is_root: bool,
    inside_meta: bool,
    /// Why there may be no default here.
    no_default: Option<&'a str>,
}

pub(super) fn check(schema: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(schema, Context { is_root: true, ..Context::default() }, path, &mut errors);
    errors
}

fn walk(schema: &Value, context: Context<'_>, path: &Path, errors: &mut ErrorList) {
    let Some(words) = schema.as_object() else { return };
    check_words(schema, words, context, path, errors);
    let inner = Context { is_root: false, ..context };

    if let Some(additional) = present(schema, "additionalProperties") {
        let path = path.child("additionalProperties");
        let has_properties = properties(schema).next().is_some();
        if has_properties && additional != &Value::Bool(true) {
            errors.push(Error::forbidden(&path, "additionalProperties and properties are mutual exclusive"));
        }
        let no_default = match context.inside_meta {
            true => Some("inside additionalProperties applying to object metadata"),
            false => inner.no_default,
        };
        walk(additional, Context { no_default, ..inner }, &path, errors);
    }
    for (name, property) in properties(schema) {
        let is_meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion")
            && (context.is_root || flag(schema, "x-kubernetes-embedded-resource"));
        let reason = format!("in top-level {name}");
        let mut inner = inner;
        if is_meta {
            inner.inside_meta = true;
            if context.is_root {
                inner.no_default = Some(&reason);
            }
        }
        walk(property, inner, &path.child("properties").key(name), errors);
    }
    if let Some(clause) = present(schema, "not") {
        walk(clause, inner, &path.child("not"), errors);
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        for (i, clause) in list(schema, junctor).iter().enumerate() {
            walk(clause, inner, &path.child(junctor).index(i), errors);
        }
    }
    if let Some(items) = present(schema, "items") {
        walk(items, inner, &path.child("items"), errors);
    }
    check_map_type(schema, path, errors);
    check_list_type(schema, path, errors);
    for (i, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        check_rule(schema, rule, &path.child("x-kubernetes-validations").index(i), errors);
    }
}

fn check_words(
    schema: &Value,
    words: &Map<String, Value>,
    context: Context<'_>,
    path: &Path,
    errors: &mut ErrorList,
) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(Error::not_supported(&path.child("type"), kind, &TYPES));
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(&path.child("type"), detail));
    }
    if present(schema, "default").is_some()
        && let Some(reason) = context.no_default
    {
        errors.push(Error::forbidden(&path.child("default"), format!("must not be set {reason}")));
    }
    for word in UNSUPPORTED {
        let is_set = words.get(word).is_some_and(|value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty() || word == "$ref",
            Value::Object(fields) => !fields.is_empty() || word == "dependencies",
            _ => true,
        });
        if is_set {
            errors.push(Error::forbidden(&path.child(word), format!("{word} is not supported")));
        }
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        errors.push(Error::forbidden(&path.child("items"), detail));
    }
    if context.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.push(Error::forbidden(&path, "must not be used inside of resource meta"));
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), detail));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(Error::invalid(&path, false, "must be true or undefined"));
    }
}

/// A word that is only for one type.
fn check_type_for(schema: &Value, word: &str, wanted: &str, path: &Path, errors: &mut ErrorList) -> bool {
    let (kind, path) = (text(schema, "type"), path.child("type"));
    let detail = format!("must be {wanted} if {word} is specified");
    match kind {
        "" => errors.push(Error::required(&path, detail)),
        kind if kind != wanted => errors.push(Error::invalid(&path, kind, detail)),
        _ => return true,
    }
    false
}

fn check_map_type(schema: &Value, path: &Path, errors: &mut ErrorList) {
    const WORD: &str = "x-kubernetes-map-type";
    let Some(given) = present(schema, WORD).and_then(Value::as_str) else { return };
    check_type_for(schema, WORD, "object", path, errors);
    if !matches!(given, "atomic" | "granular") {
        errors.push(Error::not_supported(&path.child(WORD), given, &["atomic", "granular"]));
    }
}

fn check_list_type(schema: &Value, path: &Path, errors: &mut ErrorList) {
    const WORD: &str = "x-kubernetes-list-type";
    let given = present(schema, WORD).and_then(Value::as_str);
    let items = present(schema, "items").filter(|items| items.is_object());
    let keys = list(schema, "x-kubernetes-list-map-keys");
    if let Some(given) = given {
        if check_type_for(schema, WORD, "array", path, errors) && given == "set" {
            items.iter().for_each(|items| check_set_items(items, &path.child("items"), errors));
        }
        if !matches!(given, "atomic" | "set" | "map") {
            let mut error = Error::not_supported(&path.child(WORD), given, &["atomic", "map", "set"]);
            "supported values: \"atomic\", \"set\", \"map\"".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
    if !keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match given {
            None => errors.push(Error::required(&path.child(WORD), detail)),
            Some("map") => {}
            Some(other) => errors.push(Error::invalid(&path.child(WORD), other, detail)),
        }
    }
    if given == Some("map") {
        check_map_list(schema, items, keys, path, errors);
    }
    let (Some(items), Some(given @ ("set" | "map"))) = (items, given) else { return };
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {given}");
        errors.push(Error::forbidden(&path.child("items").child("nullable"), detail));
    }
    for key in keys.iter().filter(|_| given == "map").filter_map(Value::as_str) {
        let Some(property) = items.pointer("/properties").and_then(|all| all.get(key)) else { continue };
        let path = path.child("items").child("properties").key(key);
        let is_required = list(items, "required").iter().any(|name| name == key);
        let subject = "this property is in x-kubernetes-list-map-keys, so it";
        if !is_required && present(property, "default").is_none() {
            let detail = format!("{subject} must have a default or be a required property");
            errors.push(Error::required(&path.child("default"), detail));
        }
        if flag(property, "nullable") {
            errors.push(Error::forbidden(&path.child("nullable"), format!("{subject} cannot be nullable")));
        }
    }
}

/// Items of a set are compared whole, so they must not be merged in part.
fn check_set_items(items: &Value, path: &Path, errors: &mut ErrorList) {
    let (word, is_atomic) = match text(items, "type") {
        "array" => ("x-kubernetes-list-type", matches!(text(items, "x-kubernetes-list-type"), "" | "atomic")),
        "object" => ("x-kubernetes-map-type", text(items, "x-kubernetes-map-type") == "atomic"),
        _ => return,
    };
    if !is_atomic {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let given = items.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
        errors.push(Error::invalid(&path.child(word), given, detail));
    }
}

fn check_map_list(
    schema: &Value,
    items: Option<&Value>,
    keys: &[Value],
    path: &Path,
    errors: &mut ErrorList,
) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = items else {
        match present(schema, "items") {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(Error::required(&path.child("items"), detail));
            }
            Some(several) => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                errors.push(Error::invalid(&path.child("items"), several.clone(), detail));
            }
        }
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&path.child("items").child("type"), kind, detail));
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or("");
        match items.pointer("/properties").and_then(|all| all.get(name)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let path = path.child("items").child("properties").key(name).child("type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(Error::invalid(&path, kind, detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(Error::invalid(&keys_path, Value::from(keys), detail));
            }
        }
        if keys[..i].contains(key) {
            errors.push(Error::invalid(&keys_path, Value::from(keys), "must not contain duplicate entries"));
        }
    }
}

fn check_rule(schema: &Value, rule: &Value, path: &Path, errors: &mut ErrorList) {
    let has_newline = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
    let is_blank = |field: &str| !text(rule, field).is_empty() && text(rule, field).trim().is_empty();
    if expression.is_empty() {
        errors.push(Error::required(&path.child("rule"), "rule is not specified"));
    } else if is_blank("message") {
        errors.push(Error::invalid(&path.child("message"), message, "must be non-empty if specified"));
    } else if has_newline(message.trim()) {
        errors.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
    } else if has_newline(expression) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(Error::required(&path.child("message"), detail));
    }
    if is_blank("messageExpression") {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(Error::required(&path.child("messageExpression"), detail));
    }
    if let Some(reason) = present(rule, "reason").and_then(Value::as_str)
        && !REASONS.contains(&reason)
    {
        errors.push(Error::not_supported(&path.child("reason"), reason, &REASONS));
    }
    let (at, given) = (path.child("fieldPath"), text(rule, "fieldPath"));
    if is_blank("fieldPath") {
        errors.push(Error::invalid(&at, given, "must be non-empty if specified"));
    }
    if has_newline(given) {
        errors.push(Error::invalid(&at, given, "must not contain line breaks"));
    }
    if !given.is_empty() && json_path::resolve(given, schema, true).is_err() {
        errors.push(Error::invalid(&at, given, "must be a valid path"));
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}
