//! The past, as watches read it: from memory if it is near, from etcd's history if it is not.
//!
//! Reading one tenant's past from etcd reads no other tenant's. Its end is known by the tenant's head, which every
//! transaction of the tenant writes last.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::fanout::{Chunk, Cursor, Kinds, Log};
use store::{Event, Position, Revision, Scope, StoreError, TenantId};
use tokio::time::Instant;

use crate::about::About;
use crate::changes::{self, Reader, Unread};
use crate::engine::Engine;
use crate::keys::Place;
use crate::link::Fault;
use crate::recent::{next_revision, position_after, revision_at};

/// A chunk ends with the revision that brings it beyond this.
const EVENTS: usize = 512;
const BYTES: usize = 4 << 20;
/// A watch outlives a restart of etcd: it asks again for so long.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct EtcdLog(pub Arc<Engine>);

/// Events until a chunk is full.
#[derive(Default)]
struct Filling {
    events: Vec<Arc<Event>>,
    bytes: usize,
}

impl Filling {
    fn add(&mut self, event: Arc<Event>) {
        self.bytes += event.value.len() + event.previous.as_ref().map_or(0, |previous| previous.len());
        self.events.push(event);
    }

    fn is_full(&self) -> bool {
        self.events.len() >= EVENTS || self.bytes >= BYTES
    }
}

/// Where a reader of a tenant stands among all changes.
fn place_of(about: &About, after: Cursor) -> Position {
    // A tenant may have been told to be further than its last event that was read.
    let told = position_after(after.revision.0.saturating_sub(about.offset()));
    if after.position == Position(u64::MAX) || revision_at(told) > revision_at(after.position) {
        told
    } else {
        after.position
    }
}

#[async_trait]
impl Log for EtcdLog {
    async fn tenant_events(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Cursor,
    ) -> Result<Chunk, StoreError> {
        patiently(|| self.0.tenant_events(tenant, scope, after)).await
    }

    async fn all_events(&self, kinds: &Kinds, after: Position) -> Result<Chunk, StoreError> {
        patiently(|| self.0.all_events(kinds, after)).await
    }
}

async fn patiently<F>(read: impl Fn() -> F) -> Result<Chunk, StoreError>
where
    F: Future<Output = Result<Chunk, StoreError>>,
{
    let began = Instant::now();
    loop {
        match read().await {
            Err(StoreError::Unavailable(_)) if began.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
            other => return other,
        }
    }
}

impl Engine {
    async fn tenant_events(
        &self,
        tenant: TenantId,
        scope: &Scope,
        after: Cursor,
    ) -> Result<Chunk, StoreError> {
        let about = self.about(tenant).await?;
        let head = self.read_head(&about).await?;
        let current = about.revision(head);
        if after.revision > current {
            // It has seen what did not happen: etcd was restored from an older snapshot.
            return Err(StoreError::Compacted { asked: after.revision, oldest: current });
        }
        let from = place_of(&about, after);
        if next_revision(from) > head {
            let read = Cursor { revision: current, position: from };
            return Ok(Chunk { events: vec![], read, caught_up: true });
        }
        if next_revision(from) > self.recent.floor() {
            let reaching = self.recent.wait_for(head);
            let waited = tokio::time::timeout(self.options.request_timeout, reaching).await;
            waited.map_err(|_| StoreError::Unavailable("the watch of etcd is behind".into()))?;
            if let Some(recent) = self.recent.after(from, |event| event.tenant == tenant) {
                let last = recent.events.last().map_or(Revision(0), |event| event.revision);
                let revision = last.max(current);
                let read = Cursor { revision, position: position_after(recent.reached).max(from) };
                let events = recent.events.into_iter().filter(|event| scope.contains(&event.key)).collect();
                return Ok(Chunk { events, read, caught_up: true });
            }
        }
        self.tenant_history(&about, scope, from, head).await
    }

