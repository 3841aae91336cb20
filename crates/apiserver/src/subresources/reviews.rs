//! Questions about users and their rights: asked by creating an object, answered in its status, never stored.

use auth::authorize::{Attributes, Authorizer, Decision};
use auth::review::{self, TokenQuestion};
use auth::user::UserInfo;

use crate::call::Call;
use crate::incoming;
use crate::present;
use crate::service::{Answer, method_not_allowed};
use crate::stations::authenticate;

pub async fn answer(call: &Call) -> Answer {
    let mut question = incoming::object(call)?.object;
    if call.row.ty.is_namespaced() && objects::meta::namespace(&question).is_empty() {
        objects::meta::set(&mut question, "namespace", call.target.namespace.as_str());
    }
    let policy = call.engine.planes.policy(&call.plane).await?;
    let decide = |user: &UserInfo, attributes: &Attributes<'_>| {
        if user.is_master() { Decision::allow("") } else { policy.authorize(user, attributes) }
    };
    let answered = match call.row.ty.kind.as_str() {
        "SubjectAccessReview" => review::subject_access_review(&question, decide)?,
        "LocalSubjectAccessReview" => {
            review::local_subject_access_review(&question, &call.target.namespace, decide)?
        }
        "SelfSubjectAccessReview" => review::self_subject_access_review(&question, &call.user, decide)?,
        "SelfSubjectRulesReview" => review::self_subject_rules_review(&question, &call.user, &policy)?,
        "SelfSubjectReview" => {
            objects::meta::set(&mut question, "creationTimestamp", call.timestamp());
            review::self_subject_review(&question, &call.user)
        }
        "TokenReview" => {
            let asked = TokenQuestion::read(&question)?;
            let audiences = (!asked.audiences.is_empty()).then_some(asked.audiences.as_slice());
            let found =
                authenticate::by_token(&call.engine, &call.plane, asked.token, audiences, call.now).await?;
            let found = found.map(|bearer| (bearer.user, bearer.audiences));
            review::token_review(&question, Ok(found))
        }
        _ => return Err(method_not_allowed().into()),
    };
    present::value(call, 201, answered).await
}
