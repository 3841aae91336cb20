//! AWS: its flags (ACK's names where ACK has them), and how it is set up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver::catalog::Offer;
use async_trait::async_trait;
use aws::client::Http;
use aws::credentials;
use aws::driver::{AwsDriver, Settings};
use aws::kinds::{self, KindFacts};
use clap::Args;
use provision::dialect::ack::exports::FieldExports;
use provision::dialect::ack::{Gates, definitions, tags};
use provision::policies::DeletionPolicy;
use provision::{Failure, Preview, Watched};
use runtime::{Controller, Fleet};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::grants::Entry;
use super::{Cloud, Shared};

/// What AWS can be told. It is set up when anything of it is.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AwsOptions {
    /// Serve AWS's kinds in every control plane and look after them; also meant by any other of these
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aws: bool,
    /// The region of objects and namespaces that name none [default: that of the environment or profile]
    #[arg(long, value_name = "REGION")]
    pub aws_region: Option<String>,
    /// Where all of AWS's services are asked, instead of at AWS: an emulator, say
    #[arg(long, value_name = "URL")]
    pub aws_endpoint_url: Option<String>,
    /// Where AWS is asked for identities and roles (STS), where that is elsewhere
    #[arg(long, value_name = "URL")]
    pub aws_identity_endpoint_url: Option<String>,
    /// Accept an endpoint that is reached in the clear and is not on this machine
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_unsafe_aws_endpoint_urls: bool,
    /// Put the bucket into the path of S3's requests, at AWS itself too
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aws_endpoint_use_path_style: bool,
    /// A control plane that AWS is used for with this process's credentials, NAME, or only with a role that they assume, NAME=ARN; the
    /// name * means all. Other control planes need a Secret aws-credentials of their own
    #[arg(long, value_name = "NAME[=ROLE]", value_delimiter = ',')]
    pub aws_credentials_for: Vec<String>,
    /// Not even the hosting control plane uses AWS with this process's credentials
    #[arg(long, conflicts_with = "aws_credentials_for")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aws_own_credentials_only: bool,
    /// The seconds that a request may take [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub http_client_timeout: Option<u64>,
    /// The seconds for which AWS's lists may not show what was made; 0 for an emulator [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub aws_listing_lag: Option<u64>,
    /// A tag for everything that is made, KEY=VALUE with ACK's variables; instead of the usual ones
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub resource_tags: Vec<String>,
    /// What becomes of resources whose objects are deleted: delete or retain [default: delete]
    #[arg(long, value_name = "POLICY")]
    pub deletion_policy: Option<String>,
    /// Only these namespaces [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub watch_namespace: Vec<String>,
    /// Only objects with these labels
    #[arg(long, value_name = "SELECTOR")]
    pub watch_selectors: Option<String>,
    /// Only these kinds, such as Bucket or buckets.s3.services.k8s.aws [default: all]
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub reconcile_resources: Vec<String>,
    /// How often a settled resource is looked at [default: 600]
    #[arg(long, value_name = "SECONDS")]
    pub reconcile_default_resync_seconds: Option<u64>,
    /// The same for single kinds, Bucket=60; may be given several times
    #[arg(long, value_name = "KIND=SECONDS", value_delimiter = ',')]
    pub reconcile_resource_resync_seconds: Vec<String>,
    /// Whether fields are exported to ConfigMaps and Secrets as FieldExports say [default: true]
    #[arg(long, value_name = "BOOL")]
    pub enable_field_export_reconciler: Option<bool>,
    /// ACK's feature gates, A=true,B=false
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Option<String>,
    /// Whether roles are looked up in the maps of accounts and teams [default: true]
    #[arg(long, value_name = "BOOL")]
    pub enable_carm: Option<bool>,
    /// Whether references and secrets of other namespaces may be used [default: true]
    #[arg(long, value_name = "BOOL")]
    pub enable_cross_namespace: Option<bool>,
}

