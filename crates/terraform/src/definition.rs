//! Definitions of kinds, made from a provider's schemas as Kubeform's are: the same group, names and shape.
//!
//! A definition and its schema are apart: all tenants share the rows, and a schema is made only when an object of the
//! kind is met.

use kube::api::ApiResource;
use serde_json::{Map, Value as Json, json};

use crate::names::{API_VERSION, FieldNames, KindName};
use crate::schema::{Block, Member, Nested, Nesting, Schema, Shape};
use crate::shape::{TIMEOUTS, TIMES, is_timeouts, names};
use crate::value::Type;

/// The group of the kinds that are not any provider's.
pub const GROUP: &str = "terraform.hangar.dev";
/// One kind for all types, for those who want no kind per type.
pub const GENERIC_KIND: &str = "Resource";
pub const GENERIC_PLURAL: &str = "resources";

/// Some providers have pages of documentation in their schemas.
const LONGEST_DESCRIPTION: usize = 1_000;

/// A `CustomResourceDefinition` without schemas.
pub fn of_type(kind: &KindName) -> Json {
    definition(&kind.group, &kind.kind, &kind.plural, "Namespaced", &columns([PHASE]))
}

pub fn generic() -> Json {
    let columns = columns([("Type", "string", ".spec.type"), PHASE]);
    definition(GROUP, GENERIC_KIND, GENERIC_PLURAL, "Namespaced", &columns)
}

/// Kubeform's column.
pub(crate) const PHASE: (&str, &str, &str) = ("Phase", "string", ".status.phase");

/// Columns of a table, before the age; and for those who ask for more, what is said of the object.
pub(crate) fn columns<const N: usize>(own: [(&str, &str, &str); N]) -> Json {
    let age = ("Age", "date", ".metadata.creationTimestamp");
    let mut all: Vec<Json> = own
        .into_iter()
        .chain([age])
        .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}))
        .collect();
    let path = ".status.conditions[?(@.type=='Ready')].message";
    all.push(json!({"name": "Message", "type": "string", "priority": 1, "jsonPath": path}));
    Json::Array(all)
}

/// The schema of a condition.
pub(crate) fn condition() -> Json {
    json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"},
            "message": {"type": "string"}, "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
    })
}

/// How objects of a kind are asked for.
pub(crate) fn api_resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: API_VERSION.into(),
        api_version: format!("{group}/{API_VERSION}"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

pub(crate) fn definition(group: &str, kind: &str, plural: &str, scope: &str, columns: &Json) -> Json {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_ascii_lowercase(),
            },
            "versions": [{
                "name": API_VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

/// The `openAPIV3Schema` of a type's kind.
pub fn schema_of_type(schema: &Schema) -> Json {
    let mut resource = block(&schema.block, true, true);
    // Whoever takes over an object has its id here, whatever the provider says about it; and times are for us, too.
    resource["properties"]["id"] = json!({"type": "string"});
    if resource["properties"].get(TIMEOUTS).is_none() {
        resource["properties"][TIMEOUTS] = times(TIMES);
    }
    let required = resource.as_object_mut().and_then(|fields| fields.remove("required"));
    let mut schema = whole(Map::from_iter([("resource".to_owned(), resource)]), &["resource"]);
    if let Some(required) = required {
        // What is required can be left to what is there already, or come from other objects; the provider says then what
        // is missing.
        let with = |fields: Json| json!({"properties": {"resource": {"required": fields}}});
        schema["properties"]["spec"]["anyOf"] =
            json!([with(required), with(json!(["id"])), {"required": ["references"]}]);
    }
    schema
}

/// The same for the kind of all types; the provider's schema is checked when the object is looked at.
pub fn generic_schema() -> Json {
    let own = Map::from_iter([
        ("provider".to_owned(), json!({"type": "string", "minLength": 1})),
        ("type".to_owned(), json!({"type": "string", "minLength": 1})),
        ("resource".to_owned(), anything()),
    ]);
    whole(own, &["provider", "type", "resource"])
}

fn anything() -> Json {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn whole(own: Map<String, Json>, required: &[&str]) -> Json {
    let reference = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let mut spec = Map::new();
    let own_fields = [
        (
            "state",
            anything(),
            "What is there, as it was last seen, without what is secret. Written by the controller.",
        ),
        (
            "providerRef",
            reference.clone(),
            "The Secret with the provider's configuration under the key \"provider\".",
        ),
        ("secretRef", reference.clone(), "The Secret with what is sensitive of the resource."),
        ("backendRef", reference, "The Secret that says where the state is kept, if not here."),
        ("references", crate::driver::referring::schema(), "Values that come from other objects."),
        ("outputs", crate::driver::outputs::schema(), "Values that go to Secrets and ConfigMaps."),
        (
            "terminationPolicy",
            json!({"type": "string", "enum": ["", "Delete", "DoNotTerminate"]}),
            "Whether the object, and with it the resource, may be deleted.",
        ),
        (
            "updatePolicy",
            json!({"type": "string", "enum": ["", "Destroy", "DoNotDestroy"]}),
            "Whether the resource may be replaced where it cannot be changed.",
        ),
    ];
    for (field, mut schema, text) in own_fields {
        describe(&mut schema, text);
        spec.insert(field.to_owned(), schema);
    }
    spec.extend(own);
    json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": spec, "required": required},
            "status": {
                "type": "object",
                "properties": {
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "phase": {"type": "string"},
                    "conditions": {"type": "array", "items": condition()},
                },
            },
        },
        "required": ["spec"],
    })
}

fn block(of: &Block, top: bool, with_required: bool) -> Json {
    let names = names(of, top);
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, member) in &of.members {
        // What is secret is in a Secret.
        if member.is_secret() {
            continue;
        }
        let field = names.field(name).unwrap_or(name).to_owned();
        if member.required && with_required && !member.computed {
            required.push(field.clone());
        }
        let mut schema = if is_timeouts(name, member, top) { timeouts(member) } else { shape(&member.shape) };
        let deprecated = if member.deprecated { "Deprecated. " } else { "" };
        describe(&mut schema, &format!("{deprecated}{}", member.description));
        properties.insert(field, schema);
    }
    let mut json = json!({"type": "object", "properties": properties});
    describe(&mut json, &of.description);
    if !required.is_empty() {
        json["required"] = json!(required);
    }
    json
}

