//! One control plane somewhere else, reached by a client of its own: any Kubernetes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::discovery::Discovery;
use kube::runtime::watcher;
use objects::{CompactString, Value};
use quick_cache::sync::Cache;
use store::{Key, Position};

use crate::controller::Kinds;
use crate::cursor::Cursor;
use crate::event::{Change, Event};
use crate::fleet::{Fleet, FleetError, Identity, Stream};

/// A fleet of one. Its controllers ask as whoever the client is, and begin by looking at everything: the watches
/// list first, and what they list is the sweep.
pub struct RemoteFleet {
    name: CompactString,
    client: kube::Client,
    /// Positions are only numbers of events here, as they came.
    events: Arc<AtomicU64>,
    resources: Cache<CompactString, ApiResource>,
}

/// Kinds whose names are remembered; more than any set of controllers looks at.
const KINDS: usize = 1_024;
/// Objects listed at once, as kubectl does.
const PAGE: u32 = 500;

fn failed(error: impl std::fmt::Display) -> FleetError {
    FleetError::Failed(error.to_string())
}

impl RemoteFleet {
    /// `name` is what the control plane is called in requests and logs.
    pub fn new(name: impl Into<CompactString>, client: kube::Client) -> Self {
        RemoteFleet { name: name.into(), client, events: Arc::default(), resources: Cache::new(KINDS) }
    }

    /// What the control plane calls a kind.
    async fn resource(&self, kind: &str) -> Result<ApiResource, FleetError> {
        if let Some(known) = self.resources.get(kind) {
            return Ok(known);
        }
        let discovery = Discovery::new(self.client.clone()).run().await.map_err(failed)?;
        let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
        let groups = discovery.groups().filter(|one| one.name() == group);
        let mut resources = groups.flat_map(|one| one.recommended_resources()).map(|(resource, _)| resource);
        let Some(found) = resources.find(|resource| resource.plural == plural) else {
            return Err(FleetError::Failed(format!("{} does not serve {kind}", self.name)));
        };
        self.resources.insert(kind.into(), found.clone());
        Ok(found)
    }

    async fn api(&self, kind: &str, namespace: &str) -> Result<Api<DynamicObject>, FleetError> {
        let resource = self.resource(kind).await?;
        Ok(match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        })
    }

    fn watch(&self, kind: CompactString, resource: &ApiResource) -> Stream {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let (name, events) = (self.name.clone(), self.events.clone());
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
                    tracing::warn!(control_plane = %name, %kind, %error, "a watch failed and begins again");
                    None
                }
            };
            let event = event.and_then(|(change, object)| {
                let value = serde_json::to_value(object).ok()?;
                let position = Position(events.fetch_add(1, Ordering::Relaxed) + 1);
                let key =
                    Key::new(kind.clone(), objects::meta::namespace(&value), objects::meta::name(&value));
                Some(Ok(Event::plain(name.clone(), key, change, position, value)))
            });
            futures::future::ready(event)
        }))
    }
}

#[async_trait]
impl Fleet for RemoteFleet {
    async fn follow(&self, kinds: &Kinds, _: Position) -> Result<Stream, FleetError> {
        let Kinds::These(kinds) = kinds else {
            return Err(FleetError::Failed(
                "not every kind of a remote control plane can be watched".to_owned(),
            ));
        };
        let mut watches = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let resource = self.resource(kind).await?;
            watches.push(self.watch(kind.clone(), &resource));
        }
        Ok(Box::pin(stream::select_all(watches)))
    }

    fn sweep(&self, _: &Kinds, _: Option<CompactString>, _: Position) -> Stream {
        Box::pin(stream::empty())
    }

    async fn position(&self) -> Result<Position, FleetError> {
        Ok(Position(self.events.load(Ordering::Relaxed)))
    }

    async fn get(&self, _: &str, key: &Key) -> Result<Option<Value>, FleetError> {
        let found = self.api(&key.kind, &key.namespace).await?.get_opt(&key.name).await.map_err(failed)?;
        found.map(|object| serde_json::to_value(object).map_err(failed)).transpose()
    }

    async fn list(&self, _: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, FleetError> {
        let api = self.api(kind, namespace).await?;
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
