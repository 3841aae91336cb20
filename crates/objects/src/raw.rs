//! Parts of an object's JSON text, found without parsing the rest of it.
//!
//! The text is one that a serializer wrote: every member of an object stands there once. What is passed over is not
//! checked further than needed to find its end.

use std::borrow::Cow;

use memchr::memchr2;
use serde_json::{Map, Value};

/// The text is no JSON object, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a JSON object")]
pub struct Malformed;

/// The text of the value at a path of members. None where there is none, or where a value on the way is no object.
pub fn member<'t>(object: &'t [u8], path: &[&str]) -> Result<Option<&'t [u8]>, Malformed> {
    path.iter().try_fold(Some(object), |found, name| match found {
        Some(object) => direct_member(object, name),
        None => Ok(None),
    })
}

fn direct_member<'t>(object: &'t [u8], name: &str) -> Result<Option<&'t [u8]>, Malformed> {
    if !object.trim_ascii_start().starts_with(b"{") {
        return Ok(None);
    }
    for member in Members::of(object) {
        let (found, value) = member?;
        if is_text(found, name) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The name of a member as it stands between the quotes, and the text of its value.
pub type Member<'t> = (&'t [u8], &'t [u8]);

/// The members of an object.
pub struct Members<'t> {
    reader: Reader<'t>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begin,
    Within,
    End,
}

impl<'t> Members<'t> {
    pub fn of(object: &'t [u8]) -> Self {
        Members { reader: Reader { rest: object }, state: State::Begin }
    }

    fn step(&mut self) -> Result<Option<Member<'t>>, Malformed> {
        let reader = &mut self.reader;
        match self.state {
            State::End => return Ok(None),
            State::Begin => {
                reader.expect(b'{')?;
                if reader.peek() == Some(b'}') {
                    self.state = State::End;
                    return Ok(None);
                }
                self.state = State::Within;
            }
            State::Within => match reader.next() {
                Some(b',') => {}
                Some(b'}') => {
                    self.state = State::End;
                    return Ok(None);
                }
                _ => return Err(Malformed),
            },
        }
        reader.expect(b'"')?;
        let name = reader.string()?;
        reader.expect(b':')?;
        Ok(Some((name, reader.value()?)))
    }
}

impl<'t> Iterator for Members<'t> {
    type Item = Result<Member<'t>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.state = State::End;
        }
        step.transpose()
    }
}

/// The text of a string value, quotes included; none of any other value.
pub fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    unquoted(value.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

/// What stands between the quotes of a string.
fn unquoted(inner: &[u8]) -> Option<Cow<'_, str>> {
    if !inner.contains(&b'\\') {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    let quoted = [b"\"", inner, b"\""].concat();
    serde_json::from_slice(&quoted).ok().map(Cow::Owned)
}

/// Whether what stands between the quotes of a string is this text.
pub fn is_text(inner: &[u8], text: &str) -> bool {
    inner == text.as_bytes() || (inner.contains(&b'\\') && unquoted(inner).is_some_and(|inner| inner == text))
}

/// An object with nothing but the values at these paths (names of members, with dots between them).
pub fn project<'p>(object: &[u8], paths: impl IntoIterator<Item = &'p str>) -> Result<Value, Malformed> {
    let mut projected = Value::Object(Map::new());
    for path in paths {
        let names: Vec<&str> = path.split('.').collect();
        let Some(found) = member(object, &names)? else { continue };
        let found: Value = serde_json::from_slice(found).map_err(|_| Malformed)?;
        let place = names.iter().try_fold(&mut projected, |place, name| {
            let members = place.as_object_mut()?;
            Some(members.entry(*name).or_insert_with(|| Value::Object(Map::new())))
        });
        // One path may lead on from where another ends; what is there holds both.
        if let Some(place) = place {
            *place = found;
        }
    }
    Ok(projected)
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl<'t> Reader<'t> {
    fn space(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let next = self.peek()?;
        self.rest = &self.rest[1..];
        Some(next)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), Malformed> {
        if self.next() == Some(wanted) { Ok(()) } else { Err(Malformed) }
    }

    /// Takes a string after its first quote, and gives what is within.
    fn string(&mut self) -> Result<&'t [u8], Malformed> {
        let begin = self.rest;
        let mut length = 0;
        loop {
            let found = length + memchr2(b'"', b'\\', &begin[length..]).ok_or(Malformed)?;
            if begin[found] == b'"' {
                self.rest = &begin[found + 1..];
                return Ok(&begin[..found]);
            }
            length = found + 2;
            if length > begin.len() {
                return Err(Malformed);
            }
        }
    }

    /// Takes a value, and gives its text.
    fn value(&mut self) -> Result<&'t [u8], Malformed> {
        self.space();
        let begin = self.rest;
        let mut depth = 0_usize;
        loop {
            let Some((&first, rest)) = self.rest.split_first() else { return Err(Malformed) };
            match first {
                b'"' => {
                    self.rest = rest;
                    self.string()?;
                }
                b'{' | b'[' => {
                    self.rest = rest;
                    depth += 1;
                    continue;
                }
                b'}' | b']' => {
                    self.rest = rest;
                    depth = depth.checked_sub(1).ok_or(Malformed)?;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth > 0 => {
                    self.rest = rest;
                    continue;
                }
                _ => {
                    // A number or a word.
                    let length =
                        self.rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(self.rest.len());
                    if length == 0 {
                        return Err(Malformed);
                    }
                    self.rest = &self.rest[length..];
                }
            }
            if depth == 0 {
                return Ok(&begin[..begin.len() - self.rest.len()]);
            }
        }
    }
}

