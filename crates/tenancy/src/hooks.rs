//! Hooks: objects that are applied when a control plane has been made.
//!
//! A hook is applied once. When it has been (and in wait mode, when what it made is ready) that is recorded in
//! `status.postCreateHooks`, and later changes of the hook, of its variables or of its objects are nobody's business
//! but the user's. What a hook makes in the hosting control plane is made with the rights of its [authors], inside of
//! another one with those of its administrator. Until then every change of the hook is noticed at once, and errors are told and tried again.

mod apply;
pub(crate) mod authors;
mod cleaning;
mod readiness;
mod template;

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::Needed;
use objects::{Value, meta};
use runtime::{Context, Error, Key, Next};
use serde_json::json;

use crate::api::{self, Place};
use crate::conditions::{self, Condition};
use crate::events::{self, Severity};
use crate::host::Host;
use crate::names;
use crate::operator::place;
use crate::plane::{HookUse, Plane};
use apply::HookError;
use authors::Actors;

pub use cleaning::clean_up;

/// What hooks leave to be done.
pub struct Outcome {
    /// All are applied, and in wait mode all that they made is ready.
    pub completed: bool,
    pub again: Option<Duration>,
}

/// Most things that are waited for wake us; this is for the others.
const WAITING_AGAIN: Duration = Duration::from_secs(30);
const FAILED_AGAIN: Duration = Duration::from_secs(10);
/// Of what is waited for, as much is told as somebody reads.
const TOLD: usize = 10;

pub async fn run(
    host: &dyn Host,
    context: &Context,
    plane: &Plane,
    status: &mut Value,
) -> Result<Outcome, Error> {
    let uses = plane.spec.hooks();
    let (mut errors, mut waiting) = (BTreeMap::new(), Vec::new());
    for one in &uses {
        match apply_one(host, context, plane, one, status).await {
            Ok(not_ready) => waiting.extend(not_ready.into_iter().map(|what| (one.hook_name.clone(), what))),
            // Somebody else was quicker: look again at everything.
            Err(HookError::Api(error)) if error.code() == Some(409) => return Err(error),
            Err(error) => {
                errors.insert(one.hook_name.clone(), error.to_string());
            }
        }
    }
    let completed = errors.is_empty() && waiting.is_empty();
    report(context, plane, &uses, &errors, &waiting, status).await?;
    let again = match (completed, errors.is_empty()) {
        (true, _) => None,
        (false, true) => Some(WAITING_AGAIN),
        (false, false) => Some(FAILED_AGAIN),
    };
    Ok(Outcome { completed, again })
}

/// What this hook still waits for; it is done when that is nothing.
async fn apply_one(
    host: &dyn Host,
    context: &Context,
    plane: &Plane,
    one: &HookUse,
    status: &mut Value,
) -> Result<Vec<String>, HookError> {
    let name = &one.hook_name;
    let wait = plane.spec.wait_for_post_create_hooks;
    let recorded = status["postCreateHooks"][name] == true;
    if recorded && !wait {
        return Ok(Vec::new());
    }
    let Some(hook) = context.get(names::HOOKS, "", name).await? else {
        // One that has been applied may go; what it made is not looked at any more.
        return if recorded { Ok(Vec::new()) } else { Err(HookError::NotFound(name.clone())) };
    };
    let actors = match Actors::of(&hook, host, context.client()) {
        // It was applied before authors were recorded.
        Err(HookError::NoAuthor) if recorded => return Ok(Vec::new()),
        actors => actors?,
    };
    let not_ready = apply::hook(host, context, plane, (&hook, &actors), &one.vars, recorded).await?;
    if recorded || (wait && !not_ready.is_empty()) {
        return Ok(not_ready);
    }
    propagate_labels(&actors, plane, &hook).await?;
    status["postCreateHooks"][name] = true.into();
    events::record(context, &plane.object, Severity::Normal, "HookApplied", &format!("applied hook {name}"))
        .await?;
    Ok(Vec::new())
}

