//! Patches, on documents that clients chose too.

use objects::{GroupVersionKind, Value, patch};

use crate::{parts, value};

fn pair(data: &[u8]) -> Option<(Value, Value)> {
    let [document, patch] = parts(data);
    Some((value(document)?, value(patch)?))
}

pub fn json_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    if let Err(error) = patch::json(&document, &patch) {
        let _ = error.status();
    }
}

pub fn merge_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let mut once = document.clone();
    patch::merge(&mut once, &patch);
    let mut twice = once.clone();
    patch::merge(&mut twice, &patch);
    assert_eq!(once, twice, "a merge patch asks for a state");
}

pub fn strategic_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let kind = GroupVersionKind { group: "".into(), version: "v1".into(), kind: "Pod".into() };
    let schema = builtins::cursor(&kind).expect("there are pods");
    if let Err(error) = patch::strategic(&document, &patch, schema) {
        let _ = error.status();
    }
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const json_patch: &[&[u8]] = &[
        b"{\"a\":[1,2],\"b\":{\"c~/d\":1}}\xff[{\"op\":\"add\",\"path\":\"/a/-\",\"value\":3},{\"op\":\"remove\",\"path\":\"/b/c~0~1d\"}]",
        b"{\"a\":{\"b\":1}}\xff[{\"op\":\"test\",\"path\":\"/a/b\",\"value\":1},{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/c\"},{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/d\"},{\"op\":\"replace\",\"path\":\"\",\"value\":{}}]",
    ];
    pub const merge_patch: &[&[u8]] = &[
        b"{\"a\":1,\"b\":{\"c\":2}}\xff{\"b\":{\"c\":null,\"d\":{\"e\":null}},\"f\":[null]}",
        b"[1]\xff{\"a\":null}",
    ];
    pub const strategic_patch: &[&[u8]] = &[
        b"{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"i\"},{\"name\":\"b\"}]}}\xff{\"spec\":{\"$setElementOrder/containers\":[{\"name\":\"b\"},{\"name\":\"a\"}],\"containers\":[{\"name\":\"a\",\"image\":null},{\"$patch\":\"delete\",\"name\":\"b\"}]}}",
        b"{\"metadata\":{\"finalizers\":[\"a\",\"b\"]}}\xff{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"a\"],\"$setElementOrder/finalizers\":[\"c\",\"b\"],\"finalizers\":[\"c\"]}}",
        b"{\"spec\":{\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]}}\xff{\"spec\":{\"volumes\":[{\"$retainKeys\":[\"name\",\"hostPath\"],\"name\":\"v\",\"hostPath\":{\"path\":\"/\"}}],\"$patch\":\"replace\"}}",
    ];
}
