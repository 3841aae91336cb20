//! What `hangar up` can be told: by flag, by environment, or in a file, in this order of precedence.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clouds::aws::AwsOptions;
use crate::clouds::providers::ProviderOptions;
use crate::files;
use crate::keys::KeyOptions;
use crate::limits::LimitOptions;
use crate::stores::{self, Named, Wanted};

/// Flags of `hangar up`. All are optional: what is not said comes from the file, or is the default.
#[derive(Args, Clone, Default, Serialize, Deserialize, Debug)]
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
    #[command(flatten)]
    #[serde(flatten)]
    pub host: HostOptions,
    /// A YAML file with any of these, in camelCase
    #[arg(long, value_name = "FILE", env = "HANGAR_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}

/// Those that `hangar init` takes too, for the server that it starts in the background.
#[derive(Args, Clone, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase", default)]
pub struct HostOptions {
    /// What to store in: embedded, embedded:DIR, postgres://... or etcd://... [default: embedded]
    #[arg(long, value_name = "STORE", env = "HANGAR_STORE", hide_env_values = true)]
    pub store: Option<String>,
    /// Memory for copies of what is read, of each store, in MiB; 0 is none [default: 256; of an embedded store 64]
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
    /// The longest life of a service account's token that a client can ask for; 0 is no limit [default: 48h]
    #[arg(long, value_name = "DURATION", env = "HANGAR_SERVICE_ACCOUNT_MAX_TOKEN_EXPIRATION")]
    pub service_account_max_token_expiration: Option<String>,
    /// Seconds to serve on after being asked to end, not ready any more [default: 5 on a shared store, else 0]
    #[arg(long, value_name = "SECONDS", env = "HANGAR_SHUTDOWN_DELAY")]
    pub shutdown_delay: Option<u64>,
    /// Addresses that control planes may have the server connect to beside public ones, as CIDR ranges; any number of times
    #[arg(long, value_name = "CIDR", env = "HANGAR_EGRESS_ALLOW", value_delimiter = ',', value_parser = egress_range)]
    pub egress_allow: Vec<String>,
    #[command(flatten)]
    pub limits: LimitOptions,
    #[command(flatten)]
    pub encryption: KeyOptions,
    #[command(flatten)]
    pub aws: AwsOptions,
    /// Serve Terraform providers, whose programs or mirror are in this directory [default: none]
    #[arg(long, value_name = "DIR", env = "HANGAR_TERRAFORM_PLUGIN_DIR")]
    pub terraform_plugin_dir: Option<PathBuf>,
    /// Terraform modules that objects of all control planes may name are in this directory [default: none]
    #[arg(long, value_name = "DIR", env = "HANGAR_TERRAFORM_MODULE_DIR")]
    pub terraform_module_dir: Option<PathBuf>,
    #[command(flatten)]
    #[serde(rename = "terraformProviders")]
    pub providers: ProviderOptions,
}

/// Of tokens, unless something else is said.
pub const MAX_TOKEN_EXPIRATION: &str = "48h";
const HOUR: Duration = Duration::from_secs(3_600);

/// The longest life of a token; none is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenExpiration(pub Option<Duration>);

/// Within the limits that upstream has for the setting.
pub fn token_expiration(text: &str) -> Result<TokenExpiration, String> {
    let lifetime = crate::commands::duration(text)?;
    if lifetime.is_zero() {
        return Ok(TokenExpiration(None));
    }
    if lifetime < HOUR || lifetime.as_secs() > 1 << 32 {
        return Err(
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds".to_owned()
        );
    }
    Ok(TokenExpiration(Some(lifetime)))
}

/// Refuses what is not a range where it is said.
pub fn egress_range(text: &str) -> Result<String, egress::RangeError> {
    egress::Ranges::parse([text]).map(|_| text.to_owned())
}

impl UpOptions {
    /// These, and where they say nothing, the others.
    fn over(self, other: UpOptions) -> UpOptions {
        UpOptions {
            data_dir: self.data_dir.or(other.data_dir),
            listen: self.listen.or(other.listen),
            domain: self.domain.or(other.domain),
            kubeconfig: self.kubeconfig.or(other.kubeconfig),
            host: self.host.over(other.host),
            config: self.config.or(other.config),
        }
    }