/// Every label of a hook becomes the control plane's.
async fn propagate_labels(actors: &Actors, plane: &Plane, hook: &Value) -> Result<(), HookError> {
    let Some(labels) = meta::labels(hook).filter(|labels| !labels.is_empty()) else { return Ok(()) };
    let present = meta::labels(&plane.object);
    if labels.iter().all(|(name, value)| present.and_then(|present| present.get(name)) == Some(value)) {
        return Ok(());
    }
    let (group, resource) = (names::GROUP, "controlplanes");
    let (namespace, name) = (String::new(), plane.name.clone());
    actors.check(&Needed { verb: "patch", group, resource, namespace, name }).await?;
    let patch = json!({"metadata": {"labels": labels}});
    api::merge(actors.last(), &place(&plane.name), "", &patch).await?;
    Ok(())
}

/// Says in the status how far the hooks are.
async fn report(
    context: &Context,
    plane: &Plane,
    uses: &[HookUse],
    errors: &BTreeMap<String, String>,
    waiting: &[(String, String)],
    status: &mut Value,
) -> Result<(), Error> {
    let completed = errors.is_empty() && waiting.is_empty();
    for (name, error) in errors {
        if status["postCreateHookErrors"][name] != error.as_str() {
            let message = format!("hook {name}: {error}");
            events::record(context, &plane.object, Severity::Warning, "HookFailed", &message).await?;
        }
    }
    let Some(fields) = status.as_object_mut() else { return Ok(()) };
    // Looking leaves empty places behind.
    fields.retain(|_, value| !value.is_null());
    if let Some(applied) = fields.get_mut("postCreateHooks").and_then(Value::as_object_mut) {
        applied.retain(|_, value| !value.is_null());
        if applied.is_empty() {
            fields.remove("postCreateHooks");
        }
    }
    set(fields, "postCreateHookErrors", (!errors.is_empty()).then(|| json!(errors)));
    set(fields, "postCreateHookCompleted", (completed && !uses.is_empty()).then(|| true.into()));
    if uses.is_empty() {
        conditions::remove(status, "HooksCompleted");
        return Ok(());
    }
    let failing = errors.iter().map(|(name, error)| format!("{name}: {error}"));
    let waiting = waiting.iter().map(|(name, what)| format!("{name}: waiting for {what}"));
    let mut all: Vec<String> = failing.chain(waiting).collect();
    if all.len() > TOLD {
        let more = all.len() - TOLD;
        all.truncate(TOLD);
        all.push(format!("and {more} more"));
    }
    let reason = match (completed, errors.is_empty()) {
        (true, _) => "Completed",
        (false, true) => "Waiting",
        (false, false) => "HookError",
    };
    let condition = Condition::new("HooksCompleted", completed, reason, all.join("; "));
    conditions::set(status, &condition, context.now);
    Ok(())
}

fn set(fields: &mut serde_json::Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

/// A hook was made, changed or taken away: it is judged, and control planes that name it are looked at.
pub async fn changed(context: &Context, name: &str) -> Result<Next, Error> {
    if let Some(hook) = context.get(names::HOOKS, "", name).await? {
        judge(context, &hook).await?;
    }
    for object in context.list(names::CONTROL_PLANES, "").await? {
        let Ok(plane) = Plane::read(object) else { continue };
        if plane.spec.hooks().iter().any(|one| one.hook_name == name) {
            context.enqueue(Key::new(names::CONTROL_PLANES, "", plane.name));
        }
    }
    Ok(Next::Done)
}

/// Writes into a hook's status whether its templates can be read.
async fn judge(context: &Context, hook: &Value) -> Result<(), Error> {
    let before = hook.get("status").cloned().unwrap_or_default();
    let mut status = if before.is_object() { before.clone() } else { json!({}) };
    status["observedGeneration"] = meta::generation(hook).into();
    let (synced, ready) = match apply::check(hook) {
        Ok(()) => (Condition::synced(), Condition::available()),
        Err(error) => (Condition::not_synced(error.to_string()), Condition::unavailable()),
    };
    conditions::set(&mut status, &synced, context.now);
    conditions::set(&mut status, &ready, context.now);
    if status != before {
        let place = Place::new(names::API_VERSION, "postcreatehooks", "", meta::name(hook));
        api::optional(api::replace_status(context.client(), &place, &status).await)?;
    }
    Ok(())
}
