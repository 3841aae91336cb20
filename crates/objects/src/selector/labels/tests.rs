use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn shown(text: &str, canonical: &str) {
    assert_eq!(
        Selector::parse(text).map(|selector| selector.to_string()).as_deref(),
        Ok(canonical),
        "{text:?}"
    );
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let error = Selector::parse(text).expect_err(text).to_string();
    assert!(error.contains(message), "{text:?}: {error}");
}

#[test]
fn the_grammar() {
    shown("", "");
    shown("  ", "");
    shown("x", "x");
    shown("!x", "!x");
    shown("! x", "!x");
    shown("x=a,y=b", "x=a,y=b");
    shown("y==b , x = a", "x=a,y==b");
    shown("x!=a", "x!=a");
    shown("x=", "x=");
    shown("x=,z", "x=,z");
    shown("x in (b,a,b)", "x in (a,b)");
    shown("x notin ()", "x notin ()");
    shown("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()");
    shown("x in (,)", "x in ()");
    shown("x>1,y< 0", "x>1,y<0");
    shown("in in (in,notin)", "in in (in,notin)");
    shown("notin=in", "notin=in");
    shown("example.com/a=b", "example.com/a=b");
}

#[test]
fn refusals_in_upstreams_words() {
    refused(
        "x=a||y=b",
        "unable to parse requirement: values[0][x]: Invalid value: \"a||y\": a valid label must be",
    );
    refused("=a", "found '=', expected: !, identifier, or 'end of string'");
    refused("x,", "found '', expected: identifier after ','");
    refused("!x=a", "found '=', expected: ',' or 'end of string'");
    refused("x==a==b", "found '==', expected: ',' or 'end of string'");
    refused("x a", "unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt");
    refused("x in a", "unable to parse requirement: found 'a' expected: '('");
    refused("x in (a", "unable to parse requirement: found '', expected: ',' or ')'");
    refused("x in (=", "found '=', expected: ',', ')' or identifier");
    refused("x in (a,=", "found '=', expected: ',', or identifier");
    refused("!", "unable to parse requirement: found '', expected: identifier");
    refused("a/b/c", "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key");
    refused("x>a", "for 'Gt', 'Lt' operators, the value must be an integer");
    refused("é\u{0}=1", "Invalid value");
}

#[test]
fn matching() {
    let labels = json!({"app": "web", "tier": "", "n": "7"});
    let labels = labels.as_object();
    for (text, expected) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("app=web", true),
        ("app==api", false),
        ("app!=api", true),
        ("gone!=x", true),
        ("gone=x", false),
        ("gone=", false),
        ("tier=", true),
        ("app in (api,web)", true),
        ("app notin (api,web)", false),
        ("gone notin (a)", true),
        ("n>6,n<8", true),
        ("n>7", false),
        ("app>1", false),
        ("gone<1", false),
    ] {
        assert_eq!(Selector::parse(text).unwrap().matches(labels), expected, "{text:?}");
    }
    assert!(Selector::parse("!a").unwrap().matches(None));
}

#[test]
fn objects() {
    let check = |object: Value, expected: Result<&str, &str>| {
        let read =
            Selector::from_value(&object).map(|selector| selector.to_string()).map_err(|e| e.to_string());
        match (read, expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            other => panic!("{other:?}"),
        }
    };
    check(json!({}), Ok(""));
    check(json!({"matchLabels": {"b": "1", "a": "2"}}), Ok("a=2,b=1"));
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "DoesNotExist"}]}),
        Ok("a in (x,y),!b"),
    );
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "in"}]}),
        Err("\"in\" is not a valid label selector operator"),
    );
    check(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), Err("values set can't be empty"));
    assert!(Selector::from_value(&json!({})).unwrap().matches(None));
    assert!(!Selector::from_value(&Value::Null).unwrap().matches(None));
    assert!(!Selector::nothing().is_empty());
    assert_eq!(Selector::parse("a in (b),c!=d").unwrap().exact("a"), Some("b"));
}

/// Requirements as the parser itself would make them: one key each, values sorted.
fn requirement() -> impl Strategy<Value = String> {
    let key = "([a-z]{1,5}\\.io/)?[A-Za-z][A-Za-z0-9_.-]{0,6}[a-z0-9]";
    let value = "([A-Za-z0-9]([A-Za-z0-9_.-]{0,5}[A-Za-z0-9])?)?";
    (key, prop::collection::vec(value, 1..4), 0..9u8, any::<i32>()).prop_map(|(key, values, kind, number)| {
        match kind {
            0 => key,
            1 => format!("!{key}"),
            2 => format!("{key}={}", values[0]),
            3 => format!("{key}=={}", values[0]),
            4 => format!("{key}!={}", values[0]),
            5 => format!("{key} in ({})", values.join(",")),
            6 => format!("{key} notin ( {} )", values.join(" , ")),
            7 => format!("{key}>{}", number.unsigned_abs()),
            _ => format!("{key} < {}", number.unsigned_abs()),
        }
    })
}

proptest! {
    #[test]
    fn what_is_shown_parses_to_the_same(parts in prop::collection::vec(requirement(), 0..5)) {
        let selector = Selector::parse(&parts.join(",")).unwrap();
        prop_assert_eq!(Selector::parse(&selector.to_string()).unwrap(), selector);
    }

    #[test]
    fn a_selector_is_the_and_of_its_parts(
        parts in prop::collection::vec(requirement(), 0..4),
        labels in prop::collection::btree_map("[a-c]", "[a-c0-9]{0,2}", 0..4),
    ) {
        let labels: Map<String, Value> = labels.into_iter().map(|(k, v)| (k, v.into())).collect();
        let whole = Selector::parse(&parts.join(",")).unwrap().matches(Some(&labels));
        let each = parts.iter().all(|part| Selector::parse(part).unwrap().matches(Some(&labels)));
        prop_assert_eq!(whole, each);
    }

    #[test]
    fn nothing_makes_the_parser_panic(text in "[a-z!=<>(), \\\\.0-9/é\u{0}]{0,40}") {
        let _ = Selector::parse(&text);
    }
}
