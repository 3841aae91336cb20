//! `hangar plan`: what would be done about objects of a cloud, asked of the cloud itself, without doing any of it.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use egress::{Client, Egress, Policy};
use objects::{Value, meta};
use provision::Preview;
use runtime::{Fleet, Key, RemoteFleet};
use serde_json::json;

use super::tf;
use crate::clouds::aws::AwsOptions;
use crate::clouds::{Shared, foresight};
use crate::operator::cluster;

#[derive(Args, Debug)]
pub struct Plan {
    /// objects, in YAML or JSON; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// json
    #[arg(short, long, value_name = "FORMAT", default_value = "")]
    output: String,
    #[command(flatten)]
    aws: AwsOptions,
}

/// What the control plane is called in messages.
const CONTROL_PLANE: &str = "the control plane";

pub fn run(plan: Plan, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    if !matches!(plan.output.as_str(), "" | "json") {
        bail!("output format {:?} is not known: use json", plan.output);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(Box::pin(show(plan, kubeconfig)))
}

async fn show(plan: Plan, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let wanted = read(&plan.file)?;
    let (config, _) = cluster(kubeconfig).await?;
    let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;
    let (of_terraform, wanted): (Vec<_>, Vec<_>) = wanted.into_iter().partition(tf::plan::knows);
    let mut text = String::new();
    let mut planned = Vec::new();
    for object in of_terraform {
        let lines = tf::plan::told(&client, &object).await.with_context(|| about(&object))?;
        lines.iter().for_each(|line| _ = writeln!(text, "{line}"));
        planned.push(described(&object, &json!({"lines": lines})));
    }
    if wanted.is_empty() {
        return super::list::print(&printed(&plan.output, text, planned));
    }
    let fleet = RemoteFleet::new(CONTROL_PLANE, client);
    // Fingerprints of secrets are compared with those that the server made with its own key: they say nothing here.
    let options = AwsOptions { aws: true, ..plan.aws };
    // Whoever runs this command could connect to anything anyway.
    let egress = Egress::new(Client::default(), Arc::new(Policy::unrestricted()));
    let cloud = options.set_up(&Shared::of_cluster([0; 32], egress)).await?.context("no cloud is set up")?;
    for object in wanted {
        let object = as_it_would_be(&fleet, object).await?;
        let preview = cloud.plan(&fleet, CONTROL_PLANE, &object).await;
        let preview =
            preview.map_err(|failure| anyhow::anyhow!("{}: {}", about(&object), failure.message))?;
        text += &told(&object, &preview);
        planned.push(described(&object, &json!(preview)));
    }
    super::list::print(&printed(&plan.output, text, planned))
}

fn about(object: &Value) -> String {
    format!("{} {}", meta::kind(object), meta::name(object))
}

fn described(object: &Value, plan: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": meta::name(object),
        "namespace": meta::namespace(object), "plan": plan})
}

fn printed(format: &str, text: String, planned: Vec<Value>) -> String {
    match format {
        "json" => format!("{:#}\n", Value::Array(planned)),
        _ => text,
    }
}

/// The documents of a file.
pub fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).map(drop),
        _ => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.with_context(|| format!("cannot read {}", file.display()))?;
    let mut objects = Vec::new();
    for document in text.split("\n---") {
        let document = document.trim_start_matches("---");
        if document.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            continue;
        }
        let decoded = wire::yaml::decode(document.as_bytes());
        let decoded = decoded.with_context(|| format!("{} is neither YAML nor JSON", file.display()))?;
        match decoded.value["items"].as_array() {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(decoded.value),
        }
    }
    if objects.is_empty() {
        bail!("{} holds no objects", file.display());
    }
    Ok(objects)
}

/// The object as it would be after an apply: what is stored of it knows which resource is its own.
async fn as_it_would_be(fleet: &RemoteFleet, mut object: Value) -> anyhow::Result<Value> {
    if meta::namespace(&object).is_empty() {
        meta::set(&mut object, "namespace", "default");
    }
    let group = meta::api_version(&object).split_once('/').map_or("", |(group, _)| group);
    let of_kind =
        aws::kinds::all().iter().find(|one| one.kind == meta::kind(&object) && one.group() == group);
    let Some(kind) = of_kind else {
        bail!("{} of {:?} is not a kind of a cloud", meta::kind(&object), meta::api_version(&object));
    };
    let key = Key::new(format!("{}.{group}", kind.plural), meta::namespace(&object), meta::name(&object));
    // A control plane that does not serve the kind has no such object either.
    let Ok(Some(mut stored)) = fleet.get(CONTROL_PLANE, &key).await else { return Ok(object) };
    objects::patch::merge(&mut stored, &object);
    Ok(stored)
}

fn told(object: &Value, preview: &Preview) -> String {
    let mut text = format!(
        "{} {} {}/{} in {}\n",
        foresight::verb(preview),
        meta::kind(object),
        meta::namespace(object),
        meta::name(object),
        preview.place
    );
    foresight::lines(preview).iter().for_each(|line| _ = writeln!(text, "  {line}"));
    text
}
