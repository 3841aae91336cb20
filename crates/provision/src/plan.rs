//! What would have to be done, as plain values: changes by field, and the calls that make them.
//!
//! Planning and executing are apart: drivers make plans, this module says what may be done of one (what converges,
//! what drifted, what somebody has to approve), the engine executes the rest, and anybody can look at one.

pub mod drift;
pub mod guard;

use std::collections::BTreeSet;

use auth::Secret;
use objects::Value;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::facts::Facts;
use crate::paths;

/// A field that is not as desired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Such as `spec.tags` or `spec.rules[2].port`.
    pub path: String,
    /// As it is; null if it is not set. Nothing of a sensitive field.
    pub from: Value,
    /// As it should be; null if it should not be set, [`LATER`] if only the cloud will know. Nothing of a sensitive field.
    pub to: Value,
    #[serde(skip_serializing_if = "is_false")]
    pub sensitive: bool,
    /// Cannot be changed in place: the resource has to be replaced.
    #[serde(skip_serializing_if = "is_false")]
    pub replaces: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Change {
    pub fn new(path: impl Into<String>, from: Value, to: Value) -> Change {
        Change { path: path.into(), from, to, sensitive: false, replaces: false }
    }

    /// Of a field whose values must not be seen.
    pub fn sensitive(path: impl Into<String>) -> Change {
        Change { sensitive: true, ..Change::new(path, Value::Null, Value::Null) }
    }

    /// The same field with the same values on both sides has the same fingerprint.
    pub fn fingerprint(&self) -> String {
        digest(&json!([self.path, self.from, self.to]))
    }
}

/// Short enough for an annotation, long enough not to meet another by chance.
fn digest(value: &Value) -> String {
    let hash = Sha256::digest(value.to_string().as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Stands for a value that is not known before the cloud has chosen it.
pub const LATER: &str = "(known after apply)";

/// What a driver would do about an object.
#[derive(Clone, Debug)]
pub struct Plan<N> {
    /// Of a resource that is not there yet, what it would have, for people to look at; a driver that knows no more of it
    /// than the object says leaves it empty.
    pub changes: Vec<Change>,
    /// The calls that would be made, as the cloud calls them: `s3:PutBucketTagging`.
    pub calls: Vec<String>,
    /// All that is asked for, with what came from Secrets and other objects, as far as the engine did not fetch it for
    /// the driver: if it is another than was applied, somebody edited it. Only a keyed hash of it is kept.
    pub asked: Secret<Vec<u8>>,
    /// For the driver itself.
    pub note: N,
}

impl<N> Plan<N> {
    pub fn new(changes: Vec<Change>, calls: Vec<String>, note: N) -> Plan<N> {
        Plan { changes, calls, asked: Secret::new(Vec::new()), note }
    }

    #[must_use]
    pub fn asking(self, asked: Vec<u8>) -> Plan<N> {
        Plan { asked: Secret::new(asked), ..self }
    }

    /// Whether any change can only be made by replacing the resource.
    pub fn replaces(&self) -> bool {
        self.changes.iter().any(|change| change.replaces)
    }
}

/// What would be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    Nothing,
    Create,
    Adopt,
    Update,
    Replace,
    Delete,
    /// Only the object goes; the resource stays.
    Release,
}

/// A plan for people and programs to look at. No secrets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    pub verb: Verb,
    /// Where: account and region, or provider.
    pub place: String,
    pub changes: Vec<Change>,
    pub calls: Vec<String>,
    /// What is to be known beside it: fields that do not converge, what is waited for.
    pub remarks: Vec<String>,
}

impl Preview {
    /// What somebody approves of: the same plan has the same one.
    pub fn fingerprint(&self) -> String {
        digest(&json!([self.verb, self.place, self.changes, self.calls]))
    }
}

/// Values in messages are for orientation; the object and the cloud have them in full.
pub fn brief(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// What a resource that is not there yet would have by the spec of its object, field by field.
pub(crate) fn settings(facts: &Facts, desired: &Value) -> Vec<Change> {
    let secrets = facts.secrets.iter().flat_map(|secret| paths::places(desired, &secret.field)).collect();
    let mut found = Vec::new();
    set(desired, "/spec".to_owned(), &secrets, &mut found);
    found
}

fn set(desired: &Value, pointer: String, secrets: &BTreeSet<String>, found: &mut Vec<Change>) {
    let path = || paths::dotted(desired, &pointer);
    match desired.pointer(&pointer) {
        _ if secrets.contains(&pointer) => found.push(Change::sensitive(path())),
        None | Some(Value::Null) => {}
        Some(Value::Object(fields)) => {
            for name in fields.keys() {
                let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                set(desired, inner, secrets, found);
            }
        }
        Some(Value::Array(elements)) if elements.iter().any(Value::is_object) => {
            (0..elements.len()).for_each(|at| set(desired, format!("{pointer}/{at}"), secrets, found));
        }
        Some(value) => found.push(Change::new(path(), Value::Null, value.clone())),
    }
}

/// One line for each change, such as `spec.size: wanted 3, found 2`.
pub fn describe(changes: &[Change]) -> String {
    let one = |change: &Change| match change.sensitive {
        true => format!("{}: differs", change.path),
        false => format!("{}: wanted {}, found {}", change.path, brief(&change.to), brief(&change.from)),
    };
    changes.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Why changes are refused that only a replacement can make.
pub fn unchangeable(changes: &[Change]) -> String {
    let fields: Vec<&str> =
        changes.iter().filter(|change| change.replaces).map(|change| change.path.as_str()).collect();
    let (fields, annotation) = (fields.join(", "), crate::policies::REPLACE_POLICY);
    format!(
        "{fields} cannot be changed in place; change it back, delete the object, or set the annotation {annotation} to replace the resource"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_and_descriptions() {
        let change = Change::new("spec.a", json!(1), json!(2));
        assert_eq!(change.fingerprint(), change.clone().fingerprint());
        assert_ne!(change.fingerprint(), Change::new("spec.a", json!(1), json!(3)).fingerprint());
        assert_eq!(
            describe(&[change, Change::sensitive("spec.p")]),
            "spec.a: wanted 2, found 1; spec.p: differs"
        );
        assert_eq!(brief(&json!("x".repeat(100))).chars().count(), 61);
    }

    #[test]
    fn what_a_new_resource_would_have() {
        let dialect = std::sync::Arc::new(crate::dialect::ack::Ack::default());
        let mut facts =
            Facts::new("things.example.com", "Thing", "example", "example.com/finalizer", dialect);
        facts.secrets = vec![crate::facts::SecretField { field: "spec.users[].password".to_owned() }];
        let desired = json!({"spec": {
            "name": "a", "none": null, "zones": ["x", "y"], "tags": {"a/b": "c"},
            "users": [{"name": "u", "password": {"name": "secret", "key": "k"}}],
        }});
        let found = settings(&facts, &desired).into_iter().map(|one| (one.path, one.to, one.sensitive));
        let expected = [
            ("spec.name", json!("a"), false),
            ("spec.tags.a/b", json!("c"), false),
            ("spec.users[0].name", json!("u"), false),
            ("spec.users[0].password", Value::Null, true),
            ("spec.zones", json!(["x", "y"]), false),
        ];
        let expected = expected.map(|(path, to, sensitive)| (path.to_owned(), to, sensitive));
        let mut found: Vec<_> = found.collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(found, expected);
    }
}
