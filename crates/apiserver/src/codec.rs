//! Objects as they lie in the store: the bytes that are served, and a small header.
//!
//! `resourceVersion` is only known when a write has committed, so the stored JSON has an empty
//! `"resourceVersion":""` and the header says where; serving an object copies its bytes and puts the
//! revision in between. Kinds that hold secrets are sealed with the server's data key.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;
use store::{Key, Revision};

const PLAIN: u8 = 1;
const SEALED: u8 = 2;
/// Format, schema tag, offset of the revision.
const HEADER: usize = 1 + 4 + 4;

/// Storage types whose values are sealed: secrets themselves, and the server's own keys.
const SEALED_KINDS: [&str; 2] = ["secrets", crate::control_plane::PKI_KIND];

/// Names the schema an object was last pruned and defaulted by; an object with another tag than its type has
/// now is brought up to date when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaTag(pub u32);

impl SchemaTag {
    /// Of no schema that is known here: readers look again.
    pub const UNKNOWN: SchemaTag = SchemaTag(u32::MAX);
}

#[derive(thiserror::Error, Debug)]
pub enum CodecError {
    #[error("the stored value of {0:?} is damaged")]
    Damaged(Key),
    #[error("the stored value of {0:?} cannot be opened with this data key")]
    WrongKey(Key),
    #[error("an object must be a JSON object")]
    NotAnObject,
}

/// An object as it is stored, ready to be served.
#[derive(Clone, Debug)]
pub struct Stored {
    json: Bytes,
    offset: usize,
    pub tag: SchemaTag,
    pub revision: Revision,
}

impl Stored {
    /// The bytes a client sees.
    pub fn write_to(&self, out: &mut BytesMut) {
        out.reserve(self.json.len() + 20);
        out.put_slice(&self.json[..self.offset]);
        let mut digits = [0u8; 20];
        out.put_slice(decimal(self.revision.0, &mut digits));
        out.put_slice(&self.json[self.offset..]);
    }

    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.json.len() + 20);
        self.write_to(&mut out);
        out.freeze()
    }

    /// The stored JSON itself, its `resourceVersion` empty: for readers that look at parts of it.
    pub fn raw(&self) -> &Bytes {
        &self.json
    }

    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        let mut value: Value = serde_json::from_slice(&self.json)?;
        objects::meta::set(&mut value, "resourceVersion", self.revision.to_string());
        Ok(value)
    }

    /// Whether the object is stored as this `apiVersion`. The first member of every stored object is its
    /// `apiVersion` (members are sorted, and no object has one that sorts before it at the top).
    pub fn has_api_version(&self, api_version: &str) -> bool {
        let Some(rest) = self.json.strip_prefix(br#"{"apiVersion":""#.as_slice()) else { return false };
        rest.len() > api_version.len()
            && &rest[..api_version.len()] == api_version.as_bytes()
            && rest[api_version.len()] == b'"'
    }
}

