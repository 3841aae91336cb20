use proptest::prelude::*;
use serde_json::json;

use super::table::{Count, Field, Message, Type};
use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

const POD: Kind<'static> = Kind { api_version: "v1", kind: "Pod" };

/// A body as kubectl sends it, and the JSON it would have sent instead.
#[track_caller]
fn check_sent(body: &str, expected: Value) {
    assert_eq!(decode(&hex(body), POD).unwrap(), expected);
}

#[test]
fn what_kubectl_sends() {
    check_sent(
        "6b3873000a0f0a02763112094e616d657370616365121b0a130a03666f6f12001a0022002a0032003800420012001a020a001a002200",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo"}, "spec": {}, "status": {}}),
    );
    check_sent(
        "6b3873000a0c0a0276311206536563726574121d0a110a017312001a0022002a0032003800420012060a01611201621a001a002200",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "Yg=="}}),
    );
    check_sent(
        "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e52657175657374121a0a100a00120\
         01a0022002a0032003800420012001a040a0012001a002200",
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            // JSON shows `audiences` and `expirationSeconds` as null.
            "metadata": {}, "spec": {}, "status": {"token": ""},
        }),
    );
    check_sent(
        "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e42756467657412360a110a017012001a0022002a003\
         2003800420012150a09080110001a0335302512080a060a01611201621a0a080018002000280030001a002200",
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        }),
    );
    // --replicas=0 is kept, the many zeros that are not meant are not.
    check_sent(
        "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412b8010a1f0a0377656212001a0022002a003200380042005a0a0\
         a0361707012037765621286010800120c0a0a0a0361707012037765621a6c0a1c0a0012001a0022002a003200380042005a0a0a0361\
         70701203776562124c122e0a056e67696e7812056e67696e782a00320a0a001000185022002a0042006a00720080010088010090010\
         0a201001a00320042004a0052005800600068008201008a01009a0100c2010022020a00280038001a0c080010001800200028003800\
         1a002200",
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [
                        {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {}},
                    ]},
                },
            },
            "status": {},
        }),
    );
}

#[track_caller]
fn check_round_trip(object: Value) {
    assert_eq!(decode(&encode(&object).unwrap(), POD).unwrap(), object);
}

#[test]
fn forms_that_are_not_their_fields() {
    check_round_trip(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "creationTimestamp": "2024-02-29T12:00:00Z", "generation": 3,
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": false}],
        },
        "spec": {
            "containers": [{
                "name": "c",
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "web"}, "terminationGracePeriodSeconds": 0},
                "readinessProbe": {"tcpSocket": {"port": 0}},
                "securityContext": {"privileged": false, "runAsUser": 0},
            }],
            "volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "c", "configMap": {"name": "m", "defaultMode": 0, "optional": false}},
            ],
            "securityContext": {"supplementalGroups": [0, 5, -1]},
            "terminationGracePeriodSeconds": 0,
        },
        "status": {},
    }));
    check_round_trip(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"renewTime": "1969-12-31T23:59:59.999999Z", "leaseTransitions": 0},
    }));
    check_round_trip(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {}, "revision": 7,
        "data": {"spec": {"x": [1, null, "y"]}},
    }));
    check_round_trip(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {"user": "u", "extra": {"scopes": ["a", "b"]}}, "status": {"allowed": false},
    }));
    check_round_trip(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"},
        "spec": {
            "group": "g", "names": {"plural": "x", "kind": "X"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "a": {"items": {"type": "string"}, "default": {"deep": [1]}, "minimum": 0, "maximum": 1.5},
                    "b": {"items": [{"type": "string"}, {}]},
                    "c": {"additionalProperties": false},
                    "d": {"additionalProperties": {"x-kubernetes-preserve-unknown-fields": false}},
                    "e": {"additionalProperties": true, "enum": ["a", 1, null]},
                },
                "dependencies": {"a": ["b"], "c": {"type": "object"}},
            }}}],
        },
        "status": {"acceptedNames": {"plural": "x", "kind": "X"}},
    }));
    check_round_trip(json!({
        "apiVersion": "apps/v1", "kind": "DeleteOptions",
        "gracePeriodSeconds": 0, "propagationPolicy": "Orphan", "orphanDependents": false, "preconditions": {"uid": "u"},
    }));
    check_round_trip(json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404,
        "details": {"name": "n", "causes": [{"reason": "r", "field": "f"}]},
    }));
    check_round_trip(json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7", "remainingItemCount": 0},
        "items": [{"metadata": {"name": "a"}, "binaryData": {"k": "AAEC"}}, {"metadata": {}, "immutable": false}],
    }));
}

