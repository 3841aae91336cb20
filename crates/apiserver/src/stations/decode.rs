//! From a request's body to a value.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use objects::{Reason, Status, decode};
use tokio::time::{Instant, timeout_at};

use wire::negotiate::{self, Format};
use wire::protobuf::{self, Kind};

use crate::body::BoxError;
use crate::call::{Call, Head};
use crate::route::Action;
use crate::service::Failure;
use crate::stations::fairness::{HEAVY, Reservation};

/// As upstream: a body may have 3 MiB.
pub const BODY_LIMIT: usize = 3 << 20;
/// Read and dropped of a body that is too large: a client that still writes does not see the answer.
const DRAIN_LIMIT: usize = 8 * BODY_LIMIT;
/// What a body may take to come in.
const PACE: Pace =
    Pace { whole: Duration::from_secs(30), first: Duration::from_secs(10), bytes_per_second: 1024.0 };
/// Smaller bodies are not worth to be counted.
const COUNTED: usize = 8 << 10;
/// Values in a document, as many as YAML may have.
const MAX_NODES: usize = 250_000;
/// What a value takes in memory while a request is worked on: as what was sent, and as what is stored.
const NODE_BYTES: usize = 200;

/// How fast a body has to come.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// It has to be there in this time,
    pub whole: Duration,
    /// and in less if it comes more slowly than this after that.
    pub first: Duration,
    pub bytes_per_second: f64,
}

impl Pace {
    /// The time that there is for more than so many bytes.
    fn time_for(&self, bytes: usize) -> Duration {
        let earned = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        (self.first + earned).min(self.whole)
    }
}

/// The whole body, within the limit. Verbs that have none do not read it. Its bytes are counted as they come in.
pub async fn read_body<B>(body: B, action: Action, counted: &mut Reservation) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    if action.reads() { Ok(Bytes::new()) } else { read_at(PACE, body, counted).await }
}

pub async fn read_at<B>(pace: Pace, body: B, counted: &mut Reservation) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let began = Instant::now();
    let mut body = std::pin::pin!(body);
    let mut size = 0;
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    loop {
        let deadline = began + pace.time_for(size);
        let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(|_| timed_out())? else { break };
        let frame = frame.map_err(|error| {
            let error: BoxError = error.into();
            Status::bad_request(format!("the body cannot be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > BODY_LIMIT {
            (first, rest) = (None, BytesMut::new());
            counted.shrink_to(0);
            if size > DRAIN_LIMIT {
                break;
            }
            continue;
        }
        if size >= COUNTED {
            counted.grow(size - counted.bytes())?;
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
        return Err(too_large(format!("{BODY_LIMIT}")));
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

fn too_large(limit: impl std::fmt::Display) -> Failure {
    Status::new(Reason::RequestEntityTooLarge, format!("Request entity too large: limit is {limit}")).into()
}

/// As upstream says it of every request that takes too long.
pub fn timed_out() -> Failure {
    Status::new(Reason::Timeout, "Timeout: request did not complete within the allotted timeout").into()
}

/// Counts what a body will take as a value, and refuses one that has too many.
pub fn count_values(head: &Head, body: &Bytes, counted: &mut Reservation) -> Result<(), Failure> {
    if body.len() < COUNTED {
        return Ok(());
    }
    let nodes = match body.len() < HEAVY {
        // No more than one value for two bytes, and mostly far less.
        true => body.len() / 16,
        false if is_json(head, body) => nodes(body),
        // YAML has the same bound, and protobuf is counted when it is a value.
        false => (body.len() / 16).min(MAX_NODES),
    };
    if nodes > MAX_NODES {
        return Err(too_large(format_args!("{MAX_NODES} values")));
    }
    counted.grow(body.len() + nodes * NODE_BYTES)
}

fn is_json(head: &Head, body: &[u8]) -> bool {
    let media_type = head.header(http::header::CONTENT_TYPE).unwrap_or_default();
    !media_type.contains("protobuf") && matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// The values of a JSON document, and no less if it is none. Empty objects and lists count twice.
fn nodes(json: &[u8]) -> usize {
    let (mut nodes, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'{' | b'[' if !in_string => nodes += 1,
            _ => {}
        }
    }
    nodes
}

fn nodes_of(value: &objects::Value) -> usize {
    1 + match value {
        objects::Value::Object(members) => members.values().map(nodes_of).sum(),
        objects::Value::Array(items) => items.iter().map(nodes_of).sum(),
        _ => 0,
    }
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
            if body.len() > MAX_NODES && value.as_ref().is_ok_and(|value| nodes_of(value) > MAX_NODES) {
                return Err(too_large(format_args!("{MAX_NODES} values")));
            }
            value.map(|value| decode::Decoded { value, duplicates: Vec::new() })
        }
    };
    decoded.map_err(|error| Status::bad_request(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_bodies_have_less_time() {
        let check = |bytes, seconds| assert_eq!(PACE.time_for(bytes).as_secs(), seconds, "{bytes}");
        check(0, 10);
        check(1, 10);
        check(10 << 10, 20);
        check(20 << 10, 30);
        check(BODY_LIMIT, 30);
    }

    #[test]
    fn values_are_counted() {
        let check = |json: &str, expected: usize| assert_eq!(nodes(json.as_bytes()), expected, "{json}");
        check("1", 1);
        check(r#"{"a": 1, "b": 2}"#, 3);
        check(r#"[1, [2, 3], {"a": "b"}]"#, 7);
        check(r#"["a,b", "{[\",", "\\", 1]"#, 5);
        check("[{}, {}]", 5);
        let text = r#"{"a": [1, {"b": null}], "c": "d"}"#;
        let value: objects::Value = serde_json::from_str(text).unwrap();
        assert_eq!(nodes_of(&value), nodes(text.as_bytes()));
    }
}
