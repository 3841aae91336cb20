//! What names a resource in the spec of its object, remembered on the object. Many resources are found by a name that
//! users write; whoever edits it would have another one made and the first one forgotten.

use std::collections::BTreeMap;

use objects::meta;
use provision::{Action, Change, Intent};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Subjected;
use super::scope::Wanted;
use crate::kinds::compare::{same_arn_or_name, tags_field};
use crate::kinds::{Home, KindFacts, calls};
use crate::rules::vocabulary::Verb;

/// Where it stands.
pub(super) const ANNOTATION: &str = "hangar.dev/named";

#[derive(Serialize, Deserialize)]
struct Named {
    /// Of the object it was written on: a copy of the object is not about the same resource.
    uid: String,
    /// Fields of the spec, in published names.
    spec: BTreeMap<String, Value>,
}

/// The names that an object had when its resource was last seen. While one is being made, the spec alone says which.
pub(super) fn recorded(object: &Value) -> BTreeMap<String, Value> {
    let intent = Intent::of(object).ok().flatten();
    if intent.is_some_and(|intent| intent.action != Action::ReplaceDelete) {
        return BTreeMap::new();
    }
    let named =
        meta::annotation(object, ANNOTATION).and_then(|text| serde_json::from_str::<Named>(text).ok());
    let named = named.filter(|named| named.uid == meta::uid(object));
    named.map(|named| named.spec).unwrap_or_default()
}

/// The annotation for a resource that an object names so; none where no field of the spec names it.
pub(super) fn annotation(kind: &KindFacts, object: &Value, wanted: &Wanted) -> Option<String> {
    let named = |name: String| {
        let value = wanted.object.get("spec")?.get(&name)?;
        (value.is_string() || value.is_number()).then(|| (name, value.clone()))
    };
    let mut names = asked_by(kind);
    // What its id or ARN finds is not found by what the rules call a key.
    let nameless = wanted.unnamed();
    if nameless.scope(kind, None).is_ok_and(|scope| calls::read(kind, &scope).is_none()) {
        names.extend(keys(kind));
    }
    let spec: BTreeMap<String, Value> = names.into_iter().filter_map(named).collect();
    if spec.is_empty() {
        return None;
    }
    serde_json::to_string(&Named { uid: meta::uid(object).to_owned(), spec }).ok()
}

/// The fields of the spec that the reading call is asked by, by their published names.
fn asked_by(kind: &KindFacts) -> Vec<String> {
    let Ok(translator) = kind.translator() else { return Vec::new() };
    let tags = tags_field(kind);
    let mut names = Vec::new();
    match &kind.rules.read {
        Some(call) => spec_words(&call.send, &mut names),
        None => {
            let operation = kind.reading_operation().into_iter();
            let sent = operation.flat_map(|operation| translator.sent_fields(operation, Verb::Read));
            let sent = sent.filter(|field| field.home == Home::Spec && tags.as_ref() != Some(&field.word));
            names.extend(sent.map(|field| field.name.clone()));
        }
    }
    names
}

/// The fields of the spec that the rules call keys, or that pick the resource out of a list.
fn keys(kind: &KindFacts) -> Vec<String> {
    let Ok(plan) = kind.plan() else { return Vec::new() };
    let keys = kind.rules.fields.iter().filter(|(_, rule)| rule.value.key).map(|(word, _)| word);
    let words = keys.chain(kind.rules.matching.iter().map(|word| &word.value));
    let fields = words.filter_map(|word| plan.field(word));
    fields.filter(|field| field.home == Home::Spec).map(|field| field.name.clone()).collect()
}

/// The fields that `$spec.…` names in a tree.
fn spec_words(tree: &Value, names: &mut Vec<String>) {
    match tree {
        Value::String(text) => {
            for part in text.split("spec.").skip(1) {
                let end = part.find(|one: char| !one.is_alphanumeric()).unwrap_or(part.len());
                names.push(part[..end].to_owned());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| spec_words(item, names)),
        Value::Object(members) => members.values().for_each(|member| spec_words(member, names)),
        _ => {}
    }
}

/// Adds the changes of names to those that were found: none of them can be made in place.
pub(super) fn add_changes(subject: &Subjected<'_>, changes: &mut Vec<Change>) {
    for (name, from) in recorded(subject.object) {
        let to = subject.desired.get("spec").and_then(|spec| spec.get(&name)).cloned().unwrap_or_default();
        if !same_arn_or_name(&to, &from) {
            let path = format!("spec.{name}");
            changes.retain(|change| change.path != path);
            changes.push(Change { replaces: true, ..Change::new(path, from, to) });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_in_specs() {
        let check = |(service, kind): (&str, &str), object: Value, expected: Value| {
            let kind = crate::kinds::find(service, kind).unwrap();
            let wanted = Wanted { object: object.clone(), meta: BTreeMap::new() };
            let mut object = json!({"metadata": {"uid": "u"}});
            let named = annotation(kind, &object, &wanted);
            object["metadata"]["annotations"] = json!({ANNOTATION: named});
            assert_eq!(json!(recorded(&object)), expected, "{kind:?}");
            object["metadata"]["uid"] = "copy".into();
            assert_eq!(recorded(&object), BTreeMap::new());
        };
        check(("iam", "Role"), json!({"spec": {"name": "r", "path": "/"}}), json!({"name": "r"}));
        check(("dynamodb", "Table"), json!({"spec": {"tableName": "t"}}), json!({"tableName": "t"}));
        let service = json!({"spec": {"cluster": "c", "name": "s", "desiredCount": 1}});
        check(("ecs", "Service"), service, json!({"cluster": "c", "name": "s"}));
        let queue = json!({"spec": {"queueName": "q"}, "status": {"queueURL": "u"}});
        check(("sqs", "Queue"), queue, json!({}));
        // Can be given another name.
        let baseline = json!({"spec": {"name": "b"}, "status": {"baselineID": "pb-1"}});
        check(("ssm", "PatchBaseline"), baseline, json!({}));
    }
}
