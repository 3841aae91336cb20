//! Custom resource definitions: what writing one does to what is served.
//!
//! Names are accepted and the definition is established in the very write that makes it, so a custom resource
//! is accepted the moment its definition is seen.

use objects::{ErrorList, Value, meta};

use crate::call::Call;
use crate::control_plane::CRD_KIND;
use crate::read;
use crate::service::Failure;
use crate::surface::validate_rules;
use crate::write::Part;

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_definition(call: &Call) -> bool {
    call.row.storage_kind == CRD_KIND
}

/// Completes a definition that is about to be validated and written.
pub async fn prepare(call: &Call, object: &mut Value, old: Option<&Value>) -> Result<(), Failure> {
    if !is_definition(call) {
        return Ok(());
    }
    schemas::crd::default(object);
    if !call.target.subresource.is_empty() {
        return Ok(());
    }
    let others: Vec<Value> = read::objects(&call.engine, &call.plane, CRD_KIND, "")
        .await?
        .into_iter()
        .map(|(other, _)| other)
        .filter(|other| meta::name(other) != meta::name(object))
        .collect();
    schemas::crd::establish(object, old, &others, &call.timestamp());
    Ok(())
}

pub fn validate(call: &Call, object: &Value, old: Option<(&Value, Part)>) -> ErrorList {
    if !is_definition(call) {
        return ErrorList::new();
    }
    let mut errors = match old {
        None => schemas::crd::validate(object),
        Some((old, Part::Status)) => return schemas::crd::validate_status_update(object, old),
        Some((old, _)) if old.get("spec") == object.get("spec") => return ErrorList::new(),
        Some((old, _)) => schemas::crd::validate_update(object, old),
    };
    if errors.is_empty() {
        errors.extend(validate_rules(object));
        schemas::crd::warnings(object, old.map(|(old, _)| old))
            .into_iter()
            .for_each(|warning| call.warn(warning));
    }
    errors
}

/// A definition goes only after its objects: the finalizer has them deleted first.
pub fn before_delete(call: &Call, object: &mut Value) {
    if !is_definition(call) || meta::is_deleting(object) {
        return;
    }
    let mut finalizers: Vec<Value> = meta::finalizers(object).map(Value::from).collect();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.into());
        meta::set(object, "finalizers", Value::Array(finalizers));
    }
    schemas::crd::terminate(object, &call.timestamp());
}

/// After a definition was written: names that waited for it to go may be accepted now.
pub async fn written(call: &Call, gone: bool) -> Result<(), Failure> {
    if !is_definition(call) || !gone {
        return Ok(());
    }
    let all = read::objects(&call.engine, &call.plane, CRD_KIND, "").await?;
    for (index, (waiting, revision)) in all.iter().enumerate() {
        if crate::surface::condition_is_true(waiting, "NamesAccepted") || meta::is_deleting(waiting) {
            continue;
        }
        let others: Vec<Value> = all
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != index)
            .map(|(_, (other, _))| other.clone())
            .collect();
        let mut accepted = waiting.clone();
        schemas::crd::establish(&mut accepted, Some(waiting), &others, &call.timestamp());
        if accepted == *waiting {
            continue;
        }
        let key = call.row.key("", meta::name(waiting));
        let value = call.plane.codec.encode(&key, &accepted, call.row.tag())?;
        let expect = store::Expect::Modified(*revision);
        // Whoever changes it meanwhile establishes it by doing so.
        let _ = crate::write::commit(call, vec![store::Operation::Put { key, expect, value }]).await;
    }
    Ok(())
}
