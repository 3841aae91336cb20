//! Custom resource definitions, derived from models and rules; equal to those that ACK publishes.
//!
//! [`definition`] makes a kind's whole CustomResourceDefinition. [`digest`](mod@digest) is the short form in
//! which definitions are compared with published ones.
//!
//! Not here: serving them. Descriptions are left out: the models come without documentation.

pub mod digest;
pub(crate) mod names;
mod schema;

use serde_json::{Value, json};

use crate::kinds::{Home, KindFacts, KindsError};
use crate::rules::vocabulary::{Column, KnownColumn};

#[cfg(test)]
use schema::IMMUTABLE_RULE;

/// The version of every kind.
pub const VERSION: &str = "v1alpha1";

/// The CustomResourceDefinition of a kind.
pub fn definition(kind: &KindFacts) -> Result<Value, KindsError> {
    let mut definition = outline(kind);
    definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": openapi_schema(kind)?});
    Ok(definition)
}

/// The same without its schema: what discovery needs. No model is read for it.
pub fn outline(kind: &KindFacts) -> Value {
    let mut version =
        json!({"name": VERSION, "served": true, "storage": true, "subresources": {"status": {}}});
    let columns: Vec<Value> = kind.rules.columns.iter().map(column).collect();
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = Value::Array(columns);
    }
    let mut named = json!({
        "kind": kind.kind,
        "listKind": format!("{}List", kind.kind),
        "plural": kind.plural,
        "singular": kind.kind.to_ascii_lowercase(),
    });
    if !kind.rules.short.is_empty() {
        named["shortNames"] = json!(kind.rules.short);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group())},
        "spec": {
            "group": kind.group(),
            "names": named,
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

/// The schema of a kind's only version.
pub fn openapi_schema(kind: &KindFacts) -> Result<Value, KindsError> {
    let plan = kind.plan()?;
    let schemas = schema::Schemas { overlay: plan.overlay() };
    let spec = schemas.of_home(plan.fields(), Home::Spec);
    let mut status = schemas.of_home(plan.fields(), Home::Status);
    schema::add_common_status(&mut status);
    Ok(json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }))
}

fn column(column: &Column) -> Value {
    let shown = |name: &str, path: &str, kind: &str| json!({"name": name, "jsonPath": path, "type": kind});
    match column {
        Column::Known(KnownColumn::Synced) => {
            shown("Synced", r#".status.conditions[?(@.type=="ACK.ResourceSynced")].status"#, "string")
        }
        Column::Known(KnownColumn::Age) => shown("Age", ".metadata.creationTimestamp", "date"),
        Column::Shown(name, path, kind) => shown(name, path, kind),
        Column::Ranked(name, path, kind, priority) => {
            let mut column = shown(name, path, kind);
            column["priority"] = json!(priority);
            column
        }
    }
}

#[cfg(test)]
mod tests;
