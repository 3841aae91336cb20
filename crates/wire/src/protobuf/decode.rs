//! From a message to the JSON that upstream's struct of it would become.
//!
//! Upstream writes every field that is no pointer, also when it is zero, and pointers only when they are set. JSON
//! leaves most zeros out (`omitempty`), but never what a pointer points to: `replicas: 0` is not a missing `replicas`.
//! The table knows both, so the same is left out here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use objects::decode::Bounds;
use serde_json::{Map, Number, Value};

use super::reader::{Reader, Wire};
use super::table::{Count, Field, Message, Table, Type};

/// Why bytes are no object, in upstream's words where clients can see them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoEnvelope,
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: illegal tag {number} (wire type {wire})")]
    Tag { number: u64, wire: u64 },
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType { field: String, wire: u8 },
    #[error("proto: text is not valid UTF-8")]
    Text,
    #[error("exceeded max depth: messages may nest {} levels deep", objects::decode::MAX_DEPTH)]
    TooDeep,
    #[error("proto: {field}: {why}")]
    Content { field: String, why: String },
}

/// Reads the fields of a message into an object. A message that comes in pieces is put together, as the format says.
pub fn message(
    message: &Message,
    bytes: &[u8],
    members: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        // A field of a newer release: upstream passes over it as well.
        let Some(field) = message.field(number) else { continue };
        let at = At { message: message.name, field };
        match field.count {
            Count::One => at.one(wire, members, depth)?,
            Count::List => at.item(wire, members, depth)?,
            Count::Map => at.entry(wire, members, depth)?,
        }
    }
    Ok(())
}

pub fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::Text)
}

/// A field of a message, which errors name.
struct At<'a> {
    message: &'static str,
    field: &'a Field,
}

