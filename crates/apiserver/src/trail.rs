//! What is noted of a request on its way, for those who look at it afterwards: the audit log and the metrics.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use auth::authorize::Decision;
use auth::user::UserInfo;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, Uri, header, request};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use objects::{CompactString, Reason, Status};

use crate::audit::{Asked, Record, Stage};
use crate::body::{self, Body, BoxError, status_response};
use crate::call::{Call, Head};
use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::metrics::{self, InFlight};
use crate::route::{Action, ResourceTarget, Target};
use crate::service::Answer;
use crate::surface::Row;

const AUDIT_ID: header::HeaderName = header::HeaderName::from_static("audit-id");
/// A client may name its request for the log, but not with a novel.
const MAX_AUDIT_ID: usize = 256;

/// Made when a request comes in, and consumed with its answer.
pub struct Trail {
    engine: Arc<Engine>,
    audit_id: HeaderValue,
    began: Instant,
    /// Kept for the log only.
    uri: Option<Uri>,
    record: Option<Record>,
    /// The answer to somebody unknown is told when it begins, and nothing else is.
    unknown_user: bool,
    in_flight: Option<InFlight>,
    labels: Labels,
}

/// What the request is counted as.
#[derive(Default)]
struct Labels {
    verb: &'static str,
    row: Option<Arc<Row>>,
    subresource: CompactString,
    scope: &'static str,
}

impl Trail {
    pub fn begin(engine: &Arc<Engine>, parts: &request::Parts) -> Trail {
        Trail {
            engine: engine.clone(),
            audit_id: audit_id(&parts.headers),
            began: Instant::now(),
            uri: engine.config.audit.as_ref().map(|_| parts.uri.clone()),
            record: None,
            unknown_user: false,
            in_flight: None,
            labels: Labels::default(),
        }
    }

    /// What the request wants, before anybody has looked whether there is such a thing.
    pub fn asked(&mut self, head: &Head, target: &Target) {
        let action = action(head, target);
        self.labels.verb = verb_label(head, action);
        match target {
            Target::Path(path) => self.labels.subresource = path_label(path).into(),
            Target::Resource(target) => self.labels.scope = scope_label(target, action),
        }
        if action != Some(Action::Watch) {
            let reads = action.map_or_else(|| is_read(&head.method), Action::reads);
            self.in_flight = Some(self.engine.metrics.begin(!reads));
        }
    }

    /// The one who asks: what is told of the request is decided here.
    pub async fn identified(&mut self, plane: &ControlPlane, head: &Head, target: &Target, user: &UserInfo) {
        self.record = self.recorded(plane, head, target, Some(user));
        if let Some(record) = &mut self.record {
            record.reach(Stage::RequestReceived).await;
        }
    }

    /// Somebody who is not who they claim to be.
    pub fn unidentified(&mut self, plane: &ControlPlane, head: &Head, target: &Target) {
        self.record = self.recorded(plane, head, target, None);
        self.unknown_user = true;
    }

    fn recorded(
        &self,
        plane: &ControlPlane,
        head: &Head,
        target: &Target,
        user: Option<&UserInfo>,
    ) -> Option<Record> {
        let (log, uri) = (self.engine.config.audit.as_ref()?, self.uri.as_ref()?);
        let verb = match action(head, target) {
            Some(action) => action.as_str().into(),
            None => head.method.as_str().to_ascii_lowercase(),
        };
        let since = jiff::SignedDuration::try_from(self.began.elapsed()).unwrap_or_default();
        let received = self.engine.now().checked_sub(since).unwrap_or_default();
        let id = self.audit_id.to_str().unwrap_or_default();
        let asked = Asked { id, uri, head, target, verb: &verb, control_plane: plane, received };
        Record::begin(log, &asked, user)
    }

    pub fn impersonates(&mut self, user: &UserInfo) {
        if let Some(record) = &mut self.record {
            record.impersonates(user);
        }
    }

