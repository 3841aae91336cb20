//! `kubectl.kubernetes.io/last-applied-configuration`: the owner's memory from before there were owners.
//!
//! Only a manager called `kubectl` is taken to mean it. Its first server-side apply may take what its own last
//! client-side apply set, and from then on the annotation is kept in step.

use objects::meta;
use serde_json::Value;

use crate::compare::compare;
use crate::conflict::Conflict;
use crate::fields::set_of;
use crate::update::Write;
use crate::values;
use crate::versions::Versions;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager whose annotation it is.
const KUBECTL: &str = "kubectl";

/// What all annotations of an object may hold together.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Whether all conflicts but the returned ones are with the applier's own client-side apply.
pub(crate) fn unexcused(
    conflicts: Vec<Conflict>,
    live: &Value,
    write: &Write<'_>,
    versions: &dyn Versions,
) -> Vec<Conflict> {
    if write.manager != KUBECTL {
        return conflicts;
    }
    let config = meta::annotation(live, ANNOTATION).filter(|text| !text.is_empty());
    let config = config.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(config) = config.filter(|config| meta::api_version(config) == write.api_version) else {
        return conflicts;
    };
    let Some(cursor) = versions.cursor(write.api_version) else { return conflicts };
    // Only what still is as it was applied: the rest has been changed by somebody since.
    let mut own = set_of(&config, Some(cursor));
    let since = compare(&config, live, Some(cursor), versions.zero(write.api_version));
    for changed in [&since.modified, &since.added, &since.removed] {
        own.subtract(changed);
    }
    conflicts.into_iter().filter(|conflict| !own.has(&conflict.path)).collect()
}

/// Writes the applied configuration into the annotation, if the object has it.
pub(crate) fn refresh(object: &mut Value, config: &Value, write: &Write<'_>) {
    if write.manager != KUBECTL || meta::annotation(object, ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let mut text = String::new();
    values::write_json(&config, &mut text);
    text.push('\n');
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    let size: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}
