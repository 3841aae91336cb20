//! `hangar operator`: control planes as pods of an existing Kubernetes, and what it takes to install that.

mod clouds;
mod flags;
mod terraform;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use async_trait::async_trait;
use auth::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::{Candidate, Leadership, RemoteFleet};
use tenancy::kubernetes::{Kubernetes, Options, Overrides, Rooms, manifests};
use tokio_util::sync::CancellationToken;

use crate::controlling::{self, Running};
use crate::stores::{self, Wanted};
use crate::{health, process};
use flags::{Cluster, OperatorOptions, OperatorSubcommand, Place};

pub use flags::{Database, Image, OperatorCommand, installation};

/// What the cluster is called in requests of the controllers and in logs.
const HOSTING: &str = "hosting";

pub fn run(command: OperatorCommand, kubeconfig: Option<&Path>, verbosity: i32) -> anyhow::Result<()> {
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the runtime")
    };
    match command.command {
        Some(OperatorSubcommand::Manifests(options)) => {
            let all = manifests::manifests(&options.installation()?);
            crate::commands::list::print(&manifests::to_yaml(&all))
        }
        Some(OperatorSubcommand::Await { timeout }) => {
            runtime()?.block_on(Box::pin(answered(kubeconfig, timeout)))
        }
        None => {
            command.options.logging.start_at(verbosity)?;
            runtime()?.block_on(Box::pin(operate(command.options, kubeconfig)))
        }
    }
}

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

