//! Wrong objects and what is said of them.
//!
//! Each case goes the way of a request: defaults, preparation, validation.

mod others;
mod pods;
mod updates;
mod workloads;

use objects::Value;
use serde_json::json;

use crate::behaviour::{behaviour, kinds};
use crate::dotted::Dotted;

/// What is said of a new object.
fn said_of(group: &str, kind: &str, object: Value) -> Vec<String> {
    let behaviour = behaviour(group, kind);
    let mut object = object;
    if !object.has("metadata.name") {
        object.put("metadata.name", "it");
        object.put("metadata.uid", "u1");
    }
    behaviour.defaults(&mut object);
    behaviour.prepare_create(&mut object);
    behaviour.validate(&object).iter().map(ToString::to_string).collect()
}

/// A new object is refused for exactly these reasons.
fn check(group: &str, kind: &str, object: Value, expected: &[&str]) {
    assert_eq!(said_of(group, kind, object.clone()), expected, "{kind} {object}");
}

/// A change from one object to another is refused for exactly these reasons.
fn check_update(group: &str, kind: &str, old: Value, new: Value, expected: &[&str]) {
    let behaviour = behaviour(group, kind);
    let (mut old, mut new) = (old, new);
    for object in [&mut old, &mut new] {
        object.put("metadata.name", "it");
        object.put("metadata.uid", "u1");
        behaviour.defaults(object);
    }
    behaviour.prepare_create(&mut old);
    behaviour.prepare_update(&mut new, &old);
    let said: Vec<String> = behaviour.validate_update(&new, &old).iter().map(ToString::to_string).collect();
    assert_eq!(said, expected, "{kind} {new}");
}

#[test]
fn nothing_panics() {
    let odd = [
        json!(null),
        json!([1]),
        json!({"metadata": 1, "spec": [], "status": "x", "data": 4, "rules": {}, "webhooks": [1, null]}),
        json!({"spec": {"containers": [1, null, {"ports": 3, "env": [[]]}], "template": [], "ports": [null], "volumes": ["x"]}}),
    ];
    for (group, kind) in kinds() {
        for (new, old) in odd.iter().flat_map(|new| odd.iter().map(move |old| (new, old))) {
            let behaviour = behaviour(group, kind);
            behaviour.validate(new);
            behaviour.validate_update(new, old);
            behaviour.validate_status_update(new, old);
        }
    }
}
