//! What a schema tells CEL: which fields there are, of what type, and how large they can be.
//!
//! Mirrors upstream's `SchemaDeclType`: values of which the schema says nothing are left out, `x-kubernetes-int-or-string`
//! is dynamic, and an object with `additionalProperties` is a map. Built once per schema and shared by all its rules.

use std::collections::{BTreeMap, HashMap};

use compact_str::CompactString;
use schemas::{Additional, Cursor, ListType, MapType, NodeId, Type};

/// The largest request that is read: no value can be larger, whatever the schema leaves open.
pub(crate) const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeId(u32);

/// The type of one place of a schema.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub shape: Shape,
    /// Most characters, bytes, elements or entries.
    pub max_size: u64,
    /// Fewest bytes that a value takes as JSON: how many fit into a request.
    pub min_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Dyn,
    Bool,
    Int,
    Double,
    Str,
    Bytes,
    Duration,
    Timestamp,
    List {
        item: TypeId,
        list: ListType,
    },
    Map {
        value: TypeId,
    },
    /// By the name that expressions use; see [`escape`].
    Object {
        fields: BTreeMap<CompactString, Field>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The name in the object.
    pub name: CompactString,
    pub of: TypeId,
}

/// The types of one schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    declared: Vec<Declared>,
    by_node: HashMap<(NodeId, bool), Option<TypeId>>,
}

/// A type within its arena: what a value carries along, to know what its parts are.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    types: &'a Types,
    id: TypeId,
}

impl std::fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Place({})", self.id.0)
    }
}

impl<'a> Place<'a> {
    pub fn declared(self) -> &'a Declared {
        self.types.get(self.id)
    }

    pub fn shape(self) -> &'a Shape {
        &self.declared().shape
    }

    pub fn to(self, id: TypeId) -> Place<'a> {
        Place { types: self.types, id }
    }

    /// The type of a list's elements or a map's values.
    pub fn element(self) -> Option<Place<'a>> {
        match self.shape() {
            Shape::List { item, .. } => Some(self.to(*item)),
            Shape::Map { value } => Some(self.to(*value)),
            _ => None,
        }
    }
}

static DYN: Declared = Declared { shape: Shape::Dyn, max_size: MAX_REQUEST_BYTES, min_bytes: 1 };

impl Types {
    pub fn get(&self, id: TypeId) -> &Declared {
        self.declared.get(id.0 as usize).unwrap_or(&DYN)
    }

