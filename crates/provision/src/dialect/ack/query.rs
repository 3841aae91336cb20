//! The part of jq that field exports use: paths, `[]`, pipes, `//`, `select` by comparison, and a few functions.
//!
//! Not all of jq, on purpose: an expression of any user runs in the process that serves all of them, so it must end,
//! and cost what it looks like. There are no definitions, no recursion and no loops; outputs are bounded.

use objects::Value;

/// Values that an expression may have at once.
const OUTPUTS: usize = 4_096;
/// Longer expressions, and deeper ones, are nobody's.
const LONGEST: usize = 2_048;
const DEEPEST: usize = 32;

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum QueryError {
    #[error("{0:?} cannot be understood from character {1} on")]
    Syntax(String, usize),
    #[error("the expression is too long")]
    TooLong,
    #[error("{0}")]
    Failed(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Filter {
    Identity,
    Field(String),
    Index(i64),
    Each,
    Literal(Value),
    /// What fails gives nothing.
    Optional(Box<Filter>),
    Pipe(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Compare(Box<Filter>, bool, Box<Filter>),
    Select(Box<Filter>),
    Call(Function),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    ToText,
    ToJson,
    Length,
    First,
    Last,
    Not,
}

const FUNCTIONS: [(&str, Function); 6] = [
    ("tostring", Function::ToText),
    ("tojson", Function::ToJson),
    ("length", Function::Length),
    ("first", Function::First),
    ("last", Function::Last),
    ("not", Function::Not),
];

/// An expression that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Query(Filter);

impl Query {
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        if text.len() > LONGEST {
            return Err(QueryError::TooLong);
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        match parser.pipe() {
            Some(filter) if parser.rest().is_empty() => Ok(Query(filter)),
            _ => Err(QueryError::Syntax(text.to_owned(), parser.at)),
        }
    }

    /// The first value of the expression on an object; none if it has none, or null.
    pub fn first(&self, object: &Value) -> Result<Option<Value>, QueryError> {
        let outputs = run(&self.0, object.clone())?;
        Ok(outputs.into_iter().next().filter(|value| !value.is_null()))
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or("");
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn pipe(&mut self) -> Option<Filter> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut filter = self.or()?;
        while !self.rest().starts_with("||") && self.eat("|") {
            filter = Filter::Pipe(filter.into(), self.or()?.into());
        }
        self.depth -= 1;
        Some(filter)
    }

    fn or(&mut self) -> Option<Filter> {
        let mut filter = self.comparison()?;
        while self.eat("//") {
            filter = Filter::Or(filter.into(), self.comparison()?.into());
        }
        Some(filter)
    }

    fn comparison(&mut self) -> Option<Filter> {
        let left = self.term()?;
        for (word, equal) in [("==", true), ("!=", false)] {
            if self.eat(word) {
                return Some(Filter::Compare(left.into(), equal, self.term()?.into()));
            }
        }
        Some(left)
    }

    fn term(&mut self) -> Option<Filter> {
        let rest = self.rest();
        let mut filter = match rest.chars().next()? {
            '.' => self.first_step()?,
            '(' => {
                self.eat("(");
                let inner = self.pipe()?;
                self.eat(")").then_some(inner)?
            }
            '"' | '-' | '0'..='9' => Filter::Literal(self.literal()?),
            _ => self.word()?,
        };
        while let Some(step) = self.step() {
            filter = Filter::Pipe(filter.into(), step.into());
        }
        Some(filter)
    }

    /// `.` alone, or the first of a path.
    fn first_step(&mut self) -> Option<Filter> {
        self.eat(".");
        let after = self.text.get(self.at..)?;
        match after.chars().next() {
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => self.name().map(Filter::Field),
            Some('"') => match self.literal()? {
                Value::String(name) => Some(Filter::Field(name)),
                _ => None,
            },
            _ => Some(Filter::Identity),
        }
    }

    /// `.name`, `["name"]`, `[0]`, `[]` or `?` after a term.
    fn step(&mut self) -> Option<Filter> {
        let start = self.at;
        let step = if self.text.get(self.at..)?.starts_with('.') {
            match self.first_step() {
                // A second dot is only for brackets, as in `.a.[0]`.
                Some(Filter::Identity) => self.brackets(),
                step => step,
            }
        } else {
            self.brackets()
        };
        let Some(mut step) = step else {
            self.at = start;
            return None;
        };
        while self.eat("?") {
            step = Filter::Optional(step.into());
        }
        Some(step)
    }

    fn brackets(&mut self) -> Option<Filter> {
        let start = self.at;
        if !self.text.get(self.at..)?.starts_with('[') {
            return None;
        }
        self.at += 1;
        if self.eat("]") {
            return Some(Filter::Each);
        }
        let step = match self.literal() {
            Some(Value::String(name)) => Some(Filter::Field(name)),
            Some(Value::Number(number)) => number.as_i64().map(Filter::Index),
            _ => None,
        };
        let step = step.filter(|_| self.eat("]"));
        if step.is_none() {
            self.at = start;
        }
        step
    }

    fn name(&mut self) -> Option<String> {
        let rest = self.text.get(self.at..)?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| rest[..end].to_owned())
    }

    fn literal(&mut self) -> Option<Value> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        let value = values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(value)
    }

    fn word(&mut self) -> Option<Filter> {
        let name = self.name()?;
        match name.as_str() {
            "true" => return Some(Filter::Literal(true.into())),
            "false" => return Some(Filter::Literal(false.into())),
            "null" => return Some(Filter::Literal(Value::Null)),
            "select" => {
                let inner = self.eat("(").then(|| self.pipe()).flatten()?;
                return self.eat(")").then(|| Filter::Select(inner.into()));
            }
            _ => {}
        }
        FUNCTIONS.iter().find(|(word, _)| *word == name).map(|(_, function)| Filter::Call(*function))
    }
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn run(filter: &Filter, input: Value) -> Result<Vec<Value>, QueryError> {
    let one = |value: Value| Ok(vec![value]);
    let failed = |why: String| Err(QueryError::Failed(why));
    match filter {
        Filter::Identity => one(input),
        Filter::Literal(value) => one(value.clone()),
        Filter::Field(name) => match &input {
            Value::Null => one(Value::Null),
            Value::Object(map) => one(map.get(name).cloned().unwrap_or_default()),
            other => failed(format!("{} has no field {name:?}", kind(other))),
        },
        Filter::Index(index) => match &input {
            Value::Null => one(Value::Null),
            Value::Array(list) => {
                let from_end = i64::try_from(list.len()).unwrap_or(i64::MAX).saturating_add(*index);
                let place = usize::try_from(if *index < 0 { from_end } else { *index }).ok();
                one(place.and_then(|place| list.get(place)).cloned().unwrap_or_default())
            }
            other => failed(format!("{} has no element {index}", kind(other))),
        },
        Filter::Each => match input {
            Value::Array(list) => Ok(list),
            Value::Object(map) => Ok(map.into_iter().map(|(_, value)| value).collect()),
            other => failed(format!("{} has no elements", kind(&other))),
        },
        Filter::Optional(inner) => Ok(run(inner, input).unwrap_or_default()),
        Filter::Pipe(left, right) => {
            let mut outputs = Vec::new();
            for value in run(left, input)? {
                outputs.extend(run(right, value)?);
                if outputs.len() > OUTPUTS {
                    return failed("the expression has too many results".to_owned());
                }
            }
            Ok(outputs)
        }
        Filter::Or(left, right) => {
            let found: Vec<Value> = run(left, input.clone()).unwrap_or_default();
            let found: Vec<Value> = found.into_iter().filter(is_true).collect();
            if found.is_empty() { run(right, input) } else { Ok(found) }
        }
        Filter::Compare(left, equal, right) => {
            let (left, right) = (run(left, input.clone())?, run(right, input)?);
            let same = |a: &Value, b: &Value| objects::equal::semantic(a, b) == *equal;
            Ok(right
                .iter()
                .flat_map(|b| left.iter().map(|a| same(a, b).into()).collect::<Vec<_>>())
                .collect())
        }
        Filter::Select(condition) => {
            let passes = run(condition, input.clone())?.iter().any(is_true);
            Ok(if passes { vec![input] } else { Vec::new() })
        }
        Filter::Call(function) => call(*function, input),
    }
}

fn call(function: Function, input: Value) -> Result<Vec<Value>, QueryError> {
    let value = match (function, input) {
        (Function::Not, value) => (!is_true(&value)).into(),
        (Function::ToText, Value::String(text)) => Value::String(text),
        (Function::ToText | Function::ToJson, value) => value.to_string().into(),
        (Function::Length, Value::Null) => 0.into(),
        (Function::Length, Value::String(text)) => text.chars().count().into(),
        (Function::Length, Value::Array(list)) => list.len().into(),
        (Function::Length, Value::Object(map)) => map.len().into(),
        (Function::First, Value::Array(list)) => list.into_iter().next().unwrap_or_default(),
        (Function::Last, Value::Array(list)) => list.into_iter().next_back().unwrap_or_default(),
        (function, other) => {
            return Err(QueryError::Failed(format!("{function:?} is not for {}", kind(&other))));
        }
    };
    Ok(vec![value])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions() {
        let object = json!({
            "spec": {"name": "b", "list": [1, 2, 3], "odd key": true, "n": null},
            "status": {"tags": [{"key": "a", "value": "x"}, {"key": "b", "value": "y"}], "count": 7},
        });
        let check = |text: &str, expected: Value| {
            let found = Query::parse(text).and_then(|query| query.first(&object));
            assert_eq!(found, Ok(Some(expected).filter(|value| !value.is_null())), "{text}");
        };
        check(".spec.name", json!("b"));
        check(" .spec | .name ", json!("b"));
        check(".spec[\"odd key\"]", json!(true));
        check(".spec.\"odd key\"", json!(true));
        check(".spec.list[1]", json!(2));
        check(".spec.list[-1]", json!(3));
        check(".spec.list.[0]", json!(1));
        check(".spec.list | last", json!(3));
        check(".spec.list | length", json!(3));
        check(".status.tags[] | select(.key == \"b\") | .value", json!("y"));
        check(".status.tags[] | select(.key == \"c\") | .value", json!(null));
        check(".status.none // .spec.name", json!("b"));
        check(".spec.n // \"default\"", json!("default"));
        check(".status.count | tostring", json!("7"));
        check("(.spec.list)[0]", json!(1));
        check(".spec.none.deeper", json!(null));
        check(".spec.name.deeper?", json!(null));
        check(".status.count != 7", json!(false));
        check(".", object.clone());
    }

    #[test]
    fn what_is_not_understood() {
        for text in
            ["", "spec", ".spec.", ".a | ", "def f: f; f", ".[", ".a[x]", "input", "repeat(.)", ".a || .b"]
        {
            assert!(matches!(Query::parse(text), Err(QueryError::Syntax(..))), "{text}");
        }
        assert_eq!(Query::parse(&".a".repeat(2_000)), Err(QueryError::TooLong));
        assert!(Query::parse(&format!("{}.{}", "(".repeat(100), ")".repeat(100))).is_err());
        let failed = Query::parse(".a.b").unwrap().first(&json!({"a": 1}));
        assert_eq!(failed, Err(QueryError::Failed("a number has no field \"b\"".to_owned())));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[.a-c\\[\\]\"0-9|/?()= !select-]{0,40}") {
            if let Ok(query) = Query::parse(&text) {
                let _ = query.first(&json!({"a": [{"b": 1}], "b": "c"}));
            }
        }
    }
}
