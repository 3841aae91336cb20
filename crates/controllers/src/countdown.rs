//! How much is left of what is going: the deletion of the last of it is the moment to look.

use std::collections::HashMap;

use objects::CompactString;
use parking_lot::Mutex;

/// What is waited for: a control plane, and a name in it.
type Place = (CompactString, CompactString);

/// Counts objects down as they are deleted. Holds only what is being waited for.
#[derive(Default)]
pub(crate) struct Countdown(Mutex<HashMap<Place, u64>>);

impl Countdown {
    /// From now on deletions are noticed, whatever is being found out meanwhile about how many are left.
    pub fn begin(&self, control_plane: &str, name: &str) {
        self.0.lock().insert((control_plane.into(), name.into()), u64::MAX);
    }

    /// So many were left. Returns whether some were deleted since the beginning, which the number may or may not
    /// have seen: then it is to be found out again.
    pub fn left(&self, control_plane: &str, name: &str, left: u64) -> bool {
        let before = self.0.lock().insert((control_plane.into(), name.into()), left);
        before.is_some_and(|before| before < u64::MAX)
    }

    pub fn end(&self, control_plane: &str, name: &str) {
        self.0.lock().remove(&(control_plane.into(), name.into()));
    }

    /// One was deleted; returns whether it was the last.
    pub fn deleted(&self, control_plane: &CompactString, name: &CompactString) -> bool {
        let mut places = self.0.lock();
        if places.is_empty() {
            return false;
        }
        let Some(left) = places.get_mut(&(control_plane.clone(), name.clone())) else { return false };
        *left = left.saturating_sub(1);
        *left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_is_told() {
        let (countdown, a, n) = (Countdown::default(), "a".into(), "n".into());
        assert!(!countdown.deleted(&a, &n));
        countdown.begin("a", "n");
        assert!(!countdown.deleted(&a, &n));
        assert!(countdown.left("a", "n", 2), "one went meanwhile");
        countdown.begin("a", "n");
        assert!(!countdown.left("a", "n", 2));
        assert!(!countdown.deleted(&a, &"other".into()));
        assert!(!countdown.deleted(&a, &n));
        assert!(countdown.deleted(&a, &n));
        assert!(countdown.deleted(&a, &n), "more than were counted");
        countdown.end("a", "n");
        assert!(!countdown.deleted(&a, &n));
    }
}
