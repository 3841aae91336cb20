//! Secret fields: references to keys of Secrets, resolved for one pass and never written anywhere; and fields that hold
//! values which the cloud never shows.
//!
//! That a value changed is known by a keyed hash of what was last applied, kept in an annotation: nobody without
//! the key of the installation learns anything from it.

use std::collections::BTreeMap;
use std::fmt;

use auth::Secret;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use objects::{Value, meta};
use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::failure::Failure;
use crate::paths;
use crate::reading::Reader;

/// Values of secret fields by the path of the field, such as `spec.users[0].password`.
#[derive(Clone, Default)]
pub struct Secrets(BTreeMap<String, Resolved>);

#[derive(Clone)]
struct Resolved {
    value: Secret<String>,
    /// Uid and resource version of the Secret, or the generation of the object.
    version: String,
    changed: bool,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Shorter values are not looked for in messages: they are found everywhere.
const REDACTED_FROM: usize = 4;

impl Secrets {
    pub fn get(&self, field: &str) -> Option<&Secret<String>> {
        self.0.get(field).map(|resolved| &resolved.value)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &Secret<String>)> {
        self.0.iter().map(|(field, resolved)| (field.as_str(), &resolved.value))
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Fields whose value is another than was last applied.
    pub fn changed(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, resolved)| resolved.changed).map(|(field, _)| field.as_str())
    }

    /// The values have been applied: none of them is new any more.
    pub(crate) fn settle(&mut self) {
        self.0.values_mut().for_each(|resolved| resolved.changed = false);
    }

    /// A message without any of the values in it.
    pub fn redact(&self, message: &str) -> String {
        self.0.values().fold(message.to_owned(), |message, resolved| {
            let value = resolved.value.expose();
            if value.len() < REDACTED_FROM { message } else { message.replace(value.as_str(), "[secret]") }
        })
    }

    /// A value without any of them in its texts.
    pub fn redact_value(&self, value: &Value) -> Value {
        match value {
            _ if self.is_empty() => value.clone(),
            Value::String(text) => self.redact(text).into(),
            Value::Array(items) => items.iter().map(|item| self.redact_value(item)).collect(),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), self.redact_value(value)));
                Value::Object(members.collect())
            }
            other => other.clone(),
        }
    }

    /// What to remember of the values once they are applied.
    pub(crate) fn applied(&self, key: &FingerprintKey) -> BTreeMap<String, Applied> {
        let one = |(field, resolved): (&String, &Resolved)| {
            let hash = key.hash(field, resolved.value.expose());
            (field.clone(), Applied { version: resolved.version.clone(), hash })
        };
        self.0.iter().map(one).collect()
    }
}

/// What was last applied to a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    version: String,
    hash: String,
}

/// The key that values are hashed under. With another key all that is known is whether the Secret is another.
pub struct FingerprintKey {
    key: hmac::Key,
    /// Tells keys from each other.
    id: String,
}

impl FingerprintKey {
    pub fn new(key: &[u8; 32]) -> FingerprintKey {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let id = encode(hmac::sign(&key, b"key").as_ref(), 6);
        FingerprintKey { key, id }
    }

    fn hash(&self, field: &str, value: &str) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(field.as_bytes());
        context.update(&[0]);
        context.update(value.as_bytes());
        format!("{}.{}", self.id, encode(context.sign().as_ref(), 18))
    }

    /// Of all that was asked for: of parts, each with its name.
    pub(crate) fn hash_all<'a>(&self, parts: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        for (name, value) in parts {
            for bytes in [name.as_bytes(), value] {
                context.update(&(bytes.len() as u64).to_be_bytes());
                context.update(bytes);
            }
        }
        format!("{}.{}", self.id, encode(context.sign().as_ref(), 18))
    }

    /// Whether two such hashes are of different things. Under different keys that cannot be known.
    pub(crate) fn differ(&self, before: &str, now: &str) -> bool {
        let own = |hash: &str| hash.split_once('.').is_some_and(|(id, _)| id == self.id);
        before != now && own(before) && own(now)
    }

    /// `known`: of all that was applied there is a hash, so that what has none is new.
    fn is_change(
        &self,
        known: bool,
        before: Option<&Applied>,
        version: &str,
        field: &str,
        value: &str,
    ) -> bool {
        match before {
            None => known,
            Some(before) => before.version != version && before.hash != self.hash(field, value),
        }
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey")
    }
}

fn encode(bytes: &[u8], length: usize) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes.get(..length).unwrap_or(bytes))
}

