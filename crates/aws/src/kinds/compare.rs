//! What differs between an object as it is wanted and as it is, field by field.
//!
//! Pure: values in, changes out. A field that the spec leaves empty is not different, whatever AWS has there: most
//! calls cannot say "empty", so a change that nobody could make would be planned again and again. Where they can, the
//! rules say how (`clear`), and in parts, collections and tags empty means none.

use serde_json::{Map, Value};

use super::fields::{Field, Home, Type};
use super::sites::{Literal, Site};
use super::translate::Translator;
use super::{KindFacts, Plan, functions, policy};
use crate::model::Kind as ShapeKind;
use crate::rules::vocabulary::{Compare, Field as FieldRule, TagsRule};

/// A field that is not as it is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// The word of the top-level field, by which rules speak of it.
    pub word: String,
    /// In published names: `spec.encryption.rules`.
    pub path: String,
    /// As it is; null if it is not set.
    pub from: Value,
    /// As it is wanted; null if there should be nothing.
    pub to: Value,
}

/// What differs between two specs of a kind.
pub fn compare(facts: &KindFacts, plan: &Plan, desired: &Value, observed: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let readable = Translator { facts, plan }.readable();
    for field in plan.fields() {
        let Some(answer) = readable.get(&field.word) else { continue };
        if field.home == Home::Spec && field.refers_for.is_none() && !field.secret {
            let wanted = desired.get(&field.name).unwrap_or(&Value::Null);
            let found = observed.get(&field.name).unwrap_or(&Value::Null);
            let words = FieldWords { facts, word: &field.word, answer: *answer };
            one_field(&words, field, wanted, found, desired, &mut changes);
        }
    }
    changes
}

fn one_field(
    words: &FieldWords<'_>,
    field: &Field,
    wanted: &Value,
    found: &Value,
    desired: &Value,
    changes: &mut Vec<FieldChange>,
) {
    let facts = words.facts;
    let rules = facts.rules;
    let whole = |from: &Value, to: &Value| FieldChange {
        word: field.word.clone(),
        path: format!("spec.{}", field.name),
        from: from.clone(),
        to: to.clone(),
    };
    if let Some(collection) = rules.collections.get(&field.word) {
        if collection.value.keep && is_empty(wanted) {
            return;
        }
        let form = |items: &Value| match &collection.value.canonical {
            Some(name) => functions::canonical(name, items),
            None => items.clone(),
        };
        let document = if words.way(&[]) == Some(Compare::Policy) { Compare::Policy } else { Compare::Set };
        let keyed = collection.value.key.as_slice();
        if !same_collection(&form(wanted), &form(found), keyed, document, words) {
            changes.push(whole(found, wanted));
        }
        return;
    }
    let tags = tags_field(facts);
    if tags.as_deref() == Some(field.word.as_str()) {
        let (key, value) = tag_words(facts);
        if super::tags::as_map(wanted, &key, &value) != super::tags::as_map(found, &key, &value) {
            changes.push(whole(found, wanted));
        }
        return;
    }
    if let Some(part) = rules.parts.get(&field.word) {
        let default = part.value.default.as_ref().unwrap_or(&Value::Null);
        if let Some(key) = &part.value.subset {
            let missing = subset(wanted, found, key);
            if !missing.is_empty() {
                changes.push(whole(found, &Value::Array(missing)));
            }
            return;
        }
        if is_empty(wanted) {
            let has = |word: &str| desired.get(&words.field(word)?.name).filter(|value| !is_zero(value));
            let kept = part.value.keep || part.value.keep_with.iter().any(|word| has(&word.value).is_some());
            let differs = !kept
                && !is_zero(found)
                && (default.is_null() || !same(default, found, words, &mut Vec::new()));
            if differs {
                changes.push(whole(found, wanted));
            }
        } else if !same(wanted, if is_empty(found) { default } else { found }, words, &mut Vec::new()) {
            changes.push(whole(found, wanted));
        }
        return;
    }
    if words.way(&[]) == Some(Compare::Ignore) {
        return;
    }
    if wanted.is_null() {
        let clear = rules.fields.get(&field.word).and_then(|rule| rule.value.clear.as_ref());
        if let Some(clear) = clear.filter(|_| !is_zero(found))
            && !same(clear, found, words, &mut Vec::new())
        {
            changes.push(whole(found, clear));
        }
        return;
    }
    differences(words, wanted, found, &mut Vec::new(), &format!("spec.{}", field.name), changes);
}

