//! Values that come from other objects: `spec.references` names a field of the resource and where its value stands.
//!
//! ```yaml
//! references:
//! - field: network.subnet
//!   from: {apiVersion: subnet.linode.kubeform.com/v1alpha1, kind: Subnet, name: a, path: spec.state.id}
//! ```
//!
//! Whoever is referred to is read in a way that wakes this object when it changes. Of the same namespace only.

use std::time::Duration;

use objects::{Value as Json, meta};
use provision::dialect::Dependable;
use provision::{Failure, Surroundings, paths};
use runtime::Key;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::registry::Registry;

/// Woken when it comes; looked at all the same.
const WAITING: Duration = Duration::from_secs(60);
/// What most want of another resource.
const DEFAULT_PATH: &str = "spec.state.id";
const LONGEST: usize = 100;

#[derive(Debug, Deserialize)]
struct Reference {
    field: String,
    from: Target,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    api_version: String,
    kind: String,
    name: String,
    path: Option<String>,
}

/// Puts the values of references into what is desired.
pub async fn resolve(
    registry: &Registry,
    around: &Surroundings<'_>,
    desired: &mut Json,
) -> Result<(), Failure> {
    let Some(references) = around.object.pointer("/spec/references") else { return Ok(()) };
    let wrong = |why: String| Failure::terminal(why).at("spec.references");
    let references: Vec<Reference> =
        serde_json::from_value(references.clone()).map_err(|error| wrong(error.to_string()))?;
    if references.len() > LONGEST {
        return Err(wrong(format!("there are more than {LONGEST}")));
    }
    for reference in references {
        let value = value(registry, around, &reference.from).await?;
        set(desired, &reference.field, value).map_err(wrong)?;
    }
    Ok(())
}

/// The objects that the references of an object name, as far as they can be read.
pub fn targets(registry: &Registry, object: &Json) -> Vec<Key> {
    let references = object.pointer("/spec/references").cloned().unwrap_or_default();
    let references: Vec<Reference> = serde_json::from_value(references).unwrap_or_default();
    let key = |reference: Reference| {
        let from = reference.from;
        let facts = registry.find(&from.api_version, &from.kind)?;
        Some(Key::new(facts.resource.clone(), meta::namespace(object), from.name))
    };
    references.into_iter().filter_map(key).collect()
}

async fn value(registry: &Registry, around: &Surroundings<'_>, from: &Target) -> Result<Json, Failure> {
    let (kind, name) = (&from.kind, &from.name);
    let facts = registry.find(&from.api_version, kind);
    let resource = match (from.api_version.as_str(), kind.as_str(), &facts) {
        ("v1", "Secret", _) => "secrets".into(),
        (_, _, Some(facts)) => facts.resource.clone(),
        _ => {
            let message = format!("{kind} of {} is not a kind that can be referred to", from.api_version);
            return Err(Failure::terminal(message).at("spec.references"));
        }
    };
    let waiting = |why: String| Failure::waiting(WAITING, why).at("spec.references");
    let object = around.reader.get(&resource, meta::namespace(around.object), name).await?;
    let object = object.ok_or_else(|| waiting(format!("{kind} {name} does not exist yet")))?;
    if let Some(facts) = &facts {
        match facts.dialect.dependable(&object) {
            Dependable::Yes => {}
            Dependable::NotYet(why) | Dependable::Never(why) => return Err(waiting(why)),
        }
    }
    let path = from.path.as_deref().unwrap_or(DEFAULT_PATH);
    let found = paths::get(&object, path).filter(|value| !value.is_null()).cloned();
    found.ok_or_else(|| waiting(format!("{kind} {name} has no {path} yet")))
}

/// A field below `spec.resource`; objects on the way are made, lists are not.
fn set(desired: &mut Json, field: &str, value: Json) -> Result<(), String> {
    let mut place = &mut desired["spec"]["resource"];
    for name in field.split('.') {
        if place.is_null() {
            *place = Json::Object(Map::new());
        }
        place = match place {
            Json::Object(fields) => fields.entry(name).or_insert(Json::Null),
            Json::Array(elements) => name
                .parse::<usize>()
                .ok()
                .and_then(|index| elements.get_mut(index))
                .ok_or_else(|| format!("{field}: there is no element {name}"))?,
            _ => return Err(format!("{field}: {name} is in something that has no fields")),
        };
    }
    *place = value;
    Ok(())
}

/// The schema of the field.
pub fn schema() -> Json {
    let text = || json!({"type": "string", "minLength": 1});
    json!({
        "type": "array",
        "maxItems": LONGEST,
        "items": {
            "type": "object",
            "required": ["field", "from"],
            "properties": {
                "field": text(),
                "from": {
                    "type": "object",
                    "required": ["apiVersion", "kind", "name"],
                    "properties": {"apiVersion": text(), "kind": text(), "name": text(), "path": text()},
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set() {
        fn check(resource: Json, field: &str, expected: Result<Json, &str>) {
            let mut desired = json!({"spec": {"resource": resource}});
            let result = set(&mut desired, field, json!(7)).map(|()| desired["spec"]["resource"].clone());
            assert_eq!(
                result.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|text| *text),
                "{field}"
            );
        }
        check(json!({}), "size", Ok(json!({"size": 7})));
        check(json!({"a": 1}), "network.subnet", Ok(json!({"a": 1, "network": {"subnet": 7}})));
        check(json!({"rule": [{"port": 1}]}), "rule.0.port", Ok(json!({"rule": [{"port": 7}]})));
        check(json!({"rule": []}), "rule.0.port", Err("rule.0.port: there is no element 0"));
        check(json!({"name": "x"}), "name.y", Err("name.y: y is in something that has no fields"));
    }
}
