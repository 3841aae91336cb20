//! Where things lie in etcd, readable with any of its tools.
//!
//! ```text
//! PREFIX/names/NAME                                 a tenant by its name: its id, and its record
//! PREFIX/tenants/ID/about                           what a tenant is for as long as it lives
//! PREFIX/tenants/ID/head                            written by every transaction of the tenant, which its revision is
//! PREFIX/tenants/ID/data/KIND <tab> NAMESPACE <tab> NAME    an object
//! PREFIX/making/ID                                  a tenant that is being copied, seen by nobody yet
//! PREFIX/removing/ID                                a tenant that is gone, and whose objects are going
//! PREFIX/next                                       the id of the next tenant
//! PREFIX/history                                    which revision was when, for compaction
//! ```
//! A tab sorts before everything a name commonly holds, so keys sort as (type, namespace, name) do. Bytes up to the
//! tab's successor are written as that successor and a letter, which keeps the order.

use bytes::{BufMut, Bytes, BytesMut};
use compact_str::CompactString;
use store::{Key, Scope, StoreError, TenantId};

const SEPARATOR: u8 = b'\t';
const ESCAPE: u8 = SEPARATOR + 1;
const SHIFT: u8 = b'@';

/// Keys `from <= key < to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub from: Bytes,
    pub to: Bytes,
}

impl Span {
    /// Everything that begins with `prefix`, whose last byte is not the greatest.
    fn under(prefix: Bytes) -> Span {
        let mut to = BytesMut::from(&prefix[..]);
        if let Some(last) = to.last_mut() {
            *last += 1;
        }
        Span { from: prefix, to: to.freeze() }
    }

    /// Those of the keys that come after `key`.
    pub(crate) fn after(&self, key: &[u8]) -> Span {
        // A span that would begin after its end is empty for us, and an error for etcd.
        Span { from: successor(key).max(self.from.clone()).min(self.to.clone()), to: self.to.clone() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.from >= self.to
    }
}

/// The least bytes greater than these.
pub(crate) fn successor(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

/// What a key of ours is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    About(TenantId),
    Head(TenantId),
    Object(TenantId, Key),
    History,
}

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Ends with a slash.
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Keys {
        Keys { prefix: format!("{}/", prefix.trim_end_matches('/')) }
    }

    fn at(&self, place: std::fmt::Arguments<'_>) -> Bytes {
        format!("{}{place}", self.prefix).into()
    }

    /// All that is ours.
    pub(crate) fn everything(&self) -> Span {
        Span::under(self.prefix.clone().into())
    }

    pub(crate) fn name(&self, name: &str) -> Bytes {
        self.at(format_args!("names/{name}"))
    }

    pub(crate) fn names(&self) -> Span {
        Span::under(self.at(format_args!("names/")))
    }

    pub(crate) fn about(&self, tenant: TenantId) -> Bytes {
        self.at(format_args!("tenants/{tenant}/about"))
    }

    pub(crate) fn head(&self, tenant: TenantId) -> Bytes {
        self.at(format_args!("tenants/{tenant}/head"))
    }

    /// All of a tenant: what it is, its head, its objects.
    pub(crate) fn tenant(&self, tenant: TenantId) -> Span {
        Span::under(self.at(format_args!("tenants/{tenant}/")))
    }

    pub(crate) fn making(&self, tenant: TenantId) -> Bytes {
        self.at(format_args!("making/{tenant}"))
    }

    pub(crate) fn all_making(&self) -> Span {
        Span::under(self.at(format_args!("making/")))
    }

    pub(crate) fn removing(&self, tenant: TenantId) -> Bytes {
        self.at(format_args!("removing/{tenant}"))
    }

    pub(crate) fn all_removing(&self) -> Span {
        Span::under(self.at(format_args!("removing/")))
    }

    pub(crate) fn next(&self) -> Bytes {
        self.at(format_args!("next"))
    }

    pub(crate) fn history(&self) -> Bytes {
        self.at(format_args!("history"))
    }

    /// The id at the end of a key of `making` or `removing`.
    pub(crate) fn id_at_end(key: &[u8]) -> Option<TenantId> {
        let last = key.rsplit(|byte| *byte == b'/').next()?;
        std::str::from_utf8(last).ok()?.parse().ok().map(TenantId)
    }

