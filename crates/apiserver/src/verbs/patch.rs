//! A part of an object changed: by JSON patch, merge patch, strategic merge patch or server-side apply.

use auth::authorize::Attributes;
use http::header;
use objects::patch::PatchError;
use objects::{Status, Value, meta, patch as patches};
use wire::negotiate::{self, PatchType};
use wire::options::PatchOptions;

use crate::call::Call;
use crate::service::{Answer, Failure};
use crate::stations::authorize;
use crate::write::{self, Part, Tracking, Update, Updated, WriteOptions};
use crate::{incoming, managed, present};

pub async fn patch(call: &Call) -> Answer {
    patch_part(call, Part::Main).await
}

/// The same for an endpoint that writes a part of the object.
pub async fn patch_part(call: &Call, part: Part) -> Answer {
    let allowed: &[PatchType] = if call.row.is_custom() { &PatchType::CUSTOM } else { &PatchType::ALL };
    let kind = negotiate::patch(call.head.header(header::CONTENT_TYPE), allowed)?;
    let options = PatchOptions::from_query(&call.head.query, kind)?;
    let write = WriteOptions {
        dry_run: options.write.dry_run,
        manager: managed::manager(call, &options.write.field_manager),
    };
    if kind == PatchType::Apply {
        return apply(call, part, &write, options.force).await;
    }
    let patch = incoming::patch_json(&call.body)?;
    let make = |current: &Value| -> Result<Value, Failure> {
        let patched = patched(call, kind, current, &patch.value)?;
        let patched = incoming::admit_patched(call, patched, patch.duplicates.clone(), &patch.value)?;
        check_name(call, &patched)?;
        Ok(patched)
    };
    let update =
        Update { name: &call.target.name, part, options: &write, tracking: Tracking::Update, make: &make };
    match write::update(call, &update).await? {
        Updated::Written(written) => present::written(call, 200, written).await,
        Updated::Missing => Err(call.not_found(&call.target.name)),
    }
}

/// The patched object, not yet looked at.
pub fn patched(call: &Call, kind: PatchType, current: &Value, patch: &Value) -> Result<Value, Failure> {
    let done = match kind {
        PatchType::Json => patches::json(current, patch),
        PatchType::Merge => {
            if let Some(given) = not_an_object(patch) {
                let message = format!(
                    "error decoding patch: json: cannot unmarshal {given} into Go value of type map[string]interface {{}}"
                );
                return Err(Status::bad_request(message).into());
            }
            let mut object = current.clone();
            patches::merge(&mut object, patch);
            Ok(object)
        }
        PatchType::Strategic => match call.row.cursor() {
            Some(cursor) => patches::strategic(current, patch, cursor),
            None => Err(PatchError::Malformed("the kind has no schema to merge by".to_owned())),
        },
        PatchType::Apply => Err(PatchError::Malformed("an apply patch is not merged like this".to_owned())),
    };
    done.map_err(|error| error.status().into())
}

/// What a value is instead, in the words of Go's decoder.
fn not_an_object(value: &Value) -> Option<&'static str> {
    match value {
        Value::Object(_) => None,
        Value::Array(_) => Some("array"),
        Value::String(_) => Some("string"),
        Value::Number(_) => Some("number"),
        Value::Bool(_) => Some("bool"),
        Value::Null => Some("null"),
    }
}

fn check_name(call: &Call, object: &Value) -> Result<(), Failure> {
    let resource = call.group_resource();
    for (field, expected) in [("name", &call.target.name), ("namespace", &call.target.namespace)] {
        let given = meta::text(object, field);
        if given != expected.as_str() && !(field == "namespace" && given.is_empty()) {
            let message = format!(
                "the {field} of the object ({given}) does not match the {field} on the URL ({expected})"
            );
            return Err(Status::bad_request(message).about(&resource, call.target.name.as_str()).into());
        }
    }
    Ok(())
}

/// Server-side apply: the body is what its manager wants, and the object is made if it is not there.
async fn apply(call: &Call, part: Part, options: &WriteOptions, force: bool) -> Answer {
    let config = apply_config(call)?;
    let refused = |error: apply::ApplyError| {
        Failure::from(Status::from(error).about(&call.group_resource(), call.target.name.as_str()))
    };
    let make = |current: &Value| -> Result<Value, Failure> {
        let pinned = meta::resource_version(&config).to_owned();
        let mut object =
            managed::apply(call, Some(current), &config, force, &options.manager, part).map_err(refused)?;
        incoming::normalise(&call.row, &mut object);
        if !pinned.is_empty() {
            meta::set(&mut object, "resourceVersion", pinned);
        }
        Ok(object)
    };
    let update = Update { name: &call.target.name, part, options, tracking: Tracking::Applied, make: &make };
    // Made by someone else between the look and the creation: then it is there to be applied to.
    for _ in 0..2 {
        match write::update(call, &update).await? {
            Updated::Written(written) => return present::written(call, 200, written).await,
            Updated::Missing if part != Part::Main => return Err(call.not_found(&call.target.name)),
            Updated::Missing => {}
        }
        if !meta::uid(&config).is_empty() || !meta::resource_version(&config).is_empty() {
            return Err(call.not_found(&call.target.name));
        }
        may_create(call).await?;
        let mut object =
            managed::apply(call, None, &config, force, &options.manager, part).map_err(refused)?;
        incoming::normalise(&call.row, &mut object);
        match write::create(call, object, options, Tracking::Applied).await {
            Ok(created) => return present::written(call, 201, created).await,
            Err(failure) if failure.0.code == 409 && failure.0.reason == objects::Reason::AlreadyExists => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(Status::stale(&call.group_resource(), &call.target.name).into())
}

/// The right to patch an object is not the right to create it.
async fn may_create(call: &Call) -> Result<(), Failure> {
    let attributes = Attributes::resource("create", &call.target.group, &call.target.resource)
        .namespace(&call.target.namespace)
        .name(&call.target.name);
    authorize::check(&call.engine, &call.plane, &call.user, &attributes).await
}

/// The applied configuration: YAML, of which JSON is a part, and of the kind it is applied to.
fn apply_config(call: &Call) -> Result<Value, Failure> {
    let looks_like_json = call.body.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    let decoded = if looks_like_json {
        objects::decode::json(&call.body).map_err(|error| error.to_string())
    } else {
        wire::yaml::decode(&call.body).map_err(|error| error.to_string())
    };
    let decoded = decoded.map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
    let config = decoded.value;
    if meta::api_version(&config).is_empty() || meta::kind(&config).is_empty() {
        let message = "apply configuration must have apiVersion and kind";
        return Err(Status::bad_request(message).into());
    }
    let unknown = match call.row.cursor() {
        Some(cursor) => schemas::unknown_fields(cursor, &config),
        None => Vec::new(),
    };
    incoming::report(call, &unknown, &decoded.duplicates)?;
    let mut config = config;
    if let Some(cursor) = call.row.cursor() {
        schemas::prune(cursor, &mut config, schemas::PruneOptions { report: false });
    }
    if meta::name(&config).is_empty() {
        meta::set(&mut config, "name", call.target.name.as_str());
    }
    if call.row.ty.is_namespaced() && meta::namespace(&config).is_empty() {
        meta::set(&mut config, "namespace", call.target.namespace.as_str());
    }
    check_name(call, &config)?;
    Ok(config)
}
