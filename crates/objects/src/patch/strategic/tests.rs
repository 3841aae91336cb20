use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A small schema, written as JSON: `fields`, `items`, `key`, `strategy`.
#[derive(Clone, Copy)]
struct Fake<'a>(&'a Value);

impl PatchSchema for Fake<'_> {
    fn field(self, name: &str) -> Option<Self> {
        self.0.get("fields")?.get(name).map(Fake)
    }

    fn items(self) -> Option<Self> {
        self.0.get("items").map(Fake)
    }

    fn merge_key(&self) -> Option<&str> {
        self.0.get("key")?.as_str()
    }

    fn strategy(&self) -> Option<&str> {
        self.0.get("strategy")?.as_str()
    }
}

/// Something like a pod's spec.
fn schema() -> Value {
    let ports = json!({"strategy": "merge", "key": "containerPort"});
    json!({"fields": {
        "containers": {"strategy": "merge", "key": "name", "items": {"fields": {"ports": ports}}},
        "volumes": {"strategy": "merge,retainKeys", "key": "name"},
        "finalizers": {"strategy": "merge"},
        "args": {},
        "strategy": {"strategy": "retainKeys"},
        "selector": {"strategy": "replace"},
        "nested": {"fields": {"finalizers": {"strategy": "merge"}}},
    }})
}

fn apply(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    strategic(document, patch, Fake(&schema()))
}

#[track_caller]
fn check(document: Value, patch: Value, expected: Value) {
    assert_eq!(apply(&document, &patch), Ok(expected), "{patch}");
}

#[track_caller]
fn refused(document: Value, patch: Value, code: u16, message: &str) {
    let error = apply(&document, &patch).expect_err(&patch.to_string());
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.status().code, code);
}

#[test]
fn maps() {
    check(json!({"a": 1, "b": {"c": 1}}), json!({"b": {"d": 2}}), json!({"a": 1, "b": {"c": 1, "d": 2}}));
    check(json!({"a": 1, "b": {"c": 1}}), json!({"a": null, "x": null, "b": {"c": null}}), json!({"b": {}}));
    check(
        json!({"a": 1}),
        json!({"b": {"c": null, "d": {"e": null, "f": 1}}}),
        json!({"a": 1, "b": {"d": {"f": 1}}}),
    );
    check(json!({"a": {"b": 1}}), json!({"a": "text"}), json!({"a": "text"}));
    check(json!({"b": {"c": 1}}), json!({"b": {"$patch": "replace", "d": 2}}), json!({"b": {"d": 2}}));
    check(json!({"b": {"c": 1}}), json!({"b": {"$patch": "delete"}}), json!({"b": {}}));
    check(json!({"a": 1}), json!({"$patch": "replace", "b": 2}), json!({"b": 2}));
    check(json!({"selector": {"a": 1}}), json!({"selector": {"b": 2}}), json!({"selector": {"b": 2}}));
    refused(json!({"b": {}}), json!({"b": {"$patch": "merge"}}), 422, "unknown patch type: \"merge\" in map");
    refused(json!({}), json!([]), 400, "invalid JSON document");
}

