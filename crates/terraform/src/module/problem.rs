//! What is wrong with a module, and where; or what it still waits for.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A file of a module, with its name in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub text: String,
    /// Texts in the directory of its module, and below, that are no declarations; by their paths from there.
    pub beside: Arc<BTreeMap<String, String>>,
}

impl File {
    /// Where it is in the module.
    pub fn directory(&self) -> &str {
        self.name.rsplit_once('/').map_or(".", |(directory, _)| directory)
    }

    /// `main.tf:12`, of what begins at this place.
    pub fn place(&self, span: Option<Range<usize>>) -> String {
        let before = span.and_then(|span| self.text.as_bytes().get(..span.start)).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}", self.name)
    }
}

/// Why an expression has no value. Messages never hold values: those may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Nothing but another module, or other inputs, can help.
    Wrong { place: Option<String>, message: String },
    /// What it refers to is not there yet.
    Pending(String),
    /// What it refers to is open only for a while, and not now.
    Ephemeral,
}

impl Problem {
    pub fn new(message: impl Into<String>) -> Problem {
        Problem::Wrong { place: None, message: message.into() }
    }

    pub fn at(file: &File, span: Option<Range<usize>>, message: impl Into<String>) -> Problem {
        Problem::Wrong { place: Some(file.place(span)), message: message.into() }
    }

    /// The same with a place, unless a closer one is known already.
    #[must_use]
    pub fn within(self, file: &File, span: Option<Range<usize>>) -> Problem {
        match self {
            Problem::Wrong { place: None, message } => Problem::at(file, span, message),
            other => other,
        }
    }

    pub fn is_pending(&self) -> bool {
        matches!(self, Problem::Pending(_))
    }

    /// No fault: there may be a value at another time.
    pub fn is_passing(&self) -> bool {
        matches!(self, Problem::Pending(_) | Problem::Ephemeral)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Wrong { place: Some(place), message } => write!(f, "{place}: {message}"),
            Problem::Wrong { place: None, message } | Problem::Pending(message) => f.write_str(message),
            Problem::Ephemeral => f.write_str("something ephemeral does not stand here"),
        }
    }
}

impl std::error::Error for Problem {}
