//! `managedFields` as clients send them, and as objects without them are treated.

use serde_json::{Value, json};

use super::fixture::{NOW, Same, parsed, thing};
use crate::*;

fn write(manager: &str) -> Write<'_> {
    static NONE: FieldSet = FieldSet::new();
    Write { manager, api_version: "v1", subresource: "", now: NOW, reset: &NONE }
}

/// Updates a tracked object, with these owners sent along.
fn sent(owners: Value) -> Vec<String> {
    let live = thing().update("one", r#"{"text": "a", "number": 1}"#).live.unwrap();
    let mut new = live.clone();
    new["text"] = json!("b");
    if owners == json!("absent") {
        new["metadata"].as_object_mut().unwrap().remove("managedFields");
    } else {
        new["metadata"]["managedFields"] = owners;
    }
    track_update(Some(&live), &mut new, &write("two"), &Same("Thing"));
    let entries = ManagedFields::of(&new).unwrap().entries;
    entries.iter().map(super::fixture::shown_entry).collect()
}

#[test]
fn owners_that_are_sent() {
    let kept = ["one Update v1: .number", "two Update v1: .text"];
    assert_eq!(sent(json!("absent")), kept);
    assert_eq!(sent(Value::Null), kept);
    // Forgetting is asked for by an empty list, or one with an empty entry.
    assert_eq!(sent(json!([])), [""; 0]);
    assert_eq!(sent(json!([{}])), [""; 0]);
    // What cannot be read does not count.
    assert_eq!(sent(json!([{"operation": "Apply"}])), kept);
    assert_eq!(sent(json!("text")), kept);
    assert_eq!(sent(json!([1])), kept);
    assert_eq!(sent(json!([{}, {}])), kept);
    let entry = |version: &str, fields: Value| {
        json!({"manager": "three", "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    };
    assert_eq!(sent(json!([entry("v1", json!({"f:text": 1}))])), kept);
    // What can, does.
    let given = entry("v1", json!({"f:number": {}}));
    assert_eq!(sent(json!([given])), ["three Apply v1: .number", "two Update v1: .text"]);
    // A version that is no more is dropped.
    assert_eq!(sent(json!([entry("v9", json!({"f:number": {}}))])), ["two Update v1: .text"]);
}

#[test]
fn an_untracked_object_stays_untracked_until_applied() {
    let live = parsed(
        r#"{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x", "uid": "u"}, "text": "a"}"#,
    );
    let mut new = live.clone();
    new["text"] = json!("b");
    track_update(Some(&live), &mut new, &write("two"), &Same("Thing"));
    assert_eq!(new["metadata"].get("managedFields"), None);

    let config = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "number": 1});
    let applied = apply(Some(&live), &config, false, &write("me"), &Same("Thing")).unwrap();
    let entries = ManagedFields::of(&applied.object).unwrap().entries;
    let shown: Vec<_> = entries.iter().map(super::fixture::shown_entry).collect();
    assert_eq!(shown, ["me Apply v1: .number", "before-first-apply Update v1: .text"]);

    let config = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "text": "c"});
    let error = apply(Some(&live), &config, false, &write("me"), &Same("Thing")).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .text"#
    );
}

