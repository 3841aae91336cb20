//! The end of a control plane: what it had goes first, its object last, and nothing waits without saying so.

use std::time::Duration;

use objects::{Value, meta, time};
use runtime::{Context, Error, Next};
use serde_json::json;

use crate::api::{self, Place};
use crate::conditions::{self, Condition};
use crate::host::Host;
use crate::operator::{place, write_status};
use crate::plane::{Plane, Type};
use crate::{adopted, hooks, names, types};

/// How long a namespace may take that somebody else's finalizer holds. It is going in any case and needs nobody to
/// wait for it; until then the name is not free.
const PATIENCE: Duration = Duration::from_secs(300);
/// The end of the namespace wakes us; this is for what else may be waited for.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

pub async fn remove(host: &dyn Host, context: &Context, plane: &Plane) -> Result<Next, Error> {
    if !plane.has_finalizer() {
        return Ok(Next::Done);
    }
    if plane.spec.r#type == Type::External {
        adopted::release(context, plane).await;
        adopted::forget_bootstrap(context, plane).await?;
    }
    if types::hosted(plane.spec.r#type).is_some()
        && let Err(error) = host.remove(plane).await
    {
        let what = format!("waiting for the control plane itself to be deleted: {error}");
        report(context, plane, what).await?;
        return Err(Error::failed(error));
    }
    if let Err(error) = hooks::clean_up(context, plane).await {
        let what = format!("waiting for what its hooks made to be deleted: {error}");
        report(context, plane, what).await?;
        return Err(error);
    }
    if let Some(namespace) =
        context.get("namespaces", "", &plane.namespace).await?.filter(|one| plane.owns(one))
    {
        if !meta::is_deleting(&namespace) {
            let place = Place::new("v1", "namespaces", "", &plane.namespace);
            api::delete(context.client(), &place, Some(meta::uid(&namespace))).await?;
        }
        if !is_overdue(&plane.object, context.now) {
            if meta::is_deleting(&namespace) {
                report(context, plane, waiting_for(&namespace)).await?;
            }
            return Ok(Next::After(LOOK_AGAIN));
        }
        tracing::warn!(
            control_plane = plane.name,
            namespace = plane.namespace,
            "the namespace outlives its control plane"
        );
    }
    remove_finalizer(context, plane).await?;
    Ok(Next::Done)
}

fn is_overdue(object: &Value, now: jiff::Timestamp) -> bool {
    let since = time::parse(meta::text(object, "deletionTimestamp"));
    since.is_ok_and(|since| now.duration_since(since).unsigned_abs() > PATIENCE)
}

/// In the namespace controller's words, if it has any.
fn waiting_for(namespace: &Value) -> String {
    let status = namespace.get("status").cloned().unwrap_or_default();
    let mut why = String::new();
    for kind in
        ["NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure"]
    {
        if conditions::is_true(&status, kind)
            && let Some(message) = conditions::find(&status, kind).and_then(|one| one["message"].as_str())
        {
            why.push_str(if why.is_empty() { ": " } else { "; " });
            why.push_str(message);
        }
    }
    format!("waiting for namespace {} to be deleted{why}", meta::name(namespace))
}

async fn report(context: &Context, plane: &Plane, what: String) -> Result<(), Error> {
    let before = plane.object.get("status").cloned().unwrap_or_default();
    let mut status = if before.is_object() { before.clone() } else { json!({}) };
    status["observedGeneration"] = meta::generation(&plane.object).into();
    conditions::set(&mut status, &Condition::deleting(what), context.now);
    write_status(context, plane, &before, &status).await
}

async fn remove_finalizer(context: &Context, plane: &Plane) -> Result<(), Error> {
    let rest: Vec<&str> = meta::finalizers(&plane.object).filter(|one| *one != names::FINALIZER).collect();
    // Our report may have moved the version on; another's change makes the next pass look again.
    let Some(current) = context.get(names::CONTROL_PLANES, "", &plane.name).await? else { return Ok(()) };
    if meta::uid(&current) != plane.uid {
        return Ok(());
    }
    let version = meta::resource_version(&current);
    let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": version}});
    api::optional(api::merge(context.client(), &place(&plane.name), "", &patch).await).map(drop)
}
