//! What a schema says about one place, in the terms of server-side apply: map, list or scalar, whole or granular.
//!
//! Mirrors how kube-openapi's `schemaconv` reads a schema: a list says its type, or else its patch strategy
//! does; what the schema leaves open is deduced from the value, with granular maps and atomic lists. The
//! metadata of an object is known here, because the schemas of custom resources do not describe it.

use std::cmp::Ordering;

use compact_str::CompactString;
use schemas::{Additional, Cursor, ListType, MapType, Node, Type};
use serde_json::Value;

use crate::element::PathElement;
use crate::values;

/// A place in the type of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'s> {
    /// The object itself, with what its schema says, if there is one.
    Root(Option<Cursor<'s>>),
    Node(Cursor<'s>),
    /// Nothing is known: the value tells.
    Deduced,
    ObjectMeta,
    Labels,
    Finalizers,
    OwnerReferences,
    OwnerReference,
    /// An atomic list, such as `managedFields`.
    Whole,
    Scalar(Scalar),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Untyped,
    Text,
    Numeric,
    Boolean,
}

/// How a value at a place is treated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'s> {
    Map { atomic: bool },
    List(Items<'s>),
    Scalar(Scalar),
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Items<'s> {
    Atomic,
    Set,
    Keyed(&'s [CompactString]),
}

/// How a map knows one of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A property: it exists with its parent, and only what is below it is owned.
    Declared,
    /// An entry of a map: owned for itself.
    Entry,
    /// The schema does not allow it.
    Unknown,
}

static OWNER_KEYS: [CompactString; 1] = [CompactString::const_new("uid")];

impl<'s> Place<'s> {
    /// The shapes this place admits, in the order in which a value that fits none is taken for one.
    fn shapes(self) -> [Option<Shape<'s>>; 3] {
        const GRANULAR: Option<Shape<'static>> = Some(Shape::Map { atomic: false });
        const ATOMIC_LIST: Option<Shape<'static>> = Some(Shape::List(Items::Atomic));
        match self {
            Place::Root(_) | Place::ObjectMeta | Place::Labels => [GRANULAR, None, None],
            Place::Node(cursor) => node_shapes(cursor.node()),
            Place::Deduced => [GRANULAR, Some(Shape::Scalar(Scalar::Untyped)), ATOMIC_LIST],
            Place::Finalizers => [Some(Shape::List(Items::Set)), None, None],
            Place::OwnerReferences => [Some(Shape::List(Items::Keyed(&OWNER_KEYS))), None, None],
            Place::OwnerReference => [Some(Shape::Map { atomic: true }), None, None],
            Place::Whole => [ATOMIC_LIST, None, None],
            Place::Scalar(scalar) => [Some(Shape::Scalar(scalar)), None, None],
        }
    }

    /// The shape of a value here; where it fits none, the first that the place admits.
    pub fn resolve(self, value: &Value) -> Shape<'s> {
        let shapes = self.shapes();
        let fitting = shapes.iter().flatten().find(|shape| match shape {
            Shape::Map { .. } => value.is_object(),
            Shape::List(_) => value.is_array(),
            Shape::Scalar(_) => value.is_string() || value.is_number() || value.is_boolean(),
        });
        match fitting.or(shapes[0].as_ref()) {
            Some(shape) => *shape,
            None => Shape::Scalar(Scalar::Untyped),
        }
    }

    /// The one shape of this place, unless the value decides.
    pub fn only_shape(self) -> Option<Shape<'s>> {
        match self.shapes() {
            [Some(shape), None, None] => Some(shape),
            _ => None,
        }
    }

    /// The place of a named field, and how it is known.
    pub fn field(self, name: &str) -> (Place<'s>, Known) {
        match self {
            Place::Root(cursor) => match name {
                "metadata" => (Place::ObjectMeta, Known::Declared),
                "apiVersion" | "kind" => (Place::Scalar(Scalar::Text), Known::Declared),
                _ => cursor.map_or((Place::Deduced, Known::Entry), |cursor| node_field(cursor, name)),
            },
            Place::Node(cursor) if cursor.node().embedded_resource => match name {
                "metadata" => (Place::ObjectMeta, Known::Declared),
                "apiVersion" | "kind" => (Place::Scalar(Scalar::Text), Known::Declared),
                _ => node_field(cursor, name),
            },
            Place::Node(cursor) => node_field(cursor, name),
            Place::ObjectMeta => meta_field(name),
            Place::Labels => (Place::Scalar(Scalar::Text), Known::Entry),
            _ => (Place::Deduced, Known::Entry),
        }
    }

    /// The place of every item of a list.
    pub fn item(self) -> Place<'s> {
        match self {
            Place::Node(cursor) => cursor.items().map_or(Place::Deduced, Place::Node),
            Place::Finalizers => Place::Scalar(Scalar::Text),
            Place::OwnerReferences => Place::OwnerReference,
            _ => Place::Deduced,
        }
    }

    /// The default of a field here, if its schema has one.
    fn default_of(self, name: &str) -> Option<&'s Value> {
        match self.field(name) {
            (Place::Node(cursor), Known::Declared) => cursor.node().default.as_ref(),
            _ => None,
        }
    }
}

