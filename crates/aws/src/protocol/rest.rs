//! rest-json and rest-xml: members in the address, in headers and in the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::text::{expected, member_scalar, percent_encoded, read_scalar};
use super::{DecodeError, EncodeError, Request, Response, answer_members, body_members, json, xml};
use crate::model::{Kind, Location, Member, Operation, Shape, TimestampFormat};

/// In what the two differ: their bodies.
pub(super) struct Dialect {
    content_type: &'static str,
    xml: bool,
}

pub(super) const JSON: Dialect = Dialect { content_type: "application/json", xml: false };
pub(super) const XML: Dialect = Dialect { content_type: "application/xml", xml: true };

pub(super) fn request(
    operation: Operation<'_>,
    input: &Value,
    dialect: &Dialect,
) -> Result<Request, EncodeError> {
    let mut request = Request { method: operation.method().to_owned(), ..Request::default() };
    let (path, fixed) = operation.uri().split_once('?').unwrap_or((operation.uri(), ""));
    request.path = path.to_owned();
    let mut query = Query::fixed(fixed);
    if let Some(shape) = operation.input() {
        let set = |member: &Member<'_>| input.get(member.name()).filter(|value| !value.is_null());
        // Members of a name come first: a map of further parameters does not replace them.
        for member in shape.members().filter(|member| member.shape().kind() != Kind::Map) {
            if let Some(value) = set(&member) {
                bind(&mut request, &mut query, member, value)?;
            }
        }
        for member in shape.members().filter(|member| member.shape().kind() == Kind::Map) {
            if let Some(value) = set(&member) {
                bind(&mut request, &mut query, member, value)?;
            }
        }
        body(&mut request, operation, shape, input, dialect)?;
    }
    if let Some(label) = request.path.split(['{', '}']).nth(1) {
        return Err(EncodeError::EmptyLabel { path: label.trim_end_matches('+').to_owned() });
    }
    request.query = query.text;
    Ok(request)
}

/// A query string as it grows.
struct Query {
    text: String,
    names: Vec<String>,
}

impl Query {
    fn fixed(text: &str) -> Query {
        let names = text.split('&').filter_map(|part| part.split('=').next()).map(str::to_owned).collect();
        Query { text: text.to_owned(), names }
    }

    fn add(&mut self, name: &str, value: &str) {
        if !self.text.is_empty() {
            self.text.push('&');
        }
        self.text.push_str(&percent_encoded(name, ""));
        self.text.push('=');
        self.text.push_str(&percent_encoded(value, ""));
        self.names.push(name.to_owned());
    }
}

/// Puts a member where the model wants it, unless that is the body.
fn bind(
    request: &mut Request,
    query: &mut Query,
    member: Member<'_>,
    value: &Value,
) -> Result<(), EncodeError> {
    let path = member.name();
    match member.location() {
        Some(Location::Uri) => {
            let text = member_scalar(member, TimestampFormat::Iso8601, value, path)?;
            if text.is_empty() {
                return Err(EncodeError::EmptyLabel { path: path.to_owned() });
            }
            let (plain, greedy) =
                (format!("{{{}}}", member.wire_name()), format!("{{{}+}}", member.wire_name()));
            if request.path.contains(&greedy) {
                request.path = request.path.replace(&greedy, &percent_encoded(&text, "/"));
            } else {
                request.path = request.path.replace(&plain, &percent_encoded(&text, ""));
            }
        }
        Some(Location::Querystring) => query_member(query, member, value)?,
        Some(Location::Header) => {
            let text = header_text(member, value)?;
            let is_clean = text.bytes().all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
            if !is_clean {
                return Err(EncodeError::Header { path: path.to_owned() });
            }
            request.add_header(member.wire_name(), text);
        }
        Some(Location::Headers) => {
            let entries = value.as_object().ok_or_else(|| wrong(member.shape(), path))?;
            for (key, value) in entries {
                let text = value.as_str().ok_or_else(|| wrong(member.shape(), path))?;
                let name = format!("{}{key}", member.location_name().unwrap_or_default());
                let is_name = http::HeaderName::from_bytes(name.as_bytes()).is_ok();
                if !is_name || http::HeaderValue::from_str(text).is_err() {
                    return Err(EncodeError::Header { path: format!("{path}.{key}") });
                }
                request.add_header(&name, text);
            }
        }
        Some(Location::StatusCode) | None => {}
    }
    Ok(())
}

