//! Custom resource definitions that are being deleted: their objects go first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Engine;
use apiserver::surface::Row;
use async_trait::async_trait;
use auth::user::UserInfo;
use jiff::{SignedDuration, Timestamp};
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use schemas::crd::{self, Termination};
use serde_json::json;

use crate::countdown::Countdown;
use crate::resource::{Delete, Resource};

const KIND: &str = "customresourcedefinitions.apiextensions.k8s.io";
const GROUP_VERSION: &str = "apiextensions.k8s.io/v1";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const REVIEW: Duration = Duration::from_secs(15);
const SOON: Duration = Duration::from_millis(100);
/// After this time, as upstream, the definition says that something holds its objects.
const PATIENCE: SignedDuration = SignedDuration::from_secs(5);

pub struct Definitions {
    engine: Arc<Engine>,
    going: Countdown,
}

impl Definitions {
    pub fn new(engine: Arc<Engine>) -> Self {
        Definitions { engine, going: Countdown::default() }
    }
}

#[async_trait]
impl Controller for Definitions {
    fn name(&self) -> &'static str {
        "crd-finalizer"
    }

    /// As upstream, this is the API server's own.
    fn identity(&self) -> UserInfo {
        UserInfo::apiserver()
    }

    fn kinds(&self) -> Kinds {
        Kinds::All
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let gone = event.change == Change::Deleted;
        if event.is_of(KIND) {
            if gone {
                self.going.end(&event.control_plane, &event.key.name);
            } else if event.mentions("\"deletionTimestamp\"") && event.mentions(FINALIZER) {
                triggers.now(event.key.clone());
            }
        // The kind of a custom resource is the name of its definition.
        } else if gone && self.going.deleted(&event.control_plane, &event.key.kind) {
            triggers.now(Key::new(KIND, "", event.key.kind.clone()));
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let (plane_name, name) = (&request.control_plane, &request.key.name);
        let found = context.get(KIND, "", name).await?.filter(is_ours);
        let Some(mut definition) = found else {
            self.going.end(plane_name, name);
            return Ok(Next::Done);
        };
        let Some(plane) = self.engine.planes.find(plane_name).await.map_err(Error::failed)? else {
            return Ok(Next::Done);
        };
        let surface = self.engine.planes.surface(&plane).await.map_err(Error::failed)?;
        let mut rows = surface.custom_rows().filter(|row| row.storage_kind == *name);
        let row = rows.next();
        self.going.begin(plane_name, name);
        let mut failures = Vec::new();
        if let Some(row) = row {
            failures = delete_objects(context, row).await?;
        }
        let left = context.list(name, "").await?.len();
        let more = self.going.left(plane_name, name, left as u64);
        let state = match (failures.is_empty(), left, row) {
            (false, ..) => Termination::Failed(format!(
                "could not list or delete all instances: {}",
                failures.join(", ")
            )),
            (true, 0, Some(_)) => Termination::Completed,
            (true, 0, None) => Termination::NeverEstablished,
            (true, ..) if is_patient(&definition, context.now) => Termination::InProgress,
            (true, ..) => Termination::Remaining("timed out waiting for the condition".to_owned()),
        };
        let over = matches!(state, Termination::Completed | Termination::NeverEstablished);
        let stays = meta::finalizers(&definition).any(|finalizer| finalizer != FINALIZER);
        if !over || stays {
            definition = report(context, definition, &state).await?;
        }
        if !over {
            if !failures.is_empty() {
                return Err(Error::failed(failures.join(", ")));
            }
            return Ok(Next::After(if more { SOON } else { REVIEW }));
        }
        self.going.end(plane_name, name);
        remove_finalizer(context, &definition).await
    }
}

fn is_ours(definition: &Value) -> bool {
    meta::is_deleting(definition) && meta::finalizers(definition).any(|finalizer| finalizer == FINALIZER)
}

fn is_patient(definition: &Value, now: Timestamp) -> bool {
    let since = meta::text(definition, "deletionTimestamp").parse::<Timestamp>();
    since.is_ok_and(|since| now.duration_since(since) < PATIENCE)
}

/// Deletes all objects of a custom resource, namespace by namespace; returns what went wrong.
async fn delete_objects(context: &Context, row: &Row) -> Result<Vec<String>, Error> {
    let objects = context.list(&row.storage_kind, "").await?;
    let namespaces: BTreeSet<&str> = objects.iter().map(meta::namespace).collect();
    let mut failures = Vec::new();
    for namespace in namespaces {
        let resource = Resource::of(context.client(), &row.ty, namespace).unconverted();
        if let Err(error) = resource.delete_collection(&Delete::default()).await {
            failures.push(error.to_string());
        }
    }
    Ok(failures)
}

async fn report(context: &Context, mut definition: Value, state: &Termination) -> Result<Value, Error> {
    let before = definition["status"].clone();
    let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    crd::terminate_with(&mut definition, state, &now);
    if definition["status"] == before {
        return Ok(definition);
    }
    let name = meta::name(&definition).to_owned();
    let resource = Resource::new(context.client(), GROUP_VERSION, "", "customresourcedefinitions");
    resource.replace(&name, "status", &definition).await
}

async fn remove_finalizer(context: &Context, definition: &Value) -> Result<Next, Error> {
    let kept: Vec<&str> = meta::finalizers(definition).filter(|one| *one != FINALIZER).collect();
    let patch = json!({"metadata": {
        "uid": meta::uid(definition), "resourceVersion": meta::resource_version(definition), "finalizers": kept,
    }});
    let resource = Resource::new(context.client(), GROUP_VERSION, "", "customresourcedefinitions");
    match resource.patch(meta::name(definition), "", &patch).await {
        Err(error) if error.code() != Some(404) => Err(error),
        _ => Ok(Next::Done),
    }
}
