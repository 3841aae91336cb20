//! What is a tenant's revision now? One question to the engine answers all who wait for it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Counts, count};
use crate::{Revision, Store, StoreError, TenantId};

type Answer = Result<Revision, StoreError>;

pub(super) struct Question {
    engine: Arc<dyn Store>,
    tenant: TenantId,
    asking: Mutex<Asking>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Asking {
    under_way: bool,
    /// Those who came after the question under way was sent: its answer may be older than what they have seen, so
    /// they wait for the next.
    waiting: Vec<oneshot::Sender<Answer>>,
}

impl Question {
    pub(super) fn new(engine: Arc<dyn Store>, tenant: TenantId, counts: Arc<Counts>) -> Arc<Question> {
        Arc::new(Question { engine, tenant, asking: Mutex::default(), counts })
    }

    /// At least the revision of every write acknowledged before this was called.
    pub(super) async fn ask(self: &Arc<Self>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let begin = {
            let mut asking = self.asking.lock();
            asking.waiting.push(answer);
            !std::mem::replace(&mut asking.under_way, true)
        };
        if begin {
            // In a task of its own: whoever asked first may go away before the others have their answer.
            tokio::spawn(self.clone().answer());
        }
        answered.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the store is closing".into())))
    }

    async fn answer(self: Arc<Self>) {
        while let Some(waiting) = self.next() {
            count(&self.counts.questions);
            let answer = self.engine.revision(self.tenant).await;
            for waiting in waiting {
                // Who is gone needs no answer.
                let _ = waiting.send(repeated(&answer));
            }
        }
    }

    fn next(&self) -> Option<Vec<oneshot::Sender<Answer>>> {
        let mut asking = self.asking.lock();
        if asking.waiting.is_empty() {
            asking.under_way = false;
            return None;
        }
        Some(std::mem::take(&mut asking.waiting))
    }
}

/// The same answer once more; all that can be wrong with this question.
fn repeated(answer: &Answer) -> Answer {
    match answer {
        Ok(revision) => Ok(*revision),
        Err(StoreError::NoTenant) => Err(StoreError::NoTenant),
        Err(StoreError::Unavailable(why)) => Err(StoreError::Unavailable(why.clone())),
        Err(other) => Err(StoreError::Failed(other.to_string())),
    }
}
