//! Values at rest: the JSON of Terraform's state files, led by the type, exact in its numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;

use serde_json::value::RawValue;

use super::{DEEPEST, Fields, Number, Type, Value, ValueError};

impl Value {
    /// Fails on what is unknown: state holds what is.
    pub fn to_state_json(&self, ty: &Type) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::with_capacity(256);
        encode(self, ty, &mut out)?;
        Ok(out)
    }

    pub fn from_state_json(bytes: &[u8], ty: &Type) -> Result<Value, ValueError> {
        let raw: &RawValue = serde_json::from_slice(bytes).map_err(not_json)?;
        decode(raw, ty, DEEPEST)
    }
}

fn not_json(error: serde_json::Error) -> ValueError {
    ValueError::new(format!("not the JSON that was expected: {error}"))
}

fn text(text: &str, out: &mut Vec<u8>) -> Result<(), ValueError> {
    serde_json::to_writer(out, text).map_err(not_json)
}

fn encode(value: &Value, ty: &Type, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let wrong = |expected| Err(ValueError::expected(expected, value.kind()));
    match (ty, value) {
        (_, Value::Null) => out.extend_from_slice(b"null"),
        (_, Value::Unknown(_)) => return wrong("a known value"),
        (Type::Dynamic, Value::Typed(typed)) => {
            out.extend_from_slice(b"{\"value\":");
            encode(&typed.1, &typed.0, out)?;
            out.extend_from_slice(b",\"type\":");
            out.extend_from_slice(typed.0.to_json().to_string().as_bytes());
            out.push(b'}');
        }
        (Type::Dynamic, _) => return wrong("a value with its own type"),
        (Type::String, Value::String(string)) => text(string, out)?,
        (Type::Bool, Value::Bool(bool)) => out.extend_from_slice(if *bool { b"true" } else { b"false" }),
        (Type::Number, Value::Number(number)) => {
            write!(out, "{number}").map_err(|_| ValueError::new("the value is too large"))?;
        }
        (Type::List(element) | Type::Set(element), Value::Sequence(elements)) => {
            let elements = elements.iter().map(|value| (value, &**element));
            sequence(elements, out)?;
        }
        (Type::Tuple(types), Value::Sequence(elements)) if types.len() == elements.len() => {
            sequence(elements.iter().zip(types), out)?;
        }
        (Type::Map(element), Value::Fields(fields)) => {
            object(fields.iter().map(|(key, value)| (key, value, &**element)), out)?;
        }
        (Type::Object { attributes, .. }, Value::Fields(fields)) => {
            if let Some(key) = fields.keys().find(|key| !attributes.contains_key(*key)) {
                return Err(ValueError::new(format!("there is no attribute {key:?}")));
            }
            let all =
                attributes.iter().map(|(name, ty)| (name, fields.get(name).unwrap_or(&Value::Null), ty));
            object(all, out)?;
        }
        (Type::String, _) => return wrong("a string"),
        (Type::Bool, _) => return wrong("a boolean"),
        (Type::Number, _) => return wrong("a number"),
        (Type::List(_) | Type::Set(_) | Type::Tuple(_), _) => return wrong("a list"),
        (Type::Map(_) | Type::Object { .. }, _) => return wrong("an object"),
    }
    Ok(())
}

fn sequence<'a>(
    elements: impl Iterator<Item = (&'a Value, &'a Type)>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    out.push(b'[');
    for (index, (value, ty)) in elements.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        encode(value, ty, out).map_err(|error| error.at(index))?;
    }
    out.push(b']');
    Ok(())
}

fn object<'a>(
    fields: impl Iterator<Item = (&'a String, &'a Value, &'a Type)>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    out.push(b'{');
    for (index, (key, value, ty)) in fields.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        text(key, out)?;
        out.push(b':');
        encode(value, ty, out).map_err(|error| error.within(key))?;
    }
    out.push(b'}');
    Ok(())
}

/// Without looking into the values: numbers keep their digits that way.
fn fields_of(raw: &RawValue) -> Result<BTreeMap<Cow<'_, str>, &RawValue>, ValueError> {
    serde_json::from_str(raw.get()).map_err(|_| ValueError::expected("an object", kind_of(raw)))
}

fn elements_of(raw: &RawValue) -> Result<Vec<&RawValue>, ValueError> {
    serde_json::from_str(raw.get()).map_err(|_| ValueError::expected("a list", kind_of(raw)))
}

fn kind_of(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'[') => "a list",
        Some(b'{') => "an object",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

fn decode(raw: &RawValue, ty: &Type, depth: usize) -> Result<Value, ValueError> {
    let depth = depth.checked_sub(1).ok_or_else(|| ValueError::new("the value is nested too deeply"))?;
    let wrong = |expected| Err(ValueError::expected(expected, kind_of(raw)));
    if raw.get() == "null" {
        return Ok(Value::Null);
    }
    match ty {
        Type::String => match serde_json::from_str::<String>(raw.get()) {
            Ok(string) => Ok(Value::String(string)),
            Err(_) => wrong("a string"),
        },
        Type::Bool => match raw.get() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => wrong("a boolean"),
        },
        Type::Number => {
            // Very large ones are also written as text.
            let text = raw.get().trim_matches('"');
            Number::parse(text).map(Value::Number).map_or_else(|| wrong("a number"), Ok)
        }
        Type::List(element) | Type::Set(element) => {
            let elements = elements_of(raw)?.into_iter().enumerate();
            let elements: Vec<Value> = elements
                .map(|(index, value)| decode(value, element, depth).map_err(|error| error.at(index)))
                .collect::<Result<_, _>>()?;
            Ok(if matches!(ty, Type::Set(_)) { Value::set(elements) } else { Value::Sequence(elements) })
        }
        Type::Tuple(types) => {
            let elements = elements_of(raw)?;
            if elements.len() != types.len() {
                let found = elements.len();
                return Err(ValueError::new(format!("expected {} elements, found {found}", types.len())));
            }
            let elements = elements.into_iter().zip(types).enumerate();
            let elements = elements.map(|(i, (value, ty))| decode(value, ty, depth).map_err(|e| e.at(i)));
            Ok(Value::Sequence(elements.collect::<Result<_, _>>()?))
        }
        Type::Map(element) => {
            let fields = fields_of(raw)?.into_iter().map(|(key, value)| {
                let value = decode(value, element, depth).map_err(|error| error.within(&key))?;
                Ok((key.into_owned(), value))
            });
            Ok(Value::Fields(fields.collect::<Result<_, ValueError>>()?))
        }
        Type::Object { attributes, .. } => {
            let found = fields_of(raw)?;
            if let Some(key) = found.keys().find(|key| !attributes.contains_key(key.as_ref())) {
                return Err(ValueError::new(format!("there is no attribute {key:?}")));
            }
            let mut fields = Fields::new();
            for (name, ty) in attributes {
                let value = match found.get(name.as_str()) {
                    Some(value) => decode(value, ty, depth).map_err(|error| error.within(name))?,
                    None => Value::Null,
                };
                fields.insert(name.clone(), value);
            }
            Ok(Value::Fields(fields))
        }
        Type::Dynamic => {
            let fields = fields_of(raw)?;
            let (Some(value), Some(ty)) = (fields.get("value"), fields.get("type")) else {
                return wrong("an object with value and type");
            };
            let ty = Type::parse(ty.get().as_bytes()).map_err(|error| ValueError::new(error.to_string()))?;
            Ok(match decode(value, &ty, depth)? {
                Value::Null if ty == Type::Dynamic => Value::Null,
                value => Value::Typed(Box::new((ty, value))),
            })
        }
    }
}
