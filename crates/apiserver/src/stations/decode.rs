//! From a request's body to a value.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use objects::{Reason, Status, decode};

use wire::negotiate::{self, Format};
use wire::protobuf::{self, Kind};

use crate::body::BoxError;
use crate::call::Call;
use crate::route::Action;
use crate::service::Failure;

/// As upstream: a body may have 3 MiB.
pub const BODY_LIMIT: usize = 3 << 20;
/// Read and dropped of a body that is too large: a client that still writes does not see the answer.
const DRAIN_LIMIT: usize = 8 * BODY_LIMIT;

/// The whole body, within the limit. Verbs that have none do not read it.
pub async fn read_body<B>(body: B, action: Action) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    if action.reads() {
        return Ok(Bytes::new());
    }
    let mut body = std::pin::pin!(body);
    let mut size = 0;
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let error: BoxError = error.into();
            Status::bad_request(format!("the body cannot be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > BODY_LIMIT {
            (first, rest) = (None, BytesMut::new());
            if size > DRAIN_LIMIT {
                break;
            }
            continue;
        }
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
    if size > BODY_LIMIT {
        let message = format!("Request entity too large: limit is {BODY_LIMIT}");
        return Err(Status::new(Reason::RequestEntityTooLarge, message).into());
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

/// The object in a call's body: JSON or YAML by the content type, and protobuf where the type can be that. The type is
/// the one that is expected here, for bodies that do not say theirs.
pub fn object(call: &Call, expected: Kind<'_>) -> Result<decode::Decoded, Failure> {
    const ALL: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];
    let formats = if protobuf::has_message(expected) { ALL.as_slice() } else { &ALL[..2] };
    let body = &call.body;
    let decoded = match negotiate::body(call.head.header(http::header::CONTENT_TYPE), formats)? {
        Format::Json => decode::json(body).map_err(|error| error.to_string()),
        Format::Yaml => wire::yaml::decode(body).map_err(|error| error.to_string()),
        Format::Protobuf => {
            let value = protobuf::decode(body, expected).map_err(|error| error.to_string());
            value.map(|value| decode::Decoded { value, duplicates: Vec::new() })
        }
    };
    decoded.map_err(|error| Status::bad_request(error).into())
}
