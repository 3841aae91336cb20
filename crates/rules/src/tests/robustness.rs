//! Whatever comes in: no panic, no endless run, no overflow of the stack.

use objects::Path;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{compiled, resource};
use crate::{Bindings, Budget, Expression, VariableType};

fn try_everything(source: &str, object: &Value) {
    let variables = [("self", VariableType::Dyn), ("oldSelf", VariableType::Dyn)];
    if let Ok(expression) = Expression::compile(source, &variables) {
        let bindings = Bindings::new().with("self", object).with("oldSelf", object);
        let _ = expression.evaluate(&bindings, &mut Budget::default());
    }
    if let Ok(rules) = compiled(resource(json!({"a": {"type": "string"}}), json!([{"rule": source}]))) {
        let _ = rules.validate(object, Some(object), &Path::root(), &mut Budget::default());
    }
}

#[test]
fn deep_and_long_expressions_end() {
    let deep = 100_000;
    for source in [
        "(".repeat(deep),
        "[".repeat(deep),
        "{1:".repeat(deep),
        "!".repeat(deep) + "true",
        "-".repeat(deep) + "1",
        "1".to_owned() + &"+1".repeat(deep / 2),
        "self".to_owned() + &".a".repeat(deep / 2),
        "self".to_owned() + &"[0]".repeat(deep / 3),
        "true".to_owned() + &"?true:true".repeat(deep / 10),
        "f(".repeat(deep / 2),
        "self.all(x,".repeat(deep / 11),
        "a".repeat(200_000),
        "'".to_owned() + &"x".repeat(deep),
        "\u{e9}".repeat(1000),
    ] {
        try_everything(&source, &json!({}));
    }
}

/// As deep as it may be, in a thread with less stack than a server's threads have.
#[test]
fn the_deepest_expressions_fit_the_stack() {
    let wrapped = |open: &str, inner: &str, close: &str| open.repeat(90) + inner + &close.repeat(90);
    let long = "true".to_owned() + &" && true".repeat(5000);
    let folds = (0..90).fold("true".to_owned(), |body, _| format!("[1].all(x, {body})"));
    let cases = [
        (long, "true"),
        (wrapped("(", "1", ")") + " == 1", "true"),
        (wrapped("[", "", "]") + ".size()", "1"),
        (wrapped("{1:", "1", "}") + "[1].size()", "1"),
        ("1".to_owned() + &"+1".repeat(90), "91"),
        (wrapped("!(", "true", ")"), "true"),
        (wrapped("true ? (", "1", ") : 2"), "1"),
        (wrapped("dyn(", "1", ")"), "1"),
        (wrapped("cel.bind(x, 1, ", "x", ")"), "1"),
        (wrapped("optional.of(1).optMap(x, ", "x", ")") + ".hasValue()", "true"),
        (folds, "true"),
    ];
    for (source, expected) in cases {
        let name = source.chars().take(12).collect();
        let run = move || assert_eq!(super::evaluated(&source), expected, "{source}");
        std::thread::Builder::new().name(name).stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    }
}

#[test]
fn growth_is_paid_for() {
    let explosions = [
        "'a'.replace('', 'aaaaaaaaaa').replace('', 'aaaaaaaaaa').replace('', 'aaaaaaaaaa').replace('', 'aaaaaaaaaa')\
         .replace('', 'aaaaaaaaaa').replace('', 'aaaaaaaaaa').replace('', 'aaaaaaaaaa').replace('', 'aaaaaaaaaa')",
        "lists.range(9223372036854775807)",
        "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))",
    ];
    for source in explosions {
        assert_eq!(
            super::evaluated(source),
            "error: operation cancelled: actual cost limit exceeded",
            "{source}"
        );
    }
    let doubled = (0..60).fold("x".to_owned(), |body, _| format!("cel.bind(x, x + x, {body})"));
    let doubled = format!("cel.bind(x, 'ab', {doubled}).size() > 0");
    assert_eq!(super::evaluated(&doubled), "error: operation cancelled: actual cost limit exceeded");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!("2023-01-01T00:00:00Z")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abk]", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

