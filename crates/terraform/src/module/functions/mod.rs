//! The functions that expressions may call: those of Terraform's that need nothing but their arguments.
//!
//! Most functions see no marks: a result of something secret is secret. Those that only move elements around leave each
//! its own, so that the length of a list is no secret because something in it is.

mod collections;
mod encodings;
mod networks;
mod numbers;
mod texts;

use super::problem::Problem;
use super::term::Term;
use super::types::{self, Constraint};
use crate::value::Number;

pub(super) type Made = Result<Term, Problem>;
type Function = fn(Arguments) -> Made;

/// The longest text or list that a function makes of shorter ones.
const LARGEST: usize = 1_000_000;

/// A name, how few and how many arguments it takes, and what it does.
pub(super) type Row = (&'static str, usize, usize, Function);

/// Any number of arguments.
pub(super) const ANY: usize = usize::MAX;

/// Those of `try` and `can` are evaluated by the expression itself.
const LAZY: [&str; 2] = ["try", "can"];

/// Those that do not look into elements.
const MOVING: [&str; 18] = [
    "chunklist",
    "coalesce",
    "coalescelist",
    "compact",
    "concat",
    "element",
    "flatten",
    "keys",
    "length",
    "lookup",
    "merge",
    "one",
    "reverse",
    "slice",
    "tolist",
    "tomap",
    "values",
    "zipmap",
];

const TABLES: [&[Row]; 6] =
    [CONVERSIONS, collections::TABLE, encodings::TABLE, networks::TABLE, numbers::TABLE, texts::TABLE];

const CONVERSIONS: &[Row] = &[
    ("tostring", 1, 1, |arguments| arguments.converted(&Constraint::String)),
    ("tonumber", 1, 1, |arguments| arguments.converted(&Constraint::Number)),
    ("tobool", 1, 1, |arguments| arguments.converted(&Constraint::Bool)),
    ("tolist", 1, 1, |arguments| arguments.converted(&Constraint::List(Box::new(Constraint::Any)))),
    ("toset", 1, 1, |arguments| arguments.converted(&Constraint::Set(Box::new(Constraint::Any)))),
    ("tomap", 1, 1, |arguments| arguments.converted(&Constraint::Map(Box::new(Constraint::Any)))),
];

fn find(name: &str) -> Option<&'static Row> {
    TABLES.iter().flat_map(|table| table.iter()).find(|row| row.0 == name)
}

pub fn exists(name: &str) -> bool {
    LAZY.contains(&name) || ["sensitive", "nonsensitive"].contains(&name) || find(name).is_some()
}

pub fn call(name: &str, arguments: Vec<Term>) -> Made {
    let moving = MOVING.contains(&name);
    let is_secret = |term: &Term| if moving { matches!(term, Term::Secret(_)) } else { term.has_secret() };
    let secret = arguments.iter().any(is_secret);
    let seen = |term: Term| if moving { term.opened().0 } else { term.revealed() };
    let mut arguments: Vec<Term> = arguments.into_iter().map(seen).collect();
    // The two that are about the mark itself.
    match (name, arguments.len()) {
        ("sensitive", 1) => return Ok(arguments.remove(0).secret()),
        ("nonsensitive", 1) => return Ok(arguments.remove(0)),
        _ => {}
    }
    let Some((_, fewest, most, function)) = find(name) else {
        return Err(Problem::new(format!("there is no function {name:?}")));
    };
    if !(*fewest..=*most).contains(&arguments.len()) {
        return Err(Problem::new(format!("{name} does not take {} arguments", arguments.len())));
    }
    function(Arguments(arguments)).map(|term| term.secret_if(secret)).map_err(|problem| match problem {
        Problem::Wrong { place, message } => Problem::Wrong { place, message: format!("{name}: {message}") },
        pending @ Problem::Pending(_) => pending,
    })
}

pub(super) fn wrong<T>(message: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(message))
}

pub(super) fn bounded(size: usize) -> Result<(), Problem> {
    if size > LARGEST { wrong("the result would be too large") } else { Ok(()) }
}

/// The arguments of a call, without marks of their own; as many as the table says.
pub(super) struct Arguments(pub Vec<Term>);

impl Arguments {
    fn converted(mut self, constraint: &Constraint) -> Made {
        types::convert(self.take(0), constraint)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// One of them, which is null from then on.
    pub fn take(&mut self, at: usize) -> Term {
        self.0.get_mut(at).map_or(Term::Null, |term| std::mem::replace(term, Term::Null))
    }

    pub fn text(&self, at: usize) -> Result<String, Problem> {
        types::string(self.0.get(at).unwrap_or(&Term::Null))
    }

    pub fn number(&self, at: usize) -> Result<Number, Problem> {
        types::number(self.0.get(at).unwrap_or(&Term::Null))
    }

    pub fn whole(&self, at: usize) -> Result<i64, Problem> {
        match self.number(at)?.as_i64() {
            Some(whole) => Ok(whole),
            None => wrong("a whole number is required"),
        }
    }

    /// A whole number that counts something.
    pub fn count(&self, at: usize) -> Result<usize, Problem> {
        match usize::try_from(self.whole(at)?) {
            Ok(count) => Ok(count),
            Err(_) => wrong("a number that is not negative is required"),
        }
    }

    /// The elements of a list or a set.
    pub fn list(&mut self, at: usize) -> Result<Vec<Term>, Problem> {
        match self.take(at) {
            Term::List(elements) | Term::Set(elements) => Ok(elements),
            other => wrong(format!("a list is required, and this is {}", other.kind())),
        }
    }

    pub fn map(&mut self, at: usize) -> Result<super::term::Entries, Problem> {
        match self.take(at) {
            Term::Map(entries) => Ok(entries),
            other => wrong(format!("a map is required, and this is {}", other.kind())),
        }
    }

    pub fn texts(&mut self, at: usize) -> Result<Vec<String>, Problem> {
        self.list(at)?.iter().map(types::string).collect()
    }
}
