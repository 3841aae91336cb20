//! All control planes of this process: one feed of the store for all of them, and clients without a network.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use apiserver::codec::Codec;
use apiserver::control_plane::ControlPlane;
use apiserver::{ARRIVAL, ApiServer, COPIED, Engine, InProcess};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::Either;
use futures::{StreamExt, TryStreamExt, stream};
use objects::{CompactString, Value};
use parking_lot::Mutex;
use store::{Change, Delivery, Key, Position, Revision, Scope, StoreError, TenantId, WatchError};
use tokio::time::Instant;

use crate::controller::Kinds;
use crate::cursor::Cursor;
use crate::event::{Event, Told};
use crate::fleet::{Changes, Fleet, FleetError, Identity, Stream};
use crate::shard::Shard;

/// The row of the store's directory that is no control plane but the place of the cursor. Rows of the directory
/// are not in the log, so that saving how far one has come is no further change to come to.
const CURSOR: &str = "_controllers";

/// Read from the store at once by a sweep.
const TENANTS: usize = 128;
const ENTRIES: usize = 512;

pub struct InProcessFleet {
    server: ApiServer,
    cursor: CompactString,
    /// None is all of them.
    shard: Option<Shard>,
    /// Whether all that is in a control plane is looked at when it begins as a copy.
    copies: bool,
}

impl InProcessFleet {
    pub fn new(engine: Arc<Engine>) -> Self {
        InProcessFleet::with_cursor(engine, CURSOR)
    }

    /// For a second set of controllers beside the first: each remembers how far it has come under its own name,
    /// which begins with an underscore.
    pub fn with_cursor(engine: Arc<Engine>, cursor: &str) -> Self {
        let cursor = cursor.into();
        InProcessFleet { server: ApiServer::new(engine), cursor, shard: None, copies: true }
    }

    /// Only the control planes of a shard, with a cursor of its own.
    #[must_use]
    pub fn only(self, shard: Shard) -> Self {
        let cursor = format!("{}-{shard}", self.cursor).into();
        InProcessFleet { cursor, shard: Some(shard), ..self }
    }

    /// For controllers of what is outside, which the original of a copy has too: an object of a copy is theirs when it
    /// is changed there, and not before.
    #[must_use]
    pub fn leaving_copies(self) -> Self {
        InProcessFleet { copies: false, ..self }
    }

    fn engine(&self) -> &Arc<Engine> {
        self.server.engine()
    }

    async fn plane(&self, name: &str) -> Result<Option<Arc<ControlPlane>>, FleetError> {
        self.engine().planes.find(name).await.map_err(|error| FleetError::Failed(error.to_string()))
    }
}

#[async_trait]
impl Fleet for InProcessFleet {
    async fn follow(&self, kinds: &Kinds, from: Position) -> Result<Changes, FleetError> {
        let scopes = scopes(kinds);
        let kinds: Vec<CompactString> = match kinds {
            Kinds::All => Vec::new(),
            Kinds::These(kinds) => kinds.iter().cloned().chain([ARRIVAL.into()]).collect(),
        };
        let feed = self.engine().store.follow(kinds, Some(from)).await.map_err(|error| match error {
            StoreError::Compacted { .. } | StoreError::Future { .. } => FleetError::Expired(from),
            error => FleetError::Failed(error.to_string()),
        })?;
        let (engine, shard, copies) = (self.engine().clone(), self.shard, self.copies);
        let pace = Arc::new(Pace::default());
        let read = feed.filter_map(move |event| {
            let (engine, pace) = (engine.clone(), pace.clone());
            async move {
                let event = match event {
                    Ok(event) => event,
                    Err(WatchError::Closed) => return Some(Err(FleetError::Closed)),
                    Err(WatchError::Compacted { .. }) => return Some(Err(FleetError::Expired(from))),
                    Err(error) => return Some(Err(FleetError::Failed(error.to_string()))),
                };
                let arrival = event.key.kind == ARRIVAL;
                let told = event.change == Change::Deleted && (copies || event.key.name != COPIED);
                // What a control plane is born with is complete, and needs nobody.
                if event.revision <= Revision(1) || (arrival && !told) {
                    return None;
                }
                match engine.planes.identity_of(event.tenant).await {
                    Ok(Some(plane)) if shard.is_some_and(|shard| !shard.contains(&plane.name)) => {
                        pace.is_time().then_some(Ok(Either::Left(Told::UpTo(event.position))))
                    }
                    Ok(Some(plane)) if arrival => Some(Ok(Either::Right((plane.name, event.position)))),
                    Ok(Some(plane)) => {
                        Some(Ok(Either::Left(Told::Event(Event::stored(plane.name, &plane.codec, &event)))))
                    }
                    Ok(None) => None,
                    Err(error) => Some(Err(FleetError::Failed(error.to_string()))),
                }
            }
        });
        let engine = self.engine().clone();
        Ok(Box::pin(read.flat_map(move |read| match read {
            Ok(Either::Left(told)) => Either::Left(stream::iter([Ok(told)])),
            // A control plane came from another store, or began as a copy. Whoever breaks off in the middle of it comes
            // here again.
            Ok(Either::Right((name, at))) => {
                let before = Position(at.0.saturating_sub(1));
                let sweep = Sweep::one(engine.clone(), scopes.clone(), name, before).stream();
                Either::Right(sweep.map_ok(Told::Event))
            }
            Err(error) => Either::Left(stream::iter([Err(error)])),
        })))
    }

