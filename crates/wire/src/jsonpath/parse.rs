//! The grammar of paths.

use serde_json::Value;

use super::{Comparison, Filter, JsonPath, Operand, Step};

/// How many steps a path may have.
pub const MAX_STEPS: usize = 128;

/// How deep filters may stand in filters.
const MAX_NESTING: usize = 4;

/// Why text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("unterminated array")]
    UnterminatedArray,
    #[error("unterminated filter")]
    UnterminatedFilter,
    #[error("unterminated quoted string")]
    UnterminatedText,
    #[error("unclosed action")]
    UnterminatedBraces,
    #[error("invalid array index {0}")]
    Index(String),
    #[error("unrecognized character in action: {0:?}")]
    Character(char),
    #[error("unrecognized operand {0:?} in filter")]
    Operand(String),
    #[error("a path may have {MAX_STEPS} steps and its filters may nest {MAX_NESTING} deep")]
    TooLong,
}

pub(super) fn path(text: &str) -> Result<JsonPath, PathError> {
    let text = text.trim();
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or(PathError::UnterminatedBraces)?,
        None => text,
    };
    let inner = inner.strip_prefix('$').unwrap_or(inner);
    let mut reader = Reader { rest: inner, nesting: 0 };
    let steps = reader.steps()?;
    match reader.rest.chars().next() {
        Some(odd) => Err(PathError::Character(odd)),
        None => Ok(JsonPath { steps }),
    }
}

struct Reader<'a> {
    rest: &'a str,
    nesting: usize,
}

/// Characters that end a plain field name.
fn ends_name(c: char) -> bool {
    matches!(c, '.' | '[' | ']' | '(' | ')' | '{' | '}' | '=' | '!' | '<' | '>' | ',' | '\'' | '"')
        || c.is_whitespace()
}

impl<'a> Reader<'a> {
    fn skip(&mut self, prefix: &str) -> bool {
        let after = self.rest.strip_prefix(prefix);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn steps(&mut self) -> Result<Vec<Step>, PathError> {
        let mut steps = Vec::new();
        // A path may begin with a bare field: `metadata.name`.
        if let Some(name) = self.name() {
            steps.push(field(name));
        }
        loop {
            if steps.len() > MAX_STEPS {
                return Err(PathError::TooLong);
            }
            if self.skip("..") {
                steps.push(Step::Descend);
                match self.name() {
                    Some(name) => steps.push(field(name)),
                    None if self.rest.starts_with('[') => {}
                    None => return Err(PathError::Character('.')),
                }
            } else if self.skip(".") {
                // A lone dot is the object itself.
                steps.extend(self.name().map(field));
            } else if self.skip("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    /// A plain field name, with a backslash before characters that would end it.
    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
                c if ends_name(c) => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = &self.rest[end..];
        (!name.is_empty()).then_some(name)
    }

    /// What stands between brackets; the opening one is gone.
    fn bracket(&mut self) -> Result<Step, PathError> {
        if self.skip("?(") {
            return self.filter().map(Step::Filter);
        }
        if self.rest.trim_start().starts_with(['\'', '"']) {
            let mut names = Vec::new();
            loop {
                self.blanks();
                names.push(self.quoted()?);
                self.blanks();
                if self.skip("]") {
                    break;
                }
                if !self.skip(",") || names.len() > MAX_STEPS {
                    return Err(PathError::UnterminatedArray);
                }
            }
            return Ok(match names.len() {
                1 => Step::Field(names.remove(0)),
                _ => Step::Fields(names),
            });
        }
        let (inside, after) = self.rest.split_once(']').ok_or(PathError::UnterminatedArray)?;
        self.rest = after;
        indices(inside.trim())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn quoted(&mut self) -> Result<String, PathError> {
        let mut chars = self.rest.char_indices();
        let Some((_, quote @ ('\'' | '"'))) = chars.next() else { return Err(PathError::UnterminatedArray) };
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err(PathError::UnterminatedText)
    }

    /// `@.a=="b")]`; the opening `?(` is gone.
    fn filter(&mut self) -> Result<Filter, PathError> {
        if self.nesting == MAX_NESTING {
            return Err(PathError::TooLong);
        }
        self.nesting += 1;
        let left = self.operand()?;
        self.blanks();
        const COMPARISONS: [(&str, Comparison); 6] = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let comparison = COMPARISONS.iter().find(|(text, _)| self.skip(text));
        let comparison = match comparison {
            Some((_, comparison)) => Some((*comparison, self.operand()?)),
            None => None,
        };
        self.blanks();
        self.nesting -= 1;
        if self.skip(")]") { Ok(Filter { left, comparison }) } else { Err(PathError::UnterminatedFilter) }
    }

    fn operand(&mut self) -> Result<Operand, PathError> {
        self.blanks();
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(Value::String(text)));
        }
        if self.skip("@") {
            return Ok(Operand::Here(JsonPath { steps: self.steps()? }));
        }
        if self.skip("$") {
            return Ok(Operand::Root(JsonPath { steps: self.steps()? }));
        }
        let end = self.rest.find(|c: char| c.is_whitespace() || matches!(c, ')' | '=' | '!' | '<' | '>'));
        let (literal, after) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = after;
        match serde_json::from_str::<Value>(literal) {
            Ok(value @ (Value::Bool(_) | Value::Number(_) | Value::Null)) => Ok(Operand::Literal(value)),
            _ => Err(PathError::Operand(literal.to_owned())),
        }
    }
}

fn field(name: String) -> Step {
    if name == "*" { Step::Wildcard } else { Step::Field(name) }
}

/// `0`, `*`, `1:3`, `0,2`
fn indices(inside: &str) -> Result<Step, PathError> {
    let bad = || PathError::Index(inside.to_owned());
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| bad());
    if inside == "*" {
        return Ok(Step::Wildcard);
    }
    if inside.contains(':') {
        let optional = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
        let parts: Vec<Option<i64>> = inside.split(':').map(optional).collect::<Result<_, _>>()?;
        let (from, to, by) = match parts.as_slice() {
            [from, to] => (*from, *to, 1),
            [from, to, by] => (*from, *to, by.unwrap_or(1)),
            _ => return Err(bad()),
        };
        let by = usize::try_from(by).ok().filter(|by| *by > 0).ok_or_else(bad)?;
        return Ok(Step::Slice { from, to, by });
    }
    let mut all: Vec<i64> = inside.split(',').map(number).collect::<Result<_, _>>()?;
    Ok(if all.len() == 1 { Step::Index(all.remove(0)) } else { Step::Indices(all) })
}
