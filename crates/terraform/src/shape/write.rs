//! From values of a schema to fields of an object, and to the Secret beside it.

use serde_json::{Map, Value as Json};

use super::{is_timeouts, names};
use crate::names::FieldNames;
use crate::schema::{Block, Member, Nested, Nesting, Shape};
use crate::value::{Fields, Number, Type, Value};

/// What may be seen of a value, as fields of an object: nothing secret, nothing null, nothing unknown.
pub fn shown(block: &Block, value: &Value) -> Json {
    Json::Object(value.as_fields().map(|fields| block_shown(block, fields, true)).unwrap_or_default())
}

fn block_shown(block: &Block, fields: &Fields, top: bool) -> Map<String, Json> {
    let names = names(block, top);
    let mut out = Map::new();
    for (name, member) in &block.members {
        let value = fields.get(name).unwrap_or(&Value::Null);
        if member.is_secret() || value.is_null() {
            continue;
        }
        let json = match &member.shape {
            Shape::Plain(ty) => plain(ty, value, true),
            Shape::Nested(nested) => {
                let shown = nested_shown(nested, value);
                if is_timeouts(name, member, top) { shown.map(nanoseconds) } else { shown }
            }
        };
        if let Some(json) = json {
            out.insert(names.field(name).unwrap_or(name).to_owned(), json);
        }
    }
    out
}

fn nested_shown(nested: &Nested, value: &Value) -> Option<Json> {
    let one = |value: &Value| Some(Json::Object(block_shown(&nested.block, value.as_fields()?, false)));
    match (nested.nesting, value) {
        (Nesting::Map, Value::Fields(entries)) => {
            let entries: Map<_, _> =
                entries.iter().filter_map(|(key, value)| Some((key.clone(), one(value)?))).collect();
            (!entries.is_empty()).then_some(Json::Object(entries))
        }
        (Nesting::Single | Nesting::Group, value) => one(value),
        (Nesting::List | Nesting::Set, Value::Sequence(elements)) if nested.is_one() => {
            elements.first().and_then(one)
        }
        (Nesting::List | Nesting::Set, Value::Sequence(elements)) => {
            // A block that is not there is an empty list to the provider, and nothing to a user.
            let none = elements.is_empty() && nested.is_block;
            (!none).then(|| Json::Array(elements.iter().filter_map(one).collect()))
        }
        _ => None,
    }
}

/// `fields` says whose names the attributes of objects have: those of the object's fields, or the provider's.
fn plain(ty: &Type, value: &Value, fields: bool) -> Option<Json> {
    match (ty, value) {
        (_, Value::Null | Value::Unknown(_)) => None,
        (_, Value::String(text)) => Some(Json::String(text.clone())),
        (_, Value::Bool(bool)) => Some(Json::Bool(*bool)),
        (_, Value::Number(number)) => Some(json_number(number)),
        (_, Value::Typed(typed)) => plain(&typed.0, &typed.1, false),
        (Type::Tuple(types), Value::Sequence(elements)) => {
            let elements = elements.iter().zip(types).map(|(value, ty)| plain(ty, value, fields));
            Some(Json::Array(elements.map(Option::unwrap_or_default).collect()))
        }
        (Type::List(element) | Type::Set(element), Value::Sequence(elements)) => {
            let elements = elements.iter().map(|value| plain(element, value, fields).unwrap_or_default());
            Some(Json::Array(elements.collect()))
        }
        (Type::Map(element), Value::Fields(entries)) => {
            let entries = entries
                .iter()
                .map(|(key, value)| (key.clone(), plain(element, value, fields).unwrap_or_default()));
            Some(Json::Object(entries.collect()))
        }
        (Type::Object { attributes, .. }, Value::Fields(given)) => {
            let names = FieldNames::new(attributes.keys(), false);
            let entries = attributes.iter().filter_map(|(name, ty)| {
                let json = plain(ty, given.get(name)?, fields)?;
                let key = if fields { names.field(name).unwrap_or(name) } else { name };
                Some((key.to_owned(), json))
            });
            Some(Json::Object(entries.collect()))
        }
        _ => None,
    }
}

/// The number itself where JSON in Kubernetes can hold it, and the nearest one where not; the exact one is kept with
/// the state.
fn json_number(number: &Number) -> Json {
    if let Some(small) = number.as_i64() {
        return small.into();
    }
    serde_json::Number::from_f64(number.nearest_f64()).map_or(Json::Null, Json::Number)
}

/// Durations as nanoseconds; those that nobody can read are left out.
fn nanoseconds(json: Json) -> Json {
    let Json::Object(times) = json else { return json };
    let times = times.into_iter().filter_map(|(name, json)| {
        let nanoseconds = json.as_str().and_then(parse_duration)?;
        Some((name, nanoseconds.into()))
    });
    Json::Object(times.collect())
}

/// As Go writes durations: `1h30m`, `1.5s`, `300ms`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
    let (sign, mut rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == &rest[end..unit_end])?;
        total += number * scale;
        rest = &rest[unit_end..];
    }
    let total = (sign * total).round();
    (!text.is_empty() && total.abs() < 9.2e18).then_some(total as i64)
}

/// What must not be seen of a value, in the provider's names and nesting; nothing if there is nothing. What is
/// write-only is in values that are wanted, and never in states.
pub fn secrets(block: &Block, value: &Value) -> Option<Json> {
    let fields = value.as_fields()?;
    let mut out = Map::new();
    for (name, member) in &block.members {
        let value = fields.get(name).unwrap_or(&Value::Null);
        if value.is_null() {
            continue;
        }
        if let Some(json) = member_secrets(member, value) {
            out.insert(name.clone(), json);
        }
    }
    (!out.is_empty()).then_some(Json::Object(out))
}

fn member_secrets(member: &Member, value: &Value) -> Option<Json> {
    match &member.shape {
        Shape::Plain(ty) if member.is_secret() => match (ty, plain(ty, value, false)?) {
            // Kubeform keeps a sensitive map as text.
            (Type::Map(_), json) => Some(Json::String(json.to_string())),
            (_, json) => Some(json),
        },
        Shape::Plain(_) => None,
        Shape::Nested(nested) => match value {
            Value::Sequence(elements) => {
                let found: Vec<Option<Json>> = elements
                    .iter()
                    .map(|element| nested_secrets(nested, element, member.is_secret()))
                    .collect();
                let any = found.iter().any(Option::is_some);
                let empty = || Json::Object(Map::new());
                any.then(|| Json::Array(found.into_iter().map(|json| json.unwrap_or_else(empty)).collect()))
            }
            Value::Fields(entries) if nested.nesting == Nesting::Map => {
                let entries: Map<_, _> = entries
                    .iter()
                    .filter_map(|(key, value)| {
                        Some((key.clone(), nested_secrets(nested, value, member.is_secret())?))
                    })
                    .collect();
                (!entries.is_empty()).then_some(Json::Object(entries))
            }
            value => nested_secrets(nested, value, member.is_secret()),
        },
    }
}

/// All of it if the whole is secret, otherwise its secret parts.
fn nested_secrets(nested: &Nested, value: &Value, whole: bool) -> Option<Json> {
    if whole { plain(&nested.block.implied_type(), value, false) } else { secrets(&nested.block, value) }
}
