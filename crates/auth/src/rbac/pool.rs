//! Rules that many control planes have in common, held once.
//!
//! Every control plane starts with the same hundred roles; what they say is by far the largest part of a
//! policy. Policies built with the same pool share the rules of roles that say the same.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::Rule;

/// The smallest number of rule lists at which a pool looks for ones that nobody uses any more.
const FIRST_SWEEP: usize = 1024;

/// Rule lists by what they say.
#[derive(Debug, Default)]
pub struct RulePool {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    lists: HashSet<Arc<[Rule]>>,
    /// Sweeping when the pool has doubled costs a constant per list, and bounds what is kept in vain.
    next_sweep: usize,
}

impl RulePool {
    pub fn new() -> Self {
        RulePool::default()
    }

    /// The list that says the same, or this one from now on.
    pub(super) fn shared(&self, rules: Vec<Rule>) -> Arc<[Rule]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = known.lists.get(rules.as_slice()) {
            return Arc::clone(list);
        }
        if known.lists.len() >= known.next_sweep.max(FIRST_SWEEP) {
            known.lists.retain(|list| Arc::strong_count(list) > 1);
            known.next_sweep = known.lists.len() * 2;
        }
        let list: Arc<[Rule]> = rules.into();
        known.lists.insert(Arc::clone(&list));
        list
    }

    /// How many lists are held.
    pub fn len(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).lists.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(verb: usize) -> Vec<Rule> {
        vec![Rule { verbs: vec![verb.to_string()], ..Rule::default() }]
    }

    #[test]
    fn equal_lists_are_one() {
        let pool = RulePool::new();
        let first = pool.shared(rules(1));
        assert!(Arc::ptr_eq(&first, &pool.shared(rules(1))));
        assert!(!Arc::ptr_eq(&first, &pool.shared(rules(2))));
        assert_eq!(pool.len(), 2);
    }

    #[test]
    fn lists_that_nobody_uses_go_away() {
        let pool = RulePool::new();
        let kept = pool.shared(rules(0));
        for verb in 1..10 * FIRST_SWEEP {
            pool.shared(rules(verb));
        }
        assert!(pool.len() <= FIRST_SWEEP + 1, "{}", pool.len());
        assert!(Arc::ptr_eq(&kept, &pool.shared(rules(0))));
    }
}
