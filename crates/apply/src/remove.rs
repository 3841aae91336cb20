//! Taking owned fields out of an object, and the two ways a set is fitted to a schema.

use serde_json::Value;

use crate::element::PathElement;
use crate::place::{ItemKey, Items, Known, Place, Shape};
use crate::set::FieldSet;

/// What becomes of a map or list that loses all it held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptied {
    /// It stays as null, and so stays in the object's field set: for intermediate results.
    Null,
    /// It goes too.
    Gone,
}

/// Removes every path of `fields` from an object.
pub(crate) fn remove(object: &mut Value, fields: &FieldSet, place: Place<'_>, emptied: Emptied) {
    if !fields.is_empty() {
        remove_at(object, fields, place, emptied);
    }
}

/// Returns whether anything is left.
fn remove_at(value: &mut Value, fields: &FieldSet, place: Place<'_>, emptied: Emptied) -> bool {
    let shape = place.resolve(value);
    match (shape, value) {
        (Shape::Map { atomic: false }, Value::Object(map)) => {
            map.retain(|name, value| {
                let Some(node) = fields.find_field(name) else { return true };
                !node.member
                    && (node.below.is_empty() || keep(value, &node.below, place.field(name).0, emptied))
            });
            !map.is_empty()
        }
        (Shape::List(items @ (Items::Set | Items::Keyed(_))), Value::Array(list)) => {
            let item = place.item();
            list.retain_mut(|value| {
                let Some(element) = ItemKey::of(value, items, item).ok().map(|key| key.element()) else {
                    return true;
                };
                let Some(node) = fields.find(&element) else { return true };
                // An item that lost its keys is nobody's item, so nulls are never left in a list.
                !node.member && (node.below.is_empty() || remove_at(value, &node.below, item, emptied))
            });
            !list.is_empty()
        }
        // Somebody owned parts of what is now one leaf.
        (Shape::Map { .. } | Shape::List(_), _) => false,
        (Shape::Scalar(_), _) => true,
    }
}

fn keep(value: &mut Value, fields: &FieldSet, place: Place<'_>, emptied: Emptied) -> bool {
    if remove_at(value, fields, place, emptied) {
        return true;
    }
    *value = Value::Null;
    emptied == Emptied::Null
}

/// The set with the declared parents of its paths: `spec.replicas` brings `spec`. Entries of maps and items of
/// lists are not brought, since somebody may own what is in them without owning them.
pub(crate) fn with_declared_parents(fields: &FieldSet, place: Place<'_>) -> FieldSet {
    let mut set = fields.clone();
    add_declared_parents(&mut set, place);
    set
}

fn add_declared_parents(fields: &mut FieldSet, place: Place<'_>) {
    for node in fields.nodes.iter_mut().filter(|node| !node.below.is_empty()) {
        let below = match &node.element {
            PathElement::Field(name) => {
                let (below, known) = place.field(name);
                node.member |= known == Known::Declared;
                below
            }
            PathElement::Key(_) => place.item(),
            PathElement::Value(_) | PathElement::Index(_) => Place::Deduced,
        };
        add_declared_parents(&mut node.below, below);
    }
}

/// Fits a set that was recorded under an older schema: whoever owned parts of what has become atomic owns it
/// whole. Returns whether anything changed. The other way round nothing needs to be done.
pub(crate) fn reconcile(fields: &mut FieldSet, place: Place<'_>) -> bool {
    let mut changed = false;
    for node in fields.nodes.iter_mut().filter(|node| !node.below.is_empty()) {
        let below = match &node.element {
            PathElement::Field(name) => match place.field(name) {
                (_, Known::Unknown) => continue,
                (below, _) => below,
            },
            _ => place.item(),
        };
        match below.only_shape() {
            Some(Shape::Map { atomic: true } | Shape::List(Items::Atomic)) => {
                node.member = true;
                node.below = FieldSet::new();
                changed = true;
            }
            Some(Shape::Map { .. } | Shape::List(_)) => changed |= reconcile(&mut node.below, below),
            Some(Shape::Scalar(_)) | None => {}
        }
    }
    changed
}
