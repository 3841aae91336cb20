//! From the JSON of a schema to nodes of an arena, equal nodes once.
//!
//! Descriptions, titles and examples are left behind, so that most leaves of a schema (`type: string`) become
//! the same node.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use compact_str::CompactString;
use serde_json::{Map, Value};

use crate::schema::{Additional, Constraints, ListType, MapType, Node, NodeId, Rule, Schema, Type};

/// Which words the JSON may use, and what they mean where the two worlds differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `openAPIV3Schema` of a custom resource definition
    Custom,
    /// A published definition of a built-in kind. Objects without properties are free form, and null stands
    /// for absence, as it does when Go decodes into a struct.
    Builtin,
}

type Resolve<'a> = Box<dyn Fn(&str) -> Option<NodeId> + 'a>;

/// Nodes under construction.
pub(crate) struct Builder<'a> {
    dialect: Dialect,
    pub nodes: Vec<Node>,
    /// Candidates by fingerprint; equality decides.
    known: HashMap<u64, Vec<NodeId>>,
    /// The target of a `$ref`, if the dialect has any.
    resolve: Resolve<'a>,
    /// References with siblings: the node is the target with some of its words replaced, once the target is known.
    pub overrides: Vec<Override<'a>>,
    /// References that lead nowhere.
    pub dangling: Vec<String>,
}

pub(crate) struct Override<'a> {
    pub node: NodeId,
    pub target: NodeId,
    pub siblings: &'a Map<String, Value>,
}

impl<'a> Builder<'a> {
    pub fn new(dialect: Dialect, resolve: impl Fn(&str) -> Option<NodeId> + 'a) -> Self {
        Builder {
            dialect,
            nodes: Vec::new(),
            known: HashMap::new(),
            resolve: Box::new(resolve),
            overrides: Vec::new(),
            dangling: Vec::new(),
        }
    }

    /// The node that a schema in JSON says.
    pub fn node_of(&mut self, json: &'a Value) -> NodeId {
        if let Some(target) = self.reference(json) {
            return target;
        }
        let node = self.read(json);
        self.intern(node)
    }

    /// Adds a node, or finds its equal.
    pub fn intern(&mut self, node: Node) -> NodeId {
        let candidates = self.known.entry(fingerprint(&node)).or_default();
        if let Some(id) = candidates.iter().find(|id| self.nodes.get(id.0 as usize) == Some(&node)) {
            return *id;
        }
        let id = NodeId(self.nodes.len() as u32);
        candidates.push(id);
        self.nodes.push(node);
        id
    }

    pub fn finish(self, root: NodeId) -> Schema {
        let mut nodes = self.nodes;
        nodes.shrink_to_fit();
        Schema { nodes, root, names: HashMap::new() }
    }

    /// The target of a `$ref`, bare, with siblings, or wrapped in a lone `allOf` as OpenAPI v3 wraps it.
    pub fn target_of(&mut self, json: &'a Value) -> Option<NodeId> {
        if self.dialect == Dialect::Custom {
            return None;
        }
        let text = match (json.get("$ref"), json.get("allOf").and_then(Value::as_array)) {
            (Some(reference), _) => reference.as_str()?,
            (None, Some(clauses)) if clauses.len() == 1 => clauses.first()?.get("$ref")?.as_str()?,
            _ => return None,
        };
        let target = (self.resolve)(text.rsplit('/').next().unwrap_or(text));
        if target.is_none() {
            self.dangling.push(text.to_owned());
        }
        target
    }