/// Reads the Secrets that an object's fields name, and what it holds itself. `before` is what was last applied, where
/// that is known.
pub(crate) async fn resolve(
    reader: &Reader<'_>,
    facts: &Facts,
    object: &Value,
    before: Option<&BTreeMap<String, Applied>>,
    key: &FingerprintKey,
    cross_namespace: bool,
) -> Result<Secrets, Failure> {
    let mut secrets = Secrets::default();
    let mut add = |path: String, value: String, version: String| {
        let applied = before.and_then(|before| before.get(&path));
        let changed = key.is_change(before.is_some(), applied, &version, &path, &value);
        secrets.0.insert(path, Resolved { value: Secret::new(value), version, changed });
    };
    for field in &facts.secrets {
        for pointer in paths::places(object, &field.field) {
            let path = paths::dotted(object, &pointer);
            let Some(reference) = object.pointer(&pointer).filter(|reference| reference.is_object()) else {
                return Err(Failure::terminal("a secret field holds {name, key}, and nothing else").at(path));
            };
            let (value, version) = read(reader, object, reference, cross_namespace)
                .await
                .map_err(|failure| failure.at(&path))?;
            add(path, value, version);
        }
    }
    for pointer in facts.hidden.iter().flat_map(|field| paths::places(object, field)) {
        if let Some(value) = object.pointer(&pointer).and_then(Value::as_str) {
            let version = meta::generation(object).to_string();
            add(paths::dotted(object, &pointer), value.to_owned(), version);
        }
    }
    Ok(secrets)
}

async fn read(
    reader: &Reader<'_>,
    object: &Value,
    reference: &Value,
    cross_namespace: bool,
) -> Result<(String, String), Failure> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or("");
    let (name, key, own) = (text("name"), text("key"), meta::namespace(object));
    let namespace = if text("namespace").is_empty() { own } else { text("namespace") };
    if name.is_empty() || key.is_empty() {
        return Err(Failure::terminal("a reference to a Secret needs a name and a key"));
    }
    if namespace != own && !cross_namespace {
        return Err(Failure::terminal(format!(
            "Secret {namespace}/{name} is in another namespace, which is not allowed"
        )));
    }
    let place = format!("{namespace}/{name}");
    let Some(secret) = reader.get("secrets", namespace, name).await? else {
        return Err(Failure::terminal(format!("Secret {place} does not exist")));
    };
    let kind = secret.get("type").and_then(Value::as_str).unwrap_or("Opaque");
    if kind != "Opaque" {
        return Err(Failure::terminal(format!(
            "Secret {place} is of type {kind}; only Opaque ones are read"
        )));
    }
    let Some(data) = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str) else {
        return Err(Failure::terminal(format!("Secret {place} has no key {key}")));
    };
    let bytes = BASE64_STANDARD.decode(data).ok();
    let Some(value) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Err(Failure::terminal(format!("key {key} of Secret {place} does not hold text")));
    };
    Ok((value, format!("{}/{}", meta::uid(&secret), meta::resource_version(&secret))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(value: &str) -> Secrets {
        let resolved =
            Resolved { value: Secret::new(value.to_owned()), version: "u/1".to_owned(), changed: false };
        Secrets(BTreeMap::from([("spec.p".to_owned(), resolved)]))
    }

    #[test]
    fn nothing_of_a_value_is_seen() {
        let secrets = resolved("hunter22");
        assert_eq!(format!("{secrets:?}"), r#"{"spec.p"}"#);
        assert_eq!(secrets.redact("password hunter22 is too weak"), "password [secret] is too weak");
        let nested = json!({"a": [{"b": "hunter22"}, 1]});
        assert_eq!(secrets.redact_value(&nested), json!({"a": [{"b": "[secret]"}, 1]}));
        let applied = secrets.applied(&FingerprintKey::new(&[1; 32]));
        assert!(!serde_json::to_string(&applied).unwrap().contains("hunter22"));
    }

    #[test]
    fn a_change_is_another_value_in_another_version() {
        let (key, other) = (FingerprintKey::new(&[1; 32]), FingerprintKey::new(&[2; 32]));
        let before = resolved("hunter22").applied(&key).remove("spec.p");
        for (version, value, expected) in [
            ("u/1", "hunter22", false),
            ("u/2", "hunter22", false),
            ("u/2", "other", true),
            ("u/1", "other", false),
        ] {
            assert_eq!(
                key.is_change(true, before.as_ref(), version, "spec.p", value),
                expected,
                "{version} {value}"
            );
        }
        assert!(other.is_change(true, before.as_ref(), "u/2", "spec.p", "hunter22"), "it cannot be known");
        assert!(!other.is_change(true, before.as_ref(), "u/1", "spec.p", "hunter22"));
        assert!(!key.is_change(false, None, "u/1", "spec.p", "first"));
        assert!(key.is_change(true, None, "u/1", "spec.p", "given later"));
    }
}
