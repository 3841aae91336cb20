//! `serviceaccounts/token`: a token for a service account, for a while, and perhaps bound to an object.

use std::time::Duration;

use auth::tokens::{BoundToken, Reference};
use objects::field::Error;
use objects::{Path, Status, Value, meta};
use serde_json::json;

use crate::call::{Call, timestamp};
use crate::present;
use crate::read;
use crate::service::{Answer, Failure};
use crate::stations::decode;

/// As upstream: no shorter, no longer, and by default.
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
const DEFAULT_SECONDS: i64 = 3_600;

pub async fn create(call: &Call) -> Answer {
    let mut request = decode::object(&call.head.headers, &call.body)?.value;
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let account = read::object(&call.engine, &call.plane, "serviceaccounts", namespace, name).await?;
    let account = account.ok_or_else(|| call.not_found(name))?;

    let seconds = match request.pointer("/spec/expirationSeconds") {
        None | Some(Value::Null) => DEFAULT_SECONDS,
        Some(seconds) => seconds.as_i64().unwrap_or(-1),
    };
    let path = Path::new("spec.expirationSeconds");
    let wrong = match seconds {
        ..MIN_SECONDS => Some(Error::invalid(&path, seconds, "may not specify a duration less than 10 minutes")),
        MAX_SECONDS.. => Some(Error::invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds")),
        _ => None,
    };
    if let Some(error) = wrong {
        let kind = objects::GroupKind { group: "authentication.k8s.io".into(), kind: "TokenRequest".into() };
        return Err(Status::invalid(&kind, "", &[error]).into());
    }
    let audiences: Vec<String> = request
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default();
    let mut token = BoundToken {
        namespace: namespace.to_string(),
        service_account: Reference::new(name.as_str(), meta::uid(&account)),
        audiences,
        lifetime: Duration::from_secs(seconds.unsigned_abs()),
        ..BoundToken::default()
    };
    bind(call, &request, &mut token).await?;

    let signed = call.plane.issuer.issue(&token, call.now).map_err(Status::internal)?;
    let expires = call.now + jiff::SignedDuration::from_secs(seconds);
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["kind"] = "TokenRequest".into();
    request["metadata"] =
        json!({"name": name, "namespace": namespace, "creationTimestamp": call.timestamp()});
    request["spec"]["expirationSeconds"] = seconds.into();
    if token.audiences.is_empty() {
        request["spec"]["audiences"] = json!(call.plane.issuer.api_audiences());
    }
    request["status"] = json!({"token": signed.expose(), "expirationTimestamp": timestamp(expires)});
    present::value(call, 201, request).await
}

/// A token may be bound to a pod, a secret or a node, and then goes with it.
async fn bind(call: &Call, request: &Value, token: &mut BoundToken) -> Result<(), Failure> {
    let Some(reference) = request.pointer("/spec/boundObjectRef").filter(|reference| !reference.is_null()) else {
        return Ok(());
    };
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, namespace) = match text("kind") {
        "Pod" => ("pods", call.target.namespace.as_str()),
        "Secret" => ("secrets", call.target.namespace.as_str()),
        "Node" => ("nodes", ""),
        other => {
            let message = format!("cannot bind token for serviceaccount {:?} to object of kind {other:?}", call.target.name);
            return Err(Status::bad_request(message).into());
        }
    };
    let resource = objects::GroupResource::new("", kind);
    let object = read::object(&call.engine, &call.plane, kind, namespace, text("name")).await?;
    let object = object.ok_or_else(|| Status::not_found(&resource, text("name")))?;
    if !text("uid").is_empty() && text("uid") != meta::uid(&object) {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            text("uid")
        );
        return Err(Status::conflict(&resource, text("name"), why).into());
    }
    let bound = Reference::new(text("name"), meta::uid(&object));
    match kind {
        "pods" => {
            let runs_as = object.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
            if runs_as != call.target.name.as_str() {
                let message = format!("cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.", call.target.name);
                return Err(Status::bad_request(message).into());
            }
            token.pod = Some(bound);
        }
        "secrets" => token.secret = Some(bound),
        _ => token.node = Some(bound),
    }
    Ok(())
}
