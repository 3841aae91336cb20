//! The life of objects: what must be there before one is made, and when one that is being deleted is gone.

use objects::{GroupResource, Status, Value, meta};
use store::{Expect, Key, Operation};

use crate::call::Call;
use crate::read;
use crate::service::Failure;

pub const NAMESPACES: &str = "namespaces";

/// A namespaced object is only made in a namespace that is there and stays there: the transaction checks that
/// the namespace is still the one that was looked at.
pub async fn require_namespace(call: &Call, operations: &mut Vec<Operation>) -> Result<(), Failure> {
    if !call.row.ty.is_namespaced() {
        return Ok(());
    }
    let name = &call.target.namespace;
    let key = Key::new(NAMESPACES, "", name.clone());
    let Some((namespace, revision)) = read::entry(&call.engine, &call.plane, &key).await? else {
        return Err(Status::not_found(&GroupResource::new("", NAMESPACES), name).into());
    };
    if meta::is_deleting(&namespace) {
        let why = format!(
            "unable to create new content in namespace {name} because it is being terminated"
        );
        let status = Status::forbidden(&call.group_resource(), &call.target.name, why);
        let cause = format!("namespace {name} is being terminated");
        return Err(status.cause("NamespaceTerminating", cause, "metadata.namespace").into());
    }
    operations.push(Operation::Check { key, expect: Expect::Modified(revision) });
    Ok(())
}

/// Whether an object that is being deleted has nothing left to wait for.
pub fn is_finished(object: &Value) -> bool {
    if !meta::is_deleting(object) || meta::finalizers(object).next().is_some() {
        return false;
    }
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let inner = object.pointer("/spec/finalizers").and_then(Value::as_array);
    let is_namespace = meta::kind(object) == "Namespace" && meta::api_version(object) == "v1";
    grace == 0 && !(is_namespace && inner.is_some_and(|finalizers| !finalizers.is_empty()))
}
