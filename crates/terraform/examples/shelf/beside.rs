//! What the provider can do beside making things: label them, move them between its types, and say how they are written.

use std::collections::HashMap;

use prost::bytes::Bytes;
use terraform::protocol::messages as wire;
use terraform::value::{Type, Value};

use super::serve::Reply;
use super::thing::{dynamic, error, reply, value};

pub fn capabilities() -> wire::ServerCapabilities {
    wire::ServerCapabilities {
        move_resource_state: true,
        generate_resource_config: std::env::var("GENERATE").is_ok(),
        ..Default::default()
    }
}

/// `label(name, numbers...)`.
pub fn functions() -> HashMap<String, wire::Function> {
    let parameter = |name: &str, ty: &'static str| wire::Parameter {
        name: name.into(),
        r#type: Bytes::from_static(ty.as_bytes()),
        allow_null_value: false,
        allow_unknown_values: false,
    };
    let label = wire::Function {
        parameters: vec![parameter("name", r#""string""#)],
        variadic_parameter: Some(parameter("numbers", r#""number""#)),
        r#return: Some(wire::Return { r#type: Bytes::from_static(br#""string""#) }),
        summary: "a label for a thing".into(),
    };
    [("label".to_owned(), label)].into()
}

pub fn call(request: &wire::CallFunctionRequest) -> Reply {
    let mut arguments = request.arguments.iter().cloned().map(Some);
    let name = value(&arguments.next().flatten(), &Type::String);
    let name = name.as_str().unwrap_or_default();
    if name.contains('#') {
        let error = wire::FunctionError { text: format!("{name} is no name"), function_argument: Some(0) };
        return reply(&wire::CallFunctionResponse { result: None, error: Some(error) });
    }
    let numbers = arguments.map(|number| match value(&number, &Type::Number) {
        Value::Number(number) => format!("-{}", number.as_i64().unwrap_or_default()),
        _ => String::new(),
    });
    let label = Value::string(format!("<{name}{}>", numbers.collect::<String>()));
    reply(&wire::CallFunctionResponse { result: dynamic(&label, &Type::String), error: None })
}

/// All types are alike here; but it knows only its own.
pub fn moved(request: &wire::MoveRequest, ty: &Type, warnings: Vec<wire::Diagnostic>) -> Reply {
    let own = request.source_provider_address.ends_with("/shelf") && request.source_schema_version == 1;
    if !own || request.target_type_name == "shelf_thing" {
        let diagnostics = vec![error("this cannot be moved", &[])];
        return reply(&wire::MoveResponse { diagnostics, ..Default::default() });
    }
    let json = request.source_state.as_ref().map(|raw| raw.json.clone()).unwrap_or_default();
    let state = Value::from_state_json(&json, ty).expect("a state of its own");
    let target_private = Bytes::from([request.source_private.as_ref(), b"+moved"].concat());
    reply(&wire::MoveResponse {
        target_state: dynamic(&state, ty),
        diagnostics: warnings,
        target_private,
        target_identity: None,
    })
}

/// Without what the plan fills in by itself.
pub fn written(request: &wire::GenerateConfigRequest, ty: &Type) -> Reply {
    let Value::Fields(mut fields) = value(&request.state, ty) else { panic!("a state is an object") };
    for name in ["id", "token", "private_ip_address", "zones"] {
        fields.insert(name.into(), Value::Null);
    }
    if fields["note"].as_str() == Some("none") {
        fields.insert("note".into(), Value::Null);
    }
    let config = dynamic(&Value::Fields(fields), ty);
    reply(&wire::GenerateConfigResponse { config, diagnostics: vec![] })
}