/// The rules about a field and what is below it.
struct FieldWords<'a> {
    facts: &'a KindFacts,
    word: &'a str,
    /// The shape that reading shows it in, where it is not the field's own.
    answer: Option<Site>,
}

impl FieldWords<'_> {
    /// Another field of the kind.
    fn field(&self, word: &str) -> Option<&Field> {
        self.facts.plan().ok()?.field(word)
    }

    /// Whether reading can show what is at a path: requests have members that answers lack.
    fn is_shown(&self, below: &[String]) -> bool {
        let told = self.facts.rules.parts.get(self.word).map(|part| &part.value.truths);
        if let ([name], Some(truths)) = (below, told)
            && truths.contains_key(name)
        {
            return true;
        }
        let Some(mut site) = self.answer else { return true };
        let Ok(plan) = self.facts.plan() else { return true };
        for name in below {
            let place = site.content();
            if !place.shape.is_structure() {
                return true;
            }
            let member = place
                .shape
                .members()
                .find(|member| *plan.overlay().published(member.name()) == *name.as_str());
            let told = || {
                plan.overlay()
                    .members(place)
                    .find(|(word, _)| *plan.overlay().name_in(place.place, word) == *name.as_str())
            };
            match member.map(|member| Site::of(member.shape())).or_else(|| told().map(|(_, site)| site)) {
                Some(member) => site = member,
                None => return false,
            }
        }
        true
    }

    /// How the value at a path (published names below the field) is compared.
    fn way(&self, below: &[String]) -> Option<Compare> {
        if below.is_empty() {
            return self.facts.rules.fields.get(self.word).and_then(|rule| told_way(&rule.value));
        }
        let nested = self.facts.rules.fields.iter().find(|(path, rule)| {
            let mut words = path.split('.');
            told_way(&rule.value).is_some()
                && words.next() == Some(self.word)
                && words.clone().count() == below.len()
                && words.zip(below).all(|(word, name)| crate::crd::names::published(word) == *name)
        });
        nested.and_then(|(_, rule)| told_way(&rule.value))
    }
}

/// What nobody is shown cannot be compared.
fn told_way(rule: &FieldRule) -> Option<Compare> {
    rule.compare.or(rule.hidden.then_some(Compare::Ignore))
}

/// Differences at the deepest structure that has them.
fn differences(
    words: &FieldWords<'_>,
    wanted: &Value,
    found: &Value,
    below: &mut Vec<String>,
    path: &str,
    changes: &mut Vec<FieldChange>,
) {
    if (words.way(below) == Some(Compare::Ignore) && !below.is_empty()) || !words.is_shown(below) {
        return;
    }
    if let (Value::Object(one), Value::Object(other), None) = (wanted, found, words.way(below))
        && is_structure(words, below)
    {
        for (name, wanted) in one {
            let found = other.get(name).unwrap_or(&Value::Null);
            below.push(name.clone());
            differences(words, wanted, found, below, &format!("{path}.{name}"), changes);
            below.pop();
        }
        return;
    }
    if !same(wanted, found, words, below) {
        changes.push(FieldChange {
            word: words.word.to_owned(),
            path: path.to_owned(),
            from: found.clone(),
            to: wanted.clone(),
        });
    }
}

/// Maps lose keys that are not wanted; structures do not.
fn is_structure(words: &FieldWords<'_>, below: &[String]) -> bool {
    let Ok(plan) = words.facts.plan() else { return true };
    let Some(field) = plan.field(words.word) else { return true };
    let mut site: Site = match &field.kind {
        Type::Model(site) => *site,
        Type::Literal(Literal::Map(_)) | Type::MapOf(_) => return false,
        _ => return true,
    };
    for name in below {
        let place = site.content();
        let member = plan
            .overlay()
            .members(place)
            .find(|(word, _)| *plan.overlay().name_in(place.place, word) == *name.as_str());
        match member {
            Some((_, member)) => site = member,
            None => return true,
        }
    }
    site.shape.kind() != ShapeKind::Map
}

