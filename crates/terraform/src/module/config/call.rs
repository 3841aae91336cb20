//! Calls of other modules, and configurations of providers.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, ObjectKey};
use hcl_edit::structure::{Block, Body, Structure};

use super::super::problem::{File, Problem};
use super::resource::{Before, Repetition, argument, depends_on, provider_name};
use super::{attributes, constant};

/// Arguments of a call that are not the called module's variables.
const META: [&str; 6] = ["source", "version", "count", "for_each", "providers", "depends_on"];

#[derive(Debug)]
pub struct Call {
    pub file: Arc<File>,
    pub place: String,
    pub source: String,
    pub version: Option<String>,
    /// Values of the called module's variables.
    pub arguments: BTreeMap<String, Expression>,
    pub repetition: Repetition,
    pub depends_on: Vec<Before>,
    /// What the called module knows a provider by, and what the caller does.
    pub providers: BTreeMap<String, String>,
}

/// A configuration of a provider.
#[derive(Debug)]
pub struct Provider {
    pub file: Arc<File>,
    pub place: String,
    pub body: Body,
}

pub(super) fn call(file: &Arc<File>, block: &Block) -> Result<Call, Problem> {
    let text = |name: &str| match argument(&block.body, name) {
        None => Ok(None),
        Some(expression) => match constant(file, &expression)?.to_json().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(Problem::at(file, expression.span(), format!("{name} is a text"))),
        },
    };
    let source = text("source")?;
    let mut arguments = BTreeMap::new();
    for attribute in attributes(file, &block.body)? {
        let name = attribute.key.as_str();
        if !META.contains(&name) {
            arguments.insert(name.to_owned(), attribute.value.clone());
        }
    }
    Ok(Call {
        file: file.clone(),
        place: file.place(block.span()),
        source: source.ok_or_else(|| Problem::at(file, block.span(), "a call of a module has a source"))?,
        version: text("version")?,
        arguments,
        repetition: Repetition::of(file, &block.body)?,
        depends_on: depends_on(file, &block.body)?,
        providers: providers(file, &block.body)?,
    })
}

fn providers(file: &File, body: &Body) -> Result<BTreeMap<String, String>, Problem> {
    let Some(given) = argument(body, "providers") else { return Ok(BTreeMap::new()) };
    let wrong =
        || Problem::at(file, given.span(), "providers is a map from names of providers to such names");
    let Expression::Object(object) = &given else { return Err(wrong()) };
    let mut found = BTreeMap::new();
    for (key, value) in object.iter() {
        let key = match key {
            ObjectKey::Ident(name) => Some(name.as_str().to_owned()),
            ObjectKey::Expression(expression) => provider_name(expression),
        };
        let (Some(key), Some(value)) = (key, provider_name(value.expr())) else { return Err(wrong()) };
        found.insert(key, value);
    }
    Ok(found)
}

/// A configuration, and the name that it is known by: `aws`, or `aws.west` with an alias.
pub(super) fn provider(file: &Arc<File>, block: &Block, name: &str) -> Result<(String, Provider), Problem> {
    let mut key = name.to_owned();
    if let Some(alias) = argument(&block.body, "alias") {
        match constant(file, &alias)?.to_json().as_str() {
            Some(alias) => key = format!("{name}.{alias}"),
            None => return Err(Problem::at(file, alias.span(), "an alias is a text")),
        }
    }
    let own = |structure: &&Structure| match structure {
        Structure::Attribute(attribute) => !["alias", "version"].contains(&attribute.key.as_str()),
        Structure::Block(_) => true,
    };
    let body = Body::from_iter(block.body.iter().filter(own).cloned());
    Ok((key, Provider { file: file.clone(), place: file.place(block.span()), body }))
}
