//! Control planes that are there already: the hosting one itself, and clusters elsewhere.

use objects::Value;
use runtime::{Context, Next};

use crate::host::Host;
use crate::plane::Plane;
use crate::sync::SyncError;

pub async fn hosting(_: &dyn Host, _: &Context, _: &Plane, _: &mut Value) -> Result<Next, SyncError> {
    Err(SyncError::Waiting("to be written".into()))
}

pub async fn external(_: &Context, _: &Plane, _: &mut Value) -> Result<Next, SyncError> {
    Err(SyncError::Waiting("to be written".into()))
}

pub async fn release(_: &Context, _: &Plane) {}

pub async fn client(_: &Context, _: &Plane) -> Result<kube::Client, SyncError> {
    Err(SyncError::Waiting("to be written".into()))
}
