//! A published model (JSON in botocore's form) into the arena.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ModelError;
use super::arena::{
    ErrorFacts, Kind, Location, MemberRecord, Name, Names, Service, ShapeRecord, TimestampFormat,
    XmlNamespace, flag,
};
use super::operation::{Facts, OperationRecord, Paginator, Protocol};

type Object = Map<String, Value>;

/// What lies on a shape and what on a reference to one, as flags.
const FLAGS: &[(&str, u16)] = &[
    ("flattened", flag::FLATTENED),
    ("sensitive", flag::SENSITIVE),
    ("enum", flag::ENUM),
    ("box", flag::BOX),
    ("streaming", flag::STREAMING),
    ("eventstream", flag::EVENT_STREAM),
    ("exception", flag::EXCEPTION),
    ("xmlAttribute", flag::XML_ATTRIBUTE),
    ("idempotencyToken", flag::IDEMPOTENCY_TOKEN),
    ("hostLabel", flag::HOST_LABEL),
    ("jsonvalue", flag::JSON_VALUE),
    ("eventheader", flag::EVENT_HEADER),
    ("eventpayload", flag::EVENT_PAYLOAD),
    ("contextParam", flag::CONTEXT),
];

impl Service {
    /// Reads a model in the published form: `metadata`, `operations`, `shapes` and, beside them, `pagination`.
    /// `name` is the name that ACK has for the service.
    pub fn read(name: &str, document: &Value) -> Result<Service, ModelError> {
        let fault = |fault: String| ModelError::Fault { service: name.to_owned(), fault };
        let facts = facts(name, object(document, "metadata")).map_err(fault)?;
        let fault = |fault: String| ModelError::Fault { service: name.to_owned(), fault };
        let shapes = object(document, "shapes");
        let ids: BTreeMap<&str, u32> = shapes.keys().map(String::as_str).zip(0..).collect();
        let mut reader = Reader {
            ids,
            names: Names::new(),
            members: Vec::new(),
            namespaces: Vec::new(),
            errors: Vec::new(),
        };
        let mut records = Vec::with_capacity(shapes.len());
        for (shape, facts) in shapes {
            let record =
                reader.shape(shape, facts).map_err(|text| fault(format!("shape {shape}: {text}")))?;
            records.push(record);
        }
        let pagination = object(document, "pagination");
        let mut operations = Vec::new();
        for (operation, facts) in object(document, "operations") {
            let record = reader
                .operation(operation, facts, pagination.get(operation))
                .map_err(|text| fault(format!("operation {operation}: {text}")))?;
            operations.push(record);
        }
        operations.sort_by(|one, other| one.name.cmp(&other.name));
        let Reader { mut names, mut members, namespaces, errors, .. } = reader;
        names.finish();
        members.shrink_to_fit();
        operations.shrink_to_fit();
        Ok(Service { facts, names, shapes: records, members, operations, namespaces, errors })
    }
}

struct Reader<'a> {
    ids: BTreeMap<&'a str, u32>,
    names: Names,
    members: Vec<MemberRecord>,
    namespaces: Vec<XmlNamespace>,
    errors: Vec<ErrorFacts>,
}

