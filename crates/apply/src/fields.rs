//! The fields that an object sets.

use schemas::Cursor;
use serde_json::Value;

use crate::element::PathElement;
use crate::place::{Index, ItemKey, Items, Known, Place, Shape};
use crate::set::FieldSet;

/// Every leaf of an object, and every map entry and list item with them: what an applier of it would own.
/// Without a cursor everything is deduced from the values.
pub fn set_of(object: &Value, cursor: Option<Cursor<'_>>) -> FieldSet {
    fields_at(object, Place::Root(cursor)).1
}

/// Whether the value is owned whole, and what is owned inside.
fn fields_at(value: &Value, place: Place<'_>) -> (bool, FieldSet) {
    const WHOLE: (bool, FieldSet) = (true, FieldSet::new());
    match (place.resolve(value), value) {
        (Shape::Map { atomic: false }, Value::Object(fields)) => {
            let mut set = FieldSet::new();
            for (name, value) in fields {
                if matches!(place, Place::ObjectMeta) && name == "managedFields" {
                    continue;
                }
                let (place, known) = place.field(name);
                let (member, below) = fields_at(value, place);
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                set.put(
                    PathElement::field(name.as_str()),
                    member || empty || known != Known::Declared,
                    below,
                );
            }
            (false, set)
        }
        (Shape::List(items @ (Items::Set | Items::Keyed(_))), Value::Array(list)) => {
            let item = place.item();
            let Some(keys) = ItemKey::of_all(list, items, item) else { return WHOLE };
            let index = Index::new(&keys);
            let mut set = FieldSet::new();
            for run in index.runs(&keys) {
                let Some(at) = run.first().map(|at| *at as usize) else { continue };
                // Items that share a key cannot be told apart: the key alone is owned.
                let below = if run.len() == 1 { fields_at(&list[at], item).1 } else { FieldSet::new() };
                set.put(keys[at].element(), true, below);
            }
            (false, set)
        }
        _ => WHOLE,
    }
}
