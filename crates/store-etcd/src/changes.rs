//! What a revision of etcd's means: events of objects, tenants that moved on, tenants that ended.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use store::{Change, Event, Key, Revision, StoreError, TenantId};

use crate::about::About;
use crate::engine::Engine;
use crate::keys::Place;
use crate::link::Fault;
use crate::recent::position;
use crate::stream::One;
use crate::wire::{KeyValue, WatchEvent};

#[derive(Default)]
pub(crate) struct Changes {
    pub events: Vec<Arc<Event>>,
    pub revisions: Vec<(TenantId, Revision)>,
    pub deleted: Vec<TenantId>,
    /// What the revision adds to history, about.
    pub bytes: u64,
}

/// Why a revision cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// What was there before it has been compacted.
    #[error("what was there before has been compacted")]
    Compacted,
    #[error(transparent)]
    Failed(#[from] StoreError),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        if fault == Fault::Compacted { Unread::Compacted } else { Unread::Failed(fault.into()) }
    }
}

/// Reads revisions in their order.
#[derive(Default)]
pub(crate) struct Reader {
    /// Tenants as they are at this point of history; none for those being made, or removed. Looked up once each.
    seen: HashMap<TenantId, Option<Arc<About>>>,
}

/// Beyond this many tenants they are looked up again.
const SEEN: usize = 10_000;

impl Reader {
    pub(crate) async fn read(&mut self, engine: &Engine, one: &One) -> Result<Changes, Unread> {
        let mut changes = Changes::default();
        let mut index = 0;
        for event in &one.events {
            let Some(kv) = &event.kv else { continue };
            changes.bytes += (kv.key.len() + kv.value.len()) as u64 + 64;
            match engine.keys.place(&kv.key) {
                Some(Place::About(tenant)) if event.is_deletion() => {
                    engine.known.remove(&tenant);
                    self.see(tenant, None);
                }
                Some(Place::About(tenant)) => {
                    self.see(tenant, Some(Arc::new(About::decode(tenant, kv)?)));
                }
                Some(Place::Head(tenant)) if event.is_deletion() => changes.deleted.push(tenant),
                Some(Place::Head(tenant)) => {
                    if let Some(about) = self.about(engine, tenant).await? {
                        changes.revisions.push((tenant, about.revision(one.revision)));
                    }
                }
                Some(Place::Object(tenant, key)) => {
                    if let Some(about) = self.about(engine, tenant).await? {
                        changes.events.extend(self::event(&about, one.revision, index, key, event)?);
                    }
                    index += 1;
                }
                Some(Place::History) => engine.read_history_row(kv),
                None => {}
            }
        }
        Ok(changes)
    }

    async fn about(&mut self, engine: &Engine, tenant: TenantId) -> Result<Option<Arc<About>>, StoreError> {
        if let Some(seen) = self.seen.get(&tenant) {
            return Ok(seen.clone());
        }
        let about = match engine.known.get(&tenant) {
            Some(about) => Some(about),
            None => engine.look_up(tenant).await?,
        };
        self.see(tenant, about.clone());
        Ok(about)
    }

    fn see(&mut self, tenant: TenantId, about: Option<Arc<About>>) {
        if self.seen.len() >= SEEN {
            self.seen.clear();
        }
        self.seen.insert(tenant, about);
    }
}

/// The event of one object, the `index`th that the revision changed. `None` for what was written before the tenant
/// was seen.
///
/// etcd looks up what was there before when it sends, not when it happens. To a replica that was slow to read it may
/// send a deletion that says nothing of what was deleted, because that has been compacted meanwhile.
pub(crate) fn event(
    about: &About,
    revision: u64,
    index: u64,
    key: Key,
    event: &WatchEvent,
) -> Result<Option<Arc<Event>>, Fault> {
    let Some(kv) = event.kv.as_ref().filter(|_| revision >= about.birth) else { return Ok(None) };
    let before = || event.previous.as_ref().ok_or(Fault::Compacted);
    let (change, created, value, replaced): (_, _, _, Option<&KeyValue>) = if event.is_deletion() {
        let last = before()?;
        (Change::Deleted, last.created(), &last.value, None)
    } else if kv.created() == kv.modified() {
        (Change::Created, kv.created(), &kv.value, None)
    } else {
        (Change::Updated, kv.created(), &kv.value, Some(before()?))
    };
    Ok(Some(Arc::new(Event {
        tenant: about.id,
        key,
        change,
        revision: about.revision(revision),
        created: about.revision(created),
        value: value.clone(),
        previous: replaced.map(|kv| kv.value.clone()),
        position: position(revision, index),
        derived: OnceLock::new(),
    })))
}
