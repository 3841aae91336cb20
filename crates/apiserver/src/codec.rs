//! Objects as they lie in the store: the bytes that are served, and a small header.
//!
//! `resourceVersion` is only known when a write has committed, so the stored JSON has an empty
//! `"resourceVersion":""` and the header says where; serving an object copies its bytes and puts the
//! revision in between. Kinds that hold secrets are encrypted with the data key of their control plane.
//!
//! ```text
//! plain:      1  schema tag (4)  offset (4)  JSON
//! encrypted:  3  schema tag (4)  offset (4)  data key id (16)  nonce (12)  AES-256-GCM(JSON)
//! before:     2  schema tag (4)  offset (4)  nonce (12)  AES-256-GCM(JSON)
//! ```
//! The additional data of an encrypted value is the header with the id of the data key, which only one control plane (and
//! what is copied from it) has, and the kind, namespace and name of the object. The format before was bound to the
//! latter three only; it is read where the record of the control plane still has the key for it.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;
use store::{Key, Revision};

use crate::encryption::{DataKey, DataKeys};

const PLAIN: u8 = 1;
pub(crate) const UNBOUND: u8 = 2;
const ENCRYPTED: u8 = 3;
/// Format, schema tag, offset of the revision.
const HEADER: usize = 1 + 4 + 4;
const KEY_ID: usize = 16;
const NONCE_AND_TAG: usize = 12 + 16;

/// Storage types whose values are encrypted. A plain value of one of these is refused.
pub(crate) const ENCRYPTED_KINDS: [&str; 1] = ["secrets"];

/// Whether values of this storage type are encrypted.
pub fn must_be_encrypted(kind: &str) -> bool {
    ENCRYPTED_KINDS.contains(&kind)
}

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
    #[error("decode {}: the stored value is damaged", described(.0))]
    Damaged(Key),
    #[error("decrypt {}: no data key of this control plane opens the stored value", described(.0))]
    WrongKey(Key),
    #[error("decrypt {}: the stored value is not encrypted, and values of this kind must be", described(.0))]
    Plain(Key),
    #[error("encrypt {}: the cipher failed", described(.0))]
    NotEncrypted(Key),
    #[error("an object must be a JSON object")]
    NotAnObject,
}

/// `secrets "default/token"`.
fn described(key: &Key) -> String {
    match key.namespace.as_str() {
        "" => format!("{} {:?}", key.kind, key.name),
        namespace => format!("{} {:?}", key.kind, format!("{namespace}/{}", key.name)),
    }
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
    fn new(
        key: &Key,
        json: Bytes,
        offset: usize,
        tag: SchemaTag,
        revision: Revision,
    ) -> Result<Stored, CodecError> {
        if offset > json.len() {
            return Err(CodecError::Damaged(key.clone()));
        }
        Ok(Stored { json, offset, tag, revision })
    }

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

    pub fn has_api_version(&self, api_version: &str) -> bool {
        has_api_version(&self.json, api_version)
    }
}

/// Whether an object is stored as this `apiVersion`. The first member of every stored object is its
/// `apiVersion` (members are sorted, and no object has one that sorts before it at the top).
pub fn has_api_version(json: &[u8], api_version: &str) -> bool {
    let Some(rest) = json.strip_prefix(br#"{"apiVersion":""#.as_slice()) else { return false };
    rest.strip_prefix(api_version.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'"'))
}

