//! From one version of a kind to another.

use objects::{Status, Value};

use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::service::Failure;
use crate::surface::{Row, Source};

/// The object as this row serves it.
pub async fn to_row(
    engine: &Engine,
    plane: &ControlPlane,
    value: Value,
    row: &Row,
) -> Result<Value, Failure> {
    to_version(engine, plane, value, row, &row.api_version).await
}

/// The object as its type is stored.
pub async fn to_storage(
    engine: &Engine,
    plane: &ControlPlane,
    value: Value,
    row: &Row,
) -> Result<Value, Failure> {
    to_version(engine, plane, value, row, &row.storage_api_version).await
}

async fn to_version(
    engine: &Engine,
    plane: &ControlPlane,
    mut value: Value,
    row: &Row,
    api_version: &str,
) -> Result<Value, Failure> {
    if objects::meta::api_version(&value) == api_version {
        return Ok(value);
    }
    match &row.source {
        Source::BuiltIn(_) => {
            let gv = objects::GroupVersion::parse(api_version).unwrap_or_default();
            let converted = builtins::convert(&value, &gv.with_kind(row.ty.kind.clone()));
            converted.ok_or_else(|| {
                let from = objects::meta::api_version(&value);
                Status::internal(format!("{} cannot be converted from {from} to {api_version}", row.ty.kind))
                    .into()
            })
        }
        Source::Custom(custom) => {
            let strategy =
                custom.definition.object.pointer("/spec/conversion/strategy").and_then(Value::as_str);
            if strategy == Some("Webhook") {
                return crate::webhook::convert(engine, plane, &custom.definition, value, api_version).await;
            }
            value["apiVersion"] = Value::String(api_version.to_owned());
            Ok(value)
        }
    }
}
