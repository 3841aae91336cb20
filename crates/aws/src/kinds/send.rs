//! What a rule sends: its tree with everything looked up, and whether its conditions hold.
//!
//! A string that begins with `$` is looked up in a [`Scope`]; a member for which nothing is found is not sent, an
//! item of a list that would lack a member is left out, and so is a list that has no items left. A member `$` is a
//! structure that is sent whole, with the other members over its own.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{Field, Home, Type};
use super::paths;
use super::sites::Site;
use super::translate::{Translator, outbound};

/// The member of a tree that stands for all members of what it names; the others go over those.
pub const WHOLE: &str = "$";
/// A tree that is one of two: a condition, and what is sent when it holds and when it does not.
pub const IF: &str = "$if";
pub const THEN: &str = "$then";
pub const ELSE: &str = "$else";

/// Everything that `$words` can mean during a call.
pub struct Scope<'a> {
    pub translator: Translator<'a>,
    /// As it is wanted: `spec`, and `status` with what identifies it.
    pub object: &'a Value,
    /// As it was found, in the same shape.
    pub observed: Option<&'a Value>,
    /// `arn`, `account`, `region`, `partition`, `name`, `namespace`, `uid`.
    pub meta: &'a BTreeMap<&'static str, String>,
    /// The object in the answer of the reading call, in the model's words.
    pub answer: Option<&'a Value>,
    /// The whole of that answer.
    pub reply: Option<&'a Value>,
    /// Answers of the listing calls of collections, by the field's word: `$reply` while items come and go.
    pub lists: Option<&'a BTreeMap<String, Value>>,
    /// The field that `value`, `item`, `items` and `key` are of.
    pub field: Option<&'a Field>,
    /// `value`, `item`, `items`, `key`, `keys`, `tags`, `version`: what is looked at right now, in published names.
    pub now: BTreeMap<&'static str, Value>,
}

impl<'a> Scope<'a> {
    /// The same with something looked at right now.
    pub fn now<const N: usize>(
        &self,
        field: Option<&'a Field>,
        now: [(&'static str, Value); N],
    ) -> Scope<'a> {
        let mut words = self.now.clone();
        words.extend(now);
        Scope { field, now: words, ..*self }
    }

    /// The members that a tree sends in a call of the operation.
    pub fn request(&self, operation: &str, tree: &Value) -> Map<String, Value> {
        let input = Site::input(self.translator.plan.model(), operation);
        match (input, tree) {
            (Some(input), Value::Object(_)) => match self.fill(tree, Some(input)) {
                Some(Value::Object(members)) => members,
                _ => Map::new(),
            },
            _ => Map::new(),
        }
    }

    /// The members of `$item` that the operation has.
    pub fn spread(&self, operation: &str) -> Map<String, Value> {
        let input = Site::input(self.translator.plan.model(), operation);
        let item = input.and_then(|input| self.find("item", Some(input)));
        match item {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        }
    }

    fn fill(&self, tree: &Value, target: Option<Site>) -> Option<Value> {
        match tree {
            Value::String(text) => match text.strip_prefix('$') {
                Some(path) if !path.starts_with('{') => self.find(path, target),
                _ => self.woven(text),
            },
            Value::Array(items) => {
                let inner = target.map(Site::content);
                let whole = |item: &Value| match item {
                    Value::Object(members) => {
                        let filled = self.fill(item, inner)?;
                        (filled.as_object()?.len() == members.len()).then_some(filled)
                    }
                    other => self.fill(other, inner),
                };
                let filled: Vec<Value> = items.iter().filter_map(whole).collect();
                (!filled.is_empty()).then_some(Value::Array(filled))
            }
            Value::Object(members) if members.contains_key(IF) => {
                let condition = members.get(IF).and_then(Value::as_str).unwrap_or_default();
                let chosen = if self.holds(&[condition.to_owned()]) { THEN } else { ELSE };
                self.fill(members.get(chosen)?, target)
            }
            Value::Object(members) => {
                let fill = |(word, below): (&String, &Value)| {
                    let target = target.and_then(|target| target.member(word));
                    Some((word.clone(), self.fill(below, target)?))
                };
                let own = members.iter().filter(|(word, _)| *word != WHOLE);
                let filled: Map<String, Value> = own.filter_map(fill).collect();
                let Some(whole) = members.get(WHOLE) else {
                    return (!filled.is_empty() || members.is_empty()).then_some(Value::Object(filled));
                };
                let Some(Value::Object(mut whole)) = self.fill(whole, target) else { return None };
                whole.extend(filled);
                Some(Value::Object(whole))
            }
            other => Some(other.clone()),
        }
    }

    /// A text with everything in `${…}` looked up; nothing where something of it is not found.
    fn woven(&self, text: &str) -> Option<Value> {
        let mut parts = text.split("${");
        let mut woven = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (path, rest) = part.split_once('}')?;
            woven.push_str(self.find(path, None)?.as_str()?);
            woven.push_str(rest);
        }
        Some(woven.into())
    }

