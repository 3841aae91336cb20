//! Objects taken away: at once, or marked to be once others have done their part.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use objects::{Status, Value, meta};
use store::{Expect, Operation, StoreError};
use wire::options::{DeleteOptions, Propagation};

use crate::admit::{self, Change};
use crate::call::Call;
use crate::present;
use crate::read::{self, Current};
use crate::service::{Answer, Failure};
use crate::verbs::scan::Scan;
use crate::verbs::selection::Selection;
use crate::{crd, foresight, lifecycle, owners, write};

const TRIES: usize = 12;
/// Deletions of a collection under way at once: they share the store's commits.
const AT_ONCE: usize = 64;
pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

/// Kinds whose deletion is answered with the object.
const ANSWERED_WHOLE: [&str; 7] = [
    "pods",
    "services",
    "serviceaccounts",
    "persistentvolumes",
    "persistentvolumeclaims",
    "podtemplates",
    "resourcequotas",
];

/// What became of the object.
pub enum Deleted {
    /// Gone; this was its last state.
    Gone(Value),
    /// Still there, marked, waiting for its finalizers or its grace period.
    Marked(Value),
}

pub async fn delete(call: &Call) -> Answer {
    let options = call.delete_options()?;
    match delete_object(call, &call.target.name, &options).await? {
        Deleted::Marked(object) => {
            if options.dry_run {
                foresight::tell(call, &object).await;
            }
            present::value(call, 200, object).await
        }
        Deleted::Gone(object) => {
            // As upstream: these few are answered as they last were, the others with a success alone.
            if ANSWERED_WHOLE.contains(&call.row.storage_kind.as_str()) {
                return present::value(call, 200, object).await;
            }
            let mut status = Status::new(objects::Reason::Unknown, "");
            status.code = 200;
            status.name = meta::name(&object).to_owned();
            status.group = call.row.ty.group.to_string();
            status.kind = call.row.ty.plural.to_string();
            status.uid = meta::uid(&object).to_owned();
            present::success(call, &status)
        }
    }
}

