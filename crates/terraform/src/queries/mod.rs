//! `Query` objects: which resources of a type exist, whether or not anything manages them.
//!
//! A provider that lists is asked once for each edit of a query (and when the annotation `hangar.dev/reconcile` changes), at
//! the pace of the account; what it finds is told in the status, with the identity that each can be taken over by.
//! Nothing is made, and nothing is kept: a query is no owner of what it finds.

mod asking;
pub mod kinds;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auth::user::{MASTERS, UserInfo};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use objects::{CompactString, Value as Json, meta};
use provision::dialect::{Look, Report, Verdict};
use provision::policies::{PAUSED, RECONCILE};
use provision::{Dependants, Dialect as _, Driver as _, Engine, Facts, Reader};
use quick_cache::sync::Cache;
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};
use serde_json::json;

use crate::definition::{self, GROUP};
use crate::dialect::{self, Condition, Kubeform};
use crate::driver::Terraform;
use asking::Answer;
use kinds::{PLURAL, QUERIES, QUERY};

/// Queries of remote control planes whose question is remembered. One that is forgotten is looked at once too often.
const SEEN: usize = 4_096;
/// Until those that wait for the same account may be fewer.
const CROWDED: Duration = Duration::from_secs(10);

pub struct Queries {
    /// At whose pace providers are asked.
    engine: Engine<Terraform>,
    dependants: Dependants,
    facts: Facts,
    seen: Cache<(CompactString, Key), u64>,
}

impl Queries {
    pub fn new(engine: Engine<Terraform>) -> Queries {
        // It has nothing that would have to go first, and so no finalizer.
        let facts = Facts::new(QUERIES, QUERY, "terraform", "", Arc::new(Kubeform));
        Queries { engine, dependants: Dependants::default(), facts, seen: Cache::new(SEEN) }
    }

    /// Whether an edit made another question of it: our own writes do not.
    fn concerns(&self, event: &Event, now: &Json) -> bool {
        let place = || (event.control_plane.clone(), event.key.clone());
        if event.change == Change::Deleted {
            self.seen.remove(&place());
            return false;
        }
        let asked = question(now);
        let before = match event.previous() {
            Some(previous) => Some(question(previous)),
            None => self.seen.get(&place()),
        };
        if !event.tells_previous() {
            self.seen.insert(place(), asked);
        }
        event.change != Change::Updated || before != Some(asked)
    }
}

/// What is asked, as far as metadata tells it.
fn question(object: &Json) -> u64 {
    let mut hasher = DefaultHasher::new();
    meta::generation(object).hash(&mut hasher);
    object["metadata"]["annotations"].to_string().hash(&mut hasher);
    hasher.finish()
}

/// What was asked is answered.
fn is_settled(object: &Json) -> bool {
    let status = &object["status"];
    status["phase"] == "Current"
        && status["observedGeneration"] == json!(meta::generation(object))
        && status["lastHandledReconcile"].as_str() == meta::annotation(object, RECONCILE)
}

#[async_trait]
impl Controller for Queries {
    fn name(&self) -> &'static str {
        "terraform-queries"
    }

    fn identity(&self) -> UserInfo {
        UserInfo::new("hangar:terraform-queries", [MASTERS]).authenticated()
    }

    fn kinds(&self) -> Kinds {
        Kinds::these([QUERIES, "secrets"])
    }

    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        if event.key.kind != QUERIES {
            let woken = self.dependants.of(&event.control_plane, &event.key);
            woken.into_keys().for_each(|key| triggers.now(key));
            return;
        }
        if event.object().is_some_and(|now| self.concerns(event, now)) {
            triggers.now(event.key.clone());
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let Request { control_plane, key } = request;
        let Some(object) = context.get(QUERIES, &key.namespace, &key.name).await? else {
            return Ok(Next::Done);
        };
        if meta::is_deleting(&object) {
            return Ok(Next::Done);
        }
        if meta::annotation(&object, PAUSED) == Some("true") {
            return self.tell(context, &object, &Verdict::Paused).await;
        }
        if is_settled(&object) {
            return Ok(Next::Done);
        }
        // A provider may take its time to find everything.
        let behind = self.engine.driver().behind(&self.facts, &object);
        if context.is_crowded(&behind) {
            let message =
                "many calls to the same account are still under way; this one waits for them".into();
            return self.tell(context, &object, &Verdict::NotSynced { message, after: Some(CROWDED) }).await;
        }
        let object = begin(context, object).await?;
        let reader = Reader::new(context, control_plane, Some((&self.dependants, key)));
        let asked = Box::pin(asking::ask(&self.engine, &reader, control_plane, &object));
        match context.aside(&behind, asked).await {
            Ok(answer) => {
                for warning in &answer.warnings {
                    self.engine.warn(context.client(), &object, warning, context.now).await;
                }
                write(context, &object, answered(&object, answer, context.now)).await?;
                Ok(Next::Done)
            }
            Err(failure) => self.tell(context, &object, &Verdict::Failed(failure)).await,
        }
    }
}

impl Queries {
    /// Writes down how it went, and says when to look again.
    async fn tell(&self, context: &Context, object: &Json, verdict: &Verdict) -> Result<Next, Error> {
        let report = Report::new(&self.facts, object, verdict);
        write(context, object, Kubeform.status(&report, context.now)).await?;
        Ok(match Kubeform.look(&report) {
            Look::Never | Look::Interval => Next::Done,
            Look::After(after) => Next::After(after),
            Look::Backoff => Next::Backoff,
        })
    }
}

/// Says that the provider is being asked, unless the last try failed: that stands until one does not. What was found by
/// another question goes.
async fn begin(context: &Context, mut object: Json) -> Result<Json, Error> {
    if object["status"]["phase"] == "Failed" {
        return Ok(object);
    }
    let message = || "The provider is asked for what exists".to_owned();
    let condition = |kind, status| Condition { kind, status, reason: "InProgress", message: message() };
    let conditions = [condition("Reconciling", "True"), condition("Ready", "False")];
    let mut status = dialect::status(&object, Some("InProgress"), &conditions, false, context.now);
    if object["status"]["observedGeneration"] != json!(meta::generation(&object)) {
        for field in ["found", "complete", "askedTime"] {
            status[field] = Json::Null;
        }
    }
    write(context, &object, status.clone()).await?;
    object["status"] = status;
    Ok(object)
}

fn answered(object: &Json, answer: Answer, now: jiff::Timestamp) -> Json {
    let count = match answer.found.len() {
        1 => "1 resource was found".to_owned(),
        count => format!("{count} resources were found"),
    };
    let message = if answer.complete { count } else { format!("{count}, and there are more") };
    let ready = Condition { kind: "Ready", status: "True", reason: "Current", message };
    let mut status = dialect::status(object, Some("Current"), &[ready], true, now);
    status["found"] = answer.found.into();
    status["complete"] = answer.complete.into();
    status["askedTime"] = objects::time::format(now).into();
    status["lastHandledReconcile"] = json!(meta::annotation(object, RECONCILE));
    status
}

async fn write(context: &Context, object: &Json, status: Json) -> Result<(), Error> {
    if object.get("status") == Some(&status) {
        return Ok(());
    }
    let kind = definition::api_resource(GROUP, QUERY, PLURAL);
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client().clone(), meta::namespace(object), &kind);
    let patch = Patch::Merge(json!({"status": status}));
    match api.patch_status(meta::name(object), &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
