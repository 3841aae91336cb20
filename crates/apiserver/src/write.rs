//! From a wanted object to a committed one: admit, validate, commit. Every write of every kind comes through here.

use bytes::Bytes;
use objects::field::{self, ErrorList};
use objects::{Path, Reason, Status, Value, equal, meta, names};
use store::{Expect, Key, Operation, Revision, StoreError};

use crate::admit::{self, Change};
use crate::call::Call;
use crate::codec::{SchemaTag, Stored};
use crate::lifecycle::Look;
use crate::read::Current;
use crate::service::Failure;
use crate::stations::decode::BODY_LIMIT;
use crate::surface::validate_custom;
use crate::{convert, crd, foresight, lifecycle, managed, moving, owners, read};

/// How often a write is tried again when something else changed under it.
const TRIES: usize = 12;
/// What many requests make of one object is bounded as well: without this, `managedFields` grow by every manager. Upstream
/// has etcd's limit of a request, which is lower.
const LARGEST_OBJECT: usize = 2 * BODY_LIMIT;
/// As upstream: names tried for a `generateName`.
const NAME_TRIES: usize = 8;

/// How the client wants the write done.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// Who the written fields belong to.
    pub manager: String,
}

/// Which part of an object a write is about: the endpoint it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
    /// A subresource that has already put together the whole object itself.
    Whole(&'static str),
}

impl Part {
    /// As managed fields record it.
    pub fn subresource(self) -> &'static str {
        match self {
            Part::Main => "",
            Part::Status => "status",
            Part::Whole(name) => name,
        }
    }
}

/// Where the fields of the write go in `managedFields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    Update,
    /// Server-side apply has already recorded them.
    Applied,
}

/// Makes a new object.
pub async fn create(
    call: &Call,
    mut object: Value,
    options: &WriteOptions,
    tracking: Tracking,
) -> Result<Written, Failure> {
    let base = meta::text(&object, "generateName").to_owned();
    let generated = meta::name(&object).is_empty() && !base.is_empty();
    if let Some(custom) = call.row.custom()
        && custom.definition.terminating
    {
        let message = "create not allowed while custom resource definition is terminating";
        return Err(Status::new(Reason::MethodNotAllowed, message).into());
    }
    stamp_new(call, &mut object);
    for attempt in 1.. {
        if generated {
            meta::set(&mut object, "name", names::generated(&base, rand::random()));
        }
        // Only a generated name is tried again, and then from the beginning.
        let mut candidate = if generated { object.clone() } else { std::mem::take(&mut object) };
        match create_once(call, &mut candidate, options, tracking).await {
            Err(Refused::Exists) if generated && attempt < NAME_TRIES => continue,
            Err(Refused::Exists) if generated => {
                let message = format!(
                    "{} {:?} already exists, the server was not able to generate a unique name",
                    call.group_resource(),
                    meta::name(&candidate)
                );
                let status = Status::new(Reason::AlreadyExists, message);
                return Err(status
                    .about(&call.group_resource(), meta::name(&candidate))
                    .retry_after(1)
                    .into());
            }
            Err(Refused::Exists) => {
                return Err(Status::already_exists(&call.group_resource(), meta::name(&candidate)).into());
            }
            Err(Refused::Because(failure)) => return Err(failure),
            Ok(None) => return Ok(Written::unstored(candidate)),
            Ok(Some((key, value, revision))) => {
                return Ok(Written::stored(call, &key, &value, candidate, revision));
            }
        }
    }
    Err(Status::internal("a loop without end ended").into())
}

enum Refused {
    Exists,
    Because(Failure),
}

impl<F: Into<Failure>> From<F> for Refused {
    fn from(failure: F) -> Self {
        Refused::Because(failure.into())
    }
}

