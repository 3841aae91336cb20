//! Writes that are no applies.

use serde_json::{Value, json};

use super::fixture::{NOW, Same, cursor, parsed, play, shown, thing};
use crate::*;

#[test]
fn a_creator_owns_all_that_is_there() {
    thing()
        .update(
            "one",
            r#"{"struct": {"name": "a"}, "map": {"a": "1"}, "set": ["x"], "list": [{"name": "i"}]}"#,
        )
        .owned(&[concat!(
            r#"one Update v1: .list .list[name="i"] .list[name="i"].name .map .map.a .set .set[="x"] "#,
            ".struct .struct.name"
        )]);
    play("ConfigMap")
        .update("kubectl-create", r#"{"metadata": {"labels": {"app": "x"}}, "data": {"k": "v"}}"#)
        .owned(&["kubectl-create Update v1: .data .data.k .metadata.labels .metadata.labels.app"]);
}

#[test]
fn an_updater_takes_what_it_changes() {
    thing()
        .update("one", r#"{"text": "a", "number": 1, "flag": true}"#)
        .update("two", r#"{"text": "b", "number": 1}"#)
        .owned(&["one Update v1: .number", "two Update v1: .text"])
        .update("two", r#"{"text": "b", "number": 2}"#)
        .owned(&["two Update v1: .number .text"]);
}

#[test]
fn an_updater_takes_from_appliers() {
    thing()
        .apply("one", r#"{"struct": {"name": "a", "text": "t"}}"#)
        .update("two", r#"{"struct": {"name": "b", "text": "t"}}"#)
        .owned(&["one Apply v1: .struct.text", "two Update v1: .struct.name"])
        .update("two", "{}")
        .owned(&[]);
}

#[test]
fn an_applier_and_an_updater_of_one_name_are_two() {
    thing()
        .apply("one", r#"{"text": "a"}"#)
        .update("one", r#"{"text": "a", "number": 1}"#)
        .owned(&["one Apply v1: .text", "one Update v1: .number"]);
}

#[test]
fn a_nameless_manager_is_unknown() {
    thing().update("", r#"{"text": "a"}"#).owned(&["unknown Update v1: .text"]);
}

#[test]
fn duplicates_are_owned_by_their_key() {
    thing()
        .update("one", r#"{"numbers": [1, 1, 3, 4]}"#)
        .owned(&["one Update v1: .numbers .numbers[=1] .numbers[=3] .numbers[=4]"])
        .update("two", r#"{"numbers": [1, 3, 4]}"#)
        .owned(&["one Update v1: .numbers .numbers[=3] .numbers[=4]", "two Update v1: .numbers[=1]"])
        .update("three", r#"{"numbers": [1, 1, 3, 4]}"#)
        .owned(&["one Update v1: .numbers .numbers[=3] .numbers[=4]", "three Update v1: .numbers[=1]"])
        .apply("four", r#"{"numbers": [5]}"#)
        .holds(r#"{"numbers": [1, 1, 3, 4, 5]}"#)
        .conflicts("four", r#"{"numbers": [1]}"#, &[r#""three" using v1 .numbers[=1]"#])
        .force("four", r#"{"numbers": [1]}"#)
        .holds(r#"{"numbers": [1, 3, 4]}"#);
    let twice =
        r#"{"list": [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b", "value": 3}]}"#;
    let b = r#".list[name="b"] .list[name="b"].name .list[name="b"].value"#;
    thing()
        .update("one", twice)
        .owned(&[&format!(r#"one Update v1: .list .list[name="a"] {b}"#)])
        .update("two", &twice.replace("2}", "5}"))
        .owned(&[&format!("one Update v1: .list {b}"), r#"two Update v1: .list[name="a"]"#])
        .apply("three", r#"{"text": "t"}"#)
        .update("two", r#"{"text": "t"}"#)
        .owned(&["three Apply v1: .text"]);
}

#[test]
fn a_time_changes_only_with_its_fields() {
    let times = |object: &Value| -> Vec<(String, String)> {
        let entries = ManagedFields::of(object).unwrap().entries;
        entries
            .iter()
            .map(|e| (e.manager.to_string(), e.time.clone().unwrap_or_default().to_string()))
            .collect()
    };
    let pair = |manager: &str, time: &str| (manager.to_owned(), time.to_owned());
    let later = "2024-03-01T00:00:00Z";
    let play = thing()
        .update("one", r#"{"text": "a", "number": 1}"#)
        .now(later)
        .update("one", r#"{"text": "a", "number": 1}"#);
    assert_eq!(times(play.live()), [pair("one", NOW)]);
    let play = play.update("two", r#"{"text": "b", "number": 1}"#);
    assert_eq!(times(play.live()), [pair("one", NOW), pair("two", later)]);
    let applied = play.try_apply("three", "v1", r#"{"flag": true}"#, false).unwrap();
    assert_eq!(times(&applied.object), [pair("three", later), pair("one", NOW), pair("two", later)]);
}

#[test]
fn fields_of_another_endpoint_are_not_owned() {
    thing()
        .reset(&["status"])
        .update("one", r#"{"text": "a", "status": {"phase": "x"}}"#)
        .owned(&["one Update v1: .text"])
        .apply("two", r#"{"text": "a", "status": {"phase": "y"}}"#)
        .owned(&["one Update v1: .text", "two Apply v1: .text"]);
}

#[test]
fn an_endpoint_may_write_one_field_only() {
    let object = parsed(r#"{"apiVersion": "v1", "text": "a", "status": {"phase": "x"}}"#);
    let reset = FieldSet::all_but(&["status"], [&object, &json!({"spec": 1})]);
    assert_eq!(shown(&reset), ".apiVersion .spec .text");
    assert_eq!(shown(&set_of(&object, None).recursive_difference(&reset)), ".status .status.phase");
}

#[test]
fn a_subresource_is_its_own_owner() {
    let live = thing().update("one", r#"{"text": "a"}"#).live.unwrap();
    let mut new = live.clone();
    new["status"] = json!({"phase": "Running"});
    // What is sent about owners through a subresource does not count.
    new["metadata"]["managedFields"] = json!([]);
    let reset = FieldSet::new();
    let write = Write { manager: "one", api_version: "v1", subresource: "status", now: NOW, reset: &reset };
    track_update(Some(&live), &mut new, &write, &Same("Thing"));
    let entries = ManagedFields::of(&new).unwrap().entries;
    let shown: Vec<_> = entries.iter().map(|e| format!("{}: {}", e.subresource, shown(&e.fields))).collect();
    assert_eq!(shown, [": .text", "status: .status .status.phase"]);
    assert_eq!(new["metadata"]["managedFields"][1]["subresource"], "status");
}

/// A kind whose objects always have a `status`, as those of Go do.
struct WithZero(Value);

impl Versions for WithZero {
    fn cursor(&self, _: &str) -> Option<schemas::Cursor<'_>> {
        cursor("Thing")
    }

    fn convert(&self, object: &Value, _: &str) -> Option<Value> {
        Some(object.clone())
    }

    fn zero(&self, _: &str) -> Option<&Value> {
        Some(&self.0)
    }
}

#[test]
fn what_always_exists_is_never_added() {
    let versions = WithZero(json!({"status": {}, "struct": {"inner": {}}, "set": null}));
    let reset = FieldSet::new();
    let write = Write { manager: "one", api_version: "v1", subresource: "", now: NOW, reset: &reset };
    let check = |live: Option<&str>, new: &str, owned: &str| {
        let mut new = parsed(new);
        track_update(live.map(parsed).as_ref(), &mut new, &write, &versions);
        assert_eq!(shown(&owned_by(&new, "one")), owned);
    };
    check(None, r#"{"status": {"phase": "x"}}"#, ".status.phase");
    check(None, r#"{"status": {}, "struct": {"inner": {}}}"#, "");
    check(None, r#"{"struct": {"inner": {"a": "1"}}}"#, ".struct.inner.a");
    check(Some("{}"), r#"{"status": {"phase": "x"}}"#, ".status.phase");
    check(Some(r#"{"status": {"phase": "x"}}"#), "{}", "");
    check(None, r#"{"map": {"a": "1"}}"#, ".map .map.a");
    check(None, r#"{"set": ["a"]}"#, r#".set[="a"]"#);
    check(None, r#"{"set": null}"#, "");
}
