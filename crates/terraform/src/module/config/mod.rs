//! What the files of a module declare. What cannot be done here is refused, with its place, before anything is.

mod call;
mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Attribute, Block, Body, Structure};

pub use call::{Call, Provider};
pub use resource::{Before, Ignored, Repetition, Resource, Sort};

use super::expression::{Budget, Nothing, Scope};
use super::moving::Move;
use super::problem::{File, Problem};
use super::term::Term;
use super::types::{self, Constraint};

/// Blocks of a module that are not done.
const REFUSED: [(&str, &str); 4] = [
    ("import", "import blocks are not supported"),
    ("removed", "removed blocks are not supported"),
    ("check", "check blocks are not supported"),
    ("action", "actions are not supported"),
];

#[derive(Debug, Default)]
pub struct Module {
    pub variables: BTreeMap<String, Variable>,
    pub locals: BTreeMap<String, Local>,
    /// By `type.name`; what is only read by `data.type.name`, what is only opened by `ephemeral.type.name`.
    pub resources: BTreeMap<String, Resource>,
    pub outputs: BTreeMap<String, Output>,
    pub calls: BTreeMap<String, Call>,
    /// By `name` or `name.alias`.
    pub providers: BTreeMap<String, Provider>,
    pub moves: Vec<Move>,
}

#[derive(Debug)]
pub struct Variable {
    pub constraint: Constraint,
    /// Null if it is, none if it has to be given.
    pub default: Option<Term>,
    pub sensitive: bool,
    /// Kept nowhere.
    pub ephemeral: bool,
    pub nullable: bool,
    pub checks: Vec<Check>,
    pub place: String,
}

/// A condition, and what is said if it does not hold.
#[derive(Debug)]
pub struct Check {
    pub file: Arc<File>,
    pub condition: Expression,
    pub message: Expression,
}

#[derive(Debug)]
pub struct Local {
    pub file: Arc<File>,
    pub value: Expression,
}

#[derive(Debug)]
pub struct Output {
    pub file: Arc<File>,
    pub value: Expression,
    pub sensitive: bool,
    /// Told to the caller, and kept nowhere.
    pub ephemeral: bool,
    pub preconditions: Vec<Check>,
}

impl Module {
    pub fn parse(files: &[Arc<File>]) -> Result<Module, Problem> {
        let mut module = Module::default();
        for file in files {
            let body = hcl_edit::parser::parse_body(&file.text).map_err(|error| {
                let place = Some(format!("{}:{}", file.name, error.location().line()));
                let message = format!("this cannot be read: {}", error.message());
                Problem::Wrong { place, message }
            })?;
            module.read(file, &body)?;
        }
        Ok(module)
    }

    fn read(&mut self, file: &Arc<File>, body: &Body) -> Result<(), Problem> {
        for structure in body.iter() {
            let block = match structure {
                Structure::Block(block) => block,
                Structure::Attribute(attribute) => {
                    return Err(Problem::at(file, attribute.span(), "an argument does not stand here"));
                }
            };
            let kind = block.ident.as_str();
            let labels: Vec<&str> = block.labels.iter().map(|label| label.as_str()).collect();
            let twice = || Err(Problem::at(file, block.span(), format!("this {kind} is declared twice")));
            match (kind, labels.as_slice()) {
                ("variable", [name]) => {
                    let variable = variable(file, block)?;
                    if self.variables.insert((*name).to_owned(), variable).is_some() {
                        return twice();
                    }
                }
                ("locals", []) => {
                    for attribute in attributes(file, &block.body)? {
                        let local = Local { file: file.clone(), value: attribute.value.clone() };
                        if self.locals.insert(attribute.key.as_str().to_owned(), local).is_some() {
                            return Err(Problem::at(file, attribute.span(), "this local is declared twice"));
                        }
                    }
                }
                ("output", [name]) => {
                    if self.outputs.insert((*name).to_owned(), output(file, block)?).is_some() {
                        return twice();
                    }
                }
                ("resource" | "data" | "ephemeral", [type_name, name]) => {
                    let sort = match kind {
                        "data" => Sort::Data,
                        "ephemeral" => Sort::Ephemeral,
                        _ => Sort::Managed,
                    };
                    let resource = resource::resource(file, block, sort, type_name)?;
                    let address = format!("{}{type_name}.{name}", sort.prefix());
                    if self.resources.insert(address, resource).is_some() {
                        return twice();
                    }
                }
                ("module", [name]) => {
                    if self.calls.insert((*name).to_owned(), call::call(file, block)?).is_some() {
                        return twice();
                    }
                }
                ("provider", [name]) => {
                    let (key, provider) = call::provider(file, block, name)?;
                    if self.providers.insert(key, provider).is_some() {
                        return twice();
                    }
                }
                ("moved", []) => self.moves.push(Move::read(file, block)?),
                ("terraform", []) => terraform(file, &block.body)?,
                _ => {
                    let known = REFUSED.iter().find(|(refused, _)| *refused == kind);
                    let message = known.map_or("this block is not known here", |(_, message)| message);
                    return Err(Problem::at(file, block.span(), message));
                }
            }
        }
        Ok(())
    }
}

