//! Acting as somebody else, by those who may.

use std::sync::Arc;

use auth::impersonation::Impersonation;
use auth::user::UserInfo;

use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::service::Failure;
use crate::stations::authorize;

/// What the headers of a request ask for.
pub fn asked(head: &Head) -> Result<Option<Impersonation>, Failure> {
    let headers = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    Ok(Impersonation::from_headers(headers)?)
}

/// The user the request is to be carried out as. The caller's own rights are used for nothing but the right to
/// impersonate.
pub async fn user(
    engine: &Engine,
    plane: &ControlPlane,
    head: &Head,
    caller: Arc<UserInfo>,
) -> Result<Arc<UserInfo>, Failure> {
    let Some(wanted) = asked(head)? else { return Ok(caller) };
    for attributes in wanted.required() {
        authorize::check(engine, plane, &caller, &attributes).await?;
    }
    Ok(Arc::new(wanted.into_user()))
}