    fn reference(&mut self, json: &'a Value) -> Option<NodeId> {
        let target = self.target_of(json)?;
        let siblings = json.as_object()?;
        if !siblings.keys().any(|word| OVERRIDING.contains(&word.as_str())) {
            return Some(target);
        }
        let node = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node::default());
        self.overrides.push(Override { node, target, siblings });
        Some(node)
    }

    /// Reads one schema and, through it, its parts. Words of the wrong JSON type are as good as absent: a
    /// definition that has them was refused when it was decoded.
    pub fn read(&mut self, json: &'a Value) -> Node {
        let mut node = Node::default();
        let mut limits = Constraints::default();
        let mut list_type = None;
        let mut map_keys: Vec<CompactString> = Vec::new();
        let Some(words) = json.as_object() else { return node };
        for (word, value) in words {
            match word.as_str() {
                "type" => self.read_type(&mut node, value),
                "nullable" => node.nullable = value.as_bool().unwrap_or(false),
                "properties" => {
                    for (name, property) in value.as_object().into_iter().flatten() {
                        let id = self.node_of(property);
                        node.properties.insert(name.as_str().into(), id);
                    }
                }
                "required" => node.required = strings(value),
                "additionalProperties" => {
                    node.additional = match value {
                        Value::Bool(true) => Additional::Any,
                        Value::Object(_) => Additional::Schema(self.node_of(value)),
                        _ => Additional::None,
                    }
                }
                "items" if value.is_object() => node.items = Some(self.node_of(value)),
                "default" if !value.is_null() => node.default = Some(value.clone()),
                "x-kubernetes-preserve-unknown-fields" => node.preserve_unknown = value == &Value::Bool(true),
                "x-kubernetes-embedded-resource" => node.embedded_resource = value == &Value::Bool(true),
                "x-kubernetes-int-or-string" => node.int_or_string = value == &Value::Bool(true),
                "x-kubernetes-list-type" => list_type = value.as_str(),
                "x-kubernetes-list-map-keys" => map_keys = strings(value),
                "x-kubernetes-validations" => node.rules = rules(value),
                "allOf" => limits.all_of = self.clauses(value),
                "anyOf" => limits.any_of = self.clauses(value),
                "oneOf" => limits.one_of = self.clauses(value),
                "not" if value.is_object() => limits.not = Some(self.node_of(value)),
                _ => {
                    read_extension(&mut node, word, value);
                    read_limit(&mut limits, word, value);
                }
            }
        }
        node.list_type_given = list_type.is_some();
        node.list_type = match list_type {
            Some("map") => ListType::Map(map_keys),
            Some("set") => ListType::Set,
            _ => ListType::Atomic,
        };
        if limits != Constraints::default() {
            node.constraints = Some(Box::new(limits));
        }
        self.as_builtin(&mut node);
        node
    }

    fn read_type(&mut self, node: &mut Node, value: &Value) {
        let names = match value {
            Value::Array(several) => several.as_slice(),
            one => std::slice::from_ref(one),
        };
        for name in names.iter().filter_map(Value::as_str) {
            match name {
                "object" => node.kind = Type::Object,
                "array" => node.kind = Type::Array,
                "string" => node.kind = Type::String,
                "integer" => node.kind = Type::Integer,
                "number" => node.kind = Type::Number,
                "boolean" => node.kind = Type::Boolean,
                "null" => node.nullable = true,
                _ => {}
            }
        }
    }

    fn clauses(&mut self, value: &'a Value) -> Vec<NodeId> {
        value.as_array().into_iter().flatten().map(|clause| self.node_of(clause)).collect()
    }

    fn as_builtin(&self, node: &mut Node) {
        if self.dialect != Dialect::Builtin {
            return;
        }
        node.nullable = false;
        // OpenAPI v3 publishes Go's zero values as defaults; they are only what absence decodes to.
        if node.default.as_ref().is_some_and(is_zero) {
            node.default = None;
        }
        let shapeless = node.properties.is_empty() && node.additional == Additional::None;
        if matches!(node.kind, Type::Any | Type::Object) && shapeless && !node.int_or_string {
            node.preserve_unknown = true;
            node.additional = Additional::Any;
        }
    }
}

