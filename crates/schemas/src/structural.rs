//! Whether a schema is structural: every field it speaks of is specified outside of logical junctors, with a
//! type, so that values can be pruned and defaulted by it.
//!
//! Mirrors `ValidateStructural` of `apiextensions-apiserver/pkg/apiserver/schema`.

use objects::ErrorList;
use objects::field::{Error, Path};
use serde_json::{Map, Value};

use crate::pattern;

/// What keeps the schema from being structural, sorted by message. `path` is where the schema stands, such as
/// `spec.versions[0].schema.openAPIV3Schema`.
#[must_use]
pub fn check(schema: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete_junctors(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

impl Level {
    fn type_missing(self) -> &'static str {
        match self {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        }
    }
}

const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

fn invariants(schema: &Value, level: Level, path: &Path, errors: &mut ErrorList) {
    let kind = text(schema, "type");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    let additional = schema.get("additionalProperties").filter(|said| !said.is_null());

    if kind == "array" && part(schema, "items").is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = part(schema, "items") {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in properties(schema) {
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    if additional.is_some() {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&path, "must not be used at the root"));
        }
        if let Some(entries) = part(schema, "additionalProperties") {
            invariants(entries, Level::Field, &path, errors);
        }
    }

    for (set, word) in
        [(preserves, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
    {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&path.child(word), true, detail));
        }
    }
    let skip_any_of = is_int_or_string(schema.get("anyOf"));
    let first_clause = schema.get("allOf").and_then(|clauses| clauses.get(0));
    let skip_first = first_clause.is_some_and(|clause| is_int_or_string(clause.get("anyOf")));
    value_validation(schema, skip_any_of, skip_first, path, errors);

    if embedded && kind != "object" {
        let (path, detail) = (path.child("type"), "must be object if x-kubernetes-embedded-resource is true");
        errors.push(match kind {
            "" => Error::required(&path, detail),
            other => Error::invalid(&path, other, detail),
        });
    } else if kind.is_empty() && !int_or_string && !preserves {
        errors.push(Error::required(&path.child("type"), level.type_missing()));
    }
    if embedded && additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(&path.child("type"), kind, "must be object at the root"));
    }
    implicit_fields(schema, level, embedded, path, errors);
    if embedded && !preserves && properties(schema).next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), detail));
    }
}

/// `apiVersion`, `kind` and `metadata` of a resource are what they always are.
fn implicit_fields(schema: &Value, level: Level, embedded: bool, path: &Path, errors: &mut ErrorList) {
    let named: Option<&Map<String, Value>> = schema.get("properties").and_then(Value::as_object);
    let property = |name: &str| named.and_then(|all| all.get(name));
    let is_resource = level == Level::Root || embedded;
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = property(name).filter(|_| is_resource) else { continue };
        if text(property, "type") != wanted {
            let path = path.child("properties").key(name).child("type");
            errors.push(Error::invalid(&path, text(property, "type"), format!("must be {wanted}")));
        }
    }
    let Some(metadata) = property("metadata").and_then(Value::as_object) else { return };
    let only_names = |value: &Value| {
        value.as_object().is_some_and(|all| all.keys().all(|key| key == "name" || key == "generateName"))
    };
    let is_implied = metadata.iter().all(|(word, value)| match word.as_str() {
        "type" | "default" => true,
        "properties" => only_names(value),
        _ => is_zero(value),
    });
    if level == Level::Root && !is_implied {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(&path.child("properties").key("metadata"), detail));
    }
}

