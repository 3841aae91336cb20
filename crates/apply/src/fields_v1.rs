//! `FieldsV1`: a field set as JSON, the only format Kubernetes writes.

use serde_json::{Map, Value};

use crate::element::{ElementError, PathElement};
use crate::set::{FieldSet, Node};

/// Why a `fieldsV1` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    #[error(transparent)]
    Element(#[from] ElementError),
    #[error("a field set must be made of objects, found {0}")]
    NotAnObject(String),
}

impl FieldSet {
    pub fn from_value(value: &Value) -> Result<FieldSet, FieldsError> {
        Ok(read(value)?.0)
    }

    pub fn to_value(&self) -> Value {
        let mut buffer = String::new();
        Value::Object(self.to_map(false, &mut buffer))
    }

    /// The exact bytes Kubernetes writes: elements in the order of the set, not of their text.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        self.write_contents(false, &mut String::new(), &mut out);
        out.push('}');
        out
    }

    fn to_map(&self, with_self: bool, buffer: &mut String) -> Map<String, Value> {
        let mut map = Map::new();
        if with_self {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for node in &self.nodes {
            buffer.clear();
            node.element.write(buffer);
            let key = buffer.clone();
            let below = node.below.to_map(node.member && !node.below.is_empty(), buffer);
            map.insert(key, Value::Object(below));
        }
        map
    }

    fn write_contents(&self, with_self: bool, buffer: &mut String, out: &mut String) {
        if with_self {
            out.push_str("\".\":{}");
        }
        for (i, node) in self.nodes.iter().enumerate() {
            out.push_str(if i == 0 && !with_self { "" } else { "," });
            buffer.clear();
            node.element.write(buffer);
            crate::values::write_json_string(buffer, false, out);
            out.push_str(":{");
            node.below.write_contents(node.member && !node.below.is_empty(), buffer, out);
            out.push('}');
        }
    }
}

/// The set below a node, and whether the node itself is a member: by its `.`, or because nothing is below.
fn read(value: &Value) -> Result<(FieldSet, bool), FieldsError> {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok((FieldSet::new(), true)),
        other => return Err(FieldsError::NotAnObject(other.to_string())),
    };
    let mut nodes = Vec::with_capacity(fields.len());
    let mut member = false;
    for (key, value) in fields {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = PathElement::parse(key)? else { continue };
        let (below, member) = read(value)?;
        nodes.push(Node { element, member, below });
    }
    let member = member || nodes.is_empty();
    Ok((FieldSet::of_nodes(nodes), member))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        let set = FieldSet::from_value(&value).unwrap();
        assert_eq!(set.to_json(), expected, "{json}");
        assert_eq!(FieldSet::from_value(&set.to_value()).unwrap(), set);
        assert_eq!(FieldSet::from_value(&serde_json::from_str(expected).unwrap()).unwrap(), set);
    }

    #[test]
    fn reads_and_writes() {
        for same in [
            "{}",
            r#"{"f:spec":{"f:replicas":{}}}"#,
            r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}"#,
            r#"{"f:c":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{}}}}"#,
            r#"{"f:metadata":{"f:finalizers":{".":{},"v:\"x/y\"":{}}}}"#,
            r#"{"f:p":{"k:{\"port\":80}":{},"k:{\"port\":443}":{}},"i:0":{}}"#,
        ] {
            check(same, same);
        }
    }

    #[test]
    fn reads_what_it_would_not_write() {
        check(r#"{"f:a":{".":{}}}"#, r#"{"f:a":{}}"#);
        check(r#"{"f:a":null}"#, r#"{"f:a":{}}"#);
        check(r#"{"f:b":{},"f:a":{}}"#, r#"{"f:a":{},"f:b":{}}"#);
        check(r#"{"z:later":{"f:x":{}},"f:a":{}}"#, r#"{"f:a":{}}"#);
        check(r#"{"f:a":{"z:later":{}}}"#, r#"{"f:a":{}}"#);
        check("null", "{}");
        check(
            r#"{"k:{\"p\":1}":{"f:a":{}},"k:{\"p\":1.0}":{"f:b":{}}}"#,
            r#"{"k:{\"p\":1}":{"f:a":{},"f:b":{}}}"#,
        );
    }

    #[test]
    fn refuses_nonsense() {
        for json in
            ["[]", "1", r#"{"f:a":[]}"#, r#"{"a":{}}"#, r#"{"":{}}"#, r#"{"k:x":{}}"#, r#"{"f:a":{"f":{}}}"#]
        {
            assert!(FieldSet::from_value(&serde_json::from_str(json).unwrap()).is_err(), "{json}");
        }
    }
}