/// The JSON of a value that is not encrypted, where it lies, and the schema it was shaped by.
pub fn plain_json(value: &[u8]) -> Option<(SchemaTag, &[u8])> {
    let (header, json) = value.split_at_checked(HEADER)?;
    let tag = header.get(1..5)?.try_into().ok()?;
    (header.first() == Some(&PLAIN)).then_some((SchemaTag(u32::from_be_bytes(tag)), json))
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

/// Turns objects of one control plane into stored bytes and back.
#[derive(Clone, Debug)]
pub struct Codec {
    keys: DataKeys,
}

impl Codec {
    #[must_use]
    pub fn new(keys: DataKeys) -> Self {
        Codec { keys }
    }

    pub fn encode(&self, key: &Key, object: &Value, tag: SchemaTag) -> Result<Bytes, CodecError> {
        let (json, offset) = to_json(object)?;
        if must_be_encrypted(&key.kind) {
            self.encrypt(key, json, offset, tag)
        } else {
            Ok(plain(&json, offset, tag))
        }
    }

    /// An object of a kind that is not encrypted, as it is stored in any control plane.
    pub fn encode_plain(key: &Key, object: &Value, tag: SchemaTag) -> Result<Bytes, CodecError> {
        if must_be_encrypted(&key.kind) {
            return Err(CodecError::NotEncrypted(key.clone()));
        }
        Codec::open(object, tag)
    }

    fn encrypt(&self, key: &Key, json: Vec<u8>, offset: usize, tag: SchemaTag) -> Result<Bytes, CodecError> {
        let failed = || CodecError::NotEncrypted(key.clone());
        let data_key = self.keys.first().ok_or_else(failed)?;
        let mut out = BytesMut::with_capacity(HEADER + KEY_ID + NONCE_AND_TAG + json.len());
        header(&mut out, ENCRYPTED, offset, tag);
        out.put_slice(&data_key.id);
        let bound = bound(&out, key);
        data_key.cipher.encrypt(&bound, json, &mut out).ok_or_else(failed)?;
        Ok(out.freeze())
    }

    /// Whether a value is encrypted as it would be if it was written now.
    pub(crate) fn is_current(&self, value: &Bytes) -> bool {
        let id = value.get(HEADER..HEADER + KEY_ID).filter(|_| value.first() == Some(&ENCRYPTED));
        id.is_some_and(|id| self.keys.first().is_some_and(|first| first.id == id))
    }

    /// The same value as it would be written now.
    pub(crate) fn encrypted_anew(&self, key: &Key, value: &Bytes) -> Result<Bytes, CodecError> {
        let stored = self.decode(key, value, Revision::default())?;
        self.encrypt(key, stored.json.to_vec(), stored.offset, stored.tag)
    }

    /// A stored value as it is kept under no key: what an encrypted one holds, for who may take it out of this store.
    pub fn opened(&self, key: &Key, value: &Bytes) -> Result<Bytes, CodecError> {
        // Rows of the server's own are no objects.
        if key.kind.starts_with('_') || value.first() == Some(&PLAIN) && !must_be_encrypted(&key.kind) {
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

    /// The other way: what came from elsewhere as this control plane keeps it.
    pub fn closed(&self, key: &Key, value: &Bytes) -> Result<Bytes, CodecError> {
        // Rows of the server's own, such as those of the index of owners, are no objects.
        if key.kind.starts_with('_') {
            return Ok(value.clone());
        }
        let stored = Codec::decode_open(key, value, Revision::default())?;
        if !must_be_encrypted(&key.kind) {
            return Ok(value.clone());
        }
        self.encrypt(key, stored.json.to_vec(), stored.offset, stored.tag)
    }

    pub fn decode(&self, key: &Key, value: &Bytes, revision: Revision) -> Result<Stored, CodecError> {
        let (format, tag, offset) = parts(key, value)?;
        let json = match format {
            PLAIN if must_be_encrypted(&key.kind) => return Err(CodecError::Plain(key.clone())),
            PLAIN => value.slice(HEADER..),
            ENCRYPTED => self.decrypt(key, value)?,
            UNBOUND => self.decrypt_unbound(key, value)?,
            _ => return Err(CodecError::Damaged(key.clone())),
        };
        Stored::new(key, json, offset, tag, revision)
    }

    /// A value that is kept under no key, such as one of a backup.
    pub fn decode_open(key: &Key, value: &Bytes, revision: Revision) -> Result<Stored, CodecError> {
        match parts(key, value)? {
            (PLAIN, tag, offset) => Stored::new(key, value.slice(HEADER..), offset, tag, revision),
            _ => Err(CodecError::Damaged(key.clone())),
        }
    }

    fn decrypt(&self, key: &Key, value: &Bytes) -> Result<Bytes, CodecError> {
        let (header, sealed) =
            value.split_at_checked(HEADER + KEY_ID).ok_or_else(|| CodecError::Damaged(key.clone()))?;
        let open = |data_key: &DataKey| data_key.cipher.decrypt(&bound(header, key), sealed);
        let json = self.keys.named(&header[HEADER..]).and_then(open);
        json.map(Bytes::from).ok_or_else(|| CodecError::WrongKey(key.clone()))
    }

    fn decrypt_unbound(&self, key: &Key, value: &Bytes) -> Result<Bytes, CodecError> {
        let open = |data_key: &DataKey| data_key.cipher.decrypt(&place(key), &value[HEADER..]);
        let json = self.keys.unbound().find_map(open);
        json.map(Bytes::from).ok_or_else(|| CodecError::WrongKey(key.clone()))
    }
}

fn parts(key: &Key, value: &Bytes) -> Result<(u8, SchemaTag, usize), CodecError> {
    let header = value.first_chunk::<HEADER>().ok_or_else(|| CodecError::Damaged(key.clone()))?;
    let [format, t1, t2, t3, t4, o1, o2, o3, o4] = *header;
    let tag = SchemaTag(u32::from_be_bytes([t1, t2, t3, t4]));
    Ok((format, tag, u32::from_be_bytes([o1, o2, o3, o4]) as usize))
}

fn header(out: &mut BytesMut, format: u8, offset: usize, tag: SchemaTag) {
    out.put_u8(format);
    out.put_u32(tag.0);
    out.put_u32(offset as u32);
}

fn plain(json: &[u8], offset: usize, tag: SchemaTag) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + json.len());
    header(&mut out, PLAIN, offset, tag);
    out.put_slice(json);
    out.freeze()
}

/// What an encrypted value is bound to: its header, which names the data key, and its place.
fn bound(header: &[u8], key: &Key) -> Vec<u8> {
    [b"hangar object 1".as_slice(), header, &place(key)].concat()
}

/// Where an object is in its control plane. No part has a NUL byte.
pub(crate) fn place(key: &Key) -> Vec<u8> {
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
pub(crate) mod tests {
    use super::*;
    use crate::encryption::Cipher;
    use serde_json::json;

    fn codec() -> Codec {
        Codec::new(DataKeys::generate())
    }

    fn check(object: Value) {
        for kind in ["configmaps", "secrets"] {
            let codec = codec();
            let key = Key::new(kind, "ns", "name");
            let bytes = codec.encode(&key, &object, SchemaTag(9)).unwrap();
            let stored = codec.decode(&key, &bytes, Revision(1234)).unwrap();
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = json!("1234");
            assert_eq!(serde_json::from_slice::<Value>(&stored.to_bytes()).unwrap(), expected);
            assert_eq!(stored.to_value().unwrap(), expected);
            assert_eq!(stored.tag, SchemaTag(9));
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

    fn secret() -> (Key, Value) {
        (Key::new("secrets", "ns", "name"), json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}}))
    }

    #[test]
    fn an_encrypted_value_opens_only_where_it_was_written() {
        let (codec, (key, object)) = (codec(), secret());
        let bytes = codec.encode(&key, &object, SchemaTag(9)).unwrap();
        assert!(!bytes.windows(4).any(|w| w == b"meta"));
        for (kind, namespace, name) in
            [("secrets", "ns", "other"), ("secrets", "other", "name"), ("configmaps", "ns", "name")]
        {
            let other = Key::new(kind, namespace, name);
            assert!(
                matches!(codec.decode(&other, &bytes, Revision(1)), Err(CodecError::WrongKey(_))),
                "{other:?}"
            );
        }
        let elsewhere = self::codec();
        let refused = elsewhere.decode(&key, &bytes, Revision(1)).unwrap_err().to_string();
        assert_eq!(
            refused,
            "decrypt secrets \"ns/name\": no data key of this control plane opens the stored value"
        );
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert!(codec.decode(&key, &changed.into(), Revision(1)).is_err(), "byte {at} is bound");
        }
    }

    #[test]
    fn a_copy_opens_what_it_was_copied_with_and_the_original_opens_nothing_of_it() {
        let (original, (key, object)) = (DataKeys::generate(), secret());
        let copy = Codec::new(DataKeys::of_copy(&original));
        let original = Codec::new(original);
        let before = original.encode(&key, &object, SchemaTag(1)).unwrap();
        assert!(copy.decode(&key, &before, Revision(1)).is_ok());
        let own = copy.encode(&key, &object, SchemaTag(1)).unwrap();
        assert!(copy.decode(&key, &own, Revision(1)).is_ok());
        assert!(original.decode(&key, &own, Revision(1)).is_err());
    }

    #[test]
    fn a_plain_secret_is_refused() {
        let (codec, (key, object)) = (codec(), secret());
        let bytes = Codec::open(&object, SchemaTag(1)).unwrap();
        assert!(matches!(codec.decode(&key, &bytes, Revision(1)), Err(CodecError::Plain(_))));
        assert!(matches!(codec.opened(&key, &bytes), Err(CodecError::Plain(_))));
        assert!(matches!(Codec::encode_plain(&key, &object, SchemaTag(1)), Err(CodecError::NotEncrypted(_))));
        assert!(codec.decode(&Key::new("configmaps", "ns", "name"), &bytes, Revision(1)).is_ok());
    }

    #[test]
    fn what_cannot_be_encrypted_is_not_stored() {
        let (codec, (key, object)) = (Codec::new(DataKeys::broken()), secret());
        for failed in [
            codec.encode(&key, &object, SchemaTag(1)),
            codec.closed(&key, &Codec::open(&object, SchemaTag(1)).unwrap()),
        ] {
            assert!(matches!(failed, Err(CodecError::NotEncrypted(_))));
        }
        assert!(codec.encode(&Key::new("configmaps", "ns", "name"), &object, SchemaTag(1)).is_ok());
    }

    /// As versions before encrypted a value.
    pub(crate) fn as_before(installation: &[u8; 32], key: &Key, object: &Value) -> Bytes {
        let (json, offset) = to_json(object).unwrap();
        let mut out = BytesMut::new();
        header(&mut out, UNBOUND, offset, SchemaTag(9));
        Cipher::new(installation).encrypt(&place(key), json, &mut out).unwrap();
        out.freeze()
    }

    #[test]
    fn values_of_the_format_before_open_where_its_key_is_still_kept() {
        let (key, object) = secret();
        let bytes = as_before(&[7; 32], &key, &object);
        let migrating = Codec::new(DataKeys::of_old_record("a", &[7; 32]));
        assert_eq!(migrating.decode(&key, &bytes, Revision(1)).unwrap().tag, SchemaTag(9));
        let anew = migrating.encode(&key, &object, SchemaTag(9)).unwrap();
        assert_eq!(anew.first(), Some(&ENCRYPTED));
        let other = Codec::new(DataKeys::of_old_record("b", &[7; 32]));
        assert!(other.decode(&key, &anew, Revision(1)).is_err(), "what is new is bound to its control plane");
        for codec in [codec(), Codec::new(DataKeys::of_old_record("a", &[8; 32]))] {
            assert!(matches!(codec.decode(&key, &bytes, Revision(1)), Err(CodecError::WrongKey(_))));
        }
    }

    #[test]
    fn the_stored_version_is_read_from_the_first_member() {
        let codec = codec();
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
        let codec = codec();
        let object = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "n"}});
        for kind in ["configmaps", "secrets"] {
            let key = Key::new(kind, "ns", "n");
            let open = codec.opened(&key, &codec.encode(&key, &object, SchemaTag(9)).unwrap()).unwrap();
            assert_eq!(open, Codec::open(&object, SchemaTag(9)).unwrap());
            let elsewhere = self::codec();
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
        let codec = codec();
        let key = Key::new("x", "", "y");
        for bytes in
            [&b""[..], &[1, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0, 9], &[9; 40], &[2; 12], &[3; 12], &[3; 60]]
        {
            assert!(codec.decode(&key, &Bytes::copy_from_slice(bytes), Revision(1)).is_err());
        }
    }
}
