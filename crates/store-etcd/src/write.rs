//! A transaction of a tenant as one of etcd's.
//!
//! First with a compare for each expectation. If that does not hold, etcd answers with what is there, which either
//! shows the conflict, or shows that nothing is to be done, or is taken as the ground for a second try that compares
//! the tenant's head only: every transaction writes it, so nothing has changed while it has not.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use store::{Expect, Fence, Key, Operation, Revision, StoreError, TenantId};

use crate::about::About;
use crate::engine::Engine;
use crate::past::written_now;
use crate::transaction::{Answer, absent, delete, exists, get, modified_at, modified_before, put};
use crate::wire::{Compare, KeyValue, Step, Txn};

/// How often somebody else may be first.
const TRIES: usize = 100;

/// An operation, and where its key lies.
struct Aimed {
    at: Bytes,
    operation: Operation,
}

impl Aimed {
    fn parts(&self) -> (&Key, Expect) {
        match &self.operation {
            Operation::Put { key, expect, .. }
            | Operation::Delete { key, expect }
            | Operation::Check { key, expect } => (key, *expect),
        }
    }

    fn changes(&self) -> bool {
        !matches!(self.operation, Operation::Check { .. })
    }

    fn is_deletion(&self) -> bool {
        matches!(self.operation, Operation::Delete { .. })
    }
}

struct Plan<'a> {
    about: &'a About,
    head: Bytes,
    operations: Vec<Aimed>,
    /// If the expectations hold, something changes: it need not be asked whether what is deleted is there.
    surely_changes: bool,
}

/// What stands under the keys that matter, and the tenant's head with it.
struct Found {
    head: u64,
    objects: HashMap<Bytes, Option<KeyValue>>,
}

impl Engine {
    pub(crate) async fn write(
        &self,
        fence: Option<&Fence>,
        tenant: TenantId,
        operations: Vec<Operation>,
    ) -> Result<Revision, StoreError> {
        let about = self.about(tenant).await?;
        let plan = self.plan(&about, operations)?;
        let mut txn = plan.guarded_by_expectations();
        for _ in 0..TRIES {
            let found = match txn {
                Some(txn) => {
                    let mut answer = self.commit(fence, txn).await?;
                    if answer.succeeded {
                        let revision =
                            if plan.mutates() { answer.revision } else { self.head(&about, &mut answer)? };
                        return Ok(about.revision(revision));
                    }
                    self.found(&plan, &mut answer)?
                }
                // More expectations than etcd compares: look first.
                None => {
                    let mut answer = self.link.read_much(Txn::read(plan.reads())).await?;
                    self.found(&plan, &mut answer)?
                }
            };
            if !self.changes(&plan, &found)? {
                return Ok(about.revision(found.head));
            }
            txn = Some(plan.guarded_by_head(found.head).ok_or_else(|| {
                StoreError::Failed("the transaction has more steps than etcd takes".into())
            })?);
        }
        Err(StoreError::Unavailable("the tenant is written by too many at once".into()))
    }

