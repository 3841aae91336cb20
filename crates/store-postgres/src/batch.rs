//! What many transactions come to when they are done one after the other: pure, no database in sight.
//!
//! A batch is checked against what the database holds of its keys, each transaction against what those before it
//! leave. One that is refused changes nothing and its neighbours go on. What is left to write is the last state of
//! each key, every line of the log, and the sums.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use store::codec::{self, integer};
use store::{Change, Entry, Event, Expect, Fence, Key, Operation, Position, Revision, StoreError, TenantId};

/// What a line of the log takes beside its key and the value it supersedes.
pub(crate) const LOG_LINE: usize = 64;
/// Beyond this an index of the database does not hold a key.
const LONGEST_KEY: usize = 2500;
/// The database takes a gigabyte at once; far less is already a mistake of the caller.
const LARGEST_TRANSACTION: usize = 256 << 20;

/// One caller's transaction, its keys in the database's form.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub tenant: TenantId,
    pub fence: Option<Post>,
    pub steps: Vec<Step>,
    /// Bytes it brings, to bound a batch.
    pub weight: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub key: Key,
    pub bytes: Vec<u8>,
    expect: Expect,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Put(Bytes),
    Delete,
    Check,
}

/// A fence, its key in the database's form.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub tenant: TenantId,
    pub key: Vec<u8>,
    modified: Revision,
}

impl Post {
    pub(crate) fn new(fence: &Fence) -> Result<Post, StoreError> {
        Ok(Post { tenant: fence.tenant, key: encoded(&fence.key)?, modified: fence.modified })
    }

    /// Judged by what the database holds of its key while its tenant is locked.
    pub(crate) fn must_stand(&self, modified: Option<Revision>) -> Result<(), StoreError> {
        if modified == Some(self.modified) { Ok(()) } else { Err(StoreError::Fenced) }
    }
}

/// A key in the database's form, if it fits.
pub(crate) fn encoded(key: &Key) -> Result<Vec<u8>, StoreError> {
    let bytes = codec::encode(key)?;
    if bytes.len() > LONGEST_KEY {
        return Err(StoreError::Failed(format!("a key of {} bytes is too long", bytes.len())));
    }
    Ok(bytes)
}

impl Transaction {
    pub(crate) fn new(
        tenant: TenantId,
        operations: Vec<Operation>,
        fence: Option<&Fence>,
    ) -> Result<Transaction, StoreError> {
        let mut steps = Vec::with_capacity(operations.len());
        let mut weight = 0;
        for operation in operations {
            let (key, expect, action) = match operation {
                Operation::Put { key, expect, value } => (key, expect, Action::Put(value)),
                Operation::Delete { key, expect } => (key, expect, Action::Delete),
                Operation::Check { key, expect } => (key, expect, Action::Check),
            };
            let bytes = encoded(&key)?;
            weight += bytes.len() + if let Action::Put(value) = &action { value.len() } else { 0 };
            steps.push(Step { key, bytes, expect, action });
        }
        if weight > LARGEST_TRANSACTION {
            let why = format!("a transaction of {weight} bytes is more than the store takes");
            return Err(StoreError::TooLarge(why));
        }
        Ok(Transaction { tenant, fence: fence.map(Post::new).transpose()?, steps, weight })
    }

    /// Whose rows it locks.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = TenantId> {
        std::iter::once(self.tenant).chain(self.fence.as_ref().map(|fence| fence.tenant))
    }

    /// The keys that decide about it.
    pub(crate) fn places(&self) -> impl Iterator<Item = (TenantId, &[u8])> {
        let fence = self.fence.iter().map(|fence| (fence.tenant, fence.key.as_slice()));
        self.steps.iter().map(|step| (self.tenant, step.bytes.as_slice())).chain(fence)
    }
}

/// A value with its revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub created: Revision,
    pub modified: Revision,
    pub value: Bytes,
}

