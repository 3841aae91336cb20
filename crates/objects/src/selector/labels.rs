//! Label selectors: `a=b,c in (d,e),!f,g>3`, and the `LabelSelector` object.
//!
//! Mirrors `k8s.io/apimachinery/pkg/labels`.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use super::SelectorError;
use crate::{Path, field, names, raw};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// What the parser names when it finds no operator.
const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// One key and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted: there may be thousands.
    values: Vec<String>,
}

impl Requirement {
    /// Checked as upstream's `NewRequirement`; the error is the joined field errors.
    pub fn new(
        key: impl Into<String>,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, SelectorError> {
        let mut requirement = Requirement { key: key.into(), operator, values };
        match requirement.errors().as_slice() {
            [] => {
                requirement.values.sort_unstable();
                requirement.values.dedup();
                Ok(requirement)
            }
            errors => Err(SelectorError::Object(field::aggregate(errors))),
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn errors(&self) -> field::ErrorList {
        let mut errors: field::ErrorList = key_error(&self.key, &Path::new("key")).into_iter().collect();
        let path = Path::new("values");
        let count = self.values.len();
        let complaint = match self.operator {
            Operator::In | Operator::NotIn if count == 0 => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if count != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if count != 0 => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if count != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        errors.extend(complaint.map(|detail| field::Error::invalid(&path, self.values.clone(), detail)));
        for (index, value) in self.values.iter().enumerate() {
            let path = path.index(index);
            let ordered = matches!(self.operator, Operator::GreaterThan | Operator::LessThan);
            if ordered && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(field::Error::invalid(&path, value.as_str(), detail));
            }
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                errors.push(field::Error::invalid(&path.key(&self.key), value.as_str(), wrong.join("; ")));
            }
        }
        errors
    }

    fn has_value(&self, value: &str) -> bool {
        self.values.binary_search_by(|wanted| wanted.as_str().cmp(value)).is_ok()
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let bound = || self.values.first().and_then(|value| value.parse::<i64>().ok());
        let number = || label.and_then(|value| value.parse::<i64>().ok());
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                label.is_some_and(|label| self.has_value(label))
            }
            Operator::NotIn | Operator::NotEquals => label.is_none_or(|label| !self.has_value(label)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => number().zip(bound()).is_some_and(|(have, bound)| have > bound),
            Operator::LessThan => number().zip(bound()).is_some_and(|(have, bound)| have < bound),
        }
    }
}

fn key_error(key: &str, path: &Path) -> Option<field::Error> {
    let wrong = names::qualified_name(key);
    (!wrong.is_empty()).then(|| field::Error::invalid(path, key, wrong.join("; ")))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&str> = self.values.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let values = sorted.join(",");
        let key = &self.key;
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// All of its requirements at once. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl Selector {
    pub fn everything() -> Self {
        Selector::default()
    }

    /// What a null `LabelSelector` means.
    pub fn nothing() -> Self {
        Selector { requirements: Vec::new(), nothing: true }
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Selector { requirements, nothing: false }
    }

    /// Reads what stands in `?labelSelector=`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { tokens: tokens(text), position: 0 };
        parser.selector().map(Selector::new)
    }

    /// Reads a `LabelSelector` object. Null selects nothing, an empty object everything.
    pub fn from_value(selector: &Value) -> Result<Self, SelectorError> {
        let Some(selector) = selector.as_object() else { return Ok(Selector::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            requirements.push(from_expression(expression)?);
        }
        Ok(Selector::new(requirements))
    }

    /// The selector of a plain map, as in `spec.selector` of a Service: unchecked, and everything when empty.
    pub fn from_map(labels: &Map<String, Value>) -> Self {
        let equals = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        Selector::new(labels.iter().map(equals).collect())
    }

    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches_by(|key| labels?.get(key)?.as_str().map(Cow::Borrowed))
    }

    /// Whether an object fits, asked for its labels by key.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        !self.nothing
            && self
                .requirements
                .iter()
                .all(|requirement| requirement.matches(label(&requirement.key).as_deref()))
    }

    /// Whether an object fits whose labels are this JSON text, if it has any.
    pub fn matches_raw(&self, labels: Option<&[u8]>) -> Result<bool, raw::Malformed> {
        let mut all = Vec::new();
        // Labels of any other form than an object are none.
        if let Some(labels) = labels.filter(|labels| labels.starts_with(b"{")) {
            for member in raw::Members::of(labels) {
                all.push(member?);
            }
        }
        let label = |key: &str| {
            let (_, value) = all.iter().find(|(name, _)| raw::is_text(name, key))?;
            raw::text(value)
        };
        Ok(self.matches_by(label))
    }

    /// Whether it restricts nothing. The selector of nothing is not empty.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The one value a label must have, where the selector says so.
    pub fn exact(&self, label: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|requirement| requirement.key == label)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [one]) => Some(one),
            _ => None,
        }
    }
}

