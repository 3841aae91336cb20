//! XML: a small tree for reading, and writing by shapes. Bodies of rest-xml, answers of query and ec2.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Map, Value};

use super::text::{expected, member_scalar, read_scalar};
use super::{DecodeError, EncodeError, answer_members, body_members};
use crate::model::{Kind, Member, Operation, Shape, TimestampFormat, XmlNamespace};

/// Deeper than any model; a hostile answer cannot make us recurse further.
const DEPTH: usize = 100;

/// An element, its name without prefix.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Element {
    pub name: String,
    /// By their full names, prefix included.
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    pub text: String,
}

impl Element {
    /// The first child of a name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The root element of a document; nothing when it is not well-formed.
pub(super) fn parse(body: &[u8]) -> Option<Element> {
    let text = std::str::from_utf8(body).ok()?;
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    loop {
        let finished = match reader.read_event().ok()? {
            Event::Start(start) if open.len() < DEPTH => {
                open.push(element(&start)?);
                continue;
            }
            Event::Start(_) => return None,
            Event::Empty(empty) => element(&empty)?,
            Event::End(_) => open.pop()?,
            Event::Text(text) => {
                push_text(&mut open, &text.xml10_content());
                continue;
            }
            Event::CData(data) => {
                push_text(&mut open, &data.xml10_content());
                continue;
            }
            Event::GeneralRef(reference) => {
                let resolved = match reference.resolve_char_ref().ok()? {
                    Some(char) => char,
                    None => entity(&reference)?,
                };
                push_text(&mut open, resolved.encode_utf8(&mut [0; 4]));
                continue;
            }
            Event::Eof => break,
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_) => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.children.push(finished),
            None if root.is_none() => root = Some(finished),
            None => return None,
        }
    }
    if open.is_empty() { root } else { None }
}

fn push_text(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        _ => return None,
    })
}

fn element(start: &BytesStart<'_>) -> Option<Element> {
    let name = start.local_name().into_inner().to_owned();
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.ok()?;
        let key = attribute.key.into_inner().to_owned();
        attributes.push((key, quick_xml::escape::unescape(&attribute.value).ok()?.into_owned()));
    }
    Some(Element { name, attributes, ..Element::default() })
}

/// A structure from an element.
pub(super) fn read(shape: Shape<'_>, from: &Element, operation: Operation<'_>) -> Result<Value, DecodeError> {
    let mut members = Map::new();
    for member in answer_members(shape) {
        if member.is_xml_attribute() {
            if let Some(text) = from.attribute(member.wire_name()) {
                members.insert(member.name().to_owned(), text.into());
            }
            continue;
        }
        let name = member.wire_name();
        if member.is_flattened() {
            let parts: Vec<&Element> = from.children.iter().filter(|child| child.name == name).collect();
            if !parts.is_empty() {
                let value = collection(member.shape(), &parts, operation)?;
                members.insert(member.name().to_owned(), value);
            }
        } else if let Some(child) = from.child(name) {
            members.insert(member.name().to_owned(), value(member.shape(), child, operation)?);
        }
    }
    Ok(Value::Object(members))
}

/// A value of any shape from its element.
pub(super) fn value(
    shape: Shape<'_>,
    from: &Element,
    operation: Operation<'_>,
) -> Result<Value, DecodeError> {
    match shape.kind() {
        Kind::Structure | Kind::Union => read(shape, from, operation),
        Kind::List | Kind::Map => collection(shape, &from.children.iter().collect::<Vec<_>>(), operation),
        kind => read_scalar(shape, &from.text).ok_or_else(|| DecodeError::Type {
            operation: operation.name().to_owned(),
            path: from.name.clone(),
            expected: expected(kind),
        }),
    }
}

/// A list or a map from the elements of its parts.
fn collection(shape: Shape<'_>, parts: &[&Element], operation: Operation<'_>) -> Result<Value, DecodeError> {
    if let Some(element) = shape.element() {
        let values = parts.iter().map(|part| value(element.shape(), part, operation));
        return Ok(Value::Array(values.collect::<Result<_, _>>()?));
    }
    let Some((key, of_value)) = shape.entry() else { return Ok(Value::Null) };
    let mut entries = Map::new();
    for part in parts {
        let name = part.child(key.location_name().unwrap_or("key")).map(|key| key.text.clone());
        let found = part.child(of_value.location_name().unwrap_or("value"));
        if let (Some(name), Some(found)) = (name, found) {
            entries.insert(name, value(of_value.shape(), found, operation)?);
        }
    }
    Ok(Value::Object(entries))
}

/// Writes documents.
pub(super) struct Writer {
    text: String,
}

impl Writer {
    pub fn new() -> Writer {
        Writer { text: String::new() }
    }

