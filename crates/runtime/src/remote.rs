//! One control plane somewhere else, reached by a client of its own: any Kubernetes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::discovery::Discovery;
use kube::runtime::watcher;
use objects::{CompactString, Value};
use quick_cache::sync::Cache;
use store::{Key, Position, Revision};

use crate::controller::Kinds;
use crate::cursor::Cursor;
use crate::event::{Change, Event, Told};
use crate::fleet::{Changes, Fleet, FleetError, Identity, Stream};

/// A fleet of one. Its controllers ask as whoever the client is, and begin by looking at everything: the watches
/// list first, and what they list is the sweep.
#[derive(Clone)]
pub struct RemoteFleet {
    name: CompactString,
    client: kube::Client,
    /// Positions are only numbers of events here, as they came.
    events: Arc<AtomicU64>,
    resources: Arc<Cache<CompactString, ApiResource>>,
}

/// Kinds whose names are remembered; more than most control planes serve.
const KINDS: usize = 8_192;
/// Objects listed at once, as kubectl does.
const PAGE: u32 = 500;
/// How often kinds that are not served are looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

fn failed(error: impl std::fmt::Display) -> FleetError {
    FleetError::Failed(error.to_string())
}

impl RemoteFleet {
    /// `name` is what the control plane is called in requests and logs.
    pub fn new(name: impl Into<CompactString>, client: kube::Client) -> Self {
        RemoteFleet {
            name: name.into(),
            client,
            events: Arc::default(),
            resources: Arc::new(Cache::new(KINDS)),
        }
    }

    /// Learns what the control plane calls all it serves.
    async fn discover(&self) -> Result<(), FleetError> {
        let discovery = Discovery::new(self.client.clone()).run().await.map_err(failed)?;
        for (resource, _) in discovery.groups().flat_map(|group| group.recommended_resources()) {
            let kind = match resource.group.as_str() {
                "" => resource.plural.clone(),
                group => format!("{}.{group}", resource.plural),
            };
            self.resources.insert(kind.into(), resource);
        }
        Ok(())
    }

    /// Watches of the kinds that are served; the others are taken out of `kinds` only then.
    fn watch_served(&self, kinds: &mut BTreeSet<CompactString>) -> Vec<Stream> {
        let mut watches = Vec::new();
        kinds.retain(|kind| match self.resources.get(kind) {
            Some(resource) => {
                watches.push(self.watch(kind.clone(), &resource));
                false
            }
            None => true,
        });
        watches
    }

    /// Changes of kinds that are not served yet, from when they are.
    fn watch_later(&self, missing: BTreeSet<CompactString>) -> Stream {
        let later = stream::unfold((self.clone(), missing), |(fleet, mut missing)| async move {
            if missing.is_empty() {
                return None;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            if let Err(error) = fleet.discover().await {
                tracing::warn!(control_plane = %fleet.name, %error, "what is served cannot be learned");
            }
            let found = fleet.watch_served(&mut missing);
            Some((stream::select_all(found), (fleet, missing)))
        });
        Box::pin(later.flatten_unordered(None))
    }

    /// Objects of a kind; none of one that is not served.
    async fn api(&self, kind: &str, namespace: &str) -> Result<Option<Api<DynamicObject>>, FleetError> {
        if self.resources.get(kind).is_none() {
            self.discover().await?;
        }
        let Some(resource) = self.resources.get(kind) else { return Ok(None) };
        Ok(Some(match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }))
    }

    /// What there is of a kind, page by page as it is asked for.
    fn listed(self, kind: CompactString) -> Stream {
        let pages = stream::try_unfold(Some(String::new()), move |token| {
            let (fleet, kind) = (self.clone(), kind.clone());
            async move {
                let Some(token) = token else { return Ok::<_, FleetError>(None) };
                let Some(api) = fleet.api(&kind, "").await? else { return Ok(None) };
                let mut params = ListParams::default().limit(PAGE);
                if !token.is_empty() {
                    params = params.continue_token(&token);
                }
                let page = api.list(&params).await.map_err(failed)?;
                let next = page.metadata.continue_.filter(|token| !token.is_empty());
                let events = page.items.into_iter().filter_map(|object| {
                    let value = serde_json::to_value(object).ok()?;
                    Some(Ok(fleet.event(&kind, Change::Existing, value)))
                });
                Ok(Some((stream::iter(events.collect::<Vec<_>>()), next)))
            }
        });
        Box::pin(pages.try_flatten())
    }

