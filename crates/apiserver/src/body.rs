//! Bodies of answers, and the one place where an error becomes an HTTP response.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use objects::{Status, Value};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    use futures::StreamExt;
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}

/// A body whose first chunk is at hand, and the rest when it is asked for. An error cuts the connection or the stream, so
/// that nobody takes a part for the whole.
pub fn begun(first: Bytes, rest: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static) -> Body {
    Begun { first: Some(first), rest: StreamBody::new(rest.map_ok(Frame::data)).boxed_unsync() }
        .boxed_unsync()
}

struct Begun {
    first: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    /// Of the first chunk: by it is decided whether the whole is worth to be compressed.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.first.as_ref().map_or(0, |first| first.len() as u64));
        hint
    }
}

pub fn response(code: u16, content_type: HeaderValue, bytes: impl Into<Bytes>) -> Response<Body> {
    of(code, content_type, full(bytes))
}

pub fn of(code: u16, content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    // As upstream: what is read with a credential is nobody else's to keep.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub fn json(code: u16, value: &Value) -> Response<Body> {
    response(code, JSON, value.to_string())
}

pub fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    response(code, HeaderValue::from_static("text/plain; charset=utf-8"), text.into())
}

/// Every failure leaves the server through here.
pub fn status_response(status: &Status) -> Response<Body> {
    let mut response = json(status.code, &status.to_value());
    if let Some(seconds) = status.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status.code == 401 {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
