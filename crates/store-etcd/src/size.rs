//! About how many bytes a tenant takes. etcd does not count them by prefix, so they are counted while they are few
//! and estimated from a sample when they are many.

use std::time::Duration;

use store::{Scope, StoreError, TenantId};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::transaction::{count, get, last_of, range};
use crate::wire::{KeyValue, Txn, unsigned};

/// Entries at each end of a tenant that are looked at.
const SAMPLE: usize = 100;
/// How long a sample stands for its tenant.
const FRESH: Duration = Duration::from_secs(30);

/// What an entry of a tenant takes, on the average of a sample.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    bytes: u64,
    entries: u64,
    taken: Instant,
}

impl Engine {
    pub(crate) async fn size(&self, tenant: TenantId) -> Result<u64, StoreError> {
        let about = self.about(tenant).await?;
        let span = self.keys.scope(tenant, &Scope::All)?;
        let head = get(&self.keys.head(tenant));
        let sample = self.samples.get(&tenant).filter(|sample| sample.taken.elapsed() < FRESH);
        if let Some(sample) = sample {
            let mut answer = self.link.read(Txn::read(vec![head.clone(), count(&span)])).await?;
            self.head(&about, &mut answer)?;
            let entries = unsigned(answer.range()?.count);
            if entries > 2 * SAMPLE as u64 {
                return Ok(sample.bytes * entries / sample.entries.max(1));
            }
        }
        let txn = Txn::read(vec![head, range(&span, SAMPLE, 0), last_of(&span, SAMPLE)]);
        let mut answer = self.link.read_much(txn).await?;
        self.head(&about, &mut answer)?;
        let (first, last) = (answer.range()?, answer.range()?);
        let entries = unsigned(first.count);
        let end = first.kvs.last().map(|kv| kv.key.clone()).unwrap_or_default();
        let bytes = |kv: &KeyValue| (kv.key.len() + kv.value.len()) as u64;
        let behind = last.kvs.iter().filter(|kv| kv.key > end);
        let sampled: Vec<u64> = first.kvs.iter().chain(behind).map(bytes).collect();
        let (sum, seen) = (sampled.iter().sum::<u64>(), sampled.len() as u64);
        if seen == entries {
            return Ok(sum);
        }
        self.samples.insert(tenant, Sample { bytes: sum, entries: seen, taken: Instant::now() });
        Ok(sum * entries / seen.max(1))
    }
}
