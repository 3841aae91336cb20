//! Conflicts, force, and configurations that cannot be applied.

use objects::Status;
use serde_json::json;

use super::fixture::{NOW, Same, parsed, thing};
use crate::*;

#[test]
fn conflicts_by_owner_and_path() {
    thing()
        .update("updater", r#"{"text": "a", "struct": {"name": "n"}}"#)
        .apply("applier", r#"{"number": 1, "map": {"k": "v"}}"#)
        .conflicts(
            "other",
            r#"{"text": "b", "number": 2, "struct": {"name": "m"}, "map": {"k": "w"}}"#,
            &[
                r#""applier" .number"#,
                r#""applier" .map.k"#,
                r#""updater" using v1 .text"#,
                r#""updater" using v1 .struct.name"#,
            ],
        )
        .force("other", r#"{"text": "b", "number": 2}"#)
        .owned(&[
            "applier Apply v1: .map.k",
            "other Apply v1: .number .text",
            "updater Update v1: .struct .struct.name",
        ]);
}

#[test]
fn equal_values_do_not_conflict() {
    thing()
        .apply("one", r#"{"list": [{"name": "a", "value": 0}], "text": "t"}"#)
        .apply("two", r#"{"list": [{"name": "a", "value": 0.0}], "text": "t"}"#)
        .owned(&[
            r#"one Apply v1: .list[name="a"] .list[name="a"].name .list[name="a"].value .text"#,
            r#"two Apply v1: .list[name="a"] .list[name="a"].name .list[name="a"].value .text"#,
        ])
        .conflicts("two", r#"{"list": [{"name": "a", "value": 1}]}"#, &[r#""one" .list[name="a"].value"#]);
}

#[test]
fn adding_beside_others_does_not_conflict() {
    thing()
        .apply("one", r#"{"struct": {"name": "a"}, "map": {"a": "1"}, "set": ["a"]}"#)
        .apply("two", r#"{"struct": {"text": "b"}, "map": {"b": "2"}, "set": ["b"]}"#)
        .holds(r#"{"struct": {"name": "a", "text": "b"}, "map": {"a": "1", "b": "2"}, "set": ["a", "b"]}"#);
}

fn status_of(play: super::fixture::Play, manager: &str, body: &str) -> Status {
    play.try_apply(manager, "v1", body, false).unwrap_err().into()
}

#[test]
fn the_status_of_one_conflict() {
    let play = thing().update("kubectl-client-side-apply", r#"{"list": [{"name": "nginx", "value": 1}]}"#);
    let status = status_of(play, "me", r#"{"list": [{"name": "nginx", "value": 2}]}"#);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        concat!(
            r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: "#,
            r#".list[name="nginx"].value"#
        )
    );
    let [cause] = status.causes.as_slice() else { panic!("{status:?}") };
    assert_eq!(cause.reason, "FieldManagerConflict");
    assert_eq!(cause.message, r#"conflict with "kubectl-client-side-apply" using v1"#);
    assert_eq!(cause.field, r#".list[name="nginx"].value"#);
}

#[test]
fn the_status_of_several_conflicts() {
    let play = thing().update("z", r#"{"text": "a", "number": 1}"#).apply("b", r#"{"flag": true}"#);
    let status = status_of(play, "me", r#"{"text": "b", "number": 2, "flag": false}"#);
    assert_eq!(
        status.message,
        "Apply failed with 3 conflicts: conflicts with \"b\":\n- .flag\nconflicts with \"z\" using v1:\n- .number\n- .text"
    );
    assert_eq!(status.causes.len(), 3);
}

#[test]
fn a_conflict_names_the_subresource() {
    let live = thing().update("one", r#"{"text": "a"}"#).live.unwrap();
    let mut new = live.clone();
    new["status"] = json!({"phase": "Running"});
    let reset = FieldSet::new();
    let write =
        Write { manager: "kubelet", api_version: "v1", subresource: "status", now: NOW, reset: &reset };
    track_update(Some(&live), &mut new, &write, &Same("Thing"));
    let play = super::fixture::Play { live: Some(new), ..thing() };
    let status = status_of(play, "me", r#"{"status": {"phase": "Done"}}"#);
    assert_eq!(status.causes[0].message, r#"conflict with "kubelet" with subresource "status" using v1"#);
}

#[test]
fn configurations_that_do_not_fit() {
    let check = |body: &str, expected: &str| {
        let error = thing().try_apply("me", "v1", body, false).unwrap_err();
        let message = error.to_string();
        let prefix = "failed to create typed patch object (/x; /v1, Kind=Thing): ";
        assert_eq!(message.strip_prefix(prefix), Some(expected), "{message}");
        assert_eq!(Status::from(error).code, 500);
    };
    check(r#"{"nothing": 1}"#, ".nothing: field not declared in schema");
    check(r#"{"struct": {"nothing": 1}}"#, ".struct.nothing: field not declared in schema");
    check(r#"{"metadata": {"nothing": 1}}"#, ".metadata.nothing: field not declared in schema");
    check(r#"{"number": "1"}"#, ".number: expected numeric (int or float), got string");
    check(r#"{"text": 1}"#, ".text: expected string, got &value.valueUnstructured{Value:1}");
    check(r#"{"flag": "yes"}"#, ".flag: expected boolean, got &{yes}");
    check(r#"{"intOrString": [1]}"#, ".intOrString: expected any scalar, got &{[1]}");
    check(r#"{"struct": [1]}"#, ".struct: expected map, got &{[1]}");
    check(r#"{"list": {"a": 1}}"#, ".list: expected list, got &{map[a:1]}");
    check(r#"{"atomicList": [1]}"#, ".atomicList[0]: expected string, got &value.valueUnstructured{Value:1}");
    check(
        r#"{"metadata": {"labels": {"a": 1}}}"#,
        ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}",
    );
    check(r#"{"list": [{"name": "a"}, {"name": "a"}]}"#, r#".list: duplicate entries for key [name="a"]"#);
    check(r#"{"set": ["a", "a"]}"#, r#".set: duplicate entries for key [="a"]"#);
    check(
        r#"{"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}"#,
        r#".ports: duplicate entries for key [port=80,protocol="TCP"]"#,
    );
    check(
        r#"{"list": [{"value": 1}]}"#,
        concat!(
            r#".list: element 0: associative list with keys has an element that omits all key fields ["name"] "#,
            "(and doesn't have default values for any key fields)"
        ),
    );
    check(r#"{"list": [null]}"#, ".list: element 0: associative list with keys may not have a null element");
    check(r#"{"list": [1]}"#, ".list: element 0: associative list with keys may not have non-map elements");
    check(
        r#"{"set": [{}]}"#,
        ".set: element 0: associative list without keys has an element that's a map type",
    );
    check(r#"{"set": [[]]}"#, ".set: element 0: not supported: associative list with lists as elements");
    check(
        r#"{"set": [null]}"#,
        ".set: element 0: associative list without keys has an element that's an explicit null",
    );
    check(
        r#"{"number": "1", "text": 2}"#,
        concat!(
            "errors:\n  .number: expected numeric (int or float), got string",
            "\n  .text: expected string, got &value.valueUnstructured{Value:2}"
        ),
    );
}

#[test]
fn configurations_that_are_refused_outright() {
    let reset = FieldSet::new();
    let write = Write { manager: "me", api_version: "v1", subresource: "", now: NOW, reset: &reset };
    let check = |live: Option<&str>, config: &str, code: u16, message: &str| {
        let live = live.map(parsed);
        let status: Status =
            apply(live.as_ref(), &parsed(config), true, &write, &Same("Thing")).unwrap_err().into();
        assert_eq!((status.code, status.message.as_str()), (code, message));
    };
    let owners = "metadata.managedFields must be nil";
    check(None, r#"{"apiVersion": "v1", "kind": "T", "metadata": {"managedFields": []}}"#, 400, owners);
    check(None, r#"{"apiVersion": "v1", "kind": "T", "metadata": {"managedFields": [{}]}}"#, 400, owners);
    check(None, r#"{"apiVersion": "g/v2", "kind": "T"}"#, 400, "invalid object type: g/v2, Kind=T");
    check(
        Some(r#"{"apiVersion": "v1", "kind": "Other"}"#),
        r#"{"apiVersion": "v1", "kind": "T"}"#,
        400,
        "invalid object type: /v1, Kind=T",
    );
    check(None, "[]", 400, "invalid object type: /, Kind=");
    check(
        Some(r#"{"apiVersion": "v1", "kind": "T", "metadata": {"managedFields": [{"operation": "x"}]}}"#),
        r#"{"apiVersion": "v1", "kind": "T"}"#,
        500,
        "failed to decode managed fields: operation must be `Apply` or `Update`",
    );
    let unknown = Write { api_version: "v9", ..write };
    let config = json!({"apiVersion": "v9", "kind": "T"});
    let error = apply(None, &config, false, &unknown, &Same("Thing")).unwrap_err();
    assert_eq!(error.to_string(), "no corresponding type for v9, Kind=T");
}

#[test]
fn null_owners_in_a_configuration_are_no_owners() {
    thing()
        .apply("one", r#"{"metadata": {"managedFields": null}, "text": "a"}"#)
        .owned(&["one Apply v1: .text"]);
}
