//! Terraform providers on a cluster that is there already: `Provider` objects and the kind of all types are defined there, and of
//! the others those that are named, since each costs a cluster megabytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::terraform::driver::Terraform;
use ::terraform::module::Modules;
use ::terraform::plugin::{Pool, PoolSettings};
use ::terraform::providers::{self, Programs, Providers};
use ::terraform::queries::Queries;
use ::terraform::registry::Registry;
use anyhow::Context;
use clap::Args;
use egress::Egress;
use provision::{Limits, Metrics, Settings};
use runtime::{Controller, Options, RemoteFleet, Runtime};
use tenancy::kubernetes::manifests;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::HOSTING;
use crate::clouds::providers::ProviderOptions;
use crate::clouds::terraform::backends;
use crate::controlling::Running;

#[derive(Args, Clone, Debug, Default)]
pub struct TerraformOptions {
    /// Serve Terraform providers: programs called terraform-provider-NAME in this directory, and Provider objects
    #[arg(long, value_name = "DIRECTORY")]
    pub terraform_plugin_dir: Option<PathBuf>,
    /// Types that get a kind of their own, such as linode_instance; the kind Resource serves all
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub terraform_types: Vec<String>,
    /// Terraform modules that objects may name are in this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub terraform_module_dir: Option<PathBuf>,
    #[command(flatten)]
    pub providers: ProviderOptions,
}

/// Looks after resources of providers until `stop`; none if no directory is named.
pub async fn start(
    client: &kube::Client,
    options: &TerraformOptions,
    key: &[u8; 32],
    egress: Egress,
    policy: egress::Policy,
    stop: CancellationToken,
) -> anyhow::Result<Option<Running>> {
    let Some(directory) = &options.terraform_plugin_dir else { return Ok(None) };
    let directory = std::fs::canonicalize(directory)
        .with_context(|| format!("--terraform-plugin-dir {} cannot be used", directory.display()))?;
    let sockets = std::env::temp_dir().join(format!("hangar-{}", std::process::id()));
    // The credentials of its own that an operator has as files.
    let hidden = ["KUBECONFIG", "HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let hidden = hidden.chain([PathBuf::from("/var/run/secrets"), PathBuf::from("/run/secrets")]).collect();
    let isolation = options.providers.isolation(&sockets, hidden, policy).await?;
    let pool = Pool::new(PoolSettings::new(isolation));
    let registry = Arc::new(Registry::only(options.terraform_types.iter().cloned()));
    manifests::apply(client, &[providers::definition()])
        .await
        .context("the kind Provider cannot be defined")?;
    Programs::default().serve(&registry, &pool, &directory).await;
    define(client, &registry).await?;
    let driver = Terraform::new(registry.clone(), pool.clone(), key)?;
    let driver = driver.with_backends(backends()).with_egress(egress);
    let engine = provision::Engine::new(
        Arc::new(driver),
        Settings::new(key),
        Arc::new(Limits::default()),
        Arc::new(Metrics::default()),
    );
    let changed = Arc::new(Notify::new());
    let fleet = Arc::new(RemoteFleet::new(HOSTING, client.clone()));
    let following = Providers {
        registry: registry.clone(),
        pool: pool.clone(),
        hosting: HOSTING.to_owned(),
        cache: cache(&sockets),
        directory: Some(directory),
        changed: {
            let changed = changed.clone();
            Arc::new(move || changed.notify_one())
        },
        fleets: vec![fleet.clone()],
        tells: true,
    };
    let openings = engine.driver().openings().clone();
    let modules = Modules::new(engine.clone(), options.terraform_module_dir.clone());
    let queries = Queries::new(engine.clone());
    let controllers: Vec<Box<dyn Controller>> =
        vec![Box::new(engine), Box::new(following), Box::new(modules), Box::new(queries)];
    let runtime = Runtime::new(fleet, controllers, Options::default());
    let (handle, client) = (runtime.handle(), client.clone());
    Ok(Some(tokio::spawn(async move {
        let telling = tokio::spawn(async move {
            loop {
                changed.notified().await;
                match define(&client, &registry).await {
                    Ok(()) => handle.kinds_changed().await,
                    Err(error) => {
                        tracing::warn!(error = format!("{error:#}"), "kinds of a provider are missing")
                    }
                }
            }
        });
        let ended = pool.until_ended(stop.cancelled(), runtime.run(stop.clone())).await;
        telling.abort();
        openings.close().await;
        pool.close();
        ended
    })))
}

/// Archives are unpacked anew after a restart: nothing of the operator's own is kept.
fn cache(sockets: &Path) -> PathBuf {
    sockets.join("cache")
}

async fn define(client: &kube::Client, registry: &Registry) -> anyhow::Result<()> {
    let definitions: Vec<_> = registry.offers().iter().map(|offer| offer.whole()).collect();
    manifests::apply(client, &definitions).await.context("kinds cannot be defined")
}
