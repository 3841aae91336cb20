//! The protocols against cases: our own in `tests/protocols`, and the published ones where they lie beside the
//! project (`../shared/data/aws-protocol-tests`, or where `AWS_PROTOCOL_TESTS` says). Both have the form of
//! botocore's: suites with a small model, and in each the cases.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::endpoint::{self, Endpoint, Settings};

use super::{Answer, Request, Response, cbor, decode, encode, xml};
use crate::model::{Kind, Protocol, Service, Shape};

/// Published cases that do not apply, and why.
const NOT_OURS: &[(&str, &str)] = &[
    ("SDKAppliedContentEncoding_", COMPRESSION),
    ("SDKAppendsGzipAndIgnoresHttpProvidedEncoding_", COMPRESSION),
    ("SDKAppendedGzipAfterProvidedEncoding_", COMPRESSION),
    ("RestXmlHttpPayloadWithUnion", PAYLOAD_NAME),
    ("HttpPayloadWithXmlNamespace", PAYLOAD_NAME),
    ("XmlAttributesOnPayload", PAYLOAD_NAME),
    ("RestJsonDeserializesDenseSetMapAndSkipsNull", DENSE),
    ("RpcV2CborDeserializesDenseSetMapAndSkipsNull", DENSE),
];

const COMPRESSION: &str = "only PutMetricData has compressed bodies, and no kind calls it";
const PAYLOAD_NAME: &str = "the case gives the member's name and wants that of its shape; the models of S3 give the \
    name that S3 wants, and shapes have others (BucketLifecycleConfiguration)";
const DENSE: &str = "the models do not say which maps may hold null";

fn is_ours(direction: &str, id: &str) -> bool {
    !NOT_OURS.iter().any(|(known, why)| id.starts_with(known) && (direction == "input" || *why == DENSE))
}

const TOKEN: &str = "00000000-0000-4000-8000-000000000000";

#[test]
fn own_cases() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/protocols");
    let (ran, _) = run(&folder);
    assert!(ran > 0, "no cases in {}", folder.display());
}

#[test]
fn published_cases() {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/aws-protocol-tests");
    let folder = std::env::var_os("AWS_PROTOCOL_TESTS").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        let (ran, left_out) = run(&folder);
        assert!(ran + left_out >= 732 && left_out <= 18, "{ran} cases ran, {left_out} were left out");
    }
}

