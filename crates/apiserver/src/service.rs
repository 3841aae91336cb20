//! The service: a request passes the stations in this order, and every failure leaves as a `Status`.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use objects::{Reason, Status};
use tower::Service;

use crate::body::{Body, BoxError, status_response};
use crate::call::{Call, Head};
use crate::engine::{Engine, no_control_plane};
use crate::route::{Action, Target};
use crate::{Door, paths, stations, subresources, verbs};

/// A failed request. Boxed: it is the rare case and must not make every result large.
#[derive(Debug)]
pub struct Failure(pub Box<Status>);

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure(Box::new(status))
    }
}

pub type Answer = Result<Response<Body>, Failure>;

/// The API server of every control plane in the store.
#[derive(Clone)]
pub struct ApiServer {
    engine: Arc<Engine>,
}

impl ApiServer {
    pub fn new(engine: Arc<Engine>) -> Self {
        ApiServer { engine }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let engine = self.engine.clone();
        Box::pin(async move {
            let answered = handle(engine, request).await;
            Ok(answered.unwrap_or_else(|failure| status_response(&failure.0)))
        })
    }
}

async fn handle<B>(engine: Arc<Engine>, request: Request<B>) -> Answer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut parts, body) = request.into_parts();
    let Some(door) = parts.extensions.remove::<Door>() else {
        return Err(Status::internal("the request came through no door").into());
    };
    let audit_id = uuid::Uuid::new_v4().to_string();

    // The control plane at the door.
    let Some(plane) = engine.planes.find(&door.control_plane).await? else {
        return Err(no_control_plane().into());
    };
    let head = Head::new(parts, door)?;

    // Who asks?
    let user = stations::authenticate::user(&engine, &plane, &head).await?;
    let user = stations::impersonate::user(&engine, &plane, &head, user).await?;

    // Is there room for it?
    let target = Target::parse(&head.path);
    let seat = Arc::new(engine.fairness.admit(&plane, &head, &target)?);

    // May they?
    stations::authorize::request(&engine, &plane, &user, &head, &target).await?;

    let mut answer = match target {
        Target::Path(path) => paths::answer(&engine, &plane, &head, &path).await,
        Target::Resource(target) => {
            let surface = engine.planes.surface(&plane).await?;
            let Some(row) = surface.row(&target.group, &target.version, &target.resource).cloned() else {
                return Err(no_control_plane().into());
            };
            let action = Action::of(&head.method, &target, head.wants_watch());
            let Some(action) = action else { return Err(method_not_allowed().into()) };
            let body = stations::decode::read_body(body, action).await?;
            let mut call = Call::new(engine.clone(), plane, surface, row, user, target, action, head, body)?;
            call.seat = Some(seat);
            if call.target.subresource.is_empty() {
                verbs::answer(&call).await
            } else {
                subresources::answer(&call).await
            }
            .map(|response| call.with_warnings(response))
        }
    }?;
    if let Ok(id) = HeaderValue::from_str(&audit_id) {
        answer.headers_mut().insert("audit-id", id);
    }
    answer.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    Ok(answer)
}

pub fn method_not_allowed() -> Status {
    Status::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
}
