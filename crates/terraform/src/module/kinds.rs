//! `Module` and `ModuleDefinition`, as Kubeform defines them, with what is ours beside it.

use serde_json::{Value as Json, json};

use crate::definition;

pub const GROUP: &str = "tf.kubeform.com";
pub const MODULE: &str = "Module";
pub const MODULES: &str = "modules.tf.kubeform.com";
pub const DEFINITIONS: &str = "moduledefinitions.tf.kubeform.com";
/// Kubeform's own, of module objects.
pub const FINALIZER: &str = "kfc.io";

/// A definition without its schema, and the schema.
pub struct Kind {
    pub definition: fn() -> Json,
    pub schema: fn() -> Json,
}

pub const KINDS: [Kind; 2] = [
    Kind { definition: module, schema: module_schema },
    Kind { definition: module_definition, schema: module_definition_schema },
];

fn module() -> Json {
    let columns = definition::columns([definition::PHASE]);
    definition::definition(GROUP, MODULE, "modules", "Namespaced", &columns)
}

fn module_definition() -> Json {
    let columns = json!([{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
    definition::definition(GROUP, "ModuleDefinition", "moduledefinitions", "Cluster", &columns)
}

fn text() -> Json {
    json!({"type": "string"})
}

fn anything() -> Json {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn named() -> Json {
    json!({"type": "object", "properties": {"name": text()}})
}

/// Where the files of a module are: Kubeform knows git.
fn module_ref() -> Json {
    let place = json!({"type": "object", "properties": {"name": text(), "namespace": text()}});
    let git = json!({
        "type": "object", "required": ["ref"],
        "properties": {"ref": text(), "checkOut": text(), "cred": place},
    });
    let archive = json!({
        "type": "object", "required": ["url", "sha256"],
        "properties": {"url": text(), "sha256": text(), "directory": text()},
    });
    json!({
        "type": "object",
        "properties": {"git": git, "directory": text(), "configMap": place, "archive": archive},
    })
}

fn whole(spec: Json) -> Json {
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "type": "object", "required": ["spec"],
        "properties": {
            "apiVersion": text(), "kind": text(), "metadata": {"type": "object"},
            "spec": spec, "status": status,
        },
    })
}

fn module_schema() -> Json {
    let resource = json!({"type": "object", "properties": {"input": anything(), "output": anything()}});
    whole(json!({
        "type": "object",
        "properties": {
            "moduleDef": text(), "moduleRef": module_ref(), "providerRef": named(), "secretRef": named(),
            "providerRefs": {"type": "object", "additionalProperties": named()},
            "resource": resource, "state": text(),
        },
    }))
}

fn module_definition_schema() -> Json {
    let provider = json!({"type": "object", "properties": {"name": text(), "source": text()}});
    whole(json!({
        "type": "object", "required": ["moduleRef"],
        "properties": {"schema": anything(), "moduleRef": module_ref(), "provider": provider},
    }))
}
