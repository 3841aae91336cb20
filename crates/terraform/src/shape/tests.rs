//! A schema with everything in it, and objects of it.

use proptest::prelude::*;
use prost::Message;
use serde_json::{Value as Json, json};

use super::*;
use crate::protocol::Version;
use crate::protocol::messages as wire;
use crate::schema::Schema;
use crate::value::{Fields, Value};

/// (name, type, flags): r required, o optional, c computed, s sensitive, w write-only
type Attributes = &'static [(&'static str, &'static str, &'static str)];

fn attributes(table: Attributes) -> Vec<wire::Attribute6> {
    let attribute = |(name, ty, flags): &(&str, &str, &str)| wire::Attribute6 {
        name: (*name).into(),
        r#type: ty.to_string().into(),
        required: flags.contains('r'),
        optional: flags.contains('o'),
        computed: flags.contains('c'),
        sensitive: flags.contains('s'),
        write_only: flags.contains('w'),
        ..Default::default()
    };
    table.iter().map(attribute).collect()
}

fn block(name: &str, table: Attributes, nesting: i32, max_items: i64) -> wire::NestedBlock {
    let attributes = attributes(table).iter().map(|attribute| attribute.encode_to_vec().into()).collect();
    let block = Some(wire::Block { attributes, ..Default::default() });
    wire::NestedBlock { type_name: name.into(), block, nesting, min_items: 0, max_items }
}

