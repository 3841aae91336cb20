//! Rules that a definition is refused for, and those that it is not.

use serde_json::{Value, json};

use super::{compiled, resource, texts};

const AT: &str = "spec.versions[0].schema.openAPIV3Schema";

/// The errors, each as far as its first line.
fn errors(schema: Value) -> Vec<String> {
    match compiled(schema) {
        Ok(_) => Vec::new(),
        Err(errors) => {
            texts(&errors).iter().map(|e| e.lines().next().unwrap_or_default().to_owned()).collect()
        }
    }
}

#[track_caller]
fn refused(properties: Value, rule: Value, field: &str, ending: &str) {
    let found = errors(resource(properties, json!([rule])));
    let field = format!("{AT}.properties[spec].x-kubernetes-validations[0].{field}: ");
    let fits = |e: &String| e.starts_with(&field) && e.ends_with(ending);
    assert!(found.iter().any(fits), "wanted {field}...{ending}\n found {found:#?}");
}

#[track_caller]
fn accepted(properties: Value, rule: &str) {
    assert_eq!(errors(resource(properties, json!([{"rule": rule}]))), Vec::<String>::new(), "{rule}");
}

#[test]
fn expressions() {
    let none = json!({"replicas": {"type": "integer"}, "name": {"type": "string"}});
    let wrong = |rule: &str, ending: &str| refused(none.clone(), json!({"rule": rule}), "rule", ending);
    wrong("self.replica > 0", "compilation failed: ERROR: <input>:1:5: undefined field 'replica'");
    wrong(
        "self.replicas > ",
        "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
    );
    wrong("self.replicas", "cel expression must evaluate to a bool");
    wrong("self.replicas == 'a'", "found no matching overload for '_==_' applied to '(int, string)'");
    wrong("self.name.foo == 1", "type 'string' does not support field selection");
    wrong("other.replicas > 0", "undeclared reference to 'other' (in container '')");
    wrong("self['replicas'] > 0", "found no matching overload for '_[_]' applied to '(object, string)'");
    wrong("self.name.nope()", "undeclared reference to 'nope' (in container '')");
    wrong("  ", "rule is not specified");
}

#[test]
fn texts_beside_the_rule() {
    let none = json!({"a": {"type": "string"}});
    let wrong = |rule: Value, field: &str, ending: &str| refused(none.clone(), rule, field, ending);
    wrong(json!({"rule": "true", "message": " "}), "message", "message must be non-empty if specified");
    wrong(json!({"rule": "true", "message": "a\nb"}), "message", "message must not contain line breaks");
    wrong(
        json!({"rule": "true\n&& true"}),
        "message",
        "message must be specified if rule contains line breaks",
    );
    wrong(
        json!({"rule": "true", "messageExpression": "1"}),
        "messageExpression",
        "must evaluate to a string",
    );
    wrong(json!({"rule": "true", "messageExpression": "self.b"}), "messageExpression", "undefined field 'b'");
    wrong(
        json!({"rule": "true", "reason": "Nope"}),
        "reason",
        "Unsupported value: \"Nope\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \
         \"FieldValueInvalid\", \"FieldValueRequired\"",
    );
    wrong(json!({"rule": "true", "fieldPath": ".b"}), "fieldPath", "fieldPath must be a valid path");
    wrong(json!({"rule": "true", "fieldPath": "a"}), "fieldPath", "fieldPath must be a valid path");
    wrong(json!({"rule": "true", "fieldPath": ".a["}), "fieldPath", "fieldPath must be a valid path");
    wrong(
        json!({"rule": "true", "optionalOldSelf": true}),
        "optionalOldSelf",
        "may not be set if oldSelf is not used in rule",
    );
}

#[test]
fn names_are_escaped() {
    let properties = json!({
        "a-b": {"type": "string"}, "a.b": {"type": "string"}, "a/b": {"type": "string"},
        "a__b": {"type": "string"}, "namespace": {"type": "string"}, "in": {"type": "string"},
        "_x": {"type": "string"}, "1st": {"type": "string"},
    });
    for rule in [
        "self.a__dash__b == 'x'",
        "self.a__dot__b == 'x'",
        "self.a__slash__b == 'x'",
        "self.a__underscores__b == 'x'",
        "self.__namespace__ == 'x'",
        "self.__in__ == 'x'",
        "self._x == 'x'",
        "self.`a-b` == 'x'",
    ] {
        accepted(properties.clone(), rule);
    }
    refused(properties, json!({"rule": "self.a__b == 'x'"}), "rule", "undefined field 'a__b'");
}

#[test]
fn types_follow_the_schema() {
    let properties = json!({
        "port": {"x-kubernetes-int-or-string": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 5},
        "when": {"type": "string", "format": "date-time"},
        "timeout": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte"},
        "ratio": {"type": "number"},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
        "child": {"type": "object", "properties": {"a": {"type": "integer"}}},
    });
    for rule in [
        "self.port == 80 || self.port == 'http'",
        "type(self.port) == string ? self.port == 'a' : self.port > 1",
        "self.labels['a'] == 'b' && self.labels.a == 'b' && 'a' in self.labels",
        "self.when < timestamp('2023-01-01T00:00:00Z')",
        "self.timeout > duration('1s')",
        "self.data == b'abc'",
        "self.ratio > 1.0 && self.ratio < 2",
        "has(self.child) && self.child != null",
        "has(self.any)",
    ] {
        accepted(properties.clone(), rule);
    }
    let wrong = |rule: &str, ending: &str| refused(properties.clone(), json!({"rule": rule}), "rule", ending);
    wrong("self.ratio == 1", "applied to '(double, int)'");
    wrong("self.any.x == 1", "undefined field 'x'");
    wrong("has(self.free)", "undefined field 'free'");
    wrong(
        "self.labels == null",
        "found no matching overload for '_==_' applied to '(map(string, string), null)'",
    );
}

