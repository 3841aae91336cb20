//! Laws that hold for all sets, objects and schemas.

use proptest::prelude::*;
use schemas::Definitions;
use serde_json::{Map, Value, json};

use super::fixture::{NOW, cursor};
use crate::*;

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        4 => "[a-d]{0,2}".prop_map(PathElement::field),
        1 => (0..3_i64, "[a-b]").prop_map(|(port, name)| PathElement::key([("port", json!(port)), ("name", json!(name))])),
        1 => prop_oneof![Just(json!(1)), Just(json!(1.0)), Just(json!("a<\"\u{2028}")), Just(json!(true)), Just(json!(null))]
            .prop_map(PathElement::value),
        1 => (-1..3_i64).prop_map(PathElement::Index),
    ]
}

fn paths() -> impl Strategy<Value = Vec<Vec<PathElement>>> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..12)
}

fn set() -> impl Strategy<Value = FieldSet> {
    paths().prop_map(|paths| {
        let mut set = FieldSet::new();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

/// A schema of any kind, with some that are wrong.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer"})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields = prop::collection::btree_map("[a-d]", inner.clone(), 0..4);
        let map_type = prop_oneof![3 => Just("granular"), 1 => Just("atomic")];
        let list_type = prop_oneof![Just("map"), Just("set"), Just("atomic")];
        prop_oneof![
            (fields, map_type, any::<bool>()).prop_map(|(fields, map_type, open)| json!({
                "type": "object", "properties": fields, "x-kubernetes-map-type": map_type,
                "x-kubernetes-preserve-unknown-fields": open})),
            inner.clone().prop_map(|inner| json!({"type": "object", "additionalProperties": inner})),
            (inner, list_type, prop::collection::vec("[a-d]", 0..3)).prop_map(
                |(inner, list_type, keys)| json!({
                "type": "array", "items": inner, "x-kubernetes-list-type": list_type,
                "x-kubernetes-list-map-keys": keys})
            ),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        Just(json!(1.0)),
        Just(json!(u64::MAX)),
        "[a-c]".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Numbers that are close to each other where integers and floats meet.
fn number() -> impl Strategy<Value = Value> {
    let near = prop_oneof![Just(0_i64), Just(1 << 53), Just(-(1 << 53)), Just(i64::MAX), Just(i64::MIN)];
    prop_oneof![
        (near.clone(), -2..3_i64).prop_map(|(number, by)| json!(number.saturating_add(by))),
        (near, -2..3_i64).prop_map(|(number, by)| json!(number.saturating_add(by) as f64 + 0.25 * by as f64)),
        Just(json!(u64::MAX)),
        Just(json!(1e300)),
        Just(json!(-0.0)),
    ]
}

/// An object that somebody made, and so is tracked.
fn created(body: Value) -> Value {
    let mut object = typed(body);
    object["flag"] = json!(true);
    track_update(None, &mut object, &write("creator"), &things());
    object
}

/// Bodies that fit the test type.
fn body() -> impl Strategy<Value = Value> {
    let word = || "[a-c]".prop_map(Value::from);
    let map = || prop::collection::btree_map("[a-c]", word(), 0..3).prop_map(|map| json!(map));
    let list = prop::collection::btree_map("[a-c]", 0..3, 0..3).prop_map(|items| {
        let items: Vec<_> = items.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!(items)
    });
    let strings = || prop::collection::btree_set("[a-c]", 0..3).prop_map(|set| json!(set));
    let structure = (prop::option::of("[ab]"), prop::option::of(0..3), prop::option::of("[ab]")).prop_map(
        |(name, numeric, inner)| {
            let mut fields = Map::new();
            fields.extend(name.map(|name| ("name".to_owned(), json!(name))));
            fields.extend(numeric.map(|numeric| ("numeric".to_owned(), json!(numeric))));
            fields.extend(inner.map(|inner| ("inner".to_owned(), json!({"a": inner}))));
            Value::Object(fields)
        },
    );
    let lists = prop::collection::btree_map("[ab]", strings(), 0..3).prop_map(|items| {
        let items: Vec<_> = items.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!(items)
    });
    let field = prop_oneof![
        word().prop_map(|word| ("text", word)),
        (0..3).prop_map(|number| ("number", json!(number))),
        map().prop_map(|map| ("map", map)),
        map().prop_map(|map| ("atomicMap", map)),
        strings().prop_map(|set| ("set", set)),
        strings().prop_map(|list| ("atomicList", list)),
        list.prop_map(|list| ("list", list)),
        structure.prop_map(|value| ("struct", value)),
        lists.prop_map(|lists| ("listOfLists", lists)),
        value().prop_map(|any| ("any", any)),
    ];
    prop::collection::vec(field, 0..5).prop_map(|fields| {
        Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    })
}

fn typed(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!("v1"));
        fields.insert("kind".to_owned(), json!("T"));
        fields.insert("metadata".to_owned(), json!({"name": "x"}));
    }
    body
}

struct One<'a>(schemas::Cursor<'a>);

impl Versions for One<'_> {
    fn cursor(&self, _: &str) -> Option<schemas::Cursor<'_>> {
        Some(self.0)
    }

    fn convert(&self, object: &Value, _: &str) -> Option<Value> {
        Some(object.clone())
    }
}

