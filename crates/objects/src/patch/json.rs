//! JSON patch, RFC 6902, with the liberties of the library upstream uses: negative indices count from the end, and a
//! `test` for null passes where there is nothing.

use serde_json::{Map, Value};

use super::PatchError;
use crate::equal;

/// How many operations one patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// How many bytes all `copy` operations of a patch may add, so that repeated copies cannot double a document at will.
pub const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Applies a patch to a document, whole or not at all.
pub fn json(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = patch
        .as_array()
        .ok_or_else(|| PatchError::Malformed("a JSON patch is a list of operations".to_owned()))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { max: MAX_OPERATIONS, got: operations.len() });
    }
    let mut document = document.clone();
    let mut copied = 0;
    for operation in operations {
        apply(&mut document, Operation::read(operation)?, &mut copied)?;
    }
    Ok(document)
}

enum Operation<'a> {
    Add(Pointer, &'a Value),
    Replace(Pointer, &'a Value),
    Test(Pointer, &'a Value),
    Remove(Pointer),
    Move { from: Pointer, to: Pointer },
    Copy { from: Pointer, to: Pointer },
}

impl<'a> Operation<'a> {
    fn read(operation: &'a Value) -> Result<Self, PatchError> {
        let malformed = |what: &str| PatchError::Malformed(format!("Unexpected kind: {what}: {operation}"));
        let fields = operation.as_object().ok_or_else(|| malformed("an operation is an object"))?;
        let pointer = |field: &str| {
            let text = fields.get(field).and_then(Value::as_str);
            text.map(Pointer::parse).ok_or_else(|| malformed(&format!("operation missing {field} field")))?
        };
        let value = || fields.get("value").ok_or_else(|| malformed("operation missing value field"));
        Ok(match fields.get("op").and_then(Value::as_str) {
            Some("add") => Operation::Add(pointer("path")?, value()?),
            Some("replace") => Operation::Replace(pointer("path")?, value()?),
            // Without a value it is a test for null.
            Some("test") => Operation::Test(pointer("path")?, fields.get("value").unwrap_or(&Value::Null)),
            Some("remove") => Operation::Remove(pointer("path")?),
            Some("move") => Operation::Move { from: pointer("from")?, to: pointer("path")? },
            Some("copy") => Operation::Copy { from: pointer("from")?, to: pointer("path")? },
            // Found when the patch is applied, upstream, and so not a patch that cannot be read.
            Some(other) => return Err(PatchError::DoesNotApply(format!("unknown operation {other:?}"))),
            None => return Err(malformed("operation missing op field")),
        })
    }
}

fn apply(document: &mut Value, operation: Operation<'_>, copied: &mut usize) -> Result<(), PatchError> {
    match operation {
        Operation::Add(path, value) => add(document, &path, value.clone()),
        Operation::Remove(path) => remove(document, &path).map(|_| ()),
        Operation::Replace(path, value) => match find(document, &path) {
            Some(old) => {
                old.clone_from(value);
                Ok(())
            }
            None => Err(does_not_apply("replace", &path)),
        },
        Operation::Test(path, value) => match find(document, &path) {
            Some(found) if equal::semantic(found, value) => Ok(()),
            None if value.is_null() => Ok(()),
            _ => Err(PatchError::Test { path: path.text }),
        },
        Operation::Move { from, to } => {
            if to.is_inside(&from) {
                return Err(does_not_apply("move", &to));
            }
            let value = remove(document, &from)?;
            add(document, &to, value)
        }
        Operation::Copy { from, to } => {
            let value = find(document, &from).ok_or_else(|| does_not_apply("copy", &from))?.clone();
            *copied = copied.saturating_add(size(&value));
            if *copied > MAX_COPIED {
                return Err(PatchError::CopiesTooMuch { max: MAX_COPIED, got: *copied });
            }
            add(document, &to, value)
        }
    }
}

fn does_not_apply(operation: &str, path: &Pointer) -> PatchError {
    PatchError::DoesNotApply(format!(
        "{operation} operation does not apply: doc is missing path: {:?}",
        path.text
    ))
}

/// A JSON pointer (RFC 6901), its segments unescaped.
struct Pointer {
    text: String,
    segments: Vec<String>,
}

impl Pointer {
    fn parse(text: &str) -> Result<Self, PatchError> {
        let mut segments = text.split('/');
        if segments.next() != Some("") {
            return Err(PatchError::Malformed(format!("a path begins with a slash, not {text:?}")));
        }
        let segments = segments.map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect();
        Ok(Pointer { text: text.to_owned(), segments })
    }

    /// Whether it points into what another points at.
    fn is_inside(&self, other: &Pointer) -> bool {
        self.segments.len() > other.segments.len() && self.segments.starts_with(&other.segments)
    }
}

/// The place of an element in a list of this many places. Negative ones count from the end.
fn index(segment: &str, places: usize) -> Option<usize> {
    let digits = segment.strip_prefix('-').unwrap_or(segment);
    let plain = digits == "0" || !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    let number = segment.parse::<i64>().ok().filter(|_| plain)?;
    let place = if number < 0 { i64::try_from(places).ok()?.checked_add(number)? } else { number };
    usize::try_from(place).ok().filter(|place| *place < places)
}

fn child<'v>(value: &'v mut Value, segment: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(fields) => fields.get_mut(segment),
        Value::Array(items) => {
            let at = index(segment, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    }
}

fn find<'v>(document: &'v mut Value, path: &Pointer) -> Option<&'v mut Value> {
    path.segments.iter().try_fold(document, |value, segment| child(value, segment))
}

