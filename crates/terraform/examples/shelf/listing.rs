//! Lists of what is on the shelf, for a provider whose things have identities.

use std::collections::HashMap;

use prost::Message as _;
use prost::bytes::Bytes;
use terraform::protocol::messages as wire;
use terraform::value::{Type, Value};

use super::identity;
use super::serve::Reply;
use super::thing::{Attributes, WARNING, block, error, reply, types, value};

/// What a list is asked with.
const CONFIG: Attributes = &[("name_prefix", r#""string""#, "o"), ("pass_phrase", r#""string""#, "os")];

/// Of the first two types; only things have identities.
pub fn schemas(names: &[String]) -> HashMap<String, Vec<u8>> {
    if identity::version().is_none() {
        return HashMap::new();
    }
    let schema = wire::Schema { version: 0, block: Some(block(CONFIG, Vec::new())) }.encode_to_vec();
    names.iter().take(2).map(|name| (name.clone(), schema.clone())).collect()
}

fn prefix(config: &Option<wire::DynamicValue>) -> Option<String> {
    let config = value(config, &Type::object(types(CONFIG)));
    config.field("name_prefix").as_str().map(str::to_owned)
}

pub fn validate(request: &wire::ValidateListRequest) -> Reply {
    let limit = value(&request.limit, &Type::Number);
    assert!(limit >= Value::number(1), "a list with a limit");
    assert_eq!(value(&request.include_resource_object, &Type::Bool), Value::Bool(false));
    let wrong = prefix(&request.config).as_deref() == Some("");
    let diagnostics = if wrong { vec![error("a prefix has letters", &["name_prefix"])] } else { vec![] };
    reply(&wire::DiagnosticsResponse { diagnostics })
}

/// In the order of their names.
pub fn list(mut things: Vec<Value>, request: &wire::ListRequest, fault: Option<&str>) -> Reply {
    let name = |thing: &Value| thing.field("name").as_str().unwrap_or_default().to_owned();
    let prefix = prefix(&request.config).unwrap_or_default();
    things.retain(|thing| name(thing).starts_with(&prefix));
    things.sort_by_key(name);
    let event = |thing: &Value| wire::ListEvent {
        identity: identity::of(thing),
        display_name: format!("the thing {}", name(thing)),
        ..Default::default()
    };
    let mut events: Vec<wire::ListEvent> =
        things.iter().take(usize::try_from(request.limit).unwrap_or_default()).map(event).collect();
    let said = |diagnostic| wire::ListEvent { diagnostic: vec![diagnostic], ..Default::default() };
    let warning = wire::Diagnostic { severity: WARNING, ..error("the light is poor", &[]) };
    match fault {
        Some("warn") => events.insert(0, said(warning)),
        Some("refuse") => events.push(said(error("the rest of the shelf is locked", &[]))),
        Some("nameless") => events.push(wire::ListEvent::default()),
        Some("bad-msgpack") => {
            let data = wire::DynamicValue { msgpack: Bytes::from_static(&[0xc1, 0xff]), json: Bytes::new() };
            let identity = Some(wire::IdentityData { identity_data: Some(data) });
            events.push(wire::ListEvent { identity, ..Default::default() });
        }
        Some("endless-warnings") => return Reply::Endless(vec![said(warning).encode_to_vec()]),
        Some("flood") => return Reply::Flood(vec![said(warning).encode_to_vec()]),
        _ => {}
    }
    let events: Vec<Vec<u8>> = events.iter().map(wire::ListEvent::encode_to_vec).collect();
    match fault {
        Some("endless") => Reply::Endless(events),
        Some("die-half") => Reply::Last(events),
        _ => Reply::Messages(events),
    }
}