    pub fn finish(self) -> Vec<u8> {
        self.text.into_bytes()
    }

    /// The element of a structure, with its namespace and attributes.
    pub fn structure(
        &mut self,
        name: &str,
        namespace: Option<&XmlNamespace>,
        shape: Shape<'_>,
        value: &Value,
        path: &str,
    ) -> Result<(), EncodeError> {
        let Value::Object(given) = value else { return Err(wrong(shape, path)) };
        if let Some(unknown) = given.keys().find(|name| shape.member(name).is_none()) {
            return Err(EncodeError::UnknownMember { path: format!("{path}.{unknown}") });
        }
        self.text.push('<');
        self.text.push_str(name);
        self.namespace(namespace);
        for member in body_members(shape).filter(|member| member.is_xml_attribute()) {
            if let Some(value) = given.get(member.name()).filter(|value| !value.is_null()) {
                let text = member_scalar(member, TimestampFormat::Iso8601, value, path)?;
                self.text.push_str(&format!(" {}=\"", member.wire_name()));
                self.escaped(&text);
                self.text.push('"');
            }
        }
        self.text.push('>');
        for member in body_members(shape).filter(|member| !member.is_xml_attribute()) {
            if let Some(value) = given.get(member.name()).filter(|value| !value.is_null()) {
                self.member(member.wire_name(), member, value, &format!("{path}.{}", member.name()))?;
            }
        }
        self.close(name);
        Ok(())
    }

    fn member(
        &mut self,
        name: &str,
        member: Member<'_>,
        value: &Value,
        path: &str,
    ) -> Result<(), EncodeError> {
        let shape = member.shape();
        let namespace = member.xml_namespace();
        match (shape.kind(), value) {
            (Kind::Structure | Kind::Union, value) => self.structure(name, namespace, shape, value, path),
            (Kind::List, Value::Array(elements)) => {
                let element = shape.element().ok_or_else(|| wrong(shape, path))?;
                let flattened = member.is_flattened();
                let element_name = if flattened { name } else { element.location_name().unwrap_or("member") };
                if !flattened {
                    self.open(name, namespace);
                }
                for (at, value) in elements.iter().enumerate() {
                    self.member(element_name, element, value, &format!("{path}[{at}]"))?;
                }
                if !flattened {
                    self.close(name);
                }
                Ok(())
            }
            (Kind::Map, Value::Object(entries)) => {
                let (key, of_value) = shape.entry().ok_or_else(|| wrong(shape, path))?;
                let flattened = member.is_flattened();
                let entry_name = if flattened { name } else { "entry" };
                if !flattened {
                    self.open(name, namespace);
                }
                for (entry, value) in entries {
                    self.open(entry_name, if flattened { namespace } else { None });
                    let entry_value = Value::String(entry.clone());
                    let path = format!("{path}.{entry}");
                    self.member(key.location_name().unwrap_or("key"), key, &entry_value, &path)?;
                    self.member(of_value.location_name().unwrap_or("value"), of_value, value, &path)?;
                    self.close(entry_name);
                }
                if !flattened {
                    self.close(name);
                }
                Ok(())
            }
            (Kind::List | Kind::Map, _) => Err(wrong(shape, path)),
            (_, value) => {
                let text = member_scalar(member, TimestampFormat::Iso8601, value, path)?;
                self.open(name, namespace);
                self.escaped(&text);
                self.close(name);
                Ok(())
            }
        }
    }

    fn open(&mut self, name: &str, namespace: Option<&XmlNamespace>) {
        self.text.push('<');
        self.text.push_str(name);
        self.namespace(namespace);
        self.text.push('>');
    }

    fn close(&mut self, name: &str) {
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push('>');
    }

    fn namespace(&mut self, namespace: Option<&XmlNamespace>) {
        let Some(namespace) = namespace else { return };
        match &namespace.prefix {
            Some(prefix) => self.text.push_str(&format!(" xmlns:{prefix}=\"")),
            None => self.text.push_str(" xmlns=\""),
        }
        self.escaped(&namespace.uri);
        self.text.push('"');
    }

    /// Line breaks are written as references: a parser would make other ones of them.
    fn escaped(&mut self, text: &str) {
        for char in text.chars() {
            match char {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\r' => self.text.push_str("&#xD;"),
                '\n' => self.text.push_str("&#xA;"),
                '\u{85}' => self.text.push_str("&#x85;"),
                '\u{2028}' => self.text.push_str("&#x2028;"),
                char => self.text.push(char),
            }
        }
    }
}

fn wrong(shape: Shape<'_>, path: &str) -> EncodeError {
    EncodeError::Type { path: path.to_owned(), expected: expected(shape.kind()) }
}