fn decimal(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

/// Turns objects into stored bytes and back.
#[derive(Clone)]
pub struct Codec {
    data_key: Arc<RandomizedNonceKey>,
}

impl Codec {
    /// `data_key` seals what is secret at rest.
    pub fn new(data_key: &[u8; 32]) -> Self {
        let key = RandomizedNonceKey::new(&AES_256_GCM, data_key);
        // The length of the key is right by type, which is the only way this can fail.
        Codec { data_key: Arc::new(key.unwrap_or_else(|_| unreachable!("a 32-byte key fits AES-256"))) }
    }

    pub fn encode(&self, key: &Key, object: &Value, tag: SchemaTag) -> Result<Bytes, CodecError> {
        let (json, offset) = to_json(object)?;
        Ok(self.wrap(key, json, offset, tag))
    }

    /// Bytes of the server's own, which are no objects and have no revision in them.
    pub fn encode_raw(&self, key: &Key, bytes: &[u8]) -> Bytes {
        self.wrap(key, bytes.to_vec(), 0, SchemaTag::default())
    }

    fn wrap(&self, key: &Key, mut json: Vec<u8>, offset: usize, tag: SchemaTag) -> Bytes {
        let sealed = SEALED_KINDS.contains(&key.kind.as_str());
        let mut out = BytesMut::with_capacity(HEADER + NONCE_LEN + json.len() + 16);
        out.put_u8(if sealed { SEALED } else { PLAIN });
        out.put_u32(tag.0);
        out.put_u32(offset as u32);
        if sealed {
            // Sealing fails only for inputs of more than 64 GB.
            if let Ok(nonce) = self.data_key.seal_in_place_append_tag(Aad::from(aad(key)), &mut json) {
                out.put_slice(nonce.as_ref());
            }
        }
        out.put_slice(&json);
        out.freeze()
    }

    /// A stored value as it is kept under no key: what a sealed one holds, for who may take it out of this store.
    pub fn opened(&self, key: &Key, value: &Bytes) -> Result<Bytes, CodecError> {
        if value.first() != Some(&SEALED) {
            return Ok(value.clone());
        }
        let stored = self.decode(key, value, Revision::default())?;
        Ok(plain(&stored.json, stored.offset, stored.tag))
    }

    /// An object in the same form.
    pub fn open(object: &Value, tag: SchemaTag) -> Result<Bytes, CodecError> {
        let (json, offset) = to_json(object)?;
        Ok(plain(&json, offset, tag))
    }

    /// The other way: what came from elsewhere as this store keeps it.
    pub fn closed(&self, key: &Key, value: &Bytes) -> Result<Bytes, CodecError> {
        let sealed = SEALED_KINDS.contains(&key.kind.as_str());
        // Rows of the server's own, such as those of the index of owners, are no objects.
        if !sealed && key.kind.starts_with('_') {
            return Ok(value.clone());
        }
        let stored = self.decode(key, value, Revision::default())?;
        if !sealed {
            return Ok(value.clone());
        }
        Ok(self.wrap(key, stored.json.to_vec(), stored.offset, stored.tag))
    }

    pub fn decode(&self, key: &Key, value: &Bytes, revision: Revision) -> Result<Stored, CodecError> {
        let damaged = || CodecError::Damaged(key.clone());
        let header = value.get(..HEADER).ok_or_else(damaged)?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (tag, offset) = (SchemaTag(word(1)), word(5) as usize);
        let json = match header[0] {
            PLAIN => value.slice(HEADER..),
            SEALED => {
                let nonce = value.get(HEADER..HEADER + NONCE_LEN).ok_or_else(damaged)?;
                let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;
                let mut body = value[HEADER + NONCE_LEN..].to_vec();
                let opened = self.data_key.open_in_place(nonce, Aad::from(aad(key)), &mut body);
                let length = opened.map_err(|_| CodecError::WrongKey(key.clone()))?.len();
                body.truncate(length);
                Bytes::from(body)
            }
            _ => return Err(damaged()),
        };
        if offset > json.len() {
            return Err(damaged());
        }
        Ok(Stored { json, offset, tag, revision })
    }
}

fn plain(json: &[u8], offset: usize, tag: SchemaTag) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + json.len());
    out.put_u8(PLAIN);
    out.put_u32(tag.0);
    out.put_u32(offset as u32);
    out.put_slice(json);
    out.freeze()
}

/// A sealed value opens only under the key it was stored under.
fn aad(key: &Key) -> Vec<u8> {
    [key.kind.as_bytes(), key.namespace.as_bytes(), key.name.as_bytes()].join(&0)
}

/// The JSON of an object with an empty `resourceVersion`, and where that is.
fn to_json(object: &Value) -> Result<(Vec<u8>, usize), CodecError> {
    let members = object.as_object().ok_or(CodecError::NotAnObject)?;
    let mut out = Vec::with_capacity(512);
    let mut offset = None;
    out.push(b'{');
    for (i, (name, value)) in members.iter().enumerate() {
        member(&mut out, i, name);
        match value.as_object() {
            Some(metadata) if name == "metadata" => {
                let (mut index, mut placed) = (0, false);
                out.push(b'{');
                for (name, value) in metadata {
                    if name == "resourceVersion" {
                        continue;
                    }
                    if !placed && name.as_str() > "resourceVersion" {
                        offset = Some(placeholder(&mut out, index));
                        (index, placed) = (index + 1, true);
                    }
                    member(&mut out, index, name);
                    append(&mut out, value);
                    index += 1;
                }
                if !placed {
                    offset = Some(placeholder(&mut out, index));
                }
                out.push(b'}');
            }
            _ => append(&mut out, value),
        }
    }
    out.push(b'}');
    Ok((out, offset.ok_or(CodecError::NotAnObject)?))
}