    fn sweep(
        &self,
        kinds: &Kinds,
        control_plane: Option<CompactString>,
        after: Option<(CompactString, Key)>,
    ) -> Stream {
        let (engine, scopes) = (self.engine().clone(), scopes(kinds));
        match control_plane {
            Some(name) => Sweep::one(engine, scopes, name, Position(0)).behind(after).stream(),
            None => Sweep::all(engine, scopes, self.shard).behind(after).stream(),
        }
    }

    fn replay(&self, kinds: &Kinds, control_plane: CompactString, after: Revision, to: Revision) -> Stream {
        let (engine, kinds) = (self.engine().clone(), kinds.clone());
        let changes = async move {
            let tenant = engine.store.tenant(&control_plane).await.map_err(failed)?;
            let codec = tenant.as_ref().and_then(|row| engine.planes.codec_if_open(row));
            let (Some(tenant), Some(codec)) = (tenant, codec) else {
                return Ok(stream::empty().left_stream());
            };
            // What a control plane is born with needs nobody.
            let after = after.max(Revision(1));
            let watch = match engine.store.watch(tenant.id, Scope::All, after).await {
                Ok(watch) => watch,
                Err(StoreError::NoTenant) => return Ok(stream::empty().left_stream()),
                // From the future: it is another one of the same name.
                Err(StoreError::Compacted { .. } | StoreError::Future { .. }) => {
                    return Err(FleetError::Expired(Position(0)));
                }
                Err(error) => return Err(failed(error)),
            };
            let changes = watch.map(move |delivery| match delivery {
                Ok(Delivery::Event(event)) if event.revision <= to => {
                    let wanted = !event.key.kind.starts_with('_') && kinds.contains(&event.key.kind);
                    let told = || Event::stored(control_plane.clone(), &codec, &event);
                    Some(Ok(wanted.then(told)))
                }
                // Progress is told when all has been read.
                Ok(_) | Err(WatchError::TenantDeleted) => None,
                Err(WatchError::Compacted { .. }) => Some(Err(FleetError::Expired(Position(0)))),
                Err(error) => Some(Err(FleetError::Failed(error.to_string()))),
            });
            let changes = changes.take_while(|told| std::future::ready(told.is_some()));
            let changes = changes.filter_map(|told| std::future::ready(told.and_then(Result::transpose)));
            Ok(changes.right_stream())
        };
        Box::pin(stream::once(changes).try_flatten())
    }

    async fn position(&self) -> Result<Position, FleetError> {
        self.engine().store.position().await.map_err(failed)
    }

    async fn has(&self, control_plane: &str) -> bool {
        // What is held of it may outlive it for a moment.
        let found = self.engine().store.tenant(control_plane).await;
        found.is_ok_and(|row| row.is_some_and(|row| self.engine().planes.is_open(&row)))
    }

