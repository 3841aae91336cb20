//! Functions of providers, as the expressions of a module call them. What one made of the same arguments is known, or is
//! to be found out before more can be said.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::Situation;
use crate::module::problem::Problem;
use crate::module::term::Term;
use crate::module::tree::plain;
use crate::module::types::{Constraint, convert};
use crate::plugin::Function;
use crate::value::Value;

/// A call that a provider is to be asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Calling {
    /// As the root knows the provider, without an alias.
    pub provider: String,
    pub name: String,
    /// Of the types that it takes.
    pub arguments: Vec<Value>,
}

/// What calls came to, or why to nothing.
pub type Returned = BTreeMap<Calling, Result<Term, String>>;

/// What the expressions of one module can call.
#[derive(Clone, Copy)]
pub(super) struct Functions<'a> {
    pub situation: &'a Situation<'a>,
    /// To the module.
    pub path: &'a [String],
    /// Those that are not known yet.
    pub calls: &'a RefCell<BTreeSet<Calling>>,
}

impl Functions<'_> {
    pub fn call(&self, provider: &str, name: &str, arguments: Vec<Term>) -> Result<Term, Problem> {
        let Situation { tree, schemas, returned, .. } = self.situation;
        let whole = format!("provider::{provider}::{name}");
        let provider = tree.root_provider(self.path, provider).unwrap_or_default();
        let function = schemas.function(&provider, name)?;
        if arguments.iter().any(Term::has_ephemeral) {
            return Err(Problem::Ephemeral);
        }
        let secret = arguments.iter().any(Term::has_secret);
        let arguments = fitted(&function, arguments).map_err(|problem| match problem {
            Problem::Wrong { place, message } => {
                Problem::Wrong { place, message: format!("{whole}: {message}") }
            }
            passing => passing,
        })?;
        let calling = Calling { provider: plain(&provider).to_owned(), name: name.to_owned(), arguments };
        match returned.get(&calling) {
            Some(Ok(term)) => Ok(term.clone().secret_if(secret)),
            // It may say what it was given.
            Some(Err(_)) if secret => {
                Err(Problem::new(format!("{whole} fails, of something sensitive that it is given")))
            }
            Some(Err(why)) => Err(Problem::new(format!("{whole}: {why}"))),
            None => {
                self.calls.borrow_mut().insert(calling);
                Err(Problem::Pending(format!("{whole} is not called yet")))
            }
        }
    }
}

/// Arguments of the types that a function takes.
fn fitted(function: &Function, arguments: Vec<Term>) -> Result<Vec<Value>, Problem> {
    let (given, wanted) = (arguments.len(), function.parameters.len());
    if given < wanted {
        return Err(Problem::new(format!("it takes {wanted} arguments, and not {given}")));
    }
    let mut fitted = Vec::with_capacity(given);
    for (at, term) in arguments.into_iter().enumerate() {
        let Some(parameter) = function.parameter(at) else {
            return Err(Problem::new(format!("it takes {wanted} arguments, and not {given}")));
        };
        let wrong = |why: &str| Problem::new(format!("the argument {:?}: {why}", parameter.name));
        let term = convert(term.revealed(), &Constraint::of_type(&parameter.ty));
        let term = term.map_err(|problem| wrong(&problem.to_string()))?;
        if term == Term::Null && !parameter.takes_null {
            return Err(wrong("it must not be null"));
        }
        fitted.push(term.to_value(&parameter.ty));
    }
    Ok(fitted)
}
