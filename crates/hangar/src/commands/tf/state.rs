//! `hangar import tfstate`: takes over the resources of a state file, as they are and without a change.
//!
//! What Terraform knew of a resource goes into a Secret beside its object, exact and whole; the server reads it, keeps it
//! sealed, and fills in the object. The Secret goes again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::terraform::backend::file::{Instance, Resource, StateFile};
use ::terraform::dialect::IMPORT_STATE;
use ::terraform::names::{API_VERSION, FieldNames};
use anyhow::{Context, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Kind, Plane, block_on, is_current, object_name, unconfigured};

#[derive(Args, Clone, Debug)]
pub struct ImportState {
    /// the state file, of version 4; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// the namespace of the objects
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// the Secret with the provider's configuration [default: <provider>-provider-secret, if there is one]
    #[arg(long, value_name = "NAME")]
    provider_secret: Option<String>,
    /// only these, such as linode_instance.web
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    only: Vec<String>,
    /// write objects of the kind Resource, and not of a kind for each type
    #[arg(long)]
    generic: bool,
    /// how long one resource may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::commands::duration)]
    timeout: Duration,
}

/// One resource that is to be taken over.
struct Taken<'a> {
    address: String,
    name: String,
    resource: &'a Resource,
    instance: &'a Instance,
}

pub fn run(import: ImportState, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    block_on(import_it(import, kubeconfig))
}

async fn import_it(import: ImportState, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let bytes = match import.file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).map(String::into_bytes),
        _ => std::fs::read(&import.file),
    };
    let bytes = bytes.with_context(|| format!("cannot read {}", import.file.display()))?;
    let file = StateFile::parse(&bytes).with_context(|| format!("cannot use {}", import.file.display()))?;
    let all = taken(&file, import.generic, &import.only);
    if all.is_empty() {
        bail!("{} holds no resources to take over", import.file.display());
    }
    let plane = Plane::connect(kubeconfig).await?;
    let mut failed = 0;
    for one in &all {
        match Box::pin(take_over(&plane, &import, one)).await {
            Ok(kind) => {
                let place = format!("{} {}/{}", kind.kind, import.namespace, one.name);
                super::super::list::print(&format!("{} is {place} now\n", one.address))?;
            }
            Err(error) => {
                failed += 1;
                super::super::list::print(&format!("{} is not taken over: {error:#}\n", one.address))?;
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} resources were not taken over", all.len());
    }
    Ok(())
}

/// The resources of a file, but for what is only read and what a replacement left behind.
fn taken<'a>(file: &'a StateFile, generic: bool, only: &[String]) -> Vec<Taken<'a>> {
    let mut found = Vec::new();
    for resource in file.resources.iter().filter(|one| one.mode == "managed") {
        for instance in resource.instances.iter().filter(|one| one.deposed.is_none()) {
            let key = instance.index_key.as_ref();
            let index = key.map(|key| format!("[{key}]")).unwrap_or_default();
            let module =
                if resource.module.is_empty() { String::new() } else { format!("{}.", resource.module) };
            let plain = format!("{module}{}.{}", resource.r#type, resource.name);
            let address = format!("{plain}{index}");
            let key = key.map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned));
            let module = resource.module.replace("module.", "");
            let name = object_name([module.as_str(), &resource.name, key.as_deref().unwrap_or_default()]);
            found.push((plain, Taken { address, name, resource, instance }));
        }
    }
    // Addresses that differ may come to the same name; then the names tell them apart, whichever are asked for.
    let kind = |one: &Taken<'_>| if generic { Kind::generic() } else { Kind::of_type(&one.resource.r#type) };
    let mut named: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let of = |one: &Taken<'_>| {
        let Kind { group, plural, .. } = kind(one);
        (group, plural, one.name.clone())
    };
    for (_, one) in &found {
        *named.entry(of(one)).or_default() += 1;
    }
    let asked = |(plain, one): &(String, Taken<'_>)| {
        only.is_empty() || only.contains(plain) || only.contains(&one.address)
    };
    let told_apart = |(_, one): (String, Taken<'a>)| match named.get(&of(&one)) {
        Some(2..) => {
            let hash = Sha256::digest(&one.address);
            let short: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            Taken { name: format!("{}-{short}", one.name), ..one }
        }
        _ => one,
    };
    found.into_iter().filter(asked).map(told_apart).collect()
}

