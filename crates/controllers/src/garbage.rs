//! The garbage collector: objects whose owners are gone go too, and deletions wait for dependants where they should.
//!
//! There is no graph in memory. Who owns whom stands in the server's index, written with the objects; an event says
//! which object, or whose dependants, to look at, and everything else is read when it is needed.
//!
//! Keys are of three shapes: an object itself; the dependants of a uid that is gone; and an owner by reference, that
//! may wait in the foreground for a dependant that is gone now.

mod dependants;
mod references;
mod reports;

use std::sync::Arc;
use std::time::Duration;

use apiserver::Engine;
use apiserver::control_plane::ControlPlane;
use apiserver::surface::{Row, Surface};
use async_trait::async_trait;
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use serde_json::json;

use crate::resource::{Delete, Propagation, Resource};
use references::{Owner, Standing};

pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// How often it is looked whether a kind that owners are of has come.
const UNKNOWN_KIND: Duration = Duration::from_secs(60);

/// A key of this kind is about the dependants of a uid (its namespace) that is gone.
const GONE: &str = "_gone";
/// A key of this kind is about an owner, by its namespace and by `apiVersion|kind|name`.
const OWNER: &str = "_owner";

pub struct GarbageCollector {
    engine: Arc<Engine>,
}

impl GarbageCollector {
    pub fn new(engine: Arc<Engine>) -> Self {
        GarbageCollector { engine }
    }
}

/// The control plane as one reconcile sees it.
struct Scene<'a> {
    engine: &'a Engine,
    plane: Arc<ControlPlane>,
    surface: Arc<Surface>,
    context: &'a Context,
}

#[async_trait]
impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "generic-garbage-collector"
    }

    fn kinds(&self) -> Kinds {
        Kinds::All
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        // Too many, too short-lived, and never in an ownership that matters: as upstream, they are left out.
        if event.is_of("events") {
            return;
        }
        let owned = event.mentions("\"ownerReferences\":[{");
        match event.change {
            Change::Deleted => {
                let Some(object) = event.object() else { return };
                triggers.now(Key::new(GONE, meta::uid(object), ""));
                for reference in meta::owner_references(object) {
                    triggers.now(owner_key(reference, &event.key.namespace));
                }
            }
            Change::Created | Change::Existing if owned => triggers.now(event.key.clone()),
            Change::Created => {}
            Change::Updated | Change::Existing => {
                let waits = event.mentions("\"deletionTimestamp\"")
                    && (event.mentions(FOREGROUND) || event.mentions("\"orphan\""));
                if waits || (owned && ownership_changed(event)) {
                    triggers.now(event.key.clone());
                }
                if event.change == Change::Updated && owned {
                    unblocked(event, triggers);
                }
            }
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Some(plane) = self.engine.planes.find(&request.control_plane).await.map_err(Error::failed)?
        else {
            return Ok(Next::Done);
        };
        let surface = self.engine.planes.surface(&plane).await.map_err(Error::failed)?;
        let scene = Scene { engine: &self.engine, plane, surface, context };
        let key = &request.key;
        match key.kind.as_str() {
            GONE => scene.owner_is_gone(&key.namespace).await,
            OWNER => scene.owner_may_go(key).await,
            _ => scene.object(key).await,
        }
    }
}

fn owner_key(reference: &Value, namespace: &str) -> Key {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    Key::new(OWNER, namespace, format!("{}|{}|{}", text("apiVersion"), text("kind"), text("name")))
}

fn ownership_changed(event: &Event) -> bool {
    match (event.object(), event.previous()) {
        (Some(now), Some(before)) => meta::owner_references(now) != meta::owner_references(before),
        _ => true,
    }
}

/// Owners that this object no longer holds back may have waited for just that.
fn unblocked(event: &Event, triggers: &mut Triggers) {
    let (Some(now), Some(before)) = (event.object(), event.previous()) else { return };
    let still = meta::owner_references(now);
    for reference in meta::owner_references(before).iter().filter(|reference| references::blocks(reference)) {
        if !still.iter().any(|one| one.get("uid") == reference.get("uid") && references::blocks(one)) {
            triggers.now(owner_key(reference, &event.key.namespace));
        }
    }
}

