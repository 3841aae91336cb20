//! What calls are made of: the object with its secrets, its identity, its tags.

use std::collections::BTreeMap;

use objects::meta;
use provision::Failure;
use provision::dialect::ack::ADOPTION_POLICY;
use serde_json::{Map, Value};

use super::{Note, Subjected, identity};
use crate::kinds::compare::{tag_words, tags_field};
use crate::kinds::send::Scope;
use crate::kinds::{KindFacts, tags};

/// The object as it is wanted, with the values of its secret fields in their places. Never logged, never stored.
pub(super) struct Wanted {
    pub object: Value,
    pub meta: BTreeMap<&'static str, String>,
}

pub(super) fn wanted(subject: &Subjected<'_>) -> Wanted {
    let mut object = subject.desired.clone();
    // What the resource is called does not change with the object.
    for (name, value) in identity::recorded(subject.object) {
        put(&mut object, &["spec", &name], value);
    }
    for field in subject.secrets.fields() {
        if let Some(secret) = subject.secrets.get(field) {
            let path = field.replace('[', ".").replace(']', "");
            put(&mut object, &path.split('.').collect::<Vec<_>>(), secret.expose().as_str().into());
        }
    }
    let place = &subject.connection.place;
    let arn = object.pointer("/status/ackResourceMetadata/arn").and_then(Value::as_str).unwrap_or_default();
    let meta = BTreeMap::from([
        ("arn", arn.to_owned()),
        ("account", place.account.to_string()),
        ("region", place.region.to_string()),
        ("partition", place.partition.to_string()),
        ("name", meta::name(subject.object).to_owned()),
        ("namespace", meta::namespace(subject.object).to_owned()),
        ("uid", meta::uid(subject.object).to_owned()),
    ]);
    Wanted { object, meta }
}

impl Wanted {
    /// The same object with what was found of its identity.
    pub fn identified(&self, status: &Value, arn: Option<&str>) -> Wanted {
        let mut object = self.object.clone();
        let mut meta = self.meta.clone();
        if let (Some(known), Value::Object(status)) = (object.get_mut("status"), status) {
            if let Some(known) = known.as_object_mut() {
                known.extend(status.clone());
            }
        } else if let (Value::Object(members), true) = (&mut object, status.is_object()) {
            members.insert("status".to_owned(), status.clone());
        }
        if let Some(arn) = arn {
            put(&mut object, &["status", "ackResourceMetadata", "arn"], arn.into());
            meta.insert("arn", arn.to_owned());
        }
        Wanted { object, meta }
    }

    /// The same object as it is before anything is made of it.
    pub fn unidentified(&self) -> Wanted {
        let (mut object, mut meta) = (self.object.clone(), self.meta.clone());
        object["status"] = Value::Null;
        meta.insert("arn", String::new());
        Wanted { object, meta }
    }

    /// The same object with nothing but what was found of its identity.
    pub fn unnamed(&self) -> Wanted {
        let mut object = self.object.clone();
        object["spec"] = Value::Null;
        Wanted { object, meta: self.meta.clone() }
    }

    /// What rules look words up in.
    pub fn scope<'a>(&'a self, kind: &'a KindFacts, note: Option<&'a Note>) -> Result<Scope<'a>, Failure> {
        let translator = kind.translator().map_err(|error| Failure::terminal(error.to_string()))?;
        Ok(Scope {
            translator,
            object: &self.object,
            observed: note.map(|note| &note.observed),
            meta: &self.meta,
            answer: note.map(|note| &note.answer),
            reply: note.map(|note| &note.reply),
            lists: note.map(|note| &note.lists),
            field: None,
            now: BTreeMap::new(),
        })
    }
}

/// Puts a value at a path, making what is missing on the way.
pub(super) fn put(value: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if let Value::Array(items) = value {
        if let Some(item) = first.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
            put(item, rest, new);
        }
        return;
    }
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(members) = value {
        put(members.entry(*first).or_insert(Value::Null), rest, new);
    }
}

