//! Which revision was when, and how much was written since: what compaction by age and by size goes by.
//!
//! etcd knows revisions only. Each replica notes what passes its watch, finely in memory, and coarsely in a row that
//! all share and that outlives them. etcd compacts everything it holds at once, so whoever shares an etcd shares the
//! shortest retention.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use store::{Retention, StoreError};

use crate::engine::Engine;
use crate::link::Fault;
use crate::transaction::{get, modified_at, put};
use crate::wire::{KeyValue, Txn};

/// Up to `revision`, seen at `time` (seconds of Unix time), since the mark before it `bytes` were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    revision: u64,
    time: u64,
    bytes: u64,
}

/// The row all replicas share.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    #[serde(default)]
    compacted: u64,
    #[serde(default)]
    marks: Vec<Mark>,
}

/// A mark in memory ends after so many bytes or seconds.
const MARK_BYTES: u64 = 64 << 10;
const MARK_SECONDS: u64 = 5;
/// How many marks there are at most: beyond it, neighbours become one.
const IN_MEMORY: usize = 2048;
const IN_ROW: usize = 64;
/// How often another replica may write the row first.
const TRIES: usize = 8;

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// What this process has seen itself.
pub(crate) struct Marks {
    /// Up to here it knows from others only.
    since: u64,
    marks: VecDeque<Mark>,
    /// When the last of `marks` began; none if it has ended.
    open: Option<u64>,
}

impl Marks {
    pub(crate) fn new(revision: u64) -> Marks {
        Marks { since: revision, marks: VecDeque::new(), open: None }
    }

    /// There is a gap before this revision.
    pub(crate) fn restart(&mut self, revision: u64) {
        *self = Marks::new(revision);
    }

    pub(crate) fn record(&mut self, revision: u64, bytes: u64, time: u64) {
        let mut bytes = bytes;
        let began = match (self.open, self.marks.back()) {
            (Some(began), Some(mark)) => {
                bytes += mark.bytes;
                self.marks.pop_back();
                began
            }
            _ => time,
        };
        self.marks.push_back(Mark { revision, time, bytes });
        let ended = bytes >= MARK_BYTES || time.saturating_sub(began) >= MARK_SECONDS;
        self.open = (!ended).then_some(began);
        if self.marks.len() > IN_MEMORY {
            self.marks = thinned(self.marks.drain(..), IN_MEMORY / 2).into();
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.marks.back().map_or(0, |mark| mark.revision)
    }

    /// All that is known: from the row what was before this process, and the rest from here.
    fn with(&self, row: &Row) -> Vec<Mark> {
        let before = row.marks.iter().filter(|mark| mark.revision <= self.since);
        before.chain(&self.marks).copied().collect()
    }
}

/// The same history in at most about `count` marks.
fn thinned(marks: impl ExactSizeIterator<Item = Mark>, count: usize) -> Vec<Mark> {
    let together = marks.len().div_ceil(count.max(1)).max(1);
    let mut thin: Vec<Mark> = Vec::with_capacity(count + 1);
    for (index, mark) in marks.enumerate() {
        match thin.last_mut() {
            Some(last) if index % together != 0 => *last = Mark { bytes: last.bytes + mark.bytes, ..mark },
            _ => thin.push(mark),
        }
    }
    thin
}

/// The last revision beyond the retention, 0 if there is none.
fn beyond(marks: &[Mark], retention: &Retention, now: u64) -> u64 {
    let old = marks.iter().rev().find(|mark| mark.time <= now.saturating_sub(retention.age.as_secs()));
    let mut bytes = 0;
    let many = marks.iter().rev().find(|mark| {
        bytes += mark.bytes;
        bytes > retention.bytes
    });
    old.into_iter().chain(many).map(|mark| mark.revision).max().unwrap_or(0)
}

impl Engine {
    /// Writes something of ours that changes nothing, for its revision.
    pub(crate) async fn mark(&self) -> Result<u64, StoreError> {
        self.rewrite_history(|_| {}).await
    }

    /// What another replica, or an earlier life, says of compaction.
    pub(crate) fn read_history_row(&self, kv: &KeyValue) {
        if let Ok(row) = serde_json::from_slice::<Row>(&kv.value) {
            self.note_compaction(row.compacted);
        }
    }