    async fn get(&self, control_plane: &str, key: &Key) -> Result<Option<Value>, FleetError> {
        let engine = self.engine();
        let Some(plane) = self.plane(control_plane).await? else { return Ok(None) };
        match engine.store.get(plane.id, key).await {
            Ok(Some(entry)) => Ok(Some(decoded(&plane, &entry)?)),
            Ok(None) | Err(StoreError::NoTenant) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn list(&self, control_plane: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, FleetError> {
        let engine = self.engine();
        let Some(plane) = self.plane(control_plane).await? else { return Ok(Vec::new()) };
        let scope = match namespace {
            "" => Scope::Kind(kind.into()),
            namespace => Scope::Namespace(kind.into(), namespace.into()),
        };
        match engine.store.range(plane.id, &scope, None, None, 0).await {
            Ok(page) => page.entries.iter().map(|entry| decoded(&plane, entry)).collect(),
            Err(StoreError::NoTenant) => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
        }
    }

    fn client(&self, control_plane: &str, identity: &Identity) -> kube::Client {
        let Identity { user, agent } = identity.clone();
        kube::Client::new(InProcess::new(self.server.clone(), control_plane, user, agent), "default")
    }

    async fn load(&self) -> Result<Option<Cursor>, FleetError> {
        let row = self.engine().store.tenant(&self.cursor).await.map_err(failed)?;
        Ok(row.and_then(|row| Cursor::from_bytes(&row.record)))
    }

    async fn save(&self, cursor: &Cursor) -> Result<(), FleetError> {
        let store = &self.engine().store;
        let record = Bytes::from(cursor.to_bytes());
        match store.tenant(&self.cursor).await.map_err(failed)? {
            Some(row) => store.update_tenant(row.id, record).await.map_err(failed),
            None => store.create_tenant(&self.cursor, record, Vec::new()).await.map(drop).map_err(failed),
        }
    }
}

fn decoded(plane: &ControlPlane, entry: &store::Entry) -> Result<Value, FleetError> {
    let stored = plane.codec.decode(&entry.key, &entry.value, entry.modified);
    let stored = stored.map_err(|error| FleetError::Failed(error.to_string()))?;
    stored.to_value().map_err(|error| FleetError::Failed(format!("{:?} cannot be read: {error}", entry.key)))
}

fn failed(error: StoreError) -> FleetError {
    match error {
        StoreError::Unavailable(_) => FleetError::Away(error.to_string()),
        error => FleetError::Failed(error.to_string()),
    }
}

/// How far others have come is told about every minute at most: while history is kept for longer, whoever takes over
/// need not look at everything.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Pace(Mutex<Option<Instant>>);

impl Pace {
    fn is_time(&self) -> bool {
        let (mut last, now) = (self.0.lock(), Instant::now());
        let is_time = last.is_none_or(|last| now.duration_since(last) >= TELL_EVERY);
        if is_time {
            *last = Some(now);
        }
        is_time
    }
}

fn scopes(kinds: &Kinds) -> Vec<Scope> {
    match kinds {
        Kinds::All => vec![Scope::All],
        Kinds::These(kinds) => kinds.iter().cloned().map(Scope::Kind).collect(),
    }
}

/// A walk over what is there: control planes, in each the scopes, in each the pages.
struct Sweep {
    engine: Arc<Engine>,
    scopes: Vec<Scope>,
    position: Position,
    /// Which control planes to go on with when `planes` is empty.
    others: Option<Others>,
    planes: VecDeque<CompactString>,
    here: Option<Here>,
    /// Where to begin in one of them.
    behind: Option<(CompactString, Key)>,
    found: VecDeque<Event>,
}

/// All control planes of a shard, or (none) of the store.
struct Others {
    after: Option<CompactString>,
    shard: Option<Shard>,
}

struct Here {
    plane: CompactString,
    codec: Codec,
    tenant: TenantId,
    scopes: VecDeque<Scope>,
    after: Option<Key>,
}

impl Sweep {
    fn one(engine: Arc<Engine>, scopes: Vec<Scope>, plane: CompactString, position: Position) -> Sweep {
        let (planes, found) = (VecDeque::from([plane]), VecDeque::new());
        Sweep { engine, scopes, position, others: None, planes, here: None, behind: None, found }
    }

    fn all(engine: Arc<Engine>, scopes: Vec<Scope>, shard: Option<Shard>) -> Sweep {
        let (others, planes) = (Some(Others { after: None, shard }), VecDeque::new());
        let (position, found) = (Position(0), VecDeque::new());
        Sweep { engine, scopes, position, others, planes, here: None, behind: None, found }
    }

    /// Only what comes behind an object.
    fn behind(mut self, after: Option<(CompactString, Key)>) -> Sweep {
        if let (Some(others), Some((plane, _))) = (&mut self.others, &after) {
            others.after = Some(plane.clone());
            self.planes.push_back(plane.clone());
        }
        self.behind = after;
        self
    }

    fn stream(self) -> Stream {
        Box::pin(stream::try_unfold(self, |mut sweep| async move {
            Ok(sweep.next().await?.map(|event| (event, sweep)))
        }))
    }

    async fn next(&mut self) -> Result<Option<Event>, FleetError> {
        loop {
            if let Some(event) = self.found.pop_front() {
                return Ok(Some(event));
            }
            if !self.read_page().await? && !self.next_plane().await? {
                return Ok(None);
            }
        }
    }

    /// The next page here; false when there is none.
    async fn read_page(&mut self) -> Result<bool, FleetError> {
        let Some(here) = &mut self.here else { return Ok(false) };
        let Some(scope) = here.scopes.front() else { return Ok(false) };
        let page = match self.engine.store.range(here.tenant, scope, here.after.as_ref(), None, ENTRIES).await
        {
            Ok(page) => page,
            Err(StoreError::NoTenant) => {
                self.here = None;
                return Ok(true);
            }
            Err(error) => return Err(failed(error)),
        };
        here.after = page.entries.last().filter(|_| page.more).map(|last| last.key.clone());
        if !page.more {
            here.scopes.pop_front();
        }
        let objects = page.entries.into_iter().filter(|entry| !entry.key.kind.starts_with('_'));
        let event = |entry| Event::existing(here.plane.clone(), &here.codec, entry, self.position);
        self.found.extend(objects.map(event));
        Ok(true)
    }

    /// On to the next control plane; false when that was the last.
    async fn next_plane(&mut self) -> Result<bool, FleetError> {
        self.here = None;
        while self.planes.is_empty()
            && let Some(others) = &mut self.others
        {
            let page = self.engine.store.tenants(others.after.as_deref(), TENANTS).await.map_err(failed)?;
            let names = page.iter().map(|tenant| tenant.name.clone());
            let is_ours = |name: &CompactString| others.shard.is_none_or(|shard| shard.contains(name));
            self.planes = names.filter(is_ours).collect();
            match page.last() {
                Some(last) => others.after = Some(last.name.clone()),
                None => self.others = None,
            }
        }
        let Some(plane) = self.planes.pop_front() else { return Ok(false) };
        let tenant = self.engine.store.tenant(&plane).await.map_err(failed)?;
        let codec = tenant.as_ref().and_then(|row| self.engine.planes.codec_if_open(row));
        if let (Some(tenant), Some(codec)) = (tenant, codec) {
            let behind = self.behind.take().filter(|(at, _)| *at == plane).map(|(_, key)| key);
            let mut scopes: VecDeque<Scope> = self.scopes.iter().cloned().collect();
            if let Some(key) = &behind {
                scopes.retain(|scope| !matches!(scope, Scope::Kind(kind) if *kind < key.kind));
            }
            // Others are to be read from their beginning.
            let after = behind.filter(|key| scopes.front().is_some_and(|scope| scope.contains(key)));
            self.here = Some(Here { plane, codec, tenant: tenant.id, scopes, after });
        }
        Ok(true)
    }
}

#[cfg(test)]
#[path = "in_process_tests.rs"]
mod tests;
