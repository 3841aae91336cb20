//! A Deployment through its first minutes, as a stock control plane records them.

use std::sync::LazyLock;

use schemas::{Cursor, Definitions};
use serde_json::{Value, json};

use crate::*;

static TYPES: LazyLock<Definitions> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let types = json!({
        "Deployment": {"type": "object", "properties": {
            "apiVersion": text, "kind": text, "metadata": {"$ref": "#/definitions/ObjectMeta"},
            "spec": {"type": "object", "properties": {
                "progressDeadlineSeconds": number, "replicas": number, "revisionHistoryLimit": number,
                "selector": {"type": "object", "properties": {"matchLabels": labels}, "x-kubernetes-map-type": "atomic"},
                "strategy": {"type": "object", "properties": {"type": text,
                    "rollingUpdate": {"type": "object", "properties": {
                        "maxSurge": {"x-kubernetes-int-or-string": true},
                        "maxUnavailable": {"x-kubernetes-int-or-string": true}}}}},
                "template": {"type": "object", "properties": {
                    "metadata": {"$ref": "#/definitions/ObjectMeta"},
                    "spec": {"type": "object", "properties": {
                        "containers": {"type": "array", "items": {"$ref": "#/definitions/Container"},
                            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
                        "dnsPolicy": text, "restartPolicy": text, "schedulerName": text,
                        "securityContext": open, "terminationGracePeriodSeconds": number}}}},
            }},
            "status": {"type": "object", "properties": {
                "observedGeneration": number, "replicas": number,
                "conditions": {"type": "array", "items": {"type": "object", "properties": {
                    "type": text, "status": text, "reason": text}},
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "type"}}},
        }},
        "ObjectMeta": {"type": "object", "properties": {"name": text, "labels": labels, "annotations": labels}},
        "Container": {"type": "object", "properties": {
            "name": text, "image": text, "imagePullPolicy": text, "resources": open,
            "terminationMessagePath": text, "terminationMessagePolicy": text}},
    });
    let Value::Object(types) = types else { unreachable!() };
    Definitions::parse(types).unwrap()
});

/// What Go writes of an empty Deployment.
static ZERO: LazyLock<Value> = LazyLock::new(|| {
    json!({"metadata": {}, "status": {}, "spec": {"selector": null, "strategy": {},
        "template": {"metadata": {}, "spec": {"containers": null}}}})
});

struct Deployments;

impl Versions for Deployments {
    fn cursor(&self, api_version: &str) -> Option<Cursor<'_>> {
        let types: &'static Definitions = &TYPES;
        if api_version == "apps/v1" { types.root("Deployment") } else { None }
    }

    fn convert(&self, object: &Value, _: &str) -> Option<Value> {
        Some(object.clone())
    }

    fn zero(&self, _: &str) -> Option<&Value> {
        Some(&ZERO)
    }
}

fn created() -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "default", "labels": {"app": "nginx"}},
        "spec": {
            "progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "nginx"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {
                "containers": [{"name": "nginx", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30}}},
        "status": {},
    });
    track_update(None, &mut object, &write("kubectl-create", ""), &Deployments);
    object["metadata"]["uid"] = json!("u");
    object
}

fn write(manager: &'static str, subresource: &'static str) -> Write<'static> {
    static NONE: FieldSet = FieldSet::new();
    Write { manager, api_version: "apps/v1", subresource, now: super::fixture::NOW, reset: &NONE }
}

#[test]
fn created_by_kubectl() {
    let recorded = concat!(
        r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"#,
        r#""f:revisionHistoryLimit":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"#,
        r#""f:maxUnavailable":{}},"f:type":{}},"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"#,
        r#""f:spec":{"f:containers":{"k:{\"name\":\"nginx\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"#,
        r#""f:name":{},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"#,
        r#""f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"#,
        r#""f:terminationGracePeriodSeconds":{}}}}}"#
    );
    assert_eq!(owned_by(&created(), "kubectl-create").to_json(), recorded);
    assert_eq!(created()["metadata"]["managedFields"][0]["fieldsV1"].to_string(), recorded);
}

#[test]
fn observed_by_its_controller() {
    let live = created();
    let mut new = live.clone();
    new["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    new["status"] =
        json!({"observedGeneration": 1, "conditions": [{"type": "Available", "status": "False"}]});
    track_update(Some(&live), &mut new, &write("kube-controller-manager", "status"), &Deployments);
    assert_eq!(
        owned_by(&new, "kube-controller-manager").to_json(),
        concat!(
            r#"{"f:metadata":{"f:annotations":{".":{},"f:deployment.kubernetes.io/revision":{}}},"#,
            r#""f:status":{"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:status":{},"f:type":{}}},"#,
            r#""f:observedGeneration":{}}}"#
        )
    );
}

#[test]
fn applied_to_by_two() {
    let config = |extra: Value| {
        let mut config = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "nginx", "namespace": "default"}});
        config["spec"] = extra;
        config
    };
    let live = created();
    let image = config(
        json!({"replicas": 3, "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:2"}]}}}),
    );
    let error = apply(Some(&live), &image, false, &write("ci", ""), &Deployments).unwrap_err();
    assert_eq!(
        error.to_string(),
        concat!(
            "Apply failed with 2 conflicts: conflicts with \"kubectl-create\" using apps/v1:\n",
            "- .spec.replicas\n- .spec.template.spec.containers[name=\"nginx\"].image"
        )
    );
    let taken = apply(Some(&live), &image, true, &write("ci", ""), &Deployments).unwrap().object;
    assert_eq!(taken["spec"]["replicas"], 3);
    assert_eq!(taken["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");

    // An autoscaler takes the replicas; the pipeline gives them up and they stay.
    let mut scaled = taken.clone();
    scaled["spec"]["replicas"] = json!(5);
    track_update(Some(&taken), &mut scaled, &write("autoscaler", "scale"), &Deployments);
    let image =
        config(json!({"template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:3"}]}}}));
    let kept = apply(Some(&scaled), &image, false, &write("ci", ""), &Deployments).unwrap().object;
    assert_eq!(kept["spec"]["replicas"], 5);
    assert_eq!(owned_by(&kept, "autoscaler").to_json(), r#"{"f:spec":{"f:replicas":{}}}"#);

    // A sidecar of another applier comes and goes alone.
    let sidecar =
        config(json!({"template": {"spec": {"containers": [{"name": "proxy", "image": "envoy"}]}}}));
    let both = apply(Some(&kept), &sidecar, false, &write("mesh", ""), &Deployments).unwrap().object;
    let names = |object: &Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        containers.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&both), ["nginx", "proxy"]);
    let none = config(json!({}));
    let one = apply(Some(&both), &none, false, &write("mesh", ""), &Deployments).unwrap().object;
    assert_eq!(names(&one), ["nginx"]);
}
