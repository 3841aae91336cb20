//! Paths of fields: `spec.rules[].groupID` names a field of every rule; `spec.rules[2].groupID` is one of them.
//!
//! A place in an object is a JSON pointer; what people read is the dotted path.

use objects::Value;

enum Step<'a> {
    Name(&'a str),
    Each,
    Index(usize),
}

fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split('.').flat_map(|part| {
        let (name, brackets) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
        let indexes =
            brackets.split('[').map(|one| one.trim_end_matches(']')).filter(move |_| !brackets.is_empty());
        let indexes = indexes.map(|one| one.parse().map_or(Step::Each, Step::Index));
        (!name.is_empty()).then_some(Step::Name(name)).into_iter().chain(indexes)
    })
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The value at a path without `[]`.
pub fn get<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).try_fold(value, |value, step| match step {
        Step::Name(name) => value.get(name),
        Step::Index(index) => value.get(index),
        Step::Each => None,
    })
}

/// Pointers to everything that is at a path.
pub fn places(value: &Value, path: &str) -> Vec<String> {
    let mut here = vec![(String::new(), value)];
    for step in steps(path) {
        here = here
            .into_iter()
            .flat_map(|(pointer, value)| -> Vec<(String, &Value)> {
                match step {
                    Step::Name(name) => {
                        let inner = value.get(name);
                        inner
                            .map(|inner| (format!("{pointer}/{}", escape(name)), inner))
                            .into_iter()
                            .collect()
                    }
                    Step::Index(index) => {
                        let inner = value.get(index);
                        inner.map(|inner| (format!("{pointer}/{index}"), inner)).into_iter().collect()
                    }
                    Step::Each => {
                        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                        list.iter().enumerate().map(|(i, inner)| (format!("{pointer}/{i}"), inner)).collect()
                    }
                }
            })
            .collect();
    }
    here.into_iter().filter(|(_, value)| !value.is_null()).map(|(pointer, _)| pointer).collect()
}

/// A pointer as people read it. Numbers are taken for indexes where they stand in lists of `value`.
pub fn dotted(value: &Value, pointer: &str) -> String {
    let (mut here, mut path) = (Some(value), String::new());
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        if here.is_some_and(Value::is_array) {
            path.push_str(&format!("[{name}]"));
            here = here.and_then(|list| list.get(name.parse::<usize>().ok()?));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&name);
            here = here.and_then(|object| object.get(&name));
        }
    }
    path
}

/// The last name of a path, without `[]`.
pub fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path).split('[').next().unwrap_or("")
}

/// The place of a sibling of what is at a pointer.
pub fn sibling(pointer: &str, name: &str) -> String {
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    format!("{parent}/{}", escape(name))
}

/// Sets a value; the parent has to be there.
pub fn set(value: &mut Value, pointer: &str, new: Value) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.insert(name, new)),
        Some(Value::Array(list)) => {
            if let Some(slot) = name.parse::<usize>().ok().and_then(|index| list.get_mut(index)) {
                *slot = new;
            }
        }
        _ => {}
    }
}

pub fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(map)) = value.pointer_mut(parent) {
        map.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finding() {
        let object = json!({"spec": {"a": {"b": 1}, "rules": [{"id": "x"}, {}, {"id": "y"}], "list": [1, 2], "n": null}});
        for (path, expected) in [
            ("spec.a.b", vec!["/spec/a/b"]),
            ("spec.rules[].id", vec!["/spec/rules/0/id", "/spec/rules/2/id"]),
            ("spec.rules[2].id", vec!["/spec/rules/2/id"]),
            ("spec.list[]", vec!["/spec/list/0", "/spec/list/1"]),
            ("spec.none.b", vec![]),
            ("spec.n", vec![]),
            ("spec.a[]", vec![]),
        ] {
            assert_eq!(places(&object, path), expected, "{path}");
        }
        assert_eq!(get(&object, "spec.rules[2].id"), Some(&json!("y")));
        assert_eq!(get(&object, "spec.rules[].id"), None);
        assert_eq!(dotted(&object, "/spec/rules/0/id"), "spec.rules[0].id");
        assert_eq!(sibling("/spec/rules/0/idRef", "id"), "/spec/rules/0/id");
        assert_eq!((last("spec.rules[].id"), last("spec.list[]")), ("id", "list"));
    }

    #[test]
    fn writing() {
        let mut object = json!({"spec": {"rules": [{"id": "x"}]}});
        set(&mut object, "/spec/rules/0/id", json!("z"));
        set(&mut object, "/spec/absent/id", json!("z"));
        remove(&mut object, "/spec/rules/0/none");
        assert_eq!(object, json!({"spec": {"rules": [{"id": "z"}]}}));
        remove(&mut object, "/spec/rules/0/id");
        assert_eq!(object, json!({"spec": {"rules": [{}]}}));
    }
}
