//! The operator on an existing cluster: `init` where there is one. What is installed is what `operator manifests`
//! prints; what is said meanwhile are KubeFlex's words.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use tenancy::kubernetes::{self, manifests};

use crate::api::{Api, Kind};
use crate::commands::{Program, Session, version};
use crate::operator::{self, Database, Image};

const DEPLOYMENTS: Kind = Kind { api: "apis/apps/v1", plural: "deployments" };
const STATEFUL_SETS: Kind = Kind { api: "apis/apps/v1", plural: "statefulsets" };
const SYSTEM: &str = tenancy::names::SYSTEM_NAMESPACE;
const OPERATOR: &str = tenancy::names::OPERATOR_ACCOUNT;

/// Images have to be pulled, and disks to be found.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(500);

/// How the operator is installed. Nothing of it concerns an installation on this machine.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Installing {
    #[command(flatten)]
    image: Image,
    #[command(flatten)]
    database: Database,
    /// do not wait until the operator is ready
    #[arg(long)]
    no_wait: bool,
}

/// How control planes will be reached; none is KubeFlex's default.
pub struct Reached {
    pub domain: Option<String>,
    pub external_port: Option<u16>,
    pub host_container: String,
}

/// Whether the operator is there already.
pub async fn is_installed(api: &Api) -> bool {
    matches!(api.get(DEPLOYMENTS, SYSTEM, OPERATOR).await, Ok(Some(_)))
}

/// Makes a cluster a hosting one. `prefer` writes into the kubeconfig that it is.
pub async fn install(
    session: &Session,
    api: &Api,
    installing: Installing,
    reached: Reached,
    prefer: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Installing { image, mut database, no_wait } = installing;
    // KubeFlex's always does.
    database.install_postgresql |= session.program == Program::Kflex;

    let step = session.progress.step("Checking if OpenShift cluster...");
    let projects = api.get_path("/apis/project.openshift.io/v1").await;
    let is_openshift = match projects {
        Ok(list) => has(&list, "projects"),
        Err(error) if error.code() == Some(404) => false,
        Err(error) => return Err(error).context("the cluster does not say what it serves"),
    };
    step.done();
    if is_openshift {
        session.progress.note("OpenShift cluster detected");
    }
    if session.program == Program::Kflex {
        session.progress.note(format!("Kubeflex {}", version::of_kubeflex()));
    }

    let mut settings = kubernetes::default_settings();
    settings.domain = reached.domain.unwrap_or(settings.domain);
    settings.external_port = reached.external_port.unwrap_or(settings.external_port);
    settings.host_container = reached.host_container;
    settings.is_openshift = is_openshift;
    if let Some(why) = objects::names::dns1123_subdomain(&settings.domain).first() {
        bail!("--domain {:?} is not a domain: {why}", settings.domain);
    }
    let with_database = database.install_postgresql;
    let all = manifests::manifests(&operator::installation(image, database, settings));
    let (database, others): (Vec<Value>, Vec<Value>) = all.into_iter().partition(manifests::is_of_postgresql);
    let (namespaces, others): (Vec<Value>, Vec<Value>) =
        others.into_iter().partition(|one| one["kind"] == "Namespace");

    let step = session.progress.step("Setting hosting cluster preference in kubeconfig");
    prefer()?;
    step.done();
    let step = session.progress.step("Ensuring kubeflex-system namespace...");
    apply(api, &namespaces).await.context("cannot make namespace kubeflex-system")?;
    step.done();
    if with_database {
        let step = session.progress.step("Installing shared backend DB...");
        let password = kubernetes::make_postgresql_password(api.client()).await;
        password.context("cannot make a password for the shared backend DB")?;
        apply(api, &database).await.context("cannot install the shared backend DB")?;
        step.done();
        if !no_wait {
            let step = session.progress.step("Waiting for shared backend DB to become ready...");
            for one in database.iter().filter(|one| one["kind"] == "StatefulSet") {
                ready(api, STATEFUL_SETS, one["metadata"]["name"].as_str().unwrap_or_default()).await?;
            }
            step.done();
        }
    }
    let step = session.progress.step("Installing kubeflex operator...");
    apply(api, &others).await.context("cannot install the operator")?;
    step.done();
    if !no_wait {
        let step = session.progress.step("Waiting for kubeflex operator to become ready...");
        ready(api, DEPLOYMENTS, OPERATOR).await?;
        step.done();
    }
    Ok(())
}

fn has(list: &Value, plural: &str) -> bool {
    list["resources"].as_array().into_iter().flatten().any(|one| one["name"] == plural)
}

async fn apply(api: &Api, objects: &[Value]) -> anyhow::Result<()> {
    manifests::apply(api.client(), objects).await.map_err(|error| anyhow::anyhow!("{error}"))
}

/// Waits until all of its replicas answer.
async fn ready(api: &Api, kind: Kind, name: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let live = api.get(kind, SYSTEM, name).await?.unwrap_or_default();
        let wanted = live["spec"]["replicas"].as_i64().unwrap_or(1);
        if live["status"]["readyReplicas"].as_i64() == Some(wanted) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            bail!("{SYSTEM}/{name} is not ready after {PATIENCE:?}: ask kubectl -n {SYSTEM} get pods why");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
