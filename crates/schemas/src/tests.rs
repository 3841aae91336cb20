//! Pruning and defaulting, as tables and as properties.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::validate::tests::{any_json, any_schema};
use crate::*;

fn crd(properties: Value) -> Schema {
    Schema::from_crd(&json!({"type": "object", "properties": properties})).unwrap()
}

/// Prunes by a schema with these properties.
fn check_prune(properties: Value, given: Value, expected: Value, dropped: &[&str]) {
    let schema = crd(properties);
    assert_eq!(unknown_fields(schema.root(), &given), dropped, "{given}");
    let mut value = given.clone();
    assert_eq!(prune(schema.root(), &mut value, PruneOptions::default()), dropped, "{given}");
    assert_eq!(value, expected);
    let mut silent = given;
    assert!(prune(schema.root(), &mut silent, PruneOptions { report: false }).is_empty());
    assert_eq!(silent, expected);
}

#[test]
fn pruning() {
    let text = json!({"type": "string"});
    let spec = json!({"spec": {"type": "object", "properties": {"a": text, "l": {
        "type": "array", "items": {"type": "object", "properties": {"b": text}}}}}});
    check_prune(
        spec.clone(),
        json!({"apiVersion": "v1", "kind": "A", "spec": {"a": "1", "z": 1, "l": [{"b": "", "y": 2}]}, "x": {}}),
        json!({"apiVersion": "v1", "kind": "A", "spec": {"a": "1", "l": [{"b": ""}]}}),
        &["spec.l[0].y", "spec.z", "x"],
    );
    check_prune(
        spec.clone(),
        json!({"metadata": {"name": "a", "labels": {"x": "y"}, "foo": 1, "ownerReferences": [{"uid": "1", "b": 1}]}}),
        json!({"metadata": {"name": "a", "labels": {"x": "y"}, "ownerReferences": [{"uid": "1"}]}}),
        &["metadata.foo", "metadata.ownerReferences[0].b"],
    );
    check_prune(spec, json!({"spec": "not an object"}), json!({"spec": "not an object"}), &[]);
    check_prune(
        json!({"m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": text}}}}),
        json!({"m": {"k": {"a": "", "b": ""}}}),
        json!({"m": {"k": {"a": ""}}}),
        &["m.k.b"],
    );
    check_prune(
        json!({"m": {"type": "object", "additionalProperties": true}}),
        json!({"m": {"k": {"a": 1}, "l": 2}}),
        json!({"m": {"k": {}, "l": 2}}),
        &["m.k.a"],
    );
    check_prune(json!({"m": {"type": "object"}}), json!({"m": {"k": 1}}), json!({"m": {}}), &["m.k"]);
    check_prune(
        json!({"p": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": text}}}}}),
        json!({"p": {"u": {"v": [{"w": 1}]}, "known": {"a": "", "b": ""}}}),
        json!({"p": {"u": {"v": [{"w": 1}]}, "known": {"a": ""}}}),
        &["p.known.b"],
    );
    check_prune(
        json!({"p": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {
            "type": "object", "properties": {"o": {"type": "object"}}}}}),
        json!({"p": [{"u": 1, "o": {"v": 1}}]}),
        json!({"p": [{"u": 1, "o": {}}]}),
        &["p[0].o.v"],
    );
    check_prune(
        json!({"e": {"type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}}}}),
        json!({"e": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "z": 1}, "spec": {}, "y": 1}}),
        json!({"e": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {}}}),
        &["e.metadata.z", "e.y"],
    );
}

#[test]
fn nulls() {
    let schema = json!({
        "plain": {"type": "string"},
        "nullable": {"type": "string", "nullable": true},
        "defaulted": {"type": "string", "default": "d"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}},
    });
    let given = json!({"plain": null, "nullable": null, "defaulted": null, "map": {"a": null}, "list": [null],
        "metadata": {"creationTimestamp": null}});
    check_prune(
        schema.clone(),
        given.clone(),
        json!({"nullable": null, "defaulted": null, "map": {}, "list": [null], "metadata": {}}),
        &[],
    );
    check_default(
        schema,
        json!({"defaulted": null, "nullable": null}),
        json!({"defaulted": "d", "nullable": null}),
    );
}

fn check_default(properties: Value, mut given: Value, expected: Value) {
    let schema = crd(properties);
    default(schema.root(), &mut given);
    assert_eq!(given, expected);
    default(schema.root(), &mut given);
    assert_eq!(given, expected, "again");
}

#[test]
fn defaulting() {
    let inner = json!({"type": "object", "properties": {"a": {"type": "string", "default": "A"}}});
    let with_default = |default: Value| {
        let mut schema = inner.clone();
        schema["default"] = default;
        schema
    };
    check_default(json!({"o": inner}), json!({}), json!({}));
    check_default(json!({"o": inner}), json!({"o": {}}), json!({"o": {"a": "A"}}));
    check_default(json!({"o": inner}), json!({"o": {"a": "B"}}), json!({"o": {"a": "B"}}));
    check_default(json!({"o": with_default(json!({}))}), json!({}), json!({"o": {"a": "A"}}));
    check_default(
        json!({"l": {"type": "array", "items": inner}}),
        json!({"l": [{}, {"a": "B"}, 1]}),
        json!({"l": [{"a": "A"}, {"a": "B"}, 1]}),
    );
    check_default(
        json!({"m": {"type": "object", "additionalProperties": with_default(json!({"x": 1}))}}),
        json!({"m": {"k": {}, "n": null}}),
        json!({"m": {"k": {"a": "A"}, "n": {"a": "A", "x": 1}}}),
    );
    check_default(
        json!({"z": {"type": "integer", "default": 0}, "f": {"type": "boolean", "default": false}}),
        json!({}),
        json!({"z": 0, "f": false}),
    );
}

proptest! {
    #[test]
    fn pruning_and_defaulting_settle(schema in any_schema(), value in any_json()) {
        let schema = Schema::from_crd(&schema).unwrap();
        let root = schema.root();
        let options = PruneOptions::default();

        let mut pruned = value;
        let reported = unknown_fields(root, &pruned);
        prop_assert_eq!(prune(root, &mut pruned, options), reported);
        let mut again = pruned.clone();
        prop_assert!(prune(root, &mut again, options).is_empty());
        prop_assert_eq!(&again, &pruned);

        let mut defaulted = pruned;
        default(root, &mut defaulted);
        let mut again = defaulted.clone();
        default(root, &mut again);
        prop_assert_eq!(&again, &defaulted);

        // Defaults may bring unknown fields of their own only where a definition was never checked; once they
        // are gone, the three agree.
        prune(root, &mut defaulted, options);
        default(root, &mut defaulted);
        let mut settled = defaulted.clone();
        prune(root, &mut settled, options);
        default(root, &mut settled);
        prop_assert_eq!(settled, defaulted);
    }
}
