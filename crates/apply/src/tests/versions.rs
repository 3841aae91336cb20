//! Owners that speak of an object in different versions.

use super::fixture::{Same, play};

/// The fields of `Free` are renamed with the version: `x_v1`, `x_v2`.
fn each_versions(check: impl Fn(&str, &str, &str)) {
    let all = ["v1", "v2", "v3"];
    for first in all {
        for second in all {
            for third in all {
                check(first, second, third);
            }
        }
    }
}

#[test]
fn a_field_given_up_in_another_version_goes() {
    each_versions(|first, second, third| {
        play("Free")
            .apply_at(first, "one", &format!(r#"{{"name": "a", "x_{first}": "a"}}"#))
            .apply_at(second, "one", r#"{"name": "a"}"#)
            .owned(&[&format!("one Apply {second}: .name")])
            .holds(r#"{"name": "a"}"#)
            .apply_at(third, "one", r#"{"name": "a"}"#)
            .holds(r#"{"name": "a"}"#);
    });
}

#[test]
fn a_field_shared_with_an_applier_of_another_version_stays() {
    each_versions(|first, second, third| {
        play("Free")
            .apply_at(first, "one", &format!(r#"{{"name": "a", "x_{first}": {{"y": "a"}}}}"#))
            .apply_at(second, "two", &format!(r#"{{"x_{second}": {{"y": "a"}}}}"#))
            .apply_at(third, "one", r#"{"name": "a"}"#)
            .holds(&format!(r#"{{"name": "a", "x_{third}": {{"y": "a"}}}}"#))
            .owned(&[
                &format!("one Apply {third}: .name"),
                &format!("two Apply {second}: .x_{second} .x_{second}.y"),
            ]);
    });
}

#[test]
fn a_field_shared_with_an_updater_of_another_version_stays() {
    each_versions(|first, second, third| {
        play("Free")
            .update_at(first, "up", &format!(r#"{{"name": "a", "x_{first}": "a"}}"#))
            .apply_at(second, "one", &format!(r#"{{"name": "a", "x_{second}": "a"}}"#))
            .apply_at(third, "one", r#"{"name": "a"}"#)
            .holds(&format!(r#"{{"name": "a", "x_{third}": "a"}}"#));
    });
}

#[test]
fn an_updater_takes_a_field_in_its_own_version() {
    each_versions(|first, second, _| {
        play("Free")
            .apply_at(first, "one", &format!(r#"{{"name": "a", "x_{first}": "a"}}"#))
            .update_at(second, "up", &format!(r#"{{"name": "a", "x_{second}": "b"}}"#))
            .owned(&[&format!("one Apply {first}: .name"), &format!("up Update {second}: .x_{second}")]);
    });
}

#[test]
fn conflicts_across_versions_name_the_owners_field() {
    play("Free").update_at("v1", "up", r#"{"x_v1": "a"}"#).conflicts_at(
        "v2",
        "one",
        r#"{"x_v2": "b"}"#,
        &[r#""up" using v1 .x_v1"#],
    );
}

#[test]
fn an_updater_of_two_versions_is_two_owners() {
    play("Free")
        .update_at("v1", "up", r#"{"a": "1"}"#)
        .update_at("v2", "up", r#"{"a": "1", "b": "2"}"#)
        .owned(&["up Update v1: .a", "up Update v2: .b"])
        .apply_at("v1", "me", r#"{"c": "3"}"#)
        .apply_at("v2", "me", r#"{"c": "3"}"#)
        .owned(&["me Apply v2: .c", "up Update v1: .a", "up Update v2: .b"]);
}

#[test]
fn a_version_that_is_no_more_is_forgotten() {
    let gone = |mut play: super::fixture::Play| {
        let live = play.live.as_mut().unwrap();
        live["metadata"]["managedFields"][0]["apiVersion"] = "v9".into();
        play
    };
    gone(play("Free").update("up", r#"{"a": "1"}"#))
        .apply("one", r#"{"a": "2"}"#)
        .holds(r#"{"a": "2"}"#)
        .owned(&["one Apply v1: .a"]);
    gone(play("Free").update("up", r#"{"a": "1"}"#))
        .update("two", r#"{"a": "2"}"#)
        .owned(&["two Update v1: .a"]);
    // Its applier cannot be understood to give up anything.
    gone(play("Free").apply("one", r#"{"a": "1", "b": "2"}"#))
        .apply("one", r#"{"a": "1"}"#)
        .holds(r#"{"a": "1", "b": "2"}"#);
}

#[test]
fn parts_of_what_became_atomic_are_owned_whole() {
    let mut play = super::fixture::thing()
        .apply("one", r#"{"struct": {"numeric": 1}, "list": [{"name": "a"}]}"#)
        .apply("two", r#"{"struct": {"numeric": 1}}"#);
    play.kind = "Whole";
    play.live.as_mut().unwrap()["kind"] = "Whole".into();
    play.conflicts("three", r#"{"struct": {"text": "s"}}"#, &[r#""one" .struct"#, r#""two" .struct"#])
        .force("three", r#"{"struct": {"text": "s"}}"#)
        .holds(r#"{"struct": {"text": "s"}, "list": [{"name": "a"}]}"#)
        .owned(&["one Apply v1: .list", "three Apply v1: .struct"]);
}

#[test]
fn what_was_atomic_stays_owned_at_its_root() {
    let mut play = play("Whole").apply("one", r#"{"struct": {"numeric": 1, "text": "a"}}"#);
    play.kind = "Thing";
    play.live.as_mut().unwrap()["kind"] = "Thing".into();
    play.apply("two", r#"{"struct": {"text": "b"}}"#)
        .holds(r#"{"struct": {"numeric": 1, "text": "b"}}"#)
        .owned(&["one Apply v1: .struct", "two Apply v1: .struct.text"]);
}

/// Conversion fails: nothing is known, and nothing is lost.
struct Broken;

impl crate::Versions for Broken {
    fn cursor(&self, _: &str) -> Option<schemas::Cursor<'_>> {
        super::fixture::cursor("Free")
    }

    fn convert(&self, _: &serde_json::Value, _: &str) -> Option<serde_json::Value> {
        None
    }
}

#[test]
fn a_failed_conversion_keeps_the_owners() {
    let live = play("Free").update_at("v1", "up", r#"{"a": "1"}"#).live.unwrap();
    let reset = crate::FieldSet::new();
    let write = crate::Write {
        manager: "two",
        api_version: "v2",
        subresource: "",
        now: super::fixture::NOW,
        reset: &reset,
    };
    let mut new = crate::Versions::convert(&Same("Free"), &live, "v2").unwrap();
    new["a"] = "2".into();
    crate::track_update(Some(&live), &mut new, &write, &Broken);
    assert_eq!(new["metadata"]["managedFields"], live["metadata"]["managedFields"]);
    let config = serde_json::json!({"apiVersion": "v2", "kind": "Free", "a": "3"});
    let error = crate::apply(Some(&live), &config, true, &write, &Broken).unwrap_err();
    assert_eq!(error.to_string(), "failed to convert object to version v2");
}
