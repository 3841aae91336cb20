//! The clouds behind control planes: which are set up, what they add to every control plane, and who looks after it.

pub mod aws;
pub mod foresight;
mod grants;
pub mod providers;
mod s3_state;
pub mod terraform;

use std::sync::Arc;

use ::aws::grants::{Grant, Grants};
use anyhow::Context;
use apiserver::catalog::Offer;
use apiserver::{Engine, Engines};
use async_trait::async_trait;
use egress::Egress;
use provision::{Failure, Limits, Metrics, Preview};
use runtime::{Controller, Fleet};
use serde_json::Value;
use store::Fence;

use crate::controlling;
use aws::AwsOptions;
use grants::Granted;

/// What all clouds of a process share.
pub struct Shared {
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    /// Of the installation: what fingerprints of secrets are made with.
    pub key: [u8; 32],
    /// What connects to where tenants say.
    pub egress: Egress,
    /// Whom the process's own AWS credentials serve.
    pub grants: Arc<dyn Grants>,
}

impl Shared {
    /// For one cluster, which is the operator's own.
    pub fn of_cluster(key: [u8; 32], egress: Egress) -> Shared {
        let grants = Arc::new(Grant::Everything);
        Shared { limits: Arc::default(), metrics: Arc::default(), key, egress, grants }
    }
}

/// The clouds of a process.
pub type Clouds = Arc<Vec<Box<dyn Cloud>>>;

/// Sets up the clouds that are wanted. From here on every control plane of these stores serves their kinds, and says what
/// would be done about an object. `hosting` is the control plane that is the operator's own, if it is here.
pub async fn set_up(wanted: &AwsOptions, engines: &Engines, hosting: Option<&str>) -> anyhow::Result<Clouds> {
    let engine = engines.default_store();
    // Without drivers there is nothing to fingerprint.
    let key = if wanted.wanted() { key(engine).await? } else { [0; 32] };
    let granted = Granted::new(engines.clone(), hosting, wanted.credentials_for()?);
    let shared = Shared { grants: Arc::new(granted), ..Shared::of_cluster(key, egress(engines)) };
    engine.metrics.register(shared.metrics.collector());
    let set_up: Vec<_> = wanted.set_up(&shared).await?.into_iter().collect();
    for cloud in &set_up {
        engine.planes.catalogs.offer(cloud.name(), cloud.offers());
    }
    let clouds = Arc::new(set_up);
    for engine in engines.iter() {
        engine.foresee_with(Arc::new(foresight::OfClouds::new(engine, clouds.clone())));
    }
    Ok(clouds)
}

/// What connects for the control planes of these stores, each under its own policy.
pub fn egress(engines: &Engines) -> Egress {
    Egress::new(engines.default_store().egress.clone(), Arc::new(engines.clone()))
}

/// The key of what drivers encrypt and fingerprint themselves: it is in the row of the hosting control plane, and so stays the
/// same when the installation's key is replaced.
pub async fn key(engine: &Engine) -> anyhow::Result<[u8; 32]> {
    let hosting = engine.store.tenant(&engine.config.hosting).await?;
    let hosting = hosting.context("there is no hosting control plane")?;
    Ok(engine.planes.clouds_key(&hosting)?)
}

/// What looks after the objects of clouds, where there are any.
pub fn set(clouds: &Clouds) -> Option<controlling::Set> {
    let clouds = clouds.clone();
    let is_empty = clouds.is_empty();
    let all = move |_: &Arc<Engine>, _: Option<&Fence>| {
        clouds.iter().flat_map(|cloud| cloud.controllers()).collect()
    };
    (!is_empty).then(|| controlling::Set::clouds(Box::new(all)))
}

/// A cloud that is set up.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Also the name of its catalogue.
    fn name(&self) -> &'static str;

    /// The definitions of its kinds, for control planes of this process.
    fn offers(&self) -> Vec<Offer>;

    /// The same as whole objects, for control planes elsewhere.
    fn definitions(&self) -> anyhow::Result<Vec<Value>>;

    /// Whether an object is of a kind of its own.
    fn knows(&self, object: &Value) -> bool;

    /// What looks after its objects, made anew for every term.
    fn controllers(&self) -> Vec<Box<dyn Controller>>;

    /// What would be done about an object; reads only.
    async fn plan(&self, fleet: &dyn Fleet, control_plane: &str, object: &Value) -> Result<Preview, Failure>;

    /// The same for kinds that stand for several resources: each by what it is called.
    async fn plans(
        &self,
        fleet: &dyn Fleet,
        control_plane: &str,
        object: &Value,
    ) -> Result<Vec<(String, Preview)>, Failure> {
        Ok(vec![(String::new(), self.plan(fleet, control_plane, object).await?)])
    }
}