impl AwsOptions {
    /// These, and where they say nothing, the others.
    #[must_use]
    pub fn over(self, other: AwsOptions) -> AwsOptions {
        let list = |own: Vec<String>, other: Vec<String>| if own.is_empty() { other } else { own };
        AwsOptions {
            aws: self.aws || other.aws,
            aws_region: self.aws_region.or(other.aws_region),
            aws_endpoint_url: self.aws_endpoint_url.or(other.aws_endpoint_url),
            aws_identity_endpoint_url: self.aws_identity_endpoint_url.or(other.aws_identity_endpoint_url),
            allow_unsafe_aws_endpoint_urls: self.allow_unsafe_aws_endpoint_urls
                || other.allow_unsafe_aws_endpoint_urls,
            aws_endpoint_use_path_style: self.aws_endpoint_use_path_style
                || other.aws_endpoint_use_path_style,
            aws_credentials_for: list(self.aws_credentials_for, other.aws_credentials_for),
            aws_own_credentials_only: self.aws_own_credentials_only || other.aws_own_credentials_only,
            http_client_timeout: self.http_client_timeout.or(other.http_client_timeout),
            aws_listing_lag: self.aws_listing_lag.or(other.aws_listing_lag),
            resource_tags: list(self.resource_tags, other.resource_tags),
            deletion_policy: self.deletion_policy.or(other.deletion_policy),
            watch_namespace: list(self.watch_namespace, other.watch_namespace),
            watch_selectors: self.watch_selectors.or(other.watch_selectors),
            reconcile_resources: list(self.reconcile_resources, other.reconcile_resources),
            reconcile_default_resync_seconds: self
                .reconcile_default_resync_seconds
                .or(other.reconcile_default_resync_seconds),
            reconcile_resource_resync_seconds: list(
                self.reconcile_resource_resync_seconds,
                other.reconcile_resource_resync_seconds,
            ),
            enable_field_export_reconciler: self
                .enable_field_export_reconciler
                .or(other.enable_field_export_reconciler),
            feature_gates: self.feature_gates.or(other.feature_gates),
            enable_carm: self.enable_carm.or(other.enable_carm),
            enable_cross_namespace: self.enable_cross_namespace.or(other.enable_cross_namespace),
        }
    }

    /// Whether AWS is to be set up at all.
    pub fn wanted(&self) -> bool {
        self.aws
            || self.aws_region.is_some()
            || self.aws_endpoint_url.is_some()
            || self.aws_own_credentials_only
            || !self.aws_credentials_for.is_empty()
            || !self.reconcile_resources.is_empty()
    }

    /// AWS as it is wanted, or none if it is not.
    pub async fn set_up(&self, shared: &Shared) -> anyhow::Result<Option<Box<dyn Cloud>>> {
        if !self.wanted() {
            return Ok(None);
        }
        let mut engine = provision::Settings::new(&shared.key);
        if let Some(seconds) = self.reconcile_default_resync_seconds.filter(|seconds| *seconds > 0) {
            engine.interval = Duration::from_secs(seconds);
        }
        engine.cross_namespace = self.enable_cross_namespace.unwrap_or(true);
        engine.watched = self.watched()?;
        let cross_namespace = engine.cross_namespace;
        let (driver, served) = (Arc::new(self.driver(shared).await?), served(&self.kinds()?));
        let engine = provision::Engine::new(driver, engine, shared.limits.clone(), shared.metrics.clone());
        let exports = self.enable_field_export_reconciler.unwrap_or(true);
        Ok(Some(Box::new(Aws { engine, cross_namespace, exports, served })))
    }

    /// The driver alone, for commands that ask AWS without a control plane.
    pub async fn driver(&self, shared: &Shared) -> anyhow::Result<AwsDriver> {
        if let Some(fault) = aws::rules::faults().first() {
            bail!("AWS cannot be set up: {fault}");
        }
        let timeout = Duration::from_secs(self.http_client_timeout.unwrap_or(60));
        let http = Arc::new(Http::new(timeout));
        let (provider, region) = credentials::default_chain(http.clone(), self.aws_region.as_deref()).await;
        Ok(AwsDriver::new(http, provider, self.driver_settings(region, shared)?))
    }

    /// Whom the process's credentials serve.
    pub fn credentials_for(&self) -> anyhow::Result<Vec<Entry>> {
        if self.aws_own_credentials_only && !self.aws_credentials_for.is_empty() {
            bail!("--aws-own-credentials-only and --aws-credentials-for exclude each other");
        }
        let entries = self.aws_credentials_for.iter().map(|text| text.parse());
        entries.collect::<Result<_, _>>().context("--aws-credentials-for")
    }

