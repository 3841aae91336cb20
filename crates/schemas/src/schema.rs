//! The compiled schema: an arena of nodes, so that definitions may refer to themselves and are shared whole.

use std::collections::{BTreeMap, HashMap};

use compact_str::CompactString;
use serde_json::Value;

/// A node of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeId(pub u32);

/// `type` of a node; `Any` where the schema says none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// `x-kubernetes-list-type`
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// By these keys (`x-kubernetes-list-map-keys`).
    Map(Vec<CompactString>),
}

/// `x-kubernetes-map-type`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MapType {
    #[default]
    Granular,
    Atomic,
}

/// `additionalProperties`, or the lack of it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Additional {
    /// Unknown fields are dropped (or reported).
    #[default]
    None,
    /// `additionalProperties: true`, and free-form values
    Any,
    Schema(NodeId),
}

/// `x-kubernetes-validations`: one CEL rule, kept as written; `rules` compiles it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: String,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

/// The value validations of a node: what `validate` checks beyond the type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    pub format: Option<CompactString>,
    pub pattern: Option<String>,
    pub enumeration: Option<Vec<Value>>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    /// Value validations only; structural rules forbid them to introduce structure.
    pub all_of: Vec<NodeId>,
    pub any_of: Vec<NodeId>,
    pub one_of: Vec<NodeId>,
    pub not: Option<NodeId>,
}

/// One place in a schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub kind: Type,
    pub nullable: bool,
    pub properties: BTreeMap<CompactString, NodeId>,
    pub required: Vec<CompactString>,
    pub additional: Additional,
    pub items: Option<NodeId>,
    pub default: Option<Value>,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`
    pub int_or_string: bool,
    pub list_type: ListType,
    /// Whether the schema said the list type, or it is only the default.
    pub list_type_given: bool,
    pub map_type: MapType,
    /// `x-kubernetes-patch-merge-key`, for strategic merge patches of built-in kinds
    pub patch_merge_key: Option<CompactString>,
    /// `x-kubernetes-patch-strategy`: `merge`, `replace`, `retainKeys`, or several joined by commas
    pub patch_strategy: Option<CompactString>,
    /// Boxed: most nodes have none.
    pub constraints: Option<Box<Constraints>>,
    pub rules: Vec<Rule>,
}

/// A whole schema. Cheap to share, never changed once built.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    /// Nodes that are named definitions, such as `io.k8s.api.core.v1.PodSpec`; empty for most custom resources.
    pub(crate) names: HashMap<NodeId, CompactString>,
}

/// One node that says nothing: there is no schema without a root.
impl Default for Schema {
    fn default() -> Self {
        Schema { nodes: vec![Node::default()], root: NodeId(0), names: HashMap::new() }
    }
}

impl Schema {
    pub fn root(&self) -> Cursor<'_> {
        self.at(self.root)
    }

    pub fn at(&self, id: NodeId) -> Cursor<'_> {
        Cursor { schema: self, id }
    }

    /// How many nodes the arena holds: what it costs.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// A place in a schema, walked along with a value.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    schema: &'a Schema,
    id: NodeId,
}

impl<'a> Cursor<'a> {
    pub fn node(self) -> &'a Node {
        &self.schema.nodes[self.id.0 as usize]
    }

    pub fn id(self) -> NodeId {
        self.id
    }

    /// The schema of a named field: a property, or what `additionalProperties` says.
    pub fn field(self, name: &str) -> Option<Cursor<'a>> {
        let node = self.node();
        match node.properties.get(name) {
            Some(id) => Some(self.schema.at(*id)),
            None => match node.additional {
                Additional::Schema(id) => Some(self.schema.at(id)),
                _ => None,
            },
        }
    }

    pub fn items(self) -> Option<Cursor<'a>> {
        self.node().items.map(|id| self.schema.at(id))
    }

    /// Another node of the same schema.
    pub fn to(self, id: NodeId) -> Cursor<'a> {
        self.schema.at(id)
    }

    /// The schema this is a place in.
    pub fn schema(self) -> &'a Schema {
        self.schema
    }

    /// A named property only, never `additionalProperties`.
    pub fn property(self, name: &str) -> Option<Cursor<'a>> {
        self.node().properties.get(name).map(|id| self.schema.at(*id))
    }

    /// The name of the definition this node is, if it is one: `io.k8s.api.core.v1.PodSpec`.
    pub fn definition(self) -> Option<&'a str> {
        self.schema.names.get(&self.id).map(CompactString::as_str)
    }

    /// Whether anything may stand here and nothing inside is known.
    pub fn is_free_form(self) -> bool {
        let node = self.node();
        node.preserve_unknown
            && node.properties.is_empty()
            && !matches!(node.additional, Additional::Schema(_))
    }
}
