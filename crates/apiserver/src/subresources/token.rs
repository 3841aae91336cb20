//! `serviceaccounts/token`: a token for a service account, for a while, and perhaps bound to an object.

use auth::tokens::Lookup;
use auth::tokens::request::TokenRequest;
use objects::Value;
use wire::protobuf::Kind;

use crate::call::Call;
use crate::present;
use crate::read;
use crate::service::{Answer, Failure};
use crate::stations::decode;

const TOKEN_REQUEST: Kind<'static> = Kind { api_version: "authentication.k8s.io/v1", kind: "TokenRequest" };

pub async fn create(call: &Call) -> Answer {
    let body = decode::object(call, TOKEN_REQUEST)?.value;
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let account = read::object(&call.engine, &call.plane, "serviceaccounts", namespace, name).await?;
    let account = account.ok_or_else(|| call.not_found(name))?;
    let request = TokenRequest::read(&body, namespace, name)?;
    let bound = found(call, request.bound_lookup()).await?;
    let node = found(call, request.node_lookup(bound.as_ref())).await?;
    // Callers in this process keep what they get, and renew it by what it says.
    let longest = call.engine.config.max_token_lifetime.filter(|_| call.head.door.identity.is_none());
    let issued =
        request.issue(&call.plane.issuer, &account, bound.as_ref(), node.as_ref(), longest, call.now)?;
    if let Some(warning) = request.shortened(longest) {
        call.warn(warning);
    }
    present::value(call, 201, issued).await
}

async fn found(call: &Call, lookup: Option<Lookup>) -> Result<Option<Value>, Failure> {
    match lookup {
        Some(at) => read::object(&call.engine, &call.plane, at.resource, &at.namespace, &at.name).await,
        None => Ok(None),
    }
}
