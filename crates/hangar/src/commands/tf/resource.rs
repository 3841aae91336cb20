//! `hangar import terraform`: a manifest for a resource that is there already, by its id or its identity; or for all of a
//! type (see [`listing`]).
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

use super::listing::{self, Listing};
use super::{Kind, Plane, block_on, is_current, object_name, unconfigured};

#[derive(Args, Clone, Debug)]
pub struct ImportResource {
    /// the Provider, as the server knows it
    #[arg(value_name = "PROVIDER")]
    pub(super) provider: String,
    /// the type, such as linode_instance
    #[arg(value_name = "TYPE")]
    pub(super) type_name: String,
    /// the id, as the provider imports it
    #[arg(value_name = "ID", required_unless_present_any = ["identity", "lists"])]
    id: Option<String>,
    /// the identity instead, as a JSON object, for providers that know identities
    #[arg(long, value_name = "JSON", conflicts_with = "id", value_parser = identity)]
    identity: Option<String>,
    /// the name of the object [default: made of the type and the id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// the namespace of the object
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(super) namespace: String,
    /// the Secret with the provider's configuration [default: <provider>-provider-secret, if there is one]
    #[arg(long, value_name = "NAME")]
    provider_secret: Option<String>,
    /// write an object of the kind Resource, and not of a kind for the type
    #[arg(long)]
    generic: bool,
    /// how long the provider may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::commands::duration)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) listing: Listing,
}

/// A resource that is there, and what its object is to be called.
pub(super) struct Existing {
    /// The annotation that names it.
    pub by: &'static str,
    pub which: String,
    /// Where it is known from the start.
    pub id: Option<String>,
    pub name: String,
}

fn identity(text: &str) -> Result<String, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => Ok(text.to_owned()),
        _ => Err("an identity is a JSON object, such as {\"name\": \"web\"}".to_owned()),
    }
}

/// Words to make a name of.
pub(super) fn words(identity: &Value) -> String {
    let parts = identity.as_object().into_iter().flatten();
    let parts: Vec<String> =
        parts.map(|(_, part)| part.as_str().map_or(part.to_string(), str::to_owned)).collect();
    parts.join("-")
}

pub fn run(import: ImportResource, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    block_on(import_it(import, kubeconfig))
}

async fn import_it(import: ImportResource, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let plane = Plane::connect(kubeconfig).await?;
    if !plane.serves(&Kind::generic()).await? {
        bail!("the server has no Terraform providers");
    }
    let word = import.type_name.split('_').next().unwrap_or(&import.type_name);
    let reference = plane.configuration(import.provider_secret.as_deref(), word, &import.namespace).await?;
    if import.listing.is_wanted() {
        let listed = Box::pin(listing::run(&plane, &import, &reference)).await;
        return unconfigured(listed, &reference, word);
    }
    let manifest = import.manifest(&plane, &reference, &import.existing()).await;
    super::super::list::print(&unconfigured(manifest, &reference, word)?)
}

impl ImportResource {
    /// The one that is named.
    fn existing(&self) -> Existing {
        let (by, which) = match (&self.identity, &self.id) {
            (Some(identity), _) => (IMPORT_IDENTITY, identity.clone()),
            (None, id) => (IMPORT_ID, id.clone().unwrap_or_default()),
        };
        let identity = self.identity.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let rest = self.type_name.split_once('_').map_or(self.type_name.as_str(), |(_, rest)| rest);
        let known_by = self.id.clone().unwrap_or_else(|| words(&identity.unwrap_or_default()));
        let name = self.name.clone().unwrap_or_else(|| object_name([rest, &known_by]));
        Existing { by, which, id: self.id.clone(), name }
    }

    /// What the object is of.
    pub(super) fn kind(&self) -> Kind {
        if self.generic { Kind::generic() } else { Kind::of_type(&self.type_name) }
    }

    /// The manifest that takes a resource over as it is.
    pub(super) async fn manifest(
        &self,
        plane: &Plane,
        reference: &str,
        existing: &Existing,
    ) -> anyhow::Result<String> {
        let Existing { by, which, id, name } = existing;
        let generic = Kind::generic();
        let probe = json!({
            "apiVersion": generic.api_version(), "kind": generic.kind,
            "metadata": {
                "generateName": "import-",
                "annotations": {*by: which, DELETION_POLICY: "retain"},
            },
            "spec": {
                "provider": self.provider, "type": self.type_name, "resource": {},
                "providerRef": {"name": reference},
            },
        });
        let collection = generic.collection(&self.namespace);
        let probe = plane.send(Method::POST, &collection, &probe).await?;
        let path = format!("{collection}/{}", probe["metadata"]["name"].as_str().unwrap_or_default());
        let filled = Box::pin(plane.until(&path, self.timeout, is_current)).await;
        // Whatever came of it, it goes, and the resource stays.
        plane.delete(&path).await?;
        let mut filled = filled?;
        let mut resource = filled["spec"]["resource"].take();
        // By an identity the provider says which id it has, if it has one.
        let found = filled["spec"]["state"]["id"].take();
        let id = id.clone().map_or(found, Value::from);
        if !id.is_null() {
            resource["id"] = id;
        }
        let mut spec = json!({"resource": resource, "providerRef": {"name": reference}});
        let kind = self.kind();
        if kind.is_generic() {
            spec["provider"] = json!(self.provider);
            spec["type"] = json!(self.type_name);
        }
        let manifest = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"name": name, "namespace": self.namespace, "annotations": {*by: which}},
            "spec": spec,
        });
        Ok(format!("{}---\n", wire::yaml::encode(&manifest)))
    }
}