/// What the provider says of it, for `kubectl explain`.
fn describe(schema: &mut Json, text: &str) {
    let text = text.trim();
    if !text.is_empty() {
        schema["description"] = text.chars().take(LONGEST_DESCRIPTION).collect::<String>().into();
    }
}

fn shape(of: &Shape) -> Json {
    match of {
        Shape::Plain(ty) => plain(ty),
        Shape::Nested(nested) => nested_schema(nested),
    }
}

fn nested_schema(nested: &Nested) -> Json {
    let inner = block(&nested.block, false, true);
    match nested.nesting {
        Nesting::Map => json!({"type": "object", "additionalProperties": inner}),
        _ if nested.is_one() => inner,
        _ => {
            let mut list = json!({"type": "array", "items": inner});
            if nested.min_items > 0 {
                list["minItems"] = nested.min_items.into();
            }
            if nested.max_items > 0 {
                list["maxItems"] = nested.max_items.into();
            }
            list
        }
    }
}

fn plain(ty: &Type) -> Json {
    match ty {
        Type::String => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Number => json!({"type": "number"}),
        Type::Dynamic => json!({"x-kubernetes-preserve-unknown-fields": true}),
        Type::List(element) | Type::Set(element) => json!({"type": "array", "items": plain(element)}),
        Type::Map(element) => json!({"type": "object", "additionalProperties": plain(element)}),
        Type::Tuple(_) => json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}}),
        Type::Object { attributes, .. } => {
            let names = FieldNames::new(attributes.keys(), false);
            let properties =
                attributes.iter().map(|(name, ty)| (names.field(name).unwrap_or(name).to_owned(), plain(ty)));
            json!({"type": "object", "properties": properties.collect::<Map<_, _>>()})
        }
    }
}

/// Nanoseconds, as Kubeform has them.
fn timeouts(member: &Member) -> Json {
    let Shape::Nested(nested) = &member.shape else { return shape(&member.shape) };
    times(nested.block.members.keys().map(String::as_str))
}

fn times<'a>(names: impl IntoIterator<Item = &'a str>) -> Json {
    let nanoseconds = |name: &str| (name.to_owned(), json!({"type": "integer", "format": "int64"}));
    json!({"type": "object", "properties": names.into_iter().map(nanoseconds).collect::<Map<_, _>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::tests::thing;

    #[test]
    fn a_kind() {
        let definition = of_type(&KindName::of_type("linode_instance_ip"));
        assert_eq!(definition["metadata"]["name"], "ips.instance.linode.kubeform.com");
        let schema = schema_of_type(&thing());
        let resource = &schema["properties"]["spec"]["properties"]["resource"];
        let fields: Vec<&String> = resource["properties"].as_object().unwrap().keys().collect();
        assert_eq!(
            fields,
            [
                "disk",
                "door",
                "extra",
                "gate",
                "id",
                "name",
                "network",
                "note",
                "on",
                "owner",
                "rule",
                "size",
                "subnetIDS",
                "tags",
                "timeouts"
            ]
        );
        let enough = &schema["properties"]["spec"]["anyOf"];
        assert_eq!(enough[0], json!({"properties": {"resource": {"required": ["name"]}}}));
        assert_eq!(enough[2], json!({"required": ["references"]}));
        assert_eq!(resource["properties"]["network"]["properties"]["subnet"]["type"], "string");
        assert_eq!(resource["properties"]["rule"]["items"]["required"], json!(["port"]));
        let disk = &resource["properties"]["disk"]["items"]["properties"];
        assert_eq!(disk["diskID"], json!({"type": "string"}));
        assert_eq!(resource["properties"]["owner"]["properties"], json!({"userID": {"type": "string"}}));
        let create = &resource["properties"]["timeouts"]["properties"]["create"];
        assert_eq!(create["type"], "integer");
        // Of every kind, also where the provider knows of none.
        let schema = schema_of_type(&Schema::empty());
        let times = &schema["properties"]["spec"]["properties"]["resource"]["properties"]["timeouts"];
        assert_eq!(times["properties"]["default"]["type"], "integer");
    }
}