#[test]
fn retained_keys() {
    check(
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    check(
        json!({"volumes": [{"name": "a", "emptyDir": {}}]}),
        json!({"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "a", "hostPath": {"path": "/"}}]}),
        json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}),
    );
    check(
        json!({}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    refused(
        json!({"strategy": {}}),
        json!({"strategy": {"$retainKeys": ["type"], "other": 1}}),
        400,
        "invalid patch format of retainKeys",
    );
    refused(
        json!({"strategy": {}}),
        json!({"strategy": {"$retainKeys": "type"}}),
        400,
        "invalid patch format of retainKeys",
    );
}

#[test]
fn lists_of_maps() {
    let document = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
    let containers = |list: Value| json!({"containers": list});
    check(
        document.clone(),
        containers(json!([{"name": "b", "image": "2"}])),
        containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}])),
    );
    check(
        document.clone(),
        containers(json!([{"name": "a", "image": null}])),
        containers(json!([{"name": "a"}, {"name": "b", "image": "1"}])),
    );
    check(
        document.clone(),
        containers(json!([{"name": "c", "x": null}])),
        containers(json!([{"name": "c"}, {"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
    );
    check(
        document.clone(),
        containers(json!([{"name": "a", "$patch": "delete"}])),
        containers(json!([{"name": "b", "image": "1"}])),
    );
    check(document.clone(), containers(json!([{"name": "gone", "$patch": "delete"}])), document.clone());
    check(
        document.clone(),
        containers(json!([{"$patch": "replace"}, {"name": "z", "y": null}])),
        containers(json!([{"name": "z"}])),
    );
    check(document.clone(), containers(json!([{"$patch": "replace"}])), containers(json!([])));
    check(
        document.clone(),
        containers(json!([{"name": "a", "ports": [{"containerPort": 80}]}])),
        containers(
            json!([{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "1"}]),
        ),
    );
    check(
        json!({}),
        containers(json!([{"name": "a"}, {"name": "b", "$patch": "delete"}])),
        containers(json!([{"name": "a"}])),
    );
    check(json!({"args": [1, 2]}), json!({"args": [3]}), json!({"args": [3]}));
    refused(
        document.clone(),
        containers(json!([{"image": "1"}])),
        422,
        "does not contain declared merge key: name",
    );
    refused(
        document.clone(),
        containers(json!([{"$patch": "delete"}])),
        422,
        "does not contain declared merge key: name",
    );
    refused(document.clone(), containers(json!(["a"])), 422, "list element types are not identical");
    refused(
        document.clone(),
        containers(json!([{"name": "a", "$patch": "merge"}])),
        422,
        "merging lists cannot yet be specified",
    );
    refused(json!({"containers": [[]]}), containers(json!([[]])), 422, "lists of lists are not supported");
    refused(json!({"finalizers": [{}]}), json!({"finalizers": [{}]}), 422, "without merge key");
}

#[test]
fn nested_lists_merge_by_their_own_keys() {
    check(
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80.0, "name": "http"}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80.0, "protocol": "TCP", "name": "http"}, {"containerPort": 81}]}]}),
    );
}

#[test]
fn lists_of_scalars() {
    let finalizers = |list: Value| json!({"finalizers": list});
    check(finalizers(json!(["a", "b"])), finalizers(json!(["c", "a"])), finalizers(json!(["c", "a", "b"])));
    check(
        finalizers(json!(["a", "b"])),
        json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"]}),
        finalizers(json!(["b"])),
    );
    check(
        finalizers(json!(["a", "b"])),
        json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"], "$setElementOrder/finalizers": ["b", "c"]}),
        finalizers(json!(["b", "c"])),
    );
    check(json!({}), json!({"$deleteFromPrimitiveList/finalizers": ["a"]}), json!({}));
    check(
        json!({"nested": finalizers(json!(["a"]))}),
        json!({"nested": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
        json!({"nested": finalizers(json!([]))}),
    );
    refused(
        finalizers(json!(["a"])),
        json!({"$deleteFromPrimitiveList/finalizers": "a"}),
        400,
        "invalid patch format of primitive list",
    );
    refused(
        json!({"args": ["a"]}),
        json!({"$deleteFromPrimitiveList/args": ["a"]}),
        400,
        "invalid patch format of primitive list",
    );
    refused(
        json!({}),
        json!({"$deleteFromPrimitiveListfinalizers": []}),
        400,
        "invalid patch format of primitive list",
    );
}

/// The cases of the design of `$setElementOrder`.
#[test]
fn the_order_of_elements() {
    let named =
        |names: &str| -> Value { names.chars().map(|name| json!({"name": name.to_string()})).collect() };
    let order = |before: &str, patch: &str, order: &str, after: &str| {
        check(
            json!({"containers": named(before)}),
            json!({"containers": named(patch), "$setElementOrder/containers": named(order)}),
            json!({"containers": named(after)}),
        );
    };
    order("abcd", "", "dcba", "dcba");
    order("abc", "d", "adbc", "adbc");
    order("axb", "c", "bac", "xbac");
    order("xaby", "", "ba", "xbay");
    order("", "ab", "ab", "ab");
    order("xyz", "a", "a", "axyz");
    check(
        json!({"containers": named("abc")}),
        json!({"containers": [{"name": "b", "$patch": "delete"}], "$setElementOrder/containers": named("ca")}),
        json!({"containers": named("ca")}),
    );
    check(json!({"a": 1}), json!({"$setElementOrder/containers": named("ab")}), json!({"a": 1}));
    check(
        json!({"containers": named("a")}),
        json!({"containers": null, "$setElementOrder/containers": []}),
        json!({}),
    );
    refused(
        json!({"containers": named("ab")}),
        json!({"containers": named("ba"), "$setElementOrder/containers": named("ab")}),
        422,
        "doesn't match $setElementOrder list",
    );
    refused(
        json!({}),
        json!({"$setElementOrder/containers": {}}),
        400,
        "invalid patch format of setElementOrder list",
    );
}

fn container() -> impl Strategy<Value = Value> {
    let ports = prop::collection::btree_set(1..4u8, 0..3)
        .prop_map(|ports| ports.into_iter().map(|port| json!({"containerPort": port})).collect::<Value>());
    ("[a-d]", prop::option::of("[0-2]"), prop::option::of(ports)).prop_map(|(name, image, ports)| {
        let mut container = json!({"name": name});
        if let Some(image) = image {
            container["image"] = json!(image);
        }
        if let Some(ports) = ports {
            container["ports"] = ports;
        }
        container
    })
}

fn unique(containers: Vec<Value>) -> Value {
    let mut seen = std::collections::HashSet::new();
    containers.into_iter().filter(|one| seen.insert(one["name"].to_string())).collect()
}

fn object() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 0..4).prop_map(unique);
    let finalizers = prop::collection::btree_set("[a-d]", 0..4).prop_map(|set| json!(set));
    (containers, finalizers, 0..3u8).prop_map(|(containers, finalizers, n)| {
        json!({"containers": containers, "finalizers": finalizers, "selector": {"n": n}, "plain": {"n": n}})
    })
}