    /// Writes what is said here into a file, and leaves what else it says. Returns whether that is anything new.
    pub fn remember(self, file: &Path) -> anyhow::Result<bool> {
        let before = if file.exists() { read(file)? } else { UpOptions::default() };
        let (known, all) = (before.said()?, self.over(before).said()?);
        files::write_private(file, wire::yaml::encode(&all).as_bytes())?;
        Ok(all != known)
    }

    fn said(&self) -> anyhow::Result<Value> {
        let mut all = serde_json::to_value(self).context("options cannot be written")?;
        leave_out_unsaid(&mut all);
        Ok(all)
    }
}

impl HostOptions {
    fn over(self, other: HostOptions) -> HostOptions {
        HostOptions {
            store: self.store.or(other.store),
            read_cache: self.read_cache.or(other.read_cache),
            with_store: if self.with_store.is_empty() { other.with_store } else { self.with_store },
            log_level: self.log_level.or(other.log_level),
            log_format: self.log_format.or(other.log_format),
            audit_log: self.audit_log.or(other.audit_log),
            audit_policy: self.audit_policy.or(other.audit_policy),
            admin_token_file: self.admin_token_file.or(other.admin_token_file),
            service_account_max_token_expiration: self
                .service_account_max_token_expiration
                .or(other.service_account_max_token_expiration),
            shutdown_delay: self.shutdown_delay.or(other.shutdown_delay),
            egress_allow: if self.egress_allow.is_empty() { other.egress_allow } else { self.egress_allow },
            limits: self.limits.over(other.limits),
            encryption: self.encryption.over(other.encryption),
            aws: self.aws.over(other.aws),
            terraform_plugin_dir: self.terraform_plugin_dir.or(other.terraform_plugin_dir),
            terraform_module_dir: self.terraform_module_dir.or(other.terraform_module_dir),
            providers: self.providers.over(other.providers),
        }
    }

    /// The same for a process that runs in another directory.
    pub fn with_whole_paths(mut self) -> anyhow::Result<HostOptions> {
        let paths = [
            &mut self.audit_log,
            &mut self.audit_policy,
            &mut self.admin_token_file,
            &mut self.encryption.encryption_key_file,
            &mut self.terraform_plugin_dir,
            &mut self.terraform_module_dir,
        ];
        for path in paths.into_iter().flatten() {
            *path = absolute(path)?;
        }
        let whole = |dir: &str| anyhow::Ok(format!("embedded:{}", absolute(Path::new(dir))?.display()));
        if let Some(store) = &mut self.store
            && let Some(dir) = store.strip_prefix("embedded:")
        {
            *store = whole(dir)?;
        }
        for store in &mut self.with_store {
            if let Some((name, dir)) = store.split_once("=embedded:") {
                *store = format!("{name}={}", whole(dir)?);
            }
        }
        Ok(self)
    }
}

/// A path that means the same in every directory.
pub fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot tell where {} is", path.display()))
}