/// Text that is often an expression: words of the language in any order.
fn almost_expression() -> impl Strategy<Value = String> {
    let words = [
        "self",
        "oldSelf",
        ".",
        "a",
        "b",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        ">=",
        "&&",
        "||",
        "!",
        "in",
        "1",
        "0",
        "-1",
        "2u",
        "1.5",
        "9223372036854775807",
        "'x'",
        "''",
        "b'x'",
        "null",
        "true",
        "all(x, ",
        "map(x, ",
        "size()",
        "has(self.a)",
        "x",
        "int(",
        "string(",
        "timestamp(",
        "duration(",
        "'1h'",
        "split('')",
        "substring(",
        "matches('a+')",
        "format([",
        "'%s %d %e'",
        "quantity('1Ki')",
        "orValue(1)",
        "[?0]",
        ".?",
        "indexOf(",
        "charAt(",
        "replace(",
        "lists.range(3)",
        "sort()",
        "sum()",
        "slice(0, 9)",
        "math.abs(",
        "min()",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..14).prop_map(|words| words.concat())
}

/// Functions of dynamic values in every order: the types let all of them through.
fn calls() -> impl Strategy<Value = String> {
    let members = [
        "size()",
        "charAt(self.a)",
        "indexOf(self.b)",
        "indexOf(self.b, self.k)",
        "lastIndexOf(self.b, self.k)",
        "trim()",
        "replace(self.a, self.b)",
        "split(self.a)",
        "split(self.a, self.k)",
        "substring(self.k)",
        "substring(self.a, self.k)",
        "join(self.a)",
        "isSorted()",
        "sum()",
        "min()",
        "max()",
        "slice(self.a, self.k)",
        "distinct()",
        "sort()",
        "flatten()",
        "flatten(self.a)",
        "reverse()",
        "find(self.a)",
        "findAll(self.a, self.k)",
        "matches(self.b)",
        "getHours(self.a)",
        "getFullYear()",
        "all(x, x == self)",
        "map(x, x)",
        "filter(x, self)",
        "transformMap(k, v, v)",
        "format(self.a)",
        "contains(self.a)",
        "sortBy(x, x)",
        "hasValue()",
        "orValue(self.a)",
    ];
    let functions = [
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "bool",
        "timestamp",
        "duration",
        "dyn",
        "type",
        "quantity",
        "url",
        "ip",
        "cidr",
        "semver",
        "isURL",
        "isQuantity",
        "math.abs",
        "math.sqrt",
        "math.sign",
        "math.bitNot",
        "base64.decode",
        "lists.range",
        "-",
        "!",
        "self.a + ",
        "self.a - ",
        "self.a * ",
        "self.a / ",
        "self.a % ",
        "self.a < ",
        "self.a in ",
        "self.a == ",
    ];
    let steps = prop::collection::vec(prop::sample::select(members.to_vec()), 0..3);
    (prop::sample::select(functions.to_vec()), prop::sample::select(vec!["self", "self.a", "self.b"]), steps)
        .prop_map(|(function, start, steps)| {
            let chain = steps.iter().fold(start.to_owned(), |chain, step| format!("dyn({chain}).{step}"));
            format!("{function}(dyn({chain}))")
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_survived(source in "\\PC{0,40}", object in any_json()) {
        try_everything(&source, &object);
    }

    #[test]
    fn any_words_are_survived(source in almost_expression(), object in any_json()) {
        try_everything(&source, &object);
    }

    #[test]
    fn any_values_are_survived(source in calls(), object in any_json()) {
        try_everything(&source, &object);
    }

    #[test]
    fn any_object_is_survived(object in any_json(), old in any_json()) {
        let schema = resource(
            json!({
                "a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "maxItems": 4,
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 4}},
                        "x-kubernetes-validations": [{"rule": "self.k == oldSelf.k"}]}},
                "b": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "integer",
                    "x-kubernetes-validations": [{"rule": "self > 1", "messageExpression": "string(self)"}]}},
                "k": {"type": "string", "format": "date-time"},
            }),
            json!([{"rule": "self.a == oldSelf.a && self.k < timestamp('2023-01-01T00:00:00Z')"}, {"rule": "self.b.all(k, v, v > 0)"}]),
        );
        let rules = compiled(schema).unwrap();
        for value in [&object, &json!({"spec": object})] {
            let _ = rules.validate(value, Some(&json!({"spec": old})), &Path::root(), &mut Budget::default());
        }
    }
}
