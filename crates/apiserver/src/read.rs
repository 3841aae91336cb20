//! Objects out of the store, in the version that was asked for.

use bytes::Bytes;
use objects::{Status, Value};
use store::{Entry, Revision};

use crate::call::Call;
use crate::codec::{CodecError, SchemaTag, Stored, has_api_version};
use crate::control_plane::ControlPlane;
use crate::convert;
use crate::engine::Engine;
use crate::service::Failure;
use crate::surface::Row;

impl From<CodecError> for Failure {
    fn from(error: CodecError) -> Self {
        tracing::error!(%error, "an object cannot be read");
        Failure(Box::new(Status::internal(error)))
    }
}

/// A stored object of which a part was looked for.
pub fn no_json(error: objects::raw::Malformed) -> Failure {
    tracing::error!(%error, "a stored object is not JSON");
    Failure(Box::new(Status::internal("a stored object is not JSON")))
}

pub fn unreadable(error: serde_json::Error) -> Failure {
    tracing::error!(%error, "a stored object is not JSON");
    Failure(Box::new(Status::internal("a stored object is not JSON")))
}

/// Whether an object can be under this key at all. Names to look up come from bodies and selectors that nobody has
/// validated yet, and the store takes a key that cannot be for a mistake of its caller.
pub fn is_possible(key: &store::Key) -> bool {
    !key.name.is_empty() && !key.name.contains('\0') && !key.namespace.contains('\0')
}

/// An object as it is stored, by its storage type: what the server itself looks up on the way.
pub async fn object(
    engine: &Engine,
    plane: &ControlPlane,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, Failure> {
    Ok(entry(engine, plane, &store::Key::new(kind, namespace, name)).await?.map(|(value, _)| value))
}

/// The same with the revision that wrote it, for those who mean to write it again.
pub async fn entry(
    engine: &Engine,
    plane: &ControlPlane,
    key: &store::Key,
) -> Result<Option<(Value, Revision)>, Failure> {
    if !is_possible(key) {
        return Ok(None);
    }
    let Some(entry) = engine.store.get(plane.id, key).await? else { return Ok(None) };
    let stored = plane.codec.decode(&entry.key, &entry.value, entry.modified)?;
    Ok(Some((stored.to_value().map_err(unreadable)?, entry.modified)))
}

/// All objects of a storage type, in one namespace or (empty) in all.
pub async fn objects(
    engine: &Engine,
    plane: &ControlPlane,
    kind: &str,
    namespace: &str,
) -> Result<Vec<(Value, Revision)>, Failure> {
    let scope = match namespace {
        "" => store::Scope::Kind(kind.into()),
        namespace => store::Scope::Namespace(kind.into(), namespace.into()),
    };
    let page = engine.store.range(plane.id, &scope, None, None, 0).await?;
    let decoded = page.entries.iter().map(|entry| {
        let stored = plane.codec.decode(&entry.key, &entry.value, entry.modified)?;
        Ok((stored.to_value().map_err(unreadable)?, entry.modified))
    });
    decoded.collect()
}

/// What is there now, as the caller's version of it.
pub struct Current {
    pub value: Value,
    pub revision: Revision,
}

/// The object a call names.
pub async fn current(call: &Call, name: &str) -> Result<Option<Current>, Failure> {
    let key = call.key(name);
    if !is_possible(&key) {
        return Ok(None);
    }
    let Some(entry) = call.engine.store.get(call.plane.id, &key).await? else { return Ok(None) };
    let stored = stored(call, &entry)?;
    Ok(Some(Current { value: in_version(call, &call.row, &stored).await?, revision: entry.modified }))
}

pub fn stored(call: &Call, entry: &Entry) -> Result<Stored, Failure> {
    Ok(call.plane.codec.decode(&entry.key, &entry.value, entry.modified)?)
}

/// Whether the stored bytes are what a client of this row is to see.
pub fn is_current(row: &Row, stored: &Stored) -> bool {
    is_current_json(row, stored.tag, stored.raw())
}

/// The same for the JSON of a stored object, and the schema it was shaped by.
pub fn is_current_json(row: &Row, tag: SchemaTag, json: &[u8]) -> bool {
    tag == row.tag() && has_api_version(json, &row.api_version)
}

/// The bytes a client of this row sees.
pub async fn bytes_in_version(call: &Call, row: &Row, stored: &Stored) -> Result<Bytes, Failure> {
    if is_current(row, stored) {
        return Ok(stored.to_bytes());
    }
    let value = in_version(call, row, stored).await?;
    Ok(Bytes::from(value.to_string()))
}

/// The object in a row's version: converted, and with the fields that its schema has by now.
pub async fn in_version(call: &Call, row: &Row, stored: &Stored) -> Result<Value, Failure> {
    let values = all_in_version(call, row, [stored]).await?;
    values.into_iter().next().ok_or_else(|| Status::internal("a conversion lost an object").into())
}

/// The same for many, in their order. They are converted together, which a webhook answers in one call: ask for a page at
/// a time, not for one object after another.
pub async fn all_in_version(
    call: &Call,
    row: &Row,
    stored: impl IntoIterator<Item = &Stored>,
) -> Result<Vec<Value>, Failure> {
    let mut values = Vec::new();
    let mut outdated = Vec::new();
    for stored in stored {
        values.push(stored.to_value().map_err(unreadable)?);
        outdated.push(!is_current(row, stored));
    }
    if call.is_unconverted() || !outdated.contains(&true) {
        return Ok(values);
    }
    let mut values = convert::to_row(call, values, row).await?;
    if let Some(custom) = row.custom()
        && let Some(schema) = custom.schema.compiled()
    {
        for (value, _) in values.iter_mut().zip(outdated).filter(|(_, outdated)| *outdated) {
            schemas::prune(schema.root(), value, schemas::PruneOptions::default());
            schemas::default(schema.root(), value);
        }
    }
    Ok(values)
}
