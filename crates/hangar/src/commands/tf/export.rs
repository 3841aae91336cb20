//! `hangar export tfstate`: an object's resource as Terraform would have it, a configuration and a state.
//!
//! The server writes both into a Secret, on which the rights of the control plane hold; it is read and goes again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::terraform::dialect::EXPORT_STATE;
use anyhow::{Context, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::{PAUSE, Plane, block_on};
use crate::files;

#[derive(Subcommand, Debug)]
pub enum Export {
    /// The state and the configuration of an object's resource, for the terraform program
    Tfstate(ExportState),
}

#[derive(Args, Debug)]
pub struct ExportState {
    /// the kind, such as Instance or instances.instance.linode.kubeform.com
    #[arg(value_name = "KIND")]
    kind: String,
    /// the name of the object
    #[arg(value_name = "NAME")]
    name: String,
    /// the namespace of the object
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// where to write main.tf, terraform.tfstate, and secrets.auto.tfvars if there is anything sensitive
    #[arg(short, long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// how long the server may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::commands::duration)]
    timeout: Duration,
}

const FILES: [&str; 3] = ["main.tf", "secrets.auto.tfvars", "terraform.tfstate"];

pub fn run(command: Export, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let Export::Tfstate(export) = command;
    block_on(export_state(export, kubeconfig))
}

async fn export_state(export: ExportState, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    if let Some(there) = FILES.map(|name| export.directory.join(name)).iter().find(|file| file.exists()) {
        bail!("{} is there already", there.display());
    }
    let plane = Plane::connect(kubeconfig).await?;
    let kind = plane.kind(&export.kind).await?;
    let path = format!("{}/{}", kind.collection(&export.namespace), export.name);
    let object = plane.get(&path).await?;
    let object =
        object.with_context(|| format!("there is no {} {}/{}", kind.kind, export.namespace, export.name))?;
    // One that somebody keeps up to date is used as it is.
    let kept = object["metadata"]["annotations"][EXPORT_STATE].as_str().map(str::to_owned);
    let name = kept.clone().unwrap_or_else(|| format!("{}-{}-export", export.name, kind.plural));
    let secret = format!("/api/v1/namespaces/{}/secrets/{name}", export.namespace);
    if kept.is_none() {
        annotate(&plane, &path, json!(name)).await?;
    }
    let found = await_secret(&plane, &secret, &path, export.timeout).await;
    if kept.is_none() {
        annotate(&plane, &path, Value::Null).await?;
        plane.delete(&secret).await?;
    }
    let found = found?;
    std::fs::create_dir_all(&export.directory)
        .with_context(|| format!("cannot make {}", export.directory.display()))?;
    for file in FILES {
        // Only where there are any.
        let Some(text) = found["data"][file].as_str() else { continue };
        let bytes = BASE64_STANDARD.decode(text).context("the server wrote what cannot be read")?;
        // The state holds secrets.
        files::write_private(&export.directory.join(file), &bytes)?;
    }
    super::super::list::print(&format!(
        "main.tf and terraform.tfstate are in {}\n",
        export.directory.display()
    ))
}

async fn annotate(plane: &Plane, path: &str, name: Value) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {EXPORT_STATE: name}}});
    plane.send(Method::PATCH, path, &patch).await?;
    Ok(())
}

async fn await_secret(plane: &Plane, secret: &str, path: &str, patience: Duration) -> anyhow::Result<Value> {
    let began = Instant::now();
    loop {
        if let Some(found) = plane.get(secret).await? {
            return Ok(found);
        }
        if began.elapsed() > patience {
            let object = plane.get(path).await?.unwrap_or_default();
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            let mut messages = conditions.filter_map(|one| one["message"].as_str());
            bail!("the server has not written it: {}", messages.next().unwrap_or("nobody looks after it"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