pub async fn delete_collection(call: &Call) -> Answer {
    let options = call.delete_options()?;
    let listing = call.list_options()?;
    let selection = Selection::of(call, &listing)?;
    let mut scan = Scan::new(&call.row, Arc::new(selection), None, None, None);
    let mut keys = Vec::new();
    while !scan.is_over() {
        keys.extend(scan.next(call).await?.into_iter().map(|(key, _)| key));
    }
    let revision = call.engine.store.revision(call.plane.id).await?;
    let deleted: Vec<Option<Value>> = stream::iter(keys)
        .map(|key| {
            let (named, options) = (call.about(&key.namespace, &key.name), &options);
            async move {
                match delete_object(&named, &key.name, options).await {
                    Ok(Deleted::Gone(object) | Deleted::Marked(object)) => Ok(Some(object)),
                    // Someone else was quicker.
                    Err(failure) if failure.0.code == 404 => Ok(None),
                    Err(failure) => Err(failure),
                }
            }
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    present::values(call, deleted.into_iter().flatten().collect(), revision).await
}

/// Deletes one object by name, as far as its finalizers and its grace period let it.
pub async fn delete_object(call: &Call, name: &str, options: &DeleteOptions) -> Result<Deleted, Failure> {
    for _ in 0..TRIES {
        let Some(current) = read::current(call, name).await? else { return Err(call.not_found(name)) };
        check_preconditions(call, name, &current, options)?;
        admit::validate_delete(call, &current.value).await?;
        admit::review(call, &current.value, None).await?;
        if let Some(deleted) = delete_once(call, name, current, options).await? {
            return Ok(deleted);
        }
    }
    Err(Status::stale(&call.group_resource(), name).into())
}

/// One try; none where another write came first.
async fn delete_once(
    call: &Call,
    name: &str,
    current: Current,
    options: &DeleteOptions,
) -> Result<Option<Deleted>, Failure> {
    let key = call.key(name);
    let expect = Expect::Modified(current.revision);
    let old = current.value;
    let mut marked = old.clone();
    set_finalizers(&mut marked, options);
    crd::before_delete(call, &mut marked);
    let grace = grace_period(call, &old, options);
    let waits = grace > 0
        || meta::finalizers(&marked).next().is_some()
        || (call.row.storage_kind == lifecycle::NAMESPACES && has_inner_finalizers(&old));
    if waits {
        let already = meta::is_deleting(&old);
        let earlier = grace
            < old.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(i64::MAX);
        if !already || (grace > 0 || old.pointer("/metadata/deletionGracePeriodSeconds").is_some()) && earlier
        {
            let stamp = call.now + jiff::SignedDuration::from_secs(grace);
            meta::set(&mut marked, "deletionTimestamp", crate::call::timestamp(stamp));
            meta::set(&mut marked, "deletionGracePeriodSeconds", grace);
            bump_generation(&mut marked);
        }
        if call.row.storage_kind == lifecycle::NAMESPACES {
            marked["status"]["phase"] = "Terminating".into();
        }
        if marked == old || options.dry_run {
            return Ok(Some(Deleted::Marked(marked)));
        }
        let mut operations = Vec::with_capacity(2);
        let change = Change::Update { old: &old, part: write::Part::Whole("") };
        admit::charge(call, &marked, change, &mut operations).await?;
        operations.push(Operation::Put { key, expect, value: write::encode(call, &marked).await? });
        return match write::commit(call, operations).await {
            Ok(revision) => {
                meta::set(&mut marked, "resourceVersion", revision.to_string());
                crd::written(call, false).await?;
                Ok(Some(Deleted::Marked(marked)))
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        };
    }
    if options.dry_run {
        return Ok(Some(Deleted::Gone(old)));
    }
    let mut operations = vec![Operation::Delete { key: key.clone(), expect }];
    owners::index(&key, Some(&old), None, &mut operations);
    admit::release(call, &old, &mut operations).await?;
    match write::commit(call, operations).await {
        Ok(revision) => {
            let mut last = old;
            meta::set(&mut last, "resourceVersion", revision.to_string());
            crd::written(call, true).await?;
            Ok(Some(Deleted::Gone(last)))
        }
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn has_inner_finalizers(object: &Value) -> bool {
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

fn bump_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set(object, "generation", generation + 1);
    }
}

/// How the dependants are treated is left to the garbage collector as a finalizer.
fn set_finalizers(object: &mut Value, options: &DeleteOptions) {
    let wanted = match (options.propagation, options.orphan_dependents) {
        (Some(Propagation::Orphan), _) | (None, Some(true)) => Some(ORPHAN),
        (Some(Propagation::Foreground), _) => Some(FOREGROUND),
        (Some(Propagation::Background), _) | (None, Some(false)) => None,
        // Without a wish, finalizers that are already there decide.
        (None, None) => return,
    };
    let mut finalizers: Vec<Value> = meta::finalizers(object)
        .filter(|name| ![ORPHAN, FOREGROUND].contains(name))
        .map(Value::from)
        .collect();
    finalizers.extend(wanted.map(Value::from));
    let list = if finalizers.is_empty() { Value::Null } else { Value::Array(finalizers) };
    meta::set(object, "finalizers", list);
}

/// Only pods that run somewhere are given time to stop.
fn grace_period(call: &Call, object: &Value, options: &DeleteOptions) -> i64 {
    if call.row.storage_kind != "pods" {
        return 0;
    }
    let node = object.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("");
    if node.is_empty() || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    let wanted = options.grace_period_seconds;
    wanted.or_else(|| object.pointer("/spec/terminationGracePeriodSeconds")?.as_i64()).unwrap_or(30).max(0)
}

fn check_preconditions(
    call: &Call,
    name: &str,
    current: &Current,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let resource = call.group_resource();
    if let Some(uid) = &options.uid
        && uid != meta::uid(&current.value)
    {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta::uid(&current.value)
        );
        return Err(Status::conflict(&resource, name, why).into());
    }
    if let Some(revision) = &options.resource_version
        && *revision != current.revision.to_string()
    {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {revision}, ResourceVersion in object meta: {}",
            current.revision
        );
        return Err(Status::conflict(&resource, name, why).into());
    }
    Ok(())
}
