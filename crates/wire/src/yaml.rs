//! YAML bodies. What comes in becomes the value its JSON would be, as `sigs.k8s.io/yaml` makes it.
//!
//! That library reads YAML 1.1, and manifests rely on it: `yes`, `no`, `on`, `off` are truths and `0644` is octal.
//! Several documents in one body are refused; upstream reads the first and silently drops the rest.

use objects::Value;
use objects::decode::{self, Bounds, Decoded};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Options, SerializerOptions};

/// How large a value may become, aliases expanded: ten times the largest body. Every level costs the parser much more
/// stack than JSON does, so that fewer are allowed; deep objects (definitions of custom resources) come as JSON.
const BOUNDS: Bounds = Bounds { depth: 64, bytes: 32 * 1024 * 1024 };

/// Why bytes are no YAML we take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error converting YAML to JSON: yaml: {0}")]
pub struct YamlError(String);

fn reading() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: BOUNDS.depth + 1,
            flow_nesting_limit: BOUNDS.depth,
            max_documents: 1,
            // No manifest has more; each may copy what it points at.
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_merge_keys: 1_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        // Read as the last one and reported, so that strict validation can refuse it like any duplicate.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}

/// Reads one document.
pub fn decode(bytes: &[u8]) -> Result<Decoded, YamlError> {
    // Most bodies that are called YAML are JSON; and JSON is quick.
    if bytes.trim_ascii_start().first() == Some(&b'{')
        && let Ok(decoded) = decode::json(bytes)
    {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| YamlError(error.to_string()))?;
    serde_saphyr::with_deserializer_from_str_with_options(text, reading(), |deserializer| {
        decode::tracked(deserializer, BOUNDS)
    })
    .map_err(|error| YamlError(error.to_string()))
}

/// Writes a value as a person would: block style, text quoted only where it could be taken for something else.
pub fn encode(value: &Value) -> String {
    let options: SerializerOptions = serde_saphyr::ser_options! {
        // Long lines stay lines; folding them makes certificates and scripts unreadable.
        folded_wrap_chars: usize::MAX,
    };
    // JSON is YAML too, should the writer ever refuse a value.
    serde_saphyr::to_string_with_options(value, options).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(decode(text.as_bytes()).map(|decoded| decoded.value), Ok(expected), "{text}");
    }

    #[test]
    fn manifests() {
        check("", Value::Null);
        check("a: 1\nb:\n- x\n- y: z\n", json!({"a": 1, "b": ["x", {"y": "z"}]}));
        check("a: {b: [1, 2.5, -3]}", json!({"a": {"b": [1, 2.5, -3]}}));
        check("# only\na: text # comment\n", json!({"a": "text"}));
        check("a: |\n  one\n  two\nb: >-\n  one\n  two\n", json!({"a": "one\ntwo\n", "b": "one two"}));
        check("---\na: 1\n", json!({"a": 1}));
        check(
            "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n",
            json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}),
        );
        check("{\"a\": [1, null]}", json!({"a": [1, null]}));
        check("{a: 1, b}", json!({"a": 1, "b": null}));
        check(
            "a: 2024-01-01\nb: 2024-01-01T00:00:00Z\n",
            json!({"a": "2024-01-01", "b": "2024-01-01T00:00:00Z"}),
        );
    }

    #[test]
    fn scalars_as_yaml_1_1_has_them() {
        check("[yes, No, on, OFF, true]", json!([true, false, true, false, true]));
        check("['yes', \"no\"]", json!(["yes", "no"]));
        check("[0644, 0x1F, 10]", json!([420, 31, 10]));
        check("[~, null, '~']", json!([null, null, "~"]));
        check("[1e3, '1e3', 1.5.2]", json!([1000.0, "1e3", "1.5.2"]));
        check("1: a\ntrue: b\n", json!({"1": "a", "true": "b"}));
    }

    #[test]
    fn duplicates_are_reported() {
        let decoded = decode(b"spec:\n  replicas: 1\n  replicas: 2\n").unwrap();
        assert_eq!(decoded.duplicates, ["spec.replicas"]);
        assert_eq!(decoded.value, json!({"spec": {"replicas": 2}}));
    }

    #[track_caller]
    fn refused(text: &str) {
        let error = decode(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with("error converting YAML to JSON: yaml: "), "{error}");
    }

    #[test]
    fn refusals() {
        refused("a: b: c");
        refused("a: [1");
        refused("a:\n    b: 1\n  c: 2");
        refused("a: *gone");
        refused("a: 1\n---\nb: 2\n");
        refused("[.nan]");
        refused("[1e999]");
        refused(&"[".repeat(1000));
        refused(&format!("{}1", "- ".repeat(1000)));
        assert!(decode(b"\xff\xfe").is_err());
    }

    #[test]
    fn aliases_do_not_explode() {
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..12 {
            let parts = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs.push_str(&format!("a{level}: &a{level} [{parts}]\n"));
        }
        refused(&laughs);
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), vec!["*a"; 900].join(", "));
        refused(&long);
        // Deep through aliases, though shallow as written.
        let mut deep = String::from("a0: &a0 [x]\n");
        for level in 1..200 {
            deep.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
        }
        refused(&deep);
    }

    #[test]
    fn what_is_written_reads_well() {
        let object = json!({"kind": "ConfigMap", "data": {"script": "one\ntwo\n", "yes": "no", "number": "1"}, "items": [{"a": 1, "b": []}, {}]});
        assert_eq!(
            encode(&object),
            "data:\n  number: \"1\"\n  script: |\n    one\n    two\n  \"yes\": \"no\"\nitems:\n- a: 1\n  b: []\n- {}\nkind: ConfigMap\n"
        );
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e6..1e6f64).prop_map(Value::from),
            "[ -~\n\t]{0,120}".prop_map(Value::from),
            prop::sample::select(vec![
                "yes",
                "~",
                "",
                "0644",
                "1e3",
                "- a",
                "a: b",
                "#",
                "2024-01-01",
                "0x1",
                "null",
                " a",
                "a ",
                "\n",
                ".inf",
                "=",
                "<<"
            ])
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z.~ :#\\-]{0,6}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in value()) {
            let text = encode(&value);
            let read = decode(text.as_bytes()).map(|decoded| decoded.value);
            prop_assert!(read.as_ref().is_ok_and(|read| objects::equal::semantic(read, &value)), "{}\n{:?}\n{}", value, read, text);
        }

        #[test]
        fn no_bytes_make_it_panic(text in "[a-c:\\-\\[\\]{}&*<|>'\"#!%@ \n\t0-9.,?]{0,60}") {
            let _ = decode(text.as_bytes());
        }
    }
}