    fn plan<'a>(&self, about: &'a About, operations: Vec<Operation>) -> Result<Plan<'a>, StoreError> {
        let mut changed = HashSet::new();
        let mut aimed = Vec::with_capacity(operations.len());
        for operation in operations {
            let operation = match operation {
                // Expected not to be there: nothing to delete, something to check.
                Operation::Delete { key, expect: Expect::Absent } => {
                    Operation::Check { key, expect: Expect::Absent }
                }
                other => other,
            };
            let aim = Aimed { at: Bytes::new(), operation };
            let at = self.keys.object(about.id, aim.parts().0)?;
            if aim.changes() && !changed.insert(at.clone()) {
                return Err(StoreError::Failed(format!("a transaction changes {:?} twice", aim.parts().0)));
            }
            aimed.push(Aimed { at, ..aim });
        }
        let sure = |aimed: &Aimed| match aimed.operation {
            Operation::Put { .. } => true,
            Operation::Delete { expect, .. } => matches!(expect, Expect::Present | Expect::Modified(_)),
            Operation::Check { .. } => false,
        };
        let surely_changes = aimed.iter().any(sure);
        Ok(Plan { about, head: self.keys.head(about.id), operations: aimed, surely_changes })
    }

    fn found(&self, plan: &Plan<'_>, answer: &mut Answer) -> Result<Found, StoreError> {
        let head = self.head(plan.about, answer)?;
        let mut objects = HashMap::new();
        for key in plan.read_keys() {
            objects.insert(key, answer.get()?);
        }
        Ok(Found { head, objects })
    }

    /// Whether there is something to change; an error if an expectation does not hold.
    fn changes(&self, plan: &Plan<'_>, found: &Found) -> Result<bool, StoreError> {
        let mut changes = plan.surely_changes;
        for aimed in &plan.operations {
            let Some(there) = found.objects.get(&aimed.at) else { continue };
            let (key, expect) = aimed.parts();
            let modified = there.as_ref().map(|kv| plan.about.revision(kv.modified()));
            let holds = match expect {
                Expect::Any => true,
                Expect::Absent => modified.is_none(),
                Expect::Present => modified.is_some(),
                Expect::Modified(revision) => modified == Some(revision),
            };
            if !holds {
                let current = there.clone().and_then(|kv| self.entry(plan.about, kv)).map(Box::new);
                return Err(StoreError::Conflict { key: key.clone(), current });
            }
            changes |= aimed.is_deletion() && modified.is_some();
        }
        Ok(changes)
    }
}

impl Plan<'_> {
    fn mutates(&self) -> bool {
        self.operations.iter().any(Aimed::changes)
    }

    /// Whether a key has to be looked at: for what is expected of it, or for whether deleting it is a change.
    fn matters(&self, aimed: &Aimed) -> bool {
        aimed.parts().1 != Expect::Any || (aimed.is_deletion() && !self.surely_changes)
    }

    fn read_keys(&self) -> Vec<Bytes> {
        let mut seen = HashSet::new();
        let keys = self.operations.iter().filter(|aimed| self.matters(aimed)).map(|aimed| aimed.at.clone());
        keys.filter(|key| seen.insert(key.clone())).collect()
    }

    fn reads(&self) -> Vec<Step> {
        std::iter::once(get(&self.head)).chain(self.read_keys().iter().map(get)).collect()
    }

    /// The head comes last: who reads history knows by it that a revision is whole.
    fn steps(&self) -> Vec<Step> {
        if !self.mutates() {
            return vec![get(&self.head)];
        }
        let steps = self.operations.iter().filter_map(|aimed| match &aimed.operation {
            Operation::Put { value, .. } => Some(put(&aimed.at, value.clone())),
            Operation::Delete { .. } => Some(delete(&aimed.at)),
            Operation::Check { .. } => None,
        });
        steps.chain([put(&self.head, written_now())]).collect()
    }

    fn guarded_by_expectations(&self) -> Option<Txn> {
        let mut compares = vec![exists(&self.head)];
        for aimed in &self.operations {
            match aimed.parts().1 {
                Expect::Any if self.matters(aimed) => compares.push(exists(&aimed.at)),
                Expect::Any => {}
                Expect::Absent => compares.push(absent(&aimed.at)),
                Expect::Present => compares.push(exists(&aimed.at)),
                Expect::Modified(revision) => compares.extend(written_by(self.about, &aimed.at, revision)),
            }
        }
        Txn::new(compares, self.steps(), self.reads())
    }

    fn guarded_by_head(&self, head: u64) -> Option<Txn> {
        Txn::new(vec![modified_at(&self.head, head)], self.steps(), self.reads())
    }
}

/// What holds of a key while its value is the one that this revision of the tenant wrote.
pub(crate) fn written_by(about: &About, key: &Bytes, revision: Revision) -> Vec<Compare> {
    match about.etcds(revision) {
        // Also what was copied before the tenant was seen.
        Some(etcds) if etcds == about.birth => vec![exists(key), modified_before(key, etcds + 1)],
        Some(etcds) => vec![modified_at(key, etcds)],
        // No revision of this tenant, so of none of its keys.
        None => vec![modified_at(key, u64::MAX)],
    }
}
