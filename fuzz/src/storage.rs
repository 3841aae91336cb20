//! What lies on disk or is carried between stores, and files of the operator.

use apiserver::DataKeys;
use apiserver::audit::Policy;
use apiserver::codec::Codec;
use bytes::{Bytes, BytesMut};
use objects::Value;
use objects::selector::labels::Selector;
use store::export::{Decoder, Encoder, Header};
use store::{Entry, Key, Revision};

/// An export that arrives in pieces; the first byte says how large they are.
pub fn export(data: &[u8]) {
    let (size, data) = data.split_first().map_or((1, data), |(size, rest)| (usize::from(*size).max(1), rest));
    read_export(data, size);
    // A good one of the same content, with one byte changed, is refused.
    let mut encoder = Encoder::new();
    encoder.header(&Header { revision: Revision(7), latest: Revision(9) });
    let key = Key::new("configmaps", "a", "b");
    let entry =
        Entry { key, created: Revision(1), modified: Revision(7), value: Bytes::copy_from_slice(data) };
    encoder.entry(&entry).expect("it is small");
    let mut good = encoder.finish().to_vec();
    assert_eq!(read_export(&good, size), Some(1));
    let at = data.iter().fold(size, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)))
        % good.len();
    good[at] ^= 1 << (size % 8);
    assert_eq!(read_export(&good, size), None, "damage at {at} is not seen");
}

/// How many entries there are, if all is well.
fn read_export(data: &[u8], size: usize) -> Option<usize> {
    let (mut decoder, mut entries) = (Decoder::new(), 0);
    for piece in data.chunks(size) {
        decoder.push(piece);
        while decoder.next_entry().ok()?.is_some() {
            entries += 1;
        }
    }
    decoder.finish().ok().map(|_| entries)
}

pub fn stored(data: &[u8]) {
    let codec = Codec::new(DataKeys::generate());
    for kind in ["configmaps", "secrets"] {
        let key = Key::new(kind, "a", "b");
        let Ok(stored) = codec.decode(&key, &Bytes::copy_from_slice(data), Revision(42)) else { continue };
        stored.write_to(&mut BytesMut::new());
        let _ = (stored.to_value(), stored.has_api_version("v1"));
    }
}

/// Parts of a stored object are found without parsing it, and are what parsing finds.
pub fn raw(data: &[u8]) {
    const PATHS: [&[&str]; 3] = [&["metadata"], &["metadata", "labels"], &["spec", "nodeName"]];
    for path in PATHS {
        let _ = objects::raw::member(data, path);
    }
    let _ = objects::raw::project(data, ["metadata.labels", "spec", "spec.nodeName"]);
    let Ok(object) = serde_json::from_slice::<Value>(data) else { return };
    let written = object.to_string();
    for path in PATHS {
        let found = objects::raw::member(written.as_bytes(), path).expect("it is JSON");
        let found = found.map(|found| serde_json::from_slice::<Value>(found).expect("it is JSON"));
        let parsed = path.iter().try_fold(&object, |value, name| value.get(name));
        assert_eq!(found.as_ref(), parsed, "{path:?}");
    }
    let labels = objects::raw::member(written.as_bytes(), &["metadata", "labels"]).expect("it is JSON");
    for selector in ["a", "!a", "a=b", "a!=b", "a notin (b,c),d"] {
        let selector = Selector::parse(selector).expect("it is a selector");
        assert_eq!(selector.matches_raw(labels), Ok(selector.matches(objects::meta::labels(&object))));
    }
}

pub fn audit_policy(data: &[u8]) {
    let _ = Policy::parse(data);
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const export: &[&[u8]] = &[b"\x05value", b"\x01", b"\xffHANGAREX\0\0\0\x01\0\0\0\0\0\0\0\x07"];
    pub const raw: &[&[u8]] = &[
        br#"{"data":{"labels":"{}"},"metadata":{"annotations":{"labels":"\""},"labels":{"a":"b","\u0061b":"c"}},"spec":{"nodeName":"x"}}"#,
        br#"{"metadata":{"labels":{"a":null,"d":1}},"spec":[1,{"nodeName":2}]}"#,
    ];
    pub const stored: &[&[u8]] = &[
        b"\x01\0\0\0\0\0\0\0\x2c{\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"\"}}",
        b"\x02\0\0\0\0\0\0\0\x010123456789abcdefghijklmnopqrstuvwxyz",
        b"\x01\0\0\0\0\xff\xff\xff\xff{}",
        b"\x03\0\0\0\0\0\0\0\x010123456789abcdef0123456789abcdefghijklmnopqrstuvwxyz",
    ];
    pub const audit_policy: &[&[u8]] = &[
        b"apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Request\n  users: [a]\n  resources: [{group: '', resources: ['pods/*']}]\n- level: None\n  nonResourceURLs: ['/healthz*']\n",
    ];
}