/// An object with every field of its message, down to some depth.
fn filled(message: &Message, depth: usize, zero: bool) -> Value {
    let mut object = Value::Object(Map::new());
    for field in &message.fields {
        add(&mut object, field, depth, zero);
    }
    object
}

fn add(object: &mut Value, field: &Field, depth: usize, zero: bool) {
    let table = Table::shared();
    if let (Type::Message(number), "") = (field.ty, field.name) {
        let inner = table.message(number).unwrap();
        return inner.fields.iter().for_each(|field| add(object, field, depth, zero));
    }
    // A zero that is no pointer is one that JSON does not show.
    let zero = zero && (field.pointer || field.shown_when_empty);
    let value = match field.ty {
        Type::String if zero => json!(""),
        Type::Bool => json!(!zero),
        Type::Int32 | Type::Int64 if zero => json!(0),
        Type::Int32 => json!(i32::MIN),
        Type::Int64 => json!(i64::MAX),
        Type::Double if zero => json!(0),
        Type::IntOrString if zero => json!(0),
        Type::Bytes if zero => json!(""),
        Type::Double => json!(-0.5),
        Type::String | Type::IntOrString => json!("text: ä"),
        Type::Bytes => json!("AAH/"),
        Type::Time => json!("2024-02-29T12:00:00Z"),
        Type::MicroTime => json!("2024-02-29T12:00:00.123456Z"),
        Type::Quantity => json!("1500m"),
        Type::Json => json!({"a": [null, 1.5, {}]}),
        Type::Strings => json!(["a", ""]),
        Type::SchemaOrList(_) => json!([{"type": "a"}]),
        Type::SchemaOrBool(_) => json!(!zero),
        Type::SchemaOrNames(_) => json!({"type": "a"}),
        Type::Message(_) if depth == 0 => json!({}),
        Type::Message(number) => filled(table.message(number).unwrap(), depth - 1, zero),
    };
    object[field.name] = match field.count {
        Count::One => value,
        Count::List => json!([value, value]),
        Count::Map => json!({"key": value, "": value}),
    };
}

#[test]
fn every_field_of_every_kind() {
    let table = Table::shared();
    let mut count = 0;
    for kind in table.kinds() {
        for zero in [false, true] {
            let mut object = filled(table.of_kind(kind).unwrap(), 7, zero);
            object["kind"] = kind.kind.into();
            object["apiVersion"] = kind.api_version.replace('*', "v1").into();
            check_round_trip(object);
        }
        count += 1;
    }
    assert!(count > 130, "{count} kinds");
}

#[test]
fn upstreams_zeros_are_left_out_like_upstream_does() {
    let table = Table::shared();
    let config_map = table.of_kind(Kind { api_version: "v1", kind: "ConfigMap" }).unwrap();
    let check = |bytes: &[u8], expected: Value| {
        let mut members = Map::new();
        decode::message(config_map, bytes, &mut members, 10).unwrap();
        assert_eq!(Value::Object(members), expected);
    };
    // immutable, a pointer
    check(&[0x20, 0], json!({"immutable": false}));
    // a map's entry without key and value
    check(&[0x12, 0], json!({"data": {"": ""}}));
    // metadata in two pieces, the second of which takes the name back
    check(
        &[0x0a, 3, 0x0a, 1, b'a', 0x0a, 5, 0x0a, 0, 0x12, 1, b'g'],
        json!({"metadata": {"generateName": "g"}}),
    );
    // a field that nobody knows, in every form
    check(&[0xf8, 1, 1, 0xf9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xfa, 1, 1, 7, 0xfd, 1, 0, 0, 0, 0], json!({}));
}

#[test]
fn numbers_may_be_packed() {
    // spec.securityContext.supplementalGroups, one by one and at once
    for groups in [[0x20, 1, 0x20, 2], [0x22, 2, 1, 2]] {
        let mut body = b"k8s\0\x12\x08\x12\x06\x72\x04".to_vec();
        body.extend(groups);
        let pod = decode(&body, POD).unwrap();
        assert_eq!(pod.pointer("/spec/securityContext/supplementalGroups"), Some(&json!([1, 2])));
    }
}

