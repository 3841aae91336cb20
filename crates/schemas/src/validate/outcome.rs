//! What checking a value found, and how many checks it passed on the way.

use std::fmt;

use objects::field::{Error, ErrorType, Path};
use serde_json::Value;

/// Where in the value a check is. Made into text only when something is wrong there.
pub(super) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    /// An entry of a map, where it matters that it is one.
    Entry(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// The path of this place in a value that stands at `root`.
    pub fn under(&self, root: &Path) -> Path {
        match self {
            Place::Root => root.clone(),
            Place::Field(parent, name) => parent.under(root).child(name),
            Place::Entry(parent, name) => parent.under(root).key(name),
            Place::Item(parent, index) => parent.under(root).index(*index),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Root => Ok(()),
            Place::Field(Place::Root, name) => f.write_str(name),
            Place::Field(parent, name) => write!(f, "{parent}.{name}"),
            Place::Entry(parent, name) => write!(f, "{parent}[{name}]"),
            Place::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Something wrong, not yet told to anyone.
#[derive(Debug)]
pub(super) struct Problem {
    kind: ErrorType,
    /// Relative to the value checked; `None` where the sentence names the place itself.
    place: Option<String>,
    value: Value,
    sentence: String,
}

impl Problem {
    /// `spec.x in body should ...`
    pub fn invalid(place: &Place<'_>, value: impl Into<Value>, sentence: impl fmt::Display) -> Self {
        Self::of(ErrorType::Invalid, place, value.into(), format!("{place} in body {sentence}"))
    }

    /// `found` is the type found, or the text that has not the format wanted.
    pub fn wrong_type(place: &Place<'_>, wanted: &str, found: &str) -> Self {
        let sentence = format!("{place} in body must be of type {wanted}: {found:?}");
        Self::of(ErrorType::TypeInvalid, place, found.into(), sentence)
    }

    pub fn required(place: &Place<'_>) -> Self {
        Self::of(ErrorType::Required, place, Value::Null, String::new())
    }

    pub fn too_long(place: &Place<'_>, max: u64) -> Self {
        let sentence = format!("may not be more than {max} bytes");
        Self::of(ErrorType::TooLong, place, Value::String(String::new()), sentence)
    }

    pub fn too_many(place: &Place<'_>, actual: u64, max: u64) -> Self {
        let sentence = format!("must have at most {max} item{}", if max == 1 { "" } else { "s" });
        Self::of(ErrorType::TooMany, place, actual.into(), sentence)
    }

    pub fn not_supported(place: &Place<'_>, value: &Value, allowed: &[Value]) -> Self {
        // In the order of the schema, and never sorted.
        let shown = allowed.iter().map(|one| match one {
            Value::String(text) => format!("{text:?}"),
            other => format!("{:?}", other.to_string()),
        });
        let sentence = format!("supported values: {}", shown.collect::<Vec<_>>().join(", "));
        Self::of(ErrorType::NotSupported, place, value.clone(), sentence)
    }

    /// An error of several schemas together, which is told at no place.
    pub fn composite(place: &Place<'_>, sentence: impl fmt::Display) -> Self {
        Self::unplaced(format!("{:?} {sentence}", place.to_string()))
    }

    pub fn unplaced(sentence: String) -> Self {
        Problem { kind: ErrorType::Invalid, place: None, value: "".into(), sentence }
    }

    fn of(kind: ErrorType, place: &Place<'_>, value: Value, sentence: String) -> Self {
        Problem { kind, place: Some(place.to_string()), value, sentence }
    }

    /// The error, for a value that stands at `path`.
    pub fn at(self, path: &Path) -> Error {
        let field = match self.place.as_deref() {
            None | Some("") => path.to_string(),
            // An item of a list that is itself checked as a whole.
            Some(place) if place.starts_with('[') => format!("{}{place}", path.as_str()),
            Some(place) => path.child(place).to_string(),
        };
        Error { kind: self.kind, field, bad_value: self.value, detail: self.sentence }
    }

    fn same(&self, other: &Problem) -> bool {
        self.kind == other.kind && self.place == other.place && self.sentence == other.sentence
    }
}

/// The problems found, and a count of checks passed by which the nearest clause of a junctor is chosen.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub problems: Vec<Problem>,
    pub passed: usize,
}

impl Outcome {
    pub fn success() -> Self {
        Outcome { problems: Vec::new(), passed: 1 }
    }

    pub fn failure(problem: Problem) -> Self {
        Outcome { problems: vec![problem], passed: 0 }
    }

    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    /// Each problem is told once, however many clauses found it.
    pub fn add(&mut self, problem: Problem) {
        if !self.problems.iter().any(|known| known.same(&problem)) {
            self.problems.push(problem);
        }
    }

    pub fn merge(&mut self, other: Outcome) -> &mut Self {
        self.passed += other.passed;
        other.problems.into_iter().for_each(|problem| self.add(problem));
        self
    }

    pub fn passed(&mut self) {
        self.passed += 1;
    }
}
