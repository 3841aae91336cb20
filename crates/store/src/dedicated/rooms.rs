//! The databases that are open: those that are used, and for a while those that were.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;

use super::House;
use super::ledger::State;
use crate::embedded::{self, OpenError};
use crate::{Embedded, Key, Store, StoreError, TenantId, WatchError};

/// What the only tenant of a database is called there.
const TENANT: &str = "tenant";

/// One that is open. Whoever holds it uses it.
pub(super) struct Room {
    pub(super) store: Embedded,
    used: Mutex<Instant>,
    /// Whether it was closed because its tenant is gone.
    gone: AtomicBool,
}

impl Room {
    fn new(store: Embedded) -> Arc<Room> {
        Arc::new(Room { store, used: Mutex::new(Instant::now()), gone: AtomicBool::new(false) })
    }

    /// Why a watch of it ended.
    pub(super) fn end_of(&self, error: WatchError) -> WatchError {
        match error {
            WatchError::Closed if self.gone.load(Ordering::Acquire) => WatchError::TenantDeleted,
            error => error,
        }
    }

    /// Whether nobody but its slot holds it.
    fn is_at_rest(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }
}

/// The place of a database, which is opened, closed and removed by whoever has locked it.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Option<Arc<Room>>>);

#[derive(Default)]
pub(super) struct Rooms(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    all: HashMap<TenantId, Arc<Slot>>,
    /// Whether somebody looks after those at rest.
    tended: bool,
    closed: bool,
}

pub(super) fn opening(error: OpenError) -> StoreError {
    match error {
        OpenError::Corrupt { .. } | OpenError::Version { .. } => StoreError::Failed(error.to_string()),
        // Such as too many open files.
        passing => StoreError::Unavailable(passing.to_string()),
    }
}

impl Rooms {
    fn known(&self, id: TenantId) -> Option<Arc<Slot>> {
        self.0.lock().all.get(&id).cloned()
    }

    fn slot(&self, id: TenantId) -> Result<Arc<Slot>, StoreError> {
        let mut slots = self.0.lock();
        if slots.closed {
            return Err(StoreError::closed());
        }
        Ok(slots.all.entry(id).or_default().clone())
    }

    fn all(&self) -> Vec<(TenantId, Arc<Slot>)> {
        self.0.lock().all.iter().map(|(id, slot)| (*id, slot.clone())).collect()
    }

    /// Slots that nobody uses and that have nothing in them.
    fn sweep(&self) {
        let is_used = |slot: &Arc<Slot>| {
            Arc::strong_count(slot) > 1 || slot.0.try_lock().map_or(true, |room| room.is_some())
        };
        self.0.lock().all.retain(|_, slot| is_used(slot));
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.all().iter().filter(|(_, slot)| slot.0.try_lock().map_or(true, |room| room.is_some())).count()
    }
}

impl House {
    pub(super) fn place_of(&self, id: TenantId) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// The database of a tenant, opened if it is not.
    pub(super) async fn room(self: &Arc<Self>, id: TenantId) -> Result<Arc<Room>, StoreError> {
        let slot = match self.rooms.known(id) {
            Some(slot) => slot,
            // Nothing is kept of those that are not there.
            None if self.ledger.by_id(id)?.is_none() => return Err(StoreError::NoTenant),
            None => self.rooms.slot(id)?,
        };
        let mut place = slot.0.lock().await;
        if let Some(room) = &*place {
            *room.used.lock() = Instant::now();
            return Ok(room.clone());
        }
        let Some((_, state)) = self.ledger.by_id(id)? else { return Err(StoreError::NoTenant) };
        if state == State::Housed && !embedded::is_in(&self.place_of(id)) {
            let why = format!("the database in {} is gone", self.place_of(id).display());
            return Err(StoreError::Failed(why));
        }
        let store = self.open(id).await?;
        if state == State::Bare {
            if store.tenant_by_id(id).await?.is_none() {
                store.create_tenant(TENANT, Bytes::new(), Vec::new()).await?;
            }
            self.blocking(move |house| house.ledger.housed(id)).await?;
        }
        let room = Room::new(store);
        *place = Some(room.clone());
        drop(place);
        self.tend();
        self.close_oldest().await;
        Ok(room)
    }

    async fn open(self: &Arc<Self>, id: TenantId) -> Result<Embedded, StoreError> {
        self.blocking(move |house| {
            let (place, trail) = (house.place_of(id), house.trail.clone());
            let is_new = !embedded::is_in(&place);
            let relay = Box::new(move |events: &[_]| trail.tell(events));
            let store =
                Embedded::open_room(&place, house.options.each.clone(), id, relay).map_err(opening)?;
            if is_new {
                // Before anything says that it is there: a directory is as durable as the one that it is in.
                for directory in [&place, &house.directory] {
                    let synced = std::fs::File::open(directory).and_then(|directory| directory.sync_all());
                    synced.map_err(|source| {
                        opening(OpenError::Directory { directory: directory.clone(), source })
                    })?;
                }
            }
            Ok(store)
        })
        .await
    }

