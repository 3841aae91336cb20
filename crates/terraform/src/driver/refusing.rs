//! What is wrong with the fields of a resource, by the provider's schema alone: sensitive values in plain sight, fields
//! that the provider has not, values of other types, and what is required and not there.
//!
//! Kinds of one type have that schema themselves. The kind of all types takes anything, and so do queries; they are looked
//! at here: at once in control planes of this process, and in every plan or before every question wherever the object is.

use objects::field::{Error, ErrorList};
use objects::{Path, Value as Json, meta};
use provision::Failure;

use crate::definition::{GENERIC_KIND, GROUP};
use crate::diagnostic::{Path as FieldPath, Step};
use crate::queries::kinds::QUERY;
use crate::registry::Registry;
use crate::schema::{Block, Nested, Nesting, Shape};
use crate::shape::{self, FieldError};
use crate::value::Value;

/// What is wrong with an object of the kind of all types, or with a query, if its provider is known.
pub fn invalid(registry: &Registry, object: &Json) -> ErrorList {
    let group = meta::api_version(object).split_once('/').map_or("", |(group, _)| group);
    let field = match meta::kind(object) {
        GENERIC_KIND if group == GROUP => "resource",
        QUERY if group == GROUP => "config",
        _ => return ErrorList::new(),
    };
    let text = |pointer: &str| object.pointer(pointer).and_then(Json::as_str).unwrap_or_default();
    let Some(provider) = registry.provider(text("/spec/provider")) else { return ErrorList::new() };
    let schema = match field {
        "config" => provider.catalogue.list(text("/spec/type")),
        _ => provider.catalogue.resource(text("/spec/type")),
    };
    let (Ok(schema), Some(resource)) = (schema, object.pointer(&format!("/spec/{field}"))) else {
        return ErrorList::new();
    };
    let path = |path: &str| Path::new(format!("spec.{field}.{path}"));
    if let Some(exposed) = shape::exposed(&schema.block, resource) {
        return vec![Error::forbidden(&path(&exposed.path), explanation(object, &exposed))];
    }
    match shape::desired(&schema.block, resource) {
        // Whoever takes over an object has its id here, whatever the provider says about it.
        Err(error) if error.path != "id" || field == "config" => {
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

/// What the type requires is there: providers are never asked without it, and rely on that.
pub fn complete(block: &Block, object: &Json, config: &Value) -> Result<(), Failure> {
    let Some((steps, problem, hidden)) = lacking(block, config) else { return Ok(()) };
    let path = shape::field_path("spec.resource", block, &FieldPath(steps));
    let error = FieldError { path: path.clone(), problem };
    let message = if hidden { explanation(object, &error) } else { error.problem };
    Err(Failure::terminal(message).at(path))
}

/// The first thing that is not there, or there too few or too many times; and whether it is secret.
fn lacking(block: &Block, value: &Value) -> Option<(Vec<Step>, String, bool)> {
    let below = |step: Vec<Step>, nested: &Nested, value: &Value| {
        let (steps, problem, hidden) = lacking(&nested.block, value)?;
        Some(([step, steps].concat(), problem, hidden))
    };
    block.members.iter().find_map(|(name, member)| {
        let (own, at) = (value.field(name), Step::Attribute(name.clone()));
        if own.is_null() {
            let required = || (vec![at], "this is required".to_owned(), member.is_secret());
            return member.required.then(required);
        }
        let Shape::Nested(nested) = &member.shape else { return None };
        match own {
            Value::Sequence(elements) => {
                let count = i64::try_from(elements.len()).unwrap_or(i64::MAX);
                let counted = |how: &str, bound: i64| {
                    let message = format!("there may be no {how} than {bound} of them, and here are {count}");
                    Some((vec![at.clone()], message, false))
                };
                if count < nested.min_items {
                    return counted("fewer", nested.min_items);
                }
                if nested.max_items > 0 && count > nested.max_items {
                    return counted("more", nested.max_items);
                }
                let mut all = elements.iter().enumerate();
                all.find_map(|(index, element)| below(vec![at.clone(), Step::Index(index)], nested, element))
            }
            Value::Fields(entries) if nested.nesting == Nesting::Map => entries
                .iter()
                .find_map(|(key, entry)| below(vec![at.clone(), Step::Key(key.to_string())], nested, entry)),
            Value::Fields(_) => below(vec![at], nested, own),
            _ => None,
        }
    })
}

/// Why a value that is sensitive cannot stand where it does, or where one is missed.
pub fn explanation(object: &Json, exposed: &FieldError) -> String {
    if meta::kind(object) == QUERY {
        return format!("{}; a query has no Secret to take it from", exposed.problem);
    }
    let named = object.pointer("/spec/secretRef/name").and_then(Json::as_str).unwrap_or_default();
    let secret = match named {
        "" => "a Secret that spec.secretRef names".to_owned(),
        name => format!("the Secret {name}"),
    };
    format!("{}; it belongs into {secret}, as JSON under the key \"resource\"", exposed.problem)
}