    pub fn decided(&mut self, decision: &Decision) {
        if let Some(record) = &mut self.record {
            record.decided(decision);
        }
    }

    /// There is such a resource: its names may be counted by.
    pub fn found(&mut self, row: &Arc<Row>, target: &ResourceTarget) {
        self.labels.subresource =
            row.ty.subresource(&target.subresource).map(|sub| sub.name.clone()).unwrap_or_default();
        self.labels.row = Some(row.clone());
    }

    pub fn body(&mut self, headers: &HeaderMap, body: &Bytes) {
        if let Some(record) = &mut self.record {
            record.request_body(headers, body);
        }
    }

    /// What admission had to say.
    pub fn noted(&mut self, call: &Call) {
        if let Some(record) = &mut self.record {
            call.notes().iter().for_each(|(key, value)| record.annotate(key, value));
        }
    }

    /// The end of the way: the answer is counted and told of, and gets the request's id.
    pub async fn end(mut self, answer: Answer) -> Response<Body> {
        let mut response = match answer {
            Ok(response) => {
                if let Some(record) = &mut self.record {
                    record.answered(response.status());
                }
                response
            }
            Err(failure) => {
                if let Some(record) = &mut self.record {
                    record.failed(&failure.0);
                }
                status_response(&failure.0)
            }
        };
        let watching = self.labels.verb == "WATCH" && response.status().is_success();
        self.count(response.status().as_u16(), watching);
        if let Some(mut record) = self.record.take() {
            if self.unknown_user {
                record.reach(Stage::ResponseStarted).await;
                record.end();
            } else if watching {
                record.reach(Stage::ResponseStarted).await;
                response = response.map(|inner| Told { inner, _record: record }.boxed_unsync());
            } else if response.body().size_hint().exact().is_none() && !record.wants_response() {
                // It is complete when the last piece has been taken.
                response = response.map(|inner| Told { inner, _record: record }.boxed_unsync());
            } else {
                response = with_body(&mut record, response).await;
                record.reach(Stage::ResponseComplete).await;
            }
        }
        response.headers_mut().insert(AUDIT_ID, self.audit_id);
        response
    }

    /// A fault of ours, in the middle of a request. The client gets an answer, and the operator a reason to look.
    pub async fn panicked(mut self, panic: Box<dyn Any + Send>) -> Response<Body> {
        let words = panic.downcast_ref::<&str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
        tracing::error!(panic = words, audit_id = ?self.audit_id, "a request panicked");
        self.count(500, false);
        if let Some(mut record) = self.record.take() {
            record.failed(&Status::new(Reason::InternalError, format!("APIServer panic'd: {words}")));
            record.reach(Stage::Panic).await;
        }
        let status = Status::new(
            Reason::InternalError,
            "This request caused apiserver to panic. Look in the logs for details.",
        );
        let mut response = status_response(&status);
        response.headers_mut().insert(AUDIT_ID, self.audit_id);
        response
    }

    fn count(&mut self, code: u16, watching: bool) {
        self.in_flight = None;
        let labels = &self.labels;
        let ty = labels.row.as_ref().map(|row| &row.ty);
        let request = metrics::Request {
            verb: if labels.verb.is_empty() { "OTHER" } else { labels.verb },
            group: ty.map_or("", |ty| &ty.group),
            version: ty.map_or("", |ty| &ty.version),
            resource: ty.map_or("", |ty| &ty.plural),
            subresource: &labels.subresource,
            scope: labels.scope,
        };
        let took = (!watching).then(|| self.began.elapsed());
        self.engine.metrics.requests.answered(&request, code, took);
    }
}

/// Counts a watch for as long as it is open.
pub fn watching(call: &Call) -> metrics::Watching {
    let ty = &call.row.ty;
    call.engine.metrics.requests.watch(&metrics::Request {
        verb: "WATCH",
        group: &ty.group,
        version: &ty.version,
        resource: &ty.plural,
        subresource: "",
        scope: scope_label(&call.target, Some(Action::Watch)),
    })
}

