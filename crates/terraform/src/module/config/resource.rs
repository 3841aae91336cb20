//! Resources and data sources: their provider's arguments, and what is said about them beside those.

use std::sync::Arc;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, TraversalOperator};
use hcl_edit::structure::{Block, Body, Structure};

use super::super::problem::{File, Problem};
use super::super::references::{self, Name};
use super::{Check, check, flag};

/// Arguments that are not the provider's.
const META: [&str; 4] = ["count", "for_each", "depends_on", "provider"];

#[derive(Debug)]
pub enum Repetition {
    One,
    Count(Expression),
    ForEach(Expression),
}

impl Repetition {
    pub fn of(file: &File, body: &Body) -> Result<Repetition, Problem> {
        match (argument(body, "count"), argument(body, "for_each")) {
            (None, None) => Ok(Repetition::One),
            (Some(count), None) => Ok(Repetition::Count(count)),
            (None, Some(each)) => Ok(Repetition::ForEach(each)),
            (Some(count), Some(_)) => {
                Err(Problem::at(file, count.span(), "count and for_each exclude each other"))
            }
        }
    }

    /// What says how many there are, and what is known in each of them.
    pub fn parts(&self) -> (Option<&Expression>, &'static [&'static str]) {
        match self {
            Repetition::One => (None, &[]),
            Repetition::Count(expression) => (Some(expression), &["count"]),
            Repetition::ForEach(expression) => (Some(expression), &["each"]),
        }
    }
}

/// What is done with a resource that is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Made, and kept as it is declared.
    Managed,
    /// Only read.
    Data,
    /// Opened while it is needed, and closed again.
    Ephemeral,
}

impl Sort {
    /// What its addresses begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Sort::Managed => "",
            Sort::Data => "data.",
            Sort::Ephemeral => "ephemeral.",
        }
    }

    /// In the words of errors.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Managed => "type",
            Sort::Data => "data source",
            Sort::Ephemeral => "ephemeral resource",
        }
    }
}

/// What has to be there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// By its address in the same module.
    Resource(String),
    /// Everything in a called module.
    Call(String),
}

/// The attributes whose changes are not made: paths of names, keys and indexes. The empty path is all of them.
pub type Ignored = Vec<Vec<String>>;

#[derive(Debug)]
pub struct Resource {
    pub file: Arc<File>,
    pub place: String,
    pub type_name: String,
    pub sort: Sort,
    /// As the module knows the provider: `aws`, or `aws.west`.
    pub provider: String,
    /// The provider's arguments and blocks only.
    pub body: Body,
    pub repetition: Repetition,
    pub depends_on: Vec<Before>,
    pub create_before_destroy: bool,
    pub prevent_destroy: bool,
    pub ignored: Ignored,
    pub preconditions: Vec<Check>,
    pub postconditions: Vec<Check>,
}

pub(super) fn argument(body: &Body, name: &str) -> Option<Expression> {
    body.get_attribute(name).map(|attribute| attribute.value.clone())
}

pub(super) fn resource(
    file: &Arc<File>,
    block: &Block,
    sort: Sort,
    type_name: &str,
) -> Result<Resource, Problem> {
    let body = &block.body;
    let provider = match argument(body, "provider") {
        None => type_name.split('_').next().unwrap_or_default().to_owned(),
        Some(given) => provider_name(&given)
            .ok_or_else(|| Problem::at(file, given.span(), "provider is a name, such as aws or aws.west"))?,
    };
    for refused in ["provisioner", "connection"] {
        if let Some(block) = body.get_blocks(refused).next() {
            return Err(Problem::at(file, block.span(), "provisioners are not supported"));
        }
    }
    let mut resource = Resource {
        file: file.clone(),
        place: file.place(block.span()),
        type_name: type_name.to_owned(),
        sort,
        provider,
        body: without_meta(body),
        repetition: Repetition::of(file, body)?,
        depends_on: depends_on(file, body)?,
        create_before_destroy: false,
        prevent_destroy: false,
        ignored: Ignored::new(),
        preconditions: Vec::new(),
        postconditions: Vec::new(),
    };
    for block in body.get_blocks("lifecycle") {
        lifecycle(file, &block.body, &mut resource)?;
    }
    Ok(resource)
}

