//! Field paths and field errors, worded as Kubernetes words them.
//!
//! Mirrors `k8s.io/apimachinery/pkg/util/validation/field`: users grep for these sentences.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// `spec.containers[0].ports[http].name`: where in an object something is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    pub fn root() -> Self {
        Path(String::new())
    }

    pub fn new(name: impl AsRef<str>) -> Self {
        Path(name.as_ref().to_owned())
    }

    /// A named child: `.name`.
    #[must_use]
    pub fn child(&self, name: impl AsRef<str>) -> Self {
        if self.0.is_empty() {
            return Path(name.as_ref().to_owned());
        }
        Path(format!("{}.{}", self.0, name.as_ref()))
    }

    /// A list element: `[3]`.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// A map entry: `[key]`.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Path(format!("{}[{}]", self.0, key.as_ref()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// What is wrong with a field. The names are the `reason` of a cause in a `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl ErrorType {
    /// The machine-readable `reason` of a status cause.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooLong => "FieldValueTooLong",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::Internal => "InternalError",
            ErrorType::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            ErrorType::NotFound => "Not found",
            ErrorType::Required => "Required value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::Invalid | ErrorType::TypeInvalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooLong => "Too long",
            ErrorType::TooMany => "Too many",
            ErrorType::Internal => "Internal error",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub kind: ErrorType,
    pub field: String,
    pub bad_value: Value,
    pub detail: String,
}

pub type ErrorList = Vec<Error>;

impl Error {
    fn of(kind: ErrorType, path: &Path, bad_value: Value, detail: impl Into<String>) -> Self {
        Error { kind, field: path.to_string(), bad_value, detail: detail.into() }
    }

    pub fn invalid(path: &Path, bad_value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::of(ErrorType::Invalid, path, bad_value.into(), detail)
    }

    pub fn type_invalid(path: &Path, bad_value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::of(ErrorType::TypeInvalid, path, bad_value.into(), detail)
    }

    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::of(ErrorType::Required, path, Value::Null, detail)
    }

    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::of(ErrorType::Forbidden, path, Value::Null, detail)
    }

    pub fn duplicate(path: &Path, bad_value: impl Into<Value>) -> Self {
        Self::of(ErrorType::Duplicate, path, bad_value.into(), "")
    }

    pub fn not_found(path: &Path, bad_value: impl Into<Value>) -> Self {
        Self::of(ErrorType::NotFound, path, bad_value.into(), "")
    }

    /// `supported values: "a", "b"`, in the order given.
    pub fn not_supported<S: AsRef<str>>(path: &Path, bad_value: impl Into<Value>, supported: &[S]) -> Self {
        let mut detail = String::new();
        if !supported.is_empty() {
            let quoted: Vec<String> = supported.iter().map(|value| format!("{:?}", value.as_ref())).collect();
            let _ = write!(detail, "supported values: {}", quoted.join(", "));
        }
        Self::of(ErrorType::NotSupported, path, bad_value.into(), detail)
    }

    pub fn too_long(path: &Path, max: usize) -> Self {
        let detail = format!("may not be more than {max} bytes");
        Self::of(ErrorType::TooLong, path, Value::String(String::new()), detail)
    }

    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} item{}", if max == 1 { "" } else { "s" });
        Self::of(ErrorType::TooMany, path, actual.into(), detail)
    }

    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        Self::of(ErrorType::Internal, path, Value::Null, detail)
    }

    /// The error without its field: what a status cause's `message` holds.
    pub fn body(&self) -> String {
        let sentence = self.kind.sentence();
        let mut text = match self.kind {
            ErrorType::Required | ErrorType::Forbidden | ErrorType::TooLong | ErrorType::Internal => {
                sentence.to_owned()
            }
            _ => format!("{sentence}: {}", shown(&self.bad_value)),
        };
        if !self.detail.is_empty() {
            let _ = write!(text, ": {}", self.detail);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A bad value as Go prints it: strings quoted, numbers and booleans bare, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Text in quotes as Go's `%q` writes it, which differs from Rust's in what cannot be printed.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            c if c.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Several errors as one message: a single one bare, several in brackets.
pub fn aggregate(errors: &[Error]) -> String {
    match errors {
        [one] => one.to_string(),
        many => {
            let mut seen: Vec<String> = Vec::with_capacity(many.len());
            for error in many {
                let text = error.to_string();
                if !seen.contains(&text) {
                    seen.push(text);
                }
            }
            if seen.len() == 1 { seen.remove(0) } else { format!("[{}]", seen.join(", ")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let containers = Path::new("spec").child("containers");
        assert_eq!(containers.index(0).child("name").to_string(), "spec.containers[0].name");
        assert_eq!(Path::root().child("a").key("b.c").to_string(), "a[b.c]");
        assert_eq!(Path::root().to_string(), "<nil>");
    }

    #[test]
    fn sentences() {
        let path = Path::new("spec.x");
        for (error, text) in [
            (Error::invalid(&path, "a\"b", "no"), r#"spec.x: Invalid value: "a\"b": no"#),
            (Error::invalid(&path, 3, ""), "spec.x: Invalid value: 3"),
            (Error::required(&path, ""), "spec.x: Required value"),
            (Error::required(&path, "why"), "spec.x: Required value: why"),
            (Error::forbidden(&path, "why"), "spec.x: Forbidden: why"),
            (Error::duplicate(&path, "a"), r#"spec.x: Duplicate value: "a""#),
            (Error::not_found(&path, "a"), r#"spec.x: Not found: "a""#),
            (
                Error::not_supported(&path, "c", &["b", "a"]),
                r#"spec.x: Unsupported value: "c": supported values: "b", "a""#,
            ),
            (Error::too_long(&path, 5), "spec.x: Too long: may not be more than 5 bytes"),
            (Error::too_many(&path, 3, 1), "spec.x: Too many: 3: must have at most 1 item"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn several_errors_are_one_message_and_none_is_told_twice() {
        let of = |name: &str| Error::required(&Path::new(name), "");
        assert_eq!(aggregate(&[of("a")]), "a: Required value");
        assert_eq!(aggregate(&[of("a"), of("a")]), "a: Required value");
        assert_eq!(aggregate(&[of("a"), of("b")]), "[a: Required value, b: Required value]");
    }

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (text, go) in
            [("a", r#""a""#), ("é\n\u{1}", r#""é\n\x01""#), ("\u{2028}'", "\"\\u2028'\""), ("\\", r#""\\""#)]
        {
            assert_eq!(quoted(text), go);
        }
    }
}