fn attributes<'a>(file: &File, body: &'a Body) -> Result<Vec<&'a Attribute>, Problem> {
    body.iter()
        .map(|structure| match structure {
            Structure::Attribute(attribute) => Ok(attribute),
            Structure::Block(block) => Err(Problem::at(file, block.span(), "a block does not stand here")),
        })
        .collect()
}

/// A value that refers to nothing.
fn constant(file: &File, expression: &Expression) -> Result<Term, Problem> {
    Scope::new(file, &Nothing, &Budget::default()).evaluate(expression)
}

fn flag(file: &File, expression: &Expression) -> Result<bool, Problem> {
    let term = constant(file, expression)?;
    types::boolean(&term).map_err(|problem| problem.within(file, expression.span()))
}

/// Settings of Terraform itself: which versions and providers are meant is said elsewhere.
fn terraform(file: &File, body: &Body) -> Result<(), Problem> {
    for structure in body.iter() {
        match structure {
            Structure::Attribute(attribute) if attribute.key.as_str() == "required_version" => {}
            Structure::Block(block) if block.ident.as_str() == "required_providers" => {}
            Structure::Block(block) if matches!(block.ident.as_str(), "backend" | "cloud") => {
                let message =
                    "backends are not supported; the state of each resource is kept beside its object";
                return Err(Problem::at(file, block.span(), message));
            }
            other => return Err(Problem::at(file, other.span(), "this setting is not supported")),
        }
    }
    Ok(())
}

fn variable(file: &Arc<File>, block: &Block) -> Result<Variable, Problem> {
    let mut variable = Variable {
        constraint: Constraint::Any,
        default: None,
        sensitive: false,
        ephemeral: false,
        nullable: true,
        checks: Vec::new(),
        place: file.place(block.span()),
    };
    for structure in block.body.iter() {
        match structure {
            Structure::Attribute(attribute) => match attribute.key.as_str() {
                "type" => {
                    let constant = |expression: &Expression| constant(file, expression);
                    variable.constraint = Constraint::parse(&attribute.value, file, &constant)?;
                }
                "default" => variable.default = Some(constant(file, &attribute.value)?),
                "sensitive" => variable.sensitive = flag(file, &attribute.value)?,
                "ephemeral" => variable.ephemeral = flag(file, &attribute.value)?,
                "nullable" => variable.nullable = flag(file, &attribute.value)?,
                "description" => {}
                _ => return Err(Problem::at(file, attribute.span(), "a variable has no such argument")),
            },
            Structure::Block(block) if block.ident.as_str() == "validation" => {
                variable.checks.push(check(file, block)?);
            }
            Structure::Block(block) => {
                return Err(Problem::at(file, block.span(), "a variable has no such block"));
            }
        }
    }
    if let Some(default) = variable.default.take() {
        let default = types::convert(default, &variable.constraint);
        variable.default = Some(default.map_err(|problem| problem.within(file, block.span()))?);
    }
    Ok(variable)
}

fn check(file: &Arc<File>, block: &Block) -> Result<Check, Problem> {
    let given = |name: &str| block.body.get_attribute(name).map(|attribute| attribute.value.clone());
    match (given("condition"), given("error_message")) {
        (Some(condition), Some(message)) => Ok(Check { file: file.clone(), condition, message }),
        _ => Err(Problem::at(file, block.span(), "condition and error_message are required")),
    }
}

fn output(file: &Arc<File>, block: &Block) -> Result<Output, Problem> {
    let (mut value, mut sensitive, mut ephemeral, mut preconditions) = (None, false, false, Vec::new());
    for structure in block.body.iter() {
        match structure {
            Structure::Attribute(attribute) => match attribute.key.as_str() {
                "value" => value = Some(attribute.value.clone()),
                "sensitive" => sensitive = flag(file, &attribute.value)?,
                "ephemeral" => ephemeral = flag(file, &attribute.value)?,
                // Outputs are told when everything is as it should be, whatever they depend on.
                "description" | "depends_on" => {}
                _ => return Err(Problem::at(file, attribute.span(), "an output has no such argument")),
            },
            Structure::Block(block) if block.ident.as_str() == "precondition" => {
                preconditions.push(check(file, block)?);
            }
            Structure::Block(block) => {
                return Err(Problem::at(file, block.span(), "an output has no such block"));
            }
        }
    }
    let value = value.ok_or_else(|| Problem::at(file, block.span(), "an output has a value"))?;
    Ok(Output { file: file.clone(), value, sensitive, ephemeral, preconditions })
}