impl At<'_> {
    fn one(&self, wire: Wire<'_>, members: &mut Map<String, Value>, depth: usize) -> Result<(), DecodeError> {
        let field = self.field;
        if let Type::Message(number) = field.ty {
            let inner = Table::shared().message(number).ok_or(DecodeError::Truncated)?;
            let bytes = self.bytes(wire)?;
            let depth = deeper(depth)?;
            if field.name.is_empty() {
                return message(inner, bytes, members, depth);
            }
            let Value::Object(within) =
                members.entry(field.name).or_insert_with(|| Value::Object(Map::new()))
            else {
                return Ok(());
            };
            return message(inner, bytes, within, depth);
        }
        let value = self.value(wire, depth)?;
        let hidden = !field.pointer && !field.shown_when_empty && is_empty(field.ty, &value);
        // The last one counts, and may be the one that is not shown.
        if value.is_null() || hidden {
            members.remove(field.name);
        } else {
            members.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    fn item(
        &self,
        wire: Wire<'_>,
        members: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        let depth = deeper(depth)?;
        let list = members.entry(self.field.name).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return Ok(()) };
        // Numbers may come one by one or packed into one field.
        if let (Wire::Bytes(bytes), Type::Bool | Type::Int32 | Type::Int64 | Type::Double) =
            (wire, self.field.ty)
        {
            let mut reader = Reader::new(bytes);
            while !reader.is_empty() {
                let wire = match self.field.ty {
                    Type::Double => Wire::Fixed64(u64::from_le_bytes(reader.array()?)),
                    _ => Wire::Varint(reader.varint()?),
                };
                list.push(self.value(wire, depth)?);
            }
            return Ok(());
        }
        list.push(self.value(wire, depth)?);
        Ok(())
    }

    fn entry(
        &self,
        wire: Wire<'_>,
        members: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        let depth = deeper(depth)?;
        let mut reader = Reader::new(self.bytes(wire)?);
        let (mut key, mut value) = ("", None);
        while let Some((number, wire)) = reader.next()? {
            match number {
                1 => key = text(self.bytes(wire)?)?,
                2 => value = Some(self.value(wire, depth)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.zero(depth)?,
        };
        let map = members.entry(self.field.name).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(map) = map {
            map.insert(key.to_owned(), value);
        }
        Ok(())
    }

    /// What an entry has that was written without a value.
    fn zero(&self, depth: usize) -> Result<Value, DecodeError> {
        let wire = match self.field.ty {
            Type::Bool | Type::Int32 | Type::Int64 => Wire::Varint(0),
            Type::Double => Wire::Fixed64(0),
            _ => Wire::Bytes(&[]),
        };
        self.value(wire, depth)
    }

    /// One value of the field's type. Null where upstream's JSON is null.
    fn value(&self, wire: Wire<'_>, depth: usize) -> Result<Value, DecodeError> {
        Ok(match self.field.ty {
            Type::String => text(self.bytes(wire)?)?.into(),
            Type::Bool => (self.varint(wire)? != 0).into(),
            Type::Int32 => self.int32(wire)?.into(),
            Type::Int64 => self.int64(wire)?.into(),
            Type::Double => match wire {
                Wire::Fixed64(bits) => {
                    number(f64::from_bits(bits)).ok_or_else(|| self.content("not a number"))?
                }
                wire => return Err(self.wire_type(wire)),
            },
            Type::Bytes => STANDARD.encode(self.bytes(wire)?).into(),
            Type::Time => self.time(wire)?.map(objects::time::format).into(),
            Type::MicroTime => self.time(wire)?.map(objects::time::format_micro).into(),
            Type::Quantity => {
                let mut quantity = "0";
                self.within(wire, |number, wire| {
                    if number == 1 {
                        quantity = text(self.bytes(wire)?)?;
                    }
                    Ok(())
                })?;
                quantity.into()
            }
            Type::IntOrString => self.int_or_string(wire)?,
            Type::Json => self.json(wire, depth)?,
            Type::Strings => {
                let mut strings = Vec::new();
                self.within(wire, |number, wire| {
                    if number == 1 {
                        strings.push(text(self.bytes(wire)?)?.into());
                    }
                    Ok(())
                })?;
                Value::Array(strings)
            }
            Type::SchemaOrList(schema) => {
                let form = self.schema_form(wire, schema, depth)?;
                if form.list.is_empty() { form.first.unwrap_or_default() } else { Value::Array(form.list) }
            }
            Type::SchemaOrBool(schema) => {
                let form = self.schema_form(wire, schema, depth)?;
                form.second.unwrap_or_else(|| form.allows.into())
            }
            Type::SchemaOrNames(schema) => {
                let form = self.schema_form(wire, schema, depth)?;
                if form.names.is_empty() { form.first.unwrap_or_default() } else { Value::Array(form.names) }
            }
            Type::Message(number) => {
                let inner = Table::shared().message(number).ok_or(DecodeError::Truncated)?;
                let mut members = Map::new();
                message(inner, self.bytes(wire)?, &mut members, deeper(depth)?)?;
                Value::Object(members)
            }
        })
    }

    /// The fields of a small message that is no object in JSON.
    fn within<'b>(
        &self,
        wire: Wire<'b>,
        mut each: impl FnMut(u32, Wire<'b>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next()? {
            each(number, wire)?;
        }
        Ok(())
    }

    /// None is the time that was never set.
    fn time(&self, wire: Wire<'_>) -> Result<Option<Timestamp>, DecodeError> {
        if self.bytes(wire)?.is_empty() {
            return Ok(None);
        }
        let (mut seconds, mut nanos) = (0, 0);
        self.within(wire, |number, wire| {
            match number {
                1 => seconds = self.int64(wire)?,
                2 => nanos = self.int32(wire)?,
                _ => {}
            }
            Ok(())
        })?;
        let time = Timestamp::new(seconds, nanos).ok();
        time.map(Some).ok_or_else(|| self.content("the time is out of range"))
    }

    fn int_or_string(&self, wire: Wire<'_>) -> Result<Value, DecodeError> {
        let (mut ty, mut int, mut string) = (0, 0, "");
        self.within(wire, |number, wire| {
            match number {
                1 => ty = self.varint(wire)?,
                2 => int = self.int32(wire)?,
                3 => string = text(self.bytes(wire)?)?,
                _ => {}
            }
            Ok(())
        })?;
        match ty {
            0 => Ok(int.into()),
            1 => Ok(string.into()),
            _ => Err(self.content("impossible IntOrString.Type")),
        }
    }

    fn json(&self, wire: Wire<'_>, depth: usize) -> Result<Value, DecodeError> {
        let mut raw: &[u8] = &[];
        self.within(wire, |number, wire| {
            if number == 1 {
                raw = self.bytes(wire)?;
            }
            Ok(())
        })?;
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        let mut deserializer = serde_json::Deserializer::from_slice(raw);
        // What is within adds to the depth of what is around it; nothing in JSON expands.
        let read = objects::decode::tracked(&mut deserializer, Bounds { depth, bytes: usize::MAX });
        let read = read.and_then(|decoded| deserializer.end().map(|()| decoded));
        read.map(|decoded| decoded.value).map_err(|error| self.content(&error.to_string()))
    }

    /// All that the three forms of schemas can have.
    fn schema_form(&self, wire: Wire<'_>, schema: usize, depth: usize) -> Result<SchemaForm, DecodeError> {
        let schema = Table::shared().message(schema).ok_or(DecodeError::Truncated)?;
        let mut form = SchemaForm::default();
        let object = |bytes| {
            let mut members = Map::new();
            message(schema, bytes, &mut members, deeper(depth)?)?;
            Ok(Value::Object(members))
        };
        self.within(wire, |number, wire| {
            match (number, wire, self.field.ty) {
                (1, Wire::Varint(allows), Type::SchemaOrBool(_)) => form.allows = allows != 0,
                (1, Wire::Bytes(bytes), Type::SchemaOrList(_) | Type::SchemaOrNames(_)) => {
                    form.first = Some(object(bytes)?);
                }
                (2, Wire::Bytes(bytes), Type::SchemaOrBool(_)) => form.second = Some(object(bytes)?),
                (2, Wire::Bytes(bytes), Type::SchemaOrList(_)) => form.list.push(object(bytes)?),
                (2, Wire::Bytes(bytes), _) => form.names.push(text(bytes)?.into()),
                (1 | 2, wire, _) => return Err(self.wire_type(wire)),
                _ => {}
            }
            Ok(())
        })?;
        Ok(form)
    }

    fn bytes<'b>(&self, wire: Wire<'b>) -> Result<&'b [u8], DecodeError> {
        match wire {
            Wire::Bytes(bytes) => Ok(bytes),
            wire => Err(self.wire_type(wire)),
        }
    }

    fn varint(&self, wire: Wire<'_>) -> Result<u64, DecodeError> {
        match wire {
            Wire::Varint(value) => Ok(value),
            wire => Err(self.wire_type(wire)),
        }
    }

    fn int64(&self, wire: Wire<'_>) -> Result<i64, DecodeError> {
        Ok(self.varint(wire)?.cast_signed())
    }

    /// The low half, as the format says of numbers that are too large.
    fn int32(&self, wire: Wire<'_>) -> Result<i32, DecodeError> {
        let [a, b, c, d, ..] = self.varint(wire)?.to_le_bytes();
        Ok(i32::from_le_bytes([a, b, c, d]))
    }

    fn wire_type(&self, wire: Wire<'_>) -> DecodeError {
        DecodeError::WireType { field: self.name(), wire: wire.number() }
    }

    fn content(&self, why: &str) -> DecodeError {
        DecodeError::Content { field: self.name(), why: why.to_owned() }
    }

    fn name(&self) -> String {
        format!("{}.{}", self.message, self.field.name)
    }
}

#[derive(Default)]
struct SchemaForm {
    allows: bool,
    first: Option<Value>,
    second: Option<Value>,
    list: Vec<Value>,
    names: Vec<Value>,
}

fn deeper(depth: usize) -> Result<usize, DecodeError> {
    depth.checked_sub(1).ok_or(DecodeError::TooDeep)
}

/// Whether Go's `omitempty` leaves the value out. Structs are never empty to it, a quantity among them.
fn is_empty(ty: Type, value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => ty != Type::IntOrString && number.as_f64() == Some(0.0),
        Value::String(text) => ty != Type::IntOrString && text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Whole numbers without a fraction, as Go writes them.
fn number(value: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        return Some(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number)
}