fn query_member(query: &mut Query, member: Member<'_>, value: &Value) -> Result<(), EncodeError> {
    let path = member.name();
    match (member.shape().kind(), value) {
        (Kind::Map, Value::Object(entries)) => {
            for (name, value) in entries {
                if query.names.contains(name) {
                    continue;
                }
                let values = match value {
                    Value::Array(values) => values.as_slice(),
                    one => std::slice::from_ref(one),
                };
                for value in values {
                    let text = value.as_str().ok_or_else(|| wrong(member.shape(), path))?;
                    query.add(name, text);
                }
            }
        }
        (Kind::List, Value::Array(values)) => {
            let element = member.shape().element().ok_or_else(|| wrong(member.shape(), path))?;
            for value in values.iter().filter(|value| !value.is_null()) {
                let text = member_scalar(element, TimestampFormat::Iso8601, value, path)?;
                query.add(member.wire_name(), &text);
            }
        }
        _ => {
            let text = member_scalar(member, TimestampFormat::Iso8601, value, path)?;
            query.add(member.wire_name(), &text);
        }
    }
    Ok(())
}

fn header_text(member: Member<'_>, value: &Value) -> Result<String, EncodeError> {
    let path = member.name();
    Ok(match (member.shape().kind(), value) {
        (Kind::List, Value::Array(values)) => {
            let element = member.shape().element().ok_or_else(|| wrong(member.shape(), path))?;
            let mut texts = Vec::new();
            for value in values.iter().filter(|value| !value.is_null()) {
                let text = member_scalar(element, TimestampFormat::Rfc822, value, path)?;
                let quote = element.shape().kind() == Kind::String && text.contains([',', '"']);
                texts.push(if quote { quoted(&text) } else { text });
            }
            texts.join(", ")
        }
        _ => {
            let text = member_scalar(member, TimestampFormat::Rfc822, value, path)?;
            if member.is_json_value() { STANDARD.encode(text) } else { text }
        }
    })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn body(
    request: &mut Request,
    operation: Operation<'_>,
    shape: Shape<'_>,
    input: &Value,
    dialect: &Dialect,
) -> Result<(), EncodeError> {
    if let Some(payload) = shape.payload() {
        return payload_body(request, payload, input.get(payload.name()), dialect);
    }
    if body_members(shape).next().is_none() {
        return Ok(());
    }
    if !dialect.xml {
        request.body = json::write(shape, None, input, "")?.to_string().into_bytes();
        request.add_header("content-type", dialect.content_type);
        return Ok(());
    }
    let given =
        body_members(shape).any(|member| input.get(member.name()).is_some_and(|value| !value.is_null()));
    if !given {
        return Ok(());
    }
    let name = shape.location_name().or(operation.input_location_name()).unwrap_or_else(|| shape.name());
    let namespace = operation.input_namespace().or(shape.xml_namespace());
    let body = Value::Object(
        body_members(shape)
            .filter_map(|member| Some((member.name().to_owned(), input.get(member.name())?.clone())))
            .collect(),
    );
    let mut writer = xml::Writer::new();
    writer.structure(name, namespace, shape, &body, "")?;
    request.body = writer.finish();
    request.add_header("content-type", dialect.content_type);
    Ok(())
}

/// A body that is one member.
fn payload_body(
    request: &mut Request,
    payload: Member<'_>,
    value: Option<&Value>,
    dialect: &Dialect,
) -> Result<(), EncodeError> {
    let shape = payload.shape();
    let Some(value) = value.filter(|value| !value.is_null()) else {
        // A structure is there even when nothing of it is; of JSON that is said by an empty object.
        if shape.kind() == Kind::Structure && !dialect.xml {
            request.body = b"{}".to_vec();
            request.add_header("content-type", dialect.content_type);
        }
        return Ok(());
    };
    let path = payload.name();
    match (shape.kind(), value) {
        (Kind::Blob, Value::String(text)) => {
            request.body = STANDARD.decode(text).map_err(|_| wrong(shape, path))?;
            request.add_header("content-type", "application/octet-stream");
        }
        (Kind::String, Value::String(text)) => {
            request.body = text.clone().into_bytes();
            request.add_header("content-type", "text/plain");
        }
        _ if dialect.xml => {
            // A name that only repeats the member's says less than that of the shape.
            let own = payload.location_name().filter(|name| *name != path || shape.location_name().is_none());
            let name = own.or(shape.location_name()).unwrap_or_else(|| shape.name());
            let mut writer = xml::Writer::new();
            writer.structure(name, payload.xml_namespace(), shape, value, path)?;
            request.body = writer.finish();
            request.add_header("content-type", dialect.content_type);
        }
        _ => {
            request.body =
                json::write(shape, payload.timestamp_format(), value, path)?.to_string().into_bytes();
            request.add_header("content-type", dialect.content_type);
        }
    }
    Ok(())
}

fn wrong(shape: Shape<'_>, path: &str) -> EncodeError {
    EncodeError::Type { path: path.to_owned(), expected: expected(shape.kind()) }
}

pub(super) fn output(
    operation: Operation<'_>,
    response: &Response,
    dialect: &Dialect,
) -> Result<Value, DecodeError> {
    let Some(shape) = operation.output() else { return Ok(Value::Object(Map::new())) };
    let read = if let Some(payload) = shape.payload() {
        let mut members = Map::new();
        if let Some(value) = read_payload(operation, payload, response, dialect)? {
            members.insert(payload.name().to_owned(), value);
        }
        Value::Object(members)
    } else if answer_members(shape).next().is_none() || response.body.iter().all(u8::is_ascii_whitespace) {
        Value::Object(Map::new())
    } else if dialect.xml {
        let root = parse_xml(operation, response)?;
        // One answer of S3 is a bare value: its root is the member itself.
        let bare =
            answer_members(shape).find(|member| root.children.is_empty() && member.wire_name() == root.name);
        match bare {
            Some(_) if root.text.is_empty() => Value::Object(Map::new()),
            Some(member) => {
                let value = xml::value(member.shape(), &root, operation)?;
                Value::Object(Map::from_iter([(member.name().to_owned(), value)]))
            }
            None => xml::read(shape, &root, operation)?,
        }
    } else {
        json::read(shape, &json::parse(operation, &response.body)?, operation)?
    };
    Ok(with_headers(shape, response, read))
}

fn parse_xml(operation: Operation<'_>, response: &Response) -> Result<xml::Element, DecodeError> {
    xml::parse(&response.body)
        .ok_or_else(|| DecodeError::Syntax { operation: operation.name().to_owned(), what: "XML" })
}

fn read_payload(
    operation: Operation<'_>,
    payload: Member<'_>,
    response: &Response,
    dialect: &Dialect,
) -> Result<Option<Value>, DecodeError> {
    let shape = payload.shape();
    if response.body.is_empty() {
        return Ok(None);
    }
    Ok(Some(match shape.kind() {
        Kind::Blob => STANDARD.encode(&response.body).into(),
        Kind::String => String::from_utf8_lossy(&response.body).into_owned().into(),
        _ if dialect.xml => xml::value(shape, &parse_xml(operation, response)?, operation)?,
        _ => json::read(shape, &json::parse(operation, &response.body)?, operation)?,
    }))
}

/// The output with what the status and the headers say.
pub(super) fn with_headers(shape: Shape<'_>, response: &Response, read: Value) -> Value {
    let Value::Object(mut members) = read else { return read };
    for member in shape.members() {
        let value = match member.location() {
            Some(Location::Header) => header_value(member, response),
            Some(Location::Headers) => prefixed(member, response),
            Some(Location::StatusCode) => Some(response.status.into()),
            Some(Location::Uri | Location::Querystring) | None => None,
        };
        if let Some(value) = value {
            members.insert(member.name().to_owned(), value);
        }
    }
    Value::Object(members)
}

fn header_value(member: Member<'_>, response: &Response) -> Option<Value> {
    let text = response.header(member.wire_name())?;
    if member.is_json_value() {
        let bytes = STANDARD.decode(text).ok()?;
        return Some(String::from_utf8(bytes).ok()?.into());
    }
    match member.shape().element() {
        None => read_scalar(member.shape(), text),
        Some(element) => {
            let dates = element.shape().kind() == Kind::Timestamp
                && element.timestamp_format().is_none_or(|format| format == TimestampFormat::Rfc822);
            let parts = if dates { pairs(text) } else { parts(text) };
            Some(Value::Array(parts.iter().filter_map(|part| read_scalar(element.shape(), part)).collect()))
        }
    }
}

/// The entries of a header, which may be quoted.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    let mut in_quotes = false;
    while let Some(char) = chars.next() {
        match char {
            '"' => in_quotes = !in_quotes,
            '\\' if in_quotes => push(&mut parts, chars.next()),
            ',' if !in_quotes => parts.push(String::new()),
            ' ' if !in_quotes && parts.last().is_some_and(String::is_empty) => {}
            char => push(&mut parts, Some(char)),
        }
    }
    parts
}

fn push(parts: &mut [String], char: Option<char>) {
    if let (Some(part), Some(char)) = (parts.last_mut(), char) {
        part.push(char);
    }
}

/// Dates of HTTP have a comma of their own.
fn pairs(text: &str) -> Vec<String> {
    let pieces: Vec<&str> = text.split(',').collect();
    pieces.chunks(2).map(|pair| pair.join(",").trim().to_owned()).collect()
}

/// The headers of a prefix, as a map.
fn prefixed(member: Member<'_>, response: &Response) -> Option<Value> {
    let prefix = member.location_name().unwrap_or_default().to_ascii_lowercase();
    let mut entries = Map::new();
    for (name, value) in &response.headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(&prefix), value.to_str()) {
            entries.insert(key.to_owned(), value.into());
        }
    }
    Some(Value::Object(entries))
}
