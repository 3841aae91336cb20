//! Cost: the unit in which the time of an evaluation is bounded, before it runs and while it runs.

use crate::error::EvalError;

/// Most that one evaluation of one expression may cost.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// Most that all expressions for one object may cost together.
pub const PER_OBJECT_LIMIT: u64 = 10_000_000;
/// Most that one expression may be estimated to cost, over all the places where its schema can occur.
pub const ESTIMATED_RULE_LIMIT: u64 = 10_000_000;
/// Most that all expressions of a schema may be estimated to cost.
pub const ESTIMATED_SCHEMA_LIMIT: u64 = 100_000_000;

/// What is left for one object, over all its expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    remaining: u64,
    exhausted: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(PER_OBJECT_LIMIT)
    }
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Budget { remaining: limit, exhausted: false }
    }

    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Whether evaluation was stopped for its cost; nothing more is evaluated then.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Takes what an evaluation cost; false if that was more than there was.
    pub(crate) fn take(&mut self, cost: u64) -> bool {
        match self.remaining.checked_sub(cost) {
            Some(rest) => self.remaining = rest,
            None => self.exhaust(),
        }
        !self.exhausted
    }

    pub(crate) fn exhaust(&mut self) {
        self.remaining = 0;
        self.exhausted = true;
    }
}

/// Counts the cost of one evaluation and stops it at the limit.
#[derive(Debug)]
pub(crate) struct Meter {
    spent: u64,
    limit: u64,
}

impl Meter {
    pub fn new(limit: u64) -> Self {
        Meter { spent: 0, limit }
    }

    pub fn spent(&self) -> u64 {
        self.spent
    }

    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }
}

/// A tenth of a unit per character or byte that is looked at; never less than one for something.
pub(crate) fn traversal(size: u64) -> u64 {
    size.div_ceil(10)
}
