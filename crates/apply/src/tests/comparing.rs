//! What is seen to differ between two objects, and what an object sets.

use super::fixture::{cursor, parsed, shown};
use crate::*;

fn check(old: &str, new: &str, added: &str, modified: &str, removed: &str) {
    let comparison = compare(&parsed(old), &parsed(new), cursor("Thing"), None);
    let sets = [&comparison.added, &comparison.modified, &comparison.removed].map(shown);
    assert_eq!(sets, [added, modified, removed], "{old} -> {new}");
    let back = compare(&parsed(new), &parsed(old), cursor("Thing"), None);
    assert_eq!(shown(&back.added), removed, "{new} -> {old}");
}

#[test]
fn differences() {
    check("{}", "{}", "", "", "");
    check(r#"{"text": "a"}"#, r#"{"text": "a"}"#, "", "", "");
    check(r#"{"number": 1}"#, r#"{"number": 1.0}"#, "", "", "");
    check(r#"{"text": "a"}"#, r#"{"text": "b"}"#, "", ".text", "");
    check("{}", r#"{"text": "b"}"#, ".text", "", "");
    check("{}", r#"{"text": null}"#, ".text", "", "");
    check("{}", r#"{"struct": {"name": "a"}}"#, ".struct .struct.name", "", "");
    check(r#"{"struct": {}}"#, r#"{"struct": {"name": "a"}}"#, ".struct.name", "", "");
    check("{}", r#"{"struct": {}}"#, ".struct", "", "");
    check(r#"{"map": {}}"#, r#"{"map": null}"#, "", ".map", "");
    check(r#"{"atomicMap": {"a": "1"}}"#, r#"{"atomicMap": {"b": "1"}}"#, "", ".atomicMap", "");
    check(r#"{"atomicList": ["a", "b"]}"#, r#"{"atomicList": ["b", "a"]}"#, "", ".atomicList", "");
    check(r#"{"set": ["a", "b"]}"#, r#"{"set": ["b", "a"]}"#, "", "", "");
    check(r#"{"set": ["a"]}"#, r#"{"set": ["b"]}"#, r#".set[="b"]"#, "", r#".set[="a"]"#);
    check(
        r#"{"list": [{"name": "a", "value": 1}]}"#,
        r#"{"list": [{"name": "a", "value": 2}, {"name": "b"}]}"#,
        r#".list[name="b"] .list[name="b"].name"#,
        r#".list[name="a"].value"#,
        "",
    );
    check(r#"{"metadata": {"managedFields": []}}"#, r#"{"metadata": {"managedFields": [1]}}"#, "", "", "");
    check(r#"{"any": {"a": 1}}"#, r#"{"any": 5}"#, "", ".any", ".any.a");
}

#[test]
fn an_entry_that_changes_its_type() {
    let comparison =
        compare(&parsed(r#"{"any": 5}"#), &parsed(r#"{"any": {"a": 1}}"#), cursor("Thing"), None);
    assert_eq!(shown(&comparison.modified), ".any");
    assert_eq!(shown(&comparison.added), ".any.a");
}

#[test]
fn fields_of_objects() {
    let check = |object: &str, expected: &str| {
        assert_eq!(shown(&set_of(&parsed(object), cursor("Thing"))), expected, "{object}");
    };
    check("{}", "");
    check("[]", "");
    check(r#"{"text": "a", "struct": {"name": null}}"#, ".struct.name .text");
    check(r#"{"map": {"a": "1"}, "set": [], "list": null}"#, ".list .map.a");
    check(
        r#"{"list": [{"name": "a", "value": 1}]}"#,
        r#".list[name="a"] .list[name="a"].name .list[name="a"].value"#,
    );
    check(r#"{"list": [{"value": 1}]}"#, ".list");
    check(r#"{"list": [{"name": "a"}, {"name": "a"}]}"#, r#".list[name="a"]"#);
    check(r#"{"atomicMap": {"a": "1"}, "atomicList": []}"#, ".atomicList .atomicMap");
    check(r#"{"metadata": {"name": "x", "managedFields": [{}]}}"#, ".metadata.name");
    let deduced = set_of(&parsed(r#"{"spec": {"a": [1], "b": {}}}"#), None);
    assert_eq!(shown(&deduced), ".spec .spec.a .spec.b");
}
