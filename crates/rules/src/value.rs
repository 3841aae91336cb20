//! Values as expressions see them: borrowed from the object wherever that is possible.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::library::{Opaque, time};
use crate::types::{Place, Shape};

/// A value of CEL. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Text<'a>),
    Bytes(Arc<[u8]>),
    /// In nanoseconds, as in Go.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Val<'a>>>),
    /// A type as a value: `type(1) == int`.
    Type(&'static str),
    Opaque(Arc<Opaque>),
    Host(Arc<dyn crate::host::HostObject>),
}

#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Owned(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Owned(text) => text,
        }
    }
}

impl<'a> From<&'a str> for Val<'a> {
    fn from(text: &'a str) -> Self {
        Val::Str(Text::Borrowed(text))
    }
}

impl From<String> for Val<'_> {
    fn from(text: String) -> Self {
        Val::Str(Text::Owned(text.into()))
    }
}

impl<'a> From<Vec<Val<'a>>> for Val<'a> {
    fn from(items: Vec<Val<'a>>) -> Self {
        Val::List(List::Owned { items: items.into(), place: None })
    }
}

impl From<bool> for Val<'_> {
    fn from(value: bool) -> Self {
        Val::Bool(value)
    }
}

impl From<i64> for Val<'_> {
    fn from(value: i64) -> Self {
        Val::Int(value)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    /// A list of the object, its elements typed when they are looked at.
    Json { items: &'a [Json], place: Option<Place<'a>> },
    /// A list made by an expression; the place remains where a set or keyed list was added to.
    Owned { items: Arc<[Val<'a>]>, place: Option<Place<'a>> },
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            List::Json { items, .. } => items.len(),
            List::Owned { items, .. } => items.len(),
        }
    }

    pub fn get(&self, index: usize) -> Option<Val<'a>> {
        match self {
            List::Json { items, place } => {
                items.get(index).map(|item| Val::of_json(item, place.and_then(Place::element)))
            }
            List::Owned { items, .. } => items.get(index).cloned(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Val<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub fn place(&self) -> Option<Place<'a>> {
        match self {
            List::Json { place, .. } | List::Owned { place, .. } => *place,
        }
    }
}

/// A key of a map made by an expression. Numbers of both kinds are equal when their values are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Number { value: i128, unsigned: bool },
    Str(Arc<str>),
}

impl Key {
    pub fn of(value: &Val<'_>) -> Option<Key> {
        match value {
            Val::Bool(b) => Some(Key::Bool(*b)),
            Val::Int(i) => Some(Key::Number { value: i128::from(*i), unsigned: false }),
            Val::Uint(u) => Some(Key::Number { value: i128::from(*u), unsigned: true }),
            Val::Double(d) if d.fract() == 0.0 && d.abs() < 1e18 => {
                Some(Key::Number { value: *d as i128, unsigned: false })
            }
            Val::Str(text) => Some(Key::Str(Arc::from(&**text))),
            _ => None,
        }
    }

    pub fn to_val<'a>(&self) -> Val<'a> {
        match self {
            Key::Bool(b) => Val::Bool(*b),
            Key::Number { value, unsigned: true } => Val::Uint(u64::try_from(*value).unwrap_or(u64::MAX)),
            Key::Number { value, .. } => Val::Int(i64::try_from(*value).unwrap_or(i64::MAX)),
            Key::Str(text) => Val::Str(Text::Owned(text.clone())),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Json { entries: &'a serde_json::Map<String, Json>, place: Option<Place<'a>> },
    Owned(Arc<BTreeMap<Key, Val<'a>>>),
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Json { entries, .. } => entries.len(),
            Map::Owned(entries) => entries.len(),
        }
    }

    /// An entry by key; a field of an object by the name that expressions use.
    pub fn get(&self, key: &Val<'_>) -> Option<Val<'a>> {
        match (self, key) {
            (Map::Json { entries, place }, Val::Str(name)) => json_entry(entries, *place, name),
            (Map::Json { .. }, _) => None,
            (Map::Owned(entries), key) => {
                let key = Key::of(key)?;
                entries.get(&key).cloned().or_else(|| match key {
                    Key::Number { value, unsigned } => {
                        entries.get(&Key::Number { value, unsigned: !unsigned }).cloned()
                    }
                    _ => None,
                })
            }
        }
    }

    pub fn field(&self, name: &str) -> Option<Val<'a>> {
        match self {
            Map::Json { entries, place } => json_entry(entries, *place, name),
            Map::Owned(entries) => entries.get(&Key::Str(Arc::from(name))).cloned(),
        }
    }

    pub fn iter(&self) -> Box<dyn Iterator<Item = (Val<'a>, Val<'a>)> + '_> {
        match self {
            Map::Json { entries, place } => Box::new(entries.iter().filter_map(move |(key, _)| {
                let value = match place.map(|p| (p, p.shape())) {
                    Some((p, Shape::Object { fields })) => {
                        let field = fields.values().find(|field| field.name == *key)?;
                        Val::of_json(entries.get(key)?, Some(p.to(field.of)))
                    }
                    Some((p, _)) => Val::of_json(entries.get(key)?, p.element()),
                    None => Val::of_json(entries.get(key)?, None),
                };
                Some((Val::from(key.as_str()), value))
            })),
            Map::Owned(entries) => Box::new(entries.iter().map(|(key, value)| (key.to_val(), value.clone()))),
        }
    }
}

