//! Reading an object as a conversation: the next call, its answer, the next call, until all is known.
//!
//! Nothing here talks to AWS. Whoever does asks [`Reading::next_call`], makes the call, hands the answer to
//! [`Reading::answer`] or [`Reading::refused`], and takes [`Reading::finish`] in the end. First the object itself is
//! read, then its parts, its collections, its tags, and the document of its default version.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};

use aws::kinds::calls::{self, Planned};
use aws::kinds::compare::{is_empty, tags_field};
use aws::kinds::fields::Home;
use aws::kinds::send::Scope;
use aws::kinds::translate::{Learned, Translator};
use aws::kinds::{KindFacts, KindsError, paths, policy};
use aws::rules::vocabulary::{Call, Gate, TagsRule};

/// An object as it is.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Found {
    pub spec: Map<String, Value>,
    pub status: Map<String, Value>,
    pub arn: Option<String>,
    pub owner: Option<String>,
    /// The object in the answer of the reading call, in the model's words.
    pub answer: Value,
    /// The whole of that answer.
    pub reply: Value,
    /// Answers of the listing calls of collections, by the field's word.
    pub lists: BTreeMap<String, Value>,
}

/// What is read next.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Object,
    Part(String),
    List(String),
    Item(String, String),
    Tags,
    Versions,
    Document(String),
}

/// A reading under way.
pub struct Reading<'a> {
    facts: &'a KindFacts,
    translator: Translator<'a>,
    /// As it is wanted, with what has been found in its status.
    object: Value,
    meta: BTreeMap<&'static str, String>,
    to_do: VecDeque<Stage>,
    asked: Option<(Stage, Planned, Vec<String>)>,
    found: Option<Found>,
}