#[test]
fn refusals() {
    let check = |body: &[u8], expected: &str| {
        assert_eq!(decode(body, POD).unwrap_err().to_string(), expected);
    };
    check(b"", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
    check(b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
    check(b"k8s\0\x0a\x05", "unexpected EOF");
    check(b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "unexpected EOF");
    check(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow");
    check(b"k8s\0\x0b", "proto: illegal tag 1 (wire type 3)");
    check(b"k8s\0\x02\x00", "proto: illegal tag 0 (wire type 2)");
    check(b"k8s\0\x0a\x06\x12\x04Nope", "no kind \"Nope\" is registered for version \"v1\"");
    check(b"k8s\0\x12\x02\x08\x01", "proto: wrong wireType = 0 for field core.v1.Pod.metadata");
    check(b"k8s\0\x12\x05\x0a\x03\x0a\x01\xff", "proto: text is not valid UTF-8");
    // One without a type is of the type that is expected.
    assert_eq!(decode(b"k8s\0", POD).unwrap(), json!({"apiVersion": "v1", "kind": "Pod"}));
    let encode_error = |object: Value| encode(&object).unwrap_err().to_string();
    assert_eq!(
        encode_error(json!({"apiVersion": "e.io/v1", "kind": "X"})),
        "X of \"e.io/v1\" has no protobuf message"
    );
    let wrong = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "two"}});
    assert_eq!(encode_error(wrong), "apps.v1.DeploymentSpec.replicas cannot be encoded as protobuf");
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        let mut schema = json!({});
        for _ in 0..levels {
            schema = json!({"not": schema});
        }
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"versions": [version]},
        });
        decode(&encode(&definition).unwrap(), POD)
    };
    assert!(nested(100).is_ok());
    assert_eq!(nested(200), Err(DecodeError::TooDeep));
    let raw = |levels: usize| {
        let data = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let mut extension = Vec::new();
        encode::bytes(1, data.as_bytes(), &mut extension);
        let mut revision = Vec::new();
        encode::bytes(2, &extension, &mut revision);
        let mut body = MAGIC.to_vec();
        encode::bytes(2, &revision, &mut body);
        decode(&body, Kind { api_version: "apps/v1", kind: "ControllerRevision" })
    };
    assert!(raw(100).is_ok());
    assert!(raw(5_000).is_err());
}

#[test]
fn lists_are_written_item_by_item() {
    let mut whole =
        json!({"apiVersion": "v1", "kind": "NamespaceList", "metadata": {"resourceVersion": "7"}});
    for items in [json!([]), json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}])] {
        let list = List::new(Kind { api_version: "v1", kind: "NamespaceList" }).unwrap();
        let mut encoded = Vec::new();
        for item in items.as_array().unwrap() {
            list.item(item, &mut encoded).unwrap();
        }
        let mut body = list.head(whole["metadata"].as_object().unwrap(), encoded.len()).unwrap();
        body.append(&mut encoded);
        body.extend_from_slice(ENVELOPE_END);
        let without_items = items == json!([]);
        if !without_items {
            whole["items"] = items;
        }
        assert_eq!(super::encode(&whole).unwrap(), body);
        assert_eq!(decode(&body, POD).unwrap(), whole);
    }
    assert!(List::new(Kind { api_version: "v1", kind: "Namespace" }).is_err());
}

#[test]
fn events_are_framed() {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let frame = frame("ADDED", &object).unwrap();
    let (length, event) = frame.split_first_chunk().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    assert_eq!(&event[..7], b"\x0a\x05ADDED");
    let at = event.windows(4).position(|window| window == MAGIC).unwrap();
    assert_eq!(decode(&event[at..], POD).unwrap(), object);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for kind in Table::shared().kinds() {
            let _ = decode::message(Table::shared().of_kind(kind).unwrap(), &bytes, &mut Map::new(), 20);
        }
        let _ = decode(&[MAGIC, bytes.as_slice()].concat(), POD);
    }

    #[test]
    fn no_damage_makes_it_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let table = Table::shared();
        for kind in ["Pod", "Node", "PersistentVolume", "Event"] {
            let mut object = filled(table.of_kind(Kind { api_version: "v1", kind }).unwrap(), 4, false);
            object["apiVersion"] = "v1".into();
            object["kind"] = kind.into();
            let mut body = encode(&object).unwrap();
            let at = at.index(body.len());
            body[at] = byte;
            let _ = decode(&body, POD);
            body.truncate(cut.index(body.len()));
            let _ = decode(&body, POD);
        }
    }

    #[test]
    fn no_value_makes_encoding_panic(text in ".{0,20}", number in any::<f64>()) {
        let odd = [json!(text), json!(number), json!([text]), json!({"a": number}), json!(true), Value::Null];
        for value in &odd {
            for message in [POD, Kind { api_version: "v1", kind: "Secret" }] {
                let fields = &Table::shared().of_kind(message).unwrap().fields;
                for field in fields {
                    let _ = encode(&json!({"apiVersion": "v1", "kind": message.kind, field.name: value}));
                }
            }
        }
    }
}
