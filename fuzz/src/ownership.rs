//! Who owns which fields.

use apply::{FieldSet, Versions, Write};
use objects::{GroupVersionKind, Value};
use schemas::Cursor;

use crate::{parts, value};

pub fn fields(data: &[u8]) {
    let Some(value) = value(data) else { return };
    let Ok(set) = FieldSet::from_value(&value) else { return };
    let again = FieldSet::from_value(&set.to_value()).expect("what was written can be read");
    assert_eq!(again.to_json(), set.to_json());
}

struct Deployments;

impl Versions for Deployments {
    fn cursor(&self, api_version: &str) -> Option<Cursor<'_>> {
        let kind = GroupVersionKind { group: "apps".into(), version: "v1".into(), kind: "Deployment".into() };
        (api_version == "apps/v1").then(|| builtins::cursor(&kind)).flatten()
    }

    fn convert(&self, object: &Value, _: &str) -> Option<Value> {
        Some(object.clone())
    }
}

/// A live object, what is applied to it, and what is written over it.
pub fn server_side_apply(data: &[u8]) {
    let [live, config, update] = parts(data).map(value);
    let reset = FieldSet::default();
    let write = Write {
        manager: "m",
        api_version: "apps/v1",
        subresource: "",
        now: "2024-01-01T00:00:00Z",
        reset: &reset,
    };
    if let Some(config) = config
        && let Ok(applied) = apply::apply(live.as_ref(), &config, true, &write, &Deployments)
    {
        let again = apply::apply(Some(&applied.object), &config, false, &write, &Deployments);
        assert!(!again.expect("what was applied can be applied again").changed, "and changes nothing");
    }
    if let Some(mut update) = update {
        apply::track_update(live.as_ref(), &mut update, &write, &Deployments);
    }
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const fields: &[&[u8]] = &[
        br#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}},"f:finalizers":{"v:\"x\"":{}},"f:l":{"i:0":{}}}}"#,
        br#"{"k:{\"port\":80,\"protocol\":\"TCP\"}":{},"v:[1,{\"a\":null}]":{}}"#,
    ];
    pub const server_side_apply: &[&[u8]] = &[
        b"{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"},\"managedFields\":[{\"manager\":\"o\",\"operation\":\"Update\",\"apiVersion\":\"apps/v1\",\"time\":\"2024-01-01T00:00:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:spec\":{\"f:replicas\":{}}}}]},\"spec\":{\"replicas\":2}}\xff{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"replicas\":3,\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"ports\":[{\"containerPort\":80}]}]}}}}\xff{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"replicas\":4}}",
        b"\xff{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"finalizers\":[\"a\",\"b\"]},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}}}}\xff{\"kind\":\"Deployment\"}",
    ];
}