#[test]
fn entries_read_and_write() {
    let list = json!([
        {"manager": "a", "operation": "Apply", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:text": {}}},
        {"manager": "b", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:x": {}}},
        {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:y": {}}, "subresource": "status"},
    ]);
    assert_eq!(ManagedFields::read(&list).unwrap().to_value(), list);
    let mut reversed = list.as_array().unwrap().clone();
    reversed.reverse();
    assert_eq!(ManagedFields::read(&Value::Array(reversed)).unwrap().to_value(), list);
}

#[test]
fn entries_that_cannot_be_read() {
    let check = |entry: Value, expected: &str| {
        assert_eq!(ManagedFields::read(&json!([entry])).unwrap_err().to_string(), expected);
    };
    check(json!({}), "operation must be `Apply` or `Update`");
    check(json!({"operation": "Apply"}), "apiVersion must not be empty");
    check(json!({"operation": "Apply", "apiVersion": "v1"}), "missing fieldsType in managed fields entry 0");
    check(
        json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}),
        r#"invalid fieldsType "V2" in managed fields entry 0"#,
    );
    let whole = json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"});
    for (field, value, expected) in [
        ("fieldsV1", json!({"x": {}}), "error decoding set: key must be 2 characters long: \"x\""),
        ("time", json!("yesterday"), "time \"yesterday\" is not RFC 3339"),
        ("manager", json!(1), "manager must be a string"),
    ] {
        let mut entry = whole.clone();
        entry[field] = value;
        check(entry, expected);
    }
}

#[test]
fn times_are_written_in_utc_seconds() {
    let check = |time: &str, expected: &str| {
        let list =
            json!([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": time}]);
        assert_eq!(ManagedFields::read(&list).unwrap().entries[0].time.as_deref(), Some(expected));
    };
    check("2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z");
    check("2024-02-29T12:00:00.123456Z", "2024-02-29T12:00:00Z");
    check("2024-02-29T13:30:00+01:30", "2024-02-29T12:00:00Z");
}

#[test]
fn the_oldest_of_many_updaters_are_joined() {
    let mut play = thing();
    let mut labels = serde_json::Map::new();
    for n in 0..12 {
        labels.insert(format!("l{n:02}"), json!("x"));
        let body = json!({"metadata": {"labels": labels}}).to_string();
        play = play.now(&format!("2024-01-01T00:00:{n:02}Z")).update(&format!("m{n:02}"), &body);
    }
    let entries = ManagedFields::of(play.live()).unwrap().entries;
    let managers: Vec<_> = entries.iter().map(|e| e.manager.as_str()).collect();
    assert_eq!(managers, ["ancient-changes", "m03", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11"]);
    assert_eq!(entries[0].time.as_deref(), Some("2024-01-01T00:00:02Z"));
    let joined = super::fixture::shown(&entries[0].fields);
    assert_eq!(joined, ".metadata.labels .metadata.labels.l00 .metadata.labels.l01 .metadata.labels.l02");
}

#[test]
fn updaters_are_joined_by_version() {
    let mut play = thing();
    let mut labels = serde_json::Map::new();
    for n in 0..13 {
        labels.insert(format!("l{n:02}"), json!("x"));
        let body = json!({"metadata": {"labels": labels}}).to_string();
        let version = if n % 2 == 0 { "v1" } else { "v2" };
        play = play.now(&format!("2024-01-01T00:00:{n:02}Z")).update_at(version, &format!("m{n:02}"), &body);
    }
    let entries = ManagedFields::of(play.live()).unwrap().entries;
    let shown: Vec<_> = entries.iter().map(|e| format!("{} {}", e.manager, e.api_version)).collect();
    assert_eq!(shown.len(), 10, "{shown:?}");
    assert_eq!(shown[..3], ["ancient-changes v2", "ancient-changes v1", "m05 v2"], "{shown:?}");
    let all: usize = entries.iter().map(|e| e.fields.len()).sum();
    assert_eq!(all, 14, "nothing is lost");
}

#[test]
fn many_entries_are_read_quickly() {
    // Quadratic work would take minutes.
    let entry = |n: usize, operation: &str| {
        json!({"manager": format!("m{n}"), "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:map": {format!("f:k{n}"): {}}}})
    };
    let owners: Vec<_> = (0..20_000).map(|n| entry(n, if n % 2 == 0 { "Apply" } else { "Update" })).collect();
    let mut new = parsed(r#"{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}}"#);
    new["metadata"]["managedFields"] = Value::Array(owners);
    new["map"] = (0..20_000).map(|n| (format!("k{n}"), json!("v"))).collect();
    let live = new.clone();
    new["text"] = json!("t");
    track_update(Some(&live), &mut new, &write("me"), &Same("Thing"));
    assert_eq!(ManagedFields::of(&new).unwrap().entries.len(), 10_010);
}

#[test]
fn appliers_are_not_joined() {
    let mut play = thing();
    for n in 0..15 {
        play = play.apply(&format!("m{n}"), r#"{"text": "a"}"#);
    }
    assert_eq!(ManagedFields::of(play.live()).unwrap().entries.len(), 15);
}

#[test]
fn times_alone_are_no_change() {
    let live = thing().update("one", r#"{"text": "a"}"#).live.unwrap();
    let check = |change: &dyn Fn(&mut Value), forgotten: bool| {
        let mut new = live.clone();
        new["metadata"]["managedFields"][0]["time"] = json!("2030-01-01T00:00:00Z");
        change(&mut new);
        forget_new_times(&live, &mut new);
        let is_old = new["metadata"]["managedFields"] == live["metadata"]["managedFields"];
        assert_eq!(is_old, forgotten, "{new}");
    };
    check(&|_| {}, true);
    check(&|new| new["text"] = json!("b"), false);
    check(&|new| new["metadata"]["labels"] = json!({}), false);
    check(&|new| new["metadata"]["managedFields"][0]["manager"] = json!("other"), false);
}

#[test]
fn an_apply_that_changes_nothing_says_so() {
    let play = thing().apply("one", r#"{"text": "a"}"#).now("2030-01-01T00:00:00Z");
    let again = play.try_apply("one", "v1", r#"{"text": "a"}"#, false).unwrap();
    assert!(!again.changed);
    assert_eq!(&again.object, play.live());
    // Sharing what is there changes only the owners, and upstream gives that no time.
    let shared = play.try_apply("two", "v1", r#"{"text": "a"}"#, false).unwrap();
    assert!(shared.changed);
    let entries = ManagedFields::of(&shared.object).unwrap().entries;
    let times: Vec<_> = entries.iter().map(|e| (e.manager.as_str(), e.time.as_deref())).collect();
    assert_eq!(times, [("two", None), ("one", Some(NOW))]);
}

#[test]
fn what_is_no_object_is_left_alone() {
    for text in ["null", "[]", "1", r#"{"metadata": 1}"#, r#"{"metadata": {"managedFields": 1}}"#] {
        let mut value = parsed(text);
        track_update(None, &mut value, &write("me"), &Same("Thing"));
        track_update(Some(&parsed(text)), &mut value, &write("me"), &Same("Thing"));
    }
}
