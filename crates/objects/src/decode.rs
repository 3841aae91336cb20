//! JSON bytes to a value, noting fields that are given twice.
//!
//! One pass. A document without duplicates pays one comparison per value for their tracking: the path
//! of a duplicate is put together only while the recursion unwinds from one.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// How deep objects and lists may nest. Upstream allows 10,000, which no recursive walk over a value survives on
/// an ordinary stack; real objects stay below 60.
pub const MAX_DEPTH: usize = 127;

/// How many duplicates are told apart; upstream's strict decoder stops at the same number.
const MAX_DUPLICATES: usize = 100;

/// A decoded document.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Paths of fields that were given more than once (`spec.replicas`); the last one counts.
    pub duplicates: Vec<String>,
}

/// Why bytes are no JSON, in the words of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("unexpected end of JSON input")]
    Truncated,
    #[error("exceeded max depth: objects and lists may nest {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("{0}")]
    Syntax(String),
}

/// Reads exactly one document.
pub fn json(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    // The size of the input bounds the size of the value; nothing in JSON expands.
    let read = tracked(&mut deserializer, Bounds { depth: MAX_DEPTH, bytes: usize::MAX });
    read.and_then(|decoded| deserializer.end().map(|()| decoded)).map_err(|error| in_gos_words(&error, bytes))
}

/// How large a value may become.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Levels of objects and lists
    pub depth: usize,
    /// Bytes, roughly; for formats whose documents can be larger than their text
    pub bytes: usize,
}

/// Reads from any self-describing format, with the same tracking of duplicates.
pub fn tracked<'de, D: Deserializer<'de>>(deserializer: D, bounds: Bounds) -> Result<Decoded, D::Error> {
    let mut notes = Notes { duplicates: Vec::new(), budget: bounds.bytes };
    let value = Seed { notes: &mut notes, depth: bounds.depth }.deserialize(deserializer)?;
    Ok(Decoded { value, duplicates: notes.duplicates })
}

/// What is kept while a document is read.
struct Notes {
    duplicates: Vec<String>,
    budget: usize,
}

impl Notes {
    fn spend<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        // An allowance per value stands for what the value itself takes.
        let left = self.budget.checked_sub(bytes.saturating_add(16));
        self.budget = left.ok_or_else(|| E::custom("document is too large once its aliases are expanded"))?;
        Ok(())
    }
}

struct Seed<'s> {
    notes: &'s mut Notes,
    /// How many more levels may open.
    depth: usize,
}

impl Seed<'_> {
    fn opened<E: Error>(&self) -> Result<usize, E> {
        self.depth.checked_sub(1).ok_or_else(|| E::custom(TOO_DEEP))
    }
}