/// Runs every case of a folder; how many ran, and how many were left out. Panics with all that failed.
fn run(folder: &std::path::Path) -> (usize, usize) {
    let mut failures = Vec::new();
    let (mut ran, mut left_out) = (0, 0);
    for (direction, check) in [("input", input as fn(&Case<'_>) -> _), ("output", output)] {
        let mut files: Vec<_> =
            std::fs::read_dir(folder.join(direction)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let suites: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            for suite in suites.as_array().unwrap() {
                for facts in suite["cases"].as_array().unwrap() {
                    let id = facts["id"].as_str().unwrap();
                    if !is_ours(direction, id) {
                        left_out += 1;
                        continue;
                    }
                    ran += 1;
                    let service = service(suite, facts);
                    let case = Case { suite, facts, service: &service };
                    if let Err(text) = check(&case) {
                        failures.push(format!("{} {direction} {id}: {text}", file.display()));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {ran} failed:\n{}", failures.len(), failures.join("\n"));
    (ran, left_out)
}

struct Case<'a> {
    suite: &'a Value,
    facts: &'a Value,
    service: &'a Service,
}

fn service(suite: &Value, case: &Value) -> Service {
    let name = case["given"]["name"].as_str().unwrap();
    let operations = json!({ name: case["given"] });
    let document =
        json!({ "metadata": suite["metadata"], "shapes": suite["shapes"], "operations": operations });
    Service::read("test", &document).unwrap()
}

/// A value of the cases in our form: theirs have blobs as text and moments as seconds.
fn ours(shape: Shape<'_>, value: &Value) -> Value {
    match (shape.kind(), value) {
        (Kind::Blob, Value::String(text)) => STANDARD.encode(text).into(),
        (Kind::Timestamp, value) => crate::value::read_timestamp(value).unwrap_or(Value::Null),
        (Kind::Structure | Kind::Union, Value::Object(members)) => {
            let convert = |(name, value): (&String, &Value)| {
                let member = shape.member(name);
                (name.clone(), member.map_or(value.clone(), |member| ours(member.shape(), value)))
            };
            Value::Object(members.iter().map(convert).collect())
        }
        (Kind::List, Value::Array(elements)) => {
            let element = shape.element().unwrap().shape();
            Value::Array(elements.iter().map(|value| ours(element, value)).collect())
        }
        (Kind::Map, Value::Object(entries)) => {
            let of_value = shape.entry().unwrap().1.shape();
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), ours(of_value, value))).collect())
        }
        (_, Value::Number(number)) => json!(number.as_f64().unwrap()),
        (_, value) => value.clone(),
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what}: got {got:?}, wanted {wanted:?}")) }
}

fn input(case: &Case<'_>) -> Result<(), String> {
    let operation = case.service.operations().next().unwrap();
    let params = match operation.input() {
        Some(shape) => integers(&ours(shape, &case.facts["params"])),
        None => json!({}),
    };
    let request = encode(operation, &params, TOKEN).map_err(|error| error.to_string())?;
    let wanted = &case.facts["serialized"];
    expect("method", request.method.as_str(), wanted["method"].as_str().unwrap_or("POST"))?;
    let (path, query) = wanted["uri"].as_str().map(|uri| uri.split_once('?').unwrap_or((uri, ""))).unwrap();
    let endpoint = case.suite["clientEndpoint"].as_str().unwrap_or("https://example.com");
    let settings = Settings { url: Some(endpoint.to_owned()), ..Settings::default() };
    let endpoint = endpoint::resolve(case.service, "us-east-1", &settings).unwrap();
    let target = endpoint::place(&endpoint, &request, None, false);
    expect("path", target.path.as_str(), path)?;
    expect("query", pairs(&request.query), pairs(query))?;
    for (name, value) in wanted["headers"].as_object().into_iter().flatten() {
        expect(name, request.header(name), value.as_str())?;
    }
    for name in wanted["requireHeaders"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        // The length is written by whoever sends the body.
        let there = name.eq_ignore_ascii_case("content-length") || request.header(name).is_some();
        expect(name, there, true)?;
    }
    for name in wanted["forbidHeaders"].as_array().into_iter().flatten() {
        expect(name.as_str().unwrap(), request.header(name.as_str().unwrap()), None)?;
    }
    if let Some(host) = wanted["host"].as_str() {
        let endpoint = Endpoint { is_custom: false, ..endpoint };
        let target = endpoint::place(&endpoint, &request, None, false);
        expect("host", format!("{}{}", target.authority, endpoint.base_path), host.to_owned())?;
    }
    match wanted["body"].as_str() {
        Some(body) => same_body(case.service.protocol(), &request, body),
        None => Ok(()),
    }
}

/// Whole floats as integers, so that they fit integer members too.
fn integers(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => json!(float as i64),
            _ => value.clone(),
        },
        Value::Array(values) => values.iter().map(integers).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), integers(value))).collect())
        }
        _ => value.clone(),
    }
}

fn pairs(query: &str) -> Vec<String> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let mut pairs: Vec<String> = parts.map(|part| part.trim_end_matches('=').to_owned()).collect();
    pairs.sort();
    pairs
}

