//! Identities of things, for a provider that has them: their name, which version 0 called their title.

use prost::bytes::Bytes;
use terraform::protocol::messages as wire;
use terraform::value::{Type, Value};

use super::serve::Reply;
use super::thing::{dynamic, reply, value};

/// None if things have no identities.
pub fn version() -> Option<i64> {
    std::env::var("IDENTITY").ok()?.parse().ok()
}

fn attribute(version: i64) -> &'static str {
    if version == 0 { "title" } else { "name" }
}

fn ty(version: i64) -> Type {
    Type::object([(attribute(version).to_owned(), Type::String)])
}

pub fn schemas() -> Reply {
    let Some(version) = version() else { return Reply::Failure(12, "no identities".into()) };
    let attribute = wire::IdentityAttribute {
        name: attribute(version).into(),
        r#type: Bytes::from_static(br#""string""#),
        required_for_import: true,
        optional_for_import: false,
    };
    let schema = wire::IdentitySchema { version, identity_attributes: vec![attribute] };
    reply(&wire::GetIdentitySchemasResponse {
        identity_schemas: [("shelf_thing".to_owned(), schema)].into(),
        diagnostics: vec![],
    })
}

fn identity(name: &str) -> Option<wire::IdentityData> {
    let version = version()?;
    let value = Value::Fields([(attribute(version).to_owned(), Value::string(name))].into());
    Some(wire::IdentityData { identity_data: dynamic(&value, &ty(version)) })
}

/// Of a thing that is there, or planned.
pub fn of(thing: &Value) -> Option<wire::IdentityData> {
    identity(thing.field("name").as_str()?)
}

/// The name that an identity says.
pub fn name(identity: &wire::IdentityData) -> String {
    let version = version().unwrap_or_default();
    let value = value(&identity.identity_data, &ty(version));
    value.field(attribute(version)).as_str().unwrap_or_default().to_owned()
}

pub fn upgrade(request: &wire::UpgradeRequest) -> Reply {
    let json = request.raw_state.as_ref().map(|raw| raw.json.clone()).unwrap_or_default();
    let old = Value::from_state_json(&json, &ty(request.version)).unwrap_or(Value::Null);
    let name = old.field(attribute(request.version)).as_str().unwrap_or_default().to_owned();
    reply(&wire::UpgradeIdentityResponse { upgraded_identity: identity(&name), diagnostics: vec![] })
}
