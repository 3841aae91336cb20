//! Taking owned fields out of an object, and the two ways a set is fitted to a schema.

use serde_json::Value;

use crate::element::PathElement;
use crate::place::{ItemKey, Items, Known, Place, Shape};
use crate::set::{FieldSet, Node};

/// What becomes of a map or list that loses all it held.
#[derive(Clone, Copy)]
pub(crate) enum Emptied<'o> {
    /// It stays as null, and so stays in the object's field set: for intermediate results.
    Null,
    /// A declared field that nobody owns goes too; what somebody owns, and an entry of a map, stays empty.
    /// (Upstream leaves null, of which Go's decoding makes one or the other.)
    Settled { owned: Option<&'o FieldSet> },
}

/// Removes every path of `fields` from an object.
pub(crate) fn remove(object: &mut Value, fields: &FieldSet, place: Place<'_>, emptied: Emptied<'_>) {
    if !fields.is_empty() {
        remove_at(object, fields, place, emptied);
    }
}

/// Returns whether anything is left.
fn remove_at(value: &mut Value, fields: &FieldSet, place: Place<'_>, emptied: Emptied<'_>) -> bool {
    let shape = place.resolve(value);
    match (shape, value) {
        (Shape::Map { atomic: false }, Value::Object(map)) => {
            map.retain(|name, value| {
                let Some(node) = fields.find_field(name) else { return true };
                if node.member || node.below.is_empty() {
                    return !node.member;
                }
                let owner = owner(emptied, |owned| owned.find_field(name));
                let (place, known) = place.field(name);
                remove_at(value, &node.below, place, below(emptied, owner)) || {
                    let stays = known != Known::Declared || owner.is_some_and(|owner| owner.member);
                    settle(value, stays, emptied)
                }
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
                if node.member || node.below.is_empty() {
                    return !node.member;
                }
                // An item that lost its keys is nobody's item, so nothing empty is left in a list.
                remove_at(
                    value,
                    &node.below,
                    item,
                    below(emptied, owner(emptied, |owned| owned.find(&element))),
                )
            });
            !list.is_empty()
        }
        // Somebody owned parts of what is now one leaf.
        (Shape::Map { .. } | Shape::List(_), _) => false,
        (Shape::Scalar(_), _) => true,
    }
}

fn owner<'o>(emptied: Emptied<'o>, find: impl FnOnce(&'o FieldSet) -> Option<&'o Node>) -> Option<&'o Node> {
    match emptied {
        Emptied::Settled { owned: Some(owned) } => find(owned),
        _ => None,
    }
}

fn below<'o>(emptied: Emptied<'o>, owner: Option<&'o Node>) -> Emptied<'o> {
    match emptied {
        Emptied::Null => Emptied::Null,
        Emptied::Settled { .. } => Emptied::Settled { owned: owner.map(|owner| &owner.below) },
    }
}

/// Returns whether the emptied value stays.
fn settle(value: &mut Value, stays: bool, emptied: Emptied<'_>) -> bool {
    match emptied {
        Emptied::Null => {
            *value = Value::Null;
            true
        }
        Emptied::Settled { .. } => {
            match value {
                Value::Object(map) => map.clear(),
                Value::Array(list) => list.clear(),
                _ => {}
            }
            stays
        }
    }
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
