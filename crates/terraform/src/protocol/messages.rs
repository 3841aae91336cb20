//! The messages of the plugin protocol, versions 5 and 6, as far as we speak it.
//!
//! Both versions have the same messages with the same field numbers, but for the attributes of a schema; so there is
//! one set of them, and the names of the calls are in [`super::methods`]. They are written as Rust rather than as
//! `.proto` files: nothing has to be generated, and what we leave out (provisioners, actions, state stores) is plain
//! to see.
//!
//! Schemas arrive as bytes and are decoded one by one when somebody asks: a provider may have thousands.

mod beside;

use std::collections::HashMap;

use prost::Message;
use prost::bytes::Bytes;

pub use beside::*;

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Empty {}

/// What a plugin wrote: go-plugin's.
#[derive(Clone, PartialEq, Message)]
pub struct Stdio {
    /// 1: standard output, 2: standard error.
    #[prost(int32, tag = "1")]
    pub channel: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct DynamicValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub msgpack: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub json: Bytes,
}

/// What is in it may be secret.
impl std::fmt::Debug for DynamicValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DynamicValue")
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct Diagnostic {
    /// 1 is an error, 2 a warning.
    #[prost(int32, tag = "1")]
    pub severity: i32,
    #[prost(string, tag = "2")]
    pub summary: String,
    #[prost(string, tag = "3")]
    pub detail: String,
    #[prost(message, optional, tag = "4")]
    pub attribute: Option<AttributePath>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AttributePath {
    #[prost(message, repeated, tag = "1")]
    pub steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Step {
    #[prost(oneof = "Selector", tags = "1, 2, 3")]
    pub selector: Option<Selector>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Selector {
    #[prost(string, tag = "1")]
    AttributeName(String),
    #[prost(string, tag = "2")]
    ElementKeyString(String),
    #[prost(int64, tag = "3")]
    ElementKeyInt(i64),
}

#[derive(Clone, PartialEq, Message)]
pub struct RawState {
    #[prost(bytes = "bytes", tag = "1")]
    pub json: Bytes,
    #[prost(map = "string, string", tag = "2")]
    pub flatmap: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IdentityData {
    #[prost(message, optional, tag = "1")]
    pub identity_data: Option<DynamicValue>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct ServerCapabilities {
    #[prost(bool, tag = "1")]
    pub plan_destroy: bool,
    #[prost(bool, tag = "2")]
    pub get_provider_schema_optional: bool,
    #[prost(bool, tag = "3")]
    pub move_resource_state: bool,
    #[prost(bool, tag = "4")]
    pub generate_resource_config: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct ClientCapabilities {
    #[prost(bool, tag = "1")]
    pub deferral_allowed: bool,
    #[prost(bool, tag = "2")]
    pub write_only_attributes_allowed: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Deferred {
    /// 1: the resource's configuration is not known, 2: the provider's is not, 3: something else must exist first.
    #[prost(int32, tag = "1")]
    pub reason: i32,
}

// Schemas.

#[derive(Clone, PartialEq, Message)]
pub struct GetProviderSchemaResponse {
    #[prost(bytes = "bytes", tag = "1")]
    pub provider: Bytes,
    #[prost(map = "string, bytes", tag = "2")]
    pub resource_schemas: HashMap<String, Vec<u8>>,
    #[prost(map = "string, bytes", tag = "3")]
    pub data_source_schemas: HashMap<String, Vec<u8>>,
    #[prost(message, repeated, tag = "4")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub provider_meta: Option<Bytes>,
    #[prost(message, optional, tag = "6")]
    pub server_capabilities: Option<ServerCapabilities>,
    #[prost(map = "string, message", tag = "7")]
    pub functions: HashMap<String, Function>,
    #[prost(map = "string, bytes", tag = "8")]
    pub ephemeral_resource_schemas: HashMap<String, Vec<u8>>,
    #[prost(map = "string, bytes", tag = "9")]
    pub list_resource_schemas: HashMap<String, Vec<u8>>,
}

/// A schema of protocol 5 or 6; the attributes' bytes are read by the version.
#[derive(Clone, PartialEq, Message)]
pub struct Schema {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(message, optional, tag = "2")]
    pub block: Option<Block>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Block {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub attributes: Vec<Bytes>,
    #[prost(message, repeated, tag = "3")]
    pub block_types: Vec<NestedBlock>,
    #[prost(string, tag = "4")]
    pub description: String,
    #[prost(bool, tag = "6")]
    pub deprecated: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct NestedBlock {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub block: Option<Block>,
    /// 1 single, 2 list, 3 set, 4 map, 5 group.
    #[prost(int32, tag = "3")]
    pub nesting: i32,
    #[prost(int64, tag = "4")]
    pub min_items: i64,
    #[prost(int64, tag = "5")]
    pub max_items: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Attribute5 {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub r#type: Bytes,
    #[prost(string, tag = "3")]
    pub description: String,
    #[prost(bool, tag = "4")]
    pub required: bool,
    #[prost(bool, tag = "5")]
    pub optional: bool,
    #[prost(bool, tag = "6")]
    pub computed: bool,
    #[prost(bool, tag = "7")]
    pub sensitive: bool,
    #[prost(bool, tag = "9")]
    pub deprecated: bool,
    #[prost(bool, tag = "10")]
    pub write_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Attribute6 {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub r#type: Bytes,
    #[prost(string, tag = "3")]
    pub description: String,
    #[prost(bool, tag = "4")]
    pub required: bool,
    #[prost(bool, tag = "5")]
    pub optional: bool,
    #[prost(bool, tag = "6")]
    pub computed: bool,
    #[prost(bool, tag = "7")]
    pub sensitive: bool,
    #[prost(bool, tag = "9")]
    pub deprecated: bool,
    #[prost(message, optional, tag = "10")]
    pub nested_type: Option<Object>,
    #[prost(bool, tag = "11")]
    pub write_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Object {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<Attribute6>,
    /// 1 single, 2 list, 3 set, 4 map.
    #[prost(int32, tag = "3")]
    pub nesting: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetIdentitySchemasResponse {
    #[prost(map = "string, message", tag = "1")]
    pub identity_schemas: HashMap<String, IdentitySchema>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IdentitySchema {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(message, repeated, tag = "2")]
    pub identity_attributes: Vec<IdentityAttribute>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IdentityAttribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub r#type: Bytes,
    #[prost(bool, tag = "3")]
    pub required_for_import: bool,
    #[prost(bool, tag = "4")]
    pub optional_for_import: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(message, repeated, tag = "1")]
    pub parameters: Vec<Parameter>,
    #[prost(message, optional, tag = "2")]
    pub variadic_parameter: Option<Parameter>,
    #[prost(message, optional, tag = "3")]
    pub r#return: Option<Return>,
    #[prost(string, tag = "4")]
    pub summary: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Parameter {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub r#type: Bytes,
    #[prost(bool, tag = "3")]
    pub allow_null_value: bool,
    #[prost(bool, tag = "4")]
    pub allow_unknown_values: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Return {
    #[prost(bytes = "bytes", tag = "1")]
    pub r#type: Bytes,
}

// The provider itself.

/// Of protocol 5 (PrepareProviderConfig) and 6 (ValidateProviderConfig).
#[derive(Clone, PartialEq, Message)]
pub struct ValidateProviderRequest {
    #[prost(message, optional, tag = "1")]
    pub config: Option<DynamicValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValidateProviderResponse {
    /// Protocol 5 only.
    #[prost(message, optional, tag = "1")]
    pub prepared_config: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConfigureRequest {
    #[prost(string, tag = "1")]
    pub terraform_version: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub client_capabilities: Option<ClientCapabilities>,
}

/// The answer to every call that only checks or does.
#[derive(Clone, PartialEq, Message)]
pub struct DiagnosticsResponse {
    #[prost(message, repeated, tag = "1")]
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StopResponse {
    #[prost(string, tag = "1")]
    pub error: String,
}

// Resources.

/// For resources, data sources and ephemeral resources alike.
#[derive(Clone, PartialEq, Message)]
pub struct ValidateRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DynamicValue>,
    /// Of resources only.
    #[prost(message, optional, tag = "3")]
    pub client_capabilities: Option<ClientCapabilities>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpgradeRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
    #[prost(message, optional, tag = "3")]
    pub raw_state: Option<RawState>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpgradeResponse {
    #[prost(message, optional, tag = "1")]
    pub upgraded_state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpgradeIdentityResponse {
    #[prost(message, optional, tag = "1")]
    pub upgraded_identity: Option<IdentityData>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReadRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub current_state: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "3")]
    pub private: Bytes,
    #[prost(message, optional, tag = "4")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "5")]
    pub client_capabilities: Option<ClientCapabilities>,
    #[prost(message, optional, tag = "6")]
    pub current_identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReadResponse {
    #[prost(message, optional, tag = "1")]
    pub new_state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(bytes = "bytes", tag = "3")]
    pub private: Bytes,
    #[prost(message, optional, tag = "4")]
    pub deferred: Option<Deferred>,
    #[prost(message, optional, tag = "5")]
    pub new_identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PlanRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub prior_state: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub proposed_new_state: Option<DynamicValue>,
    #[prost(message, optional, tag = "4")]
    pub config: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "5")]
    pub prior_private: Bytes,
    #[prost(message, optional, tag = "6")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "7")]
    pub client_capabilities: Option<ClientCapabilities>,
    #[prost(message, optional, tag = "8")]
    pub prior_identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PlanResponse {
    #[prost(message, optional, tag = "1")]
    pub planned_state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub requires_replace: Vec<AttributePath>,
    #[prost(bytes = "bytes", tag = "3")]
    pub planned_private: Bytes,
    #[prost(message, repeated, tag = "4")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(bool, tag = "5")]
    pub legacy_type_system: bool,
    #[prost(message, optional, tag = "6")]
    pub deferred: Option<Deferred>,
    #[prost(message, optional, tag = "7")]
    pub planned_identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ApplyRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub prior_state: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub planned_state: Option<DynamicValue>,
    #[prost(message, optional, tag = "4")]
    pub config: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "5")]
    pub planned_private: Bytes,
    #[prost(message, optional, tag = "6")]
    pub provider_meta: Option<DynamicValue>,
    #[prost(message, optional, tag = "7")]
    pub planned_identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ApplyResponse {
    #[prost(message, optional, tag = "1")]
    pub new_state: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "2")]
    pub private: Bytes,
    #[prost(message, repeated, tag = "3")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(bool, tag = "4")]
    pub legacy_type_system: bool,
    #[prost(message, optional, tag = "5")]
    pub new_identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImportRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(string, tag = "2")]
    pub id: String,
    #[prost(message, optional, tag = "3")]
    pub client_capabilities: Option<ClientCapabilities>,
    #[prost(message, optional, tag = "4")]
    pub identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImportResponse {
    #[prost(message, repeated, tag = "1")]
    pub imported_resources: Vec<ImportedResource>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(message, optional, tag = "3")]
    pub deferred: Option<Deferred>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImportedResource {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub state: Option<DynamicValue>,
    #[prost(bytes = "bytes", tag = "3")]
    pub private: Bytes,
    #[prost(message, optional, tag = "4")]
    pub identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MoveRequest {
    #[prost(string, tag = "1")]
    pub source_provider_address: String,
    #[prost(string, tag = "2")]
    pub source_type_name: String,
    #[prost(int64, tag = "3")]
    pub source_schema_version: i64,
    #[prost(message, optional, tag = "4")]
    pub source_state: Option<RawState>,
    #[prost(string, tag = "5")]
    pub target_type_name: String,
    #[prost(bytes = "bytes", tag = "6")]
    pub source_private: Bytes,
    #[prost(message, optional, tag = "7")]
    pub source_identity: Option<RawState>,
    #[prost(int64, tag = "8")]
    pub source_identity_schema_version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct MoveResponse {
    #[prost(message, optional, tag = "1")]
    pub target_state: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
    #[prost(bytes = "bytes", tag = "3")]
    pub target_private: Bytes,
    #[prost(message, optional, tag = "4")]
    pub target_identity: Option<IdentityData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GenerateConfigRequest {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(message, optional, tag = "2")]
    pub state: Option<DynamicValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GenerateConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub config: Option<DynamicValue>,
    #[prost(message, repeated, tag = "2")]
    pub diagnostics: Vec<Diagnostic>,
}

// Beside resources.