fn from_expression(expression: &Value) -> Result<Requirement, SelectorError> {
    let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => {
            return Err(SelectorError::Object(format!("{other:?} is not a valid label selector operator")));
        }
    };
    let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
    let values = values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
    Requirement::new(text("key"), operator, values)
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Identifier,
    /// `in` and `notin`: words that are operators after a key and plain text elsewhere.
    Word(Operator),
    Operator(Operator),
    Not,
    Comma,
    Open,
    Close,
    End,
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn tokens(text: &str) -> Vec<(Token, &str)> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(|c: char| c.is_ascii() && is_blank(c as u8));
    while let Some(first) = rest.bytes().next() {
        let (token, length) = match (first, rest.as_bytes().get(1)) {
            (b'=', Some(b'=')) => (Token::Operator(Operator::DoubleEquals), 2),
            (b'!', Some(b'=')) => (Token::Operator(Operator::NotEquals), 2),
            (b'=', _) => (Token::Operator(Operator::Equals), 1),
            (b'!', _) => (Token::Not, 1),
            (b'>', _) => (Token::Operator(Operator::GreaterThan), 1),
            (b'<', _) => (Token::Operator(Operator::LessThan), 1),
            (b'(', _) => (Token::Open, 1),
            (b')', _) => (Token::Close, 1),
            (b',', _) => (Token::Comma, 1),
            _ => {
                let length = rest.bytes().position(|b| is_special(b) || is_blank(b)).unwrap_or(rest.len());
                let token = match &rest[..length] {
                    "in" => Token::Word(Operator::In),
                    "notin" => Token::Word(Operator::NotIn),
                    _ => Token::Identifier,
                };
                (token, length)
            }
        };
        let (literal, after) = rest.split_at(length);
        tokens.push((token, literal));
        rest = after.trim_start_matches(|c: char| c.is_ascii() && is_blank(c as u8));
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

fn syntax(found: &str, expected: &'static str) -> SelectorError {
    SelectorError::Syntax { found: found.to_owned(), expected }
}

impl<'a> Parser<'a> {
    fn raw(&self) -> (Token, &'a str) {
        self.tokens.get(self.position).copied().unwrap_or((Token::End, ""))
    }

    /// The next token where `in` and `notin` are plain text.
    fn peek(&self) -> (Token, &'a str) {
        match self.raw() {
            (Token::Word(_), literal) => (Token::Identifier, literal),
            other => other,
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Not, _) => {}
                (Token::End, _) => return Ok(requirements),
                (_, found) => return Err(syntax(found, "!, identifier, or 'end of string'")),
            }
            requirements.push(self.requirement().map_err(|error| match error {
                SelectorError::Object(text) => SelectorError::Requirement(text),
                other => SelectorError::Requirement(other.to_string()),
            })?);
            match self.next() {
                (Token::End, _) => return Ok(requirements),
                (Token::Comma, _) => match self.peek() {
                    (Token::Identifier | Token::Not, _) => {}
                    (_, found) => return Err(syntax(found, "identifier after ','")),
                },
                (_, found) => return Err(syntax(found, "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return Err(syntax(key, "identifier"));
        }
        if let Some(error) = key_error(key, &Path::root()) {
            return Err(SelectorError::Object(error.to_string()));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let (token, found) = self.raw();
        self.position += 1;
        let (operator, mut values) = match token {
            Token::Word(operator) => (operator, self.values()?),
            Token::Operator(operator) => (operator, vec![self.exact_value()?]),
            _ => return Err(syntax(found, BINARY_OPERATORS)),
        };
        values.sort_unstable();
        values.dedup();
        Requirement::new(key, operator, values)
    }

    /// `(a,,b)`: empty places stand for the empty value.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        let (token, found) = self.next();
        if token != Token::Open {
            return Err(SelectorError::Object(format!("found '{found}' expected: '('")));
        }
        let mut values = Vec::new();
        let mut filled = false;
        loop {
            match self.next() {
                (Token::Identifier, literal) if !filled => {
                    values.push(literal.to_owned());
                    filled = true;
                }
                (Token::Comma, _) => {
                    if !filled {
                        values.push(String::new());
                    }
                    filled = false;
                }
                (Token::Close, _) => {
                    if !filled {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                (_, found) if filled => return Err(syntax(found, "',' or ')'")),
                (_, found) if values.is_empty() => return Err(syntax(found, "',', ')' or identifier")),
                (_, found) => return Err(syntax(found, "',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            (Token::End | Token::Comma, _) => Ok(String::new()),
            (Token::Identifier, literal) => {
                self.position += 1;
                Ok(literal.to_owned())
            }
            (_, found) => Err(syntax(found, "identifier")),
        }
    }
}

#[cfg(test)]
mod tests;
