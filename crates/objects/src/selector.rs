//! Label and field selectors, in the grammar kubectl users write.

pub mod fields;
pub mod labels;

/// Why a selector is none, in the words of upstream's parsers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("unable to parse requirement: {0}")]
    Requirement(String),
    #[error("found '{found}', expected: {expected}")]
    Syntax { found: String, expected: &'static str },
    /// A `LabelSelector` object with a bad entry.
    #[error("{0}")]
    Object(String),
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    FieldTerm { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {0}")]
    FieldEscape(String),
    /// Go prints the rune's number.
    #[error("invalid field selector: unescaped character in value: {0}")]
    FieldUnescaped(u32),
}
