//! From fields of an object to values of a schema.

use std::cell::Cell;

use serde_json::{Map, Value as Json};

use super::{FieldError, TIMEOUTS, is_timeouts, names};
use crate::change::rewrite;
use crate::names::FieldNames;
use crate::schema::{Block, Member, Nested, Nesting, Shape};
use crate::value::{Fields, Number, Type, Value};

/// The value that `spec.resource` (or `spec.state`) stands for: everything is there, what is not given is null.
pub fn desired(block: &Block, object: &Json) -> Result<Value, FieldError> {
    Ok(Draft::read(block, object)?.value(block))
}

/// A value whose sets are still lists, in the order in which they were written. A Secret tells which element it is
/// about by that order alone, and a set has none.
pub struct Draft {
    value: Value,
    unfit: Unfit,
}

impl Draft {
    pub fn read(block: &Block, object: &Json) -> Result<Draft, FieldError> {
        Draft::new(block, object, Unfit::Refused)
    }

    /// What fits of an object that was written for another version of the provider.
    pub fn read_fitting(block: &Block, object: &Json) -> Result<Draft, FieldError> {
        Draft::new(block, object, Unfit::LeftOut { any: false })
    }

    fn new(block: &Block, object: &Json, unfit: Unfit) -> Result<Draft, FieldError> {
        let reader = Reader { naming: Naming::Fields, unfit: Cell::new(unfit) };
        let value = reader.block(block, object, "", true)?;
        Ok(Draft { value, unfit: reader.unfit.get() })
    }

    /// The same with what the Secret says, in the provider's names, in its places.
    pub fn with_secrets(self, block: &Block, secrets: &Json) -> Result<Draft, FieldError> {
        let reader = Reader { naming: Naming::Members, unfit: Cell::new(self.unfit) };
        let value = overlay(&reader, block, self.value, secrets, "")?;
        Ok(Draft { value, unfit: reader.unfit.get() })
    }

    /// Something did not fit and was left out.
    pub fn lacks(&self) -> bool {
        self.unfit == Unfit::LeftOut { any: true }
    }

