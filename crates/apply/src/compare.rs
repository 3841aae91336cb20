//! What changed between two objects, as field sets.

use schemas::Cursor;
use serde_json::Value;

use crate::element::PathElement;
use crate::place::{Index, ItemKey, Items, Place, Shape};
use crate::set::FieldSet;
use crate::values::same;

/// The difference of two objects. Only an item that gains or loses a duplicate is in more than one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Takes fields, and all below them, out of the comparison.
    pub fn exclude(&mut self, fields: &FieldSet) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            set.subtract_recursively(fields);
        }
    }
}

/// Compares two objects of one type. `managedFields` are not part of an object in this sense.
///
/// `zero` holds what exists in every object of the type, whether written or not (see [`crate::Versions::zero`]).
pub fn compare(old: &Value, new: &Value, cursor: Option<Cursor<'_>>, zero: Option<&Value>) -> Comparison {
    let mut delta = Delta::default();
    delta.visit(Some(old), Some(new), Place::Root(cursor), zero);
    Comparison { added: delta.added.below, modified: delta.modified.below, removed: delta.removed.below }
}

#[derive(Default)]
struct Branch {
    member: bool,
    below: FieldSet,
}

impl Branch {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

/// What changed at one place and below it.
#[derive(Default)]
struct Delta {
    added: Branch,
    modified: Branch,
    removed: Branch,
}

impl Delta {
    fn visit(&mut self, old: Option<&Value>, new: Option<&Value>, place: Place<'_>, zero: Option<&Value>) {
        let (old, new) = (old.or(zero), new.or(zero));
        let whole = match (old, new) {
            (None, None) => return,
            (Some(only), None) | (None, Some(only)) => self.walk(place.resolve(only), old, new, place, zero),
            (Some(a), Some(b)) => {
                let (before, after) = (place.resolve(a), place.resolve(b));
                // A value that changed its type is looked at in both ways.
                if std::mem::discriminant(&before) != std::mem::discriminant(&after) {
                    self.walk(before, old, new, place, zero);
                }
                self.walk(after, old, new, place, zero)
            }
        };
        if !whole {
            self.added.member |= old.is_none();
            self.removed.member |= new.is_none();
        }
    }

    /// Returns whether the value was taken whole.
    fn walk(
        &mut self,
        shape: Shape<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
        zero: Option<&Value>,
    ) -> bool {
        match shape {
            Shape::Map { atomic: false } => {
                let before = old.and_then(Value::as_object).filter(|map| !map.is_empty());
                let after = new.and_then(Value::as_object).filter(|map| !map.is_empty());
                if before.is_none() && after.is_none() {
                    return self.leaf(old, new);
                }
                let skip = |name: &str| matches!(place, Place::ObjectMeta) && name == "managedFields";
                for (name, value) in before.into_iter().flatten().filter(|(name, _)| !skip(name)) {
                    let after = after.and_then(|map| map.get(name));
                    self.visit_field(name, Some(value), after, place, zero);
                }
                for (name, value) in after.into_iter().flatten().filter(|(name, _)| !skip(name)) {
                    if before.is_none_or(|map| !map.contains_key(name)) {
                        self.visit_field(name, None, Some(value), place, zero);
                    }
                }
                false
            }
            Shape::List(items @ (Items::Set | Items::Keyed(_))) => {
                let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let after = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if before.is_empty() && after.is_empty() {
                    return self.leaf(old, new);
                }
                let item = place.item();
                match (ItemKey::of_all(before, items, item), ItemKey::of_all(after, items, item)) {
                    (Some(old_keys), Some(new_keys)) => {
                        self.visit_items((before, &old_keys), (after, &new_keys), item);
                        false
                    }
                    _ => self.leaf(old, new),
                }
            }
            Shape::Map { atomic: true } | Shape::List(Items::Atomic) | Shape::Scalar(_) => {
                self.leaf(old, new)
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(old), Some(new)) => self.modified.member |= !same(old, new),
        }
        true
    }

    fn visit_field(
        &mut self,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
        zero: Option<&Value>,
    ) {
        // Most fields of most writes; the schema has nothing to say about them.
        if matches!((old, new), (Some(old), Some(new)) if !old.is_object() && !old.is_array() && old == new) {
            return;
        }
        let mut child = Delta::default();
        child.visit(old, new, place.field(name).0, zero.and_then(|zero| zero.get(name)));
        self.adopt(child, || PathElement::field(name));
    }

    fn visit_items(
        &mut self,
        old: (&[Value], &[ItemKey<'_>]),
        new: (&[Value], &[ItemKey<'_>]),
        place: Place<'_>,
    ) {
        let (before, old_keys) = old;
        let (after, new_keys) = new;
        let (old_index, new_index) = (Index::new(old_keys), Index::new(new_keys));
        for run in old_index.runs(old_keys) {
            let Some(key) = run.first().map(|at| &old_keys[*at as usize]) else { continue };
            self.visit_runs((before, run), (after, new_index.positions(new_keys, key)), key, place);
        }
        for run in new_index.runs(new_keys) {
            let Some(key) = run.first().map(|at| &new_keys[*at as usize]) else { continue };
            if old_index.positions(old_keys, key).is_empty() {
                self.visit_runs((before, &[]), (after, run), key, place);
            }
        }
    }

    /// The items of one key, which are several where a list holds duplicates: those are compared as one.
    fn visit_runs(
        &mut self,
        old: (&[Value], &[u32]),
        new: (&[Value], &[u32]),
        key: &ItemKey<'_>,
        place: Place<'_>,
    ) {
        fn at<'a>(side: (&'a [Value], &[u32]), n: usize) -> Option<&'a Value> {
            side.1.get(n).and_then(|at| side.0.get(*at as usize))
        }
        let mut child = Delta::default();
        match (old.1.len(), new.1.len()) {
            (0 | 1, 0 | 1) => child.visit(at(old, 0), at(new, 0), place, None),
            (0 | 1, _) => {
                child.visit(at(old, 0), None, place, None);
                child.added.member = true;
            }
            (_, 0 | 1) => {
                child.visit(None, at(new, 0), place, None);
                child.removed.member = true;
            }
            (before, after) => {
                let equal = before == after
                    && (0..before)
                        .all(|n| matches!((at(old, n), at(new, n)), (Some(a), Some(b)) if same(a, b)));
                child.modified.member = !equal;
            }
        }
        self.adopt(child, || key.element());
    }

    fn adopt(&mut self, child: Delta, element: impl Fn() -> PathElement) {
        for (mine, theirs) in [
            (&mut self.added, child.added),
            (&mut self.modified, child.modified),
            (&mut self.removed, child.removed),
        ] {
            if !theirs.is_empty() {
                mine.below.put(element(), theirs.member, theirs.below);
            }
        }
    }
}
