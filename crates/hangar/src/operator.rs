//! `hangar operator`: control planes as pods of an existing Kubernetes, and what it takes to install that.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use async_trait::async_trait;
use auth::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::RemoteFleet;
use tenancy::kubernetes::manifests::{self, Installation};
use tenancy::kubernetes::{Expose, Gateway, Kubernetes, Options, Overrides, Rooms};
use tokio_util::sync::CancellationToken;

use crate::stores::{self, Wanted};
use crate::{health, logs, process};

/// What the cluster is called in requests of the controllers and in logs.
const HOSTING: &str = "hosting";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct OperatorCommand {
    #[command(subcommand)]
    command: Option<OperatorSubcommand>,
    #[command(flatten)]
    options: OperatorOptions,
}

#[derive(Subcommand, Debug)]
enum OperatorSubcommand {
    /// Print everything that is needed to install the operator, for kubectl apply --server-side -f -
    Manifests(ManifestOptions),
    /// Wait until the control plane of a kubeconfig answers
    Await {
        /// For how long
        #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = crate::commands::duration)]
        timeout: Duration,
    },
}

#[derive(Args, Debug)]
struct OperatorOptions {
    #[command(flatten)]
    image: Image,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    cluster: Cluster,
    /// Make a password for the PostgreSQL that was installed with the operator, if it has none
    #[arg(long)]
    make_postgresql_password: bool,
    /// Where to say whether it is well: /healthz and /readyz [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    health_probe_bind_address: Option<SocketAddr>,
    #[command(flatten)]
    logging: logs::Options,
}

/// Which program control planes run.
#[derive(Args, Clone, Debug)]
pub struct Image {
    /// The image of this program
    #[arg(long, value_name = "IMAGE", default_value = DEFAULT_IMAGE, env = "HANGAR_IMAGE")]
    pub image: String,
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub image_pull_policy: String,
    /// A Secret to pull it with, in every namespace where it is used
    #[arg(long, value_name = "NAME")]
    pub image_pull_secret: Option<String>,
}

const DEFAULT_IMAGE: &str = concat!("hangar:", env!("CARGO_PKG_VERSION"));

impl Default for Image {
    fn default() -> Self {
        Image {
            image: DEFAULT_IMAGE.to_owned(),
            image_pull_policy: "IfNotPresent".to_owned(),
            image_pull_secret: None,
        }
    }
}

/// How control planes are reached. What is not said is in the ConfigMap kubeflex-config.
#[derive(Args, Clone, Debug, Default)]
struct Place {
    /// Control plane NAME is reached at NAME.DOMAIN
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// The port there
    #[arg(long, value_name = "PORT")]
    external_port: Option<u16>,
    /// The container of the cluster, where the cluster is one
    #[arg(long, value_name = "NAME")]
    host_container: Option<String>,
    /// Whether the cluster is OpenShift
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    is_openshift: Option<bool>,
}

