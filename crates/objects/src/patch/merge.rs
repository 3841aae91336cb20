//! JSON merge patch, RFC 7386.

use serde_json::{Map, Value};

/// Merges a patch into a document: null deletes, objects merge, everything else replaces.
pub fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        document.clone_from(patch);
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(document) = document else { return };
    for (field, change) in patch {
        if change.is_null() {
            document.remove(field);
            continue;
        }
        match document.get_mut(field) {
            Some(old) => merge(old, change),
            None => {
                // Merging into nothing also takes the nulls out of what is new.
                let mut new = Value::Null;
                merge(&mut new, change);
                document.insert(field.clone(), new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(document: &str, patch: &str, expected: &str) {
        let mut document: Value = serde_json::from_str(document).unwrap();
        merge(&mut document, &serde_json::from_str(patch).unwrap());
        assert_eq!(document, serde_json::from_str::<Value>(expected).unwrap());
    }

    /// The cases of RFC 7386, appendix A, and a few of ours.
    #[test]
    fn rfc_7386() {
        check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"a":null}"#, "{}");
        check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
        check(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#);
        check(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
        check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        check(r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#);
        check(r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#);
        check(r#"{"a":"foo"}"#, "null", "null");
        check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#);
        check("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#);
        check("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
        check("{}", r#"{"a":[null,{"b":null}]}"#, r#"{"a":[null,{"b":null}]}"#);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), (0..3i64).prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// No field of the patch that is null is in the result, and every other field is.
    fn obeyed(result: &Value, patch: &Value) -> bool {
        match (result, patch) {
            (Value::Object(result), Value::Object(patch)) => {
                patch.iter().all(|(field, change)| match (result.get(field), change) {
                    (None, Value::Null) => true,
                    (Some(value), change) => !change.is_null() && obeyed(value, change),
                    _ => false,
                })
            }
            (result, patch) => result == patch,
        }
    }

    proptest! {
        #[test]
        fn merging_twice_is_merging_once(mut document in value(), patch in value()) {
            merge(&mut document, &patch);
            let once = document.clone();
            merge(&mut document, &patch);
            prop_assert_eq!(document, once);
        }

        #[test]
        fn the_patch_is_obeyed(mut document in value(), patch in value()) {
            merge(&mut document, &patch);
            prop_assert!(obeyed(&document, &patch), "{} {}", document, patch);
        }

        #[test]
        fn an_empty_patch_changes_no_object(document in value().prop_filter("object", Value::is_object)) {
            let mut merged = document.clone();
            merge(&mut merged, &Value::Object(Map::new()));
            prop_assert_eq!(merged, document);
        }
    }
}