fn leave_out_unsaid(value: &mut Value) {
    if let Value::Object(members) = value {
        members.values_mut().for_each(leave_out_unsaid);
        members.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(all) => !all.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => true,
        });
    }
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
    /// The longest that a client can ask for; none is no limit.
    pub max_token_lifetime: Option<Duration>,
    pub terraform_module_dir: Option<PathBuf>,
    pub egress_allow: egress::Ranges,
    pub encryption: KeyOptions,
    pub limits: LimitOptions,
    pub aws: AwsOptions,
    pub providers: ProviderOptions,
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
        let UpOptions { data_dir, listen, domain, kubeconfig, host, .. } = flags.over(file);
        let data_dir = match data_dir {
            Some(dir) => dir,
            None => home()?.join(".hangar"),
        };
        let listen = listen.unwrap_or_else(|| "127.0.0.1:6443".to_owned());
        let listen = listen
            .parse()
            .with_context(|| format!("--listen {listen:?} is not an address like 127.0.0.1:6443"))?;
        let store = Wanted::new(host.store, None).place(&data_dir)?;
        let stores = stores::all(store, &host.with_store, &data_dir)?;
        let log_format = host.log_format.unwrap_or_else(|| "text".to_owned());
        if !matches!(log_format.as_str(), "text" | "json") {
            bail!("--log-format {log_format:?} is not known: use text or json");
        }
        let domain = domain.unwrap_or_else(|| "hangar.localhost".to_owned());
        if let Some(why) = objects::names::dns1123_subdomain(&domain).first() {
            bail!("--domain {domain:?} is not a domain: {why}");
        }
        let audit = match (host.audit_log, host.audit_policy) {
            (Some(log), policy) => Some(Audit { log, policy }),
            (None, None) => None,
            (None, Some(_)) => bail!("--audit-policy needs a file to write to: add --audit-log FILE"),
        };
        let egress_allow = egress::Ranges::parse(&host.egress_allow).context("egressAllow")?;
        let expiration = host.service_account_max_token_expiration.as_deref().unwrap_or(MAX_TOKEN_EXPIRATION);
        let max_token_lifetime = token_expiration(expiration)
            .map_err(|why| anyhow::anyhow!("--service-account-max-token-expiration: {why}"))?
            .0;
        Ok(Configuration {
            egress_allow,
            limits: host.limits,
            kubeconfig: kubeconfig.unwrap_or_else(|| data_dir.join("kubeconfig")),
            data_dir,
            listen,
            domain,
            stores,
            read_cache: host.read_cache,
            log_level: host.log_level.unwrap_or_else(|| "info".to_owned()),
            json_logs: log_format == "json",
            audit,
            admin_token_file: host.admin_token_file,
            terraform_plugin_dir: host.terraform_plugin_dir,
            shutdown_delay: host.shutdown_delay,
            max_token_lifetime,
            terraform_module_dir: host.terraform_module_dir,
            encryption: host.encryption,
            aws: host.aws,
            providers: host.providers,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_once_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let said = |options: Value| serde_json::from_value::<UpOptions>(options).unwrap();
        let check = |options: Value, expected: Value| {
            said(options.clone()).remember(&file).unwrap();
            assert!(!said(options).remember(&file).unwrap(), "nothing of it is new now");
            let text = std::fs::read_to_string(&file).unwrap();
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, expected, "{text}");
            // It is one that `up` takes.
            read_back(&file);
        };
        check(json!({}), json!({}));
        check(
            json!({"listen": "127.0.0.1:1", "auditLog": "/a", "withStore": ["a=embedded"], "aws": {"aws": true}}),
            json!({"listen": "127.0.0.1:1", "auditLog": "/a", "withStore": ["a=embedded"], "aws": {"aws": true}}),
        );
        check(
            json!({"auditLog": "/b", "shutdownDelay": 0, "aws": {"awsRegion": "eu-west-1", "enableCarm": false}}),
            json!({
                "listen": "127.0.0.1:1", "auditLog": "/b", "withStore": ["a=embedded"], "shutdownDelay": 0,
                "aws": {"aws": true, "awsRegion": "eu-west-1", "enableCarm": false},
            }),
        );
        assert!(said(json!({"auditLog": "/c"})).remember(&file).unwrap());
        // What a person has put there stays, and what cannot be meant is not passed over.
        std::fs::write(&file, "store: embedded:/elsewhere\n").unwrap();
        check(json!({"logLevel": "debug"}), json!({"store": "embedded:/elsewhere", "logLevel": "debug"}));
        std::fs::write(&file, "auditlog: /a\n").unwrap();
        let refused = format!("{:#}", said(json!({})).remember(&file).unwrap_err());
        assert!(refused.contains("unknown field `auditlog`"), "{refused}");
        std::fs::write(&file, "aws: {region: x}\n").unwrap();
        assert!(read(&file).is_err());
    }

    fn read_back(file: &Path) {
        Configuration::resolve(UpOptions {
            config: Some(file.to_owned()),
            data_dir: Some("/data".into()),
            ..UpOptions::default()
        })
        .unwrap();
    }

    #[test]
    fn paths_are_of_where_they_were_said() {
        let here = std::env::current_dir().unwrap();
        let host = HostOptions {
            audit_log: Some("logs/audit".into()),
            audit_policy: Some("/policy".into()),
            store: Some("embedded:a=b".to_owned()),
            with_store: vec!["a=embedded:b".to_owned(), "c=embedded".to_owned(), "d=etcd://e".to_owned()],
            ..HostOptions::default()
        };
        let host = host.with_whole_paths().unwrap();
        assert_eq!(host.audit_log, Some(here.join("logs/audit")));
        assert_eq!(host.audit_policy, Some("/policy".into()));
        assert_eq!(host.store, Some(format!("embedded:{}", here.join("a=b").display())));
        let near = format!("a=embedded:{}", here.join("b").display());
        assert_eq!(host.with_store, [near.as_str(), "c=embedded", "d=etcd://e"]);
    }
}
