//! Custom resource definitions (`apiextensions.k8s.io/v1`) as objects: defaults, validation, the status that
//! follows from the spec, and the types they make.
//!
//! Pure functions over the definition's JSON. What writing a definition does to what is served is `apiserver`'s
//! business; compiling its rules is `rules`'.

mod approval;
mod conversion;
mod defaults;
mod json_path;
mod names;
mod resources;
mod scale;
mod schema_rules;
mod status;
mod validation;
mod versions;

use serde_json::{Map, Value, json};

pub use approval::is_protected;
pub use names::{Names, TakenNames, names_accepted};
pub use resources::resource_types;
pub use scale::validate_scale;
pub use status::{
    Condition, Termination, establish, is_condition_true, set_condition, terminate, terminate_with,
};
pub use validation::{validate, validate_status_update, validate_update, warnings};
pub use versions::{compare as compare_versions, deprecation};

/// Fills in what a definition leaves unsaid: names that follow from the kind, no conversion, the port of a
/// webhook's service.
pub fn default(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
        set_if_empty(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            set_if_empty(names, "listKind", format!("{kind}List"));
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let service = spec.get_mut("conversion").and_then(|all| all.pointer_mut("/webhook/clientConfig/service"));
    if let Some(service) = service.and_then(Value::as_object_mut)
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), json!(443));
    }
}

fn set_if_empty(fields: &mut Map<String, Value>, name: &str, value: String) {
    if fields.get(name).and_then(Value::as_str).unwrap_or("").is_empty() && !value.is_empty() {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The version that objects are stored in.
pub fn storage_version(definition: &Value) -> Option<&str> {
    let storage = versions_of(definition).iter().find(|version| flag(version, "storage"))?;
    Some(text(storage, "name"))
}

/// A version by name.
pub fn version<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    versions_of(definition).iter().find(|version| text(version, "name") == name)
}

fn versions_of(definition: &Value) -> &[Value] {
    list(definition.get("spec").unwrap_or(&Value::Null), "versions")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn present<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests;