/// Whether a byte can be part of a number, `true`, `false` or `null`.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, path: &[&str], expected: Result<Option<&str>, Malformed>) {
        let found = member(text.as_bytes(), path);
        assert_eq!(
            found.map(|found| found.map(|found| std::str::from_utf8(found).unwrap())),
            expected,
            "{text}"
        );
    }

    #[test]
    fn members_are_found_by_their_path() {
        let labels = ["metadata", "labels"];
        check(r#"{"metadata":{"labels":{"a":"b"}}}"#, &labels, Ok(Some(r#"{"a":"b"}"#)));
        check(r#"{"metadata":{"labels":null}}"#, &labels, Ok(Some("null")));
        check(r#"{"metadata":null}"#, &labels, Ok(None));
        check(r#"{"metadata":[{"labels":1}]}"#, &labels, Ok(None));
        check("{}", &labels, Ok(None));
        // What only looks like it.
        check(
            r#"{"data":{"metadata":"{\"labels\":{}}"},"labels":{},"metadata":{"annotations":{"labels":"x"}}}"#,
            &labels,
            Ok(None),
        );
        check(
            r#"{"a":[[],{"b":{"metadata":{"labels":1}}}, -1.5e+3 ,true],"metadata":{"a":"\\","labels":2}}"#,
            &labels,
            Ok(Some("2")),
        );
        check(" { \"metadata\" : {\n\"labels\" :\t[ 1 , {} ] } } ", &labels, Ok(Some("[ 1 , {} ]")));
        check(r#"{"met\u0061data":{"l\u0061bels":"x"}}"#, &labels, Ok(Some(r#""x""#)));
        check(r#"{"a":1}"#, &[], Ok(Some(r#"{"a":1}"#)));
        for malformed in [
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{\"a\":1",
            "{\"a\":1]",
            "{\"a\":\"",
            "{,}",
            "{\"a\":{]",
            "{\"\\",
        ] {
            check(malformed, &labels, Err(Malformed));
        }
        check("", &labels, Ok(None));
        check("[]", &labels, Ok(None));
    }

    #[test]
    fn text_is_unescaped() {
        for (value, expected) in [
            (r#""""#, Some("")),
            (r#""plain""#, Some("plain")),
            (r#""\"\\\/\n\u00e4\ud83d\ude00""#, Some("\"\\/\nä😀")),
            (r#""\u""#, None),
            ("1", None),
            ("\"", None),
        ] {
            assert_eq!(text(value.as_bytes()).as_deref(), expected, "{value}");
        }
        assert!(is_text(br"a\u0062", "ab") && is_text(b"ab", "ab") && !is_text(b"ab", "a"));
    }

    #[test]
    fn projections() {
        let text = br#"{"metadata":{"name":"n"},"spec":{"nodeName":"x","a":{"b":[1]}},"status":{"podIPs":[{"ip":"1"}]}}"#;
        let project = |paths: &[&str]| project(text, paths.iter().copied()).unwrap();
        assert_eq!(project(&[]), json!({}));
        assert_eq!(
            project(&["spec.nodeName", "status.podIPs", "status.podIP", "metadata.name.x"]),
            json!({"spec": {"nodeName": "x"}, "status": {"podIPs": [{"ip": "1"}]}})
        );
        assert_eq!(project(&["spec.a.b", "spec.a"]), json!({"spec": {"a": {"b": [1]}}}));
    }

    fn values() -> impl Strategy<Value = Value> {
        let name = prop_oneof![Just("labels".to_owned()), Just("metadata".to_owned()), any::<String>()];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_same_as_parsing(object in values(), pretty in any::<bool>()) {
            let written = if pretty { serde_json::to_vec_pretty(&object) } else { serde_json::to_vec(&object) }.unwrap();
            for path in [&["metadata"][..], &["metadata", "labels"], &["labels", "labels", "metadata"]] {
                let found = member(&written, path).unwrap().map(|found| serde_json::from_slice(found).unwrap());
                let parsed = path.iter().try_fold(&object, |value, name| value.get(name));
                prop_assert_eq!(found.as_ref(), parsed);
            }
            if let Some(members) = object.as_object() {
                let found: Vec<_> = Members::of(&written).map(Result::unwrap).collect();
                prop_assert_eq!(found.len(), members.len());
                for ((name, value), (found_name, found_value)) in members.iter().zip(found) {
                    prop_assert!(is_text(found_name, name));
                    let found_text = text(found_value);
                    prop_assert_eq!(found_text.as_deref(), value.as_str());
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\ 1".to_vec())], 0..80)) {
            let _ = member(&bytes, &["metadata", "labels"]);
            let _ = project(&bytes, ["a.b", ""]);
            let _ = Members::of(&bytes).count();
            let _ = text(&bytes);
        }
    }
}