    fn driver_settings(&self, region: Option<String>, shared: &Shared) -> anyhow::Result<Settings> {
        let endpoints = aws::endpoint::Settings::from_variables(std::env::vars());
        let mut settings = Settings { endpoints, ..Settings::default() };
        if let Some(url) = &self.aws_endpoint_url {
            self.check_endpoint("--aws-endpoint-url", url)?;
            settings.endpoints.url = Some(url.clone());
        }
        if let Some(url) = &self.aws_identity_endpoint_url {
            self.check_endpoint("--aws-identity-endpoint-url", url)?;
            settings.endpoints.services.insert("sts".to_owned(), url.clone());
        }
        settings.endpoints.path_style |= self.aws_endpoint_use_path_style;
        settings.defaults.region = region.unwrap_or_default().into();
        settings.defaults.carm = self.enable_carm.unwrap_or(true);
        if let Some(text) = &self.feature_gates {
            let gates = Gates::parse(text).with_context(|| format!("--feature-gates {text:?}"))?;
            settings.defaults.gates = gates.clone();
            settings.dialect.gates = gates;
        }
        settings.dialect.deletion_policy = match self.deletion_policy.as_deref() {
            None | Some("delete") => DeletionPolicy::Delete,
            Some("retain") => DeletionPolicy::Retain,
            Some(other) => bail!("--deletion-policy {other:?} is not known: use delete or retain"),
        };
        if !self.resource_tags.is_empty() {
            let parsed: Result<_, _> = self.resource_tags.iter().map(|tag| tags::parse(tag)).collect();
            settings.tags = parsed.context("--resource-tags")?;
        }
        settings.egress = shared.egress.clone();
        if !self.aws_own_credentials_only {
            settings.grants = shared.grants.clone();
        }
        settings.lag = self.aws_listing_lag.map_or(settings.lag, Duration::from_secs);
        settings.kinds = self.kinds()?;
        settings.intervals = self.intervals()?;
        Ok(settings)
    }

    /// A password in the clear is everybody's; on this machine there is nobody to overhear it.
    fn check_endpoint(&self, flag: &str, url: &str) -> anyhow::Result<()> {
        let parsed = url.parse::<http::Uri>().ok();
        let whole =
            |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        let parsed = parsed
            .filter(whole)
            .with_context(|| format!("{flag} {url:?} is no endpoint: give it as http(s)://host[:port]"))?;
        let host = parsed.host().unwrap_or_default().trim_matches(['[', ']']);
        let near = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if parsed.scheme_str() == Some("http") && !near && !self.allow_unsafe_aws_endpoint_urls {
            bail!("{flag} {url:?} is reached in the clear: add --allow-unsafe-aws-endpoint-urls to allow it");
        }
        Ok(())
    }

    fn watched(&self) -> anyhow::Result<Watched> {
        let mut watched = Watched::default();
        if !self.watch_namespace.is_empty() {
            for name in &self.watch_namespace {
                if let Some(why) = objects::names::dns1123_label(name).first() {
                    bail!("--watch-namespace {name:?} is no namespace: {why}");
                }
            }
            watched.namespaces = Some(self.watch_namespace.iter().cloned().collect());
        }
        if let Some(text) = &self.watch_selectors {
            watched.selector = objects::selector::labels::Selector::parse(text)
                .map_err(|error| anyhow::anyhow!("--watch-selectors {text:?} is no selector: {error}"))?;
        }
        Ok(watched)
    }

    fn kinds(&self) -> anyhow::Result<Vec<objects::CompactString>> {
        let mut all = Vec::new();
        for name in &self.reconcile_resources {
            let found = named(name).context("--reconcile-resources")?;
            all.extend(found.into_iter().map(|kind| resource(kind).into()));
        }
        Ok(all)
    }

    fn intervals(&self) -> anyhow::Result<BTreeMap<objects::CompactString, Duration>> {
        let mut all = BTreeMap::new();
        for text in &self.reconcile_resource_resync_seconds {
            let wrong = || format!("--reconcile-resource-resync-seconds {text:?}");
            let (name, seconds) = text.split_once('=').context("is not KIND=SECONDS").with_context(wrong)?;
            let seconds = seconds.parse().with_context(wrong)?;
            for kind in named(name).with_context(wrong)? {
                all.insert(resource(kind).into(), Duration::from_secs(seconds));
            }
        }
        Ok(all)
    }
}

/// The kinds that a name means: `Bucket`, or `buckets.s3.services.k8s.aws`.
pub fn named(name: &str) -> anyhow::Result<Vec<&'static KindFacts>> {
    let fits = |kind: &&KindFacts| kind.kind == name || resource(kind) == name;
    let found: Vec<_> = kinds::all().iter().filter(fits).collect();
    if found.is_empty() {
        bail!("{name:?} is no kind of AWS");
    }
    Ok(found)
}

fn resource(kind: &KindFacts) -> String {
    format!("{}.{}", kind.plural, kind.group())
}

fn served(wanted: &[objects::CompactString]) -> Vec<&'static KindFacts> {
    let all = kinds::all().iter();
    all.filter(|kind| wanted.is_empty() || wanted.iter().any(|name| *name == resource(kind))).collect()
}

