//! Values on the wire: MessagePack, led by the type.

use rmp::Marker;
use rmp::encode as write;

use super::{DEEPEST, Fields, Number, Type, Value, ValueError};

/// Extension type of an unknown value about which nothing is promised.
const UNKNOWN: i8 = 0;
/// Extension type of an unknown value with refinements.
const REFINED: i8 = 12;
/// What the refinements of one value may take.
const LARGEST_REFINEMENT: usize = 1024;

impl Value {
    pub fn to_msgpack(&self, ty: &Type) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::with_capacity(256);
        encode(self, ty, &mut out)?;
        Ok(out)
    }

    pub fn from_msgpack(bytes: &[u8], ty: &Type) -> Result<Value, ValueError> {
        let mut reader = Reader { rest: bytes };
        let value = decode(&mut reader, ty, DEEPEST)?;
        match reader.rest.len() {
            0 => Ok(value),
            more => Err(ValueError::new(format!("{more} bytes follow the value"))),
        }
    }
}

/// Writing to memory does not fail.
fn written<T, E>(result: Result<T, E>) -> Result<(), ValueError> {
    result.map(drop).map_err(|_| ValueError::new("the value is too large"))
}

fn length(length: usize) -> Result<u32, ValueError> {
    u32::try_from(length).map_err(|_| ValueError::new("the value is too large"))
}

fn encode(value: &Value, ty: &Type, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let wrong = |expected| Err(ValueError::expected(expected, value.kind()));
    match (ty, value) {
        (_, Value::Null) => written(write::write_nil(out)),
        (_, Value::Unknown(None)) => {
            // As Go writes it: one byte of nothing.
            written(write::write_ext_meta(out, 1, UNKNOWN))?;
            out.push(0);
            Ok(())
        }
        (_, Value::Unknown(Some(refinements))) => {
            written(write::write_ext_meta(out, length(refinements.len())?, REFINED))?;
            out.extend_from_slice(refinements);
            Ok(())
        }
        (Type::Dynamic, Value::Typed(typed)) => {
            let (ty, value) = &**typed;
            written(write::write_array_len(out, 2))?;
            written(write::write_bin(out, ty.to_json().to_string().as_bytes()))?;
            encode(value, ty, out)
        }
        (Type::Dynamic, _) => wrong("a value with its own type"),
        (Type::String, Value::String(text)) => written(write::write_str(out, text)),
        (Type::String, _) => wrong("a string"),
        (Type::Bool, Value::Bool(bool)) => written(write::write_bool(out, *bool)),
        (Type::Bool, _) => wrong("a boolean"),
        (Type::Number, Value::Number(number)) => encode_number(number, out),
        (Type::Number, _) => wrong("a number"),
        (Type::List(element) | Type::Set(element), Value::Sequence(elements)) => {
            written(write::write_array_len(out, length(elements.len())?))?;
            for (index, value) in elements.iter().enumerate() {
                encode(value, element, out).map_err(|error| error.at(index))?;
            }
            Ok(())
        }
        (Type::Tuple(types), Value::Sequence(elements)) => {
            if types.len() != elements.len() {
                return Err(ValueError::new(format!(
                    "expected {} elements, found {}",
                    types.len(),
                    elements.len()
                )));
            }
            written(write::write_array_len(out, length(elements.len())?))?;
            for (index, (value, element)) in elements.iter().zip(types).enumerate() {
                encode(value, element, out).map_err(|error| error.at(index))?;
            }
            Ok(())
        }
        (Type::List(_) | Type::Set(_) | Type::Tuple(_), _) => wrong("a list"),
        (Type::Map(element), Value::Fields(fields)) => {
            written(write::write_map_len(out, length(fields.len())?))?;
            for (key, value) in fields {
                written(write::write_str(out, key))?;
                encode(value, element, out).map_err(|error| error.within(key))?;
            }
            Ok(())
        }
        (Type::Object { attributes, .. }, Value::Fields(fields)) => {
            if let Some(key) = fields.keys().find(|key| !attributes.contains_key(*key)) {
                return Err(ValueError::new(format!("there is no attribute {key:?}")));
            }
            // Every attribute is there on the wire, those that are not set too.
            written(write::write_map_len(out, length(attributes.len())?))?;
            for (name, ty) in attributes {
                written(write::write_str(out, name))?;
                let value = fields.get(name).unwrap_or(&Value::Null);
                encode(value, ty, out).map_err(|error| error.within(name))?;
            }
            Ok(())
        }
        (Type::Map(_) | Type::Object { .. }, _) => wrong("an object"),
    }
}