    /// From etcd's history, up to the revision of the tenant's head.
    async fn tenant_history(
        &self,
        about: &About,
        scope: &Scope,
        from: Position,
        head: u64,
    ) -> Result<Chunk, StoreError> {
        // Who stands behind a whole revision may stand behind what was compacted as well.
        let mut start = next_revision(from);
        let (stands, whole) = (revision_at(from), start > revision_at(from));
        let gone = || StoreError::Compacted { asked: about.revision(stands), oldest: about.revision(head) };
        if start <= self.compacted() {
            start = if whole { self.same_state(about, stands).await? + 1 } else { return Err(gone()) };
        }
        let failed = async |fault| match fault {
            Fault::Compacted => {
                // Known from here on: whoever asks next finds out what is left.
                self.find_compaction().await.map_or_else(
                    |error| error,
                    |_| match whole {
                        true => StoreError::Unavailable("etcd was compacted meanwhile".into()),
                        false => gone(),
                    },
                )
            }
            fault => fault.into(),
        };
        let mut revisions = match self.revisions(&self.keys.tenant(about.id), start).await {
            Ok(revisions) => revisions,
            Err(fault) => return Err(failed(fault).await),
        };
        let mut filling = Filling::default();
        loop {
            let one = match self.in_time(revisions.next()).await {
                Ok(one) => one,
                Err(fault) => return Err(failed(fault).await),
            };
            let mut index = 0;
            for told in &one.events {
                let place = told.kv.as_ref().and_then(|kv| self.keys.place(&kv.key));
                match place {
                    Some(Place::Object(_, key)) => {
                        let wanted = scope.contains(&key);
                        let event = match changes::event(about, one.revision, index, key, told) {
                            Ok(event) => event,
                            Err(fault) => return Err(failed(fault).await),
                        };
                        index += 1;
                        event
                            .filter(|event| wanted && event.position > from)
                            .into_iter()
                            .for_each(|event| filling.add(event));
                    }
                    Some(Place::Head(_)) if told.is_deletion() => return Err(StoreError::NoTenant),
                    _ => {}
                }
            }
            let caught_up = one.revision >= head;
            if caught_up || filling.is_full() {
                let (revision, position) = (about.revision(one.revision), position_after(one.revision));
                return Ok(Chunk { events: filling.events, read: Cursor { revision, position }, caught_up });
            }
        }
    }

    async fn all_events(&self, kinds: &Kinds, after: Position) -> Result<Chunk, StoreError> {
        let wanted = |event: &Event| kinds.contains(&event.key.kind);
        let read = |position| Cursor { revision: Revision(0), position };
        if revision_at(after) > self.recent.reached() {
            // Ahead of the watch, or of everything: the latter if etcd was restored from an older snapshot.
            let now = self.now().await?;
            if revision_at(after) > now {
                let (asked, oldest) = (Revision(after.0), Revision(position_after(now).0));
                return Err(StoreError::Compacted { asked, oldest });
            }
        }
        if let Some(recent) = self.recent.after(after, wanted) {
            let position = position_after(recent.reached).max(after);
            return Ok(Chunk { events: recent.events, read: read(position), caught_up: true });
        }
        // From etcd's history, to where memory begins: something of ours was written there.
        let gone = |oldest| StoreError::Compacted {
            asked: Revision(after.0),
            oldest: Revision(position_after(oldest).0),
        };
        let start = next_revision(after);
        if start <= self.compacted() {
            return Err(gone(self.compacted()));
        }
        let failed = async |fault| match fault {
            Fault::Compacted => self.find_compaction().await.map_or_else(|error| error, gone),
            fault => fault.into(),
        };
        let floor = self.recent.floor();
        let mut revisions = match self.revisions(&self.keys.everything(), start).await {
            Ok(revisions) => revisions,
            Err(fault) => return Err(failed(fault).await),
        };
        let (mut filling, mut reader) = (Filling::default(), Reader::default());
        loop {
            let one = match self.in_time(revisions.next()).await {
                Ok(one) => one,
                Err(fault) => return Err(failed(fault).await),
            };
            let changes = match reader.read(self, &one).await {
                Ok(changes) => changes,
                Err(Unread::Compacted) => return Err(failed(Fault::Compacted).await),
                Err(Unread::Failed(error)) => return Err(error),
            };
            let events = changes.events.into_iter();
            events
                .filter(|event| event.position > after && wanted(event))
                .for_each(|event| filling.add(event));
            if one.revision >= floor || filling.is_full() {
                let position = position_after(one.revision);
                return Ok(Chunk { events: filling.events, read: read(position), caught_up: false });
            }
        }
    }

    /// There is something to come, so it comes soon or etcd is away.
    async fn in_time<T>(&self, next: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let away = |_| Fault::Away("etcd does not answer".into());
        tokio::time::timeout(self.options.request_timeout * 3, next).await.map_err(away)?
    }
}