fn write(manager: &str) -> Write<'_> {
    static NONE: FieldSet = FieldSet::new();
    Write { manager, api_version: "v1", subresource: "", now: NOW, reset: &NONE }
}

fn things() -> One<'static> {
    One(cursor("Thing").unwrap())
}

proptest! {
    #[test]
    fn sets_survive_their_json(set in set()) {
        prop_assert_eq!(&FieldSet::from_value(&set.to_value()).unwrap(), &set);
        let json: Value = serde_json::from_str(&set.to_json()).unwrap();
        prop_assert_eq!(&FieldSet::from_value(&json).unwrap(), &set);
    }

    #[test]
    fn no_text_makes_reading_panic(text in any::<String>(), kind in "[fkvi.]?:?", value in value()) {
        let _ = PathElement::parse(&text);
        let _ = PathElement::parse(&format!("{kind}{text}"));
        let set = json!({format!("{kind}{text}"): {".": value, format!("{kind}{value}"): {}}});
        if let Ok(set) = FieldSet::from_value(&set) {
            prop_assert_eq!(&FieldSet::from_value(&set.to_value()).unwrap(), &set);
        }
        let _ = ManagedFields::read(&json!([{"manager": value, "operation": "Apply", "apiVersion": text,
            "fieldsType": "FieldsV1", "time": text, "fieldsV1": set}]));
        let _ = ManagedFields::read(&value);
    }

    #[test]
    fn values_have_a_total_order(numbers in prop::collection::vec(number(), 3), values in prop::collection::vec(value(), 3)) {
        for three in [&numbers, &values] {
            let [a, b, c] = three.as_slice() else { continue };
            prop_assert_eq!(values::compare(a, b), values::compare(b, a).reverse());
            prop_assert_eq!(values::compare(a, b).is_eq(), values::same(a, b));
            if values::compare(a, b).is_le() && values::compare(b, c).is_le() {
                prop_assert!(values::compare(a, c).is_le());
            }
        }
    }

    #[test]
    fn sets_hold_what_was_put_in(paths in paths(), probe in prop::collection::vec(element(), 1..4)) {
        let mut set = FieldSet::new();
        paths.iter().for_each(|path| set.insert(path));
        for path in &paths {
            prop_assert!(set.has(path));
        }
        prop_assert_eq!(set.has(&probe), paths.contains(&probe));
        let mut distinct = paths.clone();
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(set.len(), distinct.len());
        let mut listed = set.paths();
        listed.sort();
        prop_assert_eq!(listed, distinct);
    }

    #[test]
    fn sets_obey_the_laws(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.difference(&b).difference(&c), a.difference(&b.union(&c)));
        prop_assert_eq!(a.union(&b).intersection(&c), a.intersection(&c).union(&b.intersection(&c)));
        prop_assert_eq!(a.intersects(&b), !a.intersection(&b).is_empty());
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
        prop_assert!(a.recursive_difference(&b).is_subset(&a.difference(&b)));
        prop_assert!(a.difference(&a).is_empty() && a.recursive_difference(&a).is_empty());
        prop_assert!(a.leaves().is_subset(&a));
        let mut absorbed = a.clone();
        absorbed.absorb(b.clone());
        prop_assert_eq!(absorbed, a.union(&b));
    }

    #[test]
    fn nothing_panics(
        schema in schema(), live in value(), config in value(), new in value(), last in set(), reset in set(),
    ) {
        let types = Definitions::parse([("T".to_owned(), schema)]).unwrap();
        let versions = One(types.root("T").unwrap());
        let cursor = types.root("T");
        let (mut live, config) = (typed(live), typed(config));
        compare(&live, &config, cursor, Some(&new));
        set_of(&live, cursor);
        if let Some(metadata) = live.get_mut("metadata") {
            metadata["managedFields"] = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": last.to_value()}]);
        }
        let write = Write { reset: &reset, ..write("m") };
        let _ = apply(Some(&live), &config, false, &write, &versions);
        let _ = apply(Some(&live), &config, true, &write, &versions);
        let mut new = typed(new);
        track_update(Some(&live), &mut new, &write, &versions);
        track_update(None, &mut live, &write, &versions);
    }

    #[test]
    fn applying_twice_changes_nothing(live in body(), config in body()) {
        let live = created(live);
        let config = typed(config);
        let once = apply(Some(&live), &config, true, &write("me"), &things()).unwrap();
        let twice = apply(Some(&once.object), &config, false, &write("me"), &things()).unwrap();
        prop_assert!(!twice.changed);
        prop_assert_eq!(twice.object, once.object);
    }

    #[test]
    fn what_only_the_applier_owned_goes_with_it(live in body(), config in body()) {
        // Created by one, added to by an applier that then gives all up: what is left is the creator's.
        let live = created(live);
        let Ok(added) = apply(Some(&live), &typed(config), false, &write("me"), &things()) else { return Ok(()) };
        let none = typed(json!({}));
        let gone = apply(Some(&added.object), &none, false, &write("me"), &things()).unwrap();
        prop_assert!(owned_by(&gone.object, "me").is_empty());
        let owned = owned_by(&added.object, "me").difference(&owned_by(&added.object, "creator"));
        let left = set_of(&gone.object, cursor("Thing"));
        prop_assert!(left.intersection(&owned.leaves()).is_empty(), "{} of {}", left.intersection(&owned), gone.object);
        // Nothing of the creator's is lost.
        prop_assert!(owned_by(&live, "creator").leaves().is_subset(&owned_by(&gone.object, "creator")));
    }

    #[test]
    fn an_applied_object_holds_its_configuration(live in body(), config in body()) {
        let live = created(live);
        let config = typed(config);
        let applied = apply(Some(&live), &config, true, &write("me"), &things()).unwrap().object;
        let again = apply(Some(&applied), &config, false, &write("other"), &things());
        prop_assert!(again.is_ok(), "equal values cannot conflict: {:?}", again);
        let there = compare(&Value::Null, &applied, cursor("Thing"), None).added;
        prop_assert!(set_of(&config, cursor("Thing")).leaves().is_subset(&there), "{}", applied);
    }

    #[test]
    fn an_updater_owns_exactly_what_it_changed(live in body(), new in body()) {
        let live = created(live);
        let mut new = typed(new);
        track_update(Some(&live), &mut new, &write("updater"), &things());
        let change = compare(&live, &new, cursor("Thing"), None);
        prop_assert_eq!(owned_by(&new, "updater"), change.added.union(&change.modified));
        prop_assert!(!owned_by(&new, "creator").intersects(&owned_by(&new, "updater")));
        prop_assert!(!owned_by(&new, "creator").intersects(&change.removed));
    }
}
