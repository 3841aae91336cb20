//! Acting as somebody else, by those who may.

use std::sync::Arc;

use auth::impersonation::Impersonation;
use auth::user::UserInfo;

use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::service::Failure;
use crate::stations::authorize;

/// The user the request is to be carried out as. The caller's own rights are used for nothing but the right to
/// impersonate.
pub async fn user(
    engine: &Engine,
    plane: &ControlPlane,
    head: &Head,
    caller: Arc<UserInfo>,
) -> Result<Arc<UserInfo>, Failure> {
    let headers = head.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let Some(wanted) = Impersonation::from_headers(headers)? else { return Ok(caller) };
    for attributes in wanted.required() {
        authorize::check(engine, plane, &caller, &attributes).await?;
    }
    Ok(Arc::new(wanted.into_user()))
}
