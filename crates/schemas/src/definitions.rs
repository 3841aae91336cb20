//! Many named definitions that refer to one another, as one arena: the built-in kinds.

use std::collections::HashMap;

use compact_str::CompactString;
use objects::GroupVersionKind;
use serde_json::Value;

use crate::build::{Builder, Dialect, Override, free_form, read_extension};
use crate::schema::{Cursor, Node, NodeId, Schema, Type};

/// Why definitions cannot become one arena.
#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum DefinitionsError {
    #[error("definition {name:?} refers to {reference:?}, which is not defined")]
    Dangling { name: String, reference: String },
    #[error("definition {name:?} is nothing but a reference to itself")]
    Circular { name: String },
}

/// Definitions by name and by kind. References may be recursive.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    schema: Schema,
    by_name: HashMap<CompactString, NodeId>,
    by_kind: HashMap<GroupVersionKind, NodeId>,
}

impl Definitions {
    /// Builds the arena. `$ref`s are followed by their last segment, so `#/definitions/NAME` and
    /// `#/components/schemas/NAME` name the same definition.
    pub fn parse(all: impl IntoIterator<Item = (String, Value)>) -> Result<Definitions, DefinitionsError> {
        let all: Vec<(String, Value)> = all.into_iter().collect();
        let by_name: HashMap<CompactString, NodeId> =
            all.iter().enumerate().map(|(i, (name, _))| (name.as_str().into(), NodeId(i as u32))).collect();

        let mut builder = Builder::new(Dialect::Builtin, |name| by_name.get(name).copied());
        // Each definition owns the node of its index, whatever equals it: it is what carries the name.
        builder.nodes = vec![Node::default(); all.len()];
        let mut aliases = Vec::new();
        for (i, (name, json)) in all.iter().enumerate() {
            let id = NodeId(i as u32);
            match builder.target_of(json) {
                Some(target) => aliases.push((id, target)),
                None => builder.nodes[i] = special(name).unwrap_or_else(|| builder.read(json)),
            }
            if let Some(reference) = builder.dangling.pop() {
                return Err(DefinitionsError::Dangling { name: name.clone(), reference });
            }
        }
        resolve_aliases(&mut builder.nodes, aliases, &all)?;
        let overrides = std::mem::take(&mut builder.overrides);
        let mut names: HashMap<NodeId, CompactString> =
            by_name.iter().map(|(name, id)| (*id, name.clone())).collect();
        for Override { node, target, siblings } in overrides {
            let mut merged = builder.nodes[target.0 as usize].clone();
            for (word, value) in siblings {
                read_extension(&mut merged, word, value);
            }
            builder.nodes[node.0 as usize] = merged;
            if let Some(name) = names.get(&target).cloned() {
                names.insert(node, name);
            }
        }
        let by_kind = all
            .iter()
            .enumerate()
            .flat_map(|(i, (_, json))| kinds(json).into_iter().map(move |kind| (kind, NodeId(i as u32))));
        let by_kind = by_kind.collect();
        let mut schema = builder.finish(NodeId(0));
        schema.names = names;
        Ok(Definitions { schema, by_name, by_kind })
    }

    /// The definition of a name such as `io.k8s.api.core.v1.Pod`.
    pub fn root(&self, name: &str) -> Option<Cursor<'_>> {
        self.by_name.get(name).map(|id| self.schema.at(*id))
    }

    /// The definition that says (`x-kubernetes-group-version-kind`) it is this kind, and no other.
    pub fn kind(&self, kind: &GroupVersionKind) -> Option<Cursor<'_>> {
        self.by_kind.get(kind).map(|id| self.schema.at(*id))
    }

    pub fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.by_kind.keys()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(CompactString::as_str)
    }

    /// The arena that holds them all.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

/// The kinds a definition serves as. One that serves as many (`DeleteOptions`, `WatchEvent`) is no kind of its own.
fn kinds(json: &Value) -> Vec<GroupVersionKind> {
    let said = json.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
    let [one] = said.map(Vec::as_slice).unwrap_or_default() else { return Vec::new() };
    let text = |word| one.get(word).and_then(Value::as_str).map(CompactString::from);
    let (Some(group), Some(version), Some(kind)) = (text("group"), text("version"), text("kind")) else {
        return Vec::new();
    };
    vec![GroupVersionKind { group, version, kind }]
}

/// Definitions whose Go types decode themselves, so that the published schema does not tell the truth.
fn special(name: &str) -> Option<Node> {
    let int_or_string = || Node { int_or_string: true, ..Node::default() };
    match name.rsplit('.').next()? {
        "Quantity" if name.ends_with("resource.Quantity") => Some(int_or_string()),
        "IntOrString" => Some(int_or_string()),
        "JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            Some(free_form(Type::Any))
        }
        // Any JSON, though it is published as an object.
        "RawExtension" => Some(free_form(Type::Any)),
        "FieldsV1" => Some(free_form(Type::Object)),
        _ => None,
    }
}

