//! Objects as the client wants to see them: whole, as a table, as metadata only; in JSON, YAML or protobuf.

mod list;

use http::HeaderValue;
use objects::{Status, Value};
use serde_json::{Map, json};
use store::Revision;
use wire::negotiate::{Accepted, Format, Shape};
use wire::protobuf;
use wire::table::{Column, CustomColumns, IncludeObject, Row, Table, partial_metadata};

use crate::body;
use crate::call::Call;
use crate::codec::Stored;
use crate::read;
use crate::service::{Answer, Failure};
use crate::write::Written;

pub use list::{ListWriter, Metadata};

/// Whether stored bytes can be sent as they are.
pub fn is_plain(accepted: &Accepted) -> bool {
    accepted.format == Format::Json && accepted.shape == Shape::Object
}

/// One object from the store.
pub async fn stored(call: &Call, code: u16, stored: &Stored) -> Answer {
    if is_plain(&call.accepted) {
        let bytes = read::bytes_in_version(call, &call.row, stored).await?;
        return Ok(body::response(code, body::JSON, bytes));
    }
    value(call, code, read::in_version(call, &call.row, stored).await?).await
}

/// One object that has been written: as the bytes that lie in the store, or else serialized once more.
pub async fn written(call: &Call, code: u16, written: Written) -> Answer {
    match written.stored {
        Some(stored) if is_plain(&call.accepted) => Ok(body::response(code, body::JSON, stored.to_bytes())),
        _ => value(call, code, written.object).await,
    }
}

/// One object that is at hand as a value.
pub async fn value(call: &Call, code: u16, object: Value) -> Answer {
    let shown = match call.accepted.shape {
        Shape::Table => {
            let metadata = Table::metadata_of(&object);
            table(call, &[object], metadata, true)?
        }
        Shape::PartialMetadata | Shape::PartialMetadataList => partial(&call.accepted, &object),
        Shape::Object | Shape::Discovery => object,
    };
    encode(&call.accepted, code, &shown)
}

/// A success that has no object to show.
pub fn success(call: &Call, status: &Status) -> Answer {
    encode(&call.accepted, status.code, &status.to_value())
}

pub fn encode(accepted: &Accepted, code: u16, value: &Value) -> Answer {
    Ok(match accepted.format {
        Format::Yaml => body::response(code, YAML, wire::yaml::encode(value)),
        Format::Json => body::json(code, value),
        Format::Protobuf => body::response(code, PROTOBUF, protobuf::encode(value).map_err(unencodable)?),
    })
}

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");

/// What is stored fits its schema, and what fits its schema fits its message.
pub fn unencodable(error: protobuf::EncodeError) -> Failure {
    tracing::error!(%error, "an object does not fit its protobuf message");
    Status::internal(error).into()
}

/// A list of objects that are at hand as values.
pub async fn values(call: &Call, items: Vec<Value>, revision: Revision) -> Answer {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), revision.to_string().into());
    list_of(call, items, metadata)
}

fn list_of(call: &Call, items: Vec<Value>, metadata: Map<String, Value>) -> Answer {
    let shown = match call.accepted.shape {
        Shape::Table => table(call, &items, Value::Object(metadata), true)?,
        Shape::PartialMetadata | Shape::PartialMetadataList => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": format!("meta.k8s.io/{}", call.accepted.version),
            "metadata": metadata,
            "items": items.iter().map(|item| partial(&call.accepted, item)).collect::<Vec<_>>(),
        }),
        Shape::Object | Shape::Discovery => json!({
            "kind": call.row.ty.list_kind,
            "apiVersion": call.row.api_version,
            "metadata": metadata,
            "items": items,
        }),
    };
    encode(&call.accepted, 200, &shown)
}

fn partial(accepted: &Accepted, object: &Value) -> Value {
    partial_metadata(object, accepted.version)
}

/// The objects as rows of a table, with the columns people know the kind by.
fn table(call: &Call, items: &[Value], metadata: Value, announce: bool) -> Result<Value, Failure> {
    let include = IncludeObject::parse(call.head.query.text("includeObject"))?;
    let version = if call.accepted.version.is_empty() { "v1" } else { call.accepted.version };
    let columns = Columns::of(call);
    let rows = items.iter().map(|item| Row::new(columns.cells(item, call.now), item, include, version));
    let table = Table::new(version, metadata, announce.then(|| columns.heads()), rows.collect());
    serde_json::to_value(table).map_err(|error| Status::internal(error).into())
}

/// The columns of a row's kind: the table's own for built-in kinds, the definition's for custom ones.
enum Columns {
    BuiltIn(&'static builtins::Columns),
    Custom(CustomColumns),
}

impl Columns {
    fn of(call: &Call) -> Columns {
        let Some(custom) = call.row.custom() else { return Columns::BuiltIn(call.row.behaviour.columns) };
        let columns = custom.version.get("additionalPrinterColumns").and_then(Value::as_array);
        Columns::Custom(CustomColumns::from_values(columns.map(Vec::as_slice).unwrap_or_default()))
    }

    fn heads(&self) -> Vec<Column> {
        let head = |column: &builtins::Column| Column {
            name: column.name.into(),
            kind: column.kind.into(),
            format: column.format.into(),
            description: "".into(),
            priority: column.priority,
        };
        match self {
            Columns::BuiltIn(columns) => columns.iter().map(head).collect(),
            Columns::Custom(columns) => columns.heads(),
        }
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        match self {
            Columns::BuiltIn(columns) => {
                columns.iter().map(|column| column.cell(object, now.as_second())).collect()
            }
            Columns::Custom(columns) => columns.cells(object, now),
        }
    }
}

/// What a watch sends of an object that cannot go as stored bytes.
pub async fn event_object(call: &Call, stored: &Stored, columns_sent: bool) -> Result<Value, Failure> {
    let object = read::in_version(call, &call.row, stored).await?;
    Ok(match call.accepted.shape {
        Shape::Table => {
            let metadata = Table::metadata_of(&object);
            // As upstream: a watch announces its columns once.
            table(call, &[object], metadata, !columns_sent)?
        }
        Shape::PartialMetadata | Shape::PartialMetadataList => partial(&call.accepted, &object),
        Shape::Object | Shape::Discovery => object,
    })
}

pub fn bookmark_object(call: &Call, metadata: Value) -> Value {
    match call.accepted.shape {
        Shape::Table => {
            let object = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            });
            json!({
                "kind": "Table",
                "apiVersion": format!("meta.k8s.io/{}", call.accepted.version),
                "metadata": {"resourceVersion": object["metadata"]["resourceVersion"]},
                "columnDefinitions": null,
                "rows": [{"cells": [], "object": object}],
            })
        }
        Shape::PartialMetadata | Shape::PartialMetadataList => {
            partial(&call.accepted, &json!({"metadata": metadata}))
        }
        Shape::Object | Shape::Discovery => json!({
            "kind": call.row.ty.kind, "apiVersion": call.row.api_version, "metadata": metadata,
        }),
    }
}

/// Watches stream JSON, one event a line, or frames of protobuf.
pub fn watch_content_type(accepted: &Accepted) -> HeaderValue {
    match accepted.format {
        Format::Protobuf => HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch"),
        Format::Json | Format::Yaml => body::JSON,
    }
}