struct Aws {
    engine: provision::Engine<AwsDriver>,
    cross_namespace: bool,
    /// Whether FieldExports are acted upon.
    exports: bool,
    served: Vec<&'static KindFacts>,
}

#[async_trait]
impl Cloud for Aws {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn offers(&self) -> Vec<Offer> {
        let of_services = self.served.iter().copied().map(|kind| Offer {
            definition: aws::crd::outline(kind),
            // A kind without a schema would take anything; rules that have none are found by the tests.
            schema: Arc::new(move |_| aws::crd::openapi_schema(kind).unwrap_or_default()),
            fingerprint: fingerprint(&resource(kind)),
        });
        let own =
            [definitions::field_export(), definitions::iam_role_selector()].into_iter().map(|mut whole| {
                let name = objects::meta::name(&whole).to_owned();
                let schema = whole["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
                if let Some(version) = whole["spec"]["versions"][0].as_object_mut() {
                    version.remove("schema");
                }
                Offer {
                    definition: whole,
                    schema: Arc::new(move |_| schema.clone()),
                    fingerprint: fingerprint(&name),
                }
            });
        of_services.chain(own).collect()
    }

    fn definitions(&self) -> anyhow::Result<Vec<Value>> {
        let of_services = self.served.iter().map(|kind| Ok(aws::crd::definition(kind)?));
        of_services.chain(definitions::all().into_iter().map(Ok)).collect()
    }

    fn knows(&self, object: &Value) -> bool {
        let group = objects::meta::api_version(object).split_once('/').map_or("", |(group, _)| group);
        self.served.iter().any(|kind| kind.kind == objects::meta::kind(object) && kind.group() == group)
    }

    fn controllers(&self) -> Vec<Box<dyn Controller>> {
        let mut all: Vec<Box<dyn Controller>> = vec![Box::new(self.engine.clone())];
        if self.exports {
            let exports = FieldExports::new(self.engine.driver().clone(), self.cross_namespace);
            all.push(Box::new(exports));
        }
        all
    }

    async fn plan(&self, fleet: &dyn Fleet, control_plane: &str, object: &Value) -> Result<Preview, Failure> {
        self.engine.plan(fleet, control_plane, object).await
    }
}

/// Schemas change with the program, and only with it.
fn fingerprint(name: &str) -> [u8; 32] {
    Sha256::digest(format!("{} {name}", env!("CARGO_PKG_VERSION"))).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn endpoints() {
        let check = |url: &str, unsafe_too: bool, expected: bool| {
            let options = AwsOptions { allow_unsafe_aws_endpoint_urls: unsafe_too, ..AwsOptions::default() };
            assert_eq!(options.check_endpoint("--aws-endpoint-url", url).is_ok(), expected, "{url}");
        };
        check("http://127.0.0.1:5000", false, true);
        check("http://[::1]:5000", false, true);
        check("http://localhost:5000", false, true);
        check("http://emulator:5000", false, false);
        check("http://emulator:5000", true, true);
        check("https://emulator", false, true);
        check("emulator", false, false);
        check("", true, false);
    }

    /// The chart gives the operator rights to every group, and has the version of the program.
    #[test]
    fn the_chart_knows_all_groups() {
        let chart = |path: &str| {
            let path = format!("{}/../../charts/hangar-aws/{path}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let told = chart("templates/rbac.yaml");
        let told: BTreeSet<&str> = told.lines().filter_map(|line| line.strip_prefix("  - ")).collect();
        let served: BTreeSet<String> = kinds::all().iter().map(KindFacts::group).collect();
        let served = served.iter().map(String::as_str).chain([kinds::GROUP_SUFFIX]).collect();
        assert_eq!(told, served);
        let version = env!("CARGO_PKG_VERSION");
        assert!(chart("Chart.yaml").contains(&format!("appVersion: {version}\n")));
        assert!(chart("values.yaml").contains(&format!("  tag: {version}\n")));
    }

    #[test]
    fn only_some_kinds() {
        let of = |names: &[&str]| {
            let options = AwsOptions {
                reconcile_resources: names.iter().map(|name| (*name).to_owned()).collect(),
                ..AwsOptions::default()
            };
            options.kinds().map(|kinds| kinds.len()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(of(&["Bucket"]), Ok(1));
        assert_eq!(of(&["buckets.s3.services.k8s.aws", "Queue"]), Ok(2));
        assert_eq!(of(&["Bukket"]), Err("--reconcile-resources: \"Bukket\" is no kind of AWS".to_owned()));
    }
}