    async fn rewrite_history(&self, change: impl Fn(&mut Row)) -> Result<u64, StoreError> {
        let key = self.keys.history();
        let mut answer = self.link.read(Txn::read(vec![get(&key)])).await?;
        for _ in 0..TRIES {
            let (mut row, modified) = match answer.get()? {
                // A row that cannot be read begins anew: it holds nothing that time does not bring back.
                Some(kv) => (serde_json::from_slice::<Row>(&kv.value).unwrap_or_default(), kv.modified()),
                None => (Row::default(), 0),
            };
            self.note_compaction(row.compacted);
            change(&mut row);
            let value = serde_json::to_vec(&row).map_err(|error| StoreError::Failed(error.to_string()))?;
            let compare = vec![modified_at(&key, modified)];
            let txn = Txn { compare, success: vec![put(&key, value)], failure: vec![get(&key)] };
            answer = self.commit(None, txn).await?;
            if answer.succeeded {
                return Ok(answer.revision);
            }
        }
        Err(StoreError::Unavailable("too many replicas write the row of history".into()))
    }

    pub(crate) async fn compact(&self, retention: Retention) -> Result<(), StoreError> {
        let now = now();
        let target = parking_lot::Mutex::new(0);
        let written = self
            .rewrite_history(|row| {
                let known = self.marks.lock().with(row);
                let last = beyond(&known, &retention, now);
                // With everything beyond it, everything goes, also what was written before anybody looked.
                let all = retention.age.is_zero() || known.last().is_some_and(|mark| mark.revision == last);
                *target.lock() = if all { u64::MAX } else { last };
                let kept: Vec<Mark> = known.into_iter().filter(|mark| mark.revision > last).collect();
                row.marks = thinned(kept.into_iter(), IN_ROW);
            })
            .await?;
        // Not what the watch of this process has yet to see.
        let seen = self.recent.wait_for(written);
        let _ = tokio::time::timeout(self.options.request_timeout, seen).await;
        let target = target.into_inner().min(written).min(self.recent.reached());
        if target <= self.compacted() {
            return Ok(());
        }
        match self.link.compact(target).await {
            // Somebody was there before.
            Ok(()) | Err(Fault::Compacted) => {}
            Err(fault) => return Err(fault.into()),
        }
        self.note_compaction(target);
        self.rewrite_history(|row| row.compacted = row.compacted.max(target)).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(revision: u64, time: u64, bytes: u64) -> Mark {
        Mark { revision, time, bytes }
    }

    #[test]
    fn what_is_beyond_a_retention() {
        let marks = [mark(10, 100, 5), mark(20, 200, 50), mark(30, 300, 500)];
        let check = |age: u64, bytes: u64, expected: u64| {
            let retention = Retention { age: Duration::from_secs(age), bytes };
            assert_eq!(beyond(&marks, &retention, 350), expected, "{age} seconds, {bytes} bytes");
        };
        check(1000, u64::MAX, 0);
        check(100, u64::MAX, 20);
        check(50, u64::MAX, 30);
        check(1000, 555, 0);
        check(1000, 554, 10);
        check(1000, 549, 20);
        check(1000, 499, 30);
        check(150, 554, 20);
        check(0, 0, 30);
    }

    #[test]
    fn marks_stay_few_and_forget_no_bytes() {
        let mut marks = Marks::new(0);
        for revision in 1..=100_000u64 {
            marks.record(revision, 70_000, revision / 10);
        }
        assert!(marks.marks.len() <= IN_MEMORY);
        assert_eq!(marks.last(), 100_000);
        assert_eq!(marks.marks.iter().map(|mark| mark.bytes).sum::<u64>(), 7_000_000_000);
        assert!(marks.marks.iter().is_sorted_by(|a, b| a.revision < b.revision));
        // Small ones share a mark.
        let mut marks = Marks::new(0);
        (1..=1000).for_each(|revision| marks.record(revision, 100, 7));
        assert_eq!(marks.marks.len(), 2);
    }

    #[test]
    fn a_row_tells_what_was_before() {
        let row = Row { compacted: 3, marks: vec![mark(5, 1, 1), mark(15, 2, 1)] };
        let mut marks = Marks::new(10);
        marks.record(12, 7, 9);
        assert_eq!(marks.with(&row), [mark(5, 1, 1), mark(12, 9, 7)]);
    }
}