impl Reader<'_> {
    fn shape(&mut self, name: &str, facts: &Value) -> Result<ShapeRecord, String> {
        let kind = kind(facts)?;
        let required: Vec<&str> = list(facts, "required").iter().filter_map(Value::as_str).collect();
        let first = u32::try_from(self.members.len()).map_err(|_| "too many members")?;
        let mut parts: Vec<(&str, &Value)> = match kind {
            Kind::List => vec![("member", facts.get("member").ok_or("a list without member")?)],
            Kind::Map => vec![
                ("key", facts.get("key").ok_or("a map without key")?),
                ("value", facts.get("value").ok_or("a map without value")?),
            ],
            _ => object(facts, "members").iter().map(|(name, member)| (name.as_str(), member)).collect(),
        };
        if !matches!(kind, Kind::List | Kind::Map) {
            parts.sort_by_key(|(name, _)| *name);
        }
        for (member, facts) in &parts {
            let mut record = self.member(member, facts)?;
            if required.contains(member) {
                record.flags |= flag::REQUIRED;
            }
            self.members.push(record);
        }
        Ok(ShapeRecord {
            name: self.names.number(name),
            kind,
            timestamp: timestamp(facts)?,
            flags: flags(facts),
            first,
            count: u16::try_from(parts.len()).map_err(|_| "too many members")?,
            location_name: self.name(facts, "locationName"),
            payload: self.name(facts, "payload"),
            namespace: self.namespace(facts)?,
            error: self.error(facts)?,
        })
    }

    fn member(&mut self, name: &str, facts: &Value) -> Result<MemberRecord, String> {
        Ok(MemberRecord {
            name: self.names.number(name),
            shape: self.reference(facts)?,
            location_name: self.name(facts, "locationName"),
            query_name: self.name(facts, "queryName"),
            flags: flags(facts),
            namespace: self.namespace(facts)?,
            location: location(facts)?,
            timestamp: timestamp(facts)?,
        })
    }

    fn reference(&self, facts: &Value) -> Result<u32, String> {
        let name = text(facts, "shape").ok_or("a reference without shape")?;
        self.ids.get(name).copied().ok_or_else(|| format!("there is no shape {name}"))
    }

    fn name(&mut self, facts: &Value, key: &str) -> Name {
        self.names.number(text(facts, key).unwrap_or_default())
    }

    fn namespace(&mut self, facts: &Value) -> Result<u16, String> {
        let Some(namespace) = namespace(facts) else { return Ok(0) };
        let at = self.namespaces.iter().position(|known| *known == namespace);
        let at = at.unwrap_or_else(|| {
            self.namespaces.push(namespace);
            self.namespaces.len() - 1
        });
        u16::try_from(at + 1).map_err(|_| "too many namespaces".to_owned())
    }

    fn error(&mut self, facts: &Value) -> Result<u16, String> {
        let error = facts.get("error");
        if error.is_none() && !truth(facts, "exception") && !truth(facts, "fault") {
            return Ok(0);
        }
        let error = error.unwrap_or(&Value::Null);
        let retryable = facts.get("retryable");
        self.errors.push(ErrorFacts {
            code: boxed(error, "code"),
            http_status: error.get("httpStatusCode").and_then(Value::as_u64).and_then(|n| n.try_into().ok()),
            sender_fault: truth(error, "senderFault"),
            retryable: retryable.is_some(),
            throttling: retryable.is_some_and(|retryable| truth(retryable, "throttling")),
        });
        u16::try_from(self.errors.len()).map_err(|_| "too many errors".to_owned())
    }

    fn operation(
        &mut self,
        name: &str,
        facts: &Value,
        pages: Option<&Value>,
    ) -> Result<OperationRecord, String> {
        let http = facts.get("http").ok_or("no http facts")?;
        let input = facts.get("input");
        let output = facts.get("output");
        let checksum = facts.get("httpChecksum").unwrap_or(&Value::Null);
        let unsigned = text(facts, "authtype") == Some("none")
            || list(facts, "auth").iter().any(|auth| auth.as_str() == Some("smithy.api#noAuth"));
        let mut errors = Vec::new();
        for error in list(facts, "errors") {
            errors.push(self.reference(error)?);
        }
        Ok(OperationRecord {
            name: name.into(),
            method: text(http, "method").unwrap_or("POST").into(),
            uri: text(http, "requestUri").unwrap_or("/").into(),
            status: http.get("responseCode").and_then(Value::as_u64).and_then(|n| n.try_into().ok()),
            input: input.map(|input| self.reference(input)).transpose()?,
            input_location_name: input.and_then(|input| boxed(input, "locationName")),
            input_namespace: input.and_then(namespace),
            output: output.map(|output| self.reference(output)).transpose()?,
            result_wrapper: output.and_then(|output| boxed(output, "resultWrapper")),
            errors,
            host_prefix: facts.get("endpoint").and_then(|endpoint| boxed(endpoint, "hostPrefix")),
            checksum_required: truth(facts, "httpChecksumRequired")
                || truth(checksum, "requestChecksumRequired"),
            checksum_member: boxed(checksum, "requestAlgorithmMember"),
            unsigned_payload: truth(facts, "unsignedPayload")
                || text(facts, "authtype") == Some("v4-unsigned-body"),
            unsigned,
            read_only: truth(facts, "readonly"),
            paginator: pages.map(|pages| Box::new(paginator(pages))),
        })
    }
}

