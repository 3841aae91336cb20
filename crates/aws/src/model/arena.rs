//! The arena: shapes and members by number, every name once.

use std::collections::HashMap;
use std::fmt;

use super::operation::{Facts, Operation, OperationRecord, Paginator};

/// The model of one service.
pub struct Service {
    pub(super) facts: Facts,
    pub(super) names: Names,
    pub(super) shapes: Vec<ShapeRecord>,
    pub(super) members: Vec<MemberRecord>,
    /// Sorted by name.
    pub(super) operations: Vec<OperationRecord>,
    pub(super) namespaces: Vec<XmlNamespace>,
    pub(super) errors: Vec<ErrorFacts>,
}

/// What a shape is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Structure,
    /// A structure of which one member is set.
    Union,
    List,
    Map,
    String,
    Boolean,
    Integer,
    Long,
    Float,
    Double,
    Blob,
    Timestamp,
    /// Free-form JSON.
    Document,
}

/// Where a member goes in an HTTP message; the body where it says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    Uri,
    Querystring,
    Header,
    /// A map whose entries are headers with a common prefix.
    Headers,
    StatusCode,
}

/// How a timestamp is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampFormat {
    /// Seconds since 1970, perhaps with a fraction.
    UnixTimestamp,
    /// RFC 3339.
    Iso8601,
    /// The date of HTTP headers.
    Rfc822,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlNamespace {
    pub uri: Box<str>,
    pub prefix: Option<Box<str>>,
}

/// What is known of a structure that is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFacts {
    /// The code on the wire, where it is not the name of the shape.
    pub code: Option<Box<str>>,
    pub http_status: Option<u16>,
    /// The caller's fault, where the model says.
    pub sender_fault: bool,
    pub retryable: bool,
    pub throttling: bool,
}

/// A name in the pool; 0 is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Name(pub u32);

/// Facts that are yes or no, of shapes and members.
pub(super) mod flag {
    pub const FLATTENED: u16 = 1;
    pub const SENSITIVE: u16 = 1 << 1;
    pub const ENUM: u16 = 1 << 2;
    pub const BOX: u16 = 1 << 3;
    pub const STREAMING: u16 = 1 << 4;
    pub const EVENT_STREAM: u16 = 1 << 5;
    pub const EXCEPTION: u16 = 1 << 6;
    pub const REQUIRED: u16 = 1 << 7;
    pub const XML_ATTRIBUTE: u16 = 1 << 8;
    pub const IDEMPOTENCY_TOKEN: u16 = 1 << 9;
    pub const HOST_LABEL: u16 = 1 << 10;
    pub const JSON_VALUE: u16 = 1 << 11;
    pub const EVENT_HEADER: u16 = 1 << 12;
    pub const EVENT_PAYLOAD: u16 = 1 << 13;
    pub const CONTEXT: u16 = 1 << 14;
}

pub(super) struct ShapeRecord {
    pub name: Name,
    pub kind: Kind,
    pub timestamp: Option<TimestampFormat>,
    pub flags: u16,
    /// Its members: of a list the element, of a map key and value.
    pub first: u32,
    pub count: u16,
    pub location_name: Name,
    /// The member that is the whole body.
    pub payload: Name,
    /// Its namespace, counted from 1.
    pub namespace: u16,
    /// Its facts as an error, counted from 1.
    pub error: u16,
}

pub(super) struct MemberRecord {
    pub name: Name,
    pub shape: u32,
    pub location_name: Name,
    pub query_name: Name,
    pub flags: u16,
    pub namespace: u16,
    pub location: Option<Location>,
    pub timestamp: Option<TimestampFormat>,
}

/// All names of a service, each once, in one string.
pub(super) struct Names {
    text: String,
    ends: Vec<u32>,
    /// Only while the model is read.
    numbers: HashMap<Box<str>, u32>,
}

impl Names {
    pub fn new() -> Names {
        Names { text: String::new(), ends: vec![0], numbers: HashMap::new() }
    }

    pub fn number(&mut self, name: &str) -> Name {
        if name.is_empty() {
            return Name::default();
        }
        if let Some(number) = self.numbers.get(name) {
            return Name(*number);
        }
        self.text.push_str(name);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        let number = u32::try_from(self.ends.len() - 1).unwrap_or(u32::MAX);
        self.numbers.insert(name.into(), number);
        Name(number)
    }

