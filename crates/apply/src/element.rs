//! One step of a path: a field by name, a list item by its keys or its value, or an index.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;
use serde_json::Value;

use crate::values;

/// How a child is found in its parent. Ordered as field sets are written.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// `f:replicas`
    Field(CompactString),
    /// `k:{"containerPort":80,"protocol":"TCP"}`, sorted by name
    Key(Box<[(CompactString, Value)]>),
    /// `v:"a-finalizer"`: an item of a set
    Value(Box<Value>),
    /// `i:3`
    Index(i64),
}

/// Why a key of a `fieldsV1` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    #[error("key must be 2 characters long: {0:?}")]
    Short(String),
    #[error("missing colon: {0}")]
    MissingColon(String),
    #[error("cannot read path element {element:?}: {why}")]
    Content { element: String, why: String },
}

impl PathElement {
    pub fn field(name: impl Into<CompactString>) -> Self {
        PathElement::Field(name.into())
    }

    /// An item of a list map. The pairs may come in any order.
    pub fn key<N: Into<CompactString>>(pairs: impl IntoIterator<Item = (N, Value)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().map(|(name, value)| (name.into(), value)).collect();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        PathElement::Key(pairs.into_boxed_slice())
    }

    pub fn value(value: impl Into<Value>) -> Self {
        PathElement::Value(Box::new(value.into()))
    }

    /// Reads `f:name` and its like. `None` is an element of a kind that a later version may know;
    /// it is skipped with all below it.
    pub fn parse(text: &str) -> Result<Option<Self>, ElementError> {
        if text.len() < 2 {
            return Err(ElementError::Short(text.to_owned()));
        }
        if text.as_bytes().get(1) != Some(&b':') {
            return Err(ElementError::MissingColon(text.to_owned()));
        }
        // A colon at byte 1 means that byte 0 is a character of its own.
        let content = text.get(2..).unwrap_or_default();
        let unreadable = |why: String| ElementError::Content { element: text.to_owned(), why };
        match text.as_bytes().first() {
            Some(b'f') => Ok(Some(PathElement::Field(content.into()))),
            Some(b'v') => {
                let value: Value =
                    serde_json::from_str(content).map_err(|error| unreadable(error.to_string()))?;
                Ok(Some(PathElement::Value(Box::new(value))))
            }
            Some(b'k') => {
                let pairs: serde_json::Map<String, Value> =
                    serde_json::from_str(content).map_err(|error| unreadable(error.to_string()))?;
                Ok(Some(PathElement::key(pairs)))
            }
            Some(b'i') => {
                let index = content.parse().map_err(|error| unreadable(format!("{error}")))?;
                Ok(Some(PathElement::Index(index)))
            }
            _ => Ok(None),
        }
    }

    /// As it stands in a `fieldsV1`.
    pub fn write(&self, out: &mut String) {
        match self {
            PathElement::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            PathElement::Key(pairs) => {
                out.push_str("k:{");
                for (i, (name, value)) in pairs.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    values::write_json_string(name, false, out);
                    out.push(':');
                    values::write_json(value, out);
                }
                out.push('}');
            }
            PathElement::Value(value) => {
                out.push_str("v:");
                values::write_json(value, out);
            }
            PathElement::Index(index) => {
                use fmt::Write as _;
                let _ = write!(out, "i:{index}");
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.as_str().cmp(b.as_str()),
            (PathElement::Key(a), PathElement::Key(b)) => {
                let unequal = a
                    .iter()
                    .zip(b.iter())
                    .map(|((a_name, a), (b_name, b))| a_name.cmp(b_name).then_with(|| values::compare(a, b)))
                    .find(|order| order.is_ne());
                unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (PathElement::Value(a), PathElement::Value(b)) => values::compare(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By the order, so that `1` and `1.0` name the same item.
impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// As conflicts show it: `.spec`, `[name="nginx"]`, `[="a"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(pairs) => {
                f.write_str("[")?;
                for (i, (name, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{name}={}", if i == 0 { "" } else { "," }, values::shown(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", values::shown(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_read_and_write() {
        let check = |text: &str, path: &str| {
            let element = PathElement::parse(text).unwrap().unwrap();
            let mut written = String::new();
            element.write(&mut written);
            assert_eq!((written.as_str(), element.to_string().as_str()), (text, path));
        };
        check("f:spec", ".spec");
        check("f:", ".");
        check("f:a.b/c:d", ".a.b/c:d");
        check(r#"k:{"name":"nginx"}"#, r#"[name="nginx"]"#);
        check(r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#);
        check(r#"k:{"name":"a\u003cb"}"#, r#"[name="a<b"]"#);
        check(r#"v:"a\"b""#, r#"[="a\"b"]"#);
        check("v:1", "[=1]");
        check("v:1.5", "[=1.5]");
        check("v:true", "[=true]");
        check("v:null", "[=null]");
        check("i:-3", "[-3]");
    }

    #[test]
    fn elements_are_normalised() {
        let check = |text: &str, expected: &str| {
            let mut written = String::new();
            PathElement::parse(text).unwrap().unwrap().write(&mut written);
            assert_eq!(written, expected);
        };
        check(r#"k:{"b":1,"a":2}"#, r#"k:{"a":2,"b":1}"#);
        check("v:80.0", "v:80.0".trim_end_matches(".0"));
        check("v:1e30", "v:1e+30");
    }

    #[test]
    fn unreadable_elements() {
        for text in ["", "f", "é", "name", "k:[]", "k:{} x", "v:", "v:{", "i:x", "i:99999999999999999999"] {
            assert!(PathElement::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(PathElement::parse("z:later"), Ok(None));
    }

    #[test]
    fn order_is_fields_keys_values_indexes() {
        let texts =
            ["f:a", "f:b", r#"k:{"p":80}"#, r#"k:{"p":443}"#, "v:2", "v:10", r#"v:"a""#, "v:true", "i:0"];
        let elements: Vec<_> = texts.iter().map(|text| PathElement::parse(text).unwrap().unwrap()).collect();
        assert!(elements.is_sorted());
    }
}
