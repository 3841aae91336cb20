//! The status that follows from a definition's spec, in the words of the controllers that upstream has for it.

use objects::field::{Error, Path, aggregate};
use serde_json::{Map, Value, json};

use super::{TakenNames, approval, conversion, list, names_accepted, present, text, versions_of};
use crate::{Schema, structural};

/// One entry of `status.conditions`, but for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

impl Condition {
    pub fn new(
        kind: &'static str,
        holds: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let status = if holds { "True" } else { "False" };
        Condition { kind, status, reason: reason.into(), message: message.into() }
    }
}

fn find<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| text(condition, "type") == kind)
}

pub fn is_condition_true(definition: &Value, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| text(condition, "status") == "True")
}

fn status_mut(definition: &mut Value) -> Option<&mut Map<String, Value>> {
    let status = definition.as_object_mut()?.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    status.as_object_mut()
}

/// Sets a condition; its transition time moves only when its status does.
pub fn set_condition(definition: &mut Value, condition: &Condition, now: &str) {
    let Some(status) = status_mut(definition) else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let old = conditions.iter_mut().find(|old| text(old, "type") == condition.kind);
    let same = old.as_ref().filter(|old| text(old, "status") == condition.status);
    let since =
        same.map(|old| text(old, "lastTransitionTime")).filter(|time| !time.is_empty()).unwrap_or(now);
    let new = json!({
        "type": condition.kind,
        "status": condition.status,
        "lastTransitionTime": since,
        "reason": condition.reason,
        "message": condition.message,
    });
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn remove_condition(definition: &mut Value, kind: &str) {
    let conditions = definition.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    if let Some(conditions) = conditions {
        conditions.retain(|condition| text(condition, "type") != kind);
    }
}

/// Completes a definition that is about to be written: its status is the old one's, brought up to date with the
/// spec. `others` are the definitions whose names it may not take; those of other groups do not matter.
///
/// Upstream takes several controllers and a few seconds for this, which is why clients wait for `Established`;
/// the steps between are never seen here.
pub fn establish(definition: &mut Value, old: Option<&Value>, others: &[Value], now: &str) {
    let before = old.and_then(|old| present(old, "status")).cloned().unwrap_or_else(|| json!({}));
    let Some(fields) = definition.as_object_mut() else { return };
    fields.insert("status".to_owned(), before);
    remember_storage_version(definition);

    let group = definition.pointer("/spec/group").and_then(Value::as_str).unwrap_or("");
    let taken = TakenNames::of(group, others);
    let names = names_accepted(definition, &taken);
    if let Some(status) = status_mut(definition) {
        status.insert("acceptedNames".to_owned(), names.accepted);
    }
    set_condition(definition, &names.condition, now);
    // Once established, a definition stays so: its objects exist.
    if !is_condition_true(definition, "Established") {
        let established = match names.condition.status {
            "True" if conversion::has_invalid_ca_bundle(definition) => Condition::new(
                "Established",
                false,
                "InvalidCABundle",
                "The conversion webhook CABundle is invalid",
            ),
            "True" => Condition::new(
                "Established",
                true,
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
            _ => Condition::new("Established", false, "NotAccepted", "not all names are accepted"),
        };
        set_condition(definition, &established, now);
    }
    for (kind, condition) in [
        ("NonStructuralSchema", non_structural(definition)),
        ("KubernetesAPIApprovalPolicyConformant", approval::condition(definition)),
    ] {
        match condition {
            Some(condition) => set_condition(definition, &condition, now),
            None => remove_condition(definition, kind),
        }
    }
}

/// Objects may exist in every version that ever was the storage version.
fn remember_storage_version(definition: &mut Value) {
    let Some(storage) = super::storage_version(definition).map(Value::from) else { return };
    let Some(status) = status_mut(definition) else { return };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let Some(stored) = stored.as_array_mut()
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

fn non_structural(definition: &Value) -> Option<Condition> {
    let mut errors = Vec::new();
    let preserves = definition.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
    if preserves {
        let path = Path::new("spec").child("preserveUnknownFields");
        errors.push(Error::invalid(&path, true, "must be false"));
    }
    for (i, version) in versions_of(definition).iter().enumerate() {
        let Some(schema) = version.pointer("/schema/openAPIV3Schema").filter(|schema| !schema.is_null())
        else {
            continue;
        };
        if let Err(unsupported) = Schema::from_crd(schema) {
            let name = text(version, "name");
            let why = aggregate(&unsupported);
            return Some(Condition {
                kind: "NonStructuralSchema",
                status: "Unknown",
                reason: "StructuralError".to_owned(),
                message: format!("failed to check validation schema for version {name}: {why}"),
            });
        }
        let path = Path::new("spec").child("versions").index(i).child("schema").child("openAPIV3Schema");
        errors.extend(structural::check(schema, &path));
    }
    (!errors.is_empty())
        .then(|| Condition::new("NonStructuralSchema", true, "Violations", aggregate(&errors)))
}

/// How far the deletion of a definition's objects has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Termination {
    InProgress,
    /// Some could not be deleted, and why.
    Failed(String),
    /// They were deleted, but not all are gone yet.
    Remaining(String),
    Completed,
    /// There never were any.
    NeverEstablished,
}

/// Marks a definition whose deletion has begun.
pub fn terminate(definition: &mut Value, now: &str) {
    terminate_with(definition, &Termination::InProgress, now);
}

pub fn terminate_with(definition: &mut Value, state: &Termination, now: &str) {
    let condition = |holds, reason, message: &str| Condition::new("Terminating", holds, reason, message);
    let condition = match state {
        Termination::InProgress => {
            condition(true, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        }
        Termination::Failed(why) => condition(true, "InstanceDeletionFailed", why),
        Termination::Remaining(why) => condition(
            true,
            "InstanceDeletionCheck",
            &format!("could not confirm zero CustomResources remaining: {why}"),
        ),
        Termination::Completed => condition(false, "InstanceDeletionCompleted", "removed all instances"),
        Termination::NeverEstablished => {
            condition(false, "NeverEstablished", "resource was never established")
        }
    };
    set_condition(definition, &condition, now);
}

/// `status.storedVersions` against the versions there are.
pub(super) fn check_stored_versions(definition: &Value) -> Vec<Error> {
    let path = Path::new("status").child("storedVersions");
    let stored = list(definition.get("status").unwrap_or(&Value::Null), "storedVersions");
    if stored.is_empty() {
        return vec![Error::invalid(&path, json!([]), "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    if let Some(storage) = super::storage_version(definition)
        && !stored.iter().any(|version| version == storage)
    {
        let detail = format!("must have the storage version {storage}");
        errors.push(Error::invalid(&path, Value::from(stored), detail));
    }
    for (i, version) in stored.iter().enumerate() {
        let name = version.as_str().unwrap_or("");
        if super::version(definition, name).is_none() {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(i), name, detail));
        }
    }
    errors
}