/// What has been stored, and where; nothing if it was only tried out.
async fn create_once(
    call: &Call,
    object: &mut Value,
    options: &WriteOptions,
    tracking: Tracking,
) -> Result<Option<(Key, Bytes, Revision)>, Refused> {
    // Told before anything else that may be wrong.
    let mut operations = Vec::with_capacity(4);
    lifecycle::require_namespace(call, object, &mut operations, Look::Remembered).await?;
    call.row.behaviour.defaults(object);
    admit::mutate(call, object, Change::Create).await?;
    call.row.behaviour.defaults(object);
    // What is given by the server may turn out to be taken: then it is given anew.
    let ungiven = admit::is_given_something(call).then(|| object.clone());
    for attempt in 0..TRIES {
        if let Some(ungiven) = ungiven.as_ref().filter(|_| attempt > 0) {
            object.clone_from(ungiven);
        }
        admit::allocate(call, object, Change::Create, &mut operations).await?;
        call.row.behaviour.prepare_create(object);
        admit::sign(call, object);
        if tracking == Tracking::Update {
            managed::track(call, None, object, options, Part::Main);
        }
        crd::prepare(call, object, None).await?;
        invalid(call, object, validate_new(call, object))?;
        admit::validate(call, object, Change::Create).await?;
        call.row.behaviour.warnings(object).into_iter().for_each(|warning| call.warn(warning));
        let name = meta::name(object).to_owned();
        let key = call.key(&name);
        if options.dry_run {
            let there = call.engine.store.get(call.plane.id, &key).await.map_err(Failure::from)?;
            if there.is_some() {
                return Err(Refused::Exists);
            }
            foresight::tell(call, object).await;
            return Ok(None);
        }
        admit::charge(call, object, Change::Create, &mut operations).await?;
        owners::index(&key, None, Some(object), &mut operations);
        let value = encode(call, object).await?;
        let put = Operation::Put { key: key.clone(), expect: Expect::Absent, value: value.clone() };
        operations.push(put);
        match commit(call, std::mem::take(&mut operations)).await {
            Ok(revision) => return Ok(Some((key, value, revision))),
            Err(StoreError::Conflict { key: found, .. }) if found == key => return Err(Refused::Exists),
            // A namespace, a quota or an address changed meanwhile: look again.
            Err(StoreError::Conflict { .. }) => {
                lifecycle::require_namespace(call, object, &mut operations, Look::Again).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(contended(call, meta::name(object)).into())
}

/// What the server alone decides about a new object.
fn stamp_new(call: &Call, object: &mut Value) {
    for field in
        ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation"]
    {
        meta::set(object, field, Value::Null);
    }
    meta::set(object, "uid", uuid::Uuid::new_v4().to_string());
    meta::set(object, "creationTimestamp", call.timestamp());
    if call.row.ty.is_namespaced() {
        meta::set(object, "namespace", call.target.namespace.as_str());
    }
}

/// An update as a function of what is there.
pub struct Update<'a> {
    pub name: &'a str,
    pub part: Part,
    pub options: &'a WriteOptions,
    pub tracking: Tracking,
    /// The wanted object, given the current one in the caller's version.
    pub make: &'a (dyn Fn(&Value) -> Result<Value, Failure> + Sync),
}

/// An object that has been written, or would have been.
pub struct Written {
    pub object: Value,
    /// The same as it lies in the store, where that is what a client of this row sees.
    pub stored: Option<Stored>,
}

impl Written {
    /// One of which nothing has been stored.
    fn unstored(object: Value) -> Written {
        Written { object, stored: None }
    }

    /// `value` is what has been stored at this revision.
    fn stored(call: &Call, key: &Key, value: &Bytes, mut object: Value, revision: Revision) -> Written {
        meta::set(&mut object, "resourceVersion", revision.to_string());
        let stored = call.plane.codec.decode(key, value, revision).ok();
        Written { object, stored: stored.filter(|stored| read::is_current(&call.row, stored)) }
    }
}

/// What became of an update.
pub enum Updated {
    Written(Written),
    /// Nothing was there under this name.
    Missing,
}

/// Changes an object that is there. What conflicts with another write is done again on the newer object.
pub async fn update(call: &Call, update: &Update<'_>) -> Result<Updated, Failure> {
    for _ in 0..TRIES {
        let Some(current) = read::current(call, update.name).await? else { return Ok(Updated::Missing) };
        let mut wanted = (update.make)(&current.value)?;
        check_identity(call, &mut wanted, &current, update.name)?;
        if let Replaced::Written(written) = replace(call, current, wanted, update).await? {
            return Ok(Updated::Written(written));
        }
        // Who named the version it meant is told at the next look that it is gone. A patch carries the version it
        // was made on without having named it, and is made again.
    }
    Err(contended(call, update.name))
}

enum Replaced {
    Written(Written),
    /// Another write came first.
    Overtaken,
}

async fn replace(
    call: &Call,
    current: Current,
    mut new: Value,
    update: &Update<'_>,
) -> Result<Replaced, Failure> {
    let old = &current.value;
    let row = &call.row;
    let change = Change::Update { old, part: update.part };
    row.behaviour.defaults(&mut new);
    admit::mutate(call, &mut new, change).await?;
    let mut operations = Vec::with_capacity(4);
    match update.part {
        Part::Main => {
            row.behaviour.prepare_update(&mut new, old);
            admit::allocate(call, &mut new, change, &mut operations).await?;
        }
        Part::Status => row.behaviour.prepare_status_update(&mut new, old),
        Part::Whole(_) => {}
    }
    if update.tracking == Tracking::Update {
        managed::track(call, Some(old), &mut new, update.options, update.part);
    }
    crd::prepare(call, &mut new, Some(old)).await?;
    invalid(call, &new, validate_change(call, &new, old, update.part))?;
    admit::validate(call, &new, change).await?;
    if update.part == Part::Main {
        admit::review(call, old, Some(&new)).await?;
        row.behaviour.warnings(&new).into_iter().for_each(|warning| call.warn(warning));
    }

    apply::forget_new_times(old, &mut new);
    let gone = lifecycle::is_finished(&new);
    if update.options.dry_run && update.part == Part::Main {
        foresight::tell(call, &new).await;
    }
    if !gone && is_same(&new, old) {
        return Ok(Replaced::Written(Written::unstored(current.value)));
    }
    if update.options.dry_run {
        return Ok(Replaced::Written(Written::unstored(new)));
    }
    let key = call.key(update.name);
    let expect = Expect::Modified(current.revision);
    let mut value = Bytes::new();
    if gone {
        operations.clear();
        operations.push(Operation::Delete { key: key.clone(), expect });
        owners::index(&key, Some(old), None, &mut operations);
        admit::release(call, &new, &mut operations).await?;
    } else {
        admit::charge(call, &new, change, &mut operations).await?;
        owners::index(&key, Some(old), Some(&new), &mut operations);
        value = encode(call, &new).await?;
        operations.push(Operation::Put { key: key.clone(), expect, value: value.clone() });
    }
    match commit(call, operations).await {
        Ok(revision) => {
            crd::written(call, gone).await?;
            Ok(Replaced::Written(Written::stored(call, &key, &value, new, revision)))
        }
        Err(StoreError::Conflict { .. }) => Ok(Replaced::Overtaken),
        Err(error) => Err(error.into()),
    }
}

/// The new object must be the old one's successor, and of the version the caller meant if it named one.
fn check_identity(call: &Call, new: &mut Value, current: &Current, name: &str) -> Result<(), Failure> {
    let (old, resource) = (&current.value, call.group_resource());
    let uid = meta::uid(new);
    if !uid.is_empty() && uid != meta::uid(old) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta::uid(old)
        );
        return Err(Status::conflict(&resource, name, why).into());
    }
    let asked = meta::resource_version(new);
    if !asked.is_empty() && asked != "0" {
        let revision: u64 = asked.parse().map_err(|_| {
            let error = field::Error::invalid(
                &Path::new("metadata.resourceVersion"),
                asked,
                "must be specified as an integer",
            );
            Status::invalid(&call.row.group_kind(), name, &[error])
        })?;
        if revision != current.revision.0 {
            return Err(Status::stale(&resource, name).into());
        }
    }
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generation",
    ] {
        let kept = old.get("metadata").and_then(|m| m.get(field)).cloned().unwrap_or_default();
        meta::set(new, field, kept);
    }
    meta::set(new, "selfLink", Value::Null);
    if call.row.ty.is_namespaced() && meta::namespace(new).is_empty() {
        meta::set(new, "namespace", meta::namespace(old).to_owned());
    }
    Ok(())
}