    /// What a path means, as a member of the target shape wants it.
    pub fn find(&self, path: &str, target: Option<Site>) -> Option<Value> {
        let (path, last) = match path.strip_suffix("|last") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (root, rest) = path.split_at(end);
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        let value = match root {
            "spec" | "status" => self.of_object(self.object, root, rest, target),
            "observed" => self.of_object(self.observed?, "spec", rest, target),
            "meta" => self.meta.get(rest).filter(|text| !text.is_empty()).map(|text| text.as_str().into()),
            "answer" => self.raw(self.answer?, rest),
            "reply" => self.raw(self.reply?, rest),
            _ => self.of_now(root, rest, target),
        }?;
        if !last {
            return Some(value);
        }
        let text = value.as_str()?;
        Some(text.rsplit('/').next().unwrap_or(text).into())
    }

    fn raw(&self, value: &Value, path: &str) -> Option<Value> {
        paths::take(value, path, &|word| self.find(word, None))
    }

    fn of_object(&self, object: &Value, home: &str, path: &str, target: Option<Site>) -> Option<Value> {
        let value = paths::take(object.get(home)?, path, &|word| self.find(word, None))?;
        let names = paths::members(path);
        let (first, below) = names.split_first()?;
        let field = self
            .translator
            .plan
            .fields()
            .iter()
            .find(|field| field.name == **first && (field.home == Home::Spec) == (home == "spec"));
        Some(self.spelled(field, below, value, target))
    }

    fn of_now(&self, root: &str, path: &str, target: Option<Site>) -> Option<Value> {
        let value = self.now.get(root).filter(|value| !value.is_null())?;
        let value = paths::take(value, path, &|word| self.find(word, None))?;
        if !matches!(root, "value" | "item" | "items") {
            return Some(value);
        }
        let target = if root == "items" { target.map(Site::content) } else { target };
        let spell = |value: Value| self.spelled(self.field, &paths::members(path), value, target);
        match value {
            Value::Array(items) if root == "items" => Some(items.into_iter().map(spell).collect()),
            value => Some(spell(value)),
        }
    }

    /// A published value below a field, in the words of the target.
    fn spelled(&self, field: Option<&Field>, below: &[&str], value: Value, target: Option<Site>) -> Value {
        let overlay = self.translator.plan.overlay();
        let start = match field.map(|field| &field.kind) {
            Some(Type::Model(site)) => *site,
            Some(Type::ListOf(site) | Type::MapOf(site)) => *site,
            _ => return value,
        };
        let mut site = start;
        for name in below {
            let place = site.content();
            let member =
                overlay.members(place).find(|(word, _)| *overlay.name_in(place.place, word) == **name);
            match member {
                Some((_, member)) => site = member,
                None => return value,
            }
        }
        let Some(target) = target else { return value };
        // An item of a list and the list itself are told apart by what the value is.
        let is_many = value.is_array();
        let inner = |site: Site, many: bool| if many { site } else { site.content() };
        let is_map = below.is_empty() && matches!(field.map(|field| &field.kind), Some(Type::MapOf(_)));
        match &value {
            Value::Array(items) if !matches!(site.shape.kind(), crate::model::Kind::List) => {
                items.iter().map(|item| outbound(overlay, site, target.content(), item)).collect()
            }
            Value::Object(_) if site.shape.kind() == crate::model::Kind::Map || is_map => {
                outbound(overlay, site, target, &value)
            }
            _ => outbound(overlay, inner(site, is_many), inner(target, is_many), &value),
        }
    }

    /// Whether all conditions hold: `path`, `!path`, `path == value`, `path != value`.
    pub fn holds(&self, conditions: &[String]) -> bool {
        conditions.iter().all(|condition| {
            let text = |path: &str| match self.find(path.trim(), None) {
                Some(Value::String(text)) => Some(text),
                Some(Value::Null) | None => None,
                Some(other) => Some(other.to_string()),
            };
            if let Some((path, value)) = condition.split_once("!=") {
                text(path).as_deref() != Some(value.trim())
            } else if let Some((path, value)) = condition.split_once("==") {
                text(path).as_deref() == Some(value.trim())
            } else if let Some(path) = condition.strip_prefix('!') {
                text(path).is_none()
            } else {
                text(condition).is_some()
            }
        })
    }
}
