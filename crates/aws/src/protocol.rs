//! Requests and responses of AWS's protocols, by the model of the operation.
//!
//! [`encode`] makes a [`Request`] of an operation's input, [`decode`] makes its output, or the [`Refusal`] that
//! the service answered with, of a [`Response`]. The protocols: json 1.0 and 1.1, rest-json, rest-xml, query,
//! ec2 and rpc-v2-cbor. Pure: no socket, no clock, no signature.
//!
//! Not here: hosts (see `endpoint`), signatures (`sign`) and retries (`client`).

mod cbor;
mod checksum;
mod error;
mod json;
mod query;
mod rest;
mod text;
mod xml;

use bytes::Bytes;
use http::HeaderMap;

use crate::model::{Location, Member, Operation, Protocol, Shape};
use crate::value::Value;
pub use error::Refusal;

/// A request without host and signature.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    /// Percent-encoded, with a leading slash.
    pub path: String,
    /// Percent-encoded, without the question mark; empty when there is none.
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// What stands before the host.
    pub host_prefix: Option<String>,
}

impl Request {
    /// The value of a header; names in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn add_header(&mut self, name: &str, value: impl Into<String>) {
        if self.header(name).is_none() {
            self.headers.push((name.to_owned(), value.into()));
        }
    }
}

/// A response as it came.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// An input does not fit its operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("{path} must be {expected}")]
    Type { path: String, expected: &'static str },
    #[error("{path} is no member of the operation's input")]
    UnknownMember { path: String },
    #[error("{path} is part of the address of the request and must not be empty")]
    EmptyLabel { path: String },
    #[error("{path} cannot be sent as a header: it has a line break or other control character")]
    Header { path: String },
}

/// A response cannot be read by the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the response of {operation} is not well-formed {what}")]
    Syntax { operation: String, what: &'static str },
    #[error("the response of {operation} has a value at {path} that is not {expected}")]
    Type { operation: String, path: String, expected: &'static str },
}

/// What came back of a call that reached the service.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Answer {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Unreadable(#[from] DecodeError),
}

/// The request of an operation with this input.
///
/// `token` fills the members that make a call idempotent and that the input leaves out.
pub fn encode(operation: Operation<'_>, input: &Value, token: &str) -> Result<Request, EncodeError> {
    let empty = Value::Object(serde_json::Map::new());
    let input = if input.is_null() { &empty } else { input };
    let filled = with_token(operation, input, token);
    let input = filled.as_ref().unwrap_or(input);
    if let Some(shape) = operation.input() {
        refuse_unknown(shape, input)?;
    }
    let mut request = match operation.service().protocol() {
        Protocol::Json => json::request(operation, input),
        Protocol::RestJson => rest::request(operation, input, &rest::JSON),
        Protocol::RestXml => rest::request(operation, input, &rest::XML),
        Protocol::Query => query::request(operation, input, &query::QUERY),
        Protocol::Ec2 => query::request(operation, input, &query::EC2),
        Protocol::RpcV2Cbor => cbor::request(operation, input),
    }?;
    request.host_prefix = host_prefix(operation, input)?;
    checksum::add(operation, &mut request);
    Ok(request)
}

/// The output of an operation, or what the service refused it with.
pub fn decode(operation: Operation<'_>, response: &Response) -> Result<Value, Answer> {
    if response.status >= 300 {
        return Err(error::refusal(operation, response).into());
    }
    let output = match operation.service().protocol() {
        Protocol::Json => json::output(operation, response),
        Protocol::RestJson => rest::output(operation, response, &rest::JSON),
        Protocol::RestXml => rest::output(operation, response, &rest::XML),
        Protocol::Query => query::output(operation, response, &query::QUERY),
        Protocol::Ec2 => query::output(operation, response, &query::EC2),
        Protocol::RpcV2Cbor => cbor::output(operation, response),
    };
    Ok(output?)
}

/// The input with the tokens that it lacks; nothing when it lacks none.
fn with_token(operation: Operation<'_>, input: &Value, token: &str) -> Option<Value> {
    let given = input.as_object()?;
    let mut filled = None;
    for member in operation.input()?.members().filter(|member| member.is_idempotency_token()) {
        if given.get(member.name()).is_none_or(Value::is_null) {
            let filled = filled.get_or_insert_with(|| given.clone());
            filled.insert(member.name().to_owned(), token.into());
        }
    }
    filled.map(Value::Object)
}

fn refuse_unknown(shape: Shape<'_>, input: &Value) -> Result<(), EncodeError> {
    let Value::Object(members) = input else {
        return Err(EncodeError::Type { path: "the input".to_owned(), expected: "an object" });
    };
    match members.keys().find(|name| shape.member(name).is_none()) {
        Some(name) => Err(EncodeError::UnknownMember { path: name.clone() }),
        None => Ok(()),
    }
}

fn host_prefix(operation: Operation<'_>, input: &Value) -> Result<Option<String>, EncodeError> {
    let Some(pattern) = operation.host_prefix() else { return Ok(None) };
    let mut prefix = pattern.to_owned();
    let members = operation.input().into_iter().flat_map(Shape::members);
    for member in members.filter(|member| member.is_host_label()) {
        let empty = || EncodeError::EmptyLabel { path: member.name().to_owned() };
        let text = input.get(member.name()).and_then(Value::as_str).unwrap_or_default();
        let label = format!("{{{}}}", member.name());
        if !prefix.contains(&label) {
            continue;
        }
        let is_label =
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        prefix = prefix.replace(&label, if is_label { text } else { return Err(empty()) });
    }
    Ok(Some(prefix))
}

/// The members that are in the body of a request.
fn body_members<'a>(shape: Shape<'a>) -> impl Iterator<Item = Member<'a>> {
    shape.members().filter(|member| member.location().is_none())
}

/// The members that are in the body of an answer: an answer has no address.
fn answer_members<'a>(shape: Shape<'a>) -> impl Iterator<Item = Member<'a>> {
    let of_request =
        |member: &Member<'a>| matches!(member.location(), Some(Location::Uri | Location::Querystring));
    shape.members().filter(move |member| member.location().is_none() || of_request(member))
}

#[cfg(test)]
mod tests;
