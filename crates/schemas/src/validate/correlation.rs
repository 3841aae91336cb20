//! Which part of the old value a part of the new one was.
//!
//! Mirrors `k8s.io/apiserver/pkg/cel/common/equality.go`: fields correlate by name, items of a list only by its
//! map keys. Items of sets and atomic lists have no identity, so they are held to the schema whenever their list
//! changes.

use serde_json::Value;

use crate::schema::{Cursor, ListType};

/// An old value and what the schema (not a clause of it) says of it.
#[derive(Clone, Copy)]
pub(super) struct Correlation<'a> {
    pub old: &'a Value,
    pub structure: Cursor<'a>,
}

impl<'a> Correlation<'a> {
    pub fn field(self, name: &str) -> Option<Correlation<'a>> {
        Some(Correlation { old: self.old.get(name)?, structure: self.structure.field(name)? })
    }

    /// The old item with the same keys as a new one.
    pub fn item(self, item: &Value) -> Option<Correlation<'a>> {
        let ListType::Map(keys) = &self.structure.node().list_type else { return None };
        let fields = item.as_object()?;
        let structure = self.structure.items()?;
        let same = |old: &&Value| {
            old.is_object() && keys.iter().all(|key| old.get(key.as_str()) == fields.get(key.as_str()))
        };
        Some(Correlation { old: self.old.as_array()?.iter().find(same)?, structure })
    }

    /// Equality in which the order of a list with map keys does not matter.
    pub fn equals(self, new: &Value) -> bool {
        if self.old == new {
            return true;
        }
        match (self.old, new) {
            (Value::Array(old), Value::Array(new)) => {
                let keyed = matches!(self.structure.node().list_type, ListType::Map(_));
                let same = |item: &Value| self.item(item).is_some_and(|old| old.equals(item));
                keyed && old.len() == new.len() && new.iter().all(same)
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new.iter().all(|(name, field)| match (self.field(name), old.get(name)) {
                        (Some(known), _) => known.equals(field),
                        (None, Some(unknown)) => unknown == field,
                        (None, None) => false,
                    })
            }
            _ => false,
        }
    }
}
