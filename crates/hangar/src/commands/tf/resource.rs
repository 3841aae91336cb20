//! `hangar import terraform`: a manifest for a resource that is there already, by its id.
//!
//! The server asks the provider: an object without wishes takes the resource over for a moment, is filled in, and goes
//! again without touching it. What it was filled with is the manifest.

use std::path::Path;
use std::time::Duration;

use ::terraform::dialect::{DELETION_POLICY, IMPORT_ID};
use anyhow::bail;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::{Kind, Plane, block_on, is_current, object_name};

#[derive(Args, Clone, Debug)]
pub struct ImportResource {
    /// the Provider, as the server knows it
    #[arg(value_name = "PROVIDER")]
    provider: String,
    /// the type, such as linode_instance
    #[arg(value_name = "TYPE")]
    type_name: String,
    /// the id, as the provider imports it
    #[arg(value_name = "ID")]
    id: String,
    /// the name of the object [default: made of the type and the id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// the namespace of the object
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// the Secret with the provider's configuration [default: <provider>-provider-secret, if there is one]
    #[arg(long, value_name = "NAME")]
    provider_secret: Option<String>,
    /// write an object of the kind Resource, and not of a kind for the type
    #[arg(long)]
    generic: bool,
    /// how long the provider may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::commands::duration)]
    timeout: Duration,
}

pub fn run(import: ImportResource, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    block_on(import_it(import, kubeconfig))
}

async fn import_it(import: ImportResource, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let plane = Plane::connect(kubeconfig).await?;
    let generic = Kind::generic();
    if !plane.serves(&generic).await? {
        bail!("the server has no Terraform providers");
    }
    let word = import.type_name.split('_').next().unwrap_or(&import.type_name);
    let reference = plane.configuration(import.provider_secret.as_deref(), word, &import.namespace).await?;
    let usual = object_name([import.type_name.split_once('_').map_or(word, |(_, rest)| rest), &import.id]);
    let name = import.name.clone().unwrap_or(usual);
    let probe = json!({
        "apiVersion": generic.api_version(), "kind": generic.kind,
        "metadata": {
            "generateName": "import-",
            "annotations": {IMPORT_ID: import.id, DELETION_POLICY: "retain"},
        },
        "spec": {
            "provider": import.provider, "type": import.type_name, "resource": {},
            "providerRef": {"name": reference},
        },
    });
    let collection = generic.collection(&import.namespace);
    let probe = plane.send(Method::POST, &collection, &probe).await?;
    let path = format!("{collection}/{}", probe["metadata"]["name"].as_str().unwrap_or_default());
    let filled = Box::pin(plane.until(&path, import.timeout, is_current)).await;
    // Whatever came of it, it goes, and the resource stays.
    plane.delete(&path).await?;
    let mut resource = filled?["spec"]["resource"].take();
    resource["id"] = json!(import.id);
    let manifest = manifest(&import, &name, &reference, resource);
    super::super::list::print(&format!("{}---\n", wire::yaml::encode(&manifest)))
}

fn manifest(import: &ImportResource, name: &str, reference: &str, resource: Value) -> Value {
    let mut spec = json!({"resource": resource, "providerRef": {"name": reference}});
    let kind = match import.generic {
        true => {
            spec["provider"] = json!(import.provider);
            spec["type"] = json!(import.type_name);
            Kind::generic()
        }
        false => Kind::of_type(&import.type_name),
    };
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {
            "name": name, "namespace": import.namespace, "annotations": {IMPORT_ID: import.id},
        },
        "spec": spec,
    })
}
