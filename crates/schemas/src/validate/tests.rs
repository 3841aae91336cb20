use objects::field::Path;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::*;

/// Checks a field `x` of this schema, and what a user would be told.
fn check(schema: Value, value: Value, expected: &[&str]) {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"x": schema}})).unwrap();
    let told: Vec<String> = validate(schema.root(), &json!({"x": value}), None, &Path::root())
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(told, expected, "{value}");
}

fn check_object(schema: Value, value: Value, expected: &[&str]) {
    let schema = Schema::from_crd(&schema).unwrap();
    let told: Vec<String> =
        validate(schema.root(), &value, None, &Path::root()).iter().map(ToString::to_string).collect();
    assert_eq!(told, expected, "{value}");
}

#[test]
fn types() {
    let of = |kind: &str| json!({"type": kind});
    check(of("integer"), json!(1), &[]);
    check(of("integer"), json!(1.0), &[]);
    check(of("number"), json!(1), &[]);
    check(
        of("integer"),
        json!("a"),
        &[r#"x: Invalid value: "string": x in body must be of type integer: "string""#],
    );
    check(
        of("string"),
        json!(1),
        &[r#"x: Invalid value: "integer": x in body must be of type string: "integer""#],
    );
    check(
        of("string"),
        json!(true),
        &[r#"x: Invalid value: "boolean": x in body must be of type string: "boolean""#],
    );
    check(
        of("boolean"),
        json!({}),
        &[r#"x: Invalid value: "object": x in body must be of type boolean: "object""#],
    );
    check(
        of("object"),
        json!([]),
        &[r#"x: Invalid value: "array": x in body must be of type object: "array""#],
    );
    check(
        of("string"),
        json!(null),
        &[r#"x: Invalid value: "null": x in body must be of type string: "null""#],
    );
    check(json!({"type": "string", "nullable": true}), json!(null), &[]);
    check(
        of("integer"),
        json!(1.5),
        &[
            r#"x: Invalid value: "number": x in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in x"#,
        ],
    );
    check(json!({"x-kubernetes-int-or-string": true}), json!("80%"), &[]);
    check(json!({"x-kubernetes-int-or-string": true}), json!(80), &[]);
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!(true),
        &[r#"x: Invalid value: "boolean": x in body must be of type integer,string: "boolean""#],
    );
    check(json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, {"a": null}]), &[]);
}

#[test]
fn formats() {
    let of = |kind: &str, format: &str| json!({"type": kind, "format": format});
    check(of("string", "date-time"), json!("2014-12-15T19:30:20Z"), &[]);
    check(
        of("string", "date-time"),
        json!("soon"),
        &[r#"x: Invalid value: "soon": x in body must be of type date-time: "soon""#],
    );
    check(
        of("string", "date-time"),
        json!(3),
        &[r#"x: Invalid value: "int64": x in body must be of type date-time: "int64""#],
    );
    check(of("string", "no-such-format"), json!("x"), &[]);
    check(
        of("integer", "int32"),
        json!(2147483648_i64),
        &[r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in x"#],
    );
    check(of("integer", "int64"), json!(2147483648_i64), &[]);
    check(
        of("integer", "int32"),
        json!(true),
        &[r#"x: Invalid value: "": x in body must be of type int32: """#],
    );
}

#[test]
fn numbers() {
    let of = |limits: Value| {
        let mut schema = json!({"type": "integer"});
        schema.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        schema
    };
    check(of(json!({"minimum": 1})), json!(1), &[]);
    check(
        of(json!({"minimum": 1})),
        json!(0),
        &["x: Invalid value: 0: x in body should be greater than or equal to 1"],
    );
    check(
        of(json!({"minimum": 1, "exclusiveMinimum": true})),
        json!(1),
        &["x: Invalid value: 1: x in body should be greater than 1"],
    );
    check(
        of(json!({"maximum": 1})),
        json!(2),
        &["x: Invalid value: 2: x in body should be less than or equal to 1"],
    );
    check(
        of(json!({"maximum": 1, "exclusiveMaximum": true})),
        json!(1),
        &["x: Invalid value: 1: x in body should be less than 1"],
    );
    check(of(json!({"multipleOf": 3})), json!(9), &[]);
    check(
        of(json!({"multipleOf": 3})),
        json!(10),
        &["x: Invalid value: 10: x in body should be a multiple of 3"],
    );
    check(
        json!({"type": "number", "minimum": 0.5}),
        json!(0.25),
        &["x: Invalid value: 0.25: x in body should be greater than or equal to 0.5"],
    );
    check(json!({"type": "number", "multipleOf": 0.5}), json!(1.5), &[]);
    check(
        json!({"type": "number", "maximum": 1e21}),
        json!(1e22),
        &["x: Invalid value: 1e+22: x in body should be less than or equal to 1e+21"],
    );
}

#[test]
fn texts() {
    let of = |limits: Value| {
        let mut schema = json!({"type": "string"});
        schema.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        schema
    };
    check(
        of(json!({"minLength": 3})),
        json!("ab"),
        &[r#"x: Invalid value: "ab": x in body should be at least 3 chars long"#],
    );
    check(of(json!({"maxLength": 3})), json!("äöü"), &[]);
    check(of(json!({"maxLength": 3})), json!("abcd"), &["x: Too long: may not be more than 3 bytes"]);
    check(
        of(json!({"pattern": "^a$"})),
        json!("b"),
        &[r#"x: Invalid value: "b": x in body should match '^a$'"#],
    );
    check(of(json!({"enum": ["b", "a"]})), json!("b"), &[]);
    check(
        of(json!({"enum": ["b", "a"]})),
        json!("x"),
        &[r#"x: Unsupported value: "x": supported values: "b", "a""#],
    );
    check(
        json!({"type": "integer", "enum": [1, 2]}),
        json!(3),
        &[r#"x: Unsupported value: 3: supported values: "1", "2""#],
    );
    check(json!({"type": "number", "enum": [1]}), json!(1.0), &[]);
}

#[test]
fn lists() {
    let of = |limits: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "string"}});
        schema.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        schema
    };
    check(
        of(json!({})),
        json!([1]),
        &[r#"x[0]: Invalid value: "integer": x[0] in body must be of type string: "integer""#],
    );
    check(
        of(json!({"minItems": 1})),
        json!([]),
        &["x: Invalid value: 0: x in body should have at least 1 items"],
    );
    check(of(json!({"maxItems": 1})), json!(["a", "b"]), &["x: Too many: 2: must have at most 1 item"]);
    check(
        of(json!({"uniqueItems": true})),
        json!(["a", "a"]),
        &[r#"x: Invalid value: "": x in body shouldn't contain duplicates"#],
    );
    check(
        of(json!({"x-kubernetes-list-type": "set"})),
        json!(["a", "b", "a", "a"]),
        &[r#"x[2]: Duplicate value: "a""#],
    );
    let keyed = |keys: Value| {
        json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
    };
    check(keyed(json!(["a"])), json!([{"a": 1}, {"a": 2}]), &[]);
    let odd = "x[1]: Invalid value: 1: must be an object for an array of list-type map";
    let kind = r#"x[1]: Invalid value: "integer": x[1] in body must be of type object: "integer""#;
    check(keyed(json!(["a"])), json!([{"a": 1}, 1]), &[kind, odd]);
    let nested =
        json!({"type": "object", "additionalProperties": of(json!({"x-kubernetes-list-type": "set"}))});
    check(nested, json!({"k": ["a", "a"]}), &[r#"x[k][1]: Duplicate value: "a""#]);
    check_object(json!({"type": "object"}), json!({"metadata": {"finalizers": ["a", "a"]}}), &[]);
    check(keyed(json!(["a"])), json!([{"a": 1}, {"a": 1}]), &[r#"x[1]: Duplicate value: {"a":1}"#]);
    check(keyed(json!(["a", "b"])), json!([{"a": 1}, {"a": 1}]), &[r#"x[1]: Duplicate value: {"a":1}"#]);
    check(keyed(json!(["a", "b"])), json!([{"a": 1, "b": 2}, {"a": 1}]), &[]);
}

#[test]
fn objects() {
    let named = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    check(named.clone(), json!({}), &["x.a: Required value"]);
    check(named.clone(), json!({"a": ""}), &[]);
    check(
        json!({"type": "object", "minProperties": 1}),
        json!({}),
        &["x: Invalid value: 0: x in body should have at least 1 properties"],
    );
    check(
        json!({"type": "object", "maxProperties": 1}),
        json!({"a": 1, "b": 1}),
        &["x: Too many: 2: must have at most 1 item"],
    );
    check(
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"k": 1}),
        &[r#"x.k: Invalid value: "integer": x.k in body must be of type string: "integer""#],
    );
    check_object(json!({"type": "object", "required": ["spec"]}), json!({}), &["spec: Required value"]);
    let limited = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 2}}});
    check_object(
        json!({"type": "object", "properties": {"metadata": limited}}),
        json!({"metadata": {"name": "abc", "labels": {"a": "b"}}}),
        &["metadata.name: Too long: may not be more than 2 bytes"],
    );
}

#[test]
fn junctors() {
    let of = |junctor: &str, clauses: Value| json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, junctor: clauses});
    let either = json!([{"required": ["a"]}, {"required": ["b"]}]);
    check(of("oneOf", either.clone()), json!({"a": 1}), &[]);
    check(
        of("oneOf", either.clone()),
        json!({"a": 1, "b": 1}),
        &[
            r#"<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check(
        of("oneOf", either.clone()),
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid"#,
            "x.a: Required value",
        ],
    );
    check(of("anyOf", either.clone()), json!({"b": 1}), &[]);
    check(
        of("anyOf", either.clone()),
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#,
            "x.a: Required value",
        ],
    );
    check(
        of("allOf", either),
        json!({}),
        &[
            "x.a: Required value",
            "x.b: Required value",
            r#"<nil>: Invalid value: "": "x" must validate all the schemas (allOf). None validated"#,
        ],
    );
    check(
        of("not", json!({"required": ["a"]})),
        json!({"a": 1}),
        &[r#"<nil>: Invalid value: "": "x" must not validate the schema (not)"#],
    );
    check(
        of("allOf", json!([{"properties": {"a": {"minimum": 3}}}])),
        json!({"a": 1}),
        &[
            "x.a: Invalid value: 1: x.a in body should be greater than or equal to 3",
            r#"<nil>: Invalid value: "": "x" must validate all the schemas (allOf). None validated"#,
        ],
    );
}

#[test]
fn int_or_string_with_its_clauses() {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let given = json!({"x-kubernetes-int-or-string": true, "nullable": true, "anyOf": either});
    for fine in [json!(42), json!("foo"), json!(null)] {
        check(given.clone(), fine, &[]);
    }
    check(
        given.clone(),
        json!(true),
        &[
            r#"x: Invalid value: "boolean": x in body must be of type integer,string: "boolean""#,
            r#"<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#,
            r#"x: Invalid value: "boolean": x in body must be of type integer: "boolean""#,
        ],
    );
    check(
        given,
        json!(1.2),
        &[
            r#"x: Invalid value: "number": x in body must be of type integer,string: "number""#,
            r#"<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#,
            r#"x: Invalid value: "number": x in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in x"#,
        ],
    );
    check(
        json!({"type": "string", "pattern": "+"}),
        json!("foo"),
        &[
            "x: Invalid value: \"foo\": x in body should match '+, but pattern is invalid: error parsing regexp: \
           missing argument to repetition operator: `+`'",
        ],
    );
    let both = json!({"type": "string", "enum": ["a"]});
    check(
        both,
        json!(true),
        &[
            r#"x: Invalid value: "boolean": x in body must be of type string: "boolean""#,
            r#"x: Unsupported value: true: supported values: "a""#,
        ],
    );
}

#[test]
fn embedded_resources() {
    let of = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    check(of.clone(), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}}), &[]);
    check(of.clone(), json!({}), &["x.apiVersion: Required value", "x.kind: Required value"]);
    check(
        of.clone(),
        json!({"apiVersion": "", "kind": ""}),
        &[
            r#"x.apiVersion: Invalid value: "": must not be empty"#,
            r#"x.kind: Invalid value: "": must not be empty"#,
        ],
    );
    check(
        of,
        json!({"apiVersion": "a/b/c", "kind": "Pod"}),
        &[r#"x.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#],
    );
}

#[test]
fn paths_start_where_they_are_told() {
    let schema =
        Schema::from_crd(&json!({"type": "object", "properties": {"a": {"type": "string"}}})).unwrap();
    let errors = validate(schema.root(), &json!({"a": 1}), None, &Path::new("spec").child("default"));
    assert_eq!(
        errors[0].to_string(),
        r#"spec.default.a: Invalid value: "integer": a in body must be of type string: "integer""#
    );
}

/// An update from one object to another, and the fields that are refused.
fn check_update(properties: Value, old: Value, new: Value, refused: &[&str]) {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": properties})).unwrap();
    let errors = validate(schema.root(), &new, Some(&old), &Path::root());
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, refused, "{old} -> {new}");
}

#[test]
fn updates_may_keep_what_they_did_not_change() {
    let short = json!({"type": "string", "maxLength": 1});
    let both = json!({"a": short, "b": short});
    check_update(both.clone(), json!({"a": "long"}), json!({"a": "long", "b": "x"}), &[]);
    check_update(both.clone(), json!({"a": "long"}), json!({"a": "longer"}), &["a"]);
    check_update(both.clone(), json!({}), json!({"a": "long"}), &["a"]);
    let nested = json!({"spec": {"type": "object", "properties": both, "required": ["c"]}});
    check_update(nested.clone(), json!({"spec": {"a": "long"}}), json!({"spec": {"a": "long"}, "x": 1}), &[]);
    check_update(
        nested,
        json!({"spec": {"a": "long"}}),
        json!({"spec": {"a": "long", "b": ""}}),
        &["spec.c"],
    );

    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": short}});
    let list = |kind: &str| {
        let mut list = json!({"type": "array", "items": item, "x-kubernetes-list-type": kind});
        if kind == "map" {
            list["x-kubernetes-list-map-keys"] = json!(["k"]);
        }
        json!({"l": list})
    };
    let old = json!({"l": [{"k": "1", "v": "long"}, {"k": "2", "v": "x"}]});
    let moved = json!({"l": [{"k": "2", "v": "y"}, {"k": "1", "v": "long"}]});
    check_update(list("map"), old.clone(), moved.clone(), &[]);
    check_update(list("atomic"), old.clone(), moved, &["l[1].v"]);
    check_update(list("atomic"), old.clone(), old, &[]);

    let set = json!({"s": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, "n": {"type": "integer"}});
    check_update(set.clone(), json!({"s": ["a", "a"]}), json!({"s": ["a", "a"], "n": 1}), &[]);
    check_update(set, json!({"s": ["a"]}), json!({"s": ["a", "a"]}), &["s[1]"]);
}

#[test]
fn some_errors_keep_rules_from_running() {
    let schema = Schema::from_crd(&json!({"type": "object", "required": ["a"],
        "properties": {"n": {"type": "integer", "minimum": 1}}}));
    let schema = schema.unwrap();
    let missing = validate(schema.root(), &json!({}), None, &Path::root());
    assert!(blocks_rules(&missing).is_some());
    let small = validate(schema.root(), &json!({"a": 1, "n": 0}), None, &Path::root());
    assert!(small.len() == 1 && blocks_rules(&small).is_none());
}

/// Any JSON, not too large.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,2}|2014-12-15T19:30:20Z|\\PC{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let names = prop_oneof!["[a-c]", Just("metadata".to_owned()), Just("kind".to_owned())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Any schema with fields named like those of [`any_json`]; some are structural, most nearly so.
pub(crate) fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "format": "date-time", "default": "d"})),
        Just(json!({"type": "string", "minLength": 1, "pattern": "^[ab]\\w*$", "nullable": true})),
        Just(json!({"type": "integer", "format": "int32", "minimum": -1, "multipleOf": 2, "default": 2})),
        Just(json!({"type": "number", "maximum": 1e30, "multipleOf": 0.1})),
        Just(json!({"type": "boolean", "default": false})),
        Just(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true, "enum": [1, "a", null, {}]})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields = prop::collection::btree_map("[a-c]", inner.clone(), 0..4);
        let object =
            (fields, any::<[bool; 4]>()).prop_map(|(fields, [closed, embedded, default, limits])| {
                let mut schema = json!({"type": "object", "properties": fields,
                "x-kubernetes-preserve-unknown-fields": !closed, "x-kubernetes-embedded-resource": embedded});
                if default {
                    schema["default"] = json!({"a": {}, "b": null});
                }
                if limits {
                    schema["oneOf"] =
                        json!([{"required": ["a"]}, {"maxProperties": 0, "not": {"required": ["c"]}}]);
                }
                schema
            });
        let map = inner.clone().prop_map(|entry| json!({"type": "object", "additionalProperties": entry}));
        let list = (inner, prop_oneof!["set", "map", "atomic"]).prop_map(|(item, kind)| {
            json!({"type": "array", "items": item, "x-kubernetes-list-type": kind,
                "x-kubernetes-list-map-keys": ["a"], "uniqueItems": true})
        });
        prop_oneof![object, map, list]
    })
}

proptest! {
    #[test]
    fn validation_never_panics(schema in any_schema(), value in any_json(), old in any_json()) {
        let schema = Schema::from_crd(&schema).unwrap();
        let _ = validate(schema.root(), &value, None, &Path::root());
        let _ = validate(schema.root(), &value, Some(&old), &Path::root());
    }

    #[test]
    fn an_update_that_changes_nothing_is_never_refused_by_limits(schema in any_schema(), value in any_json()) {
        let schema = Schema::from_crd(&schema).unwrap();
        let errors = validate(schema.root(), &value, Some(&value), &Path::root());
        // Embedded resources alone are held to their rules in every update.
        prop_assert!(errors.iter().all(|error| !error.detail.contains(" in body ")), "{errors:?}");
    }
}
