//! From a request's body to an object of the call's kind: decoded, checked for its type, and rid of what the kind
//! does not have.

use objects::field::Error;
use objects::{GroupKind, Path, Status, Value, decode};
use wire::options::FieldValidation;

use crate::call::Call;
use crate::service::Failure;
use crate::stations::decode as bodies;
use crate::surface::Row;

pub struct Incoming {
    pub object: Value,
}

/// The body of a create or an update.
pub fn object(call: &Call) -> Result<Incoming, Failure> {
    let decoded = bodies::object(call, call.row.kind())?;
    let object = admit(call, decoded.value, decoded.duplicates)?;
    Ok(Incoming { object })
}

/// Checks the type of a decoded object and applies the field validation the client asked for.
pub fn admit(call: &Call, object: Value, duplicates: Vec<String>) -> Result<Value, Failure> {
    admit_or(call, object, duplicates, &|why| unhandled(&call.row, why))
}

/// The same for what a patch made. It is the patch that is wrong then; what it was applied to is not shown.
pub fn admit_patched(
    call: &Call,
    object: Value,
    duplicates: Vec<String>,
    patch: &Value,
) -> Result<Value, Failure> {
    admit_or(call, object, duplicates, &|why| {
        let error = Error::invalid(&Path::new("patch"), patch.to_string(), why);
        Status::invalid(&GroupKind { group: "".into(), kind: "".into() }, "", &[error]).into()
    })
}

fn admit_or(
    call: &Call,
    mut object: Value,
    duplicates: Vec<String>,
    refused: &dyn Fn(&str) -> Failure,
) -> Result<Value, Failure> {
    let row = &call.row;
    set_type(call, &mut object)?;
    if let Some(message) = objects::metadata::type_error(&object) {
        return Err(refused(&message));
    }
    if !row.is_custom()
        && let Some(cursor) = row.cursor()
        && let Some(message) = schemas::decode_errors(cursor, &object)
    {
        return Err(refused(&message));
    }
    let unknown = normalise(row, &mut object);
    report_or(call, &unknown, &duplicates, refused)?;
    Ok(object)
}

/// Drops what the schema does not know and what Go's decoder would not keep; fills in a custom schema's defaults.
/// Returns the dropped fields.
pub fn normalise(row: &Row, object: &mut Value) -> Vec<String> {
    let Some(cursor) = row.cursor() else { return Vec::new() };
    drop_empty_metadata(object);
    if !row.is_custom() {
        drop_nulls(object);
        return schemas::prune(cursor, object, schemas::PruneOptions::default());
    }
    if let Some(metadata) = object.get_mut("metadata") {
        drop_nulls(metadata);
    }
    let unknown = schemas::prune(cursor, object, schemas::PruneOptions::default());
    schemas::default(cursor, object);
    unknown
}

/// An object may leave out its type, but not say another.
fn set_type(call: &Call, object: &mut Value) -> Result<(), Failure> {
    let row = &call.row;
    let Some(members) = object.as_object_mut() else {
        let message = "json: cannot unmarshal into Go value: the body must be an object";
        return Err(unhandled(row, message));
    };
    for (field, expected) in [("apiVersion", row.api_version.as_str()), ("kind", row.ty.kind.as_str())] {
        match members.get(field).map(|value| value.as_str().unwrap_or("?")) {
            None | Some("") => {
                if row.is_custom() {
                    let message = format!(
                        "Object '{}' is missing in the body",
                        if field == "kind" { "Kind" } else { field }
                    );
                    return Err(Status::bad_request(message).into());
                }
                members.insert(field.to_owned(), expected.into());
            }
            Some(given) if given == expected => {}
            Some(given) => {
                let message = match field {
                    "kind" => format!(
                        "{given} in version {:?} cannot be handled as a {expected}: converting ({given}) to ({expected}): unknown conversion",
                        row.ty.version
                    ),
                    _ => format!(
                        "the API version in the data ({given}) does not match the expected API version ({expected})"
                    ),
                };
                return Err(Status::bad_request(message).into());
            }
        }
    }
    if !members.contains_key("metadata") {
        members.insert("metadata".to_owned(), Value::Object(serde_json::Map::new()));
    }
    Ok(())
}

fn unhandled(row: &Row, why: &str) -> Failure {
    let (kind, version) = (&row.ty.kind, &row.ty.version);
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}")).into()
}

/// Refuses, warns or keeps silent about fields that mean nothing or were given twice.
pub fn report(call: &Call, unknown: &[String], duplicates: &[String]) -> Result<(), Failure> {
    report_or(call, unknown, duplicates, &|why| unhandled(&call.row, why))
}

fn report_or(
    call: &Call,
    unknown: &[String],
    duplicates: &[String],
    refused: &dyn Fn(&str) -> Failure,
) -> Result<(), Failure> {
    if unknown.is_empty() && duplicates.is_empty() {
        return Ok(());
    }
    let findings = unknown
        .iter()
        .map(|path| format!("unknown field {path:?}"))
        .chain(duplicates.iter().map(|path| format!("duplicate field {path:?}")));
    match call.field_validation()? {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => findings.for_each(|finding| call.warn(finding)),
        FieldValidation::Strict => {
            let all: Vec<String> = findings.collect();
            return Err(refused(&format!("strict decoding error: {}", all.join(", "))));
        }
    }
    Ok(())
}

/// Metadata is typed for every kind, and has no field that is there and empty.
fn drop_empty_metadata(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|_, member| match member {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}

/// Go's typed decoder knows no null: a field that is null is a field that was left out.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// JSON of a patch, whose fields may repeat.
pub fn patch_json(body: &[u8]) -> Result<decode::Decoded, Failure> {
    let decoded = decode::json(body);
    decoded.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")).into())
}
