//! query and ec2: a form as request, XML as answer.

use serde_json::{Map, Value};

use super::text::{expected, member_scalar, percent_encoded};
use super::xml;
use super::{DecodeError, EncodeError, Request, Response};
use crate::model::{Kind, Member, Operation, Shape, TimestampFormat};

/// In what the two differ.
pub(super) struct Dialect {
    /// Lists never have a level of their own, and names begin with a capital.
    ec2: bool,
}

pub(super) const QUERY: Dialect = Dialect { ec2: false };
pub(super) const EC2: Dialect = Dialect { ec2: true };

pub(super) fn request(
    operation: Operation<'_>,
    input: &Value,
    dialect: &Dialect,
) -> Result<Request, EncodeError> {
    let mut form = Form { text: String::new(), dialect };
    form.pair("Action", operation.name());
    form.pair("Version", operation.service().api_version());
    if let Some(shape) = operation.input() {
        form.structure("", shape, input)?;
    }
    Ok(Request {
        method: operation.method().to_owned(),
        path: "/".to_owned(),
        headers: vec![("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())],
        body: form.text.into_bytes(),
        ..Request::default()
    })
}

struct Form<'a> {
    text: String,
    dialect: &'a Dialect,
}

impl Form<'_> {
    fn pair(&mut self, name: &str, value: &str) {
        if !self.text.is_empty() {
            self.text.push('&');
        }
        self.text.push_str(&percent_encoded(name, ""));
        self.text.push('=');
        self.text.push_str(&percent_encoded(value, ""));
    }

    fn structure(&mut self, prefix: &str, shape: Shape<'_>, value: &Value) -> Result<(), EncodeError> {
        let Value::Object(given) = value else { return Err(wrong(shape, prefix)) };
        if let Some(unknown) = given.keys().find(|name| shape.member(name).is_none()) {
            return Err(EncodeError::UnknownMember { path: join(prefix, unknown) });
        }
        for member in shape.members() {
            if let Some(value) = given.get(member.name()).filter(|value| !value.is_null()) {
                self.member(&join(prefix, &self.name(member)), member, value)?;
            }
        }
        Ok(())
    }

    fn name(&self, member: Member<'_>) -> String {
        if !self.dialect.ec2 {
            return member.wire_name().to_owned();
        }
        if let Some(name) = member.query_name() {
            return name.to_owned();
        }
        let name = member.wire_name();
        let mut chars = name.chars();
        chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
    }

    fn member(&mut self, name: &str, member: Member<'_>, value: &Value) -> Result<(), EncodeError> {
        let shape = member.shape();
        match (shape.kind(), value) {
            (Kind::Structure | Kind::Union, value) => self.structure(name, shape, value),
            (Kind::List, Value::Array(elements)) => {
                // A list that is there but empty is said by a name without value; ec2 has no way to say it.
                if elements.is_empty() && !self.dialect.ec2 {
                    self.pair(name, "");
                }
                let element = shape.element().ok_or_else(|| wrong(shape, name))?;
                let prefix = if self.dialect.ec2 || member.is_flattened() {
                    name.to_owned()
                } else {
                    join(name, element.location_name().unwrap_or("member"))
                };
                for (value, at) in elements.iter().zip(1..) {
                    self.member(&format!("{prefix}.{at}"), element, value)?;
                }
                Ok(())
            }
            (Kind::Map, Value::Object(entries)) => {
                let (key, of_value) = shape.entry().ok_or_else(|| wrong(shape, name))?;
                let prefix = if member.is_flattened() { name.to_owned() } else { join(name, "entry") };
                for ((entry, value), at) in entries.iter().zip(1..) {
                    let part = |name: &str| format!("{prefix}.{at}.{name}");
                    self.pair(&part(key.location_name().unwrap_or("key")), entry);
                    self.member(&part(of_value.location_name().unwrap_or("value")), of_value, value)?;
                }
                Ok(())
            }
            (Kind::List | Kind::Map, _) => Err(wrong(shape, name)),
            (_, value) => {
                let text = member_scalar(member, TimestampFormat::Iso8601, value, name)?;
                self.pair(name, &text);
                Ok(())
            }
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
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
    if response.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(Map::new()));
    }
    let root = xml::parse(&response.body)
        .ok_or_else(|| DecodeError::Syntax { operation: operation.name().to_owned(), what: "XML" })?;
    if dialect.ec2 {
        return xml::read(shape, &root, operation);
    }
    let usual = format!("{}Result", operation.name());
    let result = root.child(operation.result_wrapper().unwrap_or(&usual));
    xml::read(shape, result.unwrap_or(&root), operation)
}