/// Whether a found value is as good as the wanted one.
fn same(wanted: &Value, found: &Value, words: &FieldWords<'_>, below: &mut Vec<String>) -> bool {
    let way = words.way(below);
    match way {
        Some(Compare::Ignore) if !below.is_empty() => return true,
        Some(Compare::Zero) if is_zero(wanted) && is_zero(found) => return true,
        Some(Compare::Policy) => return policy::same(wanted, found),
        Some(Compare::Document) => return policy::same_document(wanted, found),
        Some(Compare::IfSet) if is_empty(wanted) => return true,
        Some(Compare::IfFound) if found.is_null() => return true,
        Some(Compare::Caseless) => return same_text(wanted, found, |text| text.to_lowercase()),
        Some(Compare::Domain) => {
            return same_text(wanted, found, |text| text.trim_end_matches('.').to_lowercase());
        }
        Some(Compare::ArnOrName) => return same_arn_or_name(wanted, found),
        Some(Compare::Prefix) => {
            let begins =
                |one: &str, other: &str| other.strip_prefix(one).is_some_and(|rest| rest.starts_with('.'));
            return wanted == found
                || wanted.as_str().zip(found.as_str()).is_some_and(|(one, other)| begins(one, other));
        }
        _ => {}
    }
    match (wanted, found) {
        (Value::Null, _) => true,
        (Value::Array(one), Value::Array(other)) => {
            let texts = one.iter().chain(other).all(|item| !item.is_object() && !item.is_array());
            if texts || way == Some(Compare::Set) {
                return same_items(one, other, |one, other| same(one, other, words, &mut below.clone()));
            }
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| same_below(one, other, words, below))
        }
        (Value::Object(_), Value::Object(_)) => same_below(wanted, found, words, below),
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => wanted == found || is_zero(wanted) && found.is_null(),
    }
}

fn same_below(wanted: &Value, found: &Value, words: &FieldWords<'_>, below: &mut Vec<String>) -> bool {
    let (Value::Object(one), Value::Object(other)) = (wanted, found) else {
        return same(wanted, found, words, below);
    };
    let keys_count = !is_structure(words, below);
    if keys_count && one.len() != other.len() {
        return false;
    }
    one.iter().all(|(name, wanted)| {
        let found = other.get(name).unwrap_or(&Value::Null);
        if keys_count {
            return other.contains_key(name) && same(wanted, found, words, below);
        }
        below.push(name.clone());
        let equal = !words.is_shown(below) || same(wanted, found, words, below);
        below.pop();
        equal
    })
}

