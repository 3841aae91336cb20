//! The service: a request passes the stations in this order, and every failure leaves as a `Status`.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderValue, Method, Request, Response, header, request};
use http_body_util::BodyExt;
use objects::{Reason, Status};
use tokio::time::{Instant, timeout_at};
use tower::Service;

use crate::body::{Body, BoxError};
use crate::call::{Call, Head};
use crate::engine::{Engine, no_control_plane};
use crate::engines::Engines;
use crate::route::{Action, Target};
use crate::stations::decode::timed_out;
use crate::stations::fairness::{HEAVY, Marks, Placed, REQUEST_TIMEOUT, Seat, Sending};
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
    let mut held = Held::default();
    // What a panic leaves behind is this request's own: shared state is behind locks that do not poison.
    let answered = AssertUnwindSafe(handle(server, &mut trail, &mut held, parts, body)).catch_unwind().await;
    let response = match answered {
        Ok(answered) => trail.end(answered).await,
        Err(panic) => trail.panicked(panic).await,
    };
    let mut response = compress::response(response, gzip);
    if let Some(marks) = held.marks {
        response.headers_mut().insert(FLOW_SCHEMA, marks.flow_schema);
        response.headers_mut().insert(PRIORITY_LEVEL, marks.priority_level);
    }
    match held.sending {
        Some(sending) => sending.send(response),
        None => response,
    }
}

const FLOW_SCHEMA: header::HeaderName = header::HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: header::HeaderName =
    header::HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// What a request has of fairness, for its answer.
#[derive(Default)]
struct Held {
    /// From when it has a seat.
    sending: Option<Sending>,
    marks: Option<Marks>,
}

async fn handle<B>(
    server: &ApiServer,
    trail: &mut Trail,
    held: &mut Held,
    mut parts: request::Parts,
    body: B,
) -> Answer
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
    let began = Instant::now();
    let mut kind = engine.fairness.kind(&head, &target, &user);
    if kind.is_classified() {
        let flow_control = engine.planes.flow_control(&plane).await?;
        held.marks = engine.fairness.classify(&mut kind, &flow_control, &head, &target, &user);
    }
    let seat = engine.fairness.enter(&plane, kind)?;

    // May they?
    stations::authorize::request(engine, &plane, &user, &head, &target, trail).await?;

    let is_timed = kind.is_timed();
    let deadline = began + REQUEST_TIMEOUT;
    let mut counted = engine.fairness.reserve(plane.id, 0)?;
    let reads = matches!(head.method, Method::GET | Method::HEAD);
    let answer = match target {
        Target::Path(path) => {
            let seat = seated(engine, seat).await?;
            held.sending = Some(engine.fairness.sending(seat));
            let rest = path.strip_prefix(extension::PREFIX).filter(|_| plane.name == engine.config.hosting);
            match (rest, engine.extension.get()) {
                (Some(rest), Some(extension)) => {
                    let parts: Vec<&str> = rest.split('/').collect();
                    extension.answer(&user, &head, &parts, body.map_err(Into::into).boxed_unsync()).await
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
            // A slow client waits here, and takes nobody's seat.
            let body = stations::decode::read_body(body, action, &mut counted).await?;
            let seat = seated(engine, seat).await?;
            held.sending = Some(engine.fairness.sending(seat.clone()));
            if body.len() >= HEAVY {
                engine.fairness.slice(plane.id).await?;
            }
            stations::decode::count_values(&head, &body, &mut counted)?;
            trail.body(&head.headers, &body);
            let mut call =
                Call::new(engine.clone(), plane.clone(), surface, row, user, target, action, head, body)?;
            call.seat = Some(seat);
            let answering = async {
                if call.target.subresource.is_empty() {
                    verbs::answer(&call).await
                } else {
                    subresources::answer(&call).await
                }
            };
            let answered = match is_timed {
                true => timeout_at(deadline, answering).await.unwrap_or_else(|_| Err(timed_out())),
                false => answering.await,
            };
            trail.noted(&call);
            answered.map(|response| call.with_warnings(response))
        }
    }?;
    if let Some(sending) = &mut held.sending {
        sending.count(&answer, reads, |size| engine.fairness.reserve(plane.id, size))?;
        if is_timed {
            sending.set_deadline(deadline);
        }
    }
    Ok(uncached(answer))
}

/// A seat, as soon as it is the request's turn.
async fn seated(engine: &Engine, mut seat: Seat) -> Result<Arc<Seat>, Failure> {
    if engine.fairness.turn(&mut seat).await? {
        engine.fairness.slice(seat.tenant()).await?;
    }
    Ok(Arc::new(seat))
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
