//! What a user may do.

use std::borrow::Cow;

use auth::authorize::{Attributes, Authorizer, Decision, forbidden_because};
use auth::user::UserInfo;
use objects::{GroupResource, Reason, Status};

use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
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
    // The policy may be in a store that does not answer, and that is when it matters who is well.
    if target.is_health() {
        trail.decided(&Decision::allow("health is open to all"));
        return Ok(());
    }
    let question = Question::of(head, target)?;
    let attributes = question.attributes();
    let decision = decide(engine, plane, user, &attributes).await?;
    trail.decided(&decision);
    allowed(user, &attributes, &decision)
}

/// What a request must be allowed to do.
pub struct Question<'a> {
    verb: Cow<'static, str>,
    target: &'a Target,
    /// A list of one name is asked for like that one name, so that a role can allow just that.
    selected: Option<String>,
}

impl<'a> Question<'a> {
    pub fn of(head: &Head, target: &'a Target) -> Result<Self, Failure> {
        let (verb, selected) = match target {
            Target::Path(_) => (head.method.as_str().to_ascii_lowercase().into(), None),
            Target::Resource(target) => {
                let action =
                    Action::of(&head.method, target, head.wants_watch()).ok_or_else(method_not_allowed)?;
                let is_list = target.name.is_empty() && action.reads();
                let selected = if is_list { head.selected_name() } else { None };
                (verb(head, action, &target.subresource).into(), selected)
            }
        };
        Ok(Question { verb, target, selected })
    }

    pub fn attributes(&self) -> Attributes<'_> {
        match self.target {
            Target::Path(path) => Attributes::path(&self.verb, path),
            Target::Resource(target) => Attributes::resource(&self.verb, &target.group, &target.resource)
                .subresource(&target.subresource)
                .namespace(&target.namespace)
                .name(self.selected.as_deref().unwrap_or(&target.name)),
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

pub fn allowed(user: &UserInfo, attributes: &Attributes<'_>, decision: &Decision) -> Result<(), Failure> {
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