fn facts(name: &str, metadata: &Object) -> Result<Facts, String> {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    let boxed = |key: &str| text(key).map(Box::from);
    let named = |name: &str| Protocol::named(name).ok_or_else(|| format!("unknown protocol {name}"));
    let protocol = named(text("protocol").ok_or("no protocol")?)?;
    let mut protocols = vec![protocol];
    for other in metadata.get("protocols").and_then(Value::as_array).into_iter().flatten() {
        let other = named(other.as_str().unwrap_or_default())?;
        if !protocols.contains(&other) {
            protocols.push(other);
        }
    }
    let namespace = metadata.get("xmlNamespace");
    let namespace = namespace.and_then(|namespace| namespace.get("uri").unwrap_or(namespace).as_str());
    let prefix = text("endpointPrefix").unwrap_or(name);
    Ok(Facts {
        name: name.into(),
        model_name: text("modelName").unwrap_or(name).into(),
        service_id: text("serviceId").unwrap_or(name).into(),
        protocol,
        protocols,
        api_version: text("apiVersion").unwrap_or_default().into(),
        json_version: boxed("jsonVersion"),
        target_prefix: boxed("targetPrefix"),
        xml_namespace: namespace.map(Box::from),
        signing_name: text("signingName").unwrap_or(prefix).into(),
        endpoint_prefix: prefix.into(),
        global_endpoint: boxed("globalEndpoint"),
        signature_version: text("signatureVersion").unwrap_or("v4").into(),
        query_compatible: metadata.contains_key("awsQueryCompatible"),
    })
}

fn paginator(pages: &Value) -> Paginator {
    let texts = |key: &str| match pages.get(key) {
        Some(Value::String(one)) => vec![Box::from(one.as_str())],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(Box::from).collect(),
        _ => Vec::new(),
    };
    Paginator {
        input_token: texts("input_token"),
        output_token: texts("output_token"),
        result_key: texts("result_key"),
        limit_key: boxed(pages, "limit_key"),
        more_results: boxed(pages, "more_results"),
    }
}

fn kind(facts: &Value) -> Result<Kind, String> {
    if truth(facts, "document") {
        return Ok(Kind::Document);
    }
    Ok(match text(facts, "type").ok_or("no type")? {
        "structure" if truth(facts, "union") => Kind::Union,
        "structure" => Kind::Structure,
        "list" => Kind::List,
        "map" => Kind::Map,
        "string" | "character" => Kind::String,
        "boolean" => Kind::Boolean,
        "integer" | "short" | "byte" => Kind::Integer,
        "long" | "bigInteger" => Kind::Long,
        "float" => Kind::Float,
        "double" | "bigDecimal" => Kind::Double,
        "blob" => Kind::Blob,
        "timestamp" => Kind::Timestamp,
        other => return Err(format!("unknown type {other}")),
    })
}

fn location(facts: &Value) -> Result<Option<Location>, String> {
    Ok(Some(match text(facts, "location") {
        None => return Ok(None),
        Some("uri") => Location::Uri,
        Some("querystring") => Location::Querystring,
        Some("header") => Location::Header,
        Some("headers") => Location::Headers,
        Some("statusCode") => Location::StatusCode,
        Some(other) => return Err(format!("unknown location {other}")),
    }))
}

fn timestamp(facts: &Value) -> Result<Option<TimestampFormat>, String> {
    Ok(Some(match text(facts, "timestampFormat") {
        None => return Ok(None),
        Some("unixTimestamp") => TimestampFormat::UnixTimestamp,
        Some("iso8601") => TimestampFormat::Iso8601,
        Some("rfc822") => TimestampFormat::Rfc822,
        Some(other) => return Err(format!("unknown format {other} of a timestamp")),
    }))
}

fn namespace(facts: &Value) -> Option<XmlNamespace> {
    let namespace = facts.get("xmlNamespace")?;
    let uri = namespace.get("uri").unwrap_or(namespace).as_str()?;
    Some(XmlNamespace { uri: uri.into(), prefix: boxed(namespace, "prefix") })
}

fn flags(facts: &Value) -> u16 {
    let set = FLAGS.iter().filter(|(key, _)| !matches!(facts.get(key), None | Some(Value::Bool(false))));
    set.fold(0, |flags, (_, flag)| flags | flag)
}

fn truth(facts: &Value, key: &str) -> bool {
    facts.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(facts: &'a Value, key: &str) -> Option<&'a str> {
    facts.get(key).and_then(Value::as_str)
}

fn boxed(facts: &Value, key: &str) -> Option<Box<str>> {
    text(facts, key).map(Box::from)
}

fn list<'a>(facts: &'a Value, key: &str) -> &'a [Value] {
    facts.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn object<'a>(facts: &'a Value, key: &str) -> &'a Object {
    static EMPTY: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Map::new);
    facts.get(key).and_then(Value::as_object).unwrap_or(&EMPTY)
}