    fn event(&self, kind: &CompactString, change: Change, value: Value) -> Event {
        let position = Position(self.events.fetch_add(1, Ordering::Relaxed) + 1);
        let key = Key::new(kind.clone(), objects::meta::namespace(&value), objects::meta::name(&value));
        Event::plain(self.name.clone(), key, change, position, value)
    }

    fn watch(&self, kind: CompactString, resource: &ApiResource) -> Stream {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let fleet = self.clone();
        // The watcher itself backs off and begins again after errors.
        let changes =
            kube::runtime::WatchStreamExt::default_backoff(watcher(api, watcher::Config::default()));
        Box::pin(changes.filter_map(move |change| {
            let event = match change {
                Ok(watcher::Event::Apply(object)) => Some((Change::Updated, object)),
                Ok(watcher::Event::InitApply(object)) => Some((Change::Existing, object)),
                Ok(watcher::Event::Delete(object)) => Some((Change::Deleted, object)),
                Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                Err(error) => {
                    tracing::warn!(control_plane = %fleet.name, %kind, %error, "a watch failed and begins again");
                    None
                }
            };
            let event = event.and_then(|(change, object)| {
                let value = serde_json::to_value(object).ok()?;
                Some(Ok(fleet.event(&kind, change, value)))
            });
            futures::future::ready(event)
        }))
    }
}

#[async_trait]
impl Fleet for RemoteFleet {
    async fn follow(&self, kinds: &Kinds, _: Position) -> Result<Changes, FleetError> {
        let Kinds::These(kinds) = kinds else {
            return Err(FleetError::Failed(
                "not every kind of a remote control plane can be watched".to_owned(),
            ));
        };
        self.discover().await?;
        let mut missing = kinds.clone();
        let mut watches = self.watch_served(&mut missing);
        if !missing.is_empty() {
            tracing::info!(control_plane = %self.name, kinds = missing.len(), "kinds are not served yet");
            watches.push(self.watch_later(missing));
        }
        Ok(Box::pin(stream::select_all(watches).map_ok(Told::Event)))
    }

    /// Everything is what the watches list first; so that only what is asked for beside them is listed here.
    fn sweep(
        &self,
        kinds: &Kinds,
        control_plane: Option<CompactString>,
        after: Option<(CompactString, Key)>,
    ) -> Stream {
        let (Kinds::These(kinds), Some(_)) = (kinds, control_plane) else { return Box::pin(stream::empty()) };
        let reached = after.map(|(_, key)| key.kind).unwrap_or_default();
        let kinds: Vec<CompactString> = kinds.iter().filter(|kind| **kind >= reached).cloned().collect();
        let fleet = self.clone();
        let lists = stream::iter(kinds).map(move |kind| fleet.clone().listed(kind));
        Box::pin(lists.flatten())
    }

    /// Nobody keeps the changes of another server: what is there is looked at.
    fn replay(&self, kinds: &Kinds, control_plane: CompactString, _: Revision, _: Revision) -> Stream {
        self.sweep(kinds, Some(control_plane), None)
    }

    async fn position(&self) -> Result<Position, FleetError> {
        Ok(Position(self.events.load(Ordering::Relaxed)))
    }

    async fn get(&self, _: &str, key: &Key) -> Result<Option<Value>, FleetError> {
        let Some(api) = self.api(&key.kind, &key.namespace).await? else { return Ok(None) };
        let found = api.get_opt(&key.name).await.map_err(failed)?;
        found.map(|object| serde_json::to_value(object).map_err(failed)).transpose()
    }

    async fn list(&self, _: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, FleetError> {
        let Some(api) = self.api(kind, namespace).await? else { return Ok(Vec::new()) };
        let mut params = ListParams::default().limit(PAGE);
        let mut objects = Vec::new();
        loop {
            let page = api.list(&params).await.map_err(failed)?;
            for object in page.items {
                objects.push(serde_json::to_value(object).map_err(failed)?);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }

    fn client(&self, _: &str, _: &Identity) -> kube::Client {
        self.client.clone()
    }

    async fn load(&self) -> Result<Option<Cursor>, FleetError> {
        Ok(None)
    }

    async fn save(&self, _: &Cursor) -> Result<(), FleetError> {
        Ok(())
    }
}