/// Integers and floats where they are exact, otherwise decimal text: what every provider reads without loss.
fn encode_number(number: &Number, out: &mut Vec<u8>) -> Result<(), ValueError> {
    if let Some(small) = number.as_i64() {
        written(write::write_sint(out, small))
    } else if let Some(large) = number.as_u64() {
        written(write::write_uint(out, large))
    } else if let Some(float) = number.exact_f64() {
        written(write::write_f64(out, float))
    } else {
        written(write::write_str(out, &number.to_string()))
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ValueError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| ValueError::new("the value ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn marker(&mut self) -> Result<Marker, ValueError> {
        Ok(Marker::from_u8(self.array::<1>()?[0]))
    }

    /// A length in so many bytes, of elements that take at least one byte each: it cannot promise more than there is.
    fn length(&mut self, width: usize) -> Result<usize, ValueError> {
        let length = self.take(width)?.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        if length > self.rest.len() {
            return Err(ValueError::new("the value ends too early"));
        }
        Ok(length)
    }

    fn text(&mut self, marker: Marker) -> Result<Option<&'a str>, ValueError> {
        let length = match marker {
            Marker::FixStr(length) => usize::from(length),
            Marker::Str8 => self.length(1)?,
            Marker::Str16 => self.length(2)?,
            Marker::Str32 => self.length(4)?,
            _ => return Ok(None),
        };
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| ValueError::new("a string is not UTF-8"))
    }

    fn array_length(&mut self, marker: Marker) -> Result<usize, ValueError> {
        match marker {
            Marker::FixArray(length) => Ok(usize::from(length)),
            Marker::Array16 => self.length(2),
            Marker::Array32 => self.length(4),
            other => Err(ValueError::expected("a list", marker_name(other))),
        }
    }

    fn map_length(&mut self, marker: Marker) -> Result<usize, ValueError> {
        match marker {
            Marker::FixMap(length) => Ok(usize::from(length)),
            Marker::Map16 => self.length(2),
            Marker::Map32 => self.length(4),
            other => Err(ValueError::expected("an object", marker_name(other))),
        }
    }

    fn key(&mut self) -> Result<&'a str, ValueError> {
        let marker = self.marker()?;
        self.text(marker)?.ok_or_else(|| ValueError::expected("a string as key", marker_name(marker)))
    }

    /// An extension is always an unknown value.
    fn unknown(&mut self, marker: Marker) -> Result<Option<Value>, ValueError> {
        let length = match marker {
            Marker::FixExt1 => 1,
            Marker::FixExt2 => 2,
            Marker::FixExt4 => 4,
            Marker::FixExt8 => 8,
            Marker::FixExt16 => 16,
            Marker::Ext8 => self.length(1)?,
            Marker::Ext16 => self.length(2)?,
            Marker::Ext32 => self.length(4)?,
            _ => return Ok(None),
        };
        let [kind] = self.array()?;
        let payload = self.take(length)?;
        if kind != REFINED.cast_unsigned() || payload.len() > LARGEST_REFINEMENT {
            // Refinements are promises; one that is not kept is only one that nobody hears of.
            return Ok(Some(Value::Unknown(None)));
        }
        Ok(Some(Value::Unknown(Some(payload.into()))))
    }

    fn number(&mut self, marker: Marker) -> Result<Number, ValueError> {
        let float = |float| {
            Number::from_f64(float).ok_or_else(|| ValueError::new("a number is infinite or not a number"))
        };
        match marker {
            Marker::FixPos(number) => Ok(i64::from(number).into()),
            Marker::FixNeg(number) => Ok(i64::from(number).into()),
            Marker::U8 => Ok(i64::from(u8::from_be_bytes(self.array()?)).into()),
            Marker::U16 => Ok(i64::from(u16::from_be_bytes(self.array()?)).into()),
            Marker::U32 => Ok(i64::from(u32::from_be_bytes(self.array()?)).into()),
            Marker::U64 => Ok(u64::from_be_bytes(self.array()?).into()),
            Marker::I8 => Ok(i64::from(i8::from_be_bytes(self.array()?)).into()),
            Marker::I16 => Ok(i64::from(i16::from_be_bytes(self.array()?)).into()),
            Marker::I32 => Ok(i64::from(i32::from_be_bytes(self.array()?)).into()),
            Marker::I64 => Ok(i64::from_be_bytes(self.array()?).into()),
            // By way of its text: the float that prints as 0.1 means 0.1.
            Marker::F32 => {
                let float = f32::from_be_bytes(self.array()?);
                Number::parse(&format!("{float:e}"))
                    .ok_or_else(|| ValueError::new("a number is infinite or not a number"))
            }
            Marker::F64 => float(f64::from_be_bytes(self.array()?)),
            other => match self.text(other)? {
                Some(text) => {
                    Number::parse(text).ok_or_else(|| ValueError::expected("a number", "other text"))
                }
                None => Err(ValueError::expected("a number", marker_name(other))),
            },
        }
    }
}

