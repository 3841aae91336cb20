//! What `hangar up` can be told: by flag, by environment, or in a file, in this order of precedence.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde::Deserialize;

use crate::clouds::aws::AwsOptions;
use crate::stores::{self, Named, Wanted};

/// Flags of `hangar up`. All are optional: what is not said comes from the file, or is the default.
#[derive(Args, Default, Deserialize, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpOptions {
    /// Where everything is kept [default: ~/.hangar]
    #[arg(long, value_name = "DIR", env = "HANGAR_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The address to serve on [default: 127.0.0.1:6443]
    #[arg(long, value_name = "HOST:PORT", env = "HANGAR_LISTEN")]
    pub listen: Option<String>,
    /// Control plane NAME answers to NAME.DOMAIN [default: hangar.localhost]
    #[arg(long, value_name = "DOMAIN", env = "HANGAR_DOMAIN")]
    pub domain: Option<String>,
    /// Where to write the kubeconfig of the hosting control plane [default: DATA_DIR/kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// What to store in: embedded, embedded:DIR, postgres://... or etcd://... [default: embedded]
    #[arg(long, value_name = "STORE", env = "HANGAR_STORE", hide_env_values = true)]
    pub store: Option<String>,
    /// Memory for copies of what is read from a database, in MiB; 0 is none [default: 256]
    #[arg(long, value_name = "MIB", env = "HANGAR_READ_CACHE")]
    pub read_cache: Option<usize>,
    /// A further store for control planes, NAME=STORE; any number of times
    #[arg(
        long,
        value_name = "NAME=STORE",
        env = "HANGAR_WITH_STORE",
        hide_env_values = true,
        value_delimiter = ' '
    )]
    pub with_store: Vec<String>,
    /// error, warn, info, debug or trace, or a filter like apiserver=debug [default: info]
    #[arg(long, value_name = "LEVEL", env = "HANGAR_LOG_LEVEL")]
    pub log_level: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT", env = "HANGAR_LOG_FORMAT")]
    pub log_format: Option<String>,
    /// Write what is done in all control planes to this file, one JSON event a line [default: nowhere]
    #[arg(long, value_name = "FILE", env = "HANGAR_AUDIT_LOG")]
    pub audit_log: Option<PathBuf>,
    /// How much to write of what, an audit.k8s.io/v1 Policy [default: writes and secrets, without contents]
    #[arg(long, value_name = "FILE", env = "HANGAR_AUDIT_POLICY")]
    pub audit_policy: Option<PathBuf>,
    /// A file with a token whose bearer administers the hosting control plane [default: none]
    #[arg(long, value_name = "FILE", env = "HANGAR_ADMIN_TOKEN_FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// Seconds to serve on after being asked to end, not ready any more [default: 5 on a shared store, else 0]
    #[arg(long, value_name = "SECONDS", env = "HANGAR_SHUTDOWN_DELAY")]
    pub shutdown_delay: Option<u64>,
    #[command(flatten)]
    pub aws: AwsOptions,
    /// Serve Terraform providers, whose programs or mirror are in this directory [default: none]
    #[arg(long, value_name = "DIR", env = "HANGAR_TERRAFORM_PLUGIN_DIR")]
    pub terraform_plugin_dir: Option<PathBuf>,
    /// Terraform modules that objects of all control planes may name are in this directory [default: none]
    #[arg(long, value_name = "DIR", env = "HANGAR_TERRAFORM_MODULE_DIR")]
    pub terraform_module_dir: Option<PathBuf>,
    /// A YAML file with any of these, in camelCase
    #[arg(long, value_name = "FILE", env = "HANGAR_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}

/// The same, complete.
#[derive(Debug, Clone)]
pub struct Configuration {
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    pub domain: String,
    pub kubeconfig: PathBuf,
    /// The default store, and others.
    pub stores: Vec<Named>,
    /// In MiB.
    pub read_cache: Option<usize>,
    pub log_level: String,
    pub json_logs: bool,
    pub audit: Option<Audit>,
    pub admin_token_file: Option<PathBuf>,
    pub terraform_plugin_dir: Option<PathBuf>,
    pub shutdown_delay: Option<u64>,
    pub terraform_module_dir: Option<PathBuf>,
    pub aws: AwsOptions,
}

/// Where to tell what is done, and how much of it.
#[derive(Debug, Clone)]
pub struct Audit {
    pub log: PathBuf,
    pub policy: Option<PathBuf>,
}

impl Configuration {
    pub fn resolve(flags: UpOptions) -> anyhow::Result<Self> {
        let file = match &flags.config {
            Some(path) => read(path)?,
            None => UpOptions::default(),
        };
        let data_dir = match flags.data_dir.or(file.data_dir) {
            Some(dir) => dir,
            None => home()?.join(".hangar"),
        };
        let listen = flags.listen.or(file.listen).unwrap_or_else(|| "127.0.0.1:6443".to_owned());
        let listen = listen
            .parse()
            .with_context(|| format!("--listen {listen:?} is not an address like 127.0.0.1:6443"))?;
        let store = Wanted::new(flags.store.or(file.store), None).place(&data_dir)?;
        let others = if flags.with_store.is_empty() { file.with_store } else { flags.with_store };
        let stores = stores::all(store, &others, &data_dir)?;
        let log_format = flags.log_format.or(file.log_format).unwrap_or_else(|| "text".to_owned());
        if !matches!(log_format.as_str(), "text" | "json") {
            bail!("--log-format {log_format:?} is not known: use text or json");
        }
        let domain = flags.domain.or(file.domain).unwrap_or_else(|| "hangar.localhost".to_owned());
        if let Some(why) = objects::names::dns1123_subdomain(&domain).first() {
            bail!("--domain {domain:?} is not a domain: {why}");
        }
        let audit = match (flags.audit_log.or(file.audit_log), flags.audit_policy.or(file.audit_policy)) {
            (Some(log), policy) => Some(Audit { log, policy }),
            (None, None) => None,
            (None, Some(_)) => bail!("--audit-policy needs a file to write to: add --audit-log FILE"),
        };
        Ok(Configuration {
            kubeconfig: flags.kubeconfig.or(file.kubeconfig).unwrap_or_else(|| data_dir.join("kubeconfig")),
            data_dir,
            listen,
            domain,
            stores,
            read_cache: flags.read_cache.or(file.read_cache),
            log_level: flags.log_level.or(file.log_level).unwrap_or_else(|| "info".to_owned()),
            json_logs: log_format == "json",
            audit,
            admin_token_file: flags.admin_token_file.or(file.admin_token_file),
            terraform_plugin_dir: flags.terraform_plugin_dir.or(file.terraform_plugin_dir),
            shutdown_delay: flags.shutdown_delay.or(file.shutdown_delay),
            terraform_module_dir: flags.terraform_module_dir.or(file.terraform_module_dir),
            aws: flags.aws.over(file.aws),
        })
    }
}

fn read(path: &Path) -> anyhow::Result<UpOptions> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    if text.trim().is_empty() {
        return Ok(UpOptions::default());
    }
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not a valid configuration", path.display()))
}

fn home() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from).context("$HOME is not set: say where to keep data with --data-dir")
}
