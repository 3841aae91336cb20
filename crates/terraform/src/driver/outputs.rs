//! Values of a resource for others to use: `spec.outputs` names a value of the state and a key of a Secret or ConfigMap.
//!
//! ```yaml
//! outputs:
//! - path: privateIPAddress
//!   to: {kind: ConfigMap, name: app, key: address}
//! - path: root_pass          # what is secret has the provider's name, and goes into Secrets only
//!   to: {kind: Secret, name: app, key: password}
//! ```
//!
//! Each object owns the keys it writes and no others, so several may share a target, and a key that is somebody else's
//! is never overwritten. A target that is not there is made, and goes with the objects that write to it.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use objects::{Value as Json, meta};
use provision::Failure;
use serde::Deserialize;
use serde_json::{Map, json};

use super::failures::unwritten;
use super::kept::{Kept, owner};
use super::{Looking, Terraform, wanted};
use crate::backend::file;
use crate::dialect::EXPORT_STATE;
use crate::hcl;
use crate::plugin::State;
use crate::shape;

const LONGEST: usize = 100;
/// Terraform reads it without being told.
const VARIABLES: &str = "secrets.auto.tfvars";

#[derive(Debug, Deserialize)]
struct Output {
    path: String,
    to: Target,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Kind,
    name: String,
    key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Kind {
    Secret,
    ConfigMap,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Secret => "Secret",
            Kind::ConfigMap => "ConfigMap",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Kind::Secret => "secrets",
            Kind::ConfigMap => "configmaps",
        }
    }
}

/// What is written to one target.
type Values = BTreeMap<(Kind, String), BTreeMap<String, String>>;

fn wrong(why: impl Into<String>) -> Failure {
    Failure::terminal(why).at("spec.outputs")
}

/// What the object wants written where.
fn wanted(subject: &Looking<'_>, state: &State) -> Result<Values, Failure> {
    let Some(outputs) = subject.object.pointer("/spec/outputs") else { return Ok(Values::new()) };
    let outputs: Vec<Output> =
        serde_json::from_value(outputs.clone()).map_err(|error| wrong(error.to_string()))?;
    if outputs.len() > LONGEST {
        return Err(wrong(format!("there are more than {LONGEST}")));
    }
    let block = &subject.connection.schema.block;
    let shown = shape::shown(block, &state.value);
    let hidden = shape::secrets(block, &state.value).unwrap_or_default();
    let mut values = Values::new();
    for Output { path, to } in outputs {
        if !shape::has_field(block, &path) {
            return Err(wrong(format!("{path} is nothing that the resource could have")));
        }
        let value = match (at(&shown, &path), at(&hidden, &path), to.kind) {
            (Some(value), _, _) => value,
            (None, Some(value), Kind::Secret) => value,
            (None, Some(_), Kind::ConfigMap) => {
                return Err(wrong(format!("{path} is secret and cannot go into a ConfigMap")));
            }
            // Nothing there now; the key comes when there is.
            (None, None, _) => continue,
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let of_target = values.entry((to.kind, to.name)).or_default();
        if of_target.insert(to.key.clone(), text).is_some() {
            return Err(wrong(format!("two values have the key {}", to.key)));
        }
    }
    Ok(values)
}

/// A value by its dotted path; elements of lists by their number.
fn at<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    let step = |json: &'a Json, name: &str| match json {
        Json::Object(fields) => fields.get(name),
        Json::Array(elements) => elements.get(name.parse::<usize>().ok()?),
        _ => None,
    };
    path.split('.').try_fold(json, step).filter(|value| !value.is_null())
}

/// Writes what the object wants written. `before` are the targets of the last time; those of now are returned.
pub async fn write(
    subject: &Looking<'_>,
    state: &State,
    before: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Failure> {
    let wanted = wanted(subject, state)?;
    let mut targets = BTreeSet::new();
    for ((kind, name), values) in &wanted {
        targets.insert(format!("{}/{name}", kind.name()));
        apply(subject, *kind, name, values).await?;
    }
    withdraw(subject, before.difference(&targets)).await?;
    Ok(targets)
}

/// Takes away what was written to these targets.
pub async fn withdraw(subject: &Looking<'_>, targets: impl Iterator<Item = &String>) -> Result<(), Failure> {
    for target in targets {
        let Some((kind, name)) = target.split_once('/') else { continue };
        let kind = if kind == "Secret" { Kind::Secret } else { Kind::ConfigMap };
        let there = subject.reader.peek(kind.plural(), meta::namespace(subject.object), name).await?;
        if there.is_some() {
            apply(subject, kind, name, &BTreeMap::new()).await?;
        }
    }
    Ok(())
}

async fn apply(
    subject: &Looking<'_>,
    kind: Kind,
    name: &str,
    values: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let Some(client) = subject.client else { return Ok(()) };
    let (namespace, uid) = (meta::namespace(subject.object), meta::uid(subject.object));
    let data: Map<String, Json> = values
        .iter()
        .map(|(key, text)| {
            let text = if kind == Kind::Secret { STANDARD.encode(text) } else { text.clone() };
            (key.clone(), text.into())
        })
        .collect();
    let there = subject.reader.peek(kind.plural(), namespace, name).await?;
    let owned = |target: &Json| meta::list(target, "ownerReferences").iter().any(|one| one["uid"] == uid);
    if let Some(target) = &there
        && !data.is_empty()
        && data.iter().all(|(key, value)| target.pointer("/data").and_then(|all| all.get(key)) == Some(value))
        && managed(target, &manager(uid)) == data.len()
    {
        return Ok(());
    }
    let mut target =
        json!({"apiVersion": "v1", "kind": kind.name(), "metadata": {"name": name}, "data": data});
    if there.as_ref().is_none_or(owned) {
        target["metadata"]["ownerReferences"] = json!([owner(subject.object, false)]);
    }
    let resource = ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: kind.name().into(),
        plural: kind.plural().into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    match api.patch(name, &PatchParams::apply(&manager(uid)), &Patch::Apply(&target)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let message = format!("{} {namespace}/{name} has a value of somebody else's", kind.name());
            Err(Failure::recoverable(format!("{message}: {}", status.message)).at("spec.outputs"))
        }
        Err(error) => {
            let what = format!("{} {namespace}/{name} cannot be written", kind.name());
            Err(unwritten(&what, error).at("spec.outputs"))
        }
    }
}