impl<'a> Reading<'a> {
    /// Begins to read what an object stands for.
    pub fn new(
        facts: &'a KindFacts,
        object: &Value,
        meta: &BTreeMap<&'static str, String>,
    ) -> Result<Reading<'a>, KindsError> {
        Ok(Reading {
            facts,
            translator: facts.translator()?,
            object: object.clone(),
            meta: meta.clone(),
            to_do: VecDeque::from([Stage::Object]),
            asked: None,
            found: None,
        })
    }

    /// The call to make next; nothing when all is read or nothing is there.
    pub fn next_call(&mut self) -> Option<Planned> {
        while let Some(stage) = self.to_do.pop_front() {
            if let Some((call, absent)) = self.planned(&stage) {
                self.asked = Some((stage, call.clone(), absent));
                return Some(call);
            }
        }
        None
    }

    fn planned(&self, stage: &Stage) -> Option<(Planned, Vec<String>)> {
        let rules = self.facts.rules;
        let scope = self.scope();
        let plan = |call: &Call, scope: &Scope<'_>| {
            let request = scope.request(&call.call.value, &call.send);
            // A call that lacks what it requires cannot be made.
            let input = aws::kinds::sites::Site::input(self.translator.plan.model(), &call.call.value);
            let mut members = input.into_iter().flat_map(|input| input.shape.members());
            let whole = members.all(|member| !member.is_required() || request.contains_key(member.name()));
            let planned = Planned { operation: call.call.value.clone(), request, ..Planned::default() };
            (whole && scope.holds(&call.when)).then(|| (planned, call.absent.clone()))
        };
        match stage {
            Stage::Object => {
                let absent = rules.read.as_ref().map(|call| call.absent.clone()).unwrap_or_default();
                Some((calls::read(self.facts, &scope)?, absent))
            }
            Stage::Part(word) => plan(rules.parts.get(word)?.value.get.as_ref()?, &scope),
            Stage::List(word) => {
                let rule = &rules.collections.get(word)?.value;
                let name = &self.translator.plan.field(word)?.name;
                let wanted = self.object["spec"].get(name).is_some_and(|value| !is_empty(value));
                // What is left as it is found need not be looked at.
                if rule.keep && !wanted { None } else { plan(rule.list.as_ref()?, &scope) }
            }
            Stage::Item(word, key) => {
                let each = rules.collections.get(word)?.value.each.as_ref()?;
                plan(each, &scope.now(None, [("key", key.as_str().into())]))
            }
            Stage::Tags => match &rules.tags {
                TagsRule::Told(tags) => plan(tags.get.as_ref()?, &scope),
                TagsRule::Kept(_) => None,
            },
            Stage::Versions => plan(&rules.versions.as_ref()?.list, &scope),
            Stage::Document(version) => {
                let get = rules.versions.as_ref()?.get.as_ref()?;
                plan(get, &scope.now(None, [("version", version.as_str().into())]))
            }
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            translator: self.translator,
            object: &self.object,
            observed: None,
            meta: &self.meta,
            answer: self.found.as_ref().map(|found| &found.answer),
            reply: self.found.as_ref().map(|found| &found.reply),
            lists: None,
            field: None,
            now: BTreeMap::new(),
        }
    }

    /// Takes the answer to the last call.
    pub fn answer(&mut self, reply: &Value) {
        let Some((stage, call, _)) = self.asked.take() else { return };
        match stage {
            Stage::Object => self.take_object(&call, reply),
            Stage::Part(word) => {
                let value = self.translator.part_value(&word, reply);
                self.put(&word, value);
            }
            Stage::List(word) => self.take_list(word, reply),
            Stage::Item(word, key) => self.take_item(&word, key, reply),
            Stage::Tags => self.take_tags(reply),
            Stage::Versions => {
                let versions = self.facts.rules.versions.as_ref();
                let default = versions.and_then(|versions| {
                    let listed =
                        paths::take(reply, versions.list.take.as_deref().unwrap_or_default(), &|_| None)?;
                    let is_default =
                        |item: &&Value| item.get(&versions.is_default) == Some(&Value::Bool(true));
                    let default = listed.as_array()?.iter().find(is_default)?;
                    default.get(&versions.id)?.as_str().map(str::to_owned)
                });
                self.to_do.extend(default.map(Stage::Document));
            }
            Stage::Document(_) => {
                let Some(versions) = &self.facts.rules.versions else { return };
                let take = versions.get.as_ref().and_then(|call| call.take.as_deref()).unwrap_or_default();
                if let Some(document) = paths::take(reply, take, &|_| None) {
                    let document = decoded(document, versions.url_encoded);
                    self.put(&versions.field.clone(), document);
                }
            }
        }
    }

    /// Takes the refusal of the last call; whether it only says that there is nothing. Anything else ends the reading.
    pub fn refused(&mut self, code: &str, message: &str) -> bool {
        let Some((stage, _, absent)) = self.asked.take() else { return false };
        let nothing = absent.iter().any(|known| known == code);
        match stage {
            Stage::Object => nothing || self.facts.is_not_found(code, message),
            Stage::Part(word) if nothing => {
                self.put(&word, Value::Null);
                true
            }
            _ => nothing,
        }
    }

    /// What was found; nothing if there is no such object.
    pub fn finish(self) -> Option<Found> {
        self.found
    }

    fn take_object(&mut self, call: &Planned, reply: &Value) {
        let facts = self.facts;
        let attributes = facts.rules.operations.get_attributes.as_ref();
        let learned = if attributes.is_some_and(|operation| operation.value == call.operation) {
            match reply.get("Attributes").and_then(Value::as_object) {
                Some(attributes) => (self.translator.learned_attributes(attributes), reply.clone()),
                None => return,
            }
        } else {
            let Some(object) = calls::pick(facts, &self.scope(), &call.operation, reply) else { return };
            (self.translator.learned(&call.operation, &object), object)
        };
        let (Learned { spec, status, arn, owner }, answer) = learned;
        let mut found = Found { spec, status, arn, owner, answer, reply: reply.clone(), ..Found::default() };
        if facts.rules.gone.iter().any(|gate| is_open(gate, &found)) {
            return;
        }
        self.remember(&mut found);
        self.found = Some(found);
        let rules = facts.rules;
        self.to_do.extend(rules.parts.keys().cloned().map(Stage::Part));
        self.to_do.extend(rules.collections.keys().cloned().map(Stage::List));
        self.to_do.extend([Stage::Tags, Stage::Versions]);
    }

    /// What later calls look up: the ARN, and the status as it was found over what the object knew.
    fn remember(&mut self, found: &mut Found) {
        let known = self.object.pointer("/status/ackResourceMetadata/arn").and_then(Value::as_str);
        found.arn = found.arn.take().or(known.map(str::to_owned));
        if let Some(arn) = &found.arn {
            self.meta.insert("arn", arn.clone());
        }
        if !self.object["status"].is_object() {
            self.object["status"] = json!({});
        }
        for (name, value) in &found.status {
            self.object["status"][name] = value.clone();
        }
    }

    fn take_list(&mut self, word: String, reply: &Value) {
        let rule = self.facts.rules.collections.get(&word);
        let each = rule.is_some_and(|rule| rule.value.each.is_some());
        if each {
            let take = rule.and_then(|rule| rule.value.list.as_ref()).and_then(|call| call.take.as_deref());
            let keys = paths::take(reply, take.unwrap_or_default(), &|_| None).unwrap_or_default();
            let keys = keys.as_array().into_iter().flatten().filter_map(Value::as_str);
            self.to_do.extend(keys.map(|key| Stage::Item(word.clone(), key.to_owned())));
            self.put(&word, json!({}));
        } else {
            let items = self.translator.listed(&word, reply);
            self.put(&word, items);
        }
        if let Some(found) = &mut self.found {
            found.lists.insert(word, reply.clone());
        }
    }

    fn take_item(&mut self, word: &str, key: String, reply: &Value) {
        let Some(rule) = self.facts.rules.collections.get(word).map(|collection| &collection.value) else {
            return;
        };
        let take = rule.each.as_ref().and_then(|call| call.take.as_deref()).unwrap_or_default();
        let Some(item) = paths::take(reply, take, &|_| None) else { return };
        let item = decoded(item, rule.url_encoded);
        let name = self.translator.plan.field(word).map(|field| field.name.clone());
        if let (Some(found), Some(name)) = (&mut self.found, name) {
            let items = found.spec.entry(name).or_insert_with(|| json!({}));
            items[key] = item;
        }
    }

    fn take_tags(&mut self, reply: &Value) {
        let TagsRule::Told(rule) = &self.facts.rules.tags else { return };
        let take = rule.get.as_ref().and_then(|call| call.take.as_deref()).unwrap_or_default();
        let tags = paths::take(reply, take, &|_| None).unwrap_or_default();
        let Some(word) = tags_field(self.facts) else { return };
        if let Some(field) = self.translator.plan.field(&word) {
            let tags = self.translator.tags_value(field, &tags);
            self.put(&word, tags);
        }
    }

    fn put(&mut self, word: &str, value: Value) {
        let (Some(found), Some(field)) = (&mut self.found, self.translator.plan.field(word)) else { return };
        let home = match field.home {
            Home::Spec => &mut found.spec,
            Home::Status => &mut found.status,
        };
        if value.is_null() {
            home.remove(&field.name);
        } else {
            home.insert(field.name.clone(), value);
        }
    }
}

/// Whether the value at a gate is one of those it names; `"*"` is any.
pub fn is_open(gate: &Gate, found: &Found) -> bool {
    let (root, path) = gate.at.value.split_once('.').unwrap_or((gate.at.value.as_str(), ""));
    let at = |members: &Map<String, Value>| {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        members.get(first).and_then(|value| paths::take(value, rest, &|_| None))
    };
    let value = match root {
        "spec" => at(&found.spec),
        "status" => at(&found.status),
        _ => paths::take(&found.answer, path, &|_| None),
    };
    match value {
        Some(value) => gate.values.iter().any(|known| *known == value || known == "*"),
        None => gate.values.contains(&Value::Null),
    }
}

fn decoded(value: Value, url_encoded: bool) -> Value {
    match value {
        Value::String(text) if url_encoded => policy::url_decoded(&text).into(),
        other => other,
    }
}
