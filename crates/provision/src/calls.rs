//! Calls to a cloud, each limited and counted.

use std::sync::Arc;
use std::time::Duration;

use objects::CompactString;
use parking_lot::Mutex;

use crate::failure::{Class, Failure};
use crate::limits::Bucket;
use crate::metrics::Metrics;

/// What a call is for, in the words of ACK's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationType {
    Create,
    ReadOne,
    ReadMany,
    Update,
    Delete,
    GetAttributes,
    SetAttributes,
}

impl OperationType {
    pub fn as_str(self) -> &'static str {
        match self {
            OperationType::Create => "CREATE",
            OperationType::ReadOne => "READ_ONE",
            OperationType::ReadMany => "READ_MANY",
            OperationType::Update => "UPDATE",
            OperationType::Delete => "DELETE",
            OperationType::GetAttributes => "GET_ATTRIBUTES",
            OperationType::SetAttributes => "SET_ATTRIBUTES",
        }
    }
}

/// Longer than this nobody waits for a token: the worker is given to others.
const PATIENCE: Duration = Duration::from_secs(2);

/// Warnings of one pass that are told; who warns of more warns of nothing.
const WARNINGS: usize = 20;

/// The way to a cloud for one object in one pass.
#[derive(Clone)]
pub struct Calls {
    bucket: Arc<Bucket>,
    metrics: Arc<Metrics>,
    service: CompactString,
    /// What came with answers and is no failure, in the order in which it came.
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Calls {
    pub fn new(bucket: Arc<Bucket>, metrics: Arc<Metrics>, service: impl Into<CompactString>) -> Calls {
        Calls { bucket, metrics, service: service.into(), warnings: Arc::default() }
    }

    /// The cloud did what it was asked, and says that something is amiss. No secrets.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if warnings.len() < WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// What was warned of since this was last asked.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Makes one call when the account bears it. `operation` is the cloud's name of it, such as `CreateBucket`.
    pub async fn make<T>(
        &self,
        purpose: OperationType,
        operation: &str,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if let Err(wait) = self.bucket.acquire(PATIENCE).await {
            let message = format!("{operation} waits: too many calls to this account already");
            return Err(Failure::new(Class::Waiting(wait), "RateLimited", message));
        }
        let result = self.make_local(purpose, operation, call).await;
        if result.is_ok() {
            self.bucket.accepted();
        }
        result
    }

    /// Makes one call that asks nothing of the account, since it is answered on this machine: it waits for nobody. If the
    /// cloud complains of it all the same, that counts.
    pub async fn make_local<T>(
        &self,
        purpose: OperationType,
        operation: &str,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.metrics.called(&self.service, purpose, operation);
        let result = call.await;
        if let Err(failure) = &result {
            self.metrics.failed(&self.service, operation, failure);
            if failure.class == Class::Throttled {
                self.bucket.refused();
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Pace;

    #[tokio::test(start_paused = true)]
    async fn what_is_answered_here_takes_nothing_of_the_account() {
        let bucket = Arc::new(Bucket::new(Pace { per_second: 10.0, burst: 1.0 }));
        let calls = Calls::new(bucket.clone(), Arc::default(), "cloud");
        let fine = || async { Ok::<_, Failure>(()) };
        let began = tokio::time::Instant::now();
        for _ in 0..10 {
            calls.make_local(OperationType::ReadOne, "Check", fine()).await.unwrap();
        }
        calls.make(OperationType::ReadOne, "Get", fine()).await.unwrap();
        assert!(began.elapsed().is_zero());
        calls.make(OperationType::ReadOne, "Get", fine()).await.unwrap();
        assert_eq!(began.elapsed().as_millis() / 10, 10);
        // A cloud that is asked all the same, and says that it is too much, is believed.
        let refused = async { Err::<(), _>(Failure::new(Class::Throttled, "", "slow down")) };
        calls.make_local(OperationType::ReadOne, "Check", refused).await.unwrap_err();
        assert_eq!(bucket.pace(), 5.0);
    }
}