    pub fn place(&self, id: TypeId) -> Place<'_> {
        Place { types: self, id }
    }

    /// A schema of its own: its nodes are not those of the one before.
    pub fn declare_root(&mut self, at: Cursor<'_>, is_resource: bool) -> Option<TypeId> {
        self.by_node.clear();
        self.declare(at, is_resource)
    }

    /// Forgets which node a type came from, once all are declared.
    pub fn seal(&mut self) {
        self.by_node = HashMap::new();
        self.declared.shrink_to_fit();
    }

    /// The type of a node, or none where the schema does not say enough.
    /// A resource root also has `apiVersion`, `kind` and the visible part of `metadata`.
    pub fn declare(&mut self, at: Cursor<'_>, resource_root: bool) -> Option<TypeId> {
        if let Some(known) = self.by_node.get(&(at.id(), resource_root)) {
            return *known;
        }
        // Known before its parts are, so that a schema that contains itself ends here.
        let id = self.add(DYN.clone());
        self.by_node.insert((at.id(), resource_root), Some(id));
        let declared = self.derive(at, resource_root);
        let found = declared.is_some();
        if let (Some(declared), Some(slot)) = (declared, self.declared.get_mut(id.0 as usize)) {
            *slot = declared;
        }
        if !found {
            self.by_node.insert((at.id(), resource_root), None);
        }
        found.then_some(id)
    }

    fn add(&mut self, declared: Declared) -> TypeId {
        self.declared.push(declared);
        TypeId(u32::try_from(self.declared.len() - 1).unwrap_or(u32::MAX))
    }

    fn derive(&mut self, at: Cursor<'_>, resource_root: bool) -> Option<Declared> {
        let node = at.node();
        let constraints = node.constraints.as_deref();
        let scalar = |shape, max_size, min_bytes| Some(Declared { shape, max_size, min_bytes });
        if node.int_or_string {
            return scalar(Shape::Dyn, max_length(at).unwrap_or(MAX_REQUEST_BYTES - 2), 1);
        }
        match node.kind {
            Type::Any => None,
            Type::Boolean => scalar(Shape::Bool, 1, 4),
            Type::Integer => scalar(Shape::Int, 1, 1),
            Type::Number => scalar(Shape::Double, 1, 1),
            Type::String => {
                let shape = match constraints.and_then(|c| c.format.as_deref()) {
                    Some("byte") => Shape::Bytes,
                    Some("duration") => Shape::Duration,
                    Some("date" | "date-time") => Shape::Timestamp,
                    _ => Shape::Str,
                };
                scalar(shape, max_length(at).unwrap_or(MAX_REQUEST_BYTES - 2), 2)
            }
            Type::Array => {
                let items = at.items()?;
                let item = self.declare(items, items.node().embedded_resource)?;
                let fitting = (MAX_REQUEST_BYTES - 2) / (self.get(item).min_bytes + 1);
                let max_size = constraints.and_then(|c| c.max_items).unwrap_or(fitting);
                Some(Declared {
                    shape: Shape::List { item, list: node.list_type.clone() },
                    max_size,
                    min_bytes: 2,
                })
            }
            Type::Object => self.object(at, resource_root),
        }
    }

    fn object(&mut self, at: Cursor<'_>, resource_root: bool) -> Option<Declared> {
        let node = at.node();
        if let Additional::Schema(id) = node.additional {
            let values = at.to(id);
            let value = self.declare(values, values.node().embedded_resource)?;
            let fitting = (MAX_REQUEST_BYTES - 2) / (self.get(value).min_bytes + 6);
            let max_size = node.constraints.as_ref().and_then(|c| c.max_properties).unwrap_or(fitting);
            return Some(Declared { shape: Shape::Map { value }, max_size, min_bytes: 2 });
        }
        let mut fields = BTreeMap::new();
        let mut min_bytes = 2u64;
        for (name, id) in &node.properties {
            let property = at.to(*id);
            let Some(of) = self.declare(property, property.node().embedded_resource) else { continue };
            if node.required.contains(name) && property.node().default.is_none() {
                min_bytes =
                    min_bytes.saturating_add(name.len() as u64 + 4).saturating_add(self.get(of).min_bytes);
            }
            if let Some(escaped) = escape(name) {
                fields.insert(escaped, Field { name: name.clone(), of });
            }
        }
        if resource_root {
            self.add_resource_fields(&mut fields);
        }
        Some(Declared { max_size: fields.len() as u64, shape: Shape::Object { fields }, min_bytes })
    }

    /// Of metadata only the names are visible, whatever the schema says.
    fn add_resource_fields(&mut self, fields: &mut BTreeMap<CompactString, Field>) {
        let text = self.add(Declared { shape: Shape::Str, max_size: MAX_REQUEST_BYTES - 2, min_bytes: 2 });
        let name = self.add(Declared { shape: Shape::Str, max_size: 253, min_bytes: 2 });
        let field =
            |name: &'static str, of| (CompactString::const_new(name), Field { name: name.into(), of });
        let visible = BTreeMap::from([field("name", name), field("generateName", name)]);
        let metadata =
            self.add(Declared { shape: Shape::Object { fields: visible }, max_size: 2, min_bytes: 2 });
        fields.extend([field("apiVersion", text), field("kind", text), field("metadata", metadata)]);
    }
}

/// The longest that a string can be, if the schema bounds it. Lengths are in code points; sizes are in bytes.
fn max_length(at: Cursor<'_>) -> Option<u64> {
    let constraints = at.node().constraints.as_deref()?;
    if let Some(max) = constraints.max_length {
        return Some(max.saturating_mul(4).min(MAX_REQUEST_BYTES));
    }
    if let Some(values) = &constraints.enumeration {
        return values.iter().map(|v| v.as_str().map_or(1, str::len) as u64).max();
    }
    match constraints.format.as_deref()? {
        "date" => Some(10),
        "date-time" => Some(35),
        "duration" => Some(40),
        _ => None,
    }
}

/// Whether old and new entries of an object belong together.
pub(crate) fn entries_correlate(at: Cursor<'_>) -> bool {
    at.node().map_type == MapType::Granular
}

/// Whether old and new elements of a list belong together: only where keys say so.
pub(crate) fn elements_correlate(at: Cursor<'_>) -> bool {
    matches!(at.node().list_type, ListType::Map(_))
}

const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The property's name that [`escape`] was given.
pub(crate) fn unescape(name: &str) -> String {
    if let Some(keyword) = KEYWORDS.iter().find(|keyword| format!("__{keyword}__") == name) {
        return (*keyword).to_owned();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let known = [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
        match known.iter().find_map(|(escaped, plain)| Some((rest.strip_prefix(escaped)?, *plain))) {
            Some((after, plain)) => {
                out.push_str(plain);
                rest = after;
            }
            None => {
                out.push(c);
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out
}

/// A property's name as an expression must write it; none if it cannot be written.
pub(crate) fn escape(name: &str) -> Option<CompactString> {
    if KEYWORDS.contains(&name) {
        return Some(CompactString::from(format!("__{name}__")));
    }
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut out = CompactString::default();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Some(out)
}