    pub fn finish(&mut self) {
        self.numbers = HashMap::new();
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub fn get(&self, name: Name) -> Option<&str> {
        let number = name.0 as usize;
        if number == 0 {
            return None;
        }
        let start = *self.ends.get(number - 1)? as usize;
        let end = *self.ends.get(number)? as usize;
        self.text.get(start..end)
    }
}

impl Service {
    /// Every shape of the model.
    pub fn shapes(&self) -> impl Iterator<Item = Shape<'_>> {
        (0..self.shapes.len() as u32).map(|id| Shape { service: self, id })
    }

    /// A shape by its name in the model.
    pub fn shape(&self, name: &str) -> Option<Shape<'_>> {
        self.shapes().find(|shape| shape.name() == name)
    }

    /// Every operation, sorted by name.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.operations.iter().map(|record| Operation { service: self, record })
    }

    /// An operation by its name.
    pub fn operation(&self, name: &str) -> Option<Operation<'_>> {
        let at = self.operations.binary_search_by(|record| record.name.as_ref().cmp(name)).ok()?;
        self.operations.get(at).map(|record| Operation { service: self, record })
    }

    /// How the pages of an operation follow each other, where it has pages.
    pub fn paginator(&self, operation: &str) -> Option<&Paginator> {
        self.operation(operation).and_then(|operation| operation.paginator())
    }

    pub(super) fn text(&self, name: Name) -> Option<&str> {
        self.names.get(name)
    }

    /// About how much memory the model takes, in bytes.
    pub fn weight(&self) -> usize {
        self.names.text.capacity()
            + self.names.ends.capacity() * size_of::<u32>()
            + self.shapes.capacity() * size_of::<ShapeRecord>()
            + self.members.capacity() * size_of::<MemberRecord>()
            + self.operations.iter().map(OperationRecord::weight).sum::<usize>()
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Service({})", self.name())
    }
}

/// A shape, seen in its model.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    pub(super) service: &'a Service,
    pub(super) id: u32,
}

impl<'a> Shape<'a> {
    fn record(self) -> &'a ShapeRecord {
        // A number is only made by the reader, from a shape that exists.
        &self.service.shapes[self.id as usize]
    }

    fn has(self, flag: u16) -> bool {
        self.record().flags & flag != 0
    }

    /// Its number in the arena: equal for equal shapes of a service.
    pub fn id(self) -> u32 {
        self.id
    }

    pub fn service(self) -> &'a Service {
        self.service
    }

    pub fn name(self) -> &'a str {
        self.service.text(self.record().name).unwrap_or_default()
    }

    pub fn kind(self) -> Kind {
        self.record().kind
    }

    /// A structure or a union.
    pub fn is_structure(self) -> bool {
        matches!(self.kind(), Kind::Structure | Kind::Union)
    }

    /// The members of a structure or union, sorted by name; nothing for other kinds.
    pub fn members(self) -> impl Iterator<Item = Member<'a>> {
        let count = if self.is_structure() { self.record().count } else { 0 };
        self.parts(count)
    }

    fn parts(self, count: u16) -> impl Iterator<Item = Member<'a>> {
        let first = self.record().first;
        (first..first + u32::from(count)).map(move |index| Member { service: self.service, index })
    }

    /// A member of a structure by its name in the model.
    pub fn member(self, name: &str) -> Option<Member<'a>> {
        if !self.is_structure() {
            return None;
        }
        let record = self.record();
        let range = record.first as usize..record.first as usize + usize::from(record.count);
        let members = self.service.members.get(range)?;
        let by_name = |member: &MemberRecord| self.service.text(member.name).unwrap_or_default().cmp(name);
        let at = members.binary_search_by(by_name).ok()?;
        Some(Member { service: self.service, index: record.first + at as u32 })
    }

    /// The element of a list.
    pub fn element(self) -> Option<Member<'a>> {
        if self.kind() == Kind::List { self.parts(1).next() } else { None }
    }

    /// Key and value of a map.
    pub fn entry(self) -> Option<(Member<'a>, Member<'a>)> {
        let mut parts = self.parts(2);
        if self.kind() == Kind::Map { Some((parts.next()?, parts.next()?)) } else { None }
    }

    /// The name of the shape's elements or of itself in XML, where the model gives one.
    pub fn location_name(self) -> Option<&'a str> {
        self.service.text(self.record().location_name)
    }

    /// The member that is the whole HTTP body.
    pub fn payload(self) -> Option<Member<'a>> {
        self.member(self.service.text(self.record().payload)?)
    }

    pub fn timestamp_format(self) -> Option<TimestampFormat> {
        self.record().timestamp
    }

    pub fn xml_namespace(self) -> Option<&'a XmlNamespace> {
        self.service.namespaces.get(usize::from(self.record().namespace).checked_sub(1)?)
    }

    /// What is known of it as an error; nothing when it is none.
    pub fn error(self) -> Option<&'a ErrorFacts> {
        self.service.errors.get(usize::from(self.record().error).checked_sub(1)?)
    }

    pub fn is_flattened(self) -> bool {
        self.has(flag::FLATTENED)
    }

    /// Holds secrets: never to be logged.
    pub fn is_sensitive(self) -> bool {
        self.has(flag::SENSITIVE)
    }

    /// A string of which the model lists the values.
    pub fn is_enum(self) -> bool {
        self.has(flag::ENUM)
    }

    pub fn is_boxed(self) -> bool {
        self.has(flag::BOX)
    }

    pub fn is_streaming(self) -> bool {
        self.has(flag::STREAMING)
    }

    pub fn is_event_stream(self) -> bool {
        self.has(flag::EVENT_STREAM)
    }

    pub fn is_exception(self) -> bool {
        self.has(flag::EXCEPTION)
    }
}