fn same_body(protocol: Protocol, request: &Request, wanted: &str) -> Result<(), String> {
    let text = String::from_utf8_lossy(&request.body).into_owned();
    if wanted.is_empty() {
        return expect("body", text.as_str(), "");
    }
    let content_type = request.header("content-type").unwrap_or_default();
    match protocol {
        Protocol::Query | Protocol::Ec2 => expect("body", pairs(&text), pairs(wanted.trim())),
        Protocol::RpcV2Cbor => {
            let wanted = cbor::parse(&STANDARD.decode(wanted).unwrap()).unwrap();
            let got = cbor::parse(&request.body).ok_or("the body is no CBOR")?;
            expect("body", sorted_item(&got), sorted_item(&wanted))
        }
        Protocol::RestXml if content_type == "application/xml" => {
            let got = xml::parse(&request.body).ok_or("the body is no XML")?;
            expect("body", sorted(&got), sorted(&xml::parse(wanted.as_bytes()).unwrap()))
        }
        Protocol::Json | Protocol::RestJson if content_type.contains("json") => {
            let got: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            expect("body", floats(&got), floats(&serde_json::from_str(wanted).unwrap()))
        }
        _ => expect("body", text.as_str(), wanted),
    }
}

/// Numbers without the difference between 1 and 1.0.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(values) => values.iter().map(floats).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), floats(value))).collect())
        }
        _ => value.clone(),
    }
}

/// An item in a form that does not depend on order or width of numbers.
fn sorted_item(item: &cbor::Item) -> String {
    match item {
        cbor::Item::Map(entries) => {
            let mut texts: Vec<_> =
                entries.iter().map(|(key, value)| format!("{key:?}={}", sorted_item(value))).collect();
            texts.sort();
            format!("{{{}}}", texts.join(","))
        }
        cbor::Item::List(items) => {
            format!("[{}]", items.iter().map(sorted_item).collect::<Vec<_>>().join(","))
        }
        cbor::Item::Integer(number) => format!("{}", *number as f64),
        cbor::Item::Float(number) => format!("{number}"),
        other => format!("{other:?}"),
    }
}

/// An element in a form that does not depend on the order of siblings of different names.
fn sorted(element: &xml::Element) -> xml::Element {
    let mut copy = element.clone();
    copy.children = element.children.iter().map(sorted).collect();
    // The entries of maps have no order either.
    let is_entry = |child: &xml::Element| ["entry", "myMap", "KVP"].contains(&child.name.as_str());
    let key = |child: &xml::Element| {
        let content = if is_entry(child) { format!("{child:?}") } else { String::new() };
        (child.name.clone(), content)
    };
    copy.children.sort_by_key(key);
    if !copy.children.is_empty() {
        copy.text.clear();
    }
    copy.attributes.sort();
    copy
}

fn output(case: &Case<'_>) -> Result<(), String> {
    let operation = case.service.operations().next().unwrap();
    let response = response(case);
    let answer = decode(operation, &response);
    let facts = case.facts;
    let Some(code) = facts["errorCode"].as_str() else {
        let got = answer.map_err(|error| error.to_string())?;
        let wanted = operation.output().map_or(json!({}), |shape| ours(shape, &facts["result"]));
        let wanted = if wanted.is_null() { json!({}) } else { wanted };
        return expect("result", floats(&got), floats(&wanted));
    };
    let refusal = match answer {
        Err(Answer::Refused(refusal)) => refusal,
        other => return Err(format!("no refusal: {other:?}")),
    };
    expect("code", refusal.code.as_str(), code)?;
    if let Some(message) = facts["errorMessage"].as_str() {
        expect("message", refusal.message.as_str(), message)?;
    }
    let shape = operation.errors().next().unwrap();
    let wanted = ours(shape, &facts["error"]);
    let got = if refusal.members.is_null() { Value::Object(Map::new()) } else { refusal.members };
    expect("members", floats(&got), floats(&wanted))
}

fn response(case: &Case<'_>) -> Response {
    let wire = &case.facts["response"];
    let mut headers = HeaderMap::new();
    for (name, value) in wire["headers"].as_object().into_iter().flatten() {
        let name = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).unwrap();
        headers.insert(name, HeaderValue::from_str(value.as_str().unwrap()).unwrap());
    }
    let body = wire["body"].as_str().unwrap_or_default();
    let body = match case.service.protocol() {
        Protocol::RpcV2Cbor => STANDARD.decode(body).unwrap(),
        _ => body.as_bytes().to_vec(),
    };
    Response { status: wire["status_code"].as_u64().unwrap() as u16, headers, body: body.into() }
}