#[test]
fn the_root_of_a_resource() {
    let schema = |rule: &str| {
        json!({
            "type": "object",
            "properties": {"metadata": {"type": "object"}},
            "x-kubernetes-validations": [{"rule": rule}],
        })
    };
    assert!(
        compiled(schema("self.metadata.name == 'a' && self.kind == 'B' && self.apiVersion != ''")).is_ok()
    );
    assert!(compiled(schema("self.metadata.generateName == ''")).is_ok());
    let found = errors(schema("self.metadata.labels.size() == 0"));
    assert!(found[0].ends_with("undefined field 'labels'"), "{found:?}");
}

#[test]
fn transition_rules_need_correlation() {
    let list = |kind: Value| {
        let mut items = json!({"type": "object", "properties": {"k": {"type": "string", "maxLength": 9}},
            "required": ["k"], "x-kubernetes-validations": [{"rule": "self.k == oldSelf.k"}]});
        let mut list = json!({"type": "array", "maxItems": 5});
        if kind != "atomic" {
            list["x-kubernetes-list-type"] = kind.clone();
        }
        if kind == "map" {
            list["x-kubernetes-list-map-keys"] = json!(["k"]);
        }
        if kind == "set" {
            items["x-kubernetes-map-type"] = json!("atomic");
        }
        list["items"] = items;
        json!({"type": "object", "properties": {"list": list}})
    };
    assert_eq!(errors(list(json!("map"))), Vec::<String>::new());
    for kind in ["atomic", "set"] {
        let found = errors(list(json!(kind)));
        let ending = format!(
            "oldSelf cannot be used on the uncorrelatable portion of the schema within {AT}.properties[list]"
        );
        assert!(found.iter().any(|e| e.ends_with(&ending)), "{kind}: {found:?}");
    }
}

#[test]
fn cost_is_bounded() {
    let list = |item: Value, rule: &str| {
        resource(json!({"list": {"type": "array", "items": item}}), json!([{"rule": rule}]))
    };
    let nested = "self.list.all(a, self.list.all(b, a == b))";
    let unbounded = errors(list(json!({"type": "string"}), nested));
    let at = format!("{AT}.properties[spec].x-kubernetes-validations[0].rule");
    assert!(
        unbounded.contains(&format!(
            "{at}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, \
             or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
        )),
        "{unbounded:?}"
    );
    assert!(
        unbounded.iter().any(|e| e.starts_with(&format!(
            "{AT}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds"
        ))),
        "{unbounded:?}"
    );
    let bounded =
        json!({"list": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}}});
    accepted(bounded, nested);
    // A single pass over an unbounded list of small things is within the budget.
    assert_eq!(errors(list(json!({"type": "integer"}), "self.list.size() < 5")), Vec::<String>::new());
    assert_eq!(errors(list(json!({"type": "string"}), "self.list.all(x, x.contains('abc'))")).len(), 3);
}

#[test]
fn cost_counts_how_often_a_place_can_occur() {
    let schema = |max: Value| {
        json!({"type": "object", "properties": {"list": {
            "type": "array", "maxItems": max,
            "items": {"type": "array", "maxItems": 1000, "items": {
                "type": "string", "maxLength": 500,
                "x-kubernetes-validations": [{"rule": "self.contains('abc')"}],
            }},
        }}})
    };
    assert_eq!(errors(schema(json!(10))), Vec::<String>::new());
    assert_eq!(errors(schema(json!(1000))).len(), 3);
}

/// Rules of widely used definitions that stand close to the limit: refusing them would refuse the definition.
#[test]
fn dear_rules_of_real_definitions_are_within_the_limit() {
    let cors = json!({
        "type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 253},
        "x-kubernetes-validations": [{"rule": "!('*' in self && self.size() > 1)", "message": "no other beside '*'"}],
    });
    let filters =
        json!({"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"cors": cors}}});
    let backends = json!({"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"filters": filters}}});
    let rules = json!({"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"backends": backends}}});
    assert_eq!(errors(json!({"type": "object", "properties": {"rules": rules}})), Vec::<String>::new());
}

/// As upstream, a key has no size when a rule is estimated. This is the rule of Istio's definitions that comes closest to
/// the limit: 4096 endpoints with 128 ports each.
#[test]
fn keys_of_maps_are_estimated_without_a_size() {
    let rule = "self.all(key, size(key) < 63 && key.matches('^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$'))";
    let endpoints = |max: u64| {
        let ports = json!({
            "type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": max,
            "x-kubernetes-validations": [{"rule": rule}],
        });
        let endpoint = json!({"type": "object", "properties": {"ports": ports}});
        resource(json!({"endpoints": {"type": "array", "maxItems": 4096, "items": endpoint}}), json!([]))
    };
    assert_eq!(errors(endpoints(128)), Vec::<String>::new());
    assert!(!errors(endpoints(256)).is_empty());
}