/// What a reference may say beside its target that changes how values are treated.
const OVERRIDING: [&str; 3] =
    ["x-kubernetes-map-type", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"];

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// A place where anything may stand.
pub(crate) fn free_form(kind: Type) -> Node {
    Node { kind, preserve_unknown: true, additional: Additional::Any, ..Node::default() }
}

/// The words that stand for themselves: no children, no interplay with other words.
pub(crate) fn read_extension(node: &mut Node, word: &str, value: &Value) {
    let text = || value.as_str().map(CompactString::from);
    match word {
        "x-kubernetes-map-type" => {
            let atomic = value.as_str() == Some("atomic");
            node.map_type = if atomic { MapType::Atomic } else { MapType::Granular };
        }
        "x-kubernetes-patch-merge-key" => node.patch_merge_key = text(),
        "x-kubernetes-patch-strategy" => node.patch_strategy = text(),
        _ => {}
    }
}

fn read_limit(limits: &mut Constraints, word: &str, value: &Value) {
    match word {
        "format" => limits.format = value.as_str().filter(|text| !text.is_empty()).map(CompactString::from),
        "pattern" => limits.pattern = value.as_str().filter(|text| !text.is_empty()).map(str::to_owned),
        "enum" => limits.enumeration = value.as_array().filter(|all| !all.is_empty()).cloned(),
        "minimum" => limits.minimum = value.as_f64(),
        "exclusiveMinimum" => limits.exclusive_minimum = value == &Value::Bool(true),
        "maximum" => limits.maximum = value.as_f64(),
        "exclusiveMaximum" => limits.exclusive_maximum = value == &Value::Bool(true),
        "multipleOf" => limits.multiple_of = value.as_f64(),
        "minLength" => limits.min_length = count(value),
        "maxLength" => limits.max_length = count(value),
        "minItems" => limits.min_items = count(value),
        "maxItems" => limits.max_items = count(value),
        "uniqueItems" => limits.unique_items = value == &Value::Bool(true),
        "minProperties" => limits.min_properties = count(value),
        "maxProperties" => limits.max_properties = count(value),
        _ => {}
    }
}

/// A limit on a count. A negative one says nothing as a minimum and refuses all as a maximum; both come out
/// right as zero, since no count is below it.
fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().map(|number| number.max(0.0) as u64))
}

fn strings(value: &Value) -> Vec<CompactString> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(CompactString::from).collect()
}

fn rules(value: &Value) -> Vec<Rule> {
    let text = |rule: &Value, word: &str| rule.get(word).and_then(Value::as_str).unwrap_or("").to_owned();
    let read = |rule: &Value| Rule {
        rule: text(rule, "rule"),
        message: text(rule, "message"),
        message_expression: text(rule, "messageExpression"),
        reason: text(rule, "reason"),
        field_path: text(rule, "fieldPath"),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    };
    value.as_array().into_iter().flatten().map(read).collect()
}

/// Equal nodes have equal fingerprints; it looks at enough to make the reverse likely.
fn fingerprint(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    (node.kind as u8, node.nullable, node.preserve_unknown, node.embedded_resource, node.int_or_string)
        .hash(&mut hasher);
    node.properties.hash(&mut hasher);
    node.required.hash(&mut hasher);
    node.items.hash(&mut hasher);
    if let Additional::Schema(id) = node.additional {
        id.hash(&mut hasher);
    }
    node.default.hash(&mut hasher);
    node.list_type_given.hash(&mut hasher);
    node.patch_strategy.hash(&mut hasher);
    if let Some(limits) = &node.constraints {
        limits.format.hash(&mut hasher);
        limits.pattern.hash(&mut hasher);
        limits.enumeration.hash(&mut hasher);
        (limits.min_length, limits.max_length, limits.max_items).hash(&mut hasher);
        (limits.minimum.map(f64::to_bits), limits.maximum.map(f64::to_bits)).hash(&mut hasher);
        (&limits.all_of, &limits.any_of, &limits.one_of, limits.not).hash(&mut hasher);
    }
    hasher.finish()
}
