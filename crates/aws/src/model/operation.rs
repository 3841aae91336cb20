//! Facts about a service and its operations.

use std::fmt;

use super::arena::{Service, Shape, XmlNamespace};

/// How requests and responses are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Json,
    RestJson,
    RestXml,
    Query,
    Ec2,
    RpcV2Cbor,
}

impl Protocol {
    pub(super) fn named(name: &str) -> Option<Protocol> {
        Some(match name {
            "json" => Protocol::Json,
            "rest-json" => Protocol::RestJson,
            "rest-xml" => Protocol::RestXml,
            "query" => Protocol::Query,
            "ec2" => Protocol::Ec2,
            "smithy-rpc-v2-cbor" => Protocol::RpcV2Cbor,
            _ => return None,
        })
    }
}

/// The head of a model.
pub(super) struct Facts {
    pub name: Box<str>,
    pub model_name: Box<str>,
    pub service_id: Box<str>,
    pub protocol: Protocol,
    pub protocols: Vec<Protocol>,
    pub api_version: Box<str>,
    pub json_version: Option<Box<str>>,
    pub target_prefix: Option<Box<str>>,
    pub xml_namespace: Option<Box<str>>,
    pub signing_name: Box<str>,
    pub endpoint_prefix: Box<str>,
    pub global_endpoint: Option<Box<str>>,
    pub signature_version: Box<str>,
    pub query_compatible: bool,
}

impl Service {
    /// The name ACK gives it: the first label of the API group.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The name of the published model, and of the command in AWS's own tools (`cognito-idp`).
    pub fn model_name(&self) -> &str {
        &self.facts.model_name
    }

    /// The name for settings, as in `AWS_ENDPOINT_URL_<ID>` (`Cognito Identity Provider`).
    pub fn service_id(&self) -> &str {
        &self.facts.service_id
    }

    /// The protocol that AWS prefers.
    pub fn protocol(&self) -> Protocol {
        self.facts.protocol
    }

    /// Every protocol the service speaks, the preferred one first.
    pub fn protocols(&self) -> &[Protocol] {
        &self.facts.protocols
    }

    pub fn api_version(&self) -> &str {
        &self.facts.api_version
    }

    pub fn json_version(&self) -> Option<&str> {
        self.facts.json_version.as_deref()
    }

    pub fn target_prefix(&self) -> Option<&str> {
        self.facts.target_prefix.as_deref()
    }

    pub fn xml_namespace(&self) -> Option<&str> {
        self.facts.xml_namespace.as_deref()
    }

    /// The service's name in signatures and in IAM actions of most services.
    pub fn signing_name(&self) -> &str {
        &self.facts.signing_name
    }

    /// The first part of the host name.
    pub fn endpoint_prefix(&self) -> &str {
        &self.facts.endpoint_prefix
    }

    /// The host that serves all regions, where there is one.
    pub fn global_endpoint(&self) -> Option<&str> {
        self.facts.global_endpoint.as_deref()
    }

    /// `v4`, `s3` or `s3v4`.
    pub fn signature_version(&self) -> &str {
        &self.facts.signature_version
    }

    /// Errors carry the code of the older query protocol in a header.
    pub fn is_query_compatible(&self) -> bool {
        self.facts.query_compatible
    }
}

/// How the pages of an operation follow each other. Paths are those of the published paginators: member
/// names with dots, and for a few old operations alternatives (`A || B[-1].C`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paginator {
    pub input_token: Vec<Box<str>>,
    pub output_token: Vec<Box<str>>,
    pub result_key: Vec<Box<str>>,
    pub limit_key: Option<Box<str>>,
    pub more_results: Option<Box<str>>,
}

pub(super) struct OperationRecord {
    pub name: Box<str>,
    pub method: Box<str>,
    pub uri: Box<str>,
    pub status: Option<u16>,
    pub input: Option<u32>,
    pub input_location_name: Option<Box<str>>,
    pub input_namespace: Option<XmlNamespace>,
    pub output: Option<u32>,
    pub result_wrapper: Option<Box<str>>,
    pub errors: Vec<u32>,
    pub host_prefix: Option<Box<str>>,
    pub checksum_required: bool,
    pub checksum_member: Option<Box<str>>,
    pub unsigned_payload: bool,
    pub unsigned: bool,
    pub read_only: bool,
    pub paginator: Option<Box<Paginator>>,
}

impl OperationRecord {
    pub fn weight(&self) -> usize {
        size_of::<OperationRecord>()
            + self.name.len()
            + self.method.len()
            + self.uri.len()
            + self.errors.capacity() * size_of::<u32>()
            + self.paginator.as_ref().map_or(0, |_| size_of::<Paginator>() + 100)
    }
}

/// An operation, seen in its model.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    pub(super) service: &'a Service,
    pub(super) record: &'a OperationRecord,
}

impl<'a> Operation<'a> {
    fn shape(self, id: Option<u32>) -> Option<Shape<'a>> {
        id.map(|id| Shape { service: self.service, id })
    }

    pub fn service(self) -> &'a Service {
        self.service
    }

    pub fn name(self) -> &'a str {
        &self.record.name
    }

    pub fn method(self) -> &'a str {
        &self.record.method
    }

    /// Path and fixed query, with members in braces: `/{Bucket}?versioning`.
    pub fn uri(self) -> &'a str {
        &self.record.uri
    }

    /// The status of a success, where the model says.
    pub fn status(self) -> Option<u16> {
        self.record.status
    }

    pub fn input(self) -> Option<Shape<'a>> {
        self.shape(self.record.input)
    }

    /// The root element of an XML request.
    pub fn input_location_name(self) -> Option<&'a str> {
        self.record.input_location_name.as_deref()
    }

    pub fn input_namespace(self) -> Option<&'a XmlNamespace> {
        self.record.input_namespace.as_ref()
    }

    pub fn output(self) -> Option<Shape<'a>> {
        self.shape(self.record.output)
    }

    /// The element around the result in the query protocol.
    pub fn result_wrapper(self) -> Option<&'a str> {
        self.record.result_wrapper.as_deref()
    }

    pub fn errors(self) -> impl Iterator<Item = Shape<'a>> {
        self.record.errors.iter().map(move |id| Shape { service: self.service, id: *id })
    }

    /// What stands before the host, with members in braces.
    pub fn host_prefix(self) -> Option<&'a str> {
        self.record.host_prefix.as_deref()
    }

    /// The body must have a checksum header.
    pub fn is_checksum_required(self) -> bool {
        self.record.checksum_required
    }

    /// The member that chooses the algorithm of the checksum.
    pub fn checksum_member(self) -> Option<&'a str> {
        self.record.checksum_member.as_deref()
    }

    /// The body is not part of the signature.
    pub fn is_payload_unsigned(self) -> bool {
        self.record.unsigned_payload
    }

    /// The call is made without credentials.
    pub fn is_unsigned(self) -> bool {
        self.record.unsigned
    }

    /// The model says that it changes nothing (few models do).
    pub fn is_read_only(self) -> bool {
        self.record.read_only
    }

    pub fn paginator(self) -> Option<&'a Paginator> {
        self.record.paginator.as_deref()
    }
}

impl fmt::Debug for Operation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.service.name(), self.name())
    }
}
