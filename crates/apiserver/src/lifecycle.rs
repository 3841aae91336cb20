//! The life of objects: what must be there before one is made, and when one that is being deleted is gone.

use admission::namespace_lifecycle;
use objects::{GroupResource, Status, Value, meta};
use store::{Expect, Key, Operation};

use crate::call::Call;
use crate::read;
use crate::service::Failure;

pub const NAMESPACES: &str = "namespaces";

/// A namespaced object is only made in a namespace that is there and stays there: the transaction checks that
/// the namespace is still the one that was looked at, which is why a remembered look is as good as a new one.
pub async fn require_namespace(
    call: &Call,
    object: &Value,
    operations: &mut Vec<Operation>,
    look: Look,
) -> Result<(), Failure> {
    if !call.row.ty.is_namespaced() {
        return Ok(());
    }
    let name = &call.target.namespace;
    let key = Key::new(NAMESPACES, "", name.clone());
    let remembered = match look {
        Look::Remembered => call.plane.namespaces.get(name),
        Look::Again => None,
    };
    let revision = match remembered {
        Some(revision) => revision,
        None => {
            let found = read::entry(&call.engine, &call.plane, &key).await?;
            let resource = call.group_resource();
            let request = namespace_lifecycle::Request {
                resource: &resource,
                operation: admission::Operation::Create,
                namespace: name,
                name: &call.target.name,
                object,
            };
            namespace_lifecycle::check(&request, found.as_ref().map(|(namespace, _)| namespace))?;
            let Some((_, revision)) = found else {
                return Err(Status::not_found(&GroupResource::new("", NAMESPACES), name).into());
            };
            call.plane.namespaces.insert(name.clone(), revision);
            revision
        }
    };
    operations.push(Operation::Check { key, expect: Expect::Modified(revision) });
    Ok(())
}

/// Whether what was seen of a namespace before will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Remembered,
    Again,
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
