//! rpc-v2-cbor: the part of CBOR (RFC 8949) that AWS uses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::text::expected;
use super::{DecodeError, EncodeError, Request, Response, answer_members};
use crate::model::{Kind, Operation, Shape};
use crate::value::{moment, read_timestamp};

/// Deeper than any model.
const DEPTH: usize = 100;

pub(super) fn request(operation: Operation<'_>, input: &Value) -> Result<Request, EncodeError> {
    let service = operation.service();
    let mut request = Request {
        method: "POST".to_owned(),
        path: format!(
            "/service/{}/operation/{}",
            service.target_prefix().unwrap_or_default(),
            operation.name()
        ),
        headers: vec![
            ("smithy-protocol".to_owned(), "rpc-v2-cbor".to_owned()),
            ("accept".to_owned(), "application/cbor".to_owned()),
        ],
        ..Request::default()
    };
    if let Some(shape) = operation.input() {
        write(shape, input, "", &mut request.body)?;
        request.add_header("content-type", "application/cbor");
    }
    if service.is_query_compatible() {
        request.add_header("x-amzn-query-mode", "true");
    }
    Ok(request)
}

pub(super) fn output(operation: Operation<'_>, response: &Response) -> Result<Value, DecodeError> {
    let Some(shape) = operation.output() else { return Ok(Value::Object(Map::new())) };
    if response.body.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let item = parse(&response.body)
        .ok_or_else(|| DecodeError::Syntax { operation: operation.name().to_owned(), what: "CBOR" })?;
    read(shape, &item, operation)
}

