//! Bodies of answers, and the one place where an error becomes an HTTP response.

use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
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

pub fn response(code: u16, content_type: HeaderValue, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
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
