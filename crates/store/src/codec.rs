//! Keys as bytes whose order is the order of (type, namespace, name), for engines that order bytes.

use compact_str::CompactString;

use crate::{Key, Scope, StoreError};

const SEPARATOR: u8 = 0;

/// `type NUL namespace NUL name`. NUL sorts before everything a name may hold, so bytes order as tuples do.
pub fn encode(key: &Key) -> Result<Vec<u8>, StoreError> {
    let parts = [&key.kind, &key.namespace, &key.name];
    if parts.iter().any(|part| part.as_bytes().contains(&SEPARATOR)) || key.kind.is_empty() {
        return Err(StoreError::Failed(format!(
            "{key:?} cannot be a key: a part is missing or holds a NUL byte"
        )));
    }
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for part in &parts[..2] {
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(SEPARATOR);
    }
    bytes.extend_from_slice(key.name.as_bytes());
    Ok(bytes)
}

/// `None` for bytes that no key has.
pub fn decode(bytes: &[u8]) -> Option<Key> {
    let mut parts =
        bytes.splitn(3, |byte| *byte == SEPARATOR).map(|part| CompactString::from_utf8(part).ok());
    Some(Key { kind: parts.next()??, namespace: parts.next()??, name: parts.next()?? })
}

/// The keys `from <= key < to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

/// No key begins with this byte: keys begin with UTF-8.
const BEYOND_ALL: u8 = 0xff;

impl Bounds {
    pub fn of(scope: &Scope) -> Result<Bounds, StoreError> {
        let everything_that_begins_with = |mut prefix: Vec<u8>| {
            let from = prefix.clone();
            // The prefix ends with the separator; its successor ends what begins with it.
            if let Some(last) = prefix.last_mut() {
                *last = SEPARATOR + 1;
            }
            Bounds { from, to: prefix }
        };
        Ok(match scope {
            Scope::All => Bounds { from: Vec::new(), to: vec![BEYOND_ALL] },
            Scope::Kind(kind) => {
                let mut prefix = encode(&Key::new(kind.clone(), "", ""))?;
                prefix.truncate(kind.len() + 1);
                everything_that_begins_with(prefix)
            }
            Scope::Namespace(kind, namespace) => {
                everything_that_begins_with(encode(&Key::new(kind.clone(), namespace.clone(), ""))?)
            }
            Scope::One(key) => {
                let from = encode(key)?;
                Bounds { to: next(&from), from }
            }
        })
    }

    /// Those of the keys that come after `key`.
    pub fn after(mut self, key: &[u8]) -> Bounds {
        self.from = self.from.max(next(key));
        self
    }
}

/// The least bytes greater than these.
pub fn next(key: &[u8]) -> Vec<u8> {
    [key, &[SEPARATOR]].concat()
}

/// Integers of databases are signed; no number of ours reaches the sign.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn number(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str, namespace: &str, name: &str) -> Key {
        Key::new(kind, namespace, name)
    }

    #[test]
    fn bytes_order_as_tuples() {
        let mut keys = [
            key("a", "", "z"),
            key("a", "b", "a"),
            key("a", "b", "a-1"),
            key("a", "b-1", "a"),
            key("a.group", "", "a"),
            key("b", "", ""),
            key("b", "", "ä"),
        ];
        keys.sort();
        let encoded: Vec<_> = keys.iter().map(|key| encode(key).unwrap()).collect();
        assert!(encoded.is_sorted());
        for (key, bytes) in keys.iter().zip(&encoded) {
            assert_eq!(decode(bytes).as_ref(), Some(key));
        }
    }

    #[test]
    fn scopes_bound_what_they_contain() {
        let keys = [
            key("a", "", "x"),
            key("a", "n", "x"),
            key("a", "n2", "x"),
            key("a.b", "n", "x"),
            key("b", "n", "x"),
        ];
        let scopes = [
            Scope::All,
            Scope::Kind("a".into()),
            Scope::Namespace("a".into(), "n".into()),
            Scope::Namespace("a".into(), "".into()),
            Scope::One(key("a", "n", "x")),
            Scope::One(key("a", "n", "")),
        ];
        for scope in &scopes {
            let bounds = Bounds::of(scope).unwrap();
            for key in &keys {
                let bytes = encode(key).unwrap();
                assert_eq!(
                    bounds.from <= bytes && bytes < bounds.to,
                    scope.contains(key),
                    "{key:?} in {scope:?}"
                );
            }
        }
    }

    #[test]
    fn hostile_parts_are_refused() {
        for bad in [key("a\0b", "", "x"), key("a", "\0", "x"), key("a", "", "x\0"), key("", "n", "x")] {
            assert!(encode(&bad).is_err(), "{bad:?}");
        }
        assert_eq!(decode(b"only"), None);
        assert_eq!(decode(b"\xff\0a\0b"), None);
    }
}