pub(crate) fn thing() -> Schema {
    let mut top = attributes(&[
        ("id", r#""string""#, "c"),
        ("name", r#""string""#, "r"),
        ("size", r#""number""#, "o"),
        ("on", r#""bool""#, "o"),
        ("note", r#""string""#, "oc"),
        ("subnet_ids", r#"["set","string"]"#, "o"),
        ("tags", r#"["map","string"]"#, "o"),
        ("extra", r#""dynamic""#, "o"),
        ("disk", r#"["list",["object",{"disk_id":"string","size":"number"}]]"#, "o"),
        ("root_pass", r#""string""#, "os"),
        ("secret_map", r#"["map","string"]"#, "os"),
        ("token_wo", r#""string""#, "ow"),
    ]);
    top.push(wire::Attribute6 {
        name: "owner".into(),
        optional: true,
        nested_type: Some(wire::Object {
            attributes: attributes(&[("user_id", r#""string""#, "o"), ("pin", r#""string""#, "os")]),
            nesting: 1,
        }),
        ..Default::default()
    });
    let attributes = top.iter().map(|attribute| attribute.encode_to_vec().into()).collect();
    const RULE: Attributes =
        &[("port", r#""number""#, "r"), ("id", r#""string""#, "c"), ("key", r#""string""#, "os")];
    const GATE: Attributes = &[("key", r#""string""#, "r"), ("id", r#""string""#, "c")];
    const DOOR: Attributes =
        &[("id", r#""string""#, "c"), ("label", r#""string""#, "o"), ("code", r#""string""#, "os")];
    const TIMES: Attributes = &[("create", r#""string""#, "o"), ("delete", r#""string""#, "o")];
    let mut door = block("door", DOOR, 3, 0);
    if let Some(inner) = &mut door.block {
        inner.block_types.push(block("bell", DOOR, 3, 0));
    }
    let block_types = vec![
        block("rule", RULE, 2, 0),
        block("gate", GATE, 3, 0),
        door,
        block("network", &[("subnet", r#""string""#, "r")], 2, 1),
        block("timeouts", TIMES, 1, 0),
    ];
    let schema = wire::Schema {
        version: 1,
        block: Some(wire::Block { attributes, block_types, ..Default::default() }),
    };
    Schema::decode(&schema.encode_to_vec(), Version::V6).unwrap()
}

#[test]
fn an_object_is_read_and_shown_again() {
    let schema = thing();
    let check = |object: Json| {
        let value = desired(&schema.block, &object).unwrap();
        assert_eq!(shown(&schema.block, &value), object);
        // It fits the type: it can be sent.
        value.to_msgpack(schema.ty()).unwrap();
    };
    check(json!({}));
    check(json!({"name": "a", "size": 3, "on": true, "subnetIDS": ["a", "b"], "tags": {"a_b": "c"}}));
    check(json!({"size": 1.5, "disk": [{"diskID": "d", "size": 1}], "id": "x"}));
    check(json!({"rule": [{"port": 1, "ID": "r"}, {"port": 2}], "network": {"subnet": "s"}}));
    check(json!({"owner": {"userID": "u"}, "timeouts": {"create": 600_000_000_000_i64, "delete": 1}}));
    check(json!({"extra": {"any_thing": [1, "a", true, {"b": 1.25}]}}));
    check(json!({"extra": "text"}));
}

#[test]
fn other_ways_to_write_it() {
    let schema = thing();
    let check = |written: Json, meant: Json| {
        let value = desired(&schema.block, &written).unwrap();
        assert_eq!(shown(&schema.block, &value), meant);
    };
    check(json!({"network": [{"subnet": "s"}]}), json!({"network": {"subnet": "s"}}));
    check(json!({"subnetIDS": ["b", "a", "b"]}), json!({"subnetIDS": ["a", "b"]}));
    check(json!({"name": 5, "size": "7", "on": "true"}), json!({"name": "5", "size": 7, "on": true}));
    check(json!({"timeouts": {"create": "1h30m"}}), json!({"timeouts": {"create": 5_400_000_000_000_i64}}));
    check(json!({"name": null, "rule": null}), json!({}));
    // Times are for us where the provider knows of none.
    let none = Schema::empty().block;
    assert_eq!(shown(&none, &desired(&none, &json!({"timeouts": {"create": 1}})).unwrap()), json!({}));
    assert!(desired(&none, &json!({"other": {"create": 1}})).is_err());
}

#[test]
fn fields_that_do_not_fit() {
    let schema = thing();
    let check = |object: Json, expected: &str| {
        assert_eq!(desired(&schema.block, &object).unwrap_err().to_string(), expected);
    };
    check(json!({"nmae": "a"}), "nmae: the provider has no such field");
    check(json!({"size": "many"}), "size: expected a number, found a string");
    check(json!({"rule": [{"port": 1}, {"port": []}]}), "rule[1].port: expected a number, found a list");
    check(json!({"rule": {"port": 1}}), "rule: expected a list, found an object");
    check(json!({"disk": [{"disk_id": "x"}]}), "disk[0].disk_id: the provider has no such field");
    check(json!([]), ": expected an object, found a list");
}

fn with_secrets(schema: &Schema, object: &Json, secrets: &Json) -> Result<Value, FieldError> {
    Ok(Draft::read(&schema.block, object)?.with_secrets(&schema.block, secrets)?.value(&schema.block))
}

#[test]
fn secrets_are_elsewhere() {
    let schema = thing();
    let object = json!({"name": "a", "rule": [{"port": 1}, {"port": 2}], "owner": {"userID": "u"}});
    let given = json!({
        "root_pass": "p", "secret_map": "{\"a\":\"b\"}", "rule": [{}, {"key": "k"}], "owner": {"pin": "1"}
    });
    let value = with_secrets(&schema, &object, &given).unwrap();
    assert_eq!(value.field("root_pass").as_str(), Some("p"));
    assert_eq!(shown(&schema.block, &value), object);
    assert_eq!(secrets(&schema.block, &value), Some(given));
    let error = with_secrets(&schema, &object, &json!({"rootPass": "p"})).err().unwrap();
    assert_eq!(error.to_string(), "rootPass: the provider has no such attribute");
    let write_only = json!({"token_wo": "t"});
    let value = with_secrets(&schema, &json!({}), &write_only).unwrap();
    assert_eq!(value.field("token_wo").as_str(), Some("t"));
    assert_eq!(secrets(&schema.block, &value), Some(write_only));
}

#[test]
fn paths() {
    let schema = thing();
    let check = |steps: Vec<Step>, expected: &str| {
        assert_eq!(field_path("spec.resource", &schema.block, &Path(steps)), expected);
    };
    let attribute = |name: &str| Step::Attribute(name.to_owned());
    check(vec![], "spec.resource");
    check(vec![attribute("subnet_ids")], "spec.resource.subnetIDS");
    check(vec![attribute("rule"), Step::Index(1), attribute("id")], "spec.resource.rule[1].ID");
    check(vec![attribute("network"), Step::Index(0), attribute("subnet")], "spec.resource.network.subnet");
    check(vec![attribute("tags"), Step::Key("a_b".into())], "spec.resource.tags[\"a_b\"]");
    check(vec![attribute("disk"), Step::Index(0), attribute("disk_id")], "spec.resource.disk[0].diskID");
}

#[test]
fn durations() {
    let check =
        |text: &str, expected: Option<i64>| assert_eq!(write::parse_duration(text), expected, "{text}");
    check("1h30m", Some(5_400_000_000_000));
    check("1.5s", Some(1_500_000_000));
    check("300ms", Some(300_000_000));
    check("0", Some(0));
    check("-1m", Some(-60_000_000_000));
    for text in ["", "1", "h", "1 h", "1d"] {
        check(text, None);
    }
}

#[test]
fn where_secrets_may_be() {
    let schema = thing();
    for (field, secret) in [
        ("rootPass", true),
        ("secretMap.key", true),
        ("tokenWo", true),
        ("owner.pin", true),
        ("rule.0.key", true),
        ("owner.userID", false),
        ("rule.0.port", false),
        ("name", false),
        ("tags.key", false),
        ("nothing", false),
    ] {
        assert_eq!(is_secret(&schema.block, field), secret, "{field}");
        assert_eq!(has_field(&schema.block, field), field != "nothing", "{field}");
    }
    for (field, there) in
        [("root_pass", true), ("rule.0.nothing", false), ("rule.port.x", true), ("id", true)]
    {
        assert_eq!(has_field(&schema.block, field), there, "{field}");
    }
}

#[test]
fn what_stands_in_plain_sight() {
    let schema = thing();
    let check = |object: Json, expected: Option<&str>| {
        let found = exposed(&schema.block, &object).map(|found| found.path);
        assert_eq!(found.as_deref(), expected, "{object}");
    };
    check(json!({"name": "a", "rule": [{"port": 1}], "owner": {"userID": "u"}, "rootPass": null}), None);
    check(json!({"rootPass": "p"}), Some("rootPass"));
    check(json!({"tokenWo": "p"}), Some("tokenWo"));
    check(json!({"rule": [{"port": 1}, {"key": "k"}]}), Some("rule[1].key"));
    check(json!({"door": [{"bell": [{"code": "c"}]}]}), Some("door[0].bell[0].code"));
    check(json!({"owner": {"pin": "1"}}), Some("owner.pin"));
}

#[test]
fn secrets_in_maps_of_objects() {
    let nested = wire::Object {
        attributes: attributes(&[("label", r#""string""#, "r"), ("pin", r#""string""#, "ow")]),
        nesting: 4,
    };
    let keys = wire::Attribute6 {
        name: "keys".into(),
        required: true,
        nested_type: Some(nested),
        ..Default::default()
    };
    let block = wire::Block { attributes: vec![keys.encode_to_vec().into()], ..Default::default() };
    let schema = wire::Schema { version: 0, block: Some(block) };
    let schema = Schema::decode(&schema.encode_to_vec(), Version::V6).unwrap();
    let secrets = json!({"keys": {"front": {"pin": "1234"}, "back": {"pin": "5678"}}});
    let value = with_secrets(&schema, &json!({"keys": {"front": {"label": "x"}}}), &secrets).unwrap();
    let keys = value.field("keys");
    assert_eq!(keys.field("front").field("label").as_str(), Some("x"));
    assert_eq!(keys.field("front").field("pin").as_str(), Some("1234"));
    assert_eq!(keys.field("back").field("pin").as_str(), Some("5678"));
    assert!(is_secret(&schema.block, "keys.front.pin") && !is_secret(&schema.block, "keys.front.label"));
}

#[test]
fn secrets_of_a_set_go_by_the_order_in_which_it_was_written() {
    let schema = thing();
    let object =
        json!({"door": [{"label": "zebra", "bell": [{"label": "y"}, {"label": "x"}]}, {"label": "ant"}]});
    let given = json!({"door": [
        {"code": "of zebra", "bell": [{"code": "of y"}, {"code": "of x"}]}, {"code": "of ant"},
    ]});
    let value = with_secrets(&schema, &object, &given).unwrap();
    let codes = |value: &Value| -> Vec<String> {
        let text = |door: &Value, name: &str| door.field(name).as_str().unwrap().to_owned();
        let doors = value.as_sequence().unwrap().iter();
        doors.map(|door| format!("{}: {}", text(door, "label"), text(door, "code"))).collect()
    };
    let doors = value.field("door");
    assert_eq!(codes(doors), ["ant: of ant", "zebra: of zebra"]);
    assert_eq!(codes(doors.as_sequence().unwrap()[1].field("bell")), ["x: of x", "y: of y"]);
}

fn doors(depth: u32) -> BoxedStrategy<Value> {
    let text = || prop_oneof![Just(Value::Null), "[a-c]{1,2}".prop_map(Value::string)];
    let bells = if depth == 0 { Just(None).boxed() } else { doors(depth - 1).prop_map(Some).boxed() };
    let door = (text(), text(), text(), bells).prop_map(|(id, label, code, bells)| {
        let fields =
            [("id", id), ("label", label), ("code", code)].map(|(name, value)| (name.to_owned(), value));
        Value::Fields(
            fields.into_iter().chain(bells.map(|bells| ("bell".to_owned(), bells))).collect::<Fields>(),
        )
    });
    proptest::collection::vec(door, 0..4).prop_map(Value::set).boxed()
}

proptest! {
    /// What is shown and what is hidden of a value are the value again.
    #[test]
    fn sets_with_secrets_come_back(doors in doors(1)) {
        let schema = thing();
        let whole = desired(&schema.block, &json!({"name": "a"})).unwrap();
        let Value::Fields(mut fields) = whole else { unreachable!() };
        fields.insert("door".into(), doors);
        let value = Value::Fields(fields);
        let hidden = secrets(&schema.block, &value).unwrap_or_else(|| json!({}));
        prop_assert_eq!(with_secrets(&schema, &shown(&schema.block, &value), &hidden).unwrap(), value);
    }
}
