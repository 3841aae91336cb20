//! Transactions of etcd: their compares and steps, and how many steps become few.

use bytes::Bytes;
use store::StoreError;

use crate::keys::Span;
use crate::wire::{
    Against, CREATED, Compare, DeleteRange, EQUAL, GREATER, KeyValue, LESS, MODIFIED, Outcome, Put, Range,
    RangeResponse, Step, Txn, TxnResponse, VALUE, outcome, signed, step, unsigned,
};

/// What etcd takes in one list of a transaction, unless it is told otherwise (`--max-txn-ops`), is 128; three less
/// leave room for a fence around it.
const LIMIT: usize = 125;
/// Lists longer than this go into transactions within the transaction. etcd bounds how long lists on one path from
/// the outermost to the innermost are together, so three levels of these hold over 60,000 steps, in one revision.
const BRANCHES: usize = 40;

pub(crate) fn exists(key: &Bytes) -> Compare {
    compare(key, GREATER, CREATED, Against::Created(0))
}

pub(crate) fn absent(key: &Bytes) -> Compare {
    compare(key, EQUAL, CREATED, Against::Created(0))
}

/// The key was last written by this revision; 0 is that it is not there.
pub(crate) fn modified_at(key: &Bytes, revision: u64) -> Compare {
    compare(key, EQUAL, MODIFIED, Against::Modified(signed(revision)))
}

pub(crate) fn value_is(key: &Bytes, value: &Bytes) -> Compare {
    compare(key, EQUAL, VALUE, Against::Value(value.clone()))
}

pub(crate) fn modified_before(key: &Bytes, revision: u64) -> Compare {
    compare(key, LESS, MODIFIED, Against::Modified(signed(revision)))
}

fn compare(key: &Bytes, result: i32, target: i32, against: Against) -> Compare {
    Compare { result, target, key: key.clone(), against: Some(against) }
}

fn step(of: step::Of) -> Step {
    Step { of: Some(of) }
}

pub(crate) fn put(key: &Bytes, value: impl Into<Bytes>) -> Step {
    step(step::Of::Put(Put { key: key.clone(), value: value.into() }))
}

pub(crate) fn delete(key: &Bytes) -> Step {
    step(step::Of::DeleteRange(DeleteRange { key: key.clone(), range_end: Bytes::new() }))
}

pub(crate) fn delete_span(span: &Span) -> Step {
    step(step::Of::DeleteRange(DeleteRange { key: span.from.clone(), range_end: span.to.clone() }))
}

pub(crate) fn get(key: &Bytes) -> Step {
    step(step::Of::Range(Range { key: key.clone(), ..Range::default() }))
}

/// Entries of a span in order, at most `limit` (0 is all), as of `at` (0 is now).
pub(crate) fn range(span: &Span, limit: usize, at: u64) -> Step {
    step(step::Of::Range(Range { limit: signed(limit as u64), revision: signed(at), ..of(span) }))
}

pub(crate) fn last_of(span: &Span, limit: usize) -> Step {
    step(step::Of::Range(Range { limit: signed(limit as u64), sort_order: 2, ..of(span) }))
}

pub(crate) fn keys_of(span: &Span, limit: usize) -> Step {
    step(step::Of::Range(Range { limit: signed(limit as u64), keys_only: true, ..of(span) }))
}

pub(crate) fn count(span: &Span) -> Step {
    step(step::Of::Range(Range { count_only: true, ..of(span) }))
}

fn of(span: &Span) -> Range {
    Range { key: span.from.clone(), range_end: span.to.clone(), ..Range::default() }
}

impl Txn {
    /// The same, if all of `fence` holds.
    pub(crate) fn behind(self, fence: Vec<Compare>) -> Txn {
        Txn { compare: fence, success: vec![step(step::Of::Txn(self))], failure: Vec::new() }
    }

    pub(crate) fn read(steps: Vec<Step>) -> Txn {
        Txn { success: fold(steps, LIMIT, LIMIT), ..Txn::default() }
    }

    /// `then` if all compares hold, `otherwise` if not. `None` if etcd takes no transaction that large.
    pub(crate) fn new(compare: Vec<Compare>, then: Vec<Step>, otherwise: Vec<Step>) -> Option<Txn> {
        let longest = then.len().max(otherwise.len());
        // etcd counts the longest of the three lists: one that must be folded leaves no room for a long one.
        let flat = if longest <= LIMIT { LIMIT } else { BRANCHES };
        if compare.len() > flat || longest > BRANCHES * BRANCHES * BRANCHES {
            return None;
        }
        let (success, failure) = (fold(then, flat, LIMIT), fold(otherwise, flat, LIMIT));
        Some(Txn { compare, success, failure })
    }
}

