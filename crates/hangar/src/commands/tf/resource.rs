//! `hangar import terraform`: a manifest for a resource that is there already, by its id or its identity.
//!
//! The server asks the provider: an object without wishes takes the resource over for a moment, is filled in, and goes
//! again without touching it. What it was filled with is the manifest.

use std::path::Path;
use std::time::Duration;

use ::terraform::dialect::{DELETION_POLICY, IMPORT_ID, IMPORT_IDENTITY};
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
    #[arg(value_name = "ID", required_unless_present = "identity")]
    id: Option<String>,
    /// the identity instead, as a JSON object, for providers that know identities
    #[arg(long, value_name = "JSON", conflicts_with = "id", value_parser = identity)]
    identity: Option<String>,
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

fn identity(text: &str) -> Result<String, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => Ok(text.to_owned()),
        _ => Err("an identity is a JSON object, such as {\"name\": \"web\"}".to_owned()),
    }
}

impl ImportResource {
    /// What the object says of what it takes over.
    fn annotation(&self) -> (&'static str, &str) {
        match (&self.identity, &self.id) {
            (Some(identity), _) => (IMPORT_IDENTITY, identity),
            (None, id) => (IMPORT_ID, id.as_deref().unwrap_or_default()),
        }
    }

    /// Words to make a name of.
    fn words(&self) -> String {
        let identity: Value =
            self.identity.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let parts = identity.as_object().into_iter().flatten();
        let parts: Vec<String> =
            parts.map(|(_, part)| part.as_str().map_or(part.to_string(), str::to_owned)).collect();
        self.id.clone().unwrap_or_else(|| parts.join("-"))
    }
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
    let rest = import.type_name.split_once('_').map_or(word, |(_, rest)| rest);
    let usual = object_name([rest, &import.words()]);
    let name = import.name.clone().unwrap_or(usual);
    let (by, which) = import.annotation();
    let probe = json!({
        "apiVersion": generic.api_version(), "kind": generic.kind,
        "metadata": {
            "generateName": "import-",
            "annotations": {by: which, DELETION_POLICY: "retain"},
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
    let mut filled = filled?;
    let mut resource = filled["spec"]["resource"].take();
    // By an identity the provider says which id it has, if it has one.
    let found = filled["spec"]["state"]["id"].take();
    let id = import.id.clone().map_or(found, Value::from);
    if !id.is_null() {
        resource["id"] = id;
    }
    let manifest = manifest(&import, &name, &reference, resource);
    super::super::list::print(&format!("{}---\n", wire::yaml::encode(&manifest)))
}

fn manifest(import: &ImportResource, name: &str, reference: &str, resource: Value) -> Value {
    let (by, which) = import.annotation();
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
            "name": name, "namespace": import.namespace, "annotations": {by: which},
        },
        "spec": spec,
    })
}
