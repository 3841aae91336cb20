//! Merging an applied configuration into an object.

use serde_json::Value;

use crate::place::{Index, ItemKey, Items, Place, Shape};

/// Merges `config` into `target`: leaves are replaced, maps and keyed lists are merged, nothing is removed.
pub(crate) fn merge(target: &mut Value, config: &Value, place: Place<'_>) {
    match place.resolve(config) {
        Shape::Map { atomic: false } => {
            let given = config.as_object().filter(|map| !map.is_empty());
            match (target.as_object_mut().filter(|map| !map.is_empty()), given) {
                (Some(fields), Some(given)) => {
                    for (name, value) in given {
                        match fields.get_mut(name) {
                            Some(field) => merge(field, value, place.field(name).0),
                            None => {
                                fields.insert(name.clone(), value.clone());
                            }
                        }
                    }
                }
                // An empty map or null adds nothing to one that holds something.
                (Some(_), None) => {}
                (None, _) => *target = config.clone(),
            }
        }
        Shape::List(items @ (Items::Set | Items::Keyed(_))) => {
            let given = config.as_array().filter(|list| !list.is_empty());
            match (target.as_array_mut().filter(|list| !list.is_empty()), given) {
                (Some(list), Some(given)) => {
                    let item = place.item();
                    match Pairing::of(list, given, items, item) {
                        Some(pairing) => *list = pairing.merged(std::mem::take(list), given, item),
                        None => *target = config.clone(),
                    }
                }
                (Some(_), None) => {}
                (None, _) => *target = config.clone(),
            }
        }
        Shape::Map { atomic: true } | Shape::List(Items::Atomic) | Shape::Scalar(_) => {
            *target = config.clone()
        }
    }
}

/// Which item of a live list is which of an applied one.
struct Pairing {
    /// For each live item, the applied item of its key.
    applied: Vec<Option<usize>>,
    /// For each applied item, the live item of its key.
    live: Vec<Live>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Live {
    Absent,
    At(usize),
    /// Several live items share the key: they give way to the applied one.
    Duplicated,
}

impl Pairing {
    fn of(live: &[Value], applied: &[Value], items: Items<'_>, place: Place<'_>) -> Option<Pairing> {
        let live_keys = ItemKey::of_all(live, items, place)?;
        let applied_keys = ItemKey::of_all(applied, items, place)?;
        let (live_index, applied_index) = (Index::new(&live_keys), Index::new(&applied_keys));
        let first = |key| applied_index.positions(&applied_keys, key).first().map(|at| *at as usize);
        let partner = |key| match live_index.positions(&live_keys, key) {
            [] => Live::Absent,
            [at] => Live::At(*at as usize),
            _ => Live::Duplicated,
        };
        Some(Pairing {
            applied: live_keys.iter().map(first).collect(),
            live: applied_keys.iter().map(partner).collect(),
        })
    }

    /// The merged list. Items of both lists come in the order of the applied one; an item of the live list
    /// alone stays where it stands between them.
    fn merged(&self, live: Vec<Value>, applied: &[Value], place: Place<'_>) -> Vec<Value> {
        let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
        let mut out = Vec::with_capacity(live.len().max(applied.len()));
        let mut done = vec![false; applied.len()];
        let mut shared = (0..applied.len()).filter(|at| self.live.get(*at) != Some(&Live::Absent));
        let mut next_shared = shared.next();
        let (mut l, mut a) = (0, 0);
        while l < live.len() || a < applied.len() {
            let partner = self.applied.get(l).copied().flatten();
            if l < live.len() {
                match partner {
                    None => {
                        out.extend(live.get_mut(l).and_then(Option::take));
                        l += 1;
                        continue;
                    }
                    // Not its turn yet, or done: the applied list says when it comes.
                    Some(other)
                        if a < applied.len()
                            && other != a
                            && next_shared.is_some_and(|next| next != other) =>
                    {
                        l += 1;
                        continue;
                    }
                    Some(other) if other == a || done.get(other) == Some(&true) => l += 1,
                    Some(_) => {}
                }
            }
            let Some(config) = applied.get(a) else { continue };
            let base = match self.live.get(a) {
                Some(Live::At(at)) => live.get_mut(*at).and_then(Option::take),
                _ => None,
            };
            out.push(match base {
                Some(mut item) => {
                    merge(&mut item, config, place);
                    item
                }
                None => config.clone(),
            });
            if let Some(done) = done.get_mut(a) {
                *done = true;
            }
            if next_shared == Some(a) {
                next_shared = shared.next();
            }
            a += 1;
        }
        out
    }
}
