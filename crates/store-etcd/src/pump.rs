//! The one watch of this process: it follows everything below the prefix, whatever the number of tenants and of
//! watches, and hands it to the fan-out.
//!
//! After a lost connection it goes on where it was. If that has been compacted meanwhile (also while this process stood
//! still, with the connection in good order), or if etcd's revision went back (somebody restored a snapshot), it begins anew, and every watch reads its part from etcd's history, or is told
//! that it is gone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use store::StoreError;
use tokio::time::Instant;

use crate::changes::{Reader, Unread};
use crate::engine::Engine;
use crate::link::Fault;
use crate::stream::One;

/// Pauses between attempts, doubling from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// A watch that held for so long was a good one: the next failure is a new one.
const GOOD: Duration = Duration::from_secs(10);

/// Runs until it is dropped.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut reader = Reader::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let (before, began) = (engine.recent.reached(), Instant::now());
        let Err(end) = follow(&engine, &mut reader).await;
        if engine.recent.reached() > before || began.elapsed() > GOOD {
            pause = FIRST_PAUSE;
        }
        if pause == FIRST_PAUSE {
            tracing::warn!(%end, "the watch of etcd broke off; it is taken up again");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
        if let End::Gap = end {
            match engine.mark().await {
                Ok(revision) => {
                    // What is known of tenants may be of a future that did not happen.
                    engine.known.clear();
                    reader = Reader::default();
                    engine.recent.reset(revision);
                    engine.marks.lock().restart(revision);
                    engine.hub.forget();
                }
                Err(error) => tracing::debug!(%error, "cannot begin anew yet"),
            }
        }
    }
}

/// Why the watch ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("{0}")]
    Away(Fault),
    /// It cannot be told what happened since.
    #[error("what happened meanwhile has been compacted, or etcd was restored from an older snapshot")]
    Gap,
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        if fault == Fault::Compacted { End::Gap } else { End::Away(fault) }
    }
}

async fn follow(engine: &Engine, reader: &mut Reader) -> Result<Infallible, End> {
    let reached = engine.recent.reached();
    let mut revisions = engine.revisions(&engine.keys.everything(), reached + 1).await?;
    // Asked when the watch stands: one of what is yet to come is silent, and etcd may be restored while it is opened.
    if engine.now().await? < reached {
        return Err(End::Gap);
    }
    loop {
        publish(engine, reader, &revisions.next().await?).await?;
    }
}

async fn publish(engine: &Engine, reader: &mut Reader, one: &One) -> Result<(), End> {
    let mut pause = FIRST_PAUSE;
    let changes = loop {
        match reader.read(engine, one).await {
            Ok(changes) => break changes,
            Err(Unread::Compacted) => return Err(End::Gap),
            Err(Unread::Failed(StoreError::Unavailable(why))) => {
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
    Ok(())
}
