//! Percent-encoding and the text of scalars in addresses and headers.

use super::EncodeError;
use crate::model::{Kind, Member, Shape, TimestampFormat};
use crate::value::{Value, plain_text, write_timestamp};

/// The bytes that RFC 3986 leaves alone stay; `also` stays too.
pub(super) fn percent_encoded(text: &str, also: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let stays =
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.as_bytes().contains(&byte);
        if stays {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A scalar of a shape as text; `format` is that of timestamps.
pub(super) fn scalar(
    shape: Shape<'_>,
    format: TimestampFormat,
    value: &Value,
    path: &str,
) -> Result<String, EncodeError> {
    let wrong = |expected| EncodeError::Type { path: path.to_owned(), expected };
    match (shape.kind(), value) {
        (Kind::Timestamp, value) => write_timestamp(value, format)
            .and_then(|written| plain_text(&written))
            .ok_or_else(|| wrong("a date and time as in RFC 3339")),
        (Kind::Boolean, Value::Bool(_))
        | (Kind::Integer | Kind::Long | Kind::Float | Kind::Double, Value::Number(_))
        | (Kind::String | Kind::Blob, Value::String(_)) => plain_text(value).ok_or_else(|| wrong("a scalar")),
        (Kind::Float | Kind::Double, Value::String(text))
            if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) =>
        {
            Ok(text.clone())
        }
        (kind, _) => Err(wrong(expected(kind))),
    }
}

/// As [`scalar`], with the format that the member has.
pub(super) fn member_scalar(
    member: Member<'_>,
    default: TimestampFormat,
    value: &Value,
    path: &str,
) -> Result<String, EncodeError> {
    scalar(member.shape(), member.timestamp_format().unwrap_or(default), value, path)
}

/// A scalar of a shape from text; nothing when it is none.
pub(super) fn read_scalar(shape: Shape<'_>, text: &str) -> Option<Value> {
    match shape.kind() {
        Kind::String | Kind::Document => Some(text.into()),
        Kind::Blob => Some(text.chars().filter(|char| !char.is_whitespace()).collect::<String>().into()),
        Kind::Boolean => match text.trim() {
            "true" | "True" | "1" => Some(true.into()),
            "false" | "False" | "0" => Some(false.into()),
            _ => None,
        },
        Kind::Integer | Kind::Long => text.trim().parse::<i64>().ok().map(Value::from),
        Kind::Float | Kind::Double => read_float(text.trim()),
        Kind::Timestamp => crate::value::read_timestamp(&Value::String(text.to_owned())),
        Kind::Structure | Kind::Union | Kind::List | Kind::Map => None,
    }
}

fn read_float(text: &str) -> Option<Value> {
    if ["NaN", "Infinity", "-Infinity"].contains(&text) {
        return Some(text.into());
    }
    serde_json::Number::from_f64(text.parse().ok()?).map(Value::Number)
}

/// What a value of a kind is called in messages.
pub(super) fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Structure | Kind::Union => "an object",
        Kind::List => "a list",
        Kind::Map => "a map",
        Kind::String => "a string",
        Kind::Boolean => "true or false",
        Kind::Integer | Kind::Long => "an integer",
        Kind::Float | Kind::Double => "a number",
        Kind::Blob => "base64 text",
        Kind::Timestamp => "a date and time as in RFC 3339",
        Kind::Document => "JSON",
    }
}
