//! Making objects of the hosting control plane as they should be, and nothing when they are.

use objects::{Value, meta};
use runtime::{Context, Error};

use crate::api::{self, Place};
use crate::furniture::Wanted;
use crate::host::HostError;
use crate::names;
use crate::plane::Plane;

/// Why a control plane is not as it should be.
#[derive(thiserror::Error, Debug)]
pub enum SyncError {
    #[error(transparent)]
    Api(#[from] Error),
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nothing is wrong; something has to happen first.
    #[error("{0}")]
    Waiting(String),
}

impl SyncError {
    /// Whether somebody else was quicker: not worth telling, only worth another look.
    pub fn is_conflict(&self) -> bool {
        matches!(self, SyncError::Api(error) if error.code() == Some(409))
    }

    /// Whether only a change can help.
    pub fn is_final(&self) -> bool {
        matches!(self, SyncError::Host(HostError::Refused(_)))
    }
}

/// The object as it is afterwards. What others have added to it stays.
pub async fn ensure(context: &Context, plane: &Plane, wanted: &Wanted) -> Result<Value, SyncError> {
    let Wanted { place, object } = wanted;
    let live = context.get(&place.storage_kind(), &place.namespace, &place.name).await?;
    if let Some(live) = live {
        if meta::is_deleting(&live) {
            let what =
                format!("{} {:?} is being deleted", object["kind"].as_str().unwrap_or_default(), place.name);
            return Err(SyncError::Waiting(what));
        }
        if place.namespace.is_empty() && !plane.owns(&live) {
            return Err(not_ours(place, object, &live));
        }
        // The template of a job cannot be changed; that it is there is enough.
        if api::covers(&live, object) || (place.plural == "jobs" && plane.owns(&live)) {
            return Ok(live);
        }
    }
    Ok(api::apply(context.client(), place, object, names::MANAGER, true).await?)
}

/// Something of this name is there, outside of what is the control plane's alone: it is not taken over, since it would be
/// deleted with the control plane.
fn not_ours(place: &Place, object: &Value, live: &Value) -> SyncError {
    let what = format!("{} {:?}", meta::kind(object), place.name);
    if meta::owner_references(live).iter().any(|owner| owner["kind"] == "ControlPlane") {
        return SyncError::Waiting(format!("{what} still belongs to an earlier control plane"));
    }
    SyncError::Host(HostError::Refused(format!("{what} is there already and is not this control plane's")))
}
