//! What can be done with any resource.

mod create;
pub mod delete;
pub mod get;
mod list;
pub mod patch;
mod scan;
mod selection;
pub mod update;
mod watch;

use objects::Verb;

use crate::call::Call;
use crate::route::Action;
use crate::service::{Answer, method_not_allowed};

pub async fn answer(call: &Call) -> Answer {
    let verb = match call.action {
        Action::Get => Verb::Get,
        Action::List => Verb::List,
        Action::Watch => Verb::Watch,
        Action::Create => Verb::Create,
        Action::Update => Verb::Update,
        Action::Patch => Verb::Patch,
        Action::Delete => Verb::Delete,
        Action::DeleteCollection => Verb::DeleteCollection,
    };
    // While a definition goes, its objects can still be changed: their finalizers have to come off.
    let goes = call.row.custom().is_some_and(|custom| custom.definition.terminating);
    let lets_go = goes && matches!(verb, Verb::Update | Verb::Patch);
    let nameless = call.target.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch);
    if nameless || (!lets_go && !call.row.ty.verbs.has(verb)) {
        return Err(method_not_allowed().into());
    }
    if let Some(custom) = call.row.custom()
        && let Some(warning) = schemas::crd::deprecation(&custom.definition.object, &call.row.ty.version)
    {
        call.warn(warning);
    }
    if let Some(answer) = crate::subresources::virtual_resource(call).await {
        return answer;
    }
    match call.action {
        Action::Get => get::get(call).await,
        Action::List => list::list(call).await,
        Action::Watch => watch::watch(call).await,
        Action::Create => create::create(call).await,
        Action::Update => update::update(call).await,
        Action::Patch => patch::patch(call).await,
        Action::Delete => delete::delete(call).await,
        Action::DeleteCollection => delete::delete_collection(call).await,
    }
}
