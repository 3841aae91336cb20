//! Round trips of values of any type, and what is refused.

use proptest::prelude::*;

use super::*;

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64),
        "-?[0-9]{1,60}(\\.[0-9]{1,60})?".prop_map(|text| Number::parse(&text).unwrap()),
        "-?[0-9]{1,5}e-?[0-9]{1,3}".prop_map(|text| Number::parse(&text).unwrap()),
    ]
}

fn ty() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![Just(Type::String), Just(Type::Bool), Just(Type::Number), Just(Type::Dynamic)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed().prop_map(Type::List),
            boxed().prop_map(Type::Set),
            boxed().prop_map(Type::Map),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Type::Tuple),
            prop::collection::btree_map("[a-z_]{1,6}", inner.clone(), 0..4).prop_map(Type::object),
        ]
    })
}

/// A value of a type. Types that a dynamic value brings have no dynamic parts themselves, as in Terraform.
fn value(ty: &Type, unknowns: bool, depth: u32) -> BoxedStrategy<Value> {
    let known: BoxedStrategy<Value> = match ty {
        Type::String => any::<String>().prop_map(Value::String).boxed(),
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Number => number().prop_map(Value::Number).boxed(),
        Type::List(element) => {
            prop::collection::vec(value(element, unknowns, depth), 0..4).prop_map(Value::Sequence).boxed()
        }
        Type::Set(element) => {
            prop::collection::vec(value(element, unknowns, depth), 0..4).prop_map(Value::set).boxed()
        }
        Type::Map(element) => {
            prop::collection::btree_map(any::<String>(), value(element, unknowns, depth), 0..4)
                .prop_map(Value::Fields)
                .boxed()
        }
        Type::Tuple(types) => {
            let elements: Vec<_> = types.iter().map(|ty| value(ty, unknowns, depth)).collect();
            elements.prop_map(Value::Sequence).boxed()
        }
        Type::Object { attributes, .. } => {
            let names: Vec<String> = attributes.keys().cloned().collect();
            let values: Vec<_> = attributes.values().map(|ty| value(ty, unknowns, depth)).collect();
            values
                .prop_map(move |values| Value::Fields(names.clone().into_iter().zip(values).collect()))
                .boxed()
        }
        Type::Dynamic if depth == 0 => Just(Value::Null).boxed(),
        Type::Dynamic => {
            let of = move |ty: Type| {
                let value = value(&ty, unknowns, depth - 1);
                value.prop_map(move |value| Value::Typed(Box::new((ty.clone(), value))))
            };
            ty_without_dynamic().prop_flat_map(of).boxed()
        }
    };
    let refined =
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Unknown(Some(bytes.into())));
    if unknowns {
        prop_oneof![8 => known, 1 => Just(Value::Null), 1 => Just(Value::Unknown(None)), 1 => refined].boxed()
    } else {
        prop_oneof![9 => known, 1 => Just(Value::Null)].boxed()
    }
}

fn ty_without_dynamic() -> impl Strategy<Value = Type> {
    ty().prop_filter("static", |ty| !ty.to_json().to_string().contains("\"dynamic\""))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn on_the_wire((ty, value) in ty().prop_flat_map(|ty| { let v = value(&ty, true, 2); (Just(ty), v) })) {
        let bytes = value.to_msgpack(&ty).unwrap();
        prop_assert!(Value::from_msgpack(&bytes, &ty).unwrap() == value);
    }

    #[test]
    fn at_rest((ty, value) in ty().prop_flat_map(|ty| { let v = value(&ty, false, 2); (Just(ty), v) })) {
        let bytes = value.to_state_json(&ty).unwrap();
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok() || !value.known()
            || String::from_utf8_lossy(&bytes).contains('e'));
        prop_assert!(Value::from_state_json(&bytes, &ty).unwrap() == value);
    }

    #[test]
    fn types(ty in ty()) {
        prop_assert_eq!(Type::parse(ty.to_json().to_string().as_bytes()).unwrap(), ty);
    }

    #[test]
    fn anything_may_come(ty in ty(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        // Refused or read, but never a panic.
        let _ = Value::from_msgpack(&bytes, &ty);
        let _ = Value::from_state_json(&bytes, &ty);
        let _ = Type::parse(&bytes);
    }

    #[test]
    fn broken_off((ty, value) in ty().prop_flat_map(|ty| { let v = value(&ty, true, 2); (Just(ty), v) }), cut in any::<prop::sample::Index>()) {
        let bytes = value.to_msgpack(&ty).unwrap();
        let cut = cut.index(bytes.len());
        prop_assert!(Value::from_msgpack(&bytes[..cut], &ty).is_err());
    }
}

#[test]
fn as_other_hosts_write_it() {
    fn check(ty: &str, hex: &[u8], expected: Value) {
        let ty = Type::parse(ty.as_bytes()).unwrap();
        assert!(Value::from_msgpack(hex, &ty).unwrap() == expected, "{ty:?} {hex:?}");
    }
    check(r#""string""#, &[0xd4, 0x00, 0x00], Value::Unknown(None));
    check(
        r#""string""#,
        &[0xc7, 0x03, 0x0c, 0x81, 0x01, 0xc2],
        Value::Unknown(Some([0x81, 0x01, 0xc2].into())),
    );
    check(r#""number""#, &[0xa3, b'1', b'.', b'5'], Value::Number(Number::parse("1.5").unwrap()));
    check(
        r#""number""#,
        &[0xcb, 0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a],
        Value::Number(Number::parse("0.1").unwrap()),
    );
    check(
        r#"["set","number"]"#,
        &[0x93, 0x03, 0x01, 0x03],
        Value::Sequence(vec![Value::number(1), Value::number(3)]),
    );
    check(
        r#""dynamic""#,
        &[0x92, 0xc4, 0x06, b'"', b'b', b'o', b'o', b'l', b'"', 0xc3],
        Value::Typed(Box::new((Type::Bool, Value::Bool(true)))),
    );
    let object = Value::Fields([("a".to_owned(), Value::Null), ("b".to_owned(), Value::Bool(true))].into());
    check(r#"["object",{"a":"string","b":"bool"}]"#, &[0x81, 0xa1, b'b', 0xc3], object);
}

#[test]
fn refusals() {
    fn check(ty: &str, bytes: &[u8], expected: &str) {
        let ty = Type::parse(ty.as_bytes()).unwrap();
        let error = Value::from_msgpack(bytes, &ty).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    check(r#""string""#, &[0xc3], "expected a string, found a boolean");
    check(r#""number""#, &[0xa1, b'x'], "expected a number, found other text");
    check(r#""string""#, &[0xa1, 0xff], "a string is not UTF-8");
    check(r#"["list","string"]"#, &[0xdd, 0xff, 0xff, 0xff, 0xff], "the value ends too early");
    check(r#"["object",{}]"#, &[0x81, 0xa1, b'x', 0xc0], "there is no attribute \"x\"");
    check(
        r#"["object",{"a":["list",["map","bool"]]}]"#,
        &[0x81, 0xa1, b'a', 0x91, 0x81, 0xa1, b'k', 0x01],
        "a[0].k: expected a boolean, found a number",
    );
    check(r#""bool""#, &[0xc3, 0xc3], "1 bytes follow the value");
    check(r#""bool""#, &[0xc1], "expected a boolean, found a byte that means nothing");
}

#[test]
fn nothing_of_a_value_is_shown() {
    let value = Value::Fields([("password".to_owned(), Value::string("hunter2"))].into());
    assert_eq!(format!("{value:?}"), r#"{"password": string}"#);
}
