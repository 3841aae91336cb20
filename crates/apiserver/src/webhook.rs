//! Calls out of the server, to webhooks that convert custom resources.

use objects::{Status, Value};

use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::service::Failure;
use crate::surface::Definition;

pub async fn convert(
    engine: &Engine,
    plane: &ControlPlane,
    definition: &Definition,
    object: Value,
    api_version: &str,
) -> Result<Value, Failure> {
    let _ = (engine, plane, object);
    let message = format!("conversion webhook for {} to {api_version} cannot be called", definition.name);
    Err(Status::internal(message).into())
}