fn node_shapes(node: &Node) -> [Option<Shape<'_>>; 3] {
    let map = Some(Shape::Map { atomic: node.map_type == MapType::Atomic });
    let list = Some(Shape::List(node_items(node)));
    let scalar = |scalar| [Some(Shape::Scalar(scalar)), None, None];
    if node.int_or_string {
        return scalar(Scalar::Untyped);
    }
    match node.kind {
        Type::Object => [map, None, None],
        Type::Array => [list, None, None],
        Type::Integer | Type::Number => scalar(Scalar::Numeric),
        Type::Boolean => scalar(Scalar::Boolean),
        Type::String => {
            let format = node.constraints.as_ref().and_then(|limits| limits.format.as_deref());
            // Only plain and base64 text is known to be a string; times and the like decode themselves.
            scalar(if matches!(format, None | Some("byte")) { Scalar::Text } else { Scalar::Untyped })
        }
        Type::Any if !node.properties.is_empty() => [map, None, None],
        Type::Any if node.items.is_some() => [list, None, None],
        Type::Any => [map, Some(Shape::Scalar(Scalar::Untyped)), list],
    }
}

fn node_items(node: &Node) -> Items<'_> {
    if node.list_type_given {
        return match &node.list_type {
            ListType::Atomic => Items::Atomic,
            ListType::Set => Items::Set,
            ListType::Map(keys) => Items::Keyed(keys),
        };
    }
    match node.patch_strategy.as_deref() {
        Some("merge" | "merge,retainKeys") => match &node.patch_merge_key {
            Some(key) => Items::Keyed(std::slice::from_ref(key)),
            None => Items::Set,
        },
        _ => Items::Atomic,
    }
}

fn node_field<'s>(cursor: Cursor<'s>, name: &str) -> (Place<'s>, Known) {
    let node = cursor.node();
    if let Some(id) = node.properties.get(name) {
        return (Place::Node(cursor.to(*id)), Known::Declared);
    }
    match node.additional {
        Additional::Schema(id) => (Place::Node(cursor.to(id)), Known::Entry),
        Additional::Any => (Place::Deduced, Known::Entry),
        // An object that says nothing of its fields is a map of anything.
        Additional::None if node.preserve_unknown || node.properties.is_empty() => {
            (Place::Deduced, Known::Entry)
        }
        Additional::None => (Place::Deduced, Known::Unknown),
    }
}

fn meta_field(name: &str) -> (Place<'static>, Known) {
    let place = match name {
        "labels" | "annotations" => Place::Labels,
        "finalizers" => Place::Finalizers,
        "ownerReferences" => Place::OwnerReferences,
        "managedFields" => Place::Whole,
        "generation" | "deletionGracePeriodSeconds" => Place::Scalar(Scalar::Numeric),
        "creationTimestamp" | "deletionTimestamp" => Place::Scalar(Scalar::Untyped),
        "name" | "generateName" | "namespace" | "selfLink" | "uid" | "resourceVersion" | "clusterName" => {
            Place::Scalar(Scalar::Text)
        }
        _ => return (Place::Deduced, Known::Unknown),
    };
    (place, Known::Declared)
}

/// What tells an item of a set or of a list map from the others; borrowed, because most are only compared.
#[derive(Clone, Debug)]
pub(crate) enum ItemKey<'v> {
    Value(&'v Value),
    One([(&'v str, &'v Value); 1]),
    Many(Vec<(&'v str, &'v Value)>),
}

/// Why an item cannot be told from the others, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    #[error("associative list with keys may not have a null element")]
    KeyedNull,
    #[error("associative list with keys may not have non-map elements")]
    KeyedNotMap,
    #[error(
        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
        .0.join(" ")
    )]
    OmitsKeys(Vec<String>),
    #[error("associative list without keys has an element that's a map type")]
    SetOfMaps,
    #[error("not supported: associative list with lists as elements")]
    SetOfLists,
    #[error("associative list without keys has an element that's an explicit null")]
    SetOfNulls,
    #[error("invalid indexing of non-associative list")]
    Atomic,
}

