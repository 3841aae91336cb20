//! From text to tree: tokens, grammar, positions. No types and no macros here; see `check`.

mod ast;
mod parser;
mod token;

pub(crate) use ast::{Entry, Expr, Kind};
pub(crate) use parser::parse;

/// One complaint about a source text, at a byte offset of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub at: usize,
    pub message: String,
}

impl Issue {
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Issue { at, message: message.into() }
    }

    /// As users of CEL know it: the position, the sentence, the line and a caret below the place.
    pub fn render(&self, source: &str) -> String {
        let before = source.get(..self.at).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let number = before.matches('\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count();
        let line = source.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
        let dots = ".".repeat(column);
        format!("ERROR: <input>:{number}:{}: {}\n | {line}\n | {dots}^", column + 1, self.message)
    }
}
