//! A new object.

use objects::{Status, Value, meta};

use crate::call::Call;
use crate::incoming::{self, Incoming};
use crate::present;
use crate::service::{Answer, Failure};
use crate::write::{self, Tracking};

pub async fn create(call: &Call) -> Answer {
    let options = call.write_options()?;
    let everywhere = call.row.ty.is_namespaced() && call.target.namespace.is_empty();
    if everywhere || !call.target.name.is_empty() {
        return Err(crate::service::method_not_allowed().into());
    }
    let Incoming { object, .. } = incoming::object(call)?;
    check_placement(call, &object)?;
    if !meta::resource_version(&object).is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::bad_request(message).into());
    }
    let created = write::create(call, object, &options, Tracking::Update).await?;
    present::written(call, 201, created).await
}

/// An object says in which namespace it is, or leaves it to the path; it does not say another.
pub fn check_placement(call: &Call, object: &Value) -> Result<(), Failure> {
    let namespace = meta::namespace(object);
    if !namespace.is_empty() && namespace != call.target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message).into());
    }
    Ok(())
}