/// Whether a write would change nothing but the time at which nothing changed.
fn is_same(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
    let none = serde_json::Map::new();
    let metadata = |object: &'_ serde_json::Map<String, Value>| {
        object.get("metadata").and_then(Value::as_object).cloned()
    };
    let (new_meta, old_meta) = (metadata(new).unwrap_or_default(), metadata(old).unwrap_or(none));
    same_members(new, old, "metadata")
        && same_members(&new_meta, &old_meta, "managedFields")
        && managed::same_ownership(new_meta.get("managedFields"), old_meta.get("managedFields"))
}

/// Whether two maps agree on everything but one member.
fn same_members(
    a: &serde_json::Map<String, Value>,
    b: &serde_json::Map<String, Value>,
    except: &str,
) -> bool {
    let count = |map: &serde_json::Map<String, Value>| map.len() - usize::from(map.contains_key(except));
    count(a) == count(b)
        && a.iter().all(|(name, value)| {
            name == except || b.get(name).is_some_and(|other| equal::semantic(value, other))
        })
}

fn validate_new(call: &Call, object: &Value) -> ErrorList {
    let row = &call.row;
    let path = Path::new("metadata");
    let mut errors =
        objects::metadata::validate(object, row.ty.is_namespaced(), |name| row.behaviour.name(name), &path);
    match row.custom() {
        None => errors.extend(row.behaviour.validate(object)),
        Some(custom) => errors.extend(validate_custom(custom, object, None, false)),
    }
    errors.extend(admit::invalid(call, object, None));
    errors.extend(crd::validate(call, object, None));
    errors
}

