//! Clouds on a cluster that is there already: their definitions are applied to it, and their objects looked after.

use std::sync::Arc;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use egress::{Client, Egress, Policy, Ranges};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use provision::Metrics;
use runtime::RemoteFleet;
use serde_json::json;
use tenancy::kubernetes::manifests;
use tokio_util::sync::CancellationToken;

use super::HOSTING;
use super::terraform::{self, TerraformOptions};
use crate::clouds::Shared;
use crate::clouds::aws::AwsOptions;
use crate::controlling::{self, Running};

/// Where the key that fingerprints of secrets are made with is kept.
const NAMESPACE: &str = "kube-system";
const SECRET: &str = "hangar-clouds";
const KEY: &str = "fingerprints";

/// Looks after the clouds that are set up, until `stop`; none if there are none.
pub async fn start(
    client: &kube::Client,
    aws: &AwsOptions,
    providers: &TerraformOptions,
    metrics: &Arc<Metrics>,
    allowed: Ranges,
    stop: CancellationToken,
) -> anyhow::Result<Option<Running>> {
    if !aws.aws_credentials_for.is_empty() {
        bail!(
            "--aws-credentials-for is for hangar up: the credentials of this process serve this one cluster"
        );
    }
    if !aws.wanted() && providers.terraform_plugin_dir.is_none() {
        return Ok(None);
    }
    let key = key(client).await?;
    let policy = Policy::new(allowed);
    let egress = Egress::new(Client::default(), Arc::new(policy.clone()));
    let of_terraform =
        terraform::start(client, providers, &key, egress.clone(), policy, stop.clone()).await?;
    let shared = Shared { metrics: metrics.clone(), ..Shared::of_cluster(key, egress) };
    let of_aws = start_aws(client, aws, &shared, stop).await?;
    let all: Vec<Running> = of_aws.into_iter().chain(of_terraform).collect();
    Ok((!all.is_empty()).then(|| controlling::together(all, Vec::new())))
}

async fn start_aws(
    client: &kube::Client,
    aws: &AwsOptions,
    shared: &Shared,
    stop: CancellationToken,
) -> anyhow::Result<Option<Running>> {
    let Some(cloud) = aws.set_up(shared).await? else { return Ok(None) };
    manifests::apply(client, &cloud.definitions()?).await.context("kinds cannot be defined")?;
    tracing::info!(cloud = cloud.name(), "its kinds are defined");
    let fleet = Arc::new(RemoteFleet::new(HOSTING, client.clone()));
    Ok(Some(tokio::spawn(runtime::run(fleet, cloud.controllers(), stop))))
}

/// The key of this cluster, made at the first start.
async fn key(client: &kube::Client) -> anyhow::Result<[u8; 32]> {
    let kind = ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        plural: "secrets".to_owned(),
    };
    let secrets: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind);
    let cannot = || format!("Secret {NAMESPACE}/{SECRET} cannot be used");
    let found = match secrets.get_opt(SECRET).await.with_context(cannot)? {
        Some(found) => found,
        None => {
            let made = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE},
                "data": {KEY: STANDARD.encode(rand::random::<[u8; 32]>())},
            });
            let made: DynamicObject = serde_json::from_value(made)?;
            match secrets.create(&PostParams::default(), &made).await {
                Ok(made) => made,
                // Another one was quicker.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    secrets.get(SECRET).await.with_context(cannot)?
                }
                Err(error) => return Err(error).with_context(cannot),
            }
        }
    };
    let held = found.data.pointer(&format!("/data/{KEY}")).and_then(|held| held.as_str());
    let bytes = held.and_then(|held| STANDARD.decode(held).ok()).and_then(|bytes| bytes.try_into().ok());
    bytes.with_context(|| format!("Secret {NAMESPACE}/{SECRET} does not hold a key of 32 bytes in {KEY:?}"))
}
