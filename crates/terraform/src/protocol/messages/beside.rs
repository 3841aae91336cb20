//! Of what a provider has beside resources: data, functions, what is opened for a while, and lists of what exists.

use prost::Message;
use prost::bytes::Bytes;

use super::{ClientCapabilities, Deferred, Diagnostic, DynamicValue, IdentityData};

#[derive(Clone, PartialEq, Message)]
pub struct ReadDataRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "4")]
    pub client_capabilities: Option<ClientCapabilities>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReadDataResponse {
    #[prost(message, optional, tag = "1")]
    pub state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(message, optional, tag = "3")]
    pub deferred: Option<Deferred>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CallFunctionRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub arguments: Vec<DynamicValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CallFunctionResponse {
    #[prost(message, optional, tag = "1")]
    pub result: Option<DynamicValue>,
    #[prost(message, optional, tag = "2")]
    pub error: Option<FunctionError>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FunctionError {
    #[prost(string, tag = "1")]
    pub text: String,
    #[prost(int64, optional, tag = "2")]
    pub function_argument: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpenEphemeralResponse {
    #[prost(message, repeated, tag = "1")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(message, optional, tag = "2")]
    pub renew_at: Option<Timestamp>,
    #[prost(message, optional, tag = "3")]
    pub result: Option<DynamicValue>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub private: Option<Bytes>,
    #[prost(message, optional, tag = "5")]
    pub deferred: Option<Deferred>,
}

/// To renew it or to close it.
#[derive(Clone, PartialEq, Message)]
pub struct EphemeralRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub private: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RenewEphemeralResponse {
    #[prost(message, repeated, tag = "1")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(message, optional, tag = "2")]
    pub renew_at: Option<Timestamp>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub private: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValidateListRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub include_resource_object: Option<DynamicValue>,
    #[prost(message, optional, tag = "4")]
    pub limit: Option<DynamicValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(bool, tag = "3")]
    pub include_resource_object: bool,
    #[prost(int64, tag = "4")]
    pub limit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListEvent {
    #[prost(message, optional, tag = "1")]
    pub identity: Option<IdentityData>,
    #[prost(string, tag = "2")]
    pub display_name: String,
    #[prost(message, optional, tag = "3")]
    pub resource_object: Option<DynamicValue>,
    #[prost(message, repeated, tag = "4")]
    pub diagnostic: Vec<Diagnostic>,
}