async fn answered(kubeconfig: Option<&Path>, timeout: Duration) -> anyhow::Result<()> {
    let (config, _) = cluster(kubeconfig).await?;
    let server = config.cluster_url.to_string();
    let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;
    let began = Instant::now();
    loop {
        let why = match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
            Ok(Ok(version)) => {
                return crate::commands::list::print(&format!(
                    "{server} is Kubernetes {}\n",
                    version.git_version
                ));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        if began.elapsed() + PAUSE > timeout {
            bail!("{server} does not answer: {why}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The cluster of a kubeconfig, or the one that this process is in.
pub async fn cluster(kubeconfig: Option<&Path>) -> anyhow::Result<(kube::Config, bool)> {
    let here = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let said = kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty());
    if here && !said {
        return Ok((
            kube::Config::incluster().context("the cluster that this is in cannot be reached")?,
            true,
        ));
    }
    let read = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path)
            .with_context(|| format!("cannot use the kubeconfig {}", path.display())),
        None => Kubeconfig::read().context("cannot use the kubeconfig"),
    };
    let config = kube::Config::from_custom_kubeconfig(read?, &KubeConfigOptions::default()).await;
    Ok((config.context("cannot use the kubeconfig")?, here))
}

fn pem_of(certificates: &[Vec<u8>]) -> String {
    let wrapped = |der: &Vec<u8>| {
        let text = STANDARD.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    certificates.iter().map(wrapped).collect()
}

/// The operator of control planes, once the cluster has what it needs.
async fn make_control_planes(
    options: OperatorOptions,
    client: kube::Client,
    server: &str,
    authority: String,
    in_cluster: bool,
    stop: CancellationToken,
) -> anyhow::Result<Running> {
    let Image { image, image_pull_policy, image_pull_secret } = options.image;
    let Place { domain, external_port, host_container, is_openshift } = options.place;
    let Cluster {
        expose,
        ingress_class,
        gateway,
        service_type,
        storage_class,
        volume_size,
        store_secret,
        egress_allow,
    } = options.cluster;
    let host = Kubernetes::prepare(
        client.clone(),
        Options {
            image,
            image_pull_policy,
            image_pull_secret,
            expose: expose.wish(),
            ingress_class,
            gateway,
            service_type,
            storage_class,
            volume_size,
            store_secret,
            egress_allow: egress::Ranges::parse(&egress_allow)?,
            make_postgresql_password: options.make_postgresql_password,
            overrides: Overrides { domain, external_port, host_container, is_openshift },
            in_cluster,
            hosting_authority: authority,
        },
        Arc::new(SharedStores),
    )
    .await
    .with_context(|| format!("cannot prepare the cluster at {server}"))?;
    let fleet = Arc::new(RemoteFleet::new(HOSTING, client));
    Ok(tokio::spawn(runtime::run(fleet, host.controllers(HOSTING), stop)))
}

async fn operate(options: OperatorOptions, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    options.place.check()?;
    let ready = Arc::new(AtomicBool::new(false));
    let stop = CancellationToken::new();
    if let Some(address) = options.health_probe_bind_address {
        health::serve(address, ready.clone(), stop.clone()).await?;
    }
    let metrics = Arc::default();
    if let Some(address) = options.metrics_bind_address {
        health::serve_metrics(address, Arc::clone(&metrics), stop.clone()).await?;
    }
    let (mut config, in_cluster) = cluster(kubeconfig).await?;
    // A watch may be silent for as long as it likes.
    config.read_timeout = None;
    let server = config.cluster_url.to_string();
    let authority = pem_of(config.root_cert.as_deref().unwrap_or_default());
    let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;

    let mut interrupts = process::Interrupts::listen()?;
    // Whoever waits for its turn does what it is for.
    ready.store(options.leader_elect, Ordering::Relaxed);
    let leadership = match options.leader_elect {
        false => None,
        true => {
            let candidate = candidate(&client, &options.leader_elect_namespace);
            tokio::select! {
                () = interrupts.next() => return Ok(()),
                leadership = candidate.lead() => Some(leadership),
            }
        }
    };
    let allowed = egress::Ranges::parse(&options.cluster.egress_allow)?;
    let looking_after =
        clouds::start(&client, &options.aws, &options.terraform, &metrics, allowed, stop.clone()).await?;
    let making = match options.clouds_only {
        true if looking_after.is_none() => {
            bail!("--clouds-only without a cloud: add --aws, --terraform-plugin-dir or another flag of one")
        }
        true => None,
        false => {
            Some(make_control_planes(options, client, &server, authority, in_cluster, stop.clone()).await?)
        }
    };
    let mut controlling =
        controlling::together(making.into_iter().chain(looking_after).collect(), Vec::new());
    ready.store(true, Ordering::Relaxed);
    tracing::info!(cluster = server, "operating");

    let ended = tokio::select! {
        () = interrupts.next() => Ok(()),
        ended = &mut controlling => Err(process::controllers_ended(ended)),
        // Whoever starts this process starts it again, and it waits for its turn.
        () = deposed(leadership.as_ref()) => Err(anyhow::anyhow!("another operator of the cluster leads now")),
    };
    tracing::info!("stopping");
    stop.cancel();
    if !controlling.is_finished() {
        let _ = controlling.await;
    }
    if let Some(leadership) = leadership {
        // Only now that nothing is being done any more.
        leadership.resign().await;
    }
    ended
}

/// By the name that KubeFlex's operator has its lease under: the two never work at the same time either.
const LEASE: &str = "c6f71c85.kflex.kubestellar.org";

fn candidate(client: &kube::Client, namespace: &str) -> Candidate {
    let pod = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let holder = format!("{}_{}", pod.as_deref().unwrap_or("hangar"), uuid::Uuid::new_v4());
    Candidate::new(client.clone(), namespace, LEASE, holder)
}

async fn deposed(leadership: Option<&Leadership>) {
    match leadership {
        Some(leadership) => leadership.ended.cancelled().await,
        None => std::future::pending().await,
    }
}

struct SharedStores;

#[async_trait]
impl Rooms for SharedStores {
    async fn empty(&self, url: &Secret<String>, room: &str) -> Result<(), String> {
        let wanted = Wanted { address: Some(url.clone()), room: Some(room.to_owned()) };
        stores::empty(&wanted).await.map_err(|error| format!("{error:#}"))
    }
}