/// Whether a resource is to be taken over as it is: then it gets no tags that nobody asked for.
pub(super) fn is_taken_over(object: &Value) -> bool {
    meta::annotation(object, ADOPTION_POLICY) == Some("adopt")
}

/// Where the tags of a kind stand, and whether they are a map.
fn tags_place(kind: &KindFacts) -> Option<(Vec<String>, bool)> {
    let word = tags_field(kind)?;
    let plan = kind.plan().ok()?;
    let mut words = word.split('.');
    let field = plan.field(words.next()?)?;
    let mut path = vec!["spec".to_owned(), field.name.clone()];
    path.extend(words.map(crate::crd::names::published));
    let translator = kind.translator().ok()?;
    let is_map = path.len() == 2 && translator.tags_value(field, &Value::Array(Vec::new())).is_object();
    Some((path, is_map))
}

/// Adds tags to those of an object; the object's own win.
pub(super) fn add_tags(kind: &KindFacts, object: &mut Value, more: BTreeMap<String, String>) {
    if more.is_empty() {
        return;
    }
    change_tags(kind, object, |own| tags::with_defaults(&own, &more));
}

/// Takes the tags of AWS and those that `ours` knows out of an object.
pub(super) fn remove_tags(kind: &KindFacts, object: &mut Value, ours: impl Fn(&str) -> bool) {
    change_tags(kind, object, |mut own| {
        own.retain(|key, _| !tags::is_system(key) && !ours(key));
        own
    });
}

fn change_tags(
    kind: &KindFacts,
    object: &mut Value,
    change: impl FnOnce(BTreeMap<String, String>) -> BTreeMap<String, String>,
) {
    let Some((path, is_map)) = tags_place(kind) else { return };
    let (key, value) = tag_words(kind);
    let pointer = format!("/{}", path.join("/"));
    let before = object.pointer(&pointer);
    let had = before.is_some_and(|tags| !tags.is_null());
    let own = tags::as_map(before.unwrap_or(&Value::Null), &key, &value);
    let changed = change(own.clone());
    if changed == own || changed.is_empty() && !had {
        return;
    }
    let new = if is_map { tags::as_object(&changed) } else { tags::as_list(&changed, &key, &value) };
    put(object, &path.iter().map(String::as_str).collect::<Vec<_>>(), new);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::find;

    #[test]
    fn tags_come_and_go() {
        let defaults =
            || BTreeMap::from([("d".to_owned(), "1".to_owned()), ("own".to_owned(), "2".to_owned())]);
        let check = |service, kind, object: Value, expected: Value| {
            let kind = find(service, kind).unwrap();
            let mut changed = object.clone();
            add_tags(kind, &mut changed, defaults());
            assert_eq!(changed, expected);
        };
        check(
            "sqs",
            "Queue",
            json!({"spec": {"tags": {"own": "x"}}}),
            json!({"spec": {"tags": {"d": "1", "own": "x"}}}),
        );
        let list = json!([{"key": "d", "value": "1"}, {"key": "own", "value": "2"}]);
        check("iam", "Role", json!({"spec": {}}), json!({"spec": {"tags": list}}));
        check("s3", "Bucket", json!({"spec": {}}), json!({"spec": {"tagging": {"tagSet": list}}}));
        check("sns", "Subscription", json!({"spec": {}}), json!({"spec": {}}));
        let mut found =
            json!({"spec": {"tags": [{"key": "aws:x", "value": "1"}, {"key": "a", "value": "2"}]}});
        remove_tags(find("iam", "Role").unwrap(), &mut found, |key| key == "d");
        assert_eq!(found, json!({"spec": {"tags": [{"key": "a", "value": "2"}]}}));
    }

    #[test]
    fn values_are_put_where_they_belong() {
        let mut value = json!({"spec": {"users": [{"name": "a"}]}});
        put(&mut value, &["spec", "users", "0", "password"], json!("p"));
        put(&mut value, &["status", "id"], json!("i"));
        assert_eq!(
            value,
            json!({"spec": {"users": [{"name": "a", "password": "p"}]}, "status": {"id": "i"}})
        );
    }
}
