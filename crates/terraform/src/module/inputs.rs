//! What a module is given: values of its variables, from the object and from its Secret.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::config::{Check, Module, Variable};
use super::expression::{Budget, Names, Scope};
use super::problem::Problem;
use super::term::Term;
use super::types::{self, convert};
use crate::names::FieldNames;

pub type Inputs = BTreeMap<String, Term>;

/// The values of all variables. Fields have Kubeform's names or the variables' own; what the Secret says is secret.
pub fn inputs(
    module: &Module,
    shown: &Json,
    secret: Option<&Json>,
    budget: &Budget,
) -> Result<Inputs, Problem> {
    let mut given = BTreeMap::new();
    let names = FieldNames::new(module.variables.keys(), true);
    let sources = [(Some(shown), "spec.resource.input"), (secret, "the Secret of spec.secretRef")];
    for (source, place) in sources {
        for (field, json) in source.and_then(Json::as_object).into_iter().flatten() {
            let known = module.variables.contains_key(field).then_some(field.as_str());
            let Some(name) = known.or_else(|| names.member(field)) else {
                return Err(Problem::new(format!("{place}: the module has no variable for {field:?}")));
            };
            let from_secret = place != "spec.resource.input";
            if module.variables[name].sensitive && !from_secret {
                let message =
                    format!("{place}: {field:?} is sensitive; give it in the Secret of spec.secretRef");
                return Err(Problem::new(message));
            }
            given.insert(name.to_owned(), Term::from_json(json).secret_if(from_secret));
        }
    }
    let mut inputs = Inputs::new();
    for (name, variable) in &module.variables {
        let term = chosen(name, variable, given.remove(name))?;
        inputs.insert(name.clone(), term.secret_if(variable.sensitive));
    }
    for variable in module.variables.values() {
        for check in &variable.checks {
            holds(check, &Scope::new(&check.file, &Only(&inputs), budget))?;
        }
    }
    Ok(inputs)
}

/// What a variable is, of what is given for it.
pub fn chosen(name: &str, variable: &Variable, given: Option<Term>) -> Result<Term, Problem> {
    let given = given.filter(|term| variable.nullable || *term != Term::Null);
    match (given, &variable.default) {
        (Some(term), _) => convert(term, &variable.constraint).map_err(|problem| match problem {
            Problem::Wrong { message, .. } => {
                Problem::new(format!("the variable {name:?} ({}): {message}", variable.place))
            }
            passing => passing,
        }),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => Err(Problem::new(format!("the variable {name:?} ({}) is required", variable.place))),
    }
}

/// Whether a condition of the module holds; its own message if not, unless that would tell a secret.
pub fn holds(check: &Check, scope: &Scope<'_>) -> Result<(), Problem> {
    use hcl_edit::Span as _;
    let condition = match scope.evaluate(&check.condition) {
        // It is looked at when that is open.
        Err(Problem::Ephemeral) => return Ok(()),
        found => found?.opened().0,
    };
    if types::boolean(&condition).map_err(|problem| problem.within(&check.file, check.condition.span()))? {
        return Ok(());
    }
    let (message, secret) = match scope.evaluate(&check.message) {
        Err(Problem::Ephemeral) => (Term::Null, true),
        found => found?.opened(),
    };
    let message = match types::string(&message) {
        Ok(message) if !secret => message,
        _ => "a condition of the module does not hold".to_owned(),
    };
    Err(Problem::at(&check.file, check.condition.span(), message))
}

struct Only<'a>(&'a Inputs);

impl Names for Only<'_> {
    fn variable(&self, name: &str) -> Result<Term, Problem> {
        self.0.get(name).cloned().ok_or_else(|| Problem::new(format!("there is no variable {name:?}")))
    }

    fn local(&self, _: &str) -> Result<Term, Problem> {
        Err(Problem::new("only variables are known here"))
    }

    fn resource(&self, address: &str) -> Result<Term, Problem> {
        self.local(address)
    }

    fn call(&self, name: &str, _: Option<&str>) -> Result<Term, Problem> {
        self.local(name)
    }
}
