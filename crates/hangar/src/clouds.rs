//! The clouds behind control planes: which are set up, what they add to every control plane, and who looks after it.

pub mod aws;
pub mod foresight;
mod s3_state;
pub mod terraform;

use std::sync::Arc;

use apiserver::catalog::Offer;
use async_trait::async_trait;
use provision::{Failure, Limits, Metrics, Preview};
use runtime::{Controller, Fleet};
use serde_json::Value;

/// What all clouds of a process share.
pub struct Shared {
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    /// Of the installation: what fingerprints of secrets are made with.
    pub key: [u8; 32],
}

impl Shared {
    pub fn new(key: [u8; 32]) -> Shared {
        Shared { limits: Arc::default(), metrics: Arc::default(), key }
    }
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
}
