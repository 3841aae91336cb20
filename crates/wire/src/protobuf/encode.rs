//! From JSON to a message: what the table has a field for is written, what it has not is left behind.
//!
//! Upstream also writes the zeros that JSON left out. To whoever reads a message they are there either way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::table::{Count, Field, Message, Table, Type};

/// Why an object cannot be a message. Objects that fit their schema can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("{kind} of {api_version:?} has no protobuf message")]
    UnknownKind { api_version: String, kind: String },
    #[error("{field} cannot be encoded as protobuf")]
    Mismatch { field: String },
    #[error("an object is too large to be encoded as protobuf")]
    TooLarge,
}

/// Writes the fields that an object has.
pub fn message(message: &Message, object: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    for field in &message.fields {
        let given = match field.name {
            "" => inline(field, object, out),
            name => match object.get(name) {
                None | Some(Value::Null) => continue,
                Some(given) => write(field, given, out),
            },
        };
        given.map_err(|failed| failed.at(message, field))?;
    }
    Ok(())
}

/// Writes one more item of a field that is a list.
pub fn item(message: &Message, field: &Field, item: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    value(field.number, field.ty, item, out).map_err(|failed| failed.at(message, field))
}

/// A value that does not fit its field, or one further within.
enum Failed {
    Here,
    Within(EncodeError),
}

impl Failed {
    fn at(self, message: &Message, field: &Field) -> EncodeError {
        match self {
            Failed::Here => EncodeError::Mismatch { field: format!("{}.{}", message.name, field.name) },
            Failed::Within(error) => error,
        }
    }
}

impl From<EncodeError> for Failed {
    fn from(error: EncodeError) -> Self {
        Failed::Within(error)
    }
}

/// A message whose members stand in the parent; not written where there are none.
fn inline(field: &Field, object: &Value, out: &mut Vec<u8>) -> Result<(), Failed> {
    let mut within = Vec::new();
    write_message(field.ty, object, &mut within)?;
    if !within.is_empty() {
        bytes(field.number, &within, out);
    }
    Ok(())
}

fn write(field: &Field, given: &Value, out: &mut Vec<u8>) -> Result<(), Failed> {
    match field.count {
        Count::One => value(field.number, field.ty, given, out),
        Count::List => {
            let items = given.as_array().ok_or(Failed::Here)?;
            items.iter().try_for_each(|item| value(field.number, field.ty, item, out))
        }
        Count::Map => {
            for (key, item) in given.as_object().ok_or(Failed::Here)? {
                let mut entry = Vec::new();
                bytes(1, key.as_bytes(), &mut entry);
                value(2, field.ty, item, &mut entry)?;
                bytes(field.number, &entry, out);
            }
            Ok(())
        }
    }
}

/// One value, with its key.
fn value(number: u32, ty: Type, given: &Value, out: &mut Vec<u8>) -> Result<(), Failed> {
    let text = || given.as_str().ok_or(Failed::Here);
    match ty {
        Type::String => bytes(number, text()?.as_bytes(), out),
        Type::Bool => varint(number, u64::from(given.as_bool().ok_or(Failed::Here)?), out),
        Type::Int32 => {
            let value = given.as_i64().and_then(|value| i32::try_from(value).ok()).ok_or(Failed::Here)?;
            signed(number, value.into(), out);
        }
        Type::Int64 => signed(number, given.as_i64().ok_or(Failed::Here)?, out),
        Type::Double => {
            key(number, 1, out);
            out.extend(given.as_f64().ok_or(Failed::Here)?.to_le_bytes());
        }
        Type::Bytes => bytes(number, &STANDARD.decode(text()?).map_err(|_| Failed::Here)?, out),
        _ => {
            let mut within = Vec::new();
            write_message(ty, given, &mut within)?;
            bytes(number, &within, out);
        }
    }
    Ok(())
}

/// The content of a value that is a message on the wire, whatever it is in JSON.
fn write_message(ty: Type, given: &Value, out: &mut Vec<u8>) -> Result<(), Failed> {
    let text = || given.as_str().ok_or(Failed::Here);
    match (ty, given) {
        (Type::Message(number), Value::Object(_)) => {
            let inner = Table::shared().message(number).ok_or(Failed::Here)?;
            message(inner, given, out)?;
        }
        (Type::Time | Type::MicroTime, Value::Null) => {}
        (Type::Time | Type::MicroTime, _) => {
            let time = objects::time::parse(text()?).map_err(|_| Failed::Here)?;
            // Before 1970 a fraction still counts forward from the second.
            let nanos = time.subsec_nanosecond();
            let (seconds, nanos) = match nanos {
                ..0 => (time.as_second() - 1, nanos + 1_000_000_000),
                _ => (time.as_second(), nanos),
            };
            signed(1, seconds, out);
            signed(2, if ty == Type::Time { 0 } else { nanos.into() }, out);
        }
        (Type::Quantity, Value::String(text)) => bytes(1, text.as_bytes(), out),
        // `cpu: 1` is as good as `cpu: "1"`.
        (Type::Quantity, Value::Number(number)) => bytes(1, number.to_string().as_bytes(), out),
        (Type::IntOrString, Value::String(text)) => {
            signed(1, 1, out);
            signed(2, 0, out);
            bytes(3, text.as_bytes(), out);
        }
        (Type::IntOrString, Value::Number(number)) => {
            let value = number.as_i64().and_then(|value| i32::try_from(value).ok()).ok_or(Failed::Here)?;
            signed(1, 0, out);
            signed(2, value.into(), out);
            bytes(3, &[], out);
        }
        (Type::Json, given) => bytes(1, given.to_string().as_bytes(), out),
        (Type::Strings, Value::Array(items)) => strings(1, items, out)?,
        (Type::SchemaOrBool(_), Value::Bool(allows)) => varint(1, u64::from(*allows), out),
        (Type::SchemaOrBool(schema), Value::Object(_)) => {
            varint(1, 1, out);
            value(2, Type::Message(schema), given, out)?;
        }
        (Type::SchemaOrList(schema) | Type::SchemaOrNames(schema), Value::Object(_)) => {
            value(1, Type::Message(schema), given, out)?;
        }
        (Type::SchemaOrList(schema), Value::Array(items)) => {
            items.iter().try_for_each(|item| value(2, Type::Message(schema), item, out))?;
        }
        (Type::SchemaOrNames(_), Value::Array(items)) => strings(2, items, out)?,
        _ => return Err(Failed::Here),
    }
    Ok(())
}

fn strings(number: u32, items: &[Value], out: &mut Vec<u8>) -> Result<(), Failed> {
    items.iter().try_for_each(|item| value(number, Type::String, item, out))
}

pub fn bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    length(number, content.len(), out);
    out.extend_from_slice(content);
}

/// The beginning of a field of bytes: its key and its length.
pub fn length(number: u32, content: usize, out: &mut Vec<u8>) {
    key(number, 2, out);
    raw_varint(content as u64, out);
}

fn signed(number: u32, value: i64, out: &mut Vec<u8>) {
    varint(number, value.cast_unsigned(), out);
}

fn varint(number: u32, value: u64, out: &mut Vec<u8>) {
    key(number, 0, out);
    raw_varint(value, out);
}

fn key(number: u32, wire: u8, out: &mut Vec<u8>) {
    raw_varint(u64::from(number) << 3 | u64::from(wire), out);
}

fn raw_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