/// What the database holds of the tenants and keys of a batch.
#[derive(Default)]
pub(crate) struct Held {
    /// Only tenants that live, and that nobody else holds.
    pub revisions: HashMap<TenantId, Revision>,
    /// Only keys that are there.
    pub entries: HashMap<(TenantId, Vec<u8>), Stored>,
}

/// One change of one key.
pub(crate) struct Line {
    pub tenant: TenantId,
    pub revision: Revision,
    pub key: Key,
    pub bytes: Vec<u8>,
    pub before: Option<Stored>,
    /// Whether `before` is what the database has, so that it need not be sent there.
    pub stands: bool,
    pub after: Option<Bytes>,
    pub created: Revision,
}

impl Line {
    pub(crate) fn change(&self) -> (i16, Change) {
        match (&self.before, &self.after) {
            (None, _) => (0, Change::Created),
            (Some(_), Some(_)) => (1, Change::Updated),
            (Some(_), None) => (2, Change::Deleted),
        }
    }

    /// Bytes of history it adds.
    pub(crate) fn history(&self) -> usize {
        LOG_LINE + self.bytes.len() + self.before.as_ref().map_or(0, |before| before.value.len())
    }

    /// Bytes of the values of its event.
    pub(crate) fn weight(&self) -> i32 {
        let old = self.before.as_ref().map_or(0, |before| before.value.len());
        let new = self.after.as_ref().map_or(0, Bytes::len);
        i32::try_from(LOG_LINE + old + new).unwrap_or(i32::MAX)
    }

    fn into_event(self, position: Position) -> Event {
        let (_, change) = self.change();
        let old = self.before.map(|before| before.value);
        let (value, previous) = match self.after {
            Some(value) => (value, old),
            None => (old.unwrap_or_default(), None),
        };
        Event {
            tenant: self.tenant,
            key: self.key,
            change,
            revision: self.revision,
            created: self.created,
            value,
            previous,
            position,
            derived: Default::default(),
        }
    }
}

/// What a batch comes to.
#[derive(Default)]
pub(crate) struct Plan {
    /// In the order of the transactions.
    pub results: Vec<Result<Revision, StoreError>>,
    pub lines: Vec<Line>,
    /// The tenants that move on, and to where.
    pub advanced: BTreeMap<TenantId, Revision>,
    /// The last state of each key that changes.
    pub last: HashMap<(TenantId, Vec<u8>), Option<Stored>>,
    /// Entries and bytes by tenant and type. Sorted, as are tenants, so that no two batches lock crosswise.
    pub tallies: BTreeMap<(TenantId, CompactString), (i64, i64)>,
}

impl Plan {
    pub(crate) fn new(transactions: &[&Transaction], held: &Held) -> Plan {
        let mut plan = Plan::default();
        for transaction in transactions {
            let result = plan.add(transaction, held);
            plan.results.push(result);
        }
        plan.tallies.retain(|_, delta| *delta != (0, 0));
        plan
    }

    fn now<'a>(&'a self, held: &'a Held, place: &(TenantId, Vec<u8>)) -> Option<&'a Stored> {
        match self.last.get(place) {
            Some(changed) => changed.as_ref(),
            None => held.entries.get(place),
        }
    }

