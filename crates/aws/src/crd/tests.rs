use serde_json::json;

use super::digest::{Difference, compare, digest};
use super::*;
use crate::kinds;

#[test]
fn a_definition_is_whole() {
    let definition = definition(kinds::find("sqs", "Queue").unwrap()).unwrap();
    assert_eq!(definition["metadata"]["name"], "queues.sqs.services.k8s.aws");
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["name"], "v1alpha1");
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["queueName"]));
    let rules = &spec["properties"]["queueName"]["x-kubernetes-validations"];
    assert_eq!(rules[0]["rule"], IMMUTABLE_RULE);
    assert_eq!(spec["properties"]["kmsMasterKeyRef"]["properties"]["from"]["type"], "object");
    assert_eq!(version["additionalPrinterColumns"][5]["name"], "Synced");
}

#[test]
fn differences_are_told_by_path() {
    let check = |one: Value, other: Value, expected: Difference| {
        let whole = |spec: Value| json!({"kind": "K", "spec": {"p": spec}});
        assert_eq!(compare(&whole(one), &whole(other)), expected);
    };
    check(json!({"a": "string"}), json!({"a": "string"}), Difference::default());
    check(
        json!({"a": "string", "b": "string"}),
        json!({"a": {"t": "integer", "format": "int64"}, "c": "string"}),
        Difference {
            missing: vec!["spec.b".into()],
            differing: vec![r#"spec.a: "string" is {"format":"int64","t":"integer"}"#.into()],
            extra: vec!["spec.c".into()],
        },
    );
}

#[test]
fn every_kind_has_a_definition() {
    for kind in kinds::all() {
        let digest = digest(&definition(kind).unwrap());
        assert_eq!(digest["kind"], kind.kind);
    }
}
