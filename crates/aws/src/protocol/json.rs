//! json 1.0 and 1.1, and JSON bodies of rest-json.

use serde_json::{Map, Value};

use super::text::expected;
use super::{DecodeError, EncodeError, Request, Response, answer_members};
use crate::model::{Kind, Member, Operation, Shape, TimestampFormat};
use crate::value::{read_timestamp, write_timestamp};

pub(super) fn request(operation: Operation<'_>, input: &Value) -> Result<Request, EncodeError> {
    let service = operation.service();
    let body = match operation.input() {
        Some(shape) => write(shape, None, input, "")?,
        None => Value::Object(Map::new()),
    };
    let version = service.json_version().unwrap_or("1.0");
    let target = format!("{}.{}", service.target_prefix().unwrap_or_default(), operation.name());
    let mut request = Request {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers: vec![
            ("content-type".to_owned(), format!("application/x-amz-json-{version}")),
            ("x-amz-target".to_owned(), target),
        ],
        body: body.to_string().into_bytes(),
        ..Request::default()
    };
    if service.is_query_compatible() {
        request.add_header("x-amzn-query-mode", "true");
    }
    Ok(request)
}

pub(super) fn output(operation: Operation<'_>, response: &Response) -> Result<Value, DecodeError> {
    let Some(shape) = operation.output() else { return Ok(Value::Object(Map::new())) };
    read(shape, &parse(operation, &response.body)?, operation)
}

/// A body as JSON; an empty one is an empty object.
pub(super) fn parse(operation: Operation<'_>, body: &[u8]) -> Result<Value, DecodeError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(body)
        .map_err(|_| DecodeError::Syntax { operation: operation.name().to_owned(), what: "JSON" })
}

/// A value as it is on the wire. `format` is that of the member, for timestamps.
pub(super) fn write(
    shape: Shape<'_>,
    format: Option<TimestampFormat>,
    value: &Value,
    path: &str,
) -> Result<Value, EncodeError> {
    let wrong = || EncodeError::Type { path: path.to_owned(), expected: expected(shape.kind()) };
    match (shape.kind(), value) {
        (_, Value::Null) => Ok(Value::Null),
        (Kind::Structure | Kind::Union, Value::Object(members)) => {
            let mut written = Map::new();
            for (name, value) in members {
                let path = join(path, name);
                let Some(member) = shape.member(name) else {
                    return Err(EncodeError::UnknownMember { path });
                };
                // Members that travel elsewhere are not the body's.
                if member.location().is_some() || value.is_null() {
                    continue;
                }
                written.insert(member.wire_name().to_owned(), write_member(member, value, &path)?);
            }
            Ok(Value::Object(written))
        }
        (Kind::List, Value::Array(elements)) => {
            let element = shape.element().ok_or_else(wrong)?;
            let written = elements
                .iter()
                .enumerate()
                .map(|(at, value)| write_member(element, value, &format!("{path}[{at}]")));
            Ok(Value::Array(written.collect::<Result<_, _>>()?))
        }
        (Kind::Map, Value::Object(entries)) => {
            let (_, value_member) = shape.entry().ok_or_else(wrong)?;
            let written = entries
                .iter()
                .map(|(key, value)| Ok((key.clone(), write_member(value_member, value, &join(path, key))?)));
            Ok(Value::Object(written.collect::<Result<_, EncodeError>>()?))
        }
        (Kind::Timestamp, value) => {
            let format = format.or(shape.timestamp_format()).unwrap_or(TimestampFormat::UnixTimestamp);
            write_timestamp(value, format).ok_or_else(wrong)
        }
        (Kind::Document, value) => Ok(value.clone()),
        (Kind::String | Kind::Blob, Value::String(_))
        | (Kind::Boolean, Value::Bool(_))
        | (Kind::Integer | Kind::Long | Kind::Float | Kind::Double, Value::Number(_)) => Ok(value.clone()),
        (Kind::Float | Kind::Double, Value::String(text))
            if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) =>
        {
            Ok(value.clone())
        }
        _ => Err(wrong()),
    }
}

fn write_member(member: Member<'_>, value: &Value, path: &str) -> Result<Value, EncodeError> {
    write(member.shape(), member.timestamp_format(), value, path)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A value from the wire, by the names of the model. What the model does not know is left out.
pub(super) fn read(shape: Shape<'_>, wire: &Value, operation: Operation<'_>) -> Result<Value, DecodeError> {
    let wrong = || DecodeError::Type {
        operation: operation.name().to_owned(),
        path: shape.name().to_owned(),
        expected: expected(shape.kind()),
    };
    match (shape.kind(), wire) {
        (_, Value::Null) => Ok(Value::Null),
        (Kind::Structure | Kind::Union, Value::Object(members)) => {
            let mut read_members = Map::new();
            for member in answer_members(shape) {
                match members.get(member.wire_name()) {
                    None | Some(Value::Null) => {}
                    Some(value) => {
                        let value = read(member.shape(), value, operation)?;
                        read_members.insert(member.name().to_owned(), value);
                    }
                }
            }
            Ok(Value::Object(read_members))
        }
        (Kind::List, Value::Array(elements)) => {
            let element = shape.element().ok_or_else(wrong)?.shape();
            let elements = elements.iter().map(|value| read(element, value, operation));
            Ok(Value::Array(elements.collect::<Result<_, _>>()?))
        }
        (Kind::Map, Value::Object(entries)) => {
            let value_shape = shape.entry().ok_or_else(wrong)?.1.shape();
            let entries =
                entries.iter().map(|(key, value)| Ok((key.clone(), read(value_shape, value, operation)?)));
            Ok(Value::Object(entries.collect::<Result<_, DecodeError>>()?))
        }
        (Kind::Timestamp, value) => read_timestamp(value).ok_or_else(wrong),
        (Kind::Document, value) => Ok(value.clone()),
        // Services are lax about the types of scalars; the model's type is what the caller sees.
        (Kind::String, Value::Number(_) | Value::Bool(_)) => Ok(Value::String(wire.to_string())),
        (Kind::Integer | Kind::Long, Value::Number(number)) if number.is_f64() => Ok(number
            .as_f64()
            .filter(|float| float.fract() == 0.0)
            .map_or(wire.clone(), |float| (float as i64).into())),
        (_, Value::String(text)) => super::text::read_scalar(shape, text).ok_or_else(wrong),
        (Kind::Boolean, Value::Bool(_))
        | (Kind::Integer | Kind::Long | Kind::Float | Kind::Double, Value::Number(_)) => Ok(wire.clone()),
        _ => Err(wrong()),
    }
}