impl<'v> ItemKey<'v> {
    pub fn of(item: &'v Value, items: Items<'v>, place: Place<'v>) -> Result<Self, ItemError> {
        match items {
            Items::Atomic => Err(ItemError::Atomic),
            Items::Set => match item {
                Value::Object(_) => Err(ItemError::SetOfMaps),
                Value::Array(_) => Err(ItemError::SetOfLists),
                Value::Null => Err(ItemError::SetOfNulls),
                scalar => Ok(ItemKey::Value(scalar)),
            },
            Items::Keyed(keys) => match item {
                Value::Null => Err(ItemError::KeyedNull),
                Value::Object(fields) => {
                    let found = |key: &'v CompactString| {
                        let value = fields.get(key.as_str()).or_else(|| place.default_of(key))?;
                        Some((key.as_str(), value))
                    };
                    if let [key] = keys {
                        let pair = found(key).ok_or_else(|| omits(keys))?;
                        return Ok(ItemKey::One([pair]));
                    }
                    let mut pairs: Vec<_> = keys.iter().filter_map(found).collect();
                    pairs.sort_unstable_by_key(|(name, _)| *name);
                    if pairs.is_empty() && !keys.is_empty() {
                        Err(omits(keys))
                    } else {
                        Ok(ItemKey::Many(pairs))
                    }
                }
                _ => Err(ItemError::KeyedNotMap),
            },
        }
    }

    /// The keys of all items; `None` if one has none, and the list is then taken whole.
    pub fn of_all(list: &'v [Value], items: Items<'v>, place: Place<'v>) -> Option<Vec<ItemKey<'v>>> {
        list.iter().map(|item| ItemKey::of(item, items, place).ok()).collect()
    }

    pub fn element(&self) -> PathElement {
        match self {
            ItemKey::Value(value) => PathElement::Value(Box::new((*value).clone())),
            keyed => {
                let pairs = keyed.pairs().iter().map(|(name, value)| ((*name).into(), (*value).clone()));
                PathElement::Key(pairs.collect())
            }
        }
    }

    fn pairs(&self) -> &[(&'v str, &'v Value)] {
        match self {
            ItemKey::Value(_) => &[],
            ItemKey::One(pair) => pair,
            ItemKey::Many(pairs) => pairs,
        }
    }

    /// The order of the elements they become.
    pub fn compare(&self, other: &ItemKey<'_>) -> Ordering {
        match (self, other) {
            (ItemKey::Value(a), ItemKey::Value(b)) => values::compare(a, b),
            (ItemKey::Value(_), _) => Ordering::Greater,
            (_, ItemKey::Value(_)) => Ordering::Less,
            _ => {
                let (a, b) = (self.pairs(), other.pairs());
                let pairs = a.iter().zip(b);
                let unequal = pairs
                    .map(|((a_name, a), (b_name, b))| a_name.cmp(b_name).then_with(|| values::compare(a, b)))
                    .find(|order| order.is_ne());
                unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
        }
    }
}

fn omits(keys: &[CompactString]) -> ItemError {
    ItemError::OmitsKeys(keys.iter().map(|key| values::quoted(key)).collect())
}

/// The items of a list by key: one run of positions for every distinct key, in the order of the keys.
#[derive(Debug)]
pub(crate) struct Index {
    order: Vec<u32>,
}

impl Index {
    pub fn new(keys: &[ItemKey<'_>]) -> Self {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        // Stable, so that equal keys keep the order of the list.
        order.sort_by(|a, b| keys[*a as usize].compare(&keys[*b as usize]));
        Index { order }
    }

    /// Every distinct key's positions.
    pub fn runs<'a>(&'a self, keys: &'a [ItemKey<'_>]) -> impl Iterator<Item = &'a [u32]> {
        self.order.chunk_by(|a, b| keys[*a as usize].compare(&keys[*b as usize]).is_eq())
    }

    /// The positions of a key.
    pub fn positions(&self, keys: &[ItemKey<'_>], wanted: &ItemKey<'_>) -> &[u32] {
        let start = self.order.partition_point(|at| keys[*at as usize].compare(wanted).is_lt());
        let rest = &self.order[start..];
        let length = rest.partition_point(|at| keys[*at as usize].compare(wanted).is_eq());
        &rest[..length]
    }
}
