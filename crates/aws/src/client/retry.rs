//! When to try again.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// What all clients that share a budget may spend on trying again, so that a broken service is not buried under
/// repetitions.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicI32,
}

const FULL: i32 = 500;
const COST: i32 = 5;
const COST_THROTTLED: i32 = 10;

impl Default for Budget {
    fn default() -> Budget {
        Budget { left: AtomicI32::new(FULL) }
    }
}

impl Budget {
    /// Pays for another try; false when there is too little left.
    pub fn take(&self, throttled: bool) -> bool {
        let cost = if throttled { COST_THROTTLED } else { COST };
        let paid = |left: i32| (left >= cost).then_some(left - cost);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid).is_ok()
    }

    /// A call that worked gives a little back.
    pub fn refund(&self) {
        let more = |left: i32| (left < FULL).then_some(left + 1);
        // Full is no error.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

const LONGEST: Duration = Duration::from_secs(5);

/// How long to wait after a try: up to 100 ms, 200 ms, 400 ms … by chance, so that clients do not march in step.
pub(super) fn delay(attempt: u32, asked: Option<Duration>) -> Duration {
    let most = Duration::from_millis(100 << attempt.saturating_sub(1).min(6)).min(LONGEST);
    asked.unwrap_or_default() + most.mul_f64(rand::random_range(0.0..1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_and_comes_back() {
        let budget = Budget::default();
        assert_eq!((0..1000).filter(|_| budget.take(false)).count(), 100);
        (0..COST_THROTTLED).for_each(|_| budget.refund());
        assert!(budget.take(true));
        assert!(!budget.take(false));
        (0..1000).for_each(|_| budget.refund());
        assert_eq!(budget.left.load(Ordering::Relaxed), FULL);
    }

    #[test]
    fn delays_grow_and_end() {
        for attempt in 1..40 {
            assert!(delay(attempt, None) <= LONGEST);
        }
        assert!(delay(1, Some(Duration::from_secs(3))) >= Duration::from_secs(3));
    }
}
