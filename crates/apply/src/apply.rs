//! Server-side apply: the applied configuration becomes part of the object, and what its applier owned before
//! and no longer wants goes.
//!
//! Mirrors structured-merge-diff's `merge.Updater` and the chain of managers that Kubernetes wraps around it.

use std::borrow::Cow;

use objects::{GroupVersion, meta};
use serde_json::{Map, Value};

use crate::conflict::{ApplyError, Conflict};
use crate::entries::{self, Entry, ManagedFields, Operation};
use crate::fields::set_of;
use crate::last_applied;
use crate::merge::merge;
use crate::place::Place;
use crate::remove::{Emptied, remove, with_declared_parents};
use crate::set::FieldSet;
use crate::update::{NEVER_OWNED, Write, fit_to_schemas, release, same_but_owners, take_over};
use crate::validate::validate;
use crate::versions::{Comparisons, ConversionError, Versions, at_version, place};

/// Who owns what an object held before it was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object to store, with its owners; in the version of the endpoint.
    pub object: Value,
    /// Whether it differs from the live one, be it only in its owners.
    pub changed: bool,
}

/// Applies a configuration to an object, or makes the object of it.
///
/// With `force` the applier takes what others own with other values; without, that is a conflict.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    force: bool,
    write: &Write<'_>,
    versions: &dyn Versions,
) -> Result<Applied, ApplyError> {
    let root = place(versions, write.api_version).ok_or_else(|| {
        ApplyError::NoVersion(format!("{}, Kind={}", write.api_version, meta::kind(config)))
    })?;
    check(live, config, write, root)?;
    let recorded = live.and_then(entries::raw);
    let mut managed = recorded.map(ManagedFields::read).transpose()?.unwrap_or_default();

    let nothing = Value::Object(Map::new());
    let live_here = live.map(|live| at_version(versions, live, write.api_version)).transpose()?;
    let old: &Value = live_here.as_deref().unwrap_or(&nothing);
    if managed.entries.is_empty() && live.is_some() {
        let first = Write { manager: BEFORE_FIRST_APPLY, ..*write };
        let reset = write.reset;
        let mut comparisons = Comparisons { versions, old: &nothing, new: old, reset, made: Vec::new() };
        take_over(&mut managed, &mut comparisons, &first)?;
    }
    fit_to_schemas(&mut managed, versions);

    let mut object = without_owners(old);
    merge(&mut object, config, root);
    let mut wanted = set_of(config, versions.cursor(write.api_version));
    wanted.subtract_recursively(write.reset);
    let mut own = write.entry(Operation::Apply, wanted);
    let before = managed.entries.iter().position(|entry| entry.same_owner(&own));
    let before = before.map(|at| managed.entries.remove(at));
    own.time = before.as_ref().and_then(|before| before.time.clone());
    if let Some(before) = &before {
        prune(&mut object, before, &own, &managed, write, versions)?;
    }

    settle(&mut managed, old, &object, force, write, versions)?;
    own.fields.subtract(&NEVER_OWNED);
    if !own.fields.is_empty() {
        if !same_but_owners(old, &object) {
            own.time = Some(write.now.into());
        }
        managed.entries.push(own);
    }
    last_applied::refresh(&mut object, config, write);

    let owners = managed.to_value();
    let changed = live
        .is_none_or(|live| recorded.unwrap_or(&Value::Null) != &owners || !same_but_owners(live, &object));
    entries::put(&mut object, owners);
    Ok(Applied { object, changed })
}

/// What can be said of a configuration before the object is looked at.
fn check(live: Option<&Value>, config: &Value, write: &Write<'_>, root: Place<'_>) -> Result<(), ApplyError> {
    let kind = meta::kind(config);
    let is_other_kind = live.is_some_and(|live| !meta::kind(live).is_empty() && meta::kind(live) != kind);
    let given = GroupVersion::parse(meta::api_version(config)).unwrap_or_default().with_kind(kind);
    if meta::api_version(config) != write.api_version || is_other_kind {
        return Err(ApplyError::WrongType(given.to_string()));
    }
    if entries::raw(config).is_some_and(|owners| !owners.is_null()) {
        return Err(ApplyError::OwnersGiven);
    }
    let errors = validate(config, root);
    if errors.is_empty() {
        return Ok(());
    }
    let object = format!("{}/{}; {given}", meta::namespace(config), meta::name(config));
    Err(ApplyError::Untyped { object, errors })
}

