//! What a provider says about what it was asked: errors and warnings, and the fields they are about.

use std::fmt;

use crate::protocol::messages::{self, Selector};

/// Diagnostics are shown to people; providers have been seen to put whole responses into them.
const LONGEST_TEXT: usize = 2_000;
const MOST: usize = 50;

/// Where in a value: by the provider's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Attribute(String),
    Key(String),
    Index(usize),
}

impl Path {
    pub(crate) fn decode(path: messages::AttributePath) -> Path {
        let step = |step: messages::Step| match step.selector? {
            Selector::AttributeName(name) => Some(Step::Attribute(name)),
            Selector::ElementKeyString(key) => Some(Step::Key(key)),
            Selector::ElementKeyInt(index) => Some(Step::Index(usize::try_from(index).unwrap_or_default())),
        };
        Path(path.steps.into_iter().filter_map(step).collect())
    }

    pub fn attribute(name: &str) -> Path {
        Path(vec![Step::Attribute(name.to_owned())])
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Attribute(name) if index == 0 => f.write_str(name)?,
                Step::Attribute(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub summary: String,
    pub detail: String,
    pub path: Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// What came with an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub(crate) fn decode(messages: Vec<messages::Diagnostic>) -> Diagnostics {
        let diagnostics = messages.into_iter().take(MOST).map(|message| Diagnostic {
            // A severity that nobody knows is taken for the worse.
            severity: if message.severity == 2 { Severity::Warning } else { Severity::Error },
            summary: bounded(message.summary),
            detail: bounded(message.detail),
            path: message.attribute.map(Path::decode).unwrap_or_default(),
        });
        Diagnostics(diagnostics.collect())
    }

    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
    }

    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning)
    }

    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// The warnings, or else all of it as an error.
    pub fn check(self) -> Result<Diagnostics, Diagnostics> {
        if self.has_errors() { Err(self) } else { Ok(self) }
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.0.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(self.summary.trim())?;
        let detail = self.detail.trim();
        if !detail.is_empty() && detail != self.summary.trim() {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

/// The errors, one after the other.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}
