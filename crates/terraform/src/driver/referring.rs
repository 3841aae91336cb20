//! Values that come from other objects: `spec.references` names a field of the resource and where its value stands.
//!
//! ```yaml
//! references:
//! - field: network.subnet
//!   from: {apiVersion: subnet.linode.kubeform.com/v1alpha1, kind: Subnet, name: a, path: spec.state.id}
//! ```
//!
//! Whoever is referred to is read in a way that wakes this object when it changes. Of the same namespace only. What
//! comes from a Secret goes only to where the provider keeps it secret.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{Value as Json, meta};
use provision::dialect::Dependable;
use provision::{Failure, Surroundings, paths};
use runtime::Key;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::registry::Registry;
use crate::schema::Block;
use crate::shape;

/// Woken when it comes; looked at all the same.
const WAITING: Duration = Duration::from_secs(60);
/// What most want of another resource.
const DEFAULT_PATH: &str = "spec.state.id";
const LONGEST: usize = 100;
/// Kinds of `v1` that values can come from, as they are stored.
const PLAIN: [(&str, &str); 2] = [("Secret", SECRETS), ("ConfigMap", "configmaps")];
const SECRETS: &str = "secrets";

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

impl Target {
    /// How the kind is stored, if it is none of a provider's.
    fn plain(&self) -> Option<&'static str> {
        let of_kind = PLAIN.iter().find(|(kind, _)| *kind == self.kind)?;
        (self.api_version == "v1").then_some(of_kind.1)
    }
}

/// Puts the values of references into what is desired, a resource as `block` describes it.
pub async fn resolve(
    registry: &Registry,
    block: &Block,
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
        if reference.from.plain() == Some(SECRETS) && !shape::is_secret(block, &reference.field) {
            let field = &reference.field;
            return Err(wrong(format!("{field} is not kept secret and cannot come from a Secret")));
        }
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
    let resource = match (from.plain(), &facts) {
        (Some(plain), _) => plain.into(),
        (None, Some(facts)) => facts.resource.clone(),
        (None, None) => {
            let message = format!("{kind} of {} is not a kind that can be referred to", from.api_version);
            return Err(Failure::terminal(message).at("spec.references"));
        }
    };
    let waiting = |why: String| Failure::waiting(WAITING, why).at("spec.references");
    let object = around.reader.get(&resource, meta::namespace(around.object), name).await?;
    let object = object.ok_or_else(|| waiting(format!("{kind} {name} does not exist yet")))?;
    if facts.is_some() && meta::is_deleting(&object) {
        return Err(waiting(format!("{kind} {name} is being deleted")));
    }
    if let Some(facts) = &facts {
        match facts.dialect.dependable(&object) {
            Dependable::Yes => {}
            Dependable::NotYet(why) | Dependable::Never(why) => return Err(waiting(why)),
        }
    }
    let path = from.path.as_deref().unwrap_or(DEFAULT_PATH);
    let found = paths::get(&object, path).filter(|value| !value.is_null()).cloned();
    let found = found.ok_or_else(|| waiting(format!("{kind} {name} has no {path} yet")))?;
    if from.plain() == Some(SECRETS) { opened(found, from, path) } else { Ok(found) }
}

/// A value of a Secret, as whoever made the Secret wrote it.
fn opened(value: Json, from: &Target, path: &str) -> Result<Json, Failure> {
    let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let not_text = || Failure::terminal(format!("{path} of Secret {} is not text", from.name));
    text.map(Json::String).ok_or_else(|| not_text().at("spec.references"))
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
