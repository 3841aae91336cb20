//! What the operator asks of a control plane in another process, which has to be shown that it is the operator.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServer, Body, Engine, InProcess, extension};
use auth::pki::PkiError;
use bytes::Bytes;
use futures::TryStreamExt;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, BodyStream, Empty};
use objects::{Reason, Status, Value};
use store::{Export, Revision, StoreError};
use tower::Service;

use crate::embedded::operator;
use crate::names;
use crate::processes::Room;

/// Longer than a pass over a control plane takes, with all its hooks.
const CERTIFIED_FOR: Duration = Duration::from_secs(3_600);

/// A way in for the operator.
pub fn certified(engine: &Arc<Engine>, room: &Room) -> Result<InProcess, PkiError> {
    let user = operator();
    let issued = room.authority.issue_client(&user.name, &user.groups, engine.now(), CERTIFIED_FOR)?;
    let certificate = pem::parse(&issued.certificate).map_err(|_| PkiError::NotACertificate)?;
    let (server, agent) = (ApiServer::new(engine.clone()), HeaderValue::from_static(names::HOOK_MANAGER));
    Ok(InProcess::with_certificate(server, &*room.name, certificate.into_contents(), agent))
}

/// The answer to what is asked of the whole control plane (see [`crate::Endpoints`]): its process has the same paths.
pub async fn ask(engine: &Arc<Engine>, room: &Room, what: &str) -> Result<Response<Body>, Status> {
    let path = format!("{}control-planes/{}/{what}", extension::PREFIX, room.name);
    let request = Request::get(path).body(Empty::<Bytes>::new()).map_err(Status::internal)?;
    match certified(engine, room).map_err(Status::internal)?.call(request).await {
        Ok(response) => Ok(response),
        Err(never) => match never {},
    }
}

/// A backup of it, now or as it was.
pub async fn backup(engine: &Arc<Engine>, room: &Room, at: Option<Revision>) -> Result<Export, Status> {
    let what = at.map_or("export".to_owned(), |at| format!("export?revision={at}"));
    let (head, body) = ask(engine, room, &what).await?.into_parts();
    if !head.status.is_success() {
        let said = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(refusal(head.status, &serde_json::from_slice(&said).unwrap_or_default()));
    }
    let chunks = BodyStream::new(body).try_filter_map(async |frame| Ok(frame.into_data().ok()));
    Ok(Box::pin(chunks.map_err(|error| StoreError::Unavailable(error.to_string()))))
}

/// What it answered in place of a backup.
fn refusal(code: StatusCode, said: &Value) -> Status {
    let reasons = [Reason::NotFound, Reason::BadRequest, Reason::Expired, Reason::ServiceUnavailable];
    let reason = reasons.into_iter().find(|reason| said["reason"] == reason.as_str());
    let message = said["message"].as_str().unwrap_or("there is no answer");
    let seconds = said["details"]["retryAfterSeconds"].as_u64();
    Status {
        code: code.as_u16(),
        retry_after_seconds: seconds.and_then(|seconds| u32::try_from(seconds).ok()),
        ..Status::new(reason.unwrap_or(Reason::Unknown), message)
    }
}