fn validate_change(call: &Call, new: &Value, old: &Value, part: Part) -> ErrorList {
    let row = &call.row;
    let mut errors = objects::metadata::validate_update(new, old, &Path::new("metadata"));
    match (row.custom(), part) {
        (None, Part::Status) => errors.extend(row.behaviour.validate_status_update(new, old)),
        (None, Part::Main) => errors.extend(row.behaviour.validate_update(new, old)),
        (None, Part::Whole(name)) => errors.extend(row.behaviour.validate_part(name, new, old)),
        (Some(custom), part) => errors.extend(validate_custom(custom, new, Some(old), part == Part::Status)),
    }
    if part == Part::Main {
        errors.extend(admit::invalid(call, new, Some(old)));
    }
    errors.extend(crd::validate(call, new, Some((old, part))));
    errors
}

fn invalid(call: &Call, object: &Value, errors: ErrorList) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&call.row.group_kind(), meta::name(object), &errors).into())
}

/// The bytes to store: in the storage version, marked with the schema that shaped them.
pub async fn encode(call: &Call, object: &Value) -> Result<Bytes, Failure> {
    let encoded = encoded(call, object).await?;
    if encoded.len() > LARGEST_OBJECT {
        let message = format!(
            "Request entity too large: the object would have {} bytes, limit is {LARGEST_OBJECT}",
            encoded.len()
        );
        return Err(Status::new(Reason::RequestEntityTooLarge, message).into());
    }
    Ok(encoded)
}

async fn encoded(call: &Call, object: &Value) -> Result<Bytes, Failure> {
    let row = &call.row;
    let key = row.key(meta::namespace(object), meta::name(object));
    if call.is_unconverted() {
        return Ok(call.plane.codec.encode(&key, object, SchemaTag::UNKNOWN)?);
    }
    if row.api_version == row.storage_api_version {
        return Ok(call.plane.codec.encode(&key, object, row.tag())?);
    }
    let stored = convert::to_storage(call, object.clone(), row).await?;
    // The tag is that of the stored version, which this row does not know: none, so that readers look again.
    let tag = if row.is_custom() { SchemaTag::UNKNOWN } else { SchemaTag::default() };
    Ok(call.plane.codec.encode(&key, &stored, tag)?)
}

/// Durable when it returns. What is derived from the written kind is outdated before anyone is told.
pub async fn commit(call: &Call, mut operations: Vec<Operation>) -> Result<Revision, StoreError> {
    operations.push(moving::check());
    let revision = call.engine.store.write(call.plane.id, operations).await.map_err(moving::explain)?;
    call.engine.planes.written(&call.plane, &call.row.storage_kind);
    Ok(revision)
}

