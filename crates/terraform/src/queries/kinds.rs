//! `Query`: which resources of a type exist.

use serde_json::{Value as Json, json};

use crate::definition::{self, GROUP};

pub const QUERY: &str = "Query";
pub const PLURAL: &str = "queries";
/// As the objects are stored.
pub const QUERIES: &str = "queries.terraform.hangar.dev";

/// How many resources are asked for, if a query does not say it; and at most.
pub const USUALLY: u64 = 100;
pub const MOST: u64 = 1_000;

pub fn definition() -> Json {
    let (of_type, complete) = (("Type", "string", ".spec.type"), ("Complete", "boolean", ".status.complete"));
    let columns = definition::columns([of_type, definition::PHASE, complete]);
    definition::definition(GROUP, QUERY, PLURAL, "Namespaced", &columns)
}

pub fn schema() -> Json {
    let text = |about: &str| json!({"type": "string", "description": about});
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let with = |mut schema: Json, about: &str| {
        schema["description"] = about.into();
        schema
    };
    let named = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let time = |about: &str| json!({"type": "string", "format": "date-time", "description": about});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": MOST, "default": USUALLY});
    let spec = json!({
        "type": "object",
        "required": ["provider", "type"],
        "properties": {
            "provider": {"type": "string", "minLength": 1, "description": "The name of the Provider."},
            "type": {"type": "string", "minLength": 1, "description": "The type of the resources."},
            "providerRef":
                with(named, "The Secret with the provider's configuration under the key \"provider\"."),
            "config": with(anything.clone(), "What the provider's list of the type is asked with."),
            "limit": with(limit, "How many resources are asked for."),
        },
    });
    let found = json!({
        "type": "object",
        "required": ["name", "identity"],
        "properties": {
            "name": text("What the provider calls it, for people."),
            "identity": with(anything, "What it can be taken over by, in the provider's names."),
            "object": text("The object of this namespace that has it already, as Kind/name."),
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "phase": {"type": "string"},
            "conditions": {"type": "array", "items": definition::condition()},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "found": {"type": "array", "items": found},
            "complete": {"type": "boolean", "description": "Whether these are all: the limit cut nothing off."},
            "askedTime": time("When the provider was asked."),
            "lastHandledReconcile": text("What the annotation hangar.dev/reconcile said then."),
        },
    });
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": spec, "status": status,
        },
    })
}
