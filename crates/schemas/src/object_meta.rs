//! The schema of `metadata`, which every custom resource has without saying so.
//!
//! Mirrors `ObjectMeta` of `k8s.io/apimachinery/pkg/apis/meta/v1`.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// What may stand in `metadata`. Every node is non-nullable, so that nulls are dropped as Go drops them.
pub(crate) static OBJECT_META: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let int64 = json!({"type": "integer", "format": "int64"});
    let truth = json!({"type": "boolean"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let owner = json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": truth, "blockOwnerDeletion": truth,
        },
    });
    let manager = json!({
        "type": "object",
        "properties": {
            "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text,
            "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "subresource": text,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
            "resourceVersion": text, "generation": int64,
            "creationTimestamp": time, "deletionTimestamp": time, "deletionGracePeriodSeconds": int64,
            "labels": texts, "annotations": texts,
            "ownerReferences": {
                "type": "array", "items": owner,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge",
            },
            "finalizers": {
                "type": "array", "items": text,
                "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
            },
            "managedFields": {"type": "array", "items": manager, "x-kubernetes-list-type": "atomic"},
        },
    })
});