    fn add(&mut self, transaction: &Transaction, held: &Held) -> Result<Revision, StoreError> {
        let tenant = transaction.tenant;
        if let Some(fence) = &transaction.fence {
            let lives = held.revisions.contains_key(&fence.tenant);
            let there = self.now(held, &(fence.tenant, fence.key.clone())).filter(|_| lives);
            fence.must_stand(there.map(|there| there.modified))?;
        }
        let current = self.advanced.get(&tenant).or(held.revisions.get(&tenant));
        let current = *current.ok_or(StoreError::NoTenant)?;
        let revision = Revision(current.0 + 1);
        let mut changed = HashSet::new();
        let mut lines = Vec::new();
        // Every expectation before anything happens. A deletion of nothing is no change.
        for step in &transaction.steps {
            let place = (tenant, step.bytes.clone());
            let before = self.now(held, &place);
            let holds = match step.expect {
                Expect::Any => true,
                Expect::Absent => before.is_none(),
                Expect::Present => before.is_some(),
                Expect::Modified(revision) => before.is_some_and(|before| before.modified == revision),
            };
            if !holds {
                let entry = |before: &Stored| Entry {
                    key: step.key.clone(),
                    created: before.created,
                    modified: before.modified,
                    value: before.value.clone(),
                };
                let current = before.map(|before| Box::new(entry(before)));
                return Err(StoreError::Conflict { key: step.key.clone(), current });
            }
            let after = match &step.action {
                Action::Check => continue,
                Action::Delete if before.is_none() => continue,
                Action::Delete => None,
                Action::Put(value) => Some(value.clone()),
            };
            if !changed.insert(&step.bytes) {
                return Err(StoreError::Failed(format!("a transaction changes {:?} twice", step.key)));
            }
            lines.push(Line {
                tenant,
                revision,
                key: step.key.clone(),
                bytes: step.bytes.clone(),
                created: before.map_or(revision, |before| before.created),
                stands: before.is_some() && !self.last.contains_key(&place),
                before: before.cloned(),
                after,
            });
        }
        if lines.is_empty() {
            return Ok(current);
        }
        for line in &lines {
            let weight = |value: &Bytes| (line.bytes.len() + value.len()) as i64;
            let was = line.before.as_ref().map_or(0, |before| weight(&before.value));
            let is = line.after.as_ref().map_or(0, weight);
            let tally = self.tallies.entry((tenant, line.key.kind.clone())).or_default();
            tally.0 += i64::from(line.after.is_some()) - i64::from(line.before.is_some());
            tally.1 += is - was;
            let stored =
                line.after.clone().map(|value| Stored { created: line.created, modified: revision, value });
            self.last.insert((tenant, line.bytes.clone()), stored);
        }
        self.lines.append(&mut lines);
        self.advanced.insert(tenant, revision);
        Ok(revision)
    }

    /// Bytes of history it adds.
    pub(crate) fn history(&self) -> i64 {
        integer(self.lines.iter().map(Line::history).sum::<usize>() as u64)
    }

