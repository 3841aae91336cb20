//! The definitions of the kinds that are not of any service: `FieldExport` and `IAMRoleSelector`.

use objects::Value;
use serde_json::json;

const GROUP: &str = "services.k8s.aws";

fn text() -> Value {
    json!({"type": "string"})
}

fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn labels() -> Value {
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    object(json!({"matchLabels": map}), &["matchLabels"])
}

fn conditions() -> Value {
    let mut condition = object(
        json!({"type": text(), "status": text(), "reason": text(), "message": text(), "lastTransitionTime": text()}),
        &["status", "type"],
    );
    condition["properties"]["lastTransitionTime"]["format"] = "date-time".into();
    object(json!({"conditions": {"type": "array", "items": condition}}), &[])
}

fn definition(kind: &str, plural: &str, scope: &str, spec: Value, columns: Value) -> Value {
    let schema = object(
        json!({"apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, "spec": spec, "status": conditions()}),
        &[],
    );
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": scope,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": columns,
            }],
        },
    })
}

/// Copies a field of a resource into a ConfigMap or a Secret.
pub fn field_export() -> Value {
    let resource =
        object(json!({"group": text(), "kind": text(), "name": text()}), &["group", "kind", "name"]);
    let from = object(json!({"path": text(), "resource": resource}), &["path", "resource"]);
    let kind = json!({"type": "string", "enum": ["configmap", "secret"]});
    let to =
        object(json!({"name": text(), "kind": kind, "namespace": text(), "key": text()}), &["kind", "name"]);
    definition(
        "FieldExport",
        "fieldexports",
        "Namespaced",
        object(json!({"from": from, "to": to}), &["from", "to"]),
        json!([]),
    )
}

/// Chooses the role that calls for some objects are made with.
pub fn iam_role_selector() -> Value {
    let arn = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "Value is immutable once set"},
    ]});
    let names = json!({"type": "array", "items": {"type": "string"}});
    let namespaces = object(json!({"names": names, "labelSelector": labels()}), &[]);
    let types = object(json!({"group": text(), "version": text(), "kind": text()}), &[]);
    let spec = object(
        json!({
            "arn": arn, "namespaceSelector": namespaces, "resourceLabelSelector": labels(),
            "resourceTypeSelector": {"type": "array", "items": types},
        }),
        &["arn"],
    );
    let columns = json!([{"name": "ARN", "type": "string", "jsonPath": ".spec.arn"}]);
    definition("IAMRoleSelector", "iamroleselectors", "Cluster", spec, columns)
}

/// All of them.
pub fn all() -> [Value; 2] {
    [field_export(), iam_role_selector()]
}
