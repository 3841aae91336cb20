//! Parts of resources with paths of their own, and resources that are questions rather than objects.

mod approval;
mod binding;
mod eviction;
mod reviews;
mod scale;
mod token;

use objects::Value;

use crate::call::Call;
use crate::engine::no_control_plane;
use crate::incoming;
use crate::present;
use crate::route::Action;
use crate::service::{Answer, Failure, method_not_allowed};
use crate::verbs::{get, patch, update};
use crate::write::{self, Part, Tracking, Update, Updated};

pub async fn answer(call: &Call) -> Answer {
    let Some(sub) = call.row.ty.subresource(&call.target.subresource) else {
        return Err(no_control_plane().into());
    };
    match (sub.name.as_str(), call.action) {
        ("scale", _) => scale::answer(call).await,
        ("token", Action::Create) => token::create(call).await,
        ("binding", Action::Create) => binding::create(call, &call.target.name).await,
        ("eviction", Action::Create) => eviction::create(call).await,
        ("approval", Action::Update | Action::Patch) => approval::answer(call).await,
        ("finalize", Action::Update) => finalize(call).await,
        ("status" | "approval" | "resize" | "ephemeralcontainers", Action::Get) => get::get(call).await,
        ("status", Action::Update) => update::update_part(call, Part::Status).await,
        ("status", Action::Patch) => patch::patch_part(call, Part::Status).await,
        ("ephemeralcontainers", Action::Update) => {
            update_fields(call, "ephemeralcontainers", &EPHEMERAL).await
        }
        ("ephemeralcontainers", Action::Patch) => patch_fields(call, "ephemeralcontainers", &EPHEMERAL).await,
        ("resize", Action::Update) => update_fields(call, "resize", &RESIZE).await,
        ("resize", Action::Patch) => patch_fields(call, "resize", &RESIZE).await,
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => Err(no_node(call)),
        _ => Err(method_not_allowed().into()),
    }
}

/// What a subresource may change of its object.
const EPHEMERAL: [&str; 1] = ["/spec/ephemeralContainers"];
const RESIZE: [&str; 2] = ["/spec/containers", "/spec/initContainers"];

/// Nothing runs in this control plane that could be looked into.
fn no_node(call: &Call) -> Failure {
    let message =
        format!("{} {:?} does not run on a node of this control plane", call.row.ty.kind, call.target.name);
    objects::Status::bad_request(message).into()
}

/// Resources that are answered without being stored; none for ordinary ones.
pub async fn virtual_resource(call: &Call) -> Option<Answer> {
    let (group, resource) = (call.row.ty.group.as_str(), call.row.ty.plural.as_str());
    Some(match (group, resource, call.action) {
        ("authentication.k8s.io" | "authorization.k8s.io", _, Action::Create) => reviews::answer(call).await,
        ("", "bindings", Action::Create) => match incoming::object(call) {
            Ok(binding) => binding::create(call, objects::meta::name(&binding.object)).await,
            Err(failure) => Err(failure),
        },
        ("", "componentstatuses", Action::List) => {
            present::values(call, Vec::new(), store::Revision(0)).await
        }
        ("", "componentstatuses", _) => Err(call.not_found(&call.target.name)),
        _ => return None,
    })
}

/// `namespaces/finalize`: what is left to do before the namespace may go.
async fn finalize(call: &Call) -> Answer {
    let wanted = incoming::object(call)?.object;
    let make = |current: &Value| {
        let mut namespace = current.clone();
        let finalizers = wanted.pointer("/spec/finalizers").cloned().unwrap_or_default();
        if let Some(spec) = namespace.get_mut("spec").and_then(Value::as_object_mut) {
            match finalizers {
                Value::Null => drop(spec.remove("finalizers")),
                finalizers => drop(spec.insert("finalizers".to_owned(), finalizers)),
            }
        }
        pinned_as(&mut namespace, &wanted);
        Ok(namespace)
    };
    written(call, "finalize", &make).await
}

/// The version that the caller meant to change, if it named one.
fn pinned_as(object: &mut Value, wanted: &Value) {
    for field in ["resourceVersion", "uid"] {
        let given = objects::meta::text(wanted, field);
        objects::meta::set(object, field, given.to_owned());
    }
}

async fn update_fields(call: &Call, name: &'static str, fields: &'static [&'static str]) -> Answer {
    let wanted = incoming::object(call)?.object;
    let make = |current: &Value| {
        let mut object = with_fields(current, &wanted, fields);
        pinned_as(&mut object, &wanted);
        Ok(object)
    };
    written(call, name, &make).await
}

async fn patch_fields(call: &Call, name: &'static str, fields: &'static [&'static str]) -> Answer {
    let allowed = wire::negotiate::PatchType::ALL;
    let kind = wire::negotiate::patch(call.head.header(http::header::CONTENT_TYPE), &allowed)?;
    let body = incoming::patch_json(&call.body)?;
    let make = |current: &Value| {
        let patched = patch::patched(call, kind, current, &body.value)?;
        let patched = incoming::admit(call, patched, body.duplicates.clone())?;
        let mut object = with_fields(current, &patched, fields);
        pinned_as(&mut object, &patched);
        Ok(object)
    };
    written(call, name, &make).await
}

/// The current object with these fields of another.
fn with_fields(current: &Value, wanted: &Value, fields: &[&str]) -> Value {
    let mut object = current.clone();
    for pointer in fields {
        let Some((parent, field)) = pointer.rsplit_once('/') else { continue };
        let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        match wanted.pointer(pointer) {
            Some(value) => drop(parent.insert(field.to_owned(), value.clone())),
            None => drop(parent.remove(field)),
        }
    }
    object
}

/// Writes an object that a subresource has put together.
async fn written(
    call: &Call,
    name: &'static str,
    make: &(dyn Fn(&Value) -> Result<Value, Failure> + Sync),
) -> Answer {
    let options = call.write_options()?;
    let update = Update {
        name: &call.target.name,
        part: Part::Whole(name),
        options: &options,
        tracking: Tracking::Update,
        make,
    };
    match write::update(call, &update).await? {
        Updated::Written(written) => present::written(call, 200, written).await,
        Updated::Missing => Err(call.not_found(&call.target.name)),
    }
}