/// The client's own name for the request, or a new one.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let given =
        headers.get(&AUDIT_ID).filter(|id| !id.is_empty() && id.len() <= MAX_AUDIT_ID && id.to_str().is_ok());
    given.cloned().unwrap_or_else(|| {
        let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
        let mut text = uuid::Uuid::encode_buffer();
        let text = id.hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    })
}

fn action(head: &Head, target: &Target) -> Option<Action> {
    match target {
        Target::Path(_) => None,
        Target::Resource(target) => Action::of(&head.method, target, head.wants_watch()),
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The verb as kube-apiserver counts it: by method for what it has a method for.
fn verb_label(head: &Head, action: Option<Action>) -> &'static str {
    let applies = || {
        let content_type = head.header(header::CONTENT_TYPE).unwrap_or_default();
        content_type.starts_with("application/apply-patch")
    };
    match (action, &head.method) {
        (Some(Action::List), _) => "LIST",
        (Some(Action::Watch), _) => "WATCH",
        (Some(Action::DeleteCollection), _) => "DELETECOLLECTION",
        (Some(Action::Patch), _) if applies() => "APPLY",
        (_, &Method::GET) => "GET",
        (_, &Method::HEAD) => "HEAD",
        (_, &Method::POST) => "POST",
        (_, &Method::PUT) => "PUT",
        (_, &Method::PATCH) => "PATCH",
        (_, &Method::DELETE) => "DELETE",
        _ => "OTHER",
    }
}

fn scope_label(target: &ResourceTarget, action: Option<Action>) -> &'static str {
    if !target.name.is_empty() || action == Some(Action::Create) {
        "resource"
    } else if !target.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

/// Paths that are counted by name; any other is one that nobody needs to find again.
const PATHS: [&str; 10] = [
    "/.well-known",
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi",
    "/openid",
    "/readyz",
    "/version",
];

fn path_label(path: &str) -> &'static str {
    let end = path.get(1..).and_then(|rest| rest.find('/')).map_or(path.len(), |end| end + 1);
    PATHS.into_iter().find(|known| *known == &path[..end]).unwrap_or_default()
}

/// The answer with its body read, where the log wants it.
async fn with_body(record: &mut Record, response: Response<Body>) -> Response<Body> {
    if !record.wants_response() {
        return response;
    }
    let (head, body) = response.into_parts();
    match body.collect().await {
        Ok(read) => {
            let bytes = read.to_bytes();
            record.response_body(&head.headers, &bytes);
            Response::from_parts(head, body::full(bytes))
        }
        Err(error) => status_response(&Status::internal(error)),
    }
}

/// The stream of a watch or of a long list that is told of: its record ends with it.
struct Told {
    inner: Body,
    _record: Record,
}

impl http_body::Body for Told {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_counted_by_their_first_part() {
        fn check(path: &str, expected: &str) {
            assert_eq!(path_label(path), expected, "{path}");
        }
        check("/healthz", "/healthz");
        check("/readyz/store", "/readyz");
        check("/apis/apps/v1", "/apis");
        check("/version/", "/version");
        check("/", "");
        check("", "");
        check("/nonsense/of/a/client", "");
    }

    #[test]
    fn a_client_may_name_its_request() {
        let mut headers = HeaderMap::new();
        assert_eq!(audit_id(&headers).len(), 36);
        assert_ne!(audit_id(&headers), audit_id(&headers));
        headers.insert("Audit-ID", HeaderValue::from_static("mine"));
        assert_eq!(audit_id(&headers), "mine");
        headers.insert("Audit-ID", HeaderValue::from_str(&"x".repeat(300)).unwrap());
        assert_eq!(audit_id(&headers).len(), 36);
    }
}