async fn take_over(plane: &Plane, import: &ImportState, one: &Taken<'_>) -> anyhow::Result<Kind> {
    let type_name = &one.resource.r#type;
    let provider = type_name.split('_').next().unwrap_or(type_name);
    let mut kind = Kind::of_type(type_name);
    if import.generic {
        kind = Kind::generic();
    }
    if !plane.serves(&kind).await? {
        bail!("the server does not serve {}.{}; is there a Provider for it?", kind.plural, kind.group);
    }
    let reference =
        plane.configuration(import.provider_secret.as_deref(), provider, &import.namespace).await?;
    let mut spec = json!({"resource": {}, "providerRef": {"name": reference}});
    let attributes = one.instance.attributes.as_ref().map_or("{}", |raw| raw.get());
    let attributes: Value = serde_json::from_str(attributes).context("its attributes cannot be read")?;
    if kind.is_generic() {
        spec["provider"] = json!(provider);
        spec["type"] = json!(type_name);
    } else {
        spec["resource"] = required(&schema(plane, &kind).await?, &attributes);
        // Enough for definitions of ours; what it is comes from the state.
        let id = attributes.get("id").filter(|id| id.is_string()).cloned();
        spec["resource"]["id"] = id.unwrap_or_else(|| json!(""));
    }
    let secret = format!("{}-{}-import", one.name, kind.plural);
    let path = format!("{}/{}", kind.collection(&import.namespace), one.name);
    // One that an earlier try left half-way is gone on with.
    if let Some(there) = plane.get(&path).await?
        && there["metadata"]["annotations"][IMPORT_STATE] != secret.as_str()
    {
        let place = format!("{} {}/{}", kind.kind, import.namespace, one.name);
        let id = attributes.get("id").filter(|id| id.is_string());
        let own = id.is_some() && there.pointer("/spec/resource/id") == id;
        if own && (!kind.is_generic() || there["spec"]["type"] == type_name.as_str()) {
            return Ok(kind);
        }
        bail!("{place} is there already, and is not this resource");
    }
    let secrets = format!("/api/v1/namespaces/{}/secrets", import.namespace);
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": one.name, "annotations": {IMPORT_STATE: secret}},
        "spec": spec,
    });
    // The Secret first: an object that names one that is not there fails.
    let instance = serde_json::to_vec(one.instance)?;
    let state = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
        "data": {"instance": BASE64_STANDARD.encode(instance)},
    });
    plane.put(&secrets, &secret, &state).await?;
    let made = plane.put(&kind.collection(&import.namespace), &one.name, &object).await;
    let object = match made {
        Ok(object) => object,
        Err(error) => {
            plane.delete(&format!("{secrets}/{secret}")).await?;
            return Err(error);
        }
    };
    let owner = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": one.name, "uid": object["metadata"]["uid"],
    });
    let patch = json!({"metadata": {"ownerReferences": [owner]}});
    plane.send(Method::PATCH, &format!("{secrets}/{secret}"), &patch).await?;
    let taken = Box::pin(plane.until(&path, import.timeout, is_current)).await;
    unconfigured(taken, &reference, provider)?;
    // What the server knows now, it keeps sealed.
    plane.delete(&format!("{secrets}/{secret}")).await?;
    let patch = json!({"metadata": {"annotations": {IMPORT_STATE: null}}});
    plane.send(Method::PATCH, &path, &patch).await?;
    Ok(kind)
}

/// The schema of `spec.resource` of a kind.
async fn schema(plane: &Plane, kind: &Kind) -> anyhow::Result<Value> {
    let path = format!("/openapi/v3/apis/{}/{API_VERSION}", kind.group);
    let document = plane.send(Method::GET, &path, &Value::Null).await?;
    let all = document.pointer("/components/schemas").and_then(Value::as_object);
    let of_kind = |schema: &&Value| {
        let names = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
        names.into_iter().any(|name| name["kind"] == kind.kind.as_str())
    };
    let found = all.into_iter().flat_map(Map::values).find(of_kind);
    let resource = found.and_then(|found| found.pointer("/properties/spec/properties/resource"));
    resource.cloned().with_context(|| format!("the server has no schema of {}", kind.kind))
}

