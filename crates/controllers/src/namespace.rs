//! Namespaces that are being deleted: their content goes first, then they do.
//!
//! A namespace whose content waits for finalizers is not polled: what is left in it is counted, and the deletion
//! of the last of it wakes this controller. Only namespaces that are going are known here.

mod conditions;
mod content;

use std::sync::Arc;
use std::time::Duration;

use apiserver::Engine;
use async_trait::async_trait;
use objects::{Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};

use crate::countdown::Countdown;
use crate::resource::Resource;
use content::Content;

const KIND: &str = "namespaces";
/// The finalizer of `spec` that is this controller's.
const FINALIZER: &str = "kubernetes";
/// How often a namespace that waits is looked at even though nothing seems to have happened in it: its conditions
/// say how much is left.
const REVIEW: Duration = Duration::from_secs(15);
const SOON: Duration = Duration::from_millis(100);

pub struct Namespaces {
    engine: Arc<Engine>,
    going: Countdown,
}

impl Namespaces {
    pub fn new(engine: Arc<Engine>) -> Self {
        Namespaces { engine, going: Countdown::default() }
    }
}

#[async_trait]
impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn kinds(&self) -> Kinds {
        Kinds::All
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let gone = event.change == Change::Deleted;
        let (plane, namespace) = (&event.control_plane, &event.key.namespace);
        if event.is_of(KIND) {
            if gone {
                self.going.end(plane, &event.key.name);
            } else if event.mentions("\"deletionTimestamp\"") {
                triggers.now(event.key.clone());
            }
        } else if gone && !namespace.is_empty() && self.going.deleted(plane, namespace) {
            triggers.now(Key::new(KIND, "", namespace.clone()));
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let name = &request.key.name;
        let plane_name = &request.control_plane;
        let namespace = context.get(KIND, "", name).await?.filter(meta::is_deleting);
        let Some(namespace) = namespace.filter(is_ours) else {
            self.going.end(plane_name, name);
            return Ok(Next::Done);
        };
        let Some(plane) = self.engine.planes.find(plane_name).await.map_err(Error::failed)? else {
            return Ok(Next::Done);
        };
        // Before looking: what goes while we look must count.
        self.going.begin(plane_name, name);
        let content = Content::delete(&self.engine, &plane, context, name).await?;
        if !content.is_gone() {
            let more = self.going.left(plane_name, name, content.left());
            self.report(context, namespace, &content).await?;
            if !content.failures.is_empty() {
                return Err(Error::failed(content.failures.join(", ")));
            }
            return Ok(Next::After(if more { SOON } else { REVIEW }));
        }
        self.going.end(plane_name, name);
        let stays = meta::finalizers(&namespace).next().is_some() || inner_finalizers(&namespace).count() > 1;
        let namespace = if stays { self.report(context, namespace, &content).await? } else { namespace };
        finalize(context, namespace).await
    }
}

impl Namespaces {
    /// Says in the namespace's conditions what is left.
    async fn report(
        &self,
        context: &Context,
        mut namespace: Value,
        content: &Content,
    ) -> Result<Value, Error> {
        if !conditions::update(&mut namespace, content, context.now) {
            return Ok(namespace);
        }
        let name = meta::name(&namespace).to_owned();
        Resource::core(context.client(), "", KIND).replace(&name, "status", &namespace).await
    }
}

/// Takes our finalizer off; the namespace goes with its last one.
async fn finalize(context: &Context, mut namespace: Value) -> Result<Next, Error> {
    let rest: Vec<Value> =
        inner_finalizers(&namespace).filter(|one| *one != FINALIZER).map(Value::from).collect();
    namespace["spec"]["finalizers"] = Value::Array(rest);
    let name = meta::name(&namespace).to_owned();
    let namespaces = Resource::core(context.client(), "", KIND);
    match namespaces.replace(&name, "finalize", &namespace).await {
        Err(error) if error.code() != Some(404) => Err(error),
        _ => Ok(Next::Done),
    }
}

fn inner_finalizers(namespace: &Value) -> impl Iterator<Item = &str> {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn is_ours(namespace: &Value) -> bool {
    inner_finalizers(namespace).any(|finalizer| finalizer == FINALIZER)
}

/// Whether a namespace is there, and is to stay.
pub(crate) async fn is_active(context: &Context, name: &str) -> Result<bool, Error> {
    Ok(context.get(KIND, "", name).await?.is_some_and(|namespace| !meta::is_deleting(&namespace)))
}
