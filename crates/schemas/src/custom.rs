//! The schema of one version of a custom resource.

use objects::ErrorList;
use objects::field::{Error, Path};
use serde_json::Value;

use crate::build::{Builder, Dialect};
use crate::object_meta::OBJECT_META;
use crate::schema::{Node, NodeId, Schema, Type};

impl Schema {
    /// Reads the `openAPIV3Schema` of a version. Its root, and every embedded resource in it, comes out with
    /// `apiVersion`, `kind` and `metadata` among its properties whether it named them or not, and marked as
    /// [`Node::embedded_resource`].
    ///
    /// Fails only for words that no structural schema has (`$ref`, a list of `items`, ...); whether the rest is
    /// structural is [`structural::check`](crate::structural::check)'s question.
    pub fn from_crd(open_api_v3_schema: &Value) -> Result<Schema, ErrorList> {
        let mut errors = ErrorList::new();
        refuse_unsupported(open_api_v3_schema, &Path::new("openAPIV3Schema"), &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut builder = Builder::new(Dialect::Custom, |_| None);
        let metadata = builder.node_of(&OBJECT_META);
        let mut root = builder.read(open_api_v3_schema);
        root.embedded_resource = true;
        for i in 0..builder.nodes.len() {
            if builder.nodes[i].embedded_resource {
                let mut node = std::mem::take(&mut builder.nodes[i]);
                add_implicit_fields(&mut builder, &mut node, metadata);
                builder.nodes[i] = node;
            }
        }
        add_implicit_fields(&mut builder, &mut root, metadata);
        let root = builder.intern(root);
        let mut schema = builder.finish(root);
        schema.names.insert(metadata, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".into());
        Ok(schema)
    }

    /// The schema of a version that keeps whatever it is given.
    pub fn free_form() -> Schema {
        let anything = serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Schema::from_crd(&anything).unwrap_or_default()
    }
}

fn add_implicit_fields(builder: &mut Builder<'_>, resource: &mut Node, metadata: NodeId) {
    for name in ["apiVersion", "kind"] {
        let text = builder.intern(Node { kind: Type::String, ..Node::default() });
        resource.properties.entry(name.into()).or_insert(text);
    }
    let said = resource.properties.get("metadata").and_then(|id| builder.nodes.get(id.0 as usize)).cloned();
    let metadata = match said {
        None => metadata,
        // What the schema says of the name narrows it; it cannot say anything else of metadata.
        Some(mut said) => {
            let Some(implicit) = builder.nodes.get(metadata.0 as usize) else { return };
            for (name, id) in &implicit.properties {
                said.properties.entry(name.clone()).or_insert(*id);
            }
            said.kind = Type::Object;
            builder.intern(said)
        }
    };
    resource.properties.insert("metadata".into(), metadata);
}

/// JSON Schema has these; structural schemas do not.
const UNSUPPORTED: [&str; 7] =
    ["id", "schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];

fn refuse_unsupported(json: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(words) = json.as_object() else { return };
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    for word in UNSUPPORTED {
        if words.get(word).is_some_and(is_set) {
            errors.push(Error::forbidden(&path.child(word), format!("{word} is not supported")));
        }
    }
    for (word, value) in words {
        match (word.as_str(), value) {
            ("items", Value::Array(_)) => {
                errors.push(Error::forbidden(
                    &path.child("items"),
                    "items must be a schema object and not an array",
                ));
            }
            ("items" | "additionalProperties" | "not", _) => {
                refuse_unsupported(value, &path.child(word), errors);
            }
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    refuse_unsupported(property, &path.child("properties").key(name), errors);
                }
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(clauses)) => {
                for (i, clause) in clauses.iter().enumerate() {
                    refuse_unsupported(clause, &path.child(word).index(i), errors);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_root_and_embedded_resources_have_implicit_fields() {
        let schema = Schema::from_crd(&json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
        }}));
        let schema = schema.unwrap();
        let root = schema.root();
        let metadata = root.field("metadata").unwrap();
        let name = metadata.field("name").unwrap().node();
        assert_eq!(name.constraints.as_ref().unwrap().max_length, Some(3));
        assert_eq!(metadata.field("labels").unwrap().field("any").unwrap().node().kind, Type::String);
        let embedded = root.field("template").unwrap();
        assert_eq!(embedded.field("kind").unwrap().node().kind, Type::String);
        assert!(embedded.field("metadata").unwrap().field("ownerReferences").is_some());
        assert_eq!(embedded.field("metadata").unwrap().field("name").unwrap().node().constraints, None);
    }

    #[test]
    fn unsupported_words_are_refused_with_their_path() {
        let refused = Schema::from_crd(&json!({"type": "object", "properties": {
            "a": {"type": "array", "items": [{"type": "string"}]},
            "b": {"$ref": "#/x"},
        }}));
        let fields: Vec<String> = refused.unwrap_err().into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["openAPIV3Schema.properties[a].items", "openAPIV3Schema.properties[b].$ref"]);
    }

    #[test]
    fn free_form_keeps_anything() {
        assert!(Schema::free_form().root().node().preserve_unknown);
    }
}