/// The junctors of a schema or of a clause, and its pattern.
fn value_validation(
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path,
    errors: &mut ErrorList,
) {
    for junctor in JUNCTORS {
        if junctor == "anyOf" && skip_any_of {
            continue;
        }
        for (i, clause) in list(schema, junctor).iter().enumerate() {
            let skip = junctor == "allOf" && i == 0 && skip_first_all_of;
            nested(clause, skip, &path.child(junctor).index(i), errors);
        }
    }
    if let Some(clause) = part(schema, "not") {
        nested(clause, false, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if let Err(reason) = pattern::check(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {reason}");
        errors.push(Error::invalid(&path.child("pattern"), pattern, detail));
    }
}

/// Words that make structure, and how a clause of a junctor is told not to use them.
const STRUCTURE: [(&str, &str); 13] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

fn nested(clause: &Value, skip_any_of: bool, path: &Path, errors: &mut ErrorList) {
    value_validation(clause, skip_any_of, false, path, errors);
    if let Some(items) = part(clause, "items") {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in properties(clause) {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    for (word, detail) in STRUCTURE {
        // A default of false or "" is a default all the same.
        let said = clause.get(word).is_some_and(|value| match word {
            "default" => !value.is_null(),
            "additionalProperties" => value.is_object() || value == &Value::Bool(true),
            _ => !is_zero(value),
        });
        if said {
            errors.push(Error::forbidden(&path.child(word), detail));
        }
    }
    if properties(clause).any(|(name, _)| name == "metadata") {
        let path = path.child("properties").key("metadata");
        errors.push(Error::forbidden(&path, "must not be specified in a nested context"));
    }
}

/// Everything that clauses speak of must be specified by `structure`, the schema outside of them.
fn complete_junctors(
    schema: &Value,
    structure: Option<&Value>,
    structure_path: &Path,
    path: &Path,
    errors: &mut ErrorList,
) {
    if let Some(clause) = part(schema, "not") {
        complete(clause, structure, structure_path, &path.child("not"), errors);
    }
    for junctor in JUNCTORS {
        for (i, clause) in list(schema, junctor).iter().enumerate() {
            complete(clause, structure, structure_path, &path.child(junctor).index(i), errors);
        }
    }
}

fn complete(
    clause: &Value,
    structure: Option<&Value>,
    structure_path: &Path,
    path: &Path,
    errors: &mut ErrorList,
) {
    let Some(structure) = structure else {
        errors.push(Error::required(structure_path, format!("because it is defined in {path}")));
        return;
    };
    complete_junctors(clause, Some(structure), structure_path, path, errors);
    if let Some(items) = part(clause, "items") {
        let (structure_path, path) = (structure_path.child("items"), path.child("items"));
        complete(items, part(structure, "items"), &structure_path, &path, errors);
    }
    for (name, property) in properties(clause) {
        let within = structure.get("properties").and_then(|all| all.get(name));
        let structure_path = structure_path.child("properties").key(name);
        let path = path.child("properties").key(name);
        complete(property, within, &structure_path, &path, errors);
    }
}

/// Either order of words within each clause, but no further words: `[{type: integer}, {type: string}]`.
fn is_int_or_string(any_of: Option<&Value>) -> bool {
    let clauses = any_of.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let only = |clause: &Value, kind: &str| {
        let words = clause.as_object().into_iter().flatten().filter(|(_, value)| !is_zero(value));
        words.map(|(word, value)| (word.as_str(), value.as_str())).eq([("type", Some(kind))])
    };
    matches!(clauses, [first, second] if only(first, "integer") && only(second, "string"))
}

fn part<'a>(schema: &'a Value, word: &str) -> Option<&'a Value> {
    schema.get(word).filter(|value| value.is_object())
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn list<'a>(schema: &'a Value, word: &str) -> &'a [Value] {
    schema.get(word).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(schema: &'a Value, word: &str) -> &'a str {
    schema.get(word).and_then(Value::as_str).unwrap_or("")
}

fn flag(schema: &Value, word: &str) -> bool {
    schema.get(word) == Some(&Value::Bool(true))
}

/// Absent, or as good as absent to a decoder that omits empty values.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, expected: &[&str]) {
        let errors = super::check(&schema, &Path::new("s"));
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{schema}");
    }

    #[test]
    fn structural_schemas_pass() {
        check(json!({"type": "object"}), &[]);
        check(json!({"type": "object", "properties": {"metadata": {"type": "object"}}}), &[]);
        let named = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}});
        check(json!({"type": "object", "properties": {"metadata": named}}), &[]);
        check(json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true}}}), &[]);
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let port = json!({"x-kubernetes-int-or-string": true, "anyOf": either});
        check(json!({"type": "object", "properties": {"a": port}}), &[]);
        let port = json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"minimum": 3}]});
        check(json!({"type": "object", "properties": {"a": port}}), &[]);
        check(
            json!({"type": "object", "properties": {"a": {"type": "string"}},
                "oneOf": [{"properties": {"a": {"pattern": "^x"}}}, {"required": ["a"]}]}),
            &[],
        );
    }

    #[test]
    fn types_are_needed() {
        check(json!({}), &["s.type: Required value: must not be empty at the root"]);
        check(
            json!({"type": "array", "items": {}}),
            &[
                "s.items.type: Required value: must not be empty for specified array items",
                "s.type: Invalid value: \"array\": must be object at the root",
            ],
        );
        check(
            json!({"type": "object", "properties": {"a": {}, "b": {"type": "array"}}}),
            &[
                "s.properties[a].type: Required value: must not be empty for specified object fields",
                "s.properties[b].items: Required value: must be specified",
            ],
        );
        check(
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            &["s.additionalProperties: Forbidden: must not be used at the root"],
        );
    }

    #[test]
    fn clauses_have_no_structure() {
        check(
            json!({"type": "object", "properties": {"a": {"type": "string"}},
                "anyOf": [{"properties": {"a": {"type": "string"}, "b": {"default": 1}, "metadata": {}}}]}),
            &[
                "s.anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
                "s.anyOf[0].properties[b].default: Forbidden: must be undefined to be structural",
                "s.anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
                "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
                "s.properties[metadata]: Required value: because it is defined in s.anyOf[0].properties[metadata]",
            ],
        );
        check(
            json!({"type": "object", "not": {"nullable": true, "x-kubernetes-validations": [{"rule": "true"}]}}),
            &[
                "s.not.nullable: Forbidden: must be false to be structural",
                "s.not.x-kubernetes-validations: Forbidden: must be empty to be structural",
            ],
        );
    }

    #[test]
    fn implicit_fields_stay_what_they_are() {
        let labels = json!({"type": "object", "properties": {"labels": {"type": "object"}}});
        check(
            json!({"type": "object", "properties": {"metadata": labels, "kind": {"type": "integer"}}}),
            &[
                "s.properties[kind].type: Invalid value: \"integer\": must be string",
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, \
                 but metadata is implicitly specified",
            ],
        );
        check(
            json!({"type": "object", "properties": {"a": {"x-kubernetes-embedded-resource": true}}}),
            &[
                "s.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource \
                 is true without x-kubernetes-preserve-unknown-fields",
                "s.properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true",
            ],
        );
    }

    #[test]
    fn patterns_compile() {
        let errors = super::check(
            &json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            &Path::new("s"),
        );
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field, "s.properties[a].pattern");
        assert!(errors[0].detail.starts_with("must be a valid regular expression, but isn't: "));
    }
}