fn decode(reader: &mut Reader<'_>, ty: &Type, depth: usize) -> Result<Value, ValueError> {
    let depth = depth.checked_sub(1).ok_or_else(|| ValueError::new("the value is nested too deeply"))?;
    let marker = reader.marker()?;
    if marker == Marker::Null {
        return Ok(Value::Null);
    }
    if let Some(unknown) = reader.unknown(marker)? {
        return Ok(unknown);
    }
    match ty {
        Type::String => match reader.text(marker)? {
            Some(text) => Ok(Value::String(text.to_owned())),
            None => Err(ValueError::expected("a string", marker_name(marker))),
        },
        Type::Bool => match marker {
            Marker::True => Ok(Value::Bool(true)),
            Marker::False => Ok(Value::Bool(false)),
            other => Err(ValueError::expected("a boolean", marker_name(other))),
        },
        Type::Number => reader.number(marker).map(Value::Number),
        Type::List(element) | Type::Set(element) => {
            let length = reader.array_length(marker)?;
            let elements: Vec<Value> = (0..length)
                .map(|index| decode(reader, element, depth).map_err(|error| error.at(index)))
                .collect::<Result<_, _>>()?;
            Ok(if matches!(ty, Type::Set(_)) { Value::set(elements) } else { Value::Sequence(elements) })
        }
        Type::Tuple(types) => {
            let length = reader.array_length(marker)?;
            if length != types.len() {
                return Err(ValueError::new(format!("expected {} elements, found {length}", types.len())));
            }
            let elements = types.iter().enumerate();
            let elements = elements.map(|(index, ty)| decode(reader, ty, depth).map_err(|e| e.at(index)));
            Ok(Value::Sequence(elements.collect::<Result<_, _>>()?))
        }
        Type::Map(element) => {
            let mut fields = Fields::new();
            for _ in 0..reader.map_length(marker)? {
                let key = reader.key()?;
                let value = decode(reader, element, depth).map_err(|error| error.within(key))?;
                fields.insert(key.to_owned(), value);
            }
            Ok(Value::Fields(fields))
        }
        Type::Object { attributes, .. } => {
            let mut fields = Fields::new();
            for _ in 0..reader.map_length(marker)? {
                let key = reader.key()?;
                let ty = attributes
                    .get(key)
                    .ok_or_else(|| ValueError::new(format!("there is no attribute {key:?}")))?;
                let value = decode(reader, ty, depth).map_err(|error| error.within(key))?;
                fields.insert(key.to_owned(), value);
            }
            // An object always has all of its attributes.
            for name in attributes.keys() {
                if !fields.contains_key(name) {
                    fields.insert(name.clone(), Value::Null);
                }
            }
            Ok(Value::Fields(fields))
        }
        Type::Dynamic => {
            if reader.array_length(marker)? != 2 {
                return Err(ValueError::expected("a type and a value", "a list"));
            }
            let marker = reader.marker()?;
            let ty = match marker {
                Marker::Bin8 => reader.length(1).and_then(|length| reader.take(length))?,
                Marker::Bin16 => reader.length(2).and_then(|length| reader.take(length))?,
                Marker::Bin32 => reader.length(4).and_then(|length| reader.take(length))?,
                other => reader
                    .text(other)?
                    .ok_or_else(|| ValueError::expected("a type", marker_name(other)))?
                    .as_bytes(),
            };
            let ty = Type::parse(ty).map_err(|error| ValueError::new(error.to_string()))?;
            let value = decode(reader, &ty, depth)?;
            Ok(match value {
                // Of no use without a value; both forms mean the same.
                Value::Null | Value::Unknown(_) if ty == Type::Dynamic => value,
                value => Value::Typed(Box::new((ty, value))),
            })
        }
    }
}

fn marker_name(marker: Marker) -> &'static str {
    match marker {
        Marker::Null => "null",
        Marker::True | Marker::False => "a boolean",
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => "a string",
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => "a list",
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => "an object",
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => "bytes",
        Marker::Reserved => "a byte that means nothing",
        _ => "a number",
    }
}
