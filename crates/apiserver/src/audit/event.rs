//! One line of the log: `audit.k8s.io/v1` Event, its fields in upstream's order.

use std::collections::BTreeMap;

use objects::{CompactString, Status, Value};
use serde::Serialize;

use super::policy::{Level, Stage};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub kind: &'static str,
    pub api_version: &'static str,
    pub level: Level,
    #[serde(rename = "auditID")]
    pub audit_id: String,
    pub stage: Stage,
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    pub verb: CompactString,
    pub user: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonated_user: Option<Value>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    pub source_ips: Vec<std::net::IpAddr>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_ref: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_status: Option<ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_object: Option<Value>,
    pub request_received_timestamp: String,
    pub stage_timestamp: String,
    pub annotations: BTreeMap<CompactString, String>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub resource: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub namespace: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub name: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub uid: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub api_group: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub api_version: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub resource_version: CompactString,
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub subresource: CompactString,
}

/// How it ended: a `Status` of which only the bounded parts are kept.
#[derive(Clone, Debug, Serialize)]
pub struct ResponseStatus {
    metadata: BTreeMap<(), ()>,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    code: u16,
}

impl ResponseStatus {
    /// An answer that says nothing about itself.
    pub fn code(code: u16) -> Self {
        ResponseStatus {
            metadata: BTreeMap::new(),
            status: "",
            message: String::new(),
            reason: "",
            details: None,
            code,
        }
    }

    /// A client that did not wait for its answer, in upstream's words.
    pub fn closed_early() -> Self {
        let message = "Connection closed early".to_owned();
        ResponseStatus { status: "Success", message, ..ResponseStatus::code(200) }
    }

    pub fn failure(status: &Status) -> Self {
        let details = status.to_value().get("details").cloned();
        ResponseStatus {
            status: "Failure",
            message: status.message.clone(),
            reason: status.reason.as_str(),
            details,
            ..ResponseStatus::code(status.code)
        }
    }
}

/// `metav1.MicroTime`.
pub fn timestamp(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