impl PartialEq for Shape<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && std::ptr::eq(self.service, other.service)
    }
}

impl fmt::Debug for Shape<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.kind(), self.name())
    }
}

/// A member of a structure, the element of a list, or key or value of a map.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    service: &'a Service,
    index: u32,
}

impl<'a> Member<'a> {
    fn record(self) -> &'a MemberRecord {
        // An index is only made from the range of a shape.
        &self.service.members[self.index as usize]
    }

    fn has(self, flag: u16) -> bool {
        self.record().flags & flag != 0
    }

    /// Its name in the structure; of a list `member`, of a map `key` and `value`.
    pub fn name(self) -> &'a str {
        self.service.text(self.record().name).unwrap_or_default()
    }

    pub fn shape(self) -> Shape<'a> {
        Shape { service: self.service, id: self.record().shape }
    }

    pub fn location(self) -> Option<Location> {
        self.record().location
    }

    /// Its name on the wire, where the model gives one.
    pub fn location_name(self) -> Option<&'a str> {
        self.service.text(self.record().location_name)
    }

    /// Its name on the wire in the ec2 protocol, where the model gives one.
    pub fn query_name(self) -> Option<&'a str> {
        self.service.text(self.record().query_name)
    }

    /// Its name on the wire: that of the model's `locationName`, else its own.
    pub fn wire_name(self) -> &'a str {
        self.location_name().unwrap_or_else(|| self.name())
    }

    /// The format given at the member, else that of the shape.
    pub fn timestamp_format(self) -> Option<TimestampFormat> {
        self.record().timestamp.or_else(|| self.shape().timestamp_format())
    }

    /// The namespace given at the member, else that of the shape.
    pub fn xml_namespace(self) -> Option<&'a XmlNamespace> {
        let own = usize::from(self.record().namespace).checked_sub(1);
        own.and_then(|at| self.service.namespaces.get(at)).or_else(|| self.shape().xml_namespace())
    }

    pub fn is_required(self) -> bool {
        self.has(flag::REQUIRED)
    }

    pub fn is_flattened(self) -> bool {
        self.has(flag::FLATTENED) || self.shape().is_flattened()
    }

    pub fn is_xml_attribute(self) -> bool {
        self.has(flag::XML_ATTRIBUTE)
    }

    /// Filled with a fresh value by the client when the caller gives none.
    pub fn is_idempotency_token(self) -> bool {
        self.has(flag::IDEMPOTENCY_TOKEN)
    }

    /// Part of the host name.
    pub fn is_host_label(self) -> bool {
        self.has(flag::HOST_LABEL)
    }

    /// A string that carries JSON.
    pub fn is_json_value(self) -> bool {
        self.has(flag::JSON_VALUE)
    }

    /// A parameter of endpoint resolution.
    pub fn is_context(self) -> bool {
        self.has(flag::CONTEXT)
    }

    pub fn is_boxed(self) -> bool {
        self.has(flag::BOX) || self.shape().is_boxed()
    }

    pub fn is_streaming(self) -> bool {
        self.has(flag::STREAMING) || self.shape().is_streaming()
    }

    /// Holds secrets: never to be logged.
    pub fn is_sensitive(self) -> bool {
        self.has(flag::SENSITIVE) || self.shape().is_sensitive()
    }
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {:?}", self.name(), self.shape())
    }
}
