//! Field selectors: `metadata.name=a,status.phase!=Running`, with `\` before `,`, `=` and `\` in values.
//!
//! Mirrors `k8s.io/apimachinery/pkg/fields`. Which fields may be selected is the type's business.

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;

/// One field and the value it must, or must not, have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    pub field: String,
    /// `=` where true, `!=` where false.
    pub equals: bool,
    pub value: String,
}

/// All of its requirements at once. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    pub fn everything() -> Self {
        Selector::default()
    }

    /// Reads what stands in `?fieldSelector=`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let (field, equals, value) = split_term(term).ok_or_else(|| SelectorError::FieldTerm {
                selector: text.to_owned(),
                term: term.to_owned(),
            })?;
            requirements.push(Requirement {
                field: field.to_owned(),
                equals,
                value: unescape(value)?.into_owned(),
            });
        }
        Ok(Selector { requirements })
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object fits, asked for its fields by path. An absent field is the empty string.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = field(&requirement.field).unwrap_or_default();
            (value == requirement.value.as_str()) == requirement.equals
        })
    }

    /// The one value a field must have, where the selector says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equals && r.field == field).map(|r| r.value.as_str())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let operator = if requirement.equals { "=" } else { "!=" };
            write!(f, "{separator}{}{operator}{}", requirement.field, escape(&requirement.value))?;
        }
        Ok(())
    }
}

/// A value as it must stand in a selector.
pub fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', ',', '=']) {
        return value.into();
    }
    let mut escaped = String::with_capacity(value.len() + 2);
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped.into()
}

fn unescape(value: &str) -> Result<Cow<'_, str>, SelectorError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(value.into());
    }
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                Some(next) => return Err(SelectorError::FieldEscape(format!("\\{next}"))),
                None => return Err(SelectorError::FieldEscape("\\".to_owned())),
            },
            ',' | '=' => return Err(SelectorError::FieldUnescaped(c.into())),
            other => plain.push(other),
        }
    }
    Ok(plain.into())
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

/// Splits at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((field, false, value));
        }
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
        Some((field, true, value))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let read =
            Selector::parse(text).map(|selector| selector.to_string()).map_err(|error| error.to_string());
        assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn the_grammar() {
        check("", Ok(""));
        check(",,", Ok(""));
        check("a=b", Ok("a=b"));
        check("b!=c,a==b", Ok("a=b,b!=c"));
        check("a=", Ok("a="));
        check(r"a=x\=y\,z\\", Ok(r"a=x\=y\,z\\"));
        check("a", Err("invalid selector: 'a'; can't understand 'a'"));
        check("a=b=c", Err("invalid field selector: unescaped character in value: 61"));
        check(r"a=\x", Err(r"invalid field selector: invalid escape sequence: \x"));
        check(r"a=b\", Err(r"invalid field selector: invalid escape sequence: \"));
    }

    #[test]
    fn matching() {
        let fields = |path: &str| match path {
            "metadata.name" => Some(Cow::Borrowed("a")),
            _ => None,
        };
        for (text, expected) in [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("gone=", true),
            ("gone!=", false),
            ("gone!=x,metadata.name=a", true),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(fields), expected, "{text:?}");
        }
        assert_eq!(Selector::parse("a!=b,c=d").unwrap().exact("c"), Some("d"));
        assert_eq!(Selector::parse("a!=b").unwrap().exact("a"), None);
    }

    proptest! {
        #[test]
        fn every_value_can_be_selected(value in any::<String>()) {
            let selector = Selector::parse(&format!("a={}", escape(&value))).unwrap();
            prop_assert_eq!(selector.exact("a"), Some(value.as_str()));
            prop_assert_eq!(Selector::parse(&selector.to_string()).unwrap(), selector);
        }

        #[test]
        fn nothing_makes_the_parser_panic(text in any::<String>()) {
            let _ = Selector::parse(&text);
        }
    }
}
