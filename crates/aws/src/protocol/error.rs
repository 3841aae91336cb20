//! What a service answers when it refuses a call.

use serde_json::{Map, Value};

use super::{Response, cbor, json, xml};
use crate::model::{Operation, Protocol, Shape};

/// A service refused a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// The code that AWS documents, as `NoSuchBucket`.
    pub code: String,
    pub message: String,
    pub status: u16,
    pub request_id: Option<String>,
    /// The members of the error by the model, where it has any.
    pub members: Value,
    /// The model says that trying again can help.
    pub retryable: bool,
    /// The model says that the caller is too fast.
    pub throttling: bool,
}

/// What an error body says of itself, before the model is asked.
#[derive(Default)]
struct Said {
    code: Option<String>,
    message: Option<String>,
    request_id: Option<String>,
    body: Body,
}

#[derive(Default)]
enum Body {
    #[default]
    Unreadable,
    Json(Value),
    Xml(xml::Element),
    Cbor(cbor::Item),
}

pub(super) fn refusal(operation: Operation<'_>, response: &Response) -> Refusal {
    let said = match operation.service().protocol() {
        Protocol::Json | Protocol::RestJson => json_error(response),
        Protocol::RestXml | Protocol::Query | Protocol::Ec2 => xml_error(response),
        Protocol::RpcV2Cbor => cbor_error(response),
    };
    let asked = said.code.as_deref().map(bare_code).filter(|code| !code.is_empty());
    let shape = asked.and_then(|code| error_shape(operation, code));
    let facts = shape.and_then(Shape::error);
    let members = shape.map(|shape| members(shape, &said.body, operation)).unwrap_or(Value::Null);
    let members = match shape {
        Some(shape) if is_rest(operation) => super::rest::with_headers(shape, response, members),
        _ => members,
    };
    // A service that once spoke query tells the old code in a header, and its users know that one.
    let old_code = response.header("x-amzn-query-error").and_then(|value| value.split(';').next());
    let model_code = facts.and_then(|facts| facts.code.as_deref());
    let code = old_code.filter(|_| operation.service().is_query_compatible()).or(model_code).or(asked);
    let header_id = || ["x-amzn-requestid", "x-amz-request-id"].iter().find_map(|name| response.header(name));
    Refusal {
        code: code.map(str::to_owned).unwrap_or_else(|| code_of_status(response.status)),
        message: said.message.unwrap_or_else(|| message_of_status(response)),
        status: response.status,
        request_id: said.request_id.or_else(|| header_id().map(str::to_owned)),
        members,
        retryable: facts.is_some_and(|facts| facts.retryable),
        throttling: facts.is_some_and(|facts| facts.throttling),
    }
}

fn is_rest(operation: Operation<'_>) -> bool {
    matches!(operation.service().protocol(), Protocol::RestJson | Protocol::RestXml)
}

/// The error of a code among those of the operation, else among all of the service.
fn error_shape<'a>(operation: Operation<'a>, code: &str) -> Option<Shape<'a>> {
    let has_code = |shape: &Shape<'a>| {
        let other = shape.error().and_then(|facts| facts.code.as_deref());
        shape.name() == code || other == Some(code)
    };
    let of_operation = operation.errors().find(has_code);
    of_operation
        .or_else(|| operation.service().shapes().find(|shape| shape.is_exception() && has_code(shape)))
}

fn members(shape: Shape<'_>, body: &Body, operation: Operation<'_>) -> Value {
    let read = match body {
        Body::Json(value) => json::read(shape, value, operation),
        Body::Xml(element) => xml::read(shape, element, operation),
        Body::Cbor(item) => cbor::read(shape, item, operation),
        Body::Unreadable => return Value::Object(Map::new()),
    };
    // The code counts; a member that cannot be read must not hide it.
    read.unwrap_or(Value::Null)
}

/// A code without the namespace before it and the address after it.
fn bare_code(code: &str) -> &str {
    let code = code.split(':').next().unwrap_or(code);
    code.rsplit('#').next().unwrap_or(code).trim()
}

fn json_error(response: &Response) -> Said {
    let body = serde_json::from_slice::<Value>(&response.body).ok().filter(Value::is_object);
    let text = |keys: &[&str]| {
        let body = body.as_ref()?;
        keys.iter().find_map(|key| body.get(*key).and_then(Value::as_str)).map(str::to_owned)
    };
    let number = || body.as_ref()?.get("code").and_then(Value::as_i64).map(|code| code.to_string());
    let header = response.header("x-amzn-errortype").map(str::to_owned);
    Said {
        code: header.or_else(|| text(&["__type", "code", "Code"])).or_else(number),
        message: text(&["message", "Message", "errorMessage", "error"]),
        request_id: None,
        body: body.map_or(Body::Unreadable, Body::Json),
    }
}

fn cbor_error(response: &Response) -> Said {
    let Some(item) = cbor::parse(&response.body) else { return Said::default() };
    let text = |keys: &[&str]| keys.iter().find_map(|key| item.get(key)?.as_text()).map(str::to_owned);
    Said {
        code: text(&["__type", "code"]),
        message: text(&["message", "Message"]),
        request_id: None,
        body: Body::Cbor(item),
    }
}

/// `ErrorResponse/Error`, `Response/Errors/Error`, or `Error` alone.
fn xml_error(response: &Response) -> Said {
    let Some(root) = xml::parse(&response.body) else { return Said::default() };
    let id = ["RequestId", "RequestID", "requestId"].iter().find_map(|name| root.child(name));
    let request_id = id.map(|element| element.text.clone());
    let error = match root.name.as_str() {
        "Error" => Some(&root),
        _ => root.child("Error").or_else(|| root.child("Errors")?.child("Error")),
    };
    let Some(error) = error else { return Said { request_id, ..Said::default() } };
    let text = |names: &[&str]| {
        names.iter().find_map(|name| error.child(name)).map(|element| element.text.trim().to_owned())
    };
    Said {
        code: text(&["Code"]),
        message: text(&["Message", "message"]),
        request_id,
        body: Body::Xml(error.clone()),
    }
}

/// The code of an answer without a readable body: a proxy's page, or the answer to HEAD.
fn code_of_status(status: u16) -> String {
    let reason = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    reason.map(|reason| reason.replace([' ', '-', '\''], "")).unwrap_or_else(|| format!("Status{status}"))
}

fn message_of_status(response: &Response) -> String {
    let body = match response.header("content-type") {
        _ if response.body.is_empty() => "no body".to_owned(),
        Some(kind) => format!("a body of type {kind} that says no more"),
        None => "a body that says no more".to_owned(),
    };
    format!("the endpoint answered with status {} and {body}", response.status)
}