/// The container a pointer's last segment names a place in.
fn parent<'v, 'p>(document: &'v mut Value, path: &'p Pointer) -> Option<(&'v mut Value, &'p str)> {
    let (last, before) = path.segments.split_last()?;
    let container = before.iter().try_fold(document, |value, segment| child(value, segment))?;
    Some((container, last))
}

fn add(document: &mut Value, path: &Pointer, value: Value) -> Result<(), PatchError> {
    if path.segments.is_empty() {
        *document = value;
        return Ok(());
    }
    match parent(document, path) {
        Some((Value::Object(fields), name)) => {
            fields.insert(name.to_owned(), value);
            Ok(())
        }
        Some((Value::Array(items), "-")) => {
            items.push(value);
            Ok(())
        }
        Some((Value::Array(items), segment)) => {
            let at = index(segment, items.len() + 1).ok_or_else(|| does_not_apply("add", path))?;
            items.insert(at, value);
            Ok(())
        }
        _ => Err(does_not_apply("add", path)),
    }
}

fn remove(document: &mut Value, path: &Pointer) -> Result<Value, PatchError> {
    let removed = match parent(document, path) {
        Some((Value::Object(fields), name)) => fields.remove(name),
        Some((Value::Array(items), segment)) => index(segment, items.len()).map(|at| items.remove(at)),
        _ => None,
    };
    removed.ok_or_else(|| does_not_apply("remove", path))
}

