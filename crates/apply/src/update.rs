//! Ownership after a write that is no apply: create, update, patch, and their subresources.

use std::sync::LazyLock;

use objects::meta;
use serde_json::{Map, Value};

use crate::entries::{self, Entry, ManagedFields, Operation};
use crate::remove::reconcile;
use crate::set::FieldSet;
use crate::versions::{Comparisons, ConversionError, Versions, at_version, place};

/// Who writes, where, when.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The field manager; empty is `unknown`.
    pub manager: &'a str,
    /// The version of the endpoint. The object written is in it; the live one may be in another.
    pub api_version: &'a str,
    /// `status`, `scale`; empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339 in UTC, whole seconds: `2024-02-29T12:00:00Z`.
    pub now: &'a str,
    /// Fields that this endpoint does not write, whatever is sent, and so nobody comes to own through it:
    /// `status` on the object itself, all but `status` on `/status`.
    pub reset: &'a FieldSet,
}

impl Write<'_> {
    pub(crate) fn entry(&self, operation: Operation, fields: FieldSet) -> Entry {
        Entry {
            manager: if self.manager.is_empty() { "unknown" } else { self.manager }.into(),
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
            time: None,
            fields,
        }
    }
}

/// What every object has and nobody owns.
pub(crate) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields([
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// Writes `metadata.managedFields` of an object that is about to be stored: what changed from `live` (all of
/// it, on creation) now belongs to this writer alone.
///
/// It never fails: where ownership cannot be told, because a conversion failed, the live object's stays.
pub fn track_update(live: Option<&Value>, new: &mut Value, write: &Write<'_>, versions: &dyn Versions) {
    let sent = entries::take(new);
    let recorded = live.and_then(entries::raw);
    let entries = updated(live, new, sent, write, versions)
        .unwrap_or_else(|_| recorded.cloned().unwrap_or(Value::Null));
    entries::put(new, entries);
}

fn updated(
    live: Option<&Value>,
    new: &Value,
    sent: Option<Value>,
    write: &Write<'_>,
    versions: &dyn Versions,
) -> Result<Value, ConversionError> {
    let recorded = live.and_then(entries::raw).unwrap_or(&Value::Null);
    // What a client sends through a subresource is not about the owners.
    let sent = sent.filter(|sent| !sent.is_null() && write.subresource.is_empty());
    let as_recorded = sent.as_ref().is_none_or(|sent| sent == recorded);
    let reset = !as_recorded && sent.as_ref().is_some_and(entries::is_reset);
    let exists = live.is_some_and(|live| !meta::uid(live).is_empty());
    if exists && (reset || as_recorded && recorded.as_array().is_none_or(Vec::is_empty)) {
        // An object that is not tracked stays so until it is applied.
        return Ok(Value::Null);
    }

    let live = live.map(|live| at_version(versions, live, write.api_version)).transpose()?;
    let old = live.as_deref().unwrap_or(&NOTHING);
    let mut comparisons = Comparisons { versions, old, new, reset: write.reset, made: Vec::new() };
    let comparison =
        comparisons.at(write.api_version)?.ok_or_else(|| ConversionError(write.api_version.to_owned()))?;
    if comparison.is_same() && as_recorded {
        return Ok(sent.unwrap_or_else(|| recorded.clone()));
    }

    let mut managed = if reset {
        ManagedFields::default()
    } else {
        // A client that does not understand the owners must not lose them by accident.
        let understood = sent.as_ref().and_then(|sent| ManagedFields::read(sent).ok());
        understood
            .filter(|managed| !managed.entries.is_empty())
            .unwrap_or_else(|| ManagedFields::read(recorded).unwrap_or_default())
    };
    if managed.entries.is_empty() && exists {
        return Ok(Value::Null);
    }
    fit_to_schemas(&mut managed, versions);
    take_over(&mut managed, &mut comparisons, write)?;
    managed.cap_updaters();
    Ok(managed.to_value())
}

/// Gives this writer what changed, and takes it from everybody else.
pub(crate) fn take_over(
    managed: &mut ManagedFields,
    comparisons: &mut Comparisons<'_>,
    write: &Write<'_>,
) -> Result<(), ConversionError> {
    release(managed, comparisons)?;
    let Some(comparison) = comparisons.at(write.api_version)? else { return Ok(()) };
    let mut fields = comparison.modified.union(&comparison.added);
    fields.subtract(&NEVER_OWNED);
    if fields.is_empty() {
        return Ok(());
    }
    let mut entry = write.entry(Operation::Update, fields);
    entry.time = Some(write.now.into());
    match managed.entries.iter_mut().find(|other| other.same_owner(&entry)) {
        Some(own) => {
            own.fields.absorb(entry.fields);
            own.time = entry.time;
        }
        None => managed.entries.push(entry),
    }
    Ok(())
}

/// Takes from every owner what changed; entries that own nothing more, or whose version is no more, go.
pub(crate) fn release(
    managed: &mut ManagedFields,
    comparisons: &mut Comparisons<'_>,
) -> Result<(), ConversionError> {
    let mut failure = None;
    managed.entries.retain_mut(|entry| match comparisons.at(&entry.api_version) {
        Ok(Some(comparison)) => {
            for taken in [&comparison.modified, &comparison.added, &comparison.removed] {
                entry.fields.subtract(taken);
            }
            !entry.fields.is_empty()
        }
        Ok(None) => false,
        Err(error) => {
            failure = Some(error);
            true
        }
    });
    failure.map_or(Ok(()), Err)
}

/// Fits recorded sets to what the schemas say now; entries of versions that are no more are dropped.
pub(crate) fn fit_to_schemas(managed: &mut ManagedFields, versions: &dyn Versions) {
    managed.entries.retain_mut(|entry| match place(versions, &entry.api_version) {
        Some(place) => {
            reconcile(&mut entry.fields, place);
            true
        }
        None => false,
    });
}

/// Undoes a change of owners that comes with no other change but of times: a write that changes nothing must
/// not make a new revision. To be called when defaults and admission have had their say.
pub fn forget_new_times(live: &Value, new: &mut Value) {
    let (Some(before), Some(after)) = (entries::raw(live), entries::raw(new)) else { return };
    let (Ok(mut before_read), Ok(mut after_read)) = (ManagedFields::read(before), ManagedFields::read(after))
    else {
        return;
    };
    for managed in [&mut before_read, &mut after_read] {
        managed.entries.iter_mut().for_each(|entry| entry.time = None);
        managed.entries.sort_by(|a, b| (a.identity(), &a.api_version).cmp(&(b.identity(), &b.api_version)));
    }
    if before_read == after_read && same_but_owners(live, new) {
        let before = before.clone();
        entries::put(new, before);
    }
}

/// Whether two objects are equal, their owners aside.
pub(crate) fn same_but_owners(a: &Value, b: &Value) -> bool {
    fn same(a: &Value, b: &Value, skipped: &str, inner: impl Fn(&str, &Value, &Value) -> bool) -> bool {
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return crate::values::same(a, b) };
        let count = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(skipped));
        count(a) == count(b)
            && a.iter()
                .filter(|(name, _)| *name != skipped)
                .all(|(name, a)| b.get(name).is_some_and(|b| inner(name, a, b)))
    }
    same(a, b, "", |name, a, b| {
        if name == "metadata" {
            same(a, b, "managedFields", |_, a, b| crate::values::same(a, b))
        } else {
            crate::values::same(a, b)
        }
    })
}
