//! Objects as Kubernetes' own protobuf, which typed clients send and prefer for the built-in kinds.
//!
//! [`decode`] and [`encode`] go between the bytes of a body and a value, led by a [`table`] of messages that
//! `cargo xtask generate protobuf` makes of upstream's types. There is no typed struct in between: what a message
//! says is put into JSON as upstream's structs would put it, so that the rest of the server sees no difference.
//!
//! A body is `k8s\0` and an envelope (`runtime.Unknown`) that says the type of the message within; a watch is a
//! row of [`frame`]s, of which only the object within has that envelope.
//!
//! Not here: custom resources, which have no messages.

mod decode;
mod encode;
mod reader;
pub mod table;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use decode::DecodeError;
pub use encode::EncodeError;
use reader::{Reader, Wire};
use table::{Field, Message, Table};

const MAGIC: &[u8] = b"k8s\0";

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
}

impl<'a> Kind<'a> {
    /// What an object says it is.
    fn of(object: &'a Value) -> Self {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        Kind { api_version: text("apiVersion"), kind: text("kind") }
    }

    fn message(self) -> Result<&'static Message, EncodeError> {
        Table::shared().of_kind(self).ok_or_else(|| self.unknown())
    }

    fn unknown(self) -> EncodeError {
        EncodeError::UnknownKind { api_version: self.api_version.to_owned(), kind: self.kind.to_owned() }
    }
}

/// Whether objects of this type can be protobuf.
pub fn has_message(kind: Kind<'_>) -> bool {
    Table::shared().of_kind(kind).is_some()
}

/// The object in a body. One whose envelope does not say its type is of the expected one.
pub fn decode(body: &[u8], expected: Kind<'_>) -> Result<Value, DecodeError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(DecodeError::NoEnvelope)?;
    let mut reader = Reader::new(envelope);
    let (mut api_version, mut kind, mut raw) = ("", "", [].as_slice());
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => {
                let mut reader = Reader::new(bytes);
                while let Some((number, wire)) = reader.next()? {
                    match (number, wire) {
                        (1, Wire::Bytes(bytes)) => api_version = decode::text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = decode::text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            // The encoding and the type of the content: nobody reads them.
            _ => {}
        }
    }
    if api_version.is_empty() {
        api_version = expected.api_version;
    }
    if kind.is_empty() {
        kind = expected.kind;
    }
    let unknown = || DecodeError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let message = Table::shared().of_kind(Kind { api_version, kind }).ok_or_else(unknown)?;
    let mut members = Map::new();
    members.insert("apiVersion".to_owned(), api_version.into());
    members.insert("kind".to_owned(), kind.into());
    decode::message(message, raw, &mut members, objects::decode::MAX_DEPTH)?;
    Ok(Value::Object(members))
}

/// The body of an object, which says its type.
pub fn encode(object: &Value) -> Result<Vec<u8>, EncodeError> {
    let kind = Kind::of(object);
    let mut raw = Vec::new();
    encode::message(kind.message()?, object, &mut raw)?;
    Ok(enveloped(kind, &raw))
}

fn enveloped(kind: Kind<'_>, raw: &[u8]) -> Vec<u8> {
    let mut body = envelope_begin(kind, raw.len());
    body.reserve(raw.len() + ENVELOPE_END.len());
    body.extend_from_slice(raw);
    body.extend_from_slice(ENVELOPE_END);
    body
}

/// The envelope up to its content, which has this many bytes.
fn envelope_begin(kind: Kind<'_>, content: usize) -> Vec<u8> {
    let mut type_meta = Vec::new();
    encode::bytes(1, kind.api_version.as_bytes(), &mut type_meta);
    encode::bytes(2, kind.kind.as_bytes(), &mut type_meta);
    let mut begin = MAGIC.to_vec();
    encode::bytes(1, &type_meta, &mut begin);
    encode::length(2, content, &mut begin);
    begin
}

/// The rest of an envelope, after its content: the encoding and the type of the content. Upstream writes both though
/// they are empty.
pub const ENVELOPE_END: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// A list that is encoded item by item, so that neither its items nor their encoding is held as a whole.
///
/// The body is the head, then all items, then [`ENVELOPE_END`].
pub struct List {
    message: &'static Message,
    items: &'static Field,
    kind: (String, String),
}

impl List {
    /// `kind` is that of the list.
    pub fn new(kind: Kind<'_>) -> Result<List, EncodeError> {
        let message = kind.message()?;
        let items =
            message.fields.iter().find(|field| field.name == "items").ok_or_else(|| kind.unknown())?;
        Ok(List { message, items, kind: (kind.api_version.to_owned(), kind.kind.to_owned()) })
    }

    /// Appends one item.
    pub fn item(&self, item: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode::item(self.message, self.items, item, out)
    }

    /// What stands before the items: the type and the metadata of the list. The envelope begins with its length, so the
    /// number of bytes of all items has to be known.
    pub fn head(&self, metadata: &Map<String, Value>, items: usize) -> Result<Vec<u8>, EncodeError> {
        let mut raw = Vec::new();
        encode::message(self.message, &serde_json::json!({ "metadata": metadata }), &mut raw)?;
        let kind = Kind { api_version: &self.kind.0, kind: &self.kind.1 };
        let mut head = envelope_begin(kind, raw.len() + items);
        head.append(&mut raw);
        Ok(head)
    }
}

/// One event of a watch: its length in four bytes, then a `WatchEvent` without an envelope around an object with one.
pub fn frame(kind: &str, object: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut extension = Vec::new();
    encode::bytes(1, &encode(object)?, &mut extension);
    let mut event = Vec::new();
    encode::bytes(1, kind.as_bytes(), &mut event);
    encode::bytes(2, &extension, &mut event);
    let length = u32::try_from(event.len()).map_err(|_| EncodeError::TooLarge)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.append(&mut event);
    Ok(frame)
}