/// About how many bytes a value takes as JSON.
fn size(value: &Value) -> usize {
    let fields = |fields: &Map<String, Value>| {
        fields.iter().map(|(key, value)| key.len() + 4 + size(value)).sum::<usize>()
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + size(item)).sum::<usize>(),
        Value::Object(object) => 2 + fields(object),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json as value;

    use super::*;

    #[track_caller]
    fn check(document: Value, patch: Value, expected: Value) {
        assert_eq!(json(&document, &patch), Ok(expected), "{patch}");
    }

    #[track_caller]
    fn refused(document: Value, patch: Value, message: &str) -> PatchError {
        let error = json(&document, &patch).expect_err(&patch.to_string());
        assert!(error.to_string().contains(message), "{error}");
        error
    }

    #[test]
    fn operations() {
        check(value!({"a": 1}), value!([]), value!({"a": 1}));
        check(
            value!({"a": 1}),
            value!([{"op": "add", "path": "/b", "value": [2]}]),
            value!({"a": 1, "b": [2]}),
        );
        check(value!({"a": 1}), value!([{"op": "add", "path": "/a", "value": null}]), value!({"a": null}));
        check(
            value!({"a": [1, 3]}),
            value!([{"op": "add", "path": "/a/1", "value": 2}]),
            value!({"a": [1, 2, 3]}),
        );
        check(value!({"a": [1]}), value!([{"op": "add", "path": "/a/-", "value": 2}]), value!({"a": [1, 2]}));
        check(
            value!({"a": [1]}),
            value!([{"op": "add", "path": "/a/-1", "value": 2}]),
            value!({"a": [1, 2]}),
        );
        check(value!({"a": [1, 2]}), value!([{"op": "remove", "path": "/a/-1"}]), value!({"a": [1]}));
        check(value!({"a": 1, "b": 2}), value!([{"op": "remove", "path": "/a"}]), value!({"b": 2}));
        check(value!({"a": 1}), value!([{"op": "replace", "path": "/a", "value": {}}]), value!({"a": {}}));
        check(value!({"a": 1}), value!([{"op": "replace", "path": "", "value": {}}]), value!({}));
        check(
            value!({"a": {"b": 1}}),
            value!([{"op": "move", "from": "/a/b", "path": "/c"}]),
            value!({"a": {}, "c": 1}),
        );
        check(
            value!({"a": 1}),
            value!([{"op": "copy", "from": "/a", "path": "/b"}]),
            value!({"a": 1, "b": 1}),
        );
        check(
            value!({"a/b": 1, "c~d": 2}),
            value!([{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/c~0d"}]),
            value!({}),
        );
        check(value!({"a": 1}), value!([{"op": "test", "path": "/a", "value": 1.0}]), value!({"a": 1}));
        check(value!({}), value!([{"op": "test", "path": "/a", "value": null}]), value!({}));
    }

    #[test]
    fn refusals() {
        refused(value!({}), value!({}), "list of operations");
        refused(value!({}), value!([{"op": "jump", "path": "/a"}]), "unknown operation \"jump\"");
        refused(value!({}), value!([{"op": "add", "path": "/a"}]), "missing value");
        refused(value!({}), value!([{"op": "add", "path": "a", "value": 1}]), "begins with a slash");
        refused(
            value!({}),
            value!([{"op": "remove", "path": "/a"}]),
            "remove operation does not apply: doc is missing path: \"/a\"",
        );
        refused(value!({}), value!([{"op": "remove", "path": ""}]), "does not apply");
        refused(value!({}), value!([{"op": "replace", "path": "/a", "value": 1}]), "does not apply");
        refused(value!({}), value!([{"op": "add", "path": "/a/b", "value": 1}]), "does not apply");
        refused(value!([1]), value!([{"op": "add", "path": "/2", "value": 1}]), "does not apply");
        refused(value!([1]), value!([{"op": "add", "path": "/01", "value": 1}]), "does not apply");
        refused(value!({"a": {}}), value!([{"op": "move", "from": "/a", "path": "/a/b"}]), "does not apply");
        let failed = refused(
            value!({"a": 1}),
            value!([{"op": "test", "path": "/a", "value": 2}]),
            "testing value /a failed",
        );
        assert_eq!(failed.status().code, 422);
        let many = Value::Array(vec![value!({"op": "test", "path": "/a"}); MAX_OPERATIONS + 1]);
        assert_eq!(
            refused(value!({}), many, "maximum operations in a JSON patch is 10000, got 10001").status().code,
            413
        );
        let doubling = Value::Array(vec![value!({"op": "copy", "from": "/a", "path": "/a/-"}); 40]);
        refused(value!({"a": ["xxxxxxxxxxxxxxxx"]}), doubling, "exceeding the limit 3145728");
    }

    proptest! {
        #[test]
        fn no_path_makes_it_panic(path in "(/[a~01\\-9]{0,3}){0,4}", op in "add|remove|replace|test|move|copy") {
            let patch = value!([{"op": op, "path": path, "from": "/a", "value": 1}]);
            let _ = json(&value!({"a": [1, {"a": 2}], "0": {}}), &patch);
        }

        #[test]
        fn what_is_added_is_found_and_can_be_removed(name in any::<String>()) {
            let path = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            let added = json(&value!({}), &value!([{"op": "add", "path": path, "value": 1}])).unwrap();
            prop_assert_eq!(added.get(&name), Some(&value!(1)));
            prop_assert_eq!(json(&added, &value!([{"op": "remove", "path": path}])), Ok(value!({})));
        }
    }
}
