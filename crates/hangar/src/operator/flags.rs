//! What the operator and its manifests can be told.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use tenancy::kubernetes::manifests::{self, Installation};
use tenancy::kubernetes::{Expose, Gateway};

use super::terraform::TerraformOptions;
use crate::clouds::aws::AwsOptions;
use crate::configuration::egress_range;
use crate::logs;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct OperatorCommand {
    #[command(subcommand)]
    pub command: Option<OperatorSubcommand>,
    #[command(flatten)]
    pub options: OperatorOptions,
}

#[derive(Subcommand, Debug)]
pub enum OperatorSubcommand {
    /// Print everything that is needed to install the operator, for kubectl apply --server-side -f -
    Manifests(Box<ManifestOptions>),
    /// Wait until the control plane of a kubeconfig answers
    Await {
        /// For how long
        #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = crate::commands::duration)]
        timeout: Duration,
    },
}

#[derive(Args, Debug)]
pub struct OperatorOptions {
    #[command(flatten)]
    pub image: Image,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub cluster: Cluster,
    #[command(flatten)]
    pub aws: AwsOptions,
    #[command(flatten)]
    pub terraform: TerraformOptions,
    /// Look after clouds only: make no control planes, and install nothing for them
    #[arg(long)]
    pub clouds_only: bool,
    /// Make a password for the PostgreSQL that was installed with the operator, if it has none
    #[arg(long)]
    pub make_postgresql_password: bool,
    /// Do nothing while another operator of this cluster does: the one that holds the Lease works, the others wait
    #[arg(long, alias = "enable-leader-election")]
    pub leader_elect: bool,
    /// The namespace of that Lease
    #[arg(long, alias = "leader-election-namespace", value_name = "NAMESPACE", default_value = tenancy::names::SYSTEM_NAMESPACE)]
    pub leader_elect_namespace: String,
    /// Where to say whether it is well: /healthz and /readyz [default: nowhere]
    #[arg(long, alias = "healthz-addr", value_name = "HOST:PORT")]
    pub health_probe_bind_address: Option<SocketAddr>,
    /// Where to say what AWS was asked, under ACK's names: /metrics [default: nowhere]
    #[arg(long, alias = "metrics-addr", value_name = "HOST:PORT")]
    pub metrics_bind_address: Option<SocketAddr>,
    #[command(flatten)]
    pub logging: logs::Options,
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
pub struct Place {
    /// Control plane NAME is reached at NAME.DOMAIN
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// The port there
    #[arg(long, value_name = "PORT")]
    pub external_port: Option<u16>,
    /// The container of the cluster, where the cluster is one
    #[arg(long, value_name = "NAME")]
    pub host_container: Option<String>,
    /// Whether the cluster is OpenShift
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub is_openshift: Option<bool>,
}

/// What the operator is told about the cluster.
#[derive(Args, Clone, Debug)]
pub struct Cluster {
    /// What leads to control planes from outside
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub expose: Exposing,
    #[arg(long, value_name = "NAME", default_value = "nginx")]
    pub ingress_class: String,
    /// A Gateway that passes TLS on: NAMESPACE/NAME or NAMESPACE/NAME/LISTENER
    #[arg(long, value_name = "GATEWAY", value_parser = Gateway::parse)]
    pub gateway: Option<Gateway>,
    /// Of the Services of control planes
    #[arg(long, value_name = "TYPE", default_value = "NodePort", value_parser = ["NodePort", "ClusterIP", "LoadBalancer"])]
    pub service_type: String,
    /// Of volumes of control planes [default: the cluster's own]
    #[arg(long, value_name = "NAME")]
    pub storage_class: Option<String>,
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi")]
    pub volume_size: String,
    /// The Secret in kubeflex-system whose key url names the shared store
    #[arg(long, value_name = "NAME", default_value = "hangar-store")]
    pub store_secret: String,
    /// Addresses that control planes may have the server connect to beside public ones, as CIDR ranges; any number of times
    #[arg(long, value_name = "CIDR", env = "HANGAR_EGRESS_ALLOW", value_delimiter = ',', value_parser = egress_range)]
    pub egress_allow: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exposing {
    /// A Gateway if one is named, a Route on OpenShift, else an Ingress
    Auto,
    Ingress,
    Route,
    Gateway,
    None,
}

impl Exposing {
    pub fn wish(self) -> Expose {
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
pub struct ManifestOptions {
    /// Where the operator itself is to be
    #[arg(long, value_name = "NAMESPACE", default_value = tenancy::names::SYSTEM_NAMESPACE)]
    pub namespace: String,
    #[command(flatten)]
    pub image: Image,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub cluster: Cluster,
    /// Let the operator make control planes of type host, whose accounts administer the cluster
    #[arg(long)]
    pub allow_host_type: bool,
    #[command(flatten)]
    pub database: Database,
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
    pub fn installation(self) -> anyhow::Result<Installation> {
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
    pub fn check(&self) -> anyhow::Result<()> {
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
        let ranges = self.egress_allow.iter().map(|range| ("egress-allow", Some(range.clone())));
        said.into_iter()
            .chain(ranges)
            .filter_map(|(flag, value)| Some(format!("--{flag}={}", value?)))
            .collect()
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
        check(&["--egress-allow=10.0.0.0/8", "--egress-allow=fd00::/8"]);
    }
}
