//! The one watch of this process: it follows everything below the prefix, whatever the number of tenants and of
//! watches, and hands it to the fan-out.
//!
//! After a lost connection it goes on where it was. If that has been compacted meanwhile, it begins anew, and every
//! watch reads its part from etcd's history, or is told that it is gone.

use std::sync::Arc;
use std::time::Duration;

use store::StoreError;

use crate::changes::Reader;
use crate::engine::Engine;
use crate::link::Fault;
use crate::stream::One;

/// Pauses between attempts, doubling from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Runs until it is dropped.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut reader = Reader::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let before = engine.recent.reached();
        let fault = follow(&engine, &mut reader).await;
        if engine.recent.reached() > before {
            pause = FIRST_PAUSE;
        }
        tracing::warn!(%fault, "the watch of etcd broke off; going on where it was");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
        if fault == Fault::Compacted {
            match engine.mark().await {
                Ok(revision) => {
                    engine.recent.reset(revision);
                    engine.marks.lock().restart(revision);
                    engine.hub.forget();
                }
                Err(error) => tracing::debug!(%error, "cannot begin anew yet"),
            }
        }
    }
}

async fn follow(engine: &Engine, reader: &mut Reader) -> Fault {
    let from = engine.recent.reached() + 1;
    let mut revisions = match engine.revisions(&engine.keys.everything(), from).await {
        Ok(revisions) => revisions,
        Err(fault) => return fault,
    };
    loop {
        match revisions.next().await {
            Ok(one) => publish(engine, reader, &one).await,
            Err(fault) => return fault,
        }
    }
}

async fn publish(engine: &Engine, reader: &mut Reader, one: &One) {
    let mut pause = FIRST_PAUSE;
    let changes = loop {
        match reader.read(engine, one).await {
            Ok(changes) => break changes,
            Err(StoreError::Unavailable(why)) => {
                tracing::debug!(why, "cannot look up a tenant yet");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            Err(error) => {
                // Somebody else wrote below our prefix; to stop here would stop everybody's watches.
                tracing::error!(%error, revision = one.revision, "a revision of etcd cannot be read; left out");
                break Default::default();
            }
        }
    };
    // In memory first: who has read up to here must not find less in its channel.
    engine.recent.push(one.revision, &changes.events);
    if !changes.revisions.is_empty() {
        engine.marks.lock().record(one.revision, changes.bytes, crate::history::now());
    }
    engine.hub.publish(&changes.events, &changes.revisions, &changes.deleted);
}
