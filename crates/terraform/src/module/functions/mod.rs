//! The functions that expressions may call: those of Terraform's that need nothing but their arguments.
//!
//! Most functions see no marks: a result of something secret is secret. Those that only move elements around leave each
//! its own, so that the length of a list is no secret because something in it is.

mod collections;
mod encodings;
mod format;
mod hashes;
pub(super) mod json;
mod networks;
mod numbers;
mod patterns;
mod texts;
mod times;
mod yaml;

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

/// Those that are more than functions of their arguments: the expression itself evaluates them.
const OWN: [&str; 6] = ["try", "can", "file", "fileexists", "templatefile", "templatestring"];

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

const TABLES: [&[Row]; 8] = [
    CONVERSIONS,
    collections::TABLE,
    encodings::TABLE,
    hashes::TABLE,
    networks::TABLE,
    numbers::TABLE,
    texts::TABLE,
    times::TABLE,
];

/// Terraform's functions that are not there, and why.
const MISSING: [(&[&str], &str); 4] = [
    (
        &["timestamp", "plantimestamp", "uuid", "bcrypt"],
        "gives something else each time, and the module would never be settled",
    ),
    (
        &[
            "abspath",
            "pathexpand",
            "filebase64",
            "filebase64sha256",
            "filebase64sha512",
            "filemd5",
            "fileset",
        ],
        "is not supported: of the server's files only the module's own are read, with file and templatefile",
    ),
    (&["filesha1", "filesha256", "filesha512"], "is not supported; hash what file reads"),
    (&["rsadecrypt"], "is not supported; give what it would decrypt in the Secret of spec.secretRef"),
];

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

/// Those that are about the mark itself.
const MARKING: [&str; 4] = ["sensitive", "nonsensitive", "issensitive", "ephemeralasnull"];

pub fn exists(name: &str) -> bool {
    OWN.contains(&name) || MARKING.contains(&name) || find(name).is_some()
}

/// What is said of one that does not.
pub fn missing(name: &str) -> String {
    let known = MISSING.iter().find(|(names, _)| names.contains(&name));
    let why = known.map_or("is not supported", |(_, why)| why);
    format!("the function {name:?} {why}")
}

pub fn call(name: &str, arguments: Vec<Term>) -> Made {
    let moving = MOVING.contains(&name);
    let needs = |term: &Term| if moving { *term == Term::Ephemeral } else { term.has_ephemeral() };
    if name != "ephemeralasnull" && arguments.iter().any(needs) {
        return Err(Problem::Ephemeral);
    }
    let is_secret = |term: &Term| if moving { matches!(term, Term::Secret(_)) } else { term.has_secret() };
    let secret = arguments.iter().any(is_secret);
    let seen = |term: Term| if moving { term.opened().0 } else { term.revealed() };
    let mut arguments: Vec<Term> = arguments.into_iter().map(seen).collect();
    match (name, arguments.len()) {
        ("sensitive", 1) => return Ok(arguments.remove(0).secret()),
        ("nonsensitive", 1) => return Ok(arguments.remove(0)),
        ("ephemeralasnull", 1) => return Ok(arguments.remove(0).without_ephemeral().secret_if(secret)),
        ("issensitive", 1) => return Ok(Term::Bool(secret)),
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
        passing => passing,
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
            Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => Ok(elements),
            other => wrong(format!("a list is required, and this is {}", other.kind())),
        }
    }

    /// The elements of a list, in its order: a set has none.
    pub fn ordered(&mut self, at: usize) -> Result<Vec<Term>, Problem> {
        match self.0.get(at) {
            Some(Term::Set(_)) => wrong("a list is required, and this is a set"),
            _ => self.list(at),
        }
    }

    /// Of null it cannot be said that it is true.
    pub fn booleans(&mut self, at: usize) -> Result<Vec<bool>, Problem> {
        let one = |term: &Term| if *term == Term::Null { Ok(false) } else { types::boolean(term) };
        self.list(at)?.iter().map(one).collect()
    }

    pub fn map(&mut self, at: usize) -> Result<super::term::Entries, Problem> {
        match self.take(at) {
            Term::Object(entries) | Term::Map(entries) => Ok(entries),
            other => wrong(format!("a map is required, and this is {}", other.kind())),
        }
    }

    pub fn texts(&mut self, at: usize) -> Result<Vec<String>, Problem> {
        self.list(at)?.iter().map(types::string).collect()
    }
}