/// Takes what the apply changed from its other owners, or finds that it may not.
fn settle(
    managed: &mut ManagedFields,
    old: &Value,
    new: &Value,
    force: bool,
    write: &Write<'_>,
    versions: &dyn Versions,
) -> Result<(), ApplyError> {
    let mut comparisons = Comparisons { versions, old, new, reset: write.reset, made: Vec::new() };
    let mut conflicts = Vec::new();
    if !force {
        managed.entries.sort_by(|a, b| a.identity().cmp(&b.identity()));
        for entry in &managed.entries {
            let Some(comparison) = comparisons.at(&entry.api_version)? else { continue };
            let mut contested = entry.fields.intersection(&comparison.modified);
            contested.absorb(entry.fields.intersection(&comparison.added));
            conflicts.extend(contested.paths().into_iter().map(|path| Conflict::with(entry, path)));
        }
    }
    if !conflicts.is_empty() {
        let conflicts = last_applied::unexcused(conflicts, old, write, versions);
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
    }
    Ok(release(managed, &mut comparisons)?)
}

/// Removes what the applier owned before, does not want now, and nobody else owns.
fn prune(
    object: &mut Value,
    before: &Entry,
    own: &Entry,
    others: &ManagedFields,
    write: &Write<'_>,
    versions: &dyn Versions,
) -> Result<(), ConversionError> {
    let version = before.api_version.as_str();
    if version == write.api_version && before.fields.is_subset(&own.fields) {
        return Ok(());
    }
    let Some(place_before) = place(versions, version) else { return Ok(()) };
    let cursor_before = versions.cursor(version);
    let merged = at_version(versions, object, version)?.into_owned();
    let last = with_declared_parents(&before.fields, place_before);

    let mut pruned = merged.clone();
    remove(&mut pruned, &last, place_before, Emptied::Null);
    let pruned = with_owned_back(&merged, pruned, version, others, own, versions)?;

    // Only what the applier itself owned may go; what went along with it comes back.
    let pruned = at_version(versions, &pruned, version)?;
    let kept = with_declared_parents(&set_of(&pruned, cursor_before), place_before);
    let mut lost = with_declared_parents(&set_of(&merged, cursor_before), place_before);
    lost.subtract(&kept);
    let lost = lost.intersection(&last);
    let mut owned = FieldSet::new();
    for entry in others.entries.iter().chain([own]).filter(|entry| entry.api_version == version) {
        owned.absorb(entry.fields.clone());
    }
    let mut result = merged;
    remove(&mut result, &lost, place_before, Emptied::Settled { owned: Some(&owned) });
    *object = at_version(versions, &result, write.api_version)?.into_owned();
    Ok(())
}

/// Puts back what somebody else, or the applier's new configuration, owns: first in the version of the pruned
/// object, so that what a conversion needs is there, and then in every other.
fn with_owned_back(
    merged: &Value,
    mut pruned: Value,
    version: &str,
    others: &ManagedFields,
    own: &Entry,
    versions: &dyn Versions,
) -> Result<Value, ConversionError> {
    let mut owned: Vec<(&str, FieldSet)> = vec![(version, FieldSet::new())];
    for entry in others.entries.iter().chain([own]) {
        let at = entry.api_version.as_str();
        match owned.iter_mut().find(|(version, _)| *version == at) {
            Some((_, fields)) => fields.absorb(entry.fields.clone()),
            None => owned.push((at, entry.fields.clone())),
        }
    }
    let mut merged = Cow::Borrowed(merged);
    for (version, fields) in owned {
        let Some(root) = place(versions, version) else { continue };
        let cursor = versions.cursor(version);
        let here = at_version(versions, &merged, version)?.into_owned();
        let pruned_here = at_version(versions, &pruned, version)?;
        let mut kept = with_declared_parents(&set_of(&pruned_here, cursor), root);
        kept.absorb(with_declared_parents(&fields, root));
        let mut lost = with_declared_parents(&set_of(&here, cursor), root);
        lost.subtract(&kept);
        pruned = here.clone();
        remove(&mut pruned, &lost, root, Emptied::Null);
        merged = Cow::Owned(here);
    }
    Ok(pruned)
}

/// A copy of an object without its owners, which may be the larger part of it.
fn without_owners(object: &Value) -> Value {
    let Some(fields) = object.as_object() else { return object.clone() };
    let copied = fields.iter().map(|(name, value)| match value.as_object() {
        Some(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(copied.collect())
}