/// The same steps in the same order: as they are if they are no more than `flat`, else in transactions within, where
/// `room` is what etcd still allows on this path.
fn fold(mut steps: Vec<Step>, flat: usize, room: usize) -> Vec<Step> {
    if steps.len() <= flat {
        return steps;
    }
    let size = steps.len().div_ceil(BRANCHES);
    let room = room.saturating_sub(BRANCHES);
    let mut folded = Vec::with_capacity(BRANCHES);
    while !steps.is_empty() {
        let rest = steps.split_off(size.min(steps.len()));
        let success = fold(steps, room.max(1), room);
        folded.push(step(step::Of::Txn(Txn { success, ..Txn::default() })));
        steps = rest;
    }
    folded
}

/// What a transaction answered, in the order of its steps.
pub(crate) struct Answer {
    pub succeeded: bool,
    /// The revision it made, or was read at.
    pub revision: u64,
    outcomes: std::vec::IntoIter<Outcome>,
}

impl Answer {
    pub(crate) fn new(response: TxnResponse) -> Answer {
        let revision = response.header.map_or(0, |header| unsigned(header.revision));
        let mut outcomes = Vec::with_capacity(response.responses.len());
        unfold(response.responses, &mut outcomes);
        Answer { succeeded: response.succeeded, revision, outcomes: outcomes.into_iter() }
    }

    /// The answer of the transaction within a fence; none if the fence did not stand.
    pub(crate) fn within_fence(response: TxnResponse) -> Result<Option<Answer>, StoreError> {
        if !response.succeeded {
            return Ok(None);
        }
        match response.responses.into_iter().next().and_then(|outcome| outcome.of) {
            // Only the outermost is told the revision.
            Some(outcome::Of::Txn(within)) => {
                Ok(Some(Answer::new(TxnResponse { header: response.header, ..within })))
            }
            _ => Err(StoreError::Failed("etcd answered a transaction with something else".into())),
        }
    }

    /// The answer to the next step, which was to read a span.
    pub(crate) fn range(&mut self) -> Result<RangeResponse, StoreError> {
        match self.outcomes.next().and_then(|outcome| outcome.of) {
            Some(outcome::Of::Range(range)) => Ok(range),
            _ => Err(StoreError::Failed("etcd answered a read with something else".into())),
        }
    }

    /// The answer to the next step, which was to read a key.
    pub(crate) fn get(&mut self) -> Result<Option<KeyValue>, StoreError> {
        Ok(self.range()?.kvs.into_iter().next())
    }
}

fn unfold(outcomes: Vec<Outcome>, into: &mut Vec<Outcome>) {
    for outcome in outcomes {
        match outcome.of {
            Some(outcome::Of::Txn(within)) => unfold(within.responses, into),
            _ => into.push(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps in order, after checking what etcd checks: on every path, lists are short together.
    fn leaves(steps: &[Step], room: usize, into: &mut Vec<Bytes>) {
        assert!(steps.len() <= room, "{} steps where {room} are left", steps.len());
        for step in steps {
            match &step.of {
                Some(step::Of::Txn(within)) => leaves(&within.success, room - steps.len(), into),
                Some(step::Of::Put(put)) => into.push(put.key.clone()),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn many_steps_become_few() {
        for count in [0, 1, 124, 125, 126, 1300, 5000, 60_000] {
            let keys: Vec<Bytes> = (0..count).map(|index| format!("{index}").into()).collect();
            let steps = keys.iter().map(|key| put(key, "")).collect();
            let txn = Txn::new(vec![exists(&Bytes::from("head"))], steps, vec![]).unwrap();
            let mut found = Vec::new();
            leaves(&txn.success, LIMIT, &mut found);
            assert_eq!(found, keys, "{count}");
        }
    }

    #[test]
    fn what_is_too_large_is_told() {
        let key = Bytes::from("key");
        let compares = |count| vec![exists(&key); count];
        let steps = |count| vec![put(&key, ""); count];
        for (compare, then, fits) in
            [(125, 125, true), (126, 1, false), (41, 126, false), (40, 126, true), (1, 64_001, false)]
        {
            let made = Txn::new(compares(compare), steps(then), vec![]);
            assert_eq!(made.is_some(), fits, "{compare} compares and {then} steps");
        }
    }
}