/// A patch for such an object, with nulls and deletions here and there.
fn patch() -> impl Strategy<Value = Value> {
    (object(), prop::collection::vec("[a-d]", 0..3), any::<[bool; 3]>()).prop_map(
        |(mut patch, deleted, [nulls, image, drop])| {
            if nulls {
                patch["plain"] = json!({"n": null, "gone": null});
            }
            if drop {
                patch["finalizers"] = Value::Null;
            }
            for one in patch["containers"].as_array_mut().into_iter().flatten() {
                if image {
                    one["image"] = Value::Null;
                }
                if deleted.iter().any(|name| one["name"] == json!(name)) {
                    one["$patch"] = json!("delete");
                }
            }
            patch
        },
    )
}

fn holds_directive_or_null(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.starts_with('$') || value.is_null() || holds_directive_or_null(value)),
        Value::Array(items) => items.iter().any(holds_directive_or_null),
        _ => false,
    }
}

proptest! {
    #[test]
    fn patching_twice_is_patching_once(document in object(), patch in patch()) {
        let once = apply(&document, &patch).unwrap();
        prop_assert_eq!(apply(&once, &patch).unwrap(), once);
    }

    #[test]
    fn an_empty_patch_changes_nothing(document in object()) {
        prop_assert_eq!(apply(&document, &json!({})).unwrap(), document);
    }

    #[test]
    fn no_directive_and_no_null_gets_into_the_document(document in object(), patch in patch()) {
        let patched = apply(&document, &patch).unwrap();
        prop_assert!(!holds_directive_or_null(&patched), "{}", patched);
        let patched = apply(&json!({}), &patch).unwrap();
        prop_assert!(!holds_directive_or_null(&patched), "{}", patched);
    }

    #[test]
    fn elements_nobody_named_are_kept(document in object(), patch in patch()) {
        let patched = apply(&document, &patch).unwrap();
        let names = |value: &Value| -> Vec<String> {
            value["containers"].as_array().unwrap().iter().map(|one| one["name"].to_string()).collect()
        };
        for name in names(&document) {
            let touched = names(&patch).contains(&name);
            prop_assert!(touched || names(&patched).contains(&name));
        }
    }
}
