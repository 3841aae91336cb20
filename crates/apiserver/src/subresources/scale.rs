//! `scale`: how many of something there are to be, the same for every kind that has it.

use http::header;
use objects::field::Error;
use objects::selector::labels;
use objects::{Path, Status, Value, meta};
use serde_json::json;
use wire::negotiate::{self, PatchType};
use wire::protobuf::Kind;

use crate::call::Call;
use crate::incoming;
use crate::present;
use crate::read;
use crate::route::Action;
use crate::service::{Answer, Failure, method_not_allowed};
use crate::stations::decode;
use crate::write::{self, Part, Tracking, Update, Updated};

const SCALE: Kind<'static> = Kind { api_version: "autoscaling/v1", kind: "Scale" };

/// Where a kind keeps its numbers and its selector.
struct Paths {
    spec_replicas: String,
    status_replicas: String,
    selector: Option<String>,
}

impl Paths {
    fn of(call: &Call) -> Paths {
        let Some(custom) = call.row.custom() else {
            let selector = Some("/spec/selector".to_owned());
            return Paths {
                spec_replicas: "/spec/replicas".to_owned(),
                status_replicas: "/status/replicas".to_owned(),
                selector,
            };
        };
        let scale = custom.version.pointer("/subresources/scale");
        let path = |field: &str| Some(scale?.get(field)?.as_str()?.replace('.', "/"));
        Paths {
            spec_replicas: path("specReplicasPath").unwrap_or_default(),
            status_replicas: path("statusReplicasPath").unwrap_or_default(),
            selector: path("labelSelectorPath"),
        }
    }

    /// The Scale of an object.
    fn scale(&self, object: &Value) -> Value {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
        let mut metadata = serde_json::Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            let text = meta::text(object, field);
            if !text.is_empty() {
                metadata.insert(field.to_owned(), text.into());
            }
        }
        let mut scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {},
            "status": {"replicas": number(&self.status_replicas).unwrap_or(0)},
        });
        if let Some(replicas) = number(&self.spec_replicas).filter(|replicas| *replicas != 0) {
            scale["spec"]["replicas"] = replicas.into();
        }
        if let Some(selector) = self.selector.as_ref().and_then(|pointer| selector(object.pointer(pointer)?))
        {
            scale["status"]["selector"] = selector.into();
        }
        scale
    }
}

/// A selector as text, however the kind writes it.
fn selector(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.contains_key("matchLabels") || map.contains_key("matchExpressions") => {
            labels::Selector::from_value(value).ok().map(|selector| selector.to_string())
        }
        Value::Object(map) => Some(labels::Selector::from_map(map).to_string()),
        _ => None,
    }
}

pub async fn answer(call: &Call) -> Answer {
    let paths = Paths::of(call);
    let name = &call.target.name;
    match call.action {
        Action::Get => {
            let current = read::current(call, name).await?.ok_or_else(|| call.not_found(name))?;
            present::value(call, 200, paths.scale(&current.value)).await
        }
        Action::Update => {
            let wanted = decode::object(call, SCALE)?.value;
            if meta::name(&wanted) != name.as_str() {
                let message = format!(
                    "the name of the object ({}) does not match the name on the URL ({name})",
                    meta::name(&wanted)
                );
                return Err(Status::bad_request(message).into());
            }
            written(call, &paths, &|_| Ok(wanted.clone())).await
        }
        Action::Patch => {
            let kind = negotiate::patch(call.head.header(header::CONTENT_TYPE), &PatchType::ALL)?;
            let patch = incoming::patch_json(&call.body)?.value;
            // A scale has no lists, so merging it strategically is merging it.
            let kind = if kind == PatchType::Json { kind } else { PatchType::Merge };
            written(call, &paths, &|scale| crate::verbs::patch::patched(call, kind, scale, &patch)).await
        }
        _ => Err(method_not_allowed().into()),
    }
}

async fn written(
    call: &Call,
    paths: &Paths,
    change: &(dyn Fn(&Value) -> Result<Value, Failure> + Sync),
) -> Answer {
    let options = call.write_options()?;
    let make = |current: &Value| {
        let mut base = paths.scale(current);
        meta::set(&mut base, "resourceVersion", Value::Null);
        let wanted = change(&base)?;
        let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 {
            let error =
                Error::invalid(&Path::new("spec.replicas"), replicas, "must be greater than or equal to 0");
            let kind = objects::GroupKind { group: "autoscaling".into(), kind: "Scale".into() };
            return Err(Status::invalid(&kind, &call.target.name, &[error]).into());
        }
        let mut object = current.clone();
        let Some((parent, field)) = paths.spec_replicas.rsplit_once('/') else { return Ok(object) };
        if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.insert(field.to_owned(), replicas.into());
        }
        meta::set(&mut object, "resourceVersion", meta::resource_version(&wanted).to_owned());
        Ok(object)
    };
    // Written as the object itself, so that its generation counts and its rules apply.
    let update = Update {
        name: &call.target.name,
        part: Part::Main,
        options: &options,
        tracking: Tracking::Update,
        make: &make,
    };
    match write::update(call, &update).await? {
        Updated::Written(written) => present::value(call, 200, paths.scale(&written.object)).await,
        Updated::Missing => Err(call.not_found(&call.target.name)),
    }
}
