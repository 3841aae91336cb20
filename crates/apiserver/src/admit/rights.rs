//! Rights that cannot be had by writing them down: roles, bindings and certificates.

use auth::authorize::{Attributes, Authorizer};
use auth::pki::approval;
use auth::pki::request::Request;
use auth::rbac::PolicySnapshot;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Status, Value, meta};

use super::Change;
use crate::call::Call;
use crate::extension::Writing;
use crate::route::Action;
use crate::service::Failure;
use crate::write::Part;

/// Refuses a write by which a user would get, or give, rights the user does not have.
pub async fn validate(call: &Call, object: &Value, change: Change<'_>) -> Result<(), Failure> {
    match call.row.ty.group.as_str() {
        "rbac.authorization.k8s.io" => {
            let policy = call.engine.planes.policy(&call.plane).await?;
            let checked = if meta::kind(object).ends_with("Binding") {
                policy.check_binding(&*policy, &call.user, object, change.old())
            } else {
                policy.check_role(&*policy, &call.user, object, change.old())
            };
            checked.map_err(|why| Status::forbidden(&call.group_resource(), meta::name(object), why).into())
        }
        "certificates.k8s.io" => match change {
            Change::Create => check_subject(call, object),
            Change::Update { part: Part::Whole("approval"), .. } => may(call, object, "approve").await,
            // As upstream: a condition such as `Failed` is the signer's verdict as much as a certificate is.
            Change::Update { old, part: Part::Status }
                if ["/status/certificate", "/status/conditions"]
                    .iter()
                    .any(|field| old.pointer(field) != object.pointer(field)) =>
            {
                may(call, object, "sign").await
            }
            _ => Ok(()),
        },
        _ => further(call, object, change).await,
    }
}

/// Has what is built on top of the server write down what it wants to know about a write.
pub fn complete(call: &Call, object: &mut Value, change: Change<'_>) -> Result<(), Failure> {
    // A status of custom resources is written without metadata.
    let Some(extension) = call.engine.extension.get().filter(|_| change.is_main()) else { return Ok(()) };
    if call.plane.name != call.engine.config.hosting {
        return Ok(());
    }
    let old = change.old();
    let whole = old.is_none() || call.action == Action::Update;
    extension.complete(&call.row.storage_kind, &Writing { user: &call.user, old, whole }, object)
}

/// What is built on top of the server may ask for rights beside the one to write.
async fn further(call: &Call, object: &Value, change: Change<'_>) -> Result<(), Failure> {
    let Some(extension) = call.engine.extension.get().filter(|_| change.is_main()) else { return Ok(()) };
    if call.plane.name != call.engine.config.hosting {
        return Ok(());
    }
    for needed in extension.needs(&call.row.storage_kind, object, change.old()) {
        let attributes = Attributes::resource(needed.verb, needed.group, needed.resource);
        let attributes = attributes.namespace(&needed.namespace).name(&needed.name);
        crate::stations::authorize::check(&call.engine, &call.plane, &call.user, &attributes).await?;
    }
    Ok(())
}

/// A request for a certificate may not ask for a group that nobody can be taken out of again.
fn check_subject(call: &Call, request: &Value) -> Result<(), Failure> {
    let text =
        |field: &str| request.pointer(&format!("/spec/{field}")).and_then(Value::as_str).unwrap_or_default();
    // What is no request at all has been refused by validation.
    let Ok(pem) = STANDARD.decode(text("request")) else { return Ok(()) };
    let Ok(parsed) = Request::from_pem(&pem) else { return Ok(()) };
    let checked = approval::check_subject(text("signerName"), &parsed);
    checked.map_err(|why| Status::forbidden(&call.group_resource(), meta::name(request), why).into())
}

/// Whether the user may approve, or sign, for the signer a request is addressed to.
async fn may(call: &Call, request: &Value, verb: &str) -> Result<(), Failure> {
    if call.user.is_master() {
        return Ok(());
    }
    let signer = request.pointer("/spec/signerName").and_then(Value::as_str).unwrap_or_default();
    let policy = call.engine.planes.policy(&call.plane).await?;
    let domain = signer.split('/').next().unwrap_or_default();
    let wildcard = format!("{domain}/*");
    if is_allowed(&policy, call, verb, signer) || is_allowed(&policy, call, verb, &wildcard) {
        return Ok(());
    }
    let why = approval::refusal(verb, signer);
    Err(Status::forbidden(&call.group_resource(), meta::name(request), why).into())
}

fn is_allowed(policy: &PolicySnapshot, call: &Call, verb: &str, signer: &str) -> bool {
    let attributes = Attributes::resource(verb, "certificates.k8s.io", "signers").name(signer);
    policy.authorize(&call.user, &attributes).allowed()
}

/// A request for a certificate says who made it, in the server's words.
pub fn sign_request(call: &Call, request: &mut Value) {
    let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let user = call.user.to_value();
    for (field, given) in [("username", "username"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra")]
    {
        match user.get(given) {
            Some(value) => drop(spec.insert(field.to_owned(), value.clone())),
            None => drop(spec.remove(field)),
        }
    }
}
