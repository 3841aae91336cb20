//! From a request's body to a value.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::{BodyExt, Limited};
use objects::{Reason, Status, decode};

use wire::negotiate::{self, Format};

use crate::body::BoxError;
use crate::route::Action;
use crate::service::Failure;

/// As upstream: a body may have 3 MiB.
pub const BODY_LIMIT: usize = 3 << 20;

/// The whole body, within the limit. Verbs that have none do not read it.
pub async fn read_body<B>(body: B, action: Action) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    if action.reads() {
        return Ok(Bytes::new());
    }
    let mut body = std::pin::pin!(Limited::new(body, BODY_LIMIT));
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                let message = format!("Request entity too large: limit is {BODY_LIMIT}");
                return Status::new(Reason::RequestEntityTooLarge, message);
            }
            Status::bad_request(format!("the body cannot be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        // Most bodies come in one piece: take it as it is.
        match &first {
            None => first = Some(data),
            Some(head) => {
                if rest.is_empty() {
                    rest.extend_from_slice(head);
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

/// JSON or YAML, by the content type.
pub fn object(headers: &HeaderMap, body: &Bytes) -> Result<decode::Decoded, Failure> {
    let content_type = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match negotiate::body(content_type, &[Format::Json, Format::Yaml])? {
        Format::Yaml => wire::yaml::decode(body).map_err(|error| Status::bad_request(error.to_string()).into()),
        Format::Json | Format::Protobuf => {
            decode::json(body).map_err(|error| Status::bad_request(error.to_string()).into())
        }
    }
}