/// The resource as Terraform would have it, into the Secret that is asked for: a configuration, and the state.
pub async fn export(subject: &Looking<'_>, kept: &Kept, state: &State) -> Result<(), Failure> {
    let (Some(client), Some(name)) = (subject.client, meta::annotation(subject.object, EXPORT_STATE)) else {
        return Ok(());
    };
    let connection = subject.connection;
    let file = String::from_utf8_lossy(&Terraform::state_file(subject, kept)?).into_owned();
    let config = wanted::stripped(&connection.schema.block, &state.value);
    let config = hcl::resource(
        &connection.provider,
        &connection.type_name,
        &file::name_of(meta::name(subject.object)),
        &connection.schema.block,
        &config,
    );
    let all =
        [("main.tf", Some(config.main)), (VARIABLES, config.variables), ("terraform.tfstate", Some(file))];
    let encoded = |(key, text): (&str, Option<String>)| Some((key.to_owned(), STANDARD.encode(text?).into()));
    let data: Map<String, Json> = all.into_iter().filter_map(encoded).collect();
    let there = subject.reader.peek("secrets", meta::namespace(subject.object), name).await?;
    if there.as_ref().is_some_and(|secret| secret["data"] == Json::Object(data.clone())) {
        return Ok(());
    }
    // Only ours is overwritten: the name is the user's choice, and so is what has it already.
    let label = "terraform.hangar.dev/export";
    let ours = |secret: &Json| meta::labels(secret).is_some_and(|labels| labels.contains_key(label));
    if there.as_ref().is_some_and(|secret| !ours(secret)) {
        let message = format!("annotation {EXPORT_STATE}: Secret {name} is there already, and not an export");
        return Err(Failure::terminal(message));
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": name, "labels": {label: "true"}, "ownerReferences": [owner(subject.object, false)],
        },
        "data": data,
    });
    let api: Api<SecretObject> = Api::namespaced(client.clone(), meta::namespace(subject.object));
    let written = api.patch(name, &PatchParams::apply("hangar-export").force(), &Patch::Apply(&secret)).await;
    written.map(drop).map_err(|error| unwritten("the export cannot be written", error))
}

/// Who writes the outputs of an object, as server-side apply knows it.
fn manager(uid: &str) -> String {
    format!("hangar-outputs-{uid}")
}

/// How many keys of a target a manager has.
fn managed(target: &Json, manager: &str) -> usize {
    let mut all = meta::list(target, "managedFields").iter();
    let own = all.find(|one| one["manager"] == manager);
    own.and_then(|one| one.pointer("/fieldsV1/f:data")?.as_object()).map_or(0, Map::len)
}

/// The schema of the field.
pub fn schema() -> Json {
    let text = || json!({"type": "string", "minLength": 1});
    json!({
        "type": "array",
        "maxItems": LONGEST,
        "items": {
            "type": "object",
            "required": ["path", "to"],
            "properties": {
                "path": text(),
                "to": {
                    "type": "object",
                    "required": ["kind", "name", "key"],
                    "properties": {
                        "kind": {"type": "string", "enum": ["Secret", "ConfigMap"]}, "name": text(),
                        "key": {"type": "string", "minLength": 1, "pattern": "^[-._a-zA-Z0-9]+$"},
                    },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_path() {
        let json = json!({"a": {"b": [{"c": 1}, null]}, "d": null});
        for (path, expected) in
            [("a.b.0.c", Some(json!(1))), ("a.b.1", None), ("a.b.x", None), ("d", None), ("a.e", None)]
        {
            assert_eq!(at(&json, path), expected.as_ref(), "{path}");
        }
    }
}
