//! What is wrong with the fields of a resource, by the provider's schema alone: sensitive values in plain sight, fields
//! that the provider has not, values of other types.
//!
//! Kinds of one type have that schema themselves. The kind of all types takes anything, so it is looked at here: at
//! once in control planes of this process, and in every plan wherever the object is.

use objects::field::{Error, ErrorList};
use objects::{Path, Value as Json, meta};
use provision::Failure;

use crate::definition::{GENERIC_KIND, GROUP};
use crate::registry::Registry;
use crate::schema::Block;
use crate::shape::{self, FieldError};

/// What is wrong with an object of the kind of all types, if its provider is known.
pub fn invalid(registry: &Registry, object: &Json) -> ErrorList {
    let group = meta::api_version(object).split_once('/').map_or("", |(group, _)| group);
    if (group, meta::kind(object)) != (GROUP, GENERIC_KIND) {
        return ErrorList::new();
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Json::as_str).unwrap_or_default();
    let provider = registry.provider(text("/spec/provider"));
    let schema = provider.and_then(|provider| provider.catalogue.resource(text("/spec/type")).ok());
    let (Some(schema), Some(resource)) = (schema, object.pointer("/spec/resource")) else {
        return ErrorList::new();
    };
    let path = |path: &str| Path::new(format!("spec.resource.{path}"));
    if let Some(exposed) = shape::exposed(&schema.block, resource) {
        return vec![Error::forbidden(&path(&exposed.path), explanation(object, &exposed))];
    }
    match shape::desired(&schema.block, resource) {
        // Whoever takes over an object has its id here, whatever the provider says about it.
        Err(error) if error.path != "id" => {
            let pointer = format!("/{}", error.path.replace(['.', '['], "/").replace(']', ""));
            match resource.pointer(&pointer) {
                Some(found) if error.problem.starts_with("expected") => {
                    vec![Error::type_invalid(&path(&error.path), found.clone(), error.problem)]
                }
                _ => vec![Error::forbidden(&path(&error.path), error.problem)],
            }
        }
        _ => ErrorList::new(),
    }
}

/// The same of what is sensitive, for where nobody was there to refuse it.
pub fn exposed(block: &Block, object: &Json) -> Result<(), Failure> {
    let exposed = object.pointer("/spec/resource").and_then(|resource| shape::exposed(block, resource));
    exposed.map_or(Ok(()), |exposed| {
        let message = explanation(object, &exposed);
        Err(Failure::terminal(message).at(format!("spec.resource.{}", exposed.path)))
    })
}

fn explanation(object: &Json, exposed: &FieldError) -> String {
    let named = object.pointer("/spec/secretRef/name").and_then(Json::as_str).unwrap_or_default();
    let secret = match named {
        "" => "a Secret that spec.secretRef names".to_owned(),
        name => format!("the Secret {name}"),
    };
    format!("{}; it belongs into {secret}, as JSON under the key \"resource\"", exposed.problem)
}
