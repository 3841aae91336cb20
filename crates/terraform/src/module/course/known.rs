//! What is known of each instance of each module while a course is found.

use std::collections::BTreeMap;

use hcl_edit::Span as _;

use super::MOST;
use super::calling::Functions;
use crate::module::address::Which;
use crate::module::config::Repetition;
use crate::module::expression::{Names, Scope};
use crate::module::problem::Problem;
use crate::module::term::{Entries, Term};
use crate::module::types;
use crate::value::Number;

type Values = BTreeMap<String, Result<Term, Problem>>;

/// One instance of a module. A value that is pending is known to be so.
#[derive(Default)]
pub(super) struct Instance<'a> {
    pub variables: Values,
    pub locals: Values,
    /// By address in the module.
    pub resources: Values,
    pub calls: BTreeMap<String, Called>,
    /// What is ephemeral has values.
    pub open: bool,
    /// Of providers.
    pub functions: Option<Functions<'a>>,
}

/// A called module, seen from the caller.
pub(super) struct Called {
    pub form: Form,
    pub keys: Result<Vec<Which>, Problem>,
    /// By name, one for each key.
    pub outputs: BTreeMap<String, Vec<Result<Term, Problem>>>,
}

fn find(values: &Values, name: &str, what: &str) -> Result<Term, Problem> {
    let missing = || Err(Problem::new(format!("there is no {what} {name:?}")));
    values.get(name).cloned().unwrap_or_else(missing)
}

impl Names for Instance<'_> {
    fn variable(&self, name: &str) -> Result<Term, Problem> {
        find(&self.variables, name, "variable")
    }

    fn local(&self, name: &str) -> Result<Term, Problem> {
        find(&self.locals, name, "local")
    }

    fn resource(&self, address: &str) -> Result<Term, Problem> {
        find(&self.resources, address, "resource")
    }

    fn call(&self, name: &str, only: Option<&str>) -> Result<Term, Problem> {
        let called = self.calls.get(name);
        let called = called.ok_or_else(|| Problem::new(format!("there is no module {name:?}")))?;
        let mut values = Vec::new();
        for (at, which) in called.keys.clone()?.into_iter().enumerate() {
            let mut entries = Entries::new();
            for (output, terms) in &called.outputs {
                if only.is_none_or(|only| only == output)
                    && let Some(term) = terms.get(at)
                {
                    entries.insert(output.clone(), term.clone()?);
                }
            }
            values.push((which, Term::Object(entries)));
        }
        Ok(called.form.together(values))
    }

    fn is_open(&self) -> bool {
        self.open
    }

    fn function(&self, provider: &str, name: &str, arguments: Vec<Term>) -> Result<Term, Problem> {
        let missing = || Problem::new(format!("there is no function {name:?}"));
        self.functions.ok_or_else(missing)?.call(provider, name, arguments)
    }
}

/// In which form several instances are known to the rest of a module.
#[derive(Clone, Copy)]
pub(super) enum Form {
    One,
    List,
    Map,
}

impl Form {
    pub fn of(repetition: &Repetition) -> Form {
        match repetition {
            Repetition::One => Form::One,
            Repetition::Count(_) => Form::List,
            Repetition::ForEach(_) => Form::Map,
        }
    }

    pub fn together(self, values: Vec<(Which, Term)>) -> Term {
        let mut values = values.into_iter();
        match self {
            Form::One => values.next().map_or(Term::Null, |(_, term)| term),
            Form::List => Term::Tuple(values.map(|(_, term)| term).collect()),
            Form::Map => {
                let keyed = values.filter_map(|(which, term)| match which {
                    Which::Key(key) => Some((key, term)),
                    _ => None,
                });
                Term::Object(keyed.collect())
            }
        }
    }
}

pub(super) type Bound = Vec<(String, Term)>;

/// Which instances there should be, and what is bound in each.
pub(super) fn keys(scope: &Scope<'_>, repetition: &Repetition) -> Result<Vec<(Which, Bound)>, Problem> {
    let open = |expression| match scope.evaluate_part(expression)? {
        term @ (Term::Secret(_) | Term::Ephemeral) => {
            let message = format!("this must not be {}", term.kind());
            Err(Problem::at(scope.file, expression.span(), message))
        }
        term => Ok(term),
    };
    match repetition {
        Repetition::One => Ok(vec![(Which::Only, Vec::new())]),
        Repetition::Count(expression) => {
            let count = types::number(&open(expression)?).ok().and_then(|number| number.as_u64());
            let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= MOST);
            let Some(count) = count else {
                let message = format!("count is a whole number from 0 to {MOST}");
                return Err(Problem::at(scope.file, expression.span(), message));
            };
            let bound = |at: usize| {
                let index = Term::Number(Number::from(at as u64));
                vec![("count".to_owned(), Term::Object(Entries::from([("index".to_owned(), index)])))]
            };
            Ok((0..count).map(|at| (Which::Number(at), bound(at))).collect())
        }
        Repetition::ForEach(expression) => {
            let wrong = |message: &str| Err(Problem::at(scope.file, expression.span(), message));
            let pairs: Vec<(String, Term)> = match open(expression)? {
                Term::Object(entries) | Term::Map(entries) => entries.into_iter().collect(),
                Term::Set(elements) => {
                    let mut pairs = Vec::new();
                    for element in elements {
                        let Term::String(text) = &element else {
                            return wrong("for_each takes a set of strings");
                        };
                        pairs.push((text.clone(), element));
                    }
                    pairs
                }
                _ => return wrong("for_each takes a map, or a set of strings"),
            };
            if pairs.len() > MOST {
                return wrong("for_each has too many elements");
            }
            let bound = |key: &str, value: Term| {
                let each = Entries::from([("key".to_owned(), Term::text(key)), ("value".to_owned(), value)]);
                vec![("each".to_owned(), Term::Object(each))]
            };
            let instances = pairs.into_iter().map(|(key, value)| {
                let bound = bound(&key, value);
                (Which::Key(key), bound)
            });
            Ok(instances.collect())
        }
    }
}
