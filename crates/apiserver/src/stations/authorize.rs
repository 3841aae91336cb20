//! What a user may do.

use auth::authorize::{Attributes, Authorizer, Decision, forbidden_because};
use auth::user::UserInfo;
use objects::{GroupResource, Reason, Status};

use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::paths;
use crate::route::{Action, Target};
use crate::service::{Failure, method_not_allowed};
use crate::trail::Trail;

/// Refuses a request its user may not make.
pub async fn request(
    engine: &Engine,
    plane: &ControlPlane,
    user: &UserInfo,
    head: &Head,
    target: &Target,
    trail: &mut Trail,
) -> Result<(), Failure> {
    match target {
        // The policy may be in a store that does not answer, and that is when it matters who is well.
        Target::Path(path) if paths::is_health(path) => {
            trail.decided(&Decision::allow("health is open to all"));
            Ok(())
        }
        Target::Path(path) => {
            let verb = head.method.as_str().to_ascii_lowercase();
            let attributes = Attributes::path(&verb, path);
            let decision = decide(engine, plane, user, &attributes).await?;
            trail.decided(&decision);
            allowed(user, &attributes, &decision)
        }
        Target::Resource(target) => {
            let action =
                Action::of(&head.method, target, head.wants_watch()).ok_or_else(method_not_allowed)?;
            // A list of one name is asked for like that one name, so that a role can allow just that.
            let selected = if target.name.is_empty() && action.reads() { head.selected_name() } else { None };
            let name = selected.as_deref().unwrap_or(&target.name);
            let attributes = Attributes::resource(
                verb(head, action, &target.subresource),
                &target.group,
                &target.resource,
            )
            .subresource(&target.subresource)
            .namespace(&target.namespace)
            .name(name);
            let decision = decide(engine, plane, user, &attributes).await?;
            trail.decided(&decision);
            allowed(user, &attributes, &decision)
        }
    }
}

/// Opening a stream into a pod runs something there, whatever the method of the upgrade.
fn verb(head: &Head, action: Action, subresource: &str) -> &'static str {
    let opens = matches!(subresource, "exec" | "attach" | "portforward");
    if opens && action == Action::Get && head.is_upgrade() { "create" } else { action.as_str() }
}

pub async fn check(
    engine: &Engine,
    plane: &ControlPlane,
    user: &UserInfo,
    attributes: &Attributes<'_>,
) -> Result<(), Failure> {
    allowed(user, attributes, &decide(engine, plane, user, attributes).await?)
}

fn allowed(user: &UserInfo, attributes: &Attributes<'_>, decision: &Decision) -> Result<(), Failure> {
    if decision.allowed() {
        return Ok(());
    }
    let message = forbidden_because(user, attributes, &decision.reason);
    Err(match attributes.target {
        auth::authorize::Target::Path(_) => Status::new(Reason::Forbidden, format!("forbidden: {message}")),
        auth::authorize::Target::Resource { group, resource, name, .. } => {
            Status::forbidden(&GroupResource::new(group, resource), name, message)
        }
    }
    .into())
}

/// The decision alone, for reviews and for checks within a verb.
pub async fn decide(
    engine: &Engine,
    plane: &ControlPlane,
    user: &UserInfo,
    attributes: &Attributes<'_>,
) -> Result<Decision, Failure> {
    if user.is_master() {
        return Ok(Decision::allow(""));
    }
    Ok(engine.planes.policy(plane).await?.authorize(user, attributes))
}