impl Scene<'_> {
    /// How objects of a stored kind are served: in their stored version where that is.
    fn row(&self, kind: &str) -> Option<Arc<Row>> {
        let mut rows = self.surface.rows().filter(|row| row.storage_kind == kind);
        let first = rows.next()?;
        let is_stored = |row: &&Arc<Row>| row.api_version == row.storage_api_version;
        Some(std::iter::once(first).chain(rows).find(is_stored).unwrap_or(first).clone())
    }

    fn resource(&self, row: &Row, namespace: &str) -> Resource<'_> {
        Resource::of(self.context.client(), &row.ty, namespace)
    }

    async fn get(&self, key: &Key) -> Result<Option<Value>, Error> {
        self.context.get(&key.kind, &key.namespace, &key.name).await
    }

    async fn object(&self, key: &Key) -> Result<Next, Error> {
        let Some(row) = self.row(&key.kind) else { return Ok(Next::Done) };
        let Some(object) = self.get(key).await? else { return Ok(Next::Done) };
        if meta::is_deleting(&object) {
            let has = |finalizer: &str| meta::finalizers(&object).any(|one| one == finalizer);
            if has(ORPHAN) {
                return self.orphan(&row, key, &object).await;
            }
            if has(FOREGROUND) {
                return self.foreground(&row, key, &object, true).await;
            }
            return Ok(Next::Done);
        }
        self.owned(&row, key, &object).await
    }

    /// Whether an object may stay, by what became of its owners.
    async fn owned(&self, row: &Row, key: &Key, object: &Value) -> Result<Next, Error> {
        let owners = Owner::all(object);
        if owners.is_empty() {
            return Ok(Next::Done);
        }
        let mut standings = Vec::with_capacity(owners.len());
        for owner in &owners {
            standings.push(self.standing(owner, key, object).await?);
        }
        let has = |standing: Standing| standings.contains(&standing);
        if has(Standing::Unknown) {
            return Ok(Next::After(UNKNOWN_KIND));
        }
        if has(Standing::Unresolvable) {
            return Ok(Next::Done);
        }
        let resource = self.resource(row, &key.namespace);
        if has(Standing::Solid) {
            if has(Standing::Absent) || has(Standing::Waiting) {
                let kept =
                    owners.iter().zip(&standings).filter(|(_, standing)| **standing == Standing::Solid);
                let kept: Vec<Value> = kept.map(|(owner, _)| owner.reference.clone()).collect();
                self.rewrite_owners(&resource, key, object, kept).await?;
            }
            return Ok(Next::Done);
        }
        let mut propagation = Propagation::Background;
        if has(Standing::Waiting) && self.has_dependants(object).await? {
            if self.is_held_in_a_cycle(object).await? {
                let free = owners.iter().map(|owner| references::unblocking(owner.reference)).collect();
                let patched = self.rewrite_owners(&resource, key, object, free).await?;
                return self.delete(&resource, key, &patched, Propagation::Foreground).await;
            }
            propagation = Propagation::Foreground;
        } else if let Some(wish) = references::wish(object) {
            propagation = wish;
        }
        self.delete(&resource, key, object, propagation).await
    }

    async fn delete(
        &self,
        resource: &Resource<'_>,
        key: &Key,
        object: &Value,
        propagation: Propagation,
    ) -> Result<Next, Error> {
        // As it was looked at: if its owners changed meanwhile, it is looked at again.
        let options = Delete {
            uid: Some(meta::uid(object)),
            resource_version: Some(meta::resource_version(object)),
            propagation: Some(propagation),
            grace_seconds: None,
        };
        resource.delete(&key.name, &options).await?;
        Ok(Next::Done)
    }

    async fn rewrite_owners(
        &self,
        resource: &Resource<'_>,
        key: &Key,
        object: &Value,
        owners: Vec<Value>,
    ) -> Result<Value, Error> {
        let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
        let patch = json!({"metadata": {
            "uid": meta::uid(object), "resourceVersion": meta::resource_version(object), "ownerReferences": owners,
        }});
        resource.patch(&key.name, "", &patch).await
    }
}
