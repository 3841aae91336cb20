//! How values merge: what wins, and in which order items come.

use super::fixture::{cursor, parsed};
use crate::merge::merge;
use crate::place::Place;

fn check(live: &str, config: &str, expected: &str) {
    let mut merged = parsed(live);
    merge(&mut merged, &parsed(config), Place::Root(cursor("Thing")));
    assert_eq!(merged, parsed(expected), "{live} + {config}");
}

#[test]
fn order_of_sets() {
    let words = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        serde_json::json!({"set": words}).to_string()
    };
    let check =
        |live: &str, config: &str, expected: &str| check(&words(live), &words(config), &words(expected));
    check("a b c", "a b", "a b c");
    check("a b", "a b c", "a b c");
    check("a b c", "", "a b c");
    check("", "a b c", "a b c");
    check("a b", "b a", "b a");
    check("a b c", "d e f", "a b c d e f");
    check("a b c", "c d e f", "a b c d e f");
    check("a b c g f", "c d e f", "a b c g d e f");
    check("c d e f", "a c e", "a c d e f");
    check("a b c x y z", "d e f", "a b c x y z d e f");
    check("a b c x y z", "d e f x y z", "a b c d e f x y z");
    check("c a g f", "c f a g", "c f a g");
    check("a b c d", "d e f a", "b c d e f a");
    check("c d e f g h i j", "2 h 3 e 4 k l", "c d f g 2 h i j 3 e 4 k l");
    check("a b c d e f g h i j", "1 b 2 h 3 e 4 k l", "a 1 b c d f g 2 h i j 3 e 4 k l");
    check("a b b", "c", "a b b c");
    check("a b b", "b", "a b");
    check("a b b", "a", "a b b");
    check("a b c d e c", "1 b 2 e d", "a 1 b c 2 e c d");
    check("a b c d e c", "1 b 2 c e d", "a 1 b 2 c e d");
    check("a a b b", "b c d", "a a b c d");
}

#[test]
fn keyed_items_merge() {
    check(
        r#"{"list": [{"name": "a", "value": 1}, {"name": "b", "value": 2}]}"#,
        r#"{"list": [{"name": "b", "value": 3}, {"name": "c"}]}"#,
        r#"{"list": [{"name": "a", "value": 1}, {"name": "b", "value": 3}, {"name": "c"}]}"#,
    );
    check(
        r#"{"listOfMaps": [{"name": "a", "value": {"x": "1"}}]}"#,
        r#"{"listOfMaps": [{"name": "a", "value": {"y": "2"}}]}"#,
        r#"{"listOfMaps": [{"name": "a", "value": {"x": "1", "y": "2"}}]}"#,
    );
}

#[test]
fn empty_and_null() {
    check("{}", r#"{"map": {}}"#, r#"{"map": {}}"#);
    check("{}", r#"{"map": null}"#, r#"{"map": null}"#);
    check(r#"{"map": null}"#, r#"{"map": {}}"#, r#"{"map": {}}"#);
    check(r#"{"map": {}}"#, r#"{"map": null}"#, r#"{"map": null}"#);
    check(r#"{"map": {"a": "1"}}"#, r#"{"map": null}"#, r#"{"map": {"a": "1"}}"#);
    check(r#"{"map": {"a": "1"}}"#, r#"{"map": {}}"#, r#"{"map": {"a": "1"}}"#);
    check(r#"{"set": ["a"]}"#, r#"{"set": null}"#, r#"{"set": ["a"]}"#);
    check(r#"{"set": null}"#, r#"{"set": []}"#, r#"{"set": []}"#);
    check(r#"{"text": "a"}"#, r#"{"text": null}"#, r#"{"text": null}"#);
    check(r#"{"atomicMap": {"a": "1"}}"#, r#"{"atomicMap": {}}"#, r#"{"atomicMap": {}}"#);
    check(r#"{"atomicList": ["a"]}"#, r#"{"atomicList": []}"#, r#"{"atomicList": []}"#);
}

#[test]
fn types_may_change_where_any_is_allowed() {
    check(r#"{"any": {"a": 1}}"#, r#"{"any": 5}"#, r#"{"any": 5}"#);
    check(r#"{"any": 5}"#, r#"{"any": {"a": 1}}"#, r#"{"any": {"a": 1}}"#);
    check(r#"{"any": [1]}"#, r#"{"any": {"a": 1}}"#, r#"{"any": {"a": 1}}"#);
    check(r#"{"any": [1, 2]}"#, r#"{"any": [3]}"#, r#"{"any": [3]}"#);
    check(r#"{"any": {"a": 1}}"#, r#"{"any": {"b": [1]}}"#, r#"{"any": {"a": 1, "b": [1]}}"#);
    check(r#"{"intOrString": 80}"#, r#"{"intOrString": "http"}"#, r#"{"intOrString": "http"}"#);
}

#[test]
fn live_items_that_cannot_be_told_apart_give_way() {
    check(r#"{"list": [1, null]}"#, r#"{"list": [{"name": "a"}]}"#, r#"{"list": [{"name": "a"}]}"#);
    check(r#"{"list": "text"}"#, r#"{"list": [{"name": "a"}]}"#, r#"{"list": [{"name": "a"}]}"#);
}