    pub fn value(self, block: &Block) -> Value {
        rewrite(block, self.value, &|_, value| value)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Naming {
    /// Of the object.
    Fields,
    /// Of the provider.
    Members,
}

/// What becomes of fields that the provider has not, or not in this form.
#[derive(Clone, Copy, PartialEq)]
enum Unfit {
    Refused,
    LeftOut { any: bool },
}

struct Reader {
    naming: Naming,
    unfit: Cell<Unfit>,
}

fn wrong(path: &str, problem: impl Into<String>) -> FieldError {
    FieldError { path: path.to_owned(), problem: problem.into() }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn expected(path: &str, what: &str, json: &Json) -> FieldError {
    wrong(path, format!("expected {what}, found {}", kind(json)))
}

impl Reader {
    /// The value of a field, if it is not to be left out.
    fn fitting<T>(&self, read: Result<T, FieldError>) -> Result<Option<T>, FieldError> {
        match (read, self.unfit.get()) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(error), Unfit::Refused) => Err(error),
            (Err(_), Unfit::LeftOut { .. }) => {
                self.unfit.set(Unfit::LeftOut { any: true });
                Ok(None)
            }
        }
    }

    fn block(&self, block: &Block, json: &Json, path: &str, top: bool) -> Result<Value, FieldError> {
        let given = json.as_object().ok_or_else(|| expected(path, "an object", json))?;
        let names = names(block, top);
        let mut fields = Fields::new();
        for (key, json) in given {
            let member = match self.naming {
                Naming::Fields => names.member(key),
                Naming::Members => Some(key.as_str()),
            };
            let read = match member.and_then(|name| Some((name, block.members.get(name)?))) {
                Some((name, member)) => {
                    let value = self.member(name, member, json, &below(path, key), top);
                    value.map(|value| (name.to_owned(), value))
                }
                // Times are for us, too: a provider need not know of them.
                None if top && key == TIMEOUTS && self.naming == Naming::Fields => continue,
                None => Err(wrong(&below(path, key), "the provider has no such field")),
            };
            fields.extend(self.fitting(read)?);
        }
        for (name, member) in &block.members {
            if !fields.contains_key(name) {
                fields.insert(name.clone(), absent(member));
            }
        }
        Ok(Value::Fields(fields))
    }

    fn member(
        &self,
        name: &str,
        member: &Member,
        json: &Json,
        path: &str,
        top: bool,
    ) -> Result<Value, FieldError> {
        if json.is_null() {
            return Ok(absent(member));
        }
        match &member.shape {
            Shape::Plain(ty) => self.plain(ty, json, path),
            Shape::Nested(nested) if is_timeouts(name, member, top) => {
                self.nested(nested, &durations(json), path)
            }
            Shape::Nested(nested) => self.nested(nested, json, path),
        }
    }

    fn nested(&self, nested: &Nested, json: &Json, path: &str) -> Result<Value, FieldError> {
        let one = |json: &Json, path: &str| self.block(&nested.block, json, path, false);
        match nested.nesting {
            Nesting::Single | Nesting::Group => one(json, path),
            Nesting::Map => {
                let entries = json.as_object().ok_or_else(|| expected(path, "an object", json))?;
                let entries =
                    entries.iter().map(|(key, json)| Ok((key.clone(), one(json, &below(path, key))?)));
                Ok(Value::Fields(entries.collect::<Result<_, FieldError>>()?))
            }
            Nesting::List | Nesting::Set => {
                let elements = match json {
                    Json::Array(elements) => elements
                        .iter()
                        .enumerate()
                        .map(|(index, json)| one(json, &format!("{path}[{index}]")))
                        .collect::<Result<Vec<_>, _>>()?,
                    // At most one: written without the list.
                    Json::Object(_) if nested.is_one() => vec![one(json, path)?],
                    other => return Err(expected(path, "a list", other)),
                };
                Ok(Value::Sequence(elements))
            }
        }
    }

    fn plain(&self, ty: &Type, json: &Json, path: &str) -> Result<Value, FieldError> {
        if json.is_null() {
            return Ok(Value::Null);
        }
        match ty {
            Type::String => match json {
                Json::String(text) => Ok(Value::String(text.clone())),
                // As Terraform itself converts them.
                Json::Number(number) => Ok(Value::String(number.to_string())),
                Json::Bool(bool) => Ok(Value::String(bool.to_string())),
                other => Err(expected(path, "a string", other)),
            },
            Type::Bool => match json {
                Json::Bool(bool) => Ok(Value::Bool(*bool)),
                Json::String(text) if text == "true" => Ok(Value::Bool(true)),
                Json::String(text) if text == "false" => Ok(Value::Bool(false)),
                other => Err(expected(path, "a boolean", other)),
            },
            Type::Number => {
                let number = match json {
                    Json::Number(number) => Number::parse(&number.to_string()),
                    Json::String(text) => Number::parse(text),
                    _ => None,
                };
                number.map(Value::Number).ok_or_else(|| expected(path, "a number", json))
            }
            Type::List(element) | Type::Set(element) => {
                let elements = json.as_array().ok_or_else(|| expected(path, "a list", json))?;
                let elements = elements.iter().enumerate();
                let elements: Vec<Value> = elements
                    .map(|(index, json)| self.plain(element, json, &format!("{path}[{index}]")))
                    .collect::<Result<_, _>>()?;
                Ok(if matches!(ty, Type::Set(_)) { Value::set(elements) } else { Value::Sequence(elements) })
            }
            Type::Tuple(types) => {
                let elements = json.as_array().ok_or_else(|| expected(path, "a list", json))?;
                if elements.len() != types.len() {
                    return Err(wrong(path, format!("expected {} elements", types.len())));
                }
                let elements = elements.iter().zip(types).enumerate();
                let elements =
                    elements.map(|(index, (json, ty))| self.plain(ty, json, &format!("{path}[{index}]")));
                Ok(Value::Sequence(elements.collect::<Result<_, _>>()?))
            }
            Type::Map(element) => {
                // A sensitive map lies in Kubeform's Secrets as text.
                let parsed;
                let json = match json {
                    Json::String(text) if self.naming == Naming::Members => {
                        parsed = serde_json::from_str(text).unwrap_or(Json::Null);
                        &parsed
                    }
                    json => json,
                };
                let entries = json.as_object().ok_or_else(|| expected(path, "an object", json))?;
                let entries = entries
                    .iter()
                    .map(|(key, json)| Ok((key.clone(), self.plain(element, json, &below(path, key))?)));
                Ok(Value::Fields(entries.collect::<Result<_, FieldError>>()?))
            }
            Type::Object { attributes, .. } => {
                let given = json.as_object().ok_or_else(|| expected(path, "an object", json))?;
                let names = FieldNames::new(attributes.keys(), false);
                let mut fields: Fields = attributes.keys().map(|name| (name.clone(), Value::Null)).collect();
                for (key, json) in given {
                    let name = match self.naming {
                        Naming::Fields => names.member(key),
                        Naming::Members => Some(key.as_str()),
                    };
                    let found = name.and_then(|name| Some((name, attributes.get(name)?)));
                    let Some((name, ty)) = found else {
                        return Err(wrong(&below(path, key), "the provider has no such field"));
                    };
                    fields.insert(name.to_owned(), self.plain(ty, json, &below(path, key))?);
                }
                Ok(Value::Fields(fields))
            }
            Type::Dynamic => Ok(dynamic(json)),
        }
    }
}

/// What a member is when nobody says anything about it.
fn absent(member: &Member) -> Value {
    match &member.shape {
        Shape::Nested(nested) if nested.is_block => match nested.nesting {
            Nesting::List | Nesting::Set => Value::Sequence(Vec::new()),
            Nesting::Map => Value::Fields(Fields::new()),
            Nesting::Single => Value::Null,
            Nesting::Group => {
                let members = nested.block.members.iter();
                Value::Fields(members.map(|(name, member)| (name.clone(), absent(member))).collect())
            }
        },
        _ => Value::Null,
    }
}

/// A value of the type that it looks like.
fn dynamic(json: &Json) -> Value {
    fn typed(json: &Json) -> (Type, Value) {
        match json {
            Json::Null => (Type::Dynamic, Value::Null),
            Json::Bool(bool) => (Type::Bool, Value::Bool(*bool)),
            Json::Number(number) => match Number::parse(&number.to_string()) {
                Some(number) => (Type::Number, Value::Number(number)),
                None => (Type::String, Value::String(number.to_string())),
            },
            Json::String(text) => (Type::String, Value::String(text.clone())),
            Json::Array(elements) => {
                let (types, values) = elements.iter().map(typed).unzip();
                (Type::Tuple(types), Value::Sequence(values))
            }
            Json::Object(entries) => {
                let typed = entries.iter().map(|(key, json)| (key.clone(), typed(json)));
                let (types, values): (Vec<_>, Fields) =
                    typed.map(|(key, (ty, value))| ((key.clone(), ty), (key, value))).unzip();
                (Type::object(types), Value::Fields(values))
            }
        }
    }
    match typed(json) {
        (_, Value::Null) => Value::Null,
        typed => Value::Typed(Box::new(typed)),
    }
}

/// Nanoseconds as the durations that Go reads; what is text already stays.
fn durations(json: &Json) -> Json {
    let Json::Object(times) = json else { return json.clone() };
    let text = |json: &Json| match json.as_i64() {
        Some(nanoseconds) if nanoseconds % 1_000_000_000 == 0 => {
            Json::String(format!("{}s", nanoseconds / 1_000_000_000))
        }
        Some(nanoseconds) => Json::String(format!("{nanoseconds}ns")),
        None => json.clone(),
    };
    Json::Object(times.iter().map(|(name, json)| (name.clone(), text(json))).collect::<Map<_, _>>())
}

/// Puts what is given over what is there; lists by index, since a Secret keeps the nesting.
fn overlay(
    reader: &Reader,
    block: &Block,
    value: Value,
    secrets: &Json,
    path: &str,
) -> Result<Value, FieldError> {
    let given = secrets.as_object().ok_or_else(|| expected(path, "an object", secrets))?;
    let mut fields = match value {
        Value::Fields(fields) => fields,
        _ => match reader.block(block, &Json::Object(Map::new()), path, path.is_empty())? {
            Value::Fields(fields) => fields,
            _ => Fields::new(),
        },
    };
    for (name, json) in given {
        let path = below(path, name);
        let Some(member) = block.members.get(name) else {
            reader.fitting::<()>(Err(wrong(&path, "the provider has no such attribute")))?;
            continue;
        };
        let before = fields.remove(name).unwrap_or(Value::Null);
        let value = reader.fitting(overlay_member(reader, name, member, before, json, &path))?;
        fields.insert(name.clone(), value.unwrap_or_else(|| absent(member)));
    }
    Ok(Value::Fields(fields))
}

fn overlay_member(
    reader: &Reader,
    name: &str,
    member: &Member,
    before: Value,
    json: &Json,
    path: &str,
) -> Result<Value, FieldError> {
    match (&member.shape, json, before) {
        (Shape::Nested(nested), Json::Array(given), Value::Sequence(mut elements))
            if matches!(nested.nesting, Nesting::List | Nesting::Set) && !elements.is_empty() =>
        {
            for (index, json) in given.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if index < elements.len() {
                    let before = std::mem::replace(&mut elements[index], Value::Null);
                    elements[index] = overlay(reader, &nested.block, before, json, &path)?;
                } else {
                    elements.push(reader.block(&nested.block, json, &path, false)?);
                }
            }
            Ok(Value::Sequence(elements))
        }
        (Shape::Nested(nested), Json::Object(_), Value::Sequence(mut before))
            if nested.is_one() && !before.is_empty() =>
        {
            Ok(Value::Sequence(vec![overlay(reader, &nested.block, before.remove(0), json, path)?]))
        }
        (Shape::Nested(nested), Json::Object(_), before @ Value::Fields(_))
            if matches!(nested.nesting, Nesting::Single | Nesting::Group) =>
        {
            overlay(reader, &nested.block, before, json, path)
        }
        (Shape::Nested(nested), Json::Object(given), Value::Fields(mut elements))
            if nested.nesting == Nesting::Map =>
        {
            for (key, json) in given {
                let before = elements.remove(key).unwrap_or(Value::Null);
                let path = below(path, key);
                elements.insert(key.clone(), overlay(reader, &nested.block, before, json, &path)?);
            }
            Ok(Value::Fields(elements))
        }
        _ => reader.member(name, member, json, path, false),
    }
}