fn json_entry<'a>(
    entries: &'a serde_json::Map<String, Json>,
    place: Option<Place<'a>>,
    name: &str,
) -> Option<Val<'a>> {
    match place.map(|p| (p, p.shape())) {
        Some((p, Shape::Object { fields })) => {
            let field = fields.get(name)?;
            entries.get(field.name.as_str()).map(|value| Val::of_json(value, Some(p.to(field.of))))
        }
        other => entries.get(name).map(|value| Val::of_json(value, other.and_then(|(p, _)| p.element()))),
    }
}

impl<'a> Val<'a> {
    /// A value of the object, as its schema says it is to be read. What does not fit its schema is read as it stands:
    /// the schema's own validation reports it.
    pub fn of_json(value: &'a Json, place: Option<Place<'a>>) -> Val<'a> {
        let shape = place.map(Place::shape);
        match value {
            Json::Null => Val::Null,
            Json::Bool(b) => Val::Bool(*b),
            Json::Number(number) => match (shape, number.as_i64()) {
                (Some(Shape::Double), _) => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
                (_, Some(integer)) => Val::Int(integer),
                _ => number.as_u64().map_or(Val::Double(number.as_f64().unwrap_or(f64::NAN)), Val::Uint),
            },
            Json::String(text) => match shape {
                Some(Shape::Bytes) => time::base64(text).map_or_else(|| text.as_str().into(), Val::Bytes),
                Some(Shape::Duration) => {
                    time::parse_duration(text).map_or_else(|| text.as_str().into(), Val::Duration)
                }
                Some(Shape::Timestamp) => {
                    time::parse_date_or_time(text).map_or_else(|| text.as_str().into(), Val::Timestamp)
                }
                _ => Val::Str(Text::Borrowed(text)),
            },
            Json::Array(items) => Val::List(List::Json { items, place }),
            Json::Object(entries) => Val::Map(Map::Json { entries, place }),
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Str(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::List(_) => "list",
            Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Opaque(opaque) => opaque.kind().name(),
            Val::Host(_) => "kubernetes.authorization.Authorizer",
        }
    }

    /// Characters, bytes, elements or entries: what costs are reckoned from.
    pub fn size(&self) -> u64 {
        let size = match self {
            Val::Str(text) => text.len(),
            Val::Bytes(bytes) => bytes.len(),
            Val::List(list) => list.len(),
            Val::Map(map) => map.len(),
            Val::Optional(Some(inner)) => return inner.size(),
            _ => 1,
        };
        size as u64
    }

    pub fn optional(value: Option<Val<'a>>) -> Val<'a> {
        Val::Optional(value.map(Arc::new))
    }

    /// The value as JSON, where it has a form there.
    pub fn to_json(&self) -> Option<Json> {
        self.to_json_within(crate::compare::MAX_DEPTH)
    }

    fn to_json_within(&self, depth: u16) -> Option<Json> {
        let depth = depth.checked_sub(1)?;
        Some(match self {
            Val::Null | Val::Optional(None) => Json::Null,
            Val::Bool(b) => Json::Bool(*b),
            Val::Int(i) => Json::from(*i),
            Val::Uint(u) => Json::from(*u),
            Val::Double(d) => Json::from(*d),
            Val::Str(text) => Json::String(text.to_string()),
            Val::Bytes(bytes) => Json::String(time::to_base64(bytes)),
            Val::Duration(nanos) => Json::String(time::show_duration(*nanos)),
            Val::Timestamp(timestamp) => Json::String(time::show_timestamp(*timestamp)),
            Val::List(list) => {
                Json::Array(list.iter().map(|v| v.to_json_within(depth)).collect::<Option<_>>()?)
            }
            Val::Map(Map::Json { entries, .. }) => Json::Object((*entries).clone()),
            Val::Map(map) => Json::Object(
                map.iter()
                    .map(|(key, value)| match key {
                        Val::Str(name) => Some((name.to_string(), value.to_json_within(depth)?)),
                        _ => None,
                    })
                    .collect::<Option<_>>()?,
            ),
            Val::Optional(Some(inner)) => inner.to_json_within(depth)?,
            Val::Type(_) | Val::Opaque(_) | Val::Host(_) => return None,
        })
    }
}

impl fmt::Display for Val<'_> {
    /// As an error names a key: text bare, the rest as `string()` shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Val::Str(text) => f.write_str(text),
            Val::Bool(b) => write!(f, "{b}"),
            Val::Int(i) => write!(f, "{i}"),
            Val::Uint(u) => write!(f, "{u}"),
            Val::Double(d) => write!(f, "{d}"),
            other => f.write_str(other.type_name()),
        }
    }
}
