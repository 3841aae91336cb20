//! Who owns whom: an index from an owner's uid to what names it in `ownerReferences`.
//!
//! Kept in the same transaction as the object itself, so that garbage collection is a range read and needs no
//! graph in memory.

use std::collections::BTreeSet;

use bytes::Bytes;
use objects::{Value, meta};
use store::{Expect, Key, Operation};

/// The storage type of the index: namespace is the owner's uid, name is the dependant.
pub const KIND: &str = "_owners";

/// What must change in the index when `old` under `key` becomes `new`.
pub fn index(key: &Key, old: Option<&Value>, new: Option<&Value>, operations: &mut Vec<Operation>) {
    let (before, after) = (uids(old), uids(new));
    for uid in before.difference(&after) {
        operations.push(Operation::Delete { key: row(uid, key), expect: Expect::Any });
    }
    for uid in after.difference(&before) {
        operations.push(Operation::Put { key: row(uid, key), expect: Expect::Any, value: Bytes::new() });
    }
}

fn uids(object: Option<&Value>) -> BTreeSet<&str> {
    let references = object.map(meta::owner_references).unwrap_or_default();
    references
        .iter()
        .filter_map(|owner| owner.get("uid")?.as_str())
        .filter(|uid| !uid.contains('\0'))
        .collect()
}

fn row(uid: &str, dependant: &Key) -> Key {
    Key::new(KIND, uid, format!("{}/{}/{}", dependant.kind, dependant.namespace, dependant.name))
}

/// The dependant that a row of the index is about.
pub fn dependant(row: &Key) -> Option<Key> {
    let mut parts = row.name.splitn(3, '/');
    Some(Key::new(parts.next()?, parts.next()?, parts.next()?))
}
