//! What is done later, and from time to time: removing what deleted tenants stored, giving up abandoned copies,
//! compaction, and the beat of progress deliveries.
//!
//! Every replica does all of it; nothing breaks when two do the same. A replica that does nothing else asks etcd once
//! per interval whether something is left to do.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use store::{StoreError, TenantId};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::keys::{Keys, Span, successor};
use crate::transaction::{delete, delete_span, exists, keys_of, modified_at, put, range};
use crate::wire::Txn;

/// Keys removed per transaction: a few milliseconds of etcd's time.
const STEP: usize = 500;

/// How long removal rests after a step, in times of what the step took: all of etcd's clients wait for one writer, and
/// nobody waits for a removal.
const REST: u32 = 3;

pub(crate) async fn beat(engine: Arc<Engine>) {
    let mut ticks = tokio::time::interval(engine.options.progress_interval);
    loop {
        ticks.tick().await;
        engine.hub.beat();
    }
}

/// Copies in the making, with the revision that wrote each last, and since when it is that.
type Makings = HashMap<TenantId, (u64, Instant)>;

/// Runs until it is dropped.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut ticks = tokio::time::interval(engine.options.compaction_interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut makings, mut compacted, mut failing) = (Makings::new(), 0, false);
    loop {
        let removal_only = tokio::select! {
            _ = ticks.tick() => false,
            () = engine.chores.notified() => true,
        };
        let done = async {
            if !removal_only {
                engine.give_up_abandoned(&mut makings).await?;
            }
            engine.remove_all().await?;
            let last = engine.marks.lock().last();
            if !removal_only && last > compacted {
                engine.compact(engine.options.retention).await?;
                compacted = last;
            }
            Ok::<_, StoreError>(())
        };
        match done.await {
            Ok(()) => failing = false,
            Err(error) if failing => tracing::debug!(%error, "housekeeping still fails"),
            // Once, and not every time it is tried: without it, etcd fills up.
            Err(error) => {
                failing = true;
                tracing::warn!(%error, "housekeeping of the store on etcd fails; it is tried again until it works");
            }
        }
    }
}

impl Engine {
    /// Leaves a copy that was not published to be removed, in the background.
    pub(crate) fn abandon(&self, tenant: TenantId) {
        self.abandoned.lock().push(tenant);
        self.chores.notify_one();
    }

    async fn remove_all(&self) -> Result<(), StoreError> {
        let abandoned = std::mem::take(&mut *self.abandoned.lock());
        for tenant in abandoned {
            let making = self.keys.making(tenant);
            let success = vec![delete(&making), put(&self.keys.removing(tenant), Bytes::new())];
            self.link.write(Txn { compare: vec![exists(&making)], success, failure: vec![] }).await?;
        }
        let mut answer = self.link.read(Txn::read(vec![keys_of(&self.keys.all_removing(), STEP)])).await?;
        for kv in answer.range()?.kvs {
            if let Some(tenant) = Keys::id_at_end(&kv.key) {
                self.remove(tenant).await?;
            }
        }
        Ok(())
    }

    /// Removes what a tenant stored, step by step, and last the row that says so.
    async fn remove(&self, tenant: TenantId) -> Result<(), StoreError> {
        let (row, span) = (self.keys.removing(tenant), self.keys.tenant(tenant));
        loop {
            let begun = Instant::now();
            let mut answer = self.link.read_much(Txn::read(vec![keys_of(&span, STEP)])).await?;
            let kvs = answer.range()?.kvs;
            let (Some(first), Some(last)) = (kvs.first(), kvs.last()) else { break };
            let some = Span { from: first.key.clone(), to: successor(&last.key) };
            let txn = Txn { compare: vec![exists(&row)], success: vec![delete_span(&some)], failure: vec![] };
            if !self.link.write(txn).await?.succeeded {
                return Ok(());
            }
            tokio::time::sleep(begun.elapsed() * REST).await;
        }
        self.link
            .write(Txn { compare: vec![exists(&row)], success: vec![delete(&row)], failure: vec![] })
            .await?;
        Ok(())
    }

    /// A copy whose row nobody wrote for long is nobody's. Judged by this process's own clock, so that no two clocks
    /// are compared.
    async fn give_up_abandoned(&self, makings: &mut Makings) -> Result<(), StoreError> {
        let mut answer = self.link.read(Txn::read(vec![range(&self.keys.all_making(), STEP, 0)])).await?;
        let kvs = answer.range()?.kvs;
        let found: HashMap<TenantId, u64> =
            kvs.iter().filter_map(|kv| Some((Keys::id_at_end(&kv.key)?, kv.modified()))).collect();
        makings.retain(|tenant, (modified, _)| found.get(tenant) == Some(modified));
        for (tenant, modified) in found {
            let (_, since) = *makings.entry(tenant).or_insert_with(|| (modified, Instant::now()));
            if since.elapsed() < self.options.abandoned_after {
                continue;
            }
            let making = self.keys.making(tenant);
            let success = vec![delete(&making), put(&self.keys.removing(tenant), Bytes::new())];
            let compare = vec![modified_at(&making, modified)];
            self.link.write(Txn { compare, success, failure: vec![] }).await?;
            tracing::info!(%tenant, "a copy of a tenant was abandoned; it is removed");
        }
        Ok(())
    }
}