fn member(out: &mut Vec<u8>, index: usize, name: &str) {
    if index > 0 {
        out.push(b',');
    }
    append(out, &name);
    out.push(b':');
}

fn placeholder(out: &mut Vec<u8>, index: usize) -> usize {
    member(out, index, "resourceVersion");
    out.extend_from_slice(b"\"\"");
    out.len() - 1
}

fn append<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Values and strings always serialize, and a vector always takes them.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(object: Value) {
        for kind in ["configmaps", "secrets"] {
            let codec = Codec::new(&[7; 32]);
            let key = Key::new(kind, "ns", "name");
            let bytes = codec.encode(&key, &object, SchemaTag(9)).unwrap();
            let stored = codec.decode(&key, &bytes, Revision(1234)).unwrap();
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = json!("1234");
            assert_eq!(serde_json::from_slice::<Value>(&stored.to_bytes()).unwrap(), expected);
            assert_eq!(stored.to_value().unwrap(), expected);
            assert_eq!(stored.tag, SchemaTag(9));
            assert!(
                codec.decode(&Key::new(kind, "ns", "other"), &bytes, Revision(1)).is_err()
                    == (kind == "secrets")
            );
            if kind == "secrets" {
                assert!(Codec::new(&[8; 32]).decode(&key, &bytes, Revision(1)).is_err());
                assert!(!bytes.windows(4).any(|w| w == b"meta"));
            }
        }
    }

    #[test]
    fn an_object_is_served_as_it_was_stored_with_its_revision() {
        check(json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "n", "uid": "u"}}));
        check(
            json!({"apiVersion": "v1", "metadata": {"uid": "u"}, "z": [1, {"metadata": {"resourceVersion": "5"}}]}),
        );
        check(json!({"apiVersion": "v1", "metadata": {}}));
        check(json!({"apiVersion": "v1", "metadata": {"resourceVersion": "77", "a": "ü\u{0}"}}));
    }

    #[test]
    fn the_stored_version_is_read_from_the_first_member() {
        let codec = Codec::new(&[0; 32]);
        let key = Key::new("x", "", "y");
        let object = json!({"kind": "K", "metadata": {}, "apiVersion": "a/v1"});
        let bytes = codec.encode(&key, &object, SchemaTag::default()).unwrap();
        let stored = codec.decode(&key, &bytes, Revision(1)).unwrap();
        assert!(stored.has_api_version("a/v1"));
        assert!(!stored.has_api_version("a/v"));
        assert!(!stored.has_api_version("a/v1beta1"));
    }

    #[test]
    fn what_is_taken_out_can_be_put_back() {
        let codec = Codec::new(&[3; 32]);
        let object = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "n"}});
        for kind in ["configmaps", "secrets"] {
            let key = Key::new(kind, "ns", "n");
            let open = codec.opened(&key, &codec.encode(&key, &object, SchemaTag(9)).unwrap()).unwrap();
            assert_eq!(open, Codec::open(&object, SchemaTag(9)).unwrap());
            let elsewhere = Codec::new(&[4; 32]);
            let closed = elsewhere.closed(&key, &open).unwrap();
            assert_eq!(elsewhere.opened(&key, &closed).unwrap(), open);
        }
        // Rows of indexes, which are no objects.
        let row = Key::new(crate::owners::KIND, "uid", "configmaps/ns/n");
        assert_eq!(codec.closed(&row, &Bytes::new()).unwrap(), Bytes::new());
        assert!(codec.closed(&Key::new("configmaps", "ns", "n"), &Bytes::new()).is_err());
    }

    #[test]
    fn damaged_values_are_refused() {
        let codec = Codec::new(&[0; 32]);
        let key = Key::new("x", "", "y");
        for bytes in [&b""[..], &[1, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0, 9], &[9; 40], &[2; 12]] {
            assert!(codec.decode(&key, &Bytes::copy_from_slice(bytes), Revision(1)).is_err());
        }
    }
}