    /// Makes the directory of a tenant that nobody knows yet, with what `fill` puts there under the name and the id it has
    /// there. Left to whoever publishes it, or takes it away.
    pub(super) async fn furnish(
        self: &Arc<Self>,
        id: TenantId,
        fill: impl AsyncFnOnce(&Embedded, &str) -> Result<TenantId, StoreError>,
    ) -> Result<(), StoreError> {
        let slot = self.rooms.slot(id)?;
        let room = Room::new(self.open(id).await?);
        *slot.0.lock().await = Some(room.clone());
        let made = fill(&room.store, TENANT).await?;
        debug_assert_eq!(made, id);
        drop(room);
        self.tend();
        self.close_oldest().await;
        Ok(())
    }

    /// Takes away what was there of a tenant that is nobody's: what happens to it is told first.
    pub(super) async fn clear_away(self: &Arc<Self>, id: TenantId) -> Result<(), StoreError> {
        let slot = self.rooms.slot(id)?;
        let mut place = slot.0.lock().await;
        if let Some(room) = place.take() {
            room.gone.store(true, Ordering::Release);
            // Ends those who watch it.
            if let Err(error) = room.store.delete_tenant(id).await
                && !matches!(error, StoreError::NoTenant)
            {
                tracing::debug!(%error, tenant = %id, "a database is removed as it is");
            }
            room.store.close().await;
        }
        self.blocking(move |house| house.remove(id)).await?;
        drop(place);
        drop(slot);
        self.rooms.sweep();
        Ok(())
    }

    /// The directory, and then the row that knows of it.
    fn remove(&self, id: TenantId) -> Result<(), StoreError> {
        let place = self.place_of(id);
        match std::fs::remove_dir_all(&place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::Unavailable(format!("{} cannot be removed: {error}", place.display())))
            }
            _ => self.ledger.forget(id),
        }
    }

    /// What an earlier run left half made or half removed.
    pub(super) fn clear_up(&self) -> Result<(), OpenError> {
        let failed = |why: StoreError| OpenError::Directory {
            directory: self.directory.clone(),
            source: std::io::Error::other(why.to_string()),
        };
        for id in self.ledger.unfinished().map_err(failed)? {
            self.remove(id).map_err(failed)?;
        }
        Ok(())
    }

    /// Looks after those at rest, for as long as there are any.
    fn tend(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.rooms.0.lock().tended, true) {
            let every = self.options.rest_after / 4;
            tokio::spawn(tend(Arc::downgrade(self), every));
        }
    }

    /// Closes those that nobody has used for long enough. False when nothing is left to look after.
    async fn close_rested(&self) -> bool {
        for (_, slot) in self.rooms.all() {
            close_if(&slot, |room| room.used.lock().elapsed() >= self.options.rest_after).await;
        }
        self.rooms.sweep();
        let forgotten = self.trail.tidy();
        let mut slots = self.rooms.0.lock();
        slots.tended = !(slots.all.is_empty() && forgotten);
        slots.tended
    }

    /// Closes the one that was used longest ago, if too many are open that nobody uses.
    async fn close_oldest(&self) {
        let mut at_rest: Vec<(Instant, Arc<Slot>)> = Vec::new();
        for (_, slot) in self.rooms.all() {
            let used = match slot.0.try_lock() {
                Ok(place) => place.as_ref().filter(|room| room.is_at_rest()).map(|room| *room.used.lock()),
                Err(_) => None,
            };
            at_rest.extend(used.map(|used| (used, slot)));
        }
        if at_rest.len() > self.options.open_at_rest
            && let Some((used, slot)) = at_rest.into_iter().min_by_key(|(used, _)| *used)
        {
            close_if(&slot, |room| *room.used.lock() == used).await;
        }
    }

    /// For compaction: those that are open now.
    pub(super) fn open_rooms(&self) -> Vec<Arc<Room>> {
        let mut open = Vec::new();
        for (_, slot) in self.rooms.all() {
            open.extend(slot.0.try_lock().ok().and_then(|room| room.clone()));
        }
        open
    }

    pub(super) async fn close(&self) {
        let all = {
            let mut slots = self.rooms.0.lock();
            slots.closed = true;
            std::mem::take(&mut slots.all)
        };
        // All at once: each waits for its own disk.
        let closing = all.into_values().map(async |slot| {
            if let Some(room) = slot.0.lock().await.take() {
                room.store.close().await;
            }
        });
        futures::future::join_all(closing).await;
        self.trail.hub.close();
        // Last, when nothing else of this store touches the directory any more.
        self.ledger.close(self.trail.position());
    }

    /// Waits for the disk where that holds up nobody.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&House) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let house = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&house)).await;
        done.map_err(|error| StoreError::Failed(format!("a step ended early: {error}")))?
    }
}

async fn tend(house: Weak<House>, every: std::time::Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(house) = house.upgrade() else { return };
        if !house.close_rested().await {
            return;
        }
    }
}

/// Closes a database at rest, if it is one that is meant. Whoever wants it meanwhile waits, and opens it again.
async fn close_if(slot: &Slot, is_meant: impl FnOnce(&Room) -> bool) {
    let Ok(mut place) = slot.0.try_lock() else { return };
    if place.as_ref().is_some_and(|room| room.is_at_rest() && is_meant(room))
        && let Some(room) = place.take()
    {
        room.store.close().await;
    }
}

/// What a tenant begins with.
pub(super) type Entries = Vec<(Key, Bytes)>;
