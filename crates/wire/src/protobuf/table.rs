//! The messages of the built-in kinds, as data. The generator in `xtask` says how its lines read.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Kind;

const LINES: &str = include_str!("../../data/messages.txt");

/// Every message, by number, and the kinds among them.
pub struct Table {
    messages: Vec<Message>,
    /// By `apiVersion` and kind; `*` stands for every `apiVersion`.
    kinds: HashMap<(&'static str, &'static str), usize>,
}

pub struct Message {
    /// `core.v1.Pod`
    pub name: &'static str,
    /// By number, ascending.
    pub fields: Vec<Field>,
}

pub struct Field {
    pub number: u32,
    /// In JSON. Empty where the members of the field's message stand in the parent itself.
    pub name: &'static str,
    /// JSON shows it even when it is empty.
    pub shown_when_empty: bool,
    /// Can be absent, so that its zero is a value like any other.
    pub pointer: bool,
    pub count: Count,
    pub ty: Type,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    One,
    List,
    /// From strings
    Map,
}

/// What a field holds. Messages are numbers of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// base64 in JSON
    Bytes,
    /// `metav1.Time`
    Time,
    /// `metav1.MicroTime`
    MicroTime,
    /// `resource.Quantity`: a message around its text
    Quantity,
    /// `intstr.IntOrString`
    IntOrString,
    /// `runtime.RawExtension` and the like: a message around JSON
    Json,
    /// `metav1.Verbs` and the like: a message around a list
    Strings,
    /// `JSONSchemaPropsOrArray`, `JSONSchemaPropsOrBool`, `JSONSchemaPropsOrStringArray`, with the number of the schema
    SchemaOrList(usize),
    SchemaOrBool(usize),
    SchemaOrNames(usize),
    Message(usize),
}

/// The message that the schema forms are about.
const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

impl Table {
    pub fn shared() -> &'static Table {
        static TABLE: LazyLock<Table> = LazyLock::new(|| {
            Table::parse(LINES).expect("the committed messages refer to one another and nothing else")
        });
        &TABLE
    }

    /// Errors name the line.
    fn parse(text: &'static str) -> Result<Table, String> {
        let mut numbers = HashMap::new();
        let heads = text.split("\n\n").filter_map(|paragraph| paragraph.lines().next());
        for (number, head) in heads.enumerate() {
            numbers.insert(head.split(' ').next().unwrap_or_default(), number);
        }
        let mut table = Table { messages: Vec::with_capacity(numbers.len()), kinds: HashMap::new() };
        for (number, paragraph) in text.split("\n\n").enumerate() {
            let mut lines = paragraph.lines();
            let mut head = lines.next().unwrap_or_default().split(' ');
            let name = head.next().unwrap_or_default();
            if let (Some(api_version), Some((_, kind))) = (head.next(), name.rsplit_once('.')) {
                table.kinds.insert((api_version, kind), number);
            }
            let fields: Option<Vec<Field>> = lines.map(|line| field(line, &numbers)).collect();
            let fields = fields.ok_or_else(|| format!("a field of {name} does not read"))?;
            if !fields.is_sorted_by(|a, b| a.number < b.number) {
                return Err(format!("the fields of {name} are not in order"));
            }
            table.messages.push(Message { name, fields });
        }
        Ok(table)
    }

    pub fn of_kind(&self, kind: Kind<'_>) -> Option<&Message> {
        let own = self.kinds.get(&(kind.api_version, kind.kind));
        self.message(*own.or_else(|| self.kinds.get(&("*", kind.kind)))?)
    }

    pub fn message(&self, number: usize) -> Option<&Message> {
        self.messages.get(number)
    }

    /// Every type that is a message, with `*` for those of every `apiVersion`.
    pub fn kinds(&self) -> impl Iterator<Item = Kind<'static>> {
        self.kinds.keys().map(|(api_version, kind)| Kind { api_version, kind })
    }
}

impl Message {
    pub fn field(&self, number: u32) -> Option<&Field> {
        let found = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(found)
    }
}

/// `4 immutable *bool`
fn field(line: &'static str, messages: &HashMap<&str, usize>) -> Option<Field> {
    let mut words = line.split(' ');
    let (number, name, ty) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let (pointer, ty) = ty.strip_prefix('*').map_or((false, ty), |ty| (true, ty));
    let (count, ty) = match (ty.strip_prefix("[]"), ty.strip_prefix("{}")) {
        (Some(ty), _) => (Count::List, ty),
        (_, Some(ty)) => (Count::Map, ty),
        _ => (Count::One, ty),
    };
    let schema = || messages.get(SCHEMA).copied();
    let ty = match ty {
        "string" => Type::String,
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "time" => Type::Time,
        "micro-time" => Type::MicroTime,
        "quantity" => Type::Quantity,
        "int-or-string" => Type::IntOrString,
        "json" => Type::Json,
        "strings" => Type::Strings,
        "schema-or-list" => Type::SchemaOrList(schema()?),
        "schema-or-bool" => Type::SchemaOrBool(schema()?),
        "schema-or-names" => Type::SchemaOrNames(schema()?),
        name => Type::Message(*messages.get(name)?),
    };
    let (name, shown_when_empty) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
    let name = if name == "-" { "" } else { name };
    Some(Field { number, name, shown_when_empty, pointer, count, ty })
}
