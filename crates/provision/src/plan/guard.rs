//! The convergence guard: a field that still differs after it was written is reported, not written for ever.
//!
//! What was written in vain is kept in an annotation of the object, so that a restart does not begin a new round of
//! writes. A change is the same while both sides have the same values; when either moves, it is written again.

use std::collections::BTreeMap;

use objects::{Value, meta};
use serde::{Deserialize, Serialize};

use super::Change;

pub const ANNOTATION: &str = "hangar.dev/not-converging";

/// Writes of the same change before it is given up. Reads that lag behind make a first one look vain.
const WRITES: u32 = 2;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    change: String,
    writes: u32,
}

/// Fields of one object that were written in vain, by path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Guard(BTreeMap<String, Entry>);

impl Guard {
    /// What cannot be read is as good as nothing: the worst that follows is a write too many.
    pub fn of(object: &Value) -> Guard {
        meta::annotation(object, ANNOTATION)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// None takes the annotation away.
    pub fn to_annotation(&self) -> Option<String> {
        if self.0.is_empty() { None } else { serde_json::to_string(self).ok() }
    }

    fn is_stuck(&self, change: &Change) -> bool {
        let entry = self.0.get(&change.path);
        entry.is_some_and(|entry| entry.writes >= WRITES && entry.change == change.fingerprint())
    }

    /// Changes that may be written, and those that were written often enough.
    pub fn divide(&self, changes: Vec<Change>) -> (Vec<Change>, Vec<Change>) {
        changes.into_iter().partition(|change| !self.is_stuck(change))
    }

    /// After a write: what of it still differs counts as written in vain once more.
    #[must_use]
    pub fn after(&self, written: &[Change], remaining: &[Change]) -> Guard {
        let entry = |change: &Change| {
            let fingerprint = change.fingerprint();
            let before = self.0.get(&change.path).filter(|entry| entry.change == fingerprint);
            let was_written = written.iter().any(|one| one.path == change.path);
            let writes = before.map_or(0, |entry| entry.writes) + u32::from(was_written);
            (writes > 0).then(|| (change.path.clone(), Entry { change: fingerprint, writes }))
        };
        Guard(remaining.iter().filter_map(entry).collect())
    }

    /// What differs from the moment it was made, and what nothing but making it again could change, is given up at once.
    #[must_use]
    pub fn given_up(&self, changes: &[Change]) -> Guard {
        let mut given_up = self.clone();
        for change in changes {
            let entry = Entry { change: change.fingerprint(), writes: WRITES };
            given_up.0.insert(change.path.clone(), entry);
        }
        given_up
    }

    /// When nothing was written: what no longer differs is forgotten.
    #[must_use]
    pub fn still(&self, changes: &[Change]) -> Guard {
        self.after(&[], changes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(path: &str, from: i32, to: i32) -> Change {
        Change::new(path, json!(from), json!(to))
    }

    #[test]
    fn a_field_is_written_twice_and_then_reported() {
        let differs = vec![change("spec.a", 1, 2)];
        let mut guard = Guard::default();
        for stuck in [0, 0, 1, 1] {
            let (write, reported) = guard.divide(differs.clone());
            assert_eq!(reported.len(), stuck);
            guard = guard.after(&write, &differs);
        }
        // Either side moves: it is worth another try.
        for moved in [change("spec.a", 3, 2), change("spec.a", 1, 4)] {
            assert_eq!(guard.divide(vec![moved]).0.len(), 1);
        }
        // It is as desired: forgotten.
        assert_eq!(guard.still(&[]).to_annotation(), None);
    }

    #[test]
    fn what_the_server_makes_of_it_counts() {
        // 2 is written, and comes back as 3, for ever.
        let mut guard = Guard::default().after(&[change("spec.a", 1, 2)], &[change("spec.a", 3, 2)]);
        assert_eq!(guard.divide(vec![change("spec.a", 3, 2)]).1.len(), 0);
        guard = guard.after(&[change("spec.a", 3, 2)], &[change("spec.a", 3, 2)]);
        assert_eq!(guard.divide(vec![change("spec.a", 3, 2)]).1.len(), 1);
        let object = json!({"metadata": {"annotations": {ANNOTATION: guard.to_annotation()}}});
        assert_eq!(Guard::of(&object), guard);
        assert_eq!(
            Guard::of(&json!({"metadata": {"annotations": {ANNOTATION: "nonsense"}}})),
            Guard::default()
        );
    }
}