    /// The events of its lines, which end at `last`.
    pub(crate) fn events(lines: Vec<Line>, last: Position) -> Vec<Arc<Event>> {
        let before = last.0.saturating_sub(lines.len() as u64);
        let numbered = lines.into_iter().zip(before + 1..);
        numbered.map(|(line, position)| Arc::new(line.into_event(Position(position)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TenantId = TenantId(1);

    fn key(name: &str) -> Key {
        Key::new("things", "ns", name)
    }

    fn put(name: &str, expect: Expect, value: &str) -> Operation {
        Operation::Put { key: key(name), expect, value: Bytes::copy_from_slice(value.as_bytes()) }
    }

    fn held() -> Held {
        let stored = Stored { created: Revision(3), modified: Revision(5), value: "old".into() };
        Held {
            revisions: HashMap::from([(ONE, Revision(9))]),
            entries: HashMap::from([((ONE, encoded(&key("there")).unwrap()), stored)]),
        }
    }

    /// Results as revisions or the beginnings of errors, and lines as `change name=value@revision`.
    fn check(transactions: Vec<(u64, Vec<Operation>)>, results: &[&str], lines: &[&str]) -> Plan {
        let transactions: Vec<_> = transactions
            .into_iter()
            .map(|(tenant, operations)| Transaction::new(TenantId(tenant), operations, None).unwrap())
            .collect();
        check_all(transactions, results, lines)
    }

    fn check_all(transactions: Vec<Transaction>, results: &[&str], lines: &[&str]) -> Plan {
        let plan = Plan::new(&transactions.iter().collect::<Vec<_>>(), &held());
        let told = |result: &Result<Revision, StoreError>| match result {
            Ok(revision) => revision.to_string(),
            Err(StoreError::Conflict { current, .. }) => {
                format!("conflict {}", current.as_ref().map_or(0, |entry| entry.modified.0))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(plan.results.iter().map(told).collect::<Vec<_>>(), results);
        let line = |line: &Line| {
            let sign = ["+", "~", "-"][usize::try_from(line.change().0).unwrap()];
            let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
            let (old, new) = (line.before.as_ref().map(|before| &before.value), line.after.as_ref());
            let value = text(new.or(old).unwrap());
            let stands = if line.stands { "*" } else { "" };
            format!("{sign}{}={value}@{}{stands}", line.key.name, line.revision)
        };
        assert_eq!(plan.lines.iter().map(line).collect::<Vec<_>>(), lines);
        plan
    }

    #[test]
    fn each_transaction_sees_those_before_it_and_fails_alone() {
        let delete = |name| Operation::Delete { key: key(name), expect: Expect::Any };
        let plan = check(
            vec![
                (1, vec![put("new", Expect::Absent, "1")]),
                (1, vec![put("new", Expect::Absent, "2"), put("other", Expect::Any, "lost")]),
                (1, vec![put("new", Expect::Modified(Revision(10)), "3")]),
                (2, vec![put("new", Expect::Any, "x")]),
                (1, vec![put("there", Expect::Modified(Revision(5)), "new")]),
                (1, vec![put("there", Expect::Modified(Revision(5)), "late")]),
                (1, vec![delete("there")]),
                (1, vec![delete("there")]),
                (1, vec![put("there", Expect::Absent, "again")]),
                (1, vec![put("a", Expect::Any, "1"), put("a", Expect::Any, "2")]),
            ],
            &[
                "10",
                "conflict 10",
                "11",
                "no such tenant",
                "12",
                "conflict 12",
                "13",
                "13",
                "14",
                "the store failed: a transaction changes Key { kind: \"things\", namespace: \"ns\", name: \"a\" } twice",
            ],
            &["+new=1@10", "~new=3@11", "~there=new@12*", "-there=new@13", "+there=again@14"],
        );
        assert_eq!(plan.advanced, BTreeMap::from([(ONE, Revision(14))]));
        let there = &plan.last[&(ONE, encoded(&key("there")).unwrap())];
        let again = Stored { created: Revision(14), modified: Revision(14), value: "again".into() };
        assert_eq!(there.as_ref(), Some(&again));
        // One more entry: its key, its byte, and two bytes more in the other.
        let key_length = encoded(&key("new")).unwrap().len() as i64;
        assert_eq!(plan.tallies[&(ONE, "things".into())], (1, key_length + 1 + 2));
    }

    #[test]
    fn a_fence_that_falls_stops_those_behind_it() {
        let fence = Fence { tenant: ONE, key: key("there"), modified: Revision(5) };
        let elsewhere = Fence { tenant: TenantId(2), key: key("there"), modified: Revision(5) };
        let write = |name: &str, fence: Option<&Fence>| {
            Transaction::new(ONE, vec![put(name, Expect::Any, "1")], fence).unwrap()
        };
        let fenced = "the lease that this is written under has been taken by another";
        check_all(
            vec![
                write("a", Some(&fence)),
                write("b", Some(&elsewhere)),
                write("there", None),
                write("c", Some(&fence)),
                write("d", None),
            ],
            &["10", fenced, "11", fenced, "12"],
            &["+a=1@10", "~there=1@11*", "+d=1@12"],
        );
    }

    #[test]
    fn what_changes_nothing_has_no_line() {
        let check_there = Operation::Check { key: key("there"), expect: Expect::Present };
        let delete = Operation::Delete { key: key("missing"), expect: Expect::Any };
        let plan = check(vec![(1, vec![]), (1, vec![check_there, delete])], &["9", "9"], &[]);
        assert!(plan.advanced.is_empty() && plan.tallies.is_empty());
    }

    #[test]
    fn what_the_database_cannot_hold_is_refused() {
        let long = Operation::Check { key: key(&"x".repeat(3000)), expect: Expect::Any };
        assert!(Transaction::new(ONE, vec![long], None).is_err());
        let nul = Operation::Check { key: key("\0"), expect: Expect::Any };
        assert!(Transaction::new(ONE, vec![nul], None).is_err());
    }
}
