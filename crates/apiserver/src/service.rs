//! The service: a request passes the stations in this order, and every failure leaves as a `Status`.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderValue, Request, Response, header, request};
use http_body_util::BodyExt;
use objects::{Reason, Status};
use tower::Service;

use crate::body::{Body, BoxError};
use crate::call::{Call, Head};
use crate::engine::{Engine, no_control_plane};
use crate::engines::Engines;
use crate::route::{Action, Target};
use crate::stations::fairness::{HEAVY, Placed};
use crate::trail::Trail;
use crate::{Door, absent, compress, extension, paths, stations, subresources, verbs};

/// A failed request. Boxed: it is the rare case and must not make every result large.
#[derive(Debug)]
pub struct Failure(pub Box<Status>);

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure(Box::new(status))
    }
}

pub type Answer = Result<Response<Body>, Failure>;

/// The API server of every control plane in the store, or in several.
#[derive(Clone)]
pub struct ApiServer {
    engines: Engines,
}

impl ApiServer {
    pub fn new(engines: impl Into<Engines>) -> Self {
        ApiServer { engines: engines.into() }
    }

    /// That of the default store.
    pub fn engine(&self) -> &Arc<Engine> {
        self.engines.default_store()
    }
}

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Placed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        let pool = self.engine().fairness.pool().clone();
        Placed::new(pool, Box::pin(async move { Ok(answer(&server, request).await) }))
    }
}

/// The way there, and what is done about every answer: noted, counted, compressed.
async fn answer<B>(server: &ApiServer, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if let Some(door) = request.extensions().get::<Door>()
        && let Some(elsewhere) = server.engine().elsewhere(&door.control_plane)
    {
        let door = door.clone();
        return elsewhere.answer(door, request.map(|body| body.map_err(Into::into).boxed_unsync())).await;
    }
    let (parts, body) = request.into_parts();
    let gzip = compress::accepts_gzip(&parts.headers);
    let mut trail = Trail::begin(server.engine(), &parts);
    // What a panic leaves behind is this request's own: shared state is behind locks that do not poison.
    let answered = AssertUnwindSafe(handle(server, &mut trail, parts, body)).catch_unwind().await;
    let response = match answered {
        Ok(answered) => trail.end(answered).await,
        Err(panic) => trail.panicked(panic).await,
    };
    compress::response(response, gzip)
}

async fn handle<B>(server: &ApiServer, trail: &mut Trail, mut parts: request::Parts, body: B) -> Answer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let Some(door) = parts.extensions.remove::<Door>() else {
        return Err(Status::internal("the request came through no door").into());
    };

    // The control plane at the door.
    let found = server.engines.find(&door.control_plane).await?;
    let head = Head::new(parts, door)?;

    let target = Target::parse(&head.path);
    trail.asked(&head, &target);
    let Some((engine, plane)) = found else {
        return absent::answer(server.engine(), &head, &target).map(uncached);
    };

    // Who asks?
    let caller = match stations::authenticate::user(engine, &plane, &head).await {
        Ok(caller) => caller,
        Err(failure) => {
            trail.unidentified(&plane, &head, &target);
            return Err(failure);
        }
    };
    trail.identified(&plane, &head, &target, &caller).await;
    let user = stations::impersonate::user(engine, &plane, &head, caller.clone()).await?;
    if !Arc::ptr_eq(&user, &caller) {
        trail.impersonates(&user);
    }

    // Is there room for it?
    let seat = Arc::new(engine.fairness.admit(&plane, &head, &target).await?);

    // May they?
    stations::authorize::request(engine, &plane, &user, &head, &target, trail).await?;

    let answer = match target {
        Target::Path(path) => {
            let rest = path.strip_prefix(extension::PREFIX).filter(|_| plane.name == engine.config.hosting);
            match (rest, engine.extension.get()) {
                (Some(rest), Some(extension)) => {
                    let parts: Vec<&str> = rest.split('/').collect();
                    extension.answer(&head, &parts, body.map_err(Into::into).boxed_unsync()).await
                }
                _ => paths::answer(engine, &plane, &head, &path).await,
            }
        }
        Target::Resource(target) => {
            let surface = engine.planes.surface(&plane).await?;
            let Some(row) = surface.row(&target.group, &target.version, &target.resource).cloned() else {
                return Err(no_control_plane().into());
            };
            trail.found(&row, &target);
            let action = Action::of(&head.method, &target, head.wants_watch());
            let Some(action) = action else { return Err(method_not_allowed().into()) };
            let body = stations::decode::read_body(body, action).await?;
            trail.body(&head.headers, &body);
            if body.len() >= HEAVY {
                engine.fairness.slice(plane.id).await?;
            }
            let mut call = Call::new(engine.clone(), plane, surface, row, user, target, action, head, body)?;
            call.seat = Some(seat);
            let answered = if call.target.subresource.is_empty() {
                verbs::answer(&call).await
            } else {
                subresources::answer(&call).await
            };
            trail.noted(&call);
            answered.map(|response| call.with_warnings(response))
        }
    }?;
    Ok(uncached(answer))
}

/// Answers that do not say otherwise are for the caller alone, and only now.
fn uncached(mut answer: Response<Body>) -> Response<Body> {
    answer
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    answer
}

pub fn method_not_allowed() -> Status {
    Status::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
}
