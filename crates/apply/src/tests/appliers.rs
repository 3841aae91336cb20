//! What appliers own, share and give up. Modelled on structured-merge-diff's merge tests.

use super::fixture::{play, thing};

#[test]
fn a_leaf_given_up_goes() {
    thing()
        .apply("one", r#"{"text": "a", "number": 1, "flag": true}"#)
        .apply("one", r#"{"text": "b"}"#)
        .holds(r#"{"text": "b"}"#)
        .owned(&["one Apply v1: .text"]);
}

#[test]
fn a_leaf_given_up_stays_for_its_other_applier() {
    thing()
        .apply("one", r#"{"text": "a", "number": 1}"#)
        .apply("two", r#"{"number": 1}"#)
        .owned(&["one Apply v1: .number .text", "two Apply v1: .number"])
        .apply("one", r#"{"text": "a"}"#)
        .holds(r#"{"text": "a", "number": 1}"#)
        .owned(&["one Apply v1: .text", "two Apply v1: .number"])
        .apply("two", "{}")
        .holds(r#"{"text": "a"}"#)
        .owned(&["one Apply v1: .text"]);
}

#[test]
fn a_leaf_given_up_stays_for_its_updater() {
    thing()
        .update("controller", r#"{"struct": {"name": "a", "numeric": 1}}"#)
        .apply("one", r#"{"struct": {"name": "a", "numeric": 1}}"#)
        .apply("one", r#"{"struct": {"name": "a"}}"#)
        .holds(r#"{"struct": {"name": "a", "numeric": 1}}"#)
        .owned(&["controller Update v1: .struct .struct.name .struct.numeric", "one Apply v1: .struct.name"]);
}

#[test]
fn structs_go_whole_and_in_part() {
    thing()
        .apply("one", r#"{"struct": {"name": "a", "inner": {"a": "1", "b": "2"}}}"#)
        .owned(&["one Apply v1: .struct.inner.a .struct.inner.b .struct.name"])
        .apply("one", r#"{"struct": {"name": "a", "inner": {"a": "1"}}}"#)
        .holds(r#"{"struct": {"name": "a", "inner": {"a": "1"}}}"#)
        .apply("one", r#"{"struct": {"name": "a"}}"#)
        .holds(r#"{"struct": {"name": "a"}}"#)
        .apply("one", r#"{"text": "x"}"#)
        .holds(r#"{"text": "x"}"#);
}

#[test]
fn a_struct_stays_for_the_part_another_owns() {
    thing()
        .apply("one", r#"{"struct": {"name": "a"}}"#)
        .apply("two", r#"{"struct": {"text": "b"}}"#)
        .apply("one", "{}")
        .holds(r#"{"struct": {"text": "b"}}"#)
        .owned(&["two Apply v1: .struct.text"]);
}

#[test]
fn an_emptied_struct_stays_for_its_owner() {
    thing()
        .update("creator", r#"{"struct": {"inner": {}}}"#)
        .apply("one", r#"{"struct": {"inner": {"a": "1"}}}"#)
        .apply("one", "{}")
        .holds(r#"{"struct": {"inner": {}}}"#)
        .owned(&["creator Update v1: .struct .struct.inner"]);
}

#[test]
fn defaults_of_the_server_stay() {
    // Nobody owns what the server filled in beside the applied field.
    let mut play = thing().apply("one", r#"{"struct": {"name": "a", "text": "t"}}"#);
    play.live.as_mut().unwrap()["struct"]["numeric"] = 7.into();
    play.apply("one", r#"{"struct": {"name": "a"}}"#).holds(r#"{"struct": {"name": "a", "numeric": 7}}"#);
}

#[test]
fn entries_of_maps() {
    thing()
        .apply("one", r#"{"map": {"a": "1", "b": "2"}}"#)
        .owned(&["one Apply v1: .map.a .map.b"])
        .apply("two", r#"{"map": {"b": "2", "c": "3"}}"#)
        .apply("one", r#"{"map": {"a": "1"}}"#)
        .holds(r#"{"map": {"a": "1", "b": "2", "c": "3"}}"#)
        .apply("two", r#"{"map": {"c": "3"}}"#)
        .holds(r#"{"map": {"a": "1", "c": "3"}}"#)
        .apply("one", "{}")
        .apply("two", "{}")
        .holds("{}")
        .owned(&[]);
}

#[test]
fn an_empty_map_is_owned_itself() {
    thing()
        .apply("one", r#"{"map": {}, "struct": {"inner": {}}}"#)
        .owned(&["one Apply v1: .map .struct.inner"])
        .apply("one", r#"{"map": {"a": "1"}}"#)
        .owned(&["one Apply v1: .map.a"])
        .holds(r#"{"map": {"a": "1"}}"#);
}

#[test]
fn sets() {
    thing()
        .apply("one", r#"{"set": ["a", "c"]}"#)
        .apply("one", r#"{"set": ["a", "b", "c", "d"]}"#)
        .holds(r#"{"set": ["a", "b", "c", "d"]}"#)
        .owned(&[r#"one Apply v1: .set[="a"] .set[="b"] .set[="c"] .set[="d"]"#]);
    thing()
        .apply("one", r#"{"set": ["a", "c"]}"#)
        .update("controller", r#"{"set": ["a", "b", "c", "d"]}"#)
        .apply("one", r#"{"set": ["a", "aprime", "c", "cprime"]}"#)
        .holds(r#"{"set": ["a", "b", "aprime", "c", "d", "cprime"]}"#)
        .owned(&[
            r#"controller Update v1: .set[="b"] .set[="d"]"#,
            r#"one Apply v1: .set[="a"] .set[="aprime"] .set[="c"] .set[="cprime"]"#,
        ]);
    thing()
        .apply("one", r#"{"numbers": [1, 2]}"#)
        .apply("two", r#"{"numbers": [2.0, 3]}"#)
        .apply("one", r#"{"numbers": []}"#)
        .holds(r#"{"numbers": [2.0, 3]}"#);
}

#[test]
fn items_of_keyed_lists() {
    thing()
        .apply("one", r#"{"list": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}"#)
        .apply("two", r#"{"list": [{"name": "c"}, {"name": "d"}]}"#)
        .apply("one", r#"{"list": [{"name": "a"}]}"#)
        .holds(r#"{"list": [{"name": "a"}, {"name": "c"}, {"name": "d"}]}"#)
        .owned(&[
            r#"one Apply v1: .list[name="a"] .list[name="a"].name"#,
            r#"two Apply v1: .list[name="c"] .list[name="c"].name .list[name="d"] .list[name="d"].name"#,
        ]);
    thing()
        .apply("one", r#"{"legacy": [{"name": "a", "value": 1}]}"#)
        .apply("two", r#"{"legacy": [{"name": "b", "value": 2}]}"#)
        .holds(r#"{"legacy": [{"name": "a", "value": 1}, {"name": "b", "value": 2}]}"#)
        .apply("one", "{}")
        .holds(r#"{"legacy": [{"name": "b", "value": 2}]}"#);
}

#[test]
fn keys_have_defaults() {
    thing()
        .apply("one", r#"{"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}"#)
        .owned(&[concat!(
            r#"one Apply v1: .ports[port=80,protocol="TCP"] .ports[port=80,protocol="TCP"].port "#,
            r#".ports[port=80,protocol="UDP"] .ports[port=80,protocol="UDP"].port "#,
            r#".ports[port=80,protocol="UDP"].protocol"#
        )])
        .apply("two", r#"{"ports": [{"port": 80, "protocol": "TCP", "name": "http"}]}"#)
        .holds(
            r#"{"ports": [{"port": 80, "protocol": "TCP", "name": "http"}, {"port": 80, "protocol": "UDP"}]}"#,
        )
        .conflicts("one", r#"{"ports": [{"port": 80, "name": "web"}]}"#, &[
            r#""two" .ports[port=80,protocol="TCP"].name"#,
        ]);
    thing().apply("one", r#"{"ports": [{"protocol": "TCP", "name": "A"}]}"#).owned(&[
        r#"one Apply v1: .ports[protocol="TCP"] .ports[protocol="TCP"].name .ports[protocol="TCP"].protocol"#,
    ]);
}

#[test]
fn lists_in_lists() {
    let before = |play: super::fixture::Play| {
        play.apply("one", r#"{"listOfLists": [{"name": "a"}, {"name": "b", "value": ["c"]}]}"#)
            .apply("two", r#"{"listOfLists": [{"name": "b", "value": ["d"]}]}"#)
    };
    before(thing())
        .apply("one", r#"{"listOfLists": [{"name": "a"}]}"#)
        .holds(r#"{"listOfLists": [{"name": "a"}, {"name": "b", "value": ["d"]}]}"#);
    before(thing())
        .update("controller", r#"{"listOfLists": [{"name": "a"}, {"name": "b", "value": ["c", "d", "e"]}]}"#)
        .apply("one", r#"{"listOfLists": [{"name": "a"}]}"#)
        .holds(r#"{"listOfLists": [{"name": "a"}, {"name": "b", "value": ["d", "e"]}]}"#)
        .owned(&[
            r#"controller Update v1: .listOfLists[name="b"].value[="e"]"#,
            r#"one Apply v1: .listOfLists[name="a"] .listOfLists[name="a"].name"#,
            r#"two Apply v1: .listOfLists[name="b"] .listOfLists[name="b"].name .listOfLists[name="b"].value[="d"]"#,
        ]);
    // What a controller put into an item goes with the item.
    thing()
        .apply("one", r#"{"listOfLists": [{"name": "a"}, {"name": "b", "value": ["c"]}]}"#)
        .update("controller", r#"{"listOfLists": [{"name": "a"}, {"name": "b", "value": ["c", "d"]}]}"#)
        .apply("one", r#"{"listOfLists": [{"name": "a"}]}"#)
        .holds(r#"{"listOfLists": [{"name": "a"}]}"#)
        .owned(&[r#"one Apply v1: .listOfLists[name="a"] .listOfLists[name="a"].name"#]);
}

#[test]
fn nested_values_change_key_and_value() {
    let check = |first: &str, second: &str, owned: &str| {
        thing().apply("one", first).apply("one", second).holds(second).owned(&[owned]);
    };
    check(
        r#"{"listOfLists": [{"name": "a", "value": ["b", "c"]}]}"#,
        r#"{"listOfLists": [{"name": "b", "value": ["a", "c"]}]}"#,
        concat!(
            r#"one Apply v1: .listOfLists[name="b"] .listOfLists[name="b"].name "#,
            r#".listOfLists[name="b"].value[="a"] .listOfLists[name="b"].value[="c"]"#
        ),
    );
    check(
        r#"{"listOfMaps": [{"name": "a", "value": {"b": "x", "c": "y"}}]}"#,
        r#"{"listOfMaps": [{"name": "a", "value": {"a": "x", "c": "z"}}]}"#,
        concat!(
            r#"one Apply v1: .listOfMaps[name="a"] .listOfMaps[name="a"].name "#,
            r#".listOfMaps[name="a"].value.a .listOfMaps[name="a"].value.c"#
        ),
    );
    check(
        r#"{"mapOfLists": {"a": ["b", "c"]}}"#,
        r#"{"mapOfLists": {"b": ["a", "c"]}}"#,
        r#"one Apply v1: .mapOfLists.b .mapOfLists.b[="a"] .mapOfLists.b[="c"]"#,
    );
    check(
        r#"{"mapOfMaps": {"a": {"b": "x", "c": "y"}}}"#,
        r#"{"mapOfMaps": {"a": {"a": "x", "c": "z"}}}"#,
        "one Apply v1: .mapOfMaps.a .mapOfMaps.a.a .mapOfMaps.a.c",
    );
    check(
        r#"{"mapOfMapsRecursive": {"a": {"b": {"c": null}}}}"#,
        r#"{"mapOfMapsRecursive": {"a": {"c": {"d": null}}}}"#,
        "one Apply v1: .mapOfMapsRecursive.a .mapOfMapsRecursive.a.c .mapOfMapsRecursive.a.c.d",
    );
}

#[test]
fn deep_maps_of_many_owners() {
    thing()
        .apply("one", r#"{"mapOfMapsRecursive": {"a": {"b": null}, "c": {"d": null}}}"#)
        .apply("two", r#"{"mapOfMapsRecursive": {"a": null, "c": {"d": null}}}"#)
        .update("up-one", r#"{"mapOfMapsRecursive": {"a": {"b": {"c": null}}, "c": {"d": {"e": null}}}}"#)
        .update(
            "up-two",
            r#"{"mapOfMapsRecursive": {"a": {"b": {"c": {"d": null}}}, "c": {"d": {"e": {"f": null}}}}}"#,
        )
        .update(
            "up-one",
            r#"{"mapOfMapsRecursive": {"a": {"b": {"c": {"d": {"e": null}}}}, "c": {"d": {"e": {"f": {"g": null}}}}}}"#,
        )
        .apply("one", r#"{"mapOfMapsRecursive": null}"#)
        .holds(r#"{"mapOfMapsRecursive": {"a": {}, "c": {"d": {"e": {"f": {"g": null}}}}}}"#)
        .owned(&[
            "one Apply v1: .mapOfMapsRecursive",
            "two Apply v1: .mapOfMapsRecursive.a .mapOfMapsRecursive.c .mapOfMapsRecursive.c.d",
            "up-one Update v1: .mapOfMapsRecursive.c.d.e .mapOfMapsRecursive.c.d.e.f.g",
            "up-two Update v1: .mapOfMapsRecursive.c.d.e.f",
        ]);
}

#[test]
fn atomics_are_one_leaf() {
    thing()
        .apply("one", r#"{"atomicMap": {"a": "1"}, "atomicList": ["x"], "atomicStruct": {"name": "n"}}"#)
        .owned(&["one Apply v1: .atomicList .atomicMap .atomicStruct"])
        .apply("one", r#"{"atomicMap": {"b": "1"}, "atomicList": ["y", "x"]}"#)
        .holds(r#"{"atomicMap": {"b": "1"}, "atomicList": ["y", "x"]}"#)
        .conflicts("two", r#"{"atomicMap": {"c": "1"}, "atomicList": ["y", "x"]}"#, &[r#""one" .atomicMap"#])
        .force("two", r#"{"atomicMap": {"c": "1"}}"#)
        .holds(r#"{"atomicMap": {"c": "1"}, "atomicList": ["y", "x"]}"#)
        .owned(&["one Apply v1: .atomicList", "two Apply v1: .atomicMap"]);
}

#[test]
fn what_no_schema_says_is_deduced() {
    play("Free")
        .apply("one", r#"{"a": {"b": 1, "list": [{"name": "x"}]}, "c": "d"}"#)
        .owned(&["one Apply v1: .a .a.b .a.list .c"])
        .apply("two", r#"{"a": {"e": 2}}"#)
        .conflicts("two", r#"{"a": {"list": []}}"#, &[r#""one" .a.list"#])
        .apply("one", r#"{"a": {"b": 1}}"#)
        .holds(r#"{"a": {"b": 1, "e": 2}}"#)
        .apply("one", "{}")
        .holds(r#"{"a": {"e": 2}}"#);
    thing()
        .apply("one", r#"{"any": {"x": {"y": [1]}}, "open": {"known": "k", "other": {"z": 1}}}"#)
        .owned(&["one Apply v1: .any.x .any.x.y .open.known .open.other .open.other.z"]);
}

#[test]
fn metadata_is_known_without_a_schema() {
    let owner = r#"{"metadata": {"labels": {"a": "1"}, "finalizers": ["x/y"], "ownerReferences":
        [{"uid": "1", "name": "n", "kind": "K", "apiVersion": "v1"}]}}"#;
    play("Free").apply("one", owner).owned(&[
        r#"one Apply v1: .metadata.finalizers[="x/y"] .metadata.labels.a .metadata.ownerReferences[uid="1"]"#,
    ]);
}
