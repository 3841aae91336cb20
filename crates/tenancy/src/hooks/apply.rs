//! What a hook makes, applied.

use objects::{Value, meta};
use runtime::{Context, Error};

use super::authors::Actors;
use super::readiness::{self, Readiness};
use super::template::{self, TemplateError};
use crate::api::{self, Place};
use crate::host::Host;
use crate::plane::{Plane, Type, Variables};
use crate::{adopted, names};

/// Why a hook did not come to its end.
#[derive(thiserror::Error, Debug)]
pub enum HookError {
    #[error("post create hook not found: {0}")]
    NotFound(String),
    #[error("template {at}: {error}")]
    Template { at: String, error: TemplateError },
    #[error("template {at}: no matches for kind {kind:?} in version {version:?}")]
    UnknownKind { at: String, kind: String, version: String },
    #[error(
        "template {at}: the namespace of the object ({found}) is not that of the control plane ({expected})"
    )]
    OtherNamespace { at: String, found: String, expected: String },
    #[error(
        "its author is not known, since it was written by an earlier version; write it again as a whole (kubectl replace)"
    )]
    NoAuthor,
    #[error("the author of the hook, User {author:?}, cannot {verb} {what}")]
    Forbidden { author: String, verb: &'static str, what: String },
    #[error("{kind} {name}: {error}")]
    Refused { kind: String, name: String, error: String },
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Api(#[from] Error),
}

/// Where the objects of a step go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Hosting,
    ControlPlane,
}

/// An object that is wanted somewhere, with its place among the templates for messages.
struct Rendered {
    target: Target,
    at: String,
    object: Value,
}

/// All templates of a hook, rendered, in order.
fn render(hook: &Value, variables: &Variables) -> Result<Vec<Rendered>, HookError> {
    let mut all = Vec::new();
    let mut add = |target, templates: &Value, prefix: &str| {
        for (index, one) in templates.as_array().into_iter().flatten().enumerate() {
            let at = format!("{prefix}{index}");
            let object = template::render(one, variables)
                .map_err(|error| HookError::Template { at: at.clone(), error })?;
            all.push(Rendered { target, at, object });
        }
        Ok::<_, HookError>(())
    };
    add(Target::Hosting, &hook["spec"]["templates"], "")?;
    for (index, step) in hook["spec"]["steps"].as_array().into_iter().flatten().enumerate() {
        let hosting = step["target"] == "HostingControlPlane";
        let target = if hosting { Target::Hosting } else { Target::ControlPlane };
        add(target, &step["templates"], &format!("{index}."))?;
    }
    Ok(all)
}

/// Whether the templates of a hook can be read at all.
pub fn check(hook: &Value) -> Result<(), HookError> {
    render(hook, &Variables::new()).map(drop)
}

/// Kinds that are nothing without pods.
const RUN_AS_PODS: [&str; 5] = ["Deployment", "StatefulSet", "DaemonSet", "Job", "Pod"];

/// Applies (unless it has been) everything a hook makes, and returns what of it is not ready.
pub async fn hook(
    host: &dyn Host,
    context: &Context,
    plane: &Plane,
    (hook, actors): (&Value, &Actors),
    vars: &Variables,
    applied: bool,
) -> Result<Vec<String>, HookError> {
    let variables = template::variables(&hook["spec"]["defaultVars"], plane, vars, meta::name(hook));
    let mut not_ready = Vec::new();
    let mut inside = None;
    for Rendered { target, at, mut object } in render(hook, &variables)? {
        let hosting = target == Target::Hosting || plane.spec.r#type == Type::Host;
        if !hosting && inside.is_none() {
            inside = Some(client_inside(host, context, plane).await?);
        }
        let client = inside.as_ref().filter(|_| !hosting).unwrap_or(actors.last());
        let place = place(client, plane, target, &at, &mut object).await?;
        if hosting && place.namespace != plane.namespace {
            actors.may_leave_namespace().await?;
        }
        let refused = |error: Error| {
            let (kind, name) = (meta::kind(&object).to_owned(), place.name.clone());
            HookError::Refused { kind, name, error: error.to_string() }
        };
        let live = api::get(client, &place).await.map_err(refused)?;
        let live = match live {
            Some(live) if applied || api::covers(&live, &object) => live,
            None if applied => {
                not_ready.push(format!("{} {}, which is gone", meta::kind(&object), place.name));
                continue;
            }
            _ => {
                for other in actors.others().filter(|_| hosting) {
                    api::try_apply(other, &place, &object, names::HOOK_MANAGER).await.map_err(refused)?;
                }
                api::apply(client, &place, &object, names::HOOK_MANAGER, false).await.map_err(refused)?
            }
        };
        match readiness::of(&live) {
            Readiness::Ready => {}
            Readiness::NotYet => {
                let kind = meta::kind(&live);
                let in_vain = RUN_AS_PODS.contains(&kind) && !has_nodes(host, plane, target);
                let why = if in_vain { " (which needs nodes: there are none here)" } else { "" };
                not_ready.push(format!("{kind} {}{why}", place.name));
            }
            Readiness::Failed(why) => return Err(HookError::Failed(why)),
        }
    }
    Ok(not_ready)
}

/// Whether pods can run where the objects of a step go.
fn has_nodes(host: &dyn Host, plane: &Plane, target: Target) -> bool {
    match (target, plane.spec.r#type) {
        (Target::Hosting, _) | (_, Type::Host) => !host.stands_in(),
        (_, Type::External) => true,
        _ => false,
    }
}

/// Where an object goes; its metadata is completed for that place.
async fn place(
    client: &kube::Client,
    plane: &Plane,
    target: Target,
    at: &str,
    object: &mut Value,
) -> Result<Place, HookError> {
    let own = meta::namespace(object).to_owned();
    let namespace = match target {
        Target::Hosting => plane.namespace.as_str(),
        Target::ControlPlane if own.is_empty() => "default",
        Target::ControlPlane => &own,
    };
    let Some(place) = api::place_of(client, object, namespace).await? else {
        let (kind, version) = (meta::kind(object).to_owned(), meta::api_version(object).to_owned());
        return Err(HookError::UnknownKind { at: at.to_owned(), kind, version });
    };
    if place.namespace.is_empty() {
        if target == Target::Hosting {
            object["metadata"]["labels"][names::MANAGED_BY] = names::MANAGED_BY_VALUE.into();
            object["metadata"]["annotations"][names::RELEASE_NAMESPACE] = plane.namespace.as_str().into();
        }
    } else {
        if target == Target::Hosting && !own.is_empty() && own != plane.namespace {
            let expected = plane.namespace.clone();
            return Err(HookError::OtherNamespace { at: at.to_owned(), found: own, expected });
        }
        meta::set(object, "namespace", place.namespace.clone());
    }
    Ok(place)
}

async fn client_inside(host: &dyn Host, context: &Context, plane: &Plane) -> Result<kube::Client, HookError> {
    match plane.spec.r#type {
        Type::External => {
            Ok(adopted::client(context, plane).await.map_err(|error| HookError::Failed(error.to_string()))?)
        }
        _ => host.client(plane).await.map_err(|error| HookError::Failed(error.to_string())),
    }
}
