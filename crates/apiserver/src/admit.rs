//! Admission: what may still change or refuse a write once it is known to be well formed, and what else a write
//! takes or gives back.
//!
//! The plugins themselves are pure and live in `admission`; here the objects they need are fetched, and what they
//! reserve (quota, addresses) goes into the same transaction as the object.

use objects::{Status, Value, meta};
use store::Operation;

use crate::call::Call;
use crate::lifecycle;
use crate::service::Failure;
use crate::write::Part;

/// What is about to happen to an object.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    Create,
    Update { old: &'a Value, part: Part },
}

/// Namespaces that a control plane cannot be without.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Plugins that may change the object.
pub async fn mutate(call: &Call, object: &mut Value, change: Change<'_>) -> Result<(), Failure> {
    let _ = (call, object, change);
    Ok(())
}

/// Plugins that may only refuse.
pub async fn validate(call: &Call, object: &Value, change: Change<'_>) -> Result<(), Failure> {
    let _ = (call, object, change);
    Ok(())
}

/// Plugins that may refuse a deletion.
pub async fn validate_delete(call: &Call, object: &Value) -> Result<(), Failure> {
    if call.row.storage_kind == lifecycle::NAMESPACES && IMMORTAL.contains(&meta::name(object)) {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden(&call.group_resource(), meta::name(object), why).into());
    }
    Ok(())
}

/// What the write takes besides the object itself, in the same transaction.
pub async fn reserve(
    call: &Call,
    object: &mut Value,
    change: Change<'_>,
    operations: &mut Vec<Operation>,
) -> Result<(), Failure> {
    let _ = (call, object, change, operations);
    Ok(())
}

/// What an object gives back when it goes.
pub async fn release(call: &Call, object: &Value, operations: &mut Vec<Operation>) -> Result<(), Failure> {
    let _ = (call, object, operations);
    Ok(())
}