/// Whether each item has its own equal on the other side.
fn same_items(one: &[Value], other: &[Value], equal: impl Fn(&Value, &Value) -> bool) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut left: Vec<&Value> = other.iter().collect();
    one.iter().all(|item| match left.iter().position(|candidate| equal(item, candidate)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

fn same_collection(
    wanted: &Value,
    found: &Value,
    key: &[String],
    way: Compare,
    words: &FieldWords<'_>,
) -> bool {
    let difference = diff_collection(wanted, found, key, |wanted, found| match way {
        Compare::Policy => policy::same(wanted, found),
        _ => same_item(wanted, found, words),
    });
    difference.added.is_empty() && difference.removed.is_empty() && difference.changed.is_empty()
}

fn same_item(wanted: &Value, found: &Value, words: &FieldWords<'_>) -> bool {
    // Policies inside of items (inline policies) are texts that hold documents.
    match (wanted, found) {
        (Value::String(one), Value::String(other)) if one.trim_start().starts_with('{') => {
            policy::same(&Value::from(one.as_str()), &Value::from(other.as_str()))
        }
        _ => same(wanted, found, words, &mut vec!["[]".to_owned()]),
    }
}

/// The wanted items that are not found as they are.
fn subset(wanted: &Value, found: &Value, key: &str) -> Vec<Value> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let found = items(found);
    let same = |item: &Value| found.iter().any(|other| other.get(key) == item.get(key) && other == item);
    items(wanted).into_iter().filter(|item| !same(item)).collect()
}

/// What has to be done to the items of a collection.
#[derive(Debug, Default, PartialEq, Clone)]
pub struct CollectionDiff {
    /// Key (of a map, or of the item by its key members) and item.
    pub added: Vec<(String, Value)>,
    pub removed: Vec<(String, Value)>,
    /// Key, wanted item, found item.
    pub changed: Vec<(String, Value, Value)>,
}

/// Items by key: those of lists by the members that identify them (or by their whole), those of maps by their keys.
pub fn diff_collection(
    wanted: &Value,
    found: &Value,
    key: &[String],
    equal: impl Fn(&Value, &Value) -> bool,
) -> CollectionDiff {
    let mut diff = CollectionDiff::default();
    let mut left = keyed(found, key);
    for (name, item) in keyed(wanted, key) {
        let whole = key.is_empty() && !wanted.is_object();
        let at =
            left.iter().position(|(other, found)| if whole { equal(&item, found) } else { *other == name });
        match at.map(|at| left.remove(at)) {
            None => diff.added.push((name, item)),
            Some((_, found)) if !equal(&item, &found) => diff.changed.push((name, item, found)),
            Some(_) => {}
        }
    }
    diff.removed = left;
    diff
}

fn keyed(items: &Value, key: &[String]) -> Vec<(String, Value)> {
    match items {
        Value::Object(entries) => entries.iter().map(|(name, item)| (name.clone(), item.clone())).collect(),
        Value::Array(items) => items.iter().map(|item| (key_of(item, key), item.clone())).collect(),
        _ => Vec::new(),
    }
}

fn key_of(item: &Value, key: &[String]) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if key.is_empty() {
        return text(item);
    }
    let members = key.iter().map(|member| text(item.get(member).unwrap_or(&Value::Null)));
    members.collect::<Vec<_>>().join("\u{1f}")
}

fn same_text(wanted: &Value, found: &Value, normal: fn(&str) -> String) -> bool {
    match (wanted, found) {
        (Value::String(one), Value::String(other)) => normal(one) == normal(other),
        (Value::Array(one), Value::Array(other)) => {
            same_items(one, other, |one, other| same_text(one, other, normal))
        }
        _ => wanted.is_null() || wanted == found,
    }
}

/// Whether two texts are the same, or one is the ARN that ends with the other; what is not wanted is no difference.
pub fn same_arn_or_name(wanted: &Value, found: &Value) -> bool {
    let (Value::String(one), Value::String(other)) = (wanted, found) else {
        return wanted.is_null() || wanted == found;
    };
    let ends = |arn: &str, name: &str| {
        arn.starts_with("arn:") && arn.strip_suffix(name).is_some_and(|rest| rest.ends_with([':', '/']))
    };
    one == other || ends(one, other) || ends(other, one)
}

/// Nothing is said: null, or a text, list or structure that holds nothing. `false` and 0 say something.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
    }
}

/// Nothing is said, or nothing but `false` and 0: what AWS has where nobody chose anything.
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(members) => members.values().all(is_zero),
        other => is_empty(other),
    }
}

/// The word of the field that holds the tags of a kind, if it has any.
pub fn tags_field(facts: &KindFacts) -> Option<String> {
    let told = match &facts.rules.tags {
        TagsRule::Kept(false) => return None,
        TagsRule::Kept(true) => None,
        TagsRule::Told(tags) => tags.field.clone(),
    };
    let plan = facts.plan().ok()?;
    let known = |word: &&str| plan.field(word).is_some_and(|field| field.home == Home::Spec);
    match told {
        Some(path) => Some(path),
        None => ["Tags", "tags"].iter().find(|word| known(word)).map(|word| (*word).to_owned()),
    }
}

/// The published names of key and value in a list of tags.
pub fn tag_words(facts: &KindFacts) -> (String, String) {
    let told = match &facts.rules.tags {
        TagsRule::Told(tags) => (tags.key.as_deref(), tags.value.as_deref()),
        TagsRule::Kept(_) => (None, None),
    };
    let name = |word: &str| crate::crd::names::published(word);
    (name(told.0.unwrap_or("Key")), name(told.1.unwrap_or("Value")))
}

/// A spec without null members, as the API server would store it.
pub fn pruned(spec: &Value) -> Value {
    match spec {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), pruned(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(pruned).collect(),
        other => other.clone(),
    }
}