/// Definitions that are only another's name take its node's content, through as many names as it takes.
fn resolve_aliases(
    nodes: &mut [Node],
    aliases: Vec<(NodeId, NodeId)>,
    all: &[(String, Value)],
) -> Result<(), DefinitionsError> {
    let next: HashMap<NodeId, NodeId> = aliases.iter().copied().collect();
    for (alias, mut target) in aliases {
        let mut steps = 0;
        while let Some(further) = next.get(&target) {
            target = *further;
            steps += 1;
            if steps > next.len() {
                let name = all.get(alias.0 as usize).map(|(name, _)| name.clone()).unwrap_or_default();
                return Err(DefinitionsError::Circular { name });
            }
        }
        nodes[alias.0 as usize] = nodes[target.0 as usize].clone();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Additional, ListType, MapType};
    use serde_json::json;

    fn small() -> Definitions {
        let all = json!({
            "a.Pod": {"type": "object", "properties": {
                "spec": {"$ref": "#/definitions/a.Spec"},
                "strategy": {"$ref": "#/definitions/a.Spec", "x-kubernetes-patch-strategy": "retainKeys"},
                "wrapped": {"allOf": [{"$ref": "#/components/schemas/a.Spec"}], "description": "x"},
            }, "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}]},
            "a.Spec": {"type": ["object", "null"], "properties": {
                "self": {"$ref": "#/$defs/a.Spec"},
                "ports": {"type": "array", "items": {"$ref": "#/definitions/a.Port"},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "x-kubernetes-patch-merge-key": "port", "x-kubernetes-patch-strategy": "merge"},
                "selector": {"type": "object", "additionalProperties": {"type": "string"},
                    "x-kubernetes-map-type": "atomic"},
            }},
            "a.Port": {"type": "object", "properties": {
                "port": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
                "raw": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.runtime.RawExtension"},
                "empty": {"type": "object"},
            }},
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
            "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
            "a.Alias": {"$ref": "#/definitions/a.Spec"},
        });
        parse(all).unwrap()
    }

    fn parse(all: Value) -> Result<Definitions, DefinitionsError> {
        let Value::Object(all) = all else { panic!("not an object") };
        Definitions::parse(all)
    }

    #[test]
    fn references_recurse_and_keep_names() {
        let all = small();
        let spec = all.root("a.Pod").unwrap().field("spec").unwrap();
        assert_eq!(spec.definition(), Some("a.Spec"));
        assert_eq!(spec.field("self").unwrap().field("self").unwrap().id(), spec.id());
        assert_eq!(all.root("a.Pod").unwrap().field("wrapped").unwrap().id(), spec.id());
        assert_eq!(all.root("a.Alias").unwrap().node(), spec.node());
        let kind = GroupVersionKind { group: "".into(), version: "v1".into(), kind: "Pod".into() };
        assert_eq!(all.kind(&kind).unwrap().id(), all.root("a.Pod").unwrap().id());
        assert!(all.root("a.None").is_none());
    }

    #[test]
    fn words_beside_a_reference_override_it() {
        let all = small();
        let strategy = all.root("a.Pod").unwrap().field("strategy").unwrap();
        assert_eq!(strategy.node().patch_strategy.as_deref(), Some("retainKeys"));
        assert_eq!(strategy.definition(), Some("a.Spec"));
        assert!(strategy.field("ports").is_some());
        assert_eq!(all.root("a.Spec").unwrap().node().patch_strategy, None);
    }

    #[test]
    fn extensions_and_special_types() {
        let all = small();
        let spec = all.root("a.Spec").unwrap();
        let ports = spec.field("ports").unwrap();
        assert_eq!(ports.node().list_type, ListType::Map(vec!["port".into(), "protocol".into()]));
        assert_eq!(ports.node().patch_merge_key.as_deref(), Some("port"));
        assert_eq!(spec.field("selector").unwrap().node().map_type, MapType::Atomic);
        assert!(matches!(spec.field("selector").unwrap().node().additional, Additional::Schema(_)));
        let port = ports.items().unwrap();
        assert!(port.field("port").unwrap().node().int_or_string);
        assert!(port.field("raw").unwrap().is_free_form());
        assert!(port.field("empty").unwrap().is_free_form());
        assert!(!port.is_free_form());
    }

    #[test]
    fn equal_leaves_are_one_node() {
        let all = parse(json!({"a": {"type": "object", "properties": {
            "x": {"type": "string", "description": "one"}, "y": {"type": "string", "description": "two"},
        }}}));
        let all = all.unwrap();
        let root = all.root("a").unwrap();
        assert_eq!(root.field("x").unwrap().id(), root.field("y").unwrap().id());
    }

    #[test]
    fn what_cannot_be_resolved() {
        let dangling = parse(json!({"a": {"properties": {"b": {"$ref": "#/definitions/no"}}}}));
        let reference = "#/definitions/no".to_owned();
        assert_eq!(dangling.unwrap_err(), DefinitionsError::Dangling { name: "a".into(), reference });
        let circular = parse(json!({"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}));
        assert!(matches!(circular.unwrap_err(), DefinitionsError::Circular { .. }));
    }
}