    pub(crate) fn object(&self, tenant: TenantId, key: &Key) -> Result<Bytes, StoreError> {
        let parts = [&key.kind, &key.namespace, &key.name];
        if key.kind.is_empty() || parts.iter().any(|part| part.contains('\0')) {
            return Err(StoreError::Failed(format!(
                "{key:?} cannot be a key: a part is missing or holds a NUL byte"
            )));
        }
        let mut bytes = self.data(tenant);
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                bytes.put_u8(SEPARATOR);
            }
            escape(part, &mut bytes);
        }
        Ok(bytes.freeze())
    }

    pub(crate) fn scope(&self, tenant: TenantId, scope: &Scope) -> Result<Span, StoreError> {
        let up_to = |kind: &CompactString, namespace: Option<&CompactString>| {
            // Only to refuse what cannot be a key.
            let key = Key::new(kind.clone(), namespace.cloned().unwrap_or_default(), "");
            self.object(tenant, &key)?;
            let mut bytes = self.data(tenant);
            for part in std::iter::once(kind).chain(namespace) {
                escape(part, &mut bytes);
                bytes.put_u8(SEPARATOR);
            }
            Ok(Span::under(bytes.freeze()))
        };
        match scope {
            Scope::All => Ok(Span::under(self.data(tenant).freeze())),
            Scope::Kind(kind) => up_to(kind, None),
            Scope::Namespace(kind, namespace) => up_to(kind, Some(namespace)),
            Scope::One(key) => {
                let from = self.object(tenant, key)?;
                Ok(Span { to: successor(&from), from })
            }
        }
    }

    fn data(&self, tenant: TenantId) -> BytesMut {
        BytesMut::from(format!("{}tenants/{tenant}/data/", self.prefix).as_bytes())
    }

    /// `None` for what is of no interest to readers of history, and for what others put below our prefix.
    pub(crate) fn place(&self, key: &[u8]) -> Option<Place> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?;
        if rest == b"history" {
            return Some(Place::History);
        }
        let rest = rest.strip_prefix(b"tenants/")?;
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let tenant = TenantId(std::str::from_utf8(&rest[..slash]).ok()?.parse().ok()?);
        match &rest[slash + 1..] {
            b"about" => Some(Place::About(tenant)),
            b"head" => Some(Place::Head(tenant)),
            other => {
                let mut parts =
                    other.strip_prefix(b"data/")?.splitn(3, |byte| *byte == SEPARATOR).map(unescape);
                let key = Key { kind: parts.next()??, namespace: parts.next()??, name: parts.next()?? };
                Some(Place::Object(tenant, key))
            }
        }
    }
}

fn escape(part: &str, into: &mut BytesMut) {
    for byte in part.bytes() {
        if byte <= ESCAPE {
            into.extend_from_slice(&[ESCAPE, byte + SHIFT]);
        } else {
            into.put_u8(byte);
        }
    }
}

fn unescape(part: &[u8]) -> Option<CompactString> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.iter();
    while let Some(byte) = rest.next() {
        bytes.push(if *byte == ESCAPE { rest.next()?.checked_sub(SHIFT)? } else { *byte });
    }
    CompactString::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [&str; 9] = ["", "a", "a\t", "a\n", "a\u{b}", "a b", "a-b", "a.b", "aä"];

    fn all() -> Vec<Key> {
        let mut keys = Vec::new();
        for kind in PARTS.iter().filter(|kind| !kind.is_empty()) {
            for namespace in PARTS {
                keys.extend(PARTS.map(|name| Key::new(*kind, namespace, name)));
            }
        }
        keys
    }

    #[test]
    fn keys_come_back_and_sort_as_tuples() {
        let (keys, tenant) = (Keys::new("/hangar"), TenantId(17));
        let mut sorted = all();
        sorted.sort();
        let bytes: Vec<Bytes> = sorted.iter().map(|key| keys.object(tenant, key).unwrap()).collect();
        assert!(bytes.is_sorted_by(|a, b| a < b));
        for (key, bytes) in sorted.into_iter().zip(&bytes) {
            assert_eq!(keys.place(bytes), Some(Place::Object(tenant, key)));
        }
    }

    #[test]
    fn spans_hold_what_scopes_contain() {
        let (keys, tenant) = (Keys::new("/hangar/"), TenantId(1));
        for scope in [
            Scope::All,
            Scope::Kind("a".into()),
            Scope::Kind("a\t".into()),
            Scope::Namespace("a".into(), "".into()),
            Scope::Namespace("a".into(), "a".into()),
            Scope::Namespace("a.b".into(), "a\n".into()),
            Scope::One(Key::new("a", "a", "a")),
        ] {
            let span = keys.scope(tenant, &scope).unwrap();
            for key in all() {
                let bytes = keys.object(tenant, &key).unwrap();
                assert_eq!(span.from <= bytes && bytes < span.to, scope.contains(&key), "{scope:?} {key:?}");
                // No other tenant's, whatever digits its id shares.
                let other = keys.object(TenantId(10), &key).unwrap();
                assert!(!(span.from <= other && other < span.to));
            }
        }
    }

    #[test]
    fn places_are_known() {
        let keys = Keys::new("/a/b");
        let check = |key: &str, expected: Option<Place>| assert_eq!(keys.place(key.as_bytes()), expected);
        check("/a/b/tenants/3/about", Some(Place::About(TenantId(3))));
        check("/a/b/tenants/3/head", Some(Place::Head(TenantId(3))));
        check("/a/b/history", Some(Place::History));
        for other in
            ["/a/b/next", "/a/c/tenants/3/head", "/a/b/tenants/x/head", "/a/b/tenants/3/data/a\tb", ""]
        {
            check(other, None);
        }
        assert_eq!(Keys::id_at_end(&keys.removing(TenantId(12))), Some(TenantId(12)));
    }
}
