//! Bodies of requests.

use objects::decode;
use wire::{protobuf, yaml};

pub fn json(data: &[u8]) {
    let Ok(decoded) = decode::json(data) else { return };
    let again = decode::json(decoded.value.to_string().as_bytes()).expect("what was written can be read");
    assert_eq!(again.value, decoded.value);
    assert!(again.duplicates.is_empty());
}

pub fn yaml(data: &[u8]) {
    let Ok(decoded) = yaml::decode(data) else { return };
    let written = yaml::encode(&decoded.value);
    let again = yaml::decode(written.as_bytes());
    assert_eq!(again.expect("what was written can be read").value, decoded.value, "{written}");
}

pub fn protobuf(data: &[u8]) {
    let expected = protobuf::Kind { api_version: "v1", kind: "Pod" };
    let Ok(object) = protobuf::decode(data, expected) else { return };
    let written = protobuf::encode(&object).expect("what was read can be written");
    assert_eq!(protobuf::decode(&written, expected).expect("what was written can be read"), object);
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const json: &[&[u8]] = &[
        br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"n":-1.5e3,"t":true}}"#,
        br#"{"a":1,"a":{"b":[1,{"c":null,"c":2}]},"\u00e9\ud83d\ude00":"\"\\\/\b\f\n\r\t"}"#,
        b"[[[[[[[[[[[[]]]]]]]]]]]]",
        b"18446744073709551616",
    ];
    pub const yaml: &[&[u8]] = &[
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    a\n    b\n  m: 0644\n  y: yes\n",
        b"a: &x {b: [1, 2.5, ~, '', \"\\u0041\"]}\nc: *x\nd: {<<: *x, e: 0x1f}\n",
        b"# c\n- ? a\n  : b\n- !!str 1\n- >-\n  folded\n  text\n",
        b"{\"a\": 1, \"a\": 2}",
        b"a: 1e400\nb: .inf\nc: -.NaN\nd: 2001-01-01\ne: 1_000\n",
    ];
    pub const protobuf: &[&[u8]] = &[
        b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x08\x0a\x06\x0a\x01a\x1a\x01b\x1a\0\x22\0",
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x11\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v\x1a\x02\x0a\0\x1a\0\x22\0",
    ];
}