/// What the operator is told about the cluster.
#[derive(Args, Clone, Debug)]
struct Cluster {
    /// What leads to control planes from outside
    #[arg(long, value_name = "HOW", default_value = "auto")]
    expose: Exposing,
    #[arg(long, value_name = "NAME", default_value = "nginx")]
    ingress_class: String,
    /// A Gateway that passes TLS on: NAMESPACE/NAME or NAMESPACE/NAME/LISTENER
    #[arg(long, value_name = "GATEWAY", value_parser = Gateway::parse)]
    gateway: Option<Gateway>,
    /// Of the Services of control planes
    #[arg(long, value_name = "TYPE", default_value = "NodePort", value_parser = ["NodePort", "ClusterIP", "LoadBalancer"])]
    service_type: String,
    /// Of volumes of control planes [default: the cluster's own]
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi")]
    volume_size: String,
    /// The Secret in kubeflex-system whose key url names the shared store
    #[arg(long, value_name = "NAME", default_value = "hangar-store")]
    store_secret: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Exposing {
    /// A Gateway if one is named, a Route on OpenShift, else an Ingress
    Auto,
    Ingress,
    Route,
    Gateway,
    None,
}

impl Exposing {
    fn wish(self) -> Expose {
        match self {
            Exposing::Auto => Expose::Auto,
            Exposing::Ingress => Expose::Ingress,
            Exposing::Route => Expose::Route,
            Exposing::Gateway => Expose::Gateway,
            Exposing::None => Expose::Nothing,
        }
    }
}

#[derive(Args, Debug)]
struct ManifestOptions {
    /// Where the operator itself is to be
    #[arg(long, value_name = "NAMESPACE", default_value = tenancy::names::SYSTEM_NAMESPACE)]
    namespace: String,
    #[command(flatten)]
    image: Image,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    cluster: Cluster,
    /// Let the operator make control planes of type host, whose accounts administer the cluster
    #[arg(long)]
    allow_host_type: bool,
    #[command(flatten)]
    database: Database,
}

/// The shared store that comes with the operator.
#[derive(Args, Clone, Debug)]
pub struct Database {
    /// Install PostgreSQL as the shared store of control planes
    #[arg(long)]
    pub install_postgresql: bool,
    #[arg(long, value_name = "IMAGE", default_value = manifests::POSTGRESQL_IMAGE)]
    pub postgresql_image: String,
}

impl Default for Database {
    fn default() -> Self {
        Database { install_postgresql: false, postgresql_image: manifests::POSTGRESQL_IMAGE.to_owned() }
    }
}

impl Database {
    fn image(self) -> Option<String> {
        Some(self.postgresql_image).filter(|_| self.install_postgresql)
    }
}

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

/// What `init` installs.
pub fn installation(image: Image, database: Database, settings: tenancy::Settings) -> Installation {
    Installation {
        namespace: tenancy::names::SYSTEM_NAMESPACE.to_owned(),
        image: image.image,
        image_pull_policy: image.image_pull_policy,
        image_pull_secret: image.image_pull_secret,
        settings,
        arguments: Vec::new(),
        host_type: false,
        postgresql: database.image(),
    }
}

impl ManifestOptions {
    fn installation(self) -> anyhow::Result<Installation> {
        if let Some(why) = objects::names::dns1123_label(&self.namespace).first() {
            bail!("--namespace {:?} is not a name of a namespace: {why}", self.namespace);
        }
        self.place.check()?;
        let mut settings = tenancy::kubernetes::default_settings();
        let Place { domain, external_port, host_container, is_openshift } = self.place;
        settings.domain = domain.unwrap_or(settings.domain);
        settings.external_port = external_port.unwrap_or(settings.external_port);
        settings.host_container = host_container.unwrap_or(settings.host_container);
        settings.is_openshift = is_openshift.unwrap_or(settings.is_openshift);
        Ok(Installation {
            namespace: self.namespace,
            arguments: self.cluster.arguments(),
            host_type: self.allow_host_type,
            ..installation(self.image, self.database, settings)
        })
    }
}

impl Place {
    fn check(&self) -> anyhow::Result<()> {
        match self.domain.as_deref().map(|domain| (domain, objects::names::dns1123_subdomain(domain))) {
            Some((domain, wrong)) if !wrong.is_empty() => {
                bail!("--domain {domain:?} is not a domain: {}", wrong[0])
            }
            _ => Ok(()),
        }
    }
}

impl Cluster {
    /// What the operator's own command line has to say to be told the same.
    fn arguments(&self) -> Vec<String> {
        let expose = self.expose.to_possible_value().map(|value| value.get_name().to_owned());
        let gateway = self.gateway.as_ref().map(|gateway| {
            let listener = if gateway.listener.is_empty() { "" } else { "/" };
            format!("{}/{}{listener}{}", gateway.namespace, gateway.name, gateway.listener)
        });
        let said = [
            ("expose", expose.filter(|_| self.expose != Exposing::Auto)),
            ("ingress-class", Some(self.ingress_class.clone()).filter(|class| class != "nginx")),
            ("gateway", gateway),
            ("service-type", Some(self.service_type.clone()).filter(|kind| kind != "NodePort")),
            ("storage-class", self.storage_class.clone()),
            ("volume-size", Some(self.volume_size.clone()).filter(|size| size != "1Gi")),
            ("store-secret", Some(self.store_secret.clone()).filter(|name| name != "hangar-store")),
        ];
        said.into_iter().filter_map(|(flag, value)| Some(format!("--{flag}={}", value?))).collect()
    }
}

/// The cluster of a kubeconfig, or the one that this process is in.
async fn cluster(kubeconfig: Option<&Path>) -> anyhow::Result<(kube::Config, bool)> {
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

async fn operate(options: OperatorOptions, kubeconfig: Option<&Path>) -> anyhow::Result<()> {
    options.place.check()?;
    let ready = Arc::new(AtomicBool::new(false));
    let stop = CancellationToken::new();
    if let Some(address) = options.health_probe_bind_address {
        health::serve(address, ready.clone(), stop.clone()).await?;
    }
    let (mut config, in_cluster) = cluster(kubeconfig).await?;
    // A watch may be silent for as long as it likes.
    config.read_timeout = None;
    let server = config.cluster_url.to_string();
    let authority = pem_of(config.root_cert.as_deref().unwrap_or_default());
    let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;

    let Image { image, image_pull_policy, image_pull_secret } = options.image;
    let Place { domain, external_port, host_container, is_openshift } = options.place;
    let Cluster { expose, ingress_class, gateway, service_type, storage_class, volume_size, store_secret } =
        options.cluster;
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
    let mut controlling = tokio::spawn(runtime::run(fleet, host.controllers(HOSTING), stop.clone()));
    ready.store(true, Ordering::Relaxed);
    tracing::info!(cluster = server, "operating");

    let ended = tokio::select! {
        interrupted = process::interrupted() => interrupted,
        ended = &mut controlling => Err(process::controllers_ended(ended)),
    };
    tracing::info!("stopping");
    stop.cancel();
    if !controlling.is_finished() {
        let _ = controlling.await;
    }
    ended
}

struct SharedStores;

#[async_trait]
impl Rooms for SharedStores {
    async fn empty(&self, url: &Secret<String>, room: &str) -> Result<(), String> {
        let wanted = Wanted { address: Some(url.clone()), room: Some(room.to_owned()) };
        stores::empty(&wanted).await.map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        cluster: Cluster,
    }

    /// What manifests pass on is understood as it was said.
    #[test]
    fn arguments_are_passed_on() {
        let check = |line: &[&str]| {
            let parse = |line: &[String]| {
                Line::try_parse_from(std::iter::once("x".to_owned()).chain(line.iter().cloned()))
                    .unwrap()
                    .cluster
            };
            let said: Vec<String> = line.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(parse(&said).arguments(), said);
            assert_eq!(parse(&parse(&said).arguments()).arguments(), said);
        };
        check(&[]);
        check(&["--expose=gateway", "--gateway=infra/main/tls"]);
        check(&["--gateway=infra/main", "--storage-class=fast", "--volume-size=5Gi", "--store-secret=pg"]);
        check(&["--ingress-class=haproxy", "--service-type=ClusterIP"]);
        check(&["--expose=none"]);
    }
}