/// As serde_json says it of its own bound, which is the same.
const TOO_DEEP: &str = "recursion limit exceeded";

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.notes.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.notes.spend(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.notes.spend(0)?;
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.notes.spend(0)?;
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.notes.spend(0)?;
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.notes.spend(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.notes.spend(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.opened()?;
        self.notes.spend(0)?;
        let mut list = Vec::new();
        loop {
            let known = self.notes.duplicates.len();
            let seed = Seed { notes: &mut *self.notes, depth };
            let Some(item) = items.next_element_seed(seed)? else { break };
            if self.notes.duplicates.len() > known {
                prefix(&mut self.notes.duplicates[known..], &format!("[{}]", list.len()));
            }
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let depth = self.opened()?;
        self.notes.spend(0)?;
        let mut object = Map::new();
        let first = self.notes.duplicates.len();
        while let Some(name) = fields.next_key::<String>()? {
            self.notes.spend(name.len())?;
            let known = self.notes.duplicates.len();
            let value = fields.next_value_seed(Seed { notes: &mut *self.notes, depth })?;
            let duplicates = &mut self.notes.duplicates;
            if duplicates.len() > known {
                prefix(&mut duplicates[known..], &name);
            }
            match object.entry(name) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(mut taken) => {
                    // A field given three times is still one duplicate.
                    if duplicates.len() < MAX_DUPLICATES && !duplicates[first..].contains(taken.key()) {
                        duplicates.push(taken.key().clone());
                    }
                    taken.insert(value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

/// Puts a parent before paths that so far begin at its child.
fn prefix(paths: &mut [String], parent: &str) {
    for path in paths {
        let dot = if path.starts_with('[') { "" } else { "." };
        *path = format!("{parent}{dot}{path}");
    }
}

/// What serde_json says, and what Go says of the character at the same place.
const SENTENCES: &[(&str, &str)] = &[
    ("expected value", "looking for beginning of value"),
    ("trailing comma", "looking for beginning of value"),
    ("key must be a string", "looking for beginning of object key string"),
    ("expected `:`", "after object key"),
    ("expected `,` or `}`", "after object key:value pair"),
    ("expected `,` or `]`", "after array element"),
    ("trailing characters", "after top-level value"),
    ("expected ident", "in literal"),
    ("invalid number", "in numeric literal"),
    ("control character", "in string literal"),
    ("invalid escape", "in string escape code"),
];

fn in_gos_words(error: &serde_json::Error, bytes: &[u8]) -> DecodeError {
    if error.is_eof() {
        return DecodeError::Truncated;
    }
    let text = error.to_string();
    if text.starts_with(TOO_DEEP) {
        return DecodeError::TooDeep;
    }
    let sentence = SENTENCES.iter().find(|(ours, _)| text.starts_with(ours));
    match sentence.zip(byte_at(bytes, error.line(), error.column())) {
        Some(((_, go), byte)) => DecodeError::Syntax(format!("invalid character {} {go}", quoted(byte))),
        None => DecodeError::Syntax(text),
    }
}

/// The byte an error points at; columns count from one and include it.
fn byte_at(bytes: &[u8], line: usize, column: usize) -> Option<u8> {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(breaks) => bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(breaks)?.0 + 1,
    };
    bytes.get((start + column).checked_sub(1)?).copied()
}

/// A byte as Go quotes it, which takes each byte for a character.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => format!("'{}'", char::from(other).escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn duplicates(text: &str, paths: &[&str], value: Value) {
        let decoded = json(text.as_bytes()).unwrap();
        assert_eq!(decoded.duplicates, paths, "{text}");
        assert_eq!(decoded.value, value, "{text}");
    }

    #[test]
    fn duplicates_are_found_and_the_last_one_counts() {
        duplicates(r#"{"a":1,"b":2}"#, &[], json!({"a": 1, "b": 2}));
        duplicates(r#"{"a":1,"a":2}"#, &["a"], json!({"a": 2}));
        duplicates(r#"{"a":1,"a":2,"a":3}"#, &["a"], json!({"a": 3}));
        duplicates(
            r#"{"spec":{"replicas":1,"replicas":2}}"#,
            &["spec.replicas"],
            json!({"spec": {"replicas": 2}}),
        );
        duplicates(r#"{"s":{"c":[{"n":1},{"n":1,"n":2}]},"s":{}}"#, &["s.c[1].n", "s"], json!({"s": {}}));
        duplicates(r#"[[{"a":1,"a":1}]]"#, &["[0][0].a"], json!([[{"a": 1}]]));
        duplicates(
            r#"{"x":{"a":1,"a":2},"a":{},"a":{"a":1,"a":1}}"#,
            &["x.a", "a.a", "a"],
            json!({"x": {"a": 2}, "a": {"a": 1}}),
        );
    }

    #[track_caller]
    fn refused(text: &str, message: &str) {
        assert_eq!(json(text.as_bytes()).expect_err(text).to_string(), message, "{text:?}");
    }

    #[test]
    fn refusals_in_gos_words() {
        refused("", "unexpected end of JSON input");
        refused(r#"{"a":"#, "unexpected end of JSON input");
        refused("nope", "invalid character 'o' in literal");
        refused("x", "invalid character 'x' looking for beginning of value");
        refused("{a:1}", "invalid character 'a' looking for beginning of object key string");
        refused("{\n\"a\" 1}", "invalid character '1' after object key");
        refused("{\"a\":1\n\"b\":2}", "invalid character '\"' after object key:value pair");
        refused("[1 2]", "invalid character '2' after array element");
        refused("{} {}", "invalid character '{' after top-level value");
        refused("\"\n\"", "invalid character '\\n' in string literal");
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(json(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(json(deep(MAX_DEPTH + 1).as_bytes()), Err(DecodeError::TooDeep));
        assert_eq!(json("[".repeat(1_000_000).as_bytes()), Err(DecodeError::TooDeep));
    }

    pub(crate) fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn equals_serde_json(value in any_json()) {
            let text = value.to_string();
            let decoded = json(text.as_bytes()).unwrap();
            prop_assert_eq!(decoded.value, serde_json::from_str::<Value>(&text).unwrap());
            prop_assert!(decoded.duplicates.is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(json(&bytes).is_ok(), serde_json::from_slice::<Value>(&bytes).is_ok());
        }

        #[test]
        fn nor_does_almost_json(text in r#"[\[\]{}:,"a0-9.eE+\-\\u tfn\n]{0,40}"#) {
            prop_assert_eq!(json(text.as_bytes()).is_ok(), serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}