fn without_meta(body: &Body) -> Body {
    let own = |structure: &&Structure| match structure {
        Structure::Attribute(attribute) => !META.contains(&attribute.key.as_str()),
        Structure::Block(block) => block.ident.as_str() != "lifecycle",
    };
    Body::from_iter(body.iter().filter(own).cloned())
}

/// `aws`, `aws.west`, or either as old modules wrote it, in quotes.
pub(super) fn provider_name(expression: &Expression) -> Option<String> {
    match expression {
        Expression::Variable(name) => Some(name.as_str().to_owned()),
        Expression::String(text) => Some(text.as_str().to_owned()),
        Expression::Traversal(traversal) => {
            let name = traversal.expr.as_variable()?;
            match traversal.operators.as_slice() {
                [only] => match only.value() {
                    TraversalOperator::GetAttr(alias) => {
                        Some(format!("{}.{}", name.as_str(), alias.as_str()))
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

pub(super) fn depends_on(file: &File, body: &Body) -> Result<Vec<Before>, Problem> {
    let Some(list) = argument(body, "depends_on") else { return Ok(Vec::new()) };
    let wrong = || Problem::at(file, list.span(), "depends_on is a list of resources and modules");
    let one = |expression: &Expression| match references::of_expression(expression)
        .into_iter()
        .next()
        .map(|reference| reference.name)
    {
        Some(Name::Resource(address)) => Ok(Before::Resource(address)),
        Some(Name::Call(call, _)) => Ok(Before::Call(call)),
        _ => Err(wrong()),
    };
    list.as_array().ok_or_else(wrong)?.iter().map(one).collect()
}

fn lifecycle(file: &Arc<File>, body: &Body, resource: &mut Resource) -> Result<(), Problem> {
    for structure in body.iter() {
        match structure {
            Structure::Attribute(attribute) => match attribute.key.as_str() {
                "create_before_destroy" => resource.create_before_destroy = flag(file, &attribute.value)?,
                "prevent_destroy" => resource.prevent_destroy = flag(file, &attribute.value)?,
                "ignore_changes" => resource.ignored = ignored(file, &attribute.value)?,
                other => {
                    let message = format!("{other} is not supported");
                    return Err(Problem::at(file, attribute.span(), message));
                }
            },
            Structure::Block(block) => match block.ident.as_str() {
                "precondition" => resource.preconditions.push(check(file, block)?),
                "postcondition" => resource.postconditions.push(check(file, block)?),
                other => {
                    return Err(Problem::at(file, block.span(), format!("{other} is not supported")));
                }
            },
        }
    }
    Ok(())
}

fn ignored(file: &File, expression: &Expression) -> Result<Ignored, Problem> {
    let wrong = |at: &Expression| {
        Problem::at(file, at.span(), "ignore_changes is a list of attributes, or the word all")
    };
    if expression.as_variable().is_some_and(|name| name.as_str() == "all") {
        return Ok(vec![Vec::new()]);
    }
    let list = expression.as_array().ok_or_else(|| wrong(expression))?;
    list.iter().map(|one| attribute_path(one).ok_or_else(|| wrong(one))).collect()
}

/// `tags["a"]` and such, step by step.
fn attribute_path(expression: &Expression) -> Option<Vec<String>> {
    let traversal = match expression {
        Expression::Variable(name) => return Some(vec![name.as_str().to_owned()]),
        Expression::Traversal(traversal) => traversal,
        _ => return None,
    };
    let mut path = vec![traversal.expr.as_variable()?.as_str().to_owned()];
    for operator in &traversal.operators {
        path.push(match operator.value() {
            TraversalOperator::GetAttr(name) => name.as_str().to_owned(),
            TraversalOperator::LegacyIndex(index) => index.value().to_string(),
            TraversalOperator::Index(Expression::String(key)) => key.as_str().to_owned(),
            TraversalOperator::Index(Expression::Number(index)) => index.value().to_string(),
            _ => return None,
        });
    }
    Some(path)
}
