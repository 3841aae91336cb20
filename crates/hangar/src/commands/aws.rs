//! `hangar aws`: what AWS itself has to be told before it can be used.

use std::path::{Path, PathBuf};

use ::aws::kinds::{self, KindFacts};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use objects::meta;

use crate::clouds::aws::named;
use crate::operator::cluster;

#[derive(Subcommand, Debug)]
pub enum Aws {
    /// Print the IAM policy for exactly the kinds in use: those of a control plane's objects, of a file, or named
    IamPolicy(IamPolicy),
}

#[derive(Args, Debug)]
pub struct IamPolicy {
    /// a kind, such as Bucket or buckets.s3.services.k8s.aws; may be given several times
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// objects whose kinds are meant, in YAML or JSON; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
}

pub fn run(command: Aws, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    let Aws::IamPolicy(wanted) = command;
    let mut kinds = Vec::new();
    for name in &wanted.kind {
        kinds.extend(named(name).context("--kind")?);
    }
    if let Some(file) = &wanted.file {
        kinds.extend(super::plan::read(file)?.iter().filter_map(of_object));
    }
    if wanted.kind.is_empty() && wanted.file.is_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        kinds = runtime.context("cannot start the runtime")?.block_on(Box::pin(in_use(kubeconfig)))?;
    }
    if kinds.is_empty() {
        bail!("no kinds of AWS are in use");
    }
    super::list::print(&format!("{:#}\n", ::aws::iam::policy(kinds)?))
}

fn of_object(object: &objects::Value) -> Option<&'static KindFacts> {
    let (group, kind) = (meta::api_version(object).split('/').next()?, meta::kind(object));
    kinds::all().iter().find(|one| one.kind == kind && one.group() == group)
}

/// The kinds that a control plane has objects of.
async fn in_use(kubeconfig: Option<&Path>) -> anyhow::Result<Vec<&'static KindFacts>> {
    let (config, _) = cluster(kubeconfig).await?;
    let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;
    let groups = client.list_api_groups().await.context("the control plane cannot be asked")?;
    let mut used = Vec::new();
    for kind in kinds::all().iter() {
        let group = kind.group();
        if !groups.groups.iter().any(|served| served.name == group) {
            continue;
        }
        let resource = ApiResource {
            api_version: format!("{group}/v1alpha1"),
            group,
            version: "v1alpha1".to_owned(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.clone(),
        };
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match objects.list(&ListParams::default().limit(1)).await {
            Ok(found) if !found.items.is_empty() => used.push(kind),
            Ok(_) => {}
            // Only some of a group's kinds may be served.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be listed", kind.plural)),
        }
    }
    Ok(used)
}