fn head(major: u8, argument: u64, into: &mut Vec<u8>) {
    let major = major << 5;
    match argument {
        0..=23 => into.push(major | argument as u8),
        24..=0xff => into.extend([major | 24, argument as u8]),
        0x100..=0xffff => {
            into.push(major | 25);
            into.extend((argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            into.push(major | 26);
            into.extend((argument as u32).to_be_bytes());
        }
        _ => {
            into.push(major | 27);
            into.extend(argument.to_be_bytes());
        }
    }
}

fn text(text: &str, into: &mut Vec<u8>) {
    head(3, text.len() as u64, into);
    into.extend(text.as_bytes());
}

fn integer(number: i64, into: &mut Vec<u8>) {
    if number < 0 { head(1, !number as u64, into) } else { head(0, number as u64, into) }
}

fn float(number: f64, into: &mut Vec<u8>) {
    into.push(0xfb);
    into.extend(number.to_be_bytes());
}

fn write(shape: Shape<'_>, value: &Value, path: &str, into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let wrong = || EncodeError::Type { path: path.to_owned(), expected: expected(shape.kind()) };
    match (shape.kind(), value) {
        (_, Value::Null) => into.push(0xf6),
        (Kind::Structure | Kind::Union, Value::Object(members)) => {
            let set: Vec<_> = members.iter().filter(|(_, value)| !value.is_null()).collect();
            head(5, set.len() as u64, into);
            for (name, value) in set {
                let path = format!("{path}.{name}");
                let Some(member) = shape.member(name) else {
                    return Err(EncodeError::UnknownMember { path });
                };
                text(member.wire_name(), into);
                write(member.shape(), value, &path, into)?;
            }
        }
        (Kind::List, Value::Array(elements)) => {
            let element = shape.element().ok_or_else(wrong)?.shape();
            head(4, elements.len() as u64, into);
            for (at, value) in elements.iter().enumerate() {
                write(element, value, &format!("{path}[{at}]"), into)?;
            }
        }
        (Kind::Map, Value::Object(entries)) => {
            let of_value = shape.entry().ok_or_else(wrong)?.1.shape();
            head(5, entries.len() as u64, into);
            for (key, value) in entries {
                text(key, into);
                write(of_value, value, &format!("{path}.{key}"), into)?;
            }
        }
        (Kind::String, Value::String(string)) => text(string, into),
        (Kind::Blob, Value::String(string)) => {
            let bytes = STANDARD.decode(string).map_err(|_| wrong())?;
            head(2, bytes.len() as u64, into);
            into.extend(bytes);
        }
        (Kind::Boolean, Value::Bool(truth)) => into.push(if *truth { 0xf5 } else { 0xf4 }),
        (Kind::Integer | Kind::Long, Value::Number(number)) => {
            integer(number.as_i64().ok_or_else(wrong)?, into);
        }
        (Kind::Float | Kind::Double, Value::Number(number)) => {
            float(number.as_f64().ok_or_else(wrong)?, into);
        }
        (Kind::Float | Kind::Double, Value::String(name)) => match name.as_str() {
            "NaN" => float(f64::NAN, into),
            "Infinity" => float(f64::INFINITY, into),
            "-Infinity" => float(f64::NEG_INFINITY, into),
            _ => return Err(wrong()),
        },
        (Kind::Timestamp, value) => {
            let moment = moment(value).ok_or_else(wrong)?;
            head(6, 1, into);
            if moment.subsec_nanosecond() == 0 {
                integer(moment.as_second(), into);
            } else {
                float(moment.as_millisecond() as f64 / 1000.0, into);
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

/// A data item, its tags left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Integer(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Bool(bool),
    Null,
    List(Vec<Item>),
    Map(Vec<(Item, Item)>),
}

impl Item {
    pub fn get(&self, key: &str) -> Option<&Item> {
        let Item::Map(entries) = self else { return None };
        entries.iter().find(|(known, _)| known.as_text() == Some(key)).map(|(_, value)| value)
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Item::Text(text) = self { Some(text) } else { None }
    }
}

pub(super) fn parse(body: &[u8]) -> Option<Item> {
    let mut rest = body;
    let item = Input { rest: &mut rest }.item(0)?;
    rest.is_empty().then_some(item)
}

struct Input<'a, 'b> {
    rest: &'b mut &'a [u8],
}

/// How long a string, list or map is.
enum Length {
    Known(u64),
    /// Up to the break.
    Open,
}

impl<'a> Input<'a, '_> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        *self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        Some(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, info: u8) -> Option<Length> {
        Some(Length::Known(match info {
            0..=23 => u64::from(info),
            24..=27 => self.number(1 << (info - 24))?,
            31 => return Some(Length::Open),
            _ => return None,
        }))
    }

    /// At the break that ends what has no length; it is taken.
    fn at_break(&mut self) -> bool {
        let found = self.rest.first() == Some(&0xff);
        if found {
            self.byte();
        }
        found
    }

    /// Whether another part follows, when `done` are there.
    fn another(&mut self, length: &Length, done: u64) -> bool {
        match length {
            Length::Known(count) => done < *count,
            Length::Open => !self.at_break(),
        }
    }

    fn item(&mut self, depth: usize) -> Option<Item> {
        if depth > DEPTH {
            return None;
        }
        let first = self.byte()?;
        let (major, info) = (first >> 5, first & 31);
        match major {
            0 => match self.length(info)? {
                Length::Known(number) => Some(Item::Integer(i64::try_from(number).ok()?)),
                Length::Open => None,
            },
            1 => match self.length(info)? {
                Length::Known(number) => Some(Item::Integer(!i64::try_from(number).ok()?)),
                Length::Open => None,
            },
            2 => self.bytes(info, 2).map(Item::Bytes),
            3 => String::from_utf8(self.bytes(info, 3)?).ok().map(Item::Text),
            4 => {
                let length = self.length(info)?;
                let mut items = Vec::new();
                while self.another(&length, items.len() as u64) {
                    items.push(self.item(depth + 1)?);
                }
                Some(Item::List(items))
            }
            5 => {
                let length = self.length(info)?;
                let mut entries = Vec::new();
                while self.another(&length, entries.len() as u64) {
                    entries.push((self.item(depth + 1)?, self.item(depth + 1)?));
                }
                Some(Item::Map(entries))
            }
            6 => {
                self.length(info)?;
                self.item(depth + 1)
            }
            _ => self.simple(info),
        }
    }

    /// A string, perhaps in chunks.
    fn bytes(&mut self, info: u8, major: u8) -> Option<Vec<u8>> {
        match self.length(info)? {
            Length::Known(count) => Some(self.take(usize::try_from(count).ok()?)?.to_vec()),
            Length::Open => {
                let mut all = Vec::new();
                while !self.at_break() {
                    let first = self.byte()?;
                    // Chunks are of the same kind, and have lengths.
                    if first >> 5 != major || first & 31 == 31 {
                        return None;
                    }
                    all.extend(self.bytes(first & 31, major)?);
                }
                Some(all)
            }
        }
    }

    fn simple(&mut self, info: u8) -> Option<Item> {
        Some(match info {
            20 => Item::Bool(false),
            21 => Item::Bool(true),
            22 | 23 => Item::Null,
            25 => Item::Float(half(self.number(2)? as u16)),
            26 => Item::Float(f64::from(f32::from_bits(self.number(4)? as u32))),
            27 => Item::Float(f64::from_bits(self.number(8)?)),
            _ => return None,
        })
    }
}

/// A float of 16 bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => sign * f64::INFINITY,
        0x1f => f64::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

pub(super) fn read(shape: Shape<'_>, item: &Item, operation: Operation<'_>) -> Result<Value, DecodeError> {
    let wrong = || DecodeError::Type {
        operation: operation.name().to_owned(),
        path: shape.name().to_owned(),
        expected: expected(shape.kind()),
    };
    Ok(match (shape.kind(), item) {
        (_, Item::Null) => Value::Null,
        (Kind::Structure | Kind::Union, Item::Map(_)) => {
            let mut members = Map::new();
            for member in answer_members(shape) {
                match item.get(member.wire_name()) {
                    None | Some(Item::Null) => {}
                    Some(value) => {
                        members.insert(member.name().to_owned(), read(member.shape(), value, operation)?);
                    }
                }
            }
            Value::Object(members)
        }
        (Kind::List, Item::List(items)) => {
            let element = shape.element().ok_or_else(wrong)?.shape();
            let values = items.iter().map(|item| read(element, item, operation));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        (Kind::Map, Item::Map(entries)) => {
            let of_value = shape.entry().ok_or_else(wrong)?.1.shape();
            let mut values = Map::new();
            for (key, value) in entries {
                let key = key.as_text().ok_or_else(wrong)?.to_owned();
                values.insert(key, read(of_value, value, operation)?);
            }
            Value::Object(values)
        }
        (Kind::String, Item::Text(text)) => text.as_str().into(),
        (Kind::Blob, Item::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Kind::Boolean, Item::Bool(truth)) => (*truth).into(),
        (Kind::Integer | Kind::Long, Item::Integer(number)) => (*number).into(),
        (Kind::Float | Kind::Double, Item::Integer(number)) => (*number as f64).into(),
        (Kind::Float | Kind::Double, Item::Float(number)) => float_value(*number),
        (Kind::Timestamp, Item::Integer(number)) => read_timestamp(&(*number).into()).ok_or_else(wrong)?,
        (Kind::Timestamp, Item::Float(number)) => read_timestamp(&float_value(*number)).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    })
}

fn float_value(number: f64) -> Value {
    match serde_json::Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}