fn contended(call: &Call, name: &str) -> Failure {
    Status::conflict(&call.group_resource(), name, "too many others are changing it; please try again").into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use crate::fixture::{Fixture, administrator};

    /// Few enough that the unluckiest is done before it has been overtaken too often.
    const PATCHES: usize = super::TRIES - 1;

    #[tokio::test(flavor = "multi_thread")]
    async fn patches_that_meet_are_all_done() {
        let fixture = Arc::new(Fixture::new().await);
        let path = "/api/v1/namespaces/default/configmaps";
        assert_eq!(fixture.ask("a", "POST", path, r#"{"metadata": {"name": "x"}}"#).await.0, 201);
        let patch = |i: usize, version: &str| {
            let fixture = fixture.clone();
            let body = format!(r#"{{{version}"data": {{"k{i}": "v"}}}}"#);
            tokio::spawn(async move {
                let request = Request::patch("/api/v1/namespaces/default/configmaps/x");
                let request = request.header("content-type", "application/merge-patch+json");
                fixture.send(administrator("a"), request, body).await.status().as_u16()
            })
        };
        let current = fixture.ask("a", "GET", &format!("{path}/x"), "").await.1;
        let current: serde_json::Value = serde_json::from_str(&current).unwrap();
        let version =
            format!(r#""metadata": {{"resourceVersion": {}}},"#, current["metadata"]["resourceVersion"]);
        let all: Vec<_> = (0..PATCHES).map(|i| patch(i, "")).collect();
        for patched in all {
            assert_eq!(patched.await.unwrap(), 200);
        }
        let patched = fixture.ask("a", "GET", &format!("{path}/x"), "").await.1;
        let patched: serde_json::Value = serde_json::from_str(&patched).unwrap();
        assert_eq!(patched["data"].as_object().unwrap().len(), PATCHES);
        // Whoever names a version means that one.
        assert_eq!(patch(99, &version).await.unwrap(), 409);
    }

    /// However it is written, what changes nothing takes no revision.
    #[tokio::test]
    async fn a_write_without_a_change_is_none() {
        let fixture = Fixture::new().await;
        let collection = "/apis/apps/v1/namespaces/default/deployments";
        let pod =
            r#"{"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;
        let spec = format!(r#"{{"selector": {{"matchLabels": {{"a": "b"}}}}, "template": {pod}}}"#);
        let object = format!(
            r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "x"}}, "spec": {spec}}}"#
        );
        assert_eq!(fixture.ask("a", "POST", collection, &object).await.0, 201);
        let (path, status) = (format!("{collection}/x"), format!("{collection}/x/status"));
        let json_patch = r#"[{"op": "add", "path": "/status", "value": {"replicas": 1}}]"#;
        let apply = format!("{path}?fieldManager=m&force=true");
        let writes = [
            (
                &path,
                "application/merge-patch+json",
                r#"{"metadata": {"labels": {}}, "spec": {"replicas": 1}}"#,
            ),
            (&path, "application/strategic-merge-patch+json", r#"{"metadata": {"annotations": {}}}"#),
            (
                &path,
                "application/json-patch+json",
                r#"[{"op": "test", "path": "/kind", "value": "Deployment"}]"#,
            ),
            (&status, "application/json-patch+json", json_patch),
            (&status, "application/merge-patch+json", r#"{"status": {"replicas": 1}}"#),
            (&apply, "application/apply-patch+yaml", &object),
        ];
        let plane = fixture.engine.planes.find("a").await.unwrap().unwrap();
        let revision = async || fixture.engine.store.revision(plane.id).await.unwrap();
        for (path, content_type, body) in writes {
            let patch = async || {
                let request = Request::patch(path).header("content-type", content_type);
                let answer = fixture.send(administrator("a"), request, body.to_owned()).await;
                assert_eq!(answer.status().as_u16(), 200, "{path} {content_type}");
            };
            patch().await;
            let before = revision().await;
            patch().await;
            assert_eq!(revision().await, before, "{path} {content_type}");
        }
        let before = revision().await;
        let current = fixture.ask("a", "GET", &path, "").await.1;
        assert_eq!(fixture.ask("a", "PUT", &path, &current).await.0, 200);
        assert_eq!(fixture.ask("a", "PUT", &status, &current).await.0, 200);
        assert_eq!(revision().await, before);
    }
}