/// The fields without which an object is refused, of a resource's attributes; the server fills in the others.
fn required(schema: &Value, attributes: &Value) -> Value {
    let needed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let all = fields(schema, attributes, true);
    let kept = needed.filter_map(|field| Some((field.to_owned(), all.get(field)?.clone())));
    Value::Object(kept.collect())
}

/// Attributes as fields of an object, by the schema of the kind.
fn fields(schema: &Value, attributes: &Value, top: bool) -> Value {
    let Some(members) = attributes.as_object() else { return json!({}) };
    let names = FieldNames::new(members.keys(), top);
    let each = members.iter().filter_map(|(member, value)| {
        let field = names.field(member)?;
        let value = fitted(schema["properties"].get(field)?, value)?;
        Some((field.to_owned(), value))
    });
    Value::Object(each.collect())
}

/// A value in the form of its schema; none if it has none.
fn fitted(schema: &Value, value: &Value) -> Option<Value> {
    match (schema["type"].as_str(), value) {
        (_, Value::Null) => None,
        (Some("array"), Value::Array(elements)) => {
            Some(elements.iter().filter_map(|element| fitted(&schema["items"], element)).collect())
        }
        // A list of at most one is that one.
        (Some("object"), Value::Array(elements)) => fitted(schema, elements.first()?),
        (Some("object"), Value::Object(_)) if schema["properties"].is_object() => {
            Some(fields(schema, value, false))
        }
        (_, value) => Some(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_object_needs() {
        let schema = json!({
            "type": "object", "required": ["name", "network"],
            "properties": {
                "name": {"type": "string"}, "size": {"type": "number"},
                "network": {"type": "object", "properties": {"subnetID": {"type": "string"}}},
            },
        });
        let attributes =
            json!({"name": "a", "size": 1, "network": [{"subnet_id": "s", "other": 1}], "secret": "x"});
        assert_eq!(required(&schema, &attributes), json!({"name": "a", "network": {"subnetID": "s"}}));
    }

    #[test]
    fn what_is_taken() {
        let file = json!({"version": 4, "resources": [
            {"mode": "data", "type": "a_b", "name": "c", "provider": "", "instances": [{}]},
            {"mode": "managed", "type": "a_b", "name": "web_1", "provider": "", "instances": [
                {"index_key": 0}, {"index_key": "eu"}, {"deposed": "1"}]},
            {"mode": "managed", "module": "module.x", "type": "a_b", "name": "c", "provider": "", "instances": [{}]},
        ]});
        let file = StateFile::parse(file.to_string().as_bytes()).unwrap();
        let names = |only: &[String]| {
            taken(&file, false, only).into_iter().map(|one| (one.address, one.name)).collect::<Vec<_>>()
        };
        let all = [("a_b.web_1[0]", "web-1-0"), ("a_b.web_1[\"eu\"]", "web-1-eu"), ("module.x.a_b.c", "x-c")];
        let all = all.map(|(address, name)| (address.to_owned(), name.to_owned()));
        assert_eq!(names(&[]), all);
        assert_eq!(names(&["a_b.web_1".into()]), all[..2]);
        assert_eq!(names(&["module.x.a_b.c".into()]), all[2..]);
    }

    #[test]
    fn names_are_told_apart() {
        let file = json!({"version": 4, "resources": [
            {"mode": "managed", "type": "a_b", "name": "web_1", "provider": "", "instances": [{}]},
            {"mode": "managed", "type": "a_b", "name": "web", "provider": "", "instances": [{"index_key": 1}]},
            {"mode": "managed", "type": "a_c", "name": "db", "provider": "", "instances": [{}]},
            {"mode": "managed", "type": "a_b", "name": "db", "provider": "", "instances": [{}]},
        ]});
        let file = StateFile::parse(file.to_string().as_bytes()).unwrap();
        let names = |generic: bool, only: &[String]| {
            taken(&file, generic, only).into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        let [first, second, third, fourth] = names(false, &[]).try_into().unwrap();
        assert!(first.starts_with("web-1-") && second.starts_with("web-1-") && first != second);
        assert_eq!((third.as_str(), fourth.as_str()), ("db", "db"), "of two kinds");
        assert_eq!(names(false, &["a_b.web".into()]), [second]);
        let [_, _, third, fourth] = names(true, &[]).try_into().unwrap();
        assert!(third.starts_with("db-") && fourth.starts_with("db-") && third != fourth);
    }
}
