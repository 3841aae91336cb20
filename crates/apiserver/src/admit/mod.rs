//! Admission: what may still change or refuse a write once it is known to be well formed, and what else a write
//! takes or gives back.
//!
//! The plugins themselves are pure and live in `admission`; here the objects they need are fetched, and what they
//! reserve (quota, addresses) goes into the same transaction as the object.

mod allotment;
mod pods;
mod quota;
mod rights;
pub(crate) mod services;

use admission::{Refusal, namespace_lifecycle};
use objects::field::ErrorList;
use objects::{Status, Value, meta};
use store::Operation;

use crate::call::Call;
use crate::service::Failure;
use crate::write::Part;
use crate::{lifecycle, read};

/// What is about to happen to an object.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    Create,
    Update { old: &'a Value, part: Part },
}

impl<'a> Change<'a> {
    fn operation(self) -> admission::Operation {
        match self {
            Change::Create => admission::Operation::Create,
            Change::Update { .. } => admission::Operation::Update,
        }
    }

    fn old(self) -> Option<&'a Value> {
        match self {
            Change::Create => None,
            Change::Update { old, .. } => Some(old),
        }
    }

    fn is_main(self) -> bool {
        matches!(self, Change::Create | Change::Update { part: Part::Main, .. })
    }
}

fn refused(call: &Call, object: &Value, refusal: Refusal) -> Failure {
    refusal.into_status(&call.group_resource(), object).into()
}

const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";

/// Plugins that may change the object.
pub async fn mutate(call: &Call, object: &mut Value, change: Change<'_>) -> Result<(), Failure> {
    match (call.row.storage_kind.as_str(), change) {
        ("pods", _) => pods::mutate(call, object, change).await?,
        ("nodes", Change::Create) => admission::nodes::taint_new(object),
        ("persistentvolumeclaims", Change::Create) => {
            add_finalizer(object, "kubernetes.io/pvc-protection");
            if admission::storage::needs_class(object) {
                let classes = read::objects(&call.engine, &call.plane, STORAGE_CLASSES, "").await?;
                admission::storage::default_class(object, classes.iter().map(|(class, _)| class));
            }
        }
        ("persistentvolumes", Change::Create) => add_finalizer(object, "kubernetes.io/pv-protection"),
        _ => {}
    }
    rights::complete(call, object, change)
}

fn add_finalizer(object: &mut Value, name: &str) {
    if meta::finalizers(object).any(|finalizer| finalizer == name) {
        return;
    }
    let mut finalizers: Vec<Value> = meta::finalizers(object).map(Value::from).collect();
    finalizers.push(name.into());
    meta::set(object, "finalizers", Value::Array(finalizers));
}

/// Plugins that may only refuse.
pub async fn validate(call: &Call, object: &Value, change: Change<'_>) -> Result<(), Failure> {
    rights::validate(call, object, change).await?;
    match (call.row.storage_kind.as_str(), change) {
        (lifecycle::NAMESPACES, change) if change.is_main() => {
            let errors = admission::pod_security::namespace::check_namespace(object, change.old());
            if !errors.is_empty() {
                return Err(Status::invalid(&call.row.group_kind(), meta::name(object), &errors).into());
            }
        }
        ("pods" | "persistentvolumeclaims", _) => pods::validate(call, object, change).await?,
        ("priorityclasses.scheduling.k8s.io", change) if change.is_main() => {
            let classes = read::objects(&call.engine, &call.plane, pods::PRIORITY_CLASSES, "").await?;
            let default = admission::priority::default_class(classes.iter().map(|(class, _)| class));
            let checked = admission::priority::check_class(object, change.operation(), default);
            checked.map_err(|refusal| refused(call, object, refusal))?;
        }
        _ if change.is_main() => pods::warn_workload(call, object).await?,
        _ => {}
    }
    Ok(())
}

/// What the source of an offered kind finds wrong with an object of it.
pub fn invalid(call: &Call, object: &Value, old: Option<&Value>) -> ErrorList {
    let edited = old.is_none_or(|old| old.get("spec") != object.get("spec"));
    let review = call.row.custom().and_then(|custom| custom.reviewer.0.as_ref());
    review.filter(|_| edited).map(|review| review.invalid(object)).unwrap_or_default()
}

/// What the source of an offered kind says about an edit of one of its objects, or about a deletion.
pub async fn review(call: &Call, old: &Value, new: Option<&Value>) -> Result<(), Failure> {
    let Some(review) = call.row.custom().and_then(|custom| custom.reviewer.0.as_ref()) else { return Ok(()) };
    let reviewed = review.review(&call.plane.name, old, new).await;
    reviewed.map_err(|why| refused(call, old, Refusal::new(why)))
}

/// Plugins that may refuse a deletion.
pub async fn validate_delete(call: &Call, object: &Value) -> Result<(), Failure> {
    let resource = call.group_resource();
    let request = namespace_lifecycle::Request {
        resource: &resource,
        operation: admission::Operation::Delete,
        namespace: &call.target.namespace,
        name: meta::name(object),
        object,
    };
    Ok(namespace_lifecycle::check(&request, None)?)
}

/// Whether the server gives something to new objects of this kind that only one can have.
pub fn is_given_something(call: &Call) -> bool {
    call.row.storage_kind == "services"
}

/// Gives an object what only one can have, and takes it in the same transaction.
pub async fn allocate(
    call: &Call,
    object: &mut Value,
    change: Change<'_>,
    operations: &mut Vec<Operation>,
) -> Result<(), Failure> {
    if is_given_something(call) && change.is_main() {
        services::allocate(call, object, change.old(), operations).await?;
    }
    Ok(())
}

/// Charges an object to its control plane, and to the quotas of its namespace in the same transaction.
pub async fn charge(
    call: &Call,
    object: &Value,
    change: Change<'_>,
    operations: &mut Vec<Operation>,
) -> Result<(), Failure> {
    allotment::check(call, object, change).await?;
    quota::charge(call, object, change, operations).await
}

/// Writes down who made a new object, where its kind wants to know.
pub fn sign(call: &Call, object: &mut Value) {
    if call.row.storage_kind == "certificatesigningrequests.certificates.k8s.io" {
        rights::sign_request(call, object);
    }
}

/// What an object gives back when it goes.
pub async fn release(call: &Call, object: &Value, operations: &mut Vec<Operation>) -> Result<(), Failure> {
    if call.row.storage_kind == "services" {
        services::release(object, operations);
    }
    Ok(())
}

impl From<Box<Status>> for Failure {
    fn from(status: Box<Status>) -> Self {
        Failure(status)
    }
}
