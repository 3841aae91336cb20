//! Between an object and calls: which field is which member, and how each is spelled on the other side.
//!
//! Values are the same on both sides (see [`crate::value`]); names are not, and neither side has all that the
//! other has. What only one side knows is left out.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::fields::{Field, Home, Type};
use super::sites::{Literal, Overlay, Place, Site};
use super::{KindFacts, Plan, paths};
use crate::crd::names;
use crate::model::Kind as ShapeKind;
use crate::rules::vocabulary::{Field as FieldRule, Key, TagsRule, Verb};

/// What an answer says of an object.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Learned {
    pub spec: Map<String, Value>,
    pub status: Map<String, Value>,
    pub arn: Option<String>,
    /// The account that owns the object, where the answer says.
    pub owner: Option<String>,
}

/// An object and its plan, for making calls of it.
#[derive(Clone, Copy)]
pub struct Translator<'a> {
    pub facts: &'a KindFacts,
    pub plan: &'a Plan,
}

impl KindFacts {
    /// Translates between objects of the kind and calls.
    pub fn translator(&self) -> Result<Translator<'_>, super::KindsError> {
        Ok(Translator { facts: self, plan: self.plan()? })
    }
}

impl<'a> Translator<'a> {
    /// The field that a member of an operation is.
    pub fn field_of(&self, operation: &str, member: &str) -> Option<&'a Field> {
        let renames = self.facts.rules.renames.get(operation);
        let word = renames.and_then(|renames| renames.value.get(member)).map_or(member, String::as_str);
        self.plan.field(word).or_else(|| {
            let name = self.plan.overlay().published(word);
            self.plan.fields().iter().find(|field| field.name == *name && field.refers_for.is_none())
        })
    }

    /// The value of a field in an object, whichever half it stands in.
    pub fn value<'b>(&self, field: &Field, object: &'b Value) -> Option<&'b Value> {
        let home = match field.home {
            Home::Spec => "spec",
            Home::Status => "status",
        };
        object.get(home)?.get(&field.name).filter(|value| !value.is_null())
    }

    /// The members of an operation's input that are fields of the object, and the constants of the operation.
    pub fn request(&self, operation: &str, verb: Verb, object: &Value) -> Map<String, Value> {
        let mut request = Map::new();
        let Some(input) = Site::input(self.plan.model(), operation) else { return request };
        let rules = self.facts.rules;
        let target = rules.inside.as_ref().filter(|_| matches!(verb, Verb::Create | Verb::Update));
        if let Some((inside, site)) =
            target.and_then(|inside| Some((&inside.value, input.shape.member(&inside.value)?)))
        {
            let members = self.members(operation, verb, Site::of(site.shape()), object);
            request.insert(inside.clone(), Value::Object(members));
        }
        request.extend(self.members(operation, verb, input, object));
        if let Some(constants) = rules.constants.get(operation) {
            request.extend(constants.value.iter().map(|(member, value)| (member.clone(), value.clone())));
        }
        request
    }

    fn members(&self, operation: &str, verb: Verb, input: Site, object: &Value) -> Map<String, Value> {
        let mut members = Map::new();
        let dropped = &self.plan.overlay().told(input.place).dropped;
        for member in input.shape.members() {
            // Where a name is told, an ARN beside it may be one too many.
            if self.is_own_arn(member.name()) && dropped.iter().any(|word| word == member.name()) {
                continue;
            }
            if let Some(value) = self.member(operation, verb, member.name(), Site::of(member.shape()), object)
            {
                members.insert(member.name().to_owned(), value);
            }
        }
        members
    }

    /// The field that is sent as a member of an operation's input.
    pub fn sent_field(&self, operation: &str, verb: Verb, member: &str) -> Option<&'a Field> {
        let rule = |field: &Field| self.facts.rules.fields.get(&field.word).map(|rule| &rule.value);
        let sent_here = |field: &&Field| rule(field).and_then(|rule| rule.send_to.as_deref()) == Some(member);
        let field = self.plan.fields().iter().find(sent_here).or_else(|| self.field_of(operation, member))?;
        let unsent = rule(field).map(|rule| rule.unsent.as_slice()).unwrap_or_default();
        let left_out = field.attribute || unsent.contains(&verb) || unsent.contains(&Verb::Any);
        (!left_out).then_some(field)
    }

    fn is_field(&self, operation: &str, member: &str) -> bool {
        let sent_here = |rule: &Spanned<Box<FieldRule>>| rule.value.send_to.as_deref() == Some(member);
        self.field_of(operation, member).is_some() || self.facts.rules.fields.values().any(sent_here)
    }

    /// The fields that an operation's input has.
    pub fn sent_fields(&self, operation: &str, verb: Verb) -> impl Iterator<Item = &'a Field> {
        let input = Site::input(self.plan.model(), operation);
        let members = input.into_iter().flat_map(|input| input.shape.members());
        let fields: Vec<&Field> =
            members.filter_map(|member| self.sent_field(operation, verb, member.name())).collect();
        fields.into_iter()
    }

    fn member(&self, operation: &str, verb: Verb, member: &str, site: Site, object: &Value) -> Option<Value> {
        // What identifies the object: its ARN, or an id in a list of ids.
        if verb != Verb::Create && self.is_own_arn(member) {
            let arn = object.pointer("/status/ackResourceMetadata/arn").filter(|arn| arn.is_string());
            if arn.is_some() {
                return arn.cloned();
            }
        }
        if self.is_field(operation, member) {
            let field = self.sent_field(operation, verb, member)?;
            let value = self.outbound(field, site, self.value(field, object)?);
            // One id where the call takes many.
            let is_one = site.shape.kind() == ShapeKind::List && !value.is_array();
            return Some(if is_one { Value::Array(vec![value]) } else { value });
        }
        if site.shape.kind() == ShapeKind::List && matches!(verb, Verb::Read | Verb::Delete) {
            let renames = self.facts.rules.renames.get(operation);
            let word = renames.and_then(|renames| renames.value.get(member)).map_or(member, String::as_str);
            let one = names::singular(word);
            let value = if self.is_own_arn(&one) {
                object.pointer("/status/ackResourceMetadata/arn")?.clone()
            } else {
                self.value(self.field_of(operation, &one)?, object)?.clone()
            };
            return value.is_string().then(|| Value::Array(vec![value]));
        }
        None
    }

    /// Whether a word is that of the object's own ARN.
    pub fn is_own_arn(&self, word: &str) -> bool {
        let told = self.facts.rules.fields.iter().find(|(_, rule)| rule.value.arn);
        told.is_some_and(|(arn, _)| arn.eq_ignore_ascii_case(word))
            || word.eq_ignore_ascii_case("arn")
            || word.eq_ignore_ascii_case("resourceArn") && self.facts.rules.key == Some(Key::Arn)
            || word.eq_ignore_ascii_case(&format!("{}arn", self.facts.resource()))
    }

    /// A field's value as a member of this shape.
    pub fn outbound(&self, field: &Field, target: Site, value: &Value) -> Value {
        match &field.kind {
            Type::Model(site) => outbound(self.plan.overlay(), *site, target, value),
            Type::ListOf(site) => {
                each(value, |item| outbound(self.plan.overlay(), *site, target.content(), item))
            }
            Type::MapOf(site) => {
                each(value, |item| outbound(self.plan.overlay(), *site, target.content(), item))
            }
            Type::Literal(_) => text_as(target, value),
            Type::Reference { .. } => value.clone(),
        }
    }

    /// A member's value as that of a field.
    pub fn inbound(&self, field: &Field, value: &Value) -> Value {
        match &field.kind {
            Type::Model(site) => inbound(self.plan.overlay(), *site, value),
            Type::ListOf(site) | Type::MapOf(site) => {
                each(value, |item| inbound(self.plan.overlay(), *site, item))
            }
            Type::Literal(_) | Type::Reference { .. } => value.clone(),
        }
    }

    /// Where the object lies in an operation's answer: a path of members, and whether it is one of a list.
    pub fn answer_path(&self, operation: &str) -> (Vec<&'a str>, bool) {
        let Some(output) = Site::output(self.plan.model(), operation) else { return (Vec::new(), false) };
        let mut path: Vec<&str> = Vec::new();
        let mut site = output;
        if let Some(told) = self.facts.rules.answers.get(operation) {
            for word in told.value.split('.') {
                path.push(word);
                site = match site.member(word) {
                    Some(member) => member,
                    None => break,
                };
            }
            return (path, site.shape.kind() == ShapeKind::List);
        }
        let members: Vec<_> = output.shape.members().collect();
        if let [only] = members.as_slice()
            && only.shape().is_structure()
        {
            return (vec![only.name()], false);
        }
        let is_list_role =
            self.facts.rules.operations.list.as_ref().is_some_and(|list| list.value == operation);
        let lists = members.iter().filter(|member| member.shape().kind() == ShapeKind::List);
        let of_structures = lists.filter(|member| Site::of(member.shape()).content().shape.is_structure());
        match of_structures.take(1).next() {
            Some(list) if is_list_role => (vec![list.name()], true),
            _ => (Vec::new(), false),
        }
    }

    /// What lies at [`Translator::answer_path`]; where the path goes through lists, what lies below all of their items.
    pub fn answered(&self, operation: &str, reply: &Value) -> Option<Value> {
        flattened(reply, &self.answer_path(operation).0)
    }

    /// The fields that reading shows, and the shape each has there; none where it is the field's own. What no read
    /// shows cannot be compared.
    pub fn readable(&self) -> BTreeMap<String, Option<Site>> {
        let rules = self.facts.rules;
        let model = self.plan.model();
        let mut readable = BTreeMap::new();
        let operations = &rules.operations;
        let told = rules.read.as_ref().map(|call| &call.call);
        let mut operation = told.or(operations.read.as_ref());
        if operations.get_attributes.is_some() {
            let attributes = self.plan.fields().iter().filter(|field| field.attribute);
            readable.extend(attributes.map(|field| (field.word.clone(), None)));
        } else {
            operation = operation.or(operations.list.as_ref());
        }
        let taken = rules.read.as_ref().and_then(|call| call.take.as_deref());
        let object = operation.and_then(|operation| {
            let output = Site::output(model, &operation.value)?;
            let path = match taken {
                Some(path) => paths::members(path),
                None => self.answer_path(&operation.value).0,
            };
            Some((operation, path.iter().try_fold(output, |site, word| site.member(word))?.content()))
        });
        if let Some((operation, site)) = object {
            for member in site.shape.members() {
                if let Some(field) = self.field_of(&operation.value, member.name()) {
                    readable.insert(field.word.clone(), Some(Site::of(member.shape())));
                }
            }
            for (word, rule) in &rules.fields {
                let from = rule.value.read_from.as_ref();
                let found = from.and_then(|from| {
                    paths::members(from).iter().try_fold(site, |site, word| site.member(word))
                });
                if let Some(found) = found {
                    readable.insert(word.clone(), Some(found));
                }
            }
        }
        readable.retain(|word, _| !rules.fields.get(word).is_some_and(|rule| rule.value.is_not_taken()));
        let shown = rules.fields.iter().filter(|(_, rule)| rule.value.shown_by.is_some());
        readable.extend(shown.map(|(word, _)| (word.clone(), None)));
        for (word, part) in &rules.parts {
            if let Some(get) = &part.value.get {
                let output = Site::output(model, &get.call.value);
                let taken = get.take.as_deref().unwrap_or_default();
                let site = paths::members(taken).iter().fold(output, |site, word| site?.member(word));
                readable.insert(word.clone(), site);
            }
        }
        readable.extend(rules.versions.iter().map(|versions| (versions.field.clone(), None)));
        let looked_at = rules.looks.iter().flat_map(|look| look.fills.keys());
        readable.extend(looked_at.map(|word| (word.clone(), None)));
        readable.extend(rules.collections.keys().map(|word| (word.clone(), None)));
        if let TagsRule::Told(tags) = &rules.tags
            && tags.get.is_some()
        {
            let word = tags.field.as_deref().unwrap_or("Tags");
            readable.insert(word.to_owned(), None);
            readable.insert(word.to_lowercase(), None);
        }
        readable
    }

    /// What the object in an answer says. `found` is what lies at [`Translator::answer_path`].
    pub fn learned(&self, operation: &str, found: &Value) -> Learned {
        let mut learned = Learned::default();
        let Some(members) = found.as_object() else { return learned };
        for (member, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            if self.is_own_arn(member) && learned.arn.is_none() {
                learned.arn = value.as_str().map(str::to_owned);
            }
            let Some(field) = self.field_of(operation, member) else { continue };
            let rule = self.facts.rules.fields.get(&field.word).map(|rule| &rule.value);
            if rule.is_some_and(|rule| rule.owner) {
                learned.owner = value.as_str().map(str::to_owned);
            }
            let elsewhere = rule.is_some_and(|rule| rule.read_from.is_some() || rule.is_not_taken());
            if !elsewhere && !field.secret && field.refers_for.is_none() {
                learned.put(field, self.inbound(field, value));
            }
        }
        if learned.arn.is_none() {
            // Beside other things in an answer that was not taken apart.
            let own = format!("{}arn", self.facts.resource());
            let below = members.values().filter_map(Value::as_object).flatten();
            let found =
                below.filter(|(word, _)| word.eq_ignore_ascii_case(&own)).find_map(|(_, arn)| arn.as_str());
            learned.arn = found.map(str::to_owned);
        }
        for (word, rule) in &self.facts.rules.fields {
            let (Some(from), Some(field)) = (&rule.value.read_from, self.plan.field(word)) else { continue };
            if let Some(value) = paths::take(found, from, &|_| None) {
                let text = self.is_text_of_bytes(field).then(|| decoded(&value)).flatten();
                learned.put(field, text.unwrap_or_else(|| self.inbound(field, &value)));
            }
        }
        for (word, rule) in &self.facts.rules.collections {
            let Some(field) = self.plan.field(word).filter(|_| rule.value.list.is_none()) else { continue };
            if let Some(from) = &rule.value.read_from {
                let value = paths::take(found, from, &|_| None).unwrap_or_else(|| Value::Array(Vec::new()));
                learned.put(field, self.inbound(field, &value));
            }
        }
        learned
    }

    /// Whether a field is text that AWS has as bytes.
    fn is_text_of_bytes(&self, field: &Field) -> bool {
        let is_bytes = |site: &Site| site.shape.kind() == ShapeKind::Blob;
        field.kind == Type::Literal(Literal::String)
            && self.readable().get(&field.word).is_some_and(|site| site.as_ref().is_some_and(is_bytes))
    }

    /// What the answer of a creating call says.
    pub fn made(&self, operation: &str, reply: &Value) -> Learned {
        let told = self.facts.rules.answers.contains_key(operation);
        let found = match self.answered(operation, reply).unwrap_or_default() {
            Value::Array(items) => items.into_iter().next().unwrap_or_default(),
            one => one,
        };
        let mut learned = self.learned(operation, &found);
        // What lies beside the object: tokens, and an ARN or id that stands alone.
        if !told && !self.answer_path(operation).0.is_empty() {
            let beside = self.learned(operation, reply);
            learned.arn = learned.arn.or(beside.arn);
        }
        learned
    }

    /// What the getting call of a part says of its field; null where nothing is there.
    pub fn part_value(&self, word: &str, reply: &Value) -> Value {
        let part = self.facts.rules.parts.get(word);
        let take = part.and_then(|part| part.value.get.as_ref()).and_then(|call| call.take.as_deref());
        let taken = paths::take(reply, take.unwrap_or_default(), &|_| None).unwrap_or_default();
        let mut value = match self.plan.field(word) {
            Some(field) => self.inbound(field, &taken),
            None => taken.clone(),
        };
        for (name, truth) in part.iter().flat_map(|part| &part.value.truths) {
            let text = paths::take(&taken, &truth.at, &|_| None);
            if let (Some(text), Some(members)) =
                (text.as_ref().and_then(Value::as_str), value.as_object_mut())
            {
                members.insert(name.clone(), truth.is.iter().any(|known| known == text).into());
            }
        }
        value
    }

    /// What the listing call of a collection says of its field.
    pub fn listed(&self, word: &str, reply: &Value) -> Value {
        let Some(rule) = self.facts.rules.collections.get(word).map(|collection| &collection.value) else {
            return Value::Null;
        };
        let take = rule.list.as_ref().and_then(|call| call.take.as_deref()).unwrap_or_default();
        let items = paths::take(reply, take, &|_| None).unwrap_or_else(|| Value::Array(Vec::new()));
        if let Some(pairs) = &rule.pairs {
            let pair = |item: &Value| {
                Some((item.get(&pairs.key)?.as_str()?.to_owned(), item.get(&pairs.value)?.clone()))
            };
            return Value::Object(items.as_array().into_iter().flatten().filter_map(pair).collect());
        }
        match self.plan.field(word) {
            Some(field) => self.inbound(field, &items),
            None => items,
        }
    }

    /// Tags that a call answered with, in the form of the field that holds them.
    pub fn tags_value(&self, field: &Field, found: &Value) -> Value {
        let (key, value) = super::compare::tag_words(self.facts);
        let is_map = match &field.kind {
            Type::Model(site) => site.shape.kind() == ShapeKind::Map,
            Type::Literal(literal) => matches!(literal, super::sites::Literal::Map(_)),
            _ => false,
        };
        let words = |item: &Value, name: &str| {
            let members = item.as_object().into_iter().flatten();
            members.clone().find(|(word, _)| names::published(word) == *name).map(|(_, value)| value.clone())
        };
        let named: Value = match found {
            Value::Array(items) => items
                .iter()
                .map(|item| serde_json::json!({&key: words(item, &key), &value: words(item, &value)}))
                .collect(),
            other => other.clone(),
        };
        let tags = super::tags::as_map(&named, &key, &value);
        if is_map { super::tags::as_object(&tags) } else { super::tags::as_list(&tags, &key, &value) }
    }

    /// What a map of attributes says.
    pub fn learned_attributes(&self, attributes: &Map<String, Value>) -> Learned {
        let mut learned = Learned::default();
        for (word, value) in attributes {
            if self.is_own_arn(word) {
                learned.arn = value.as_str().map(str::to_owned);
            }
            let owner = self.facts.rules.fields.get(word).is_some_and(|rule| rule.value.owner);
            if owner {
                learned.owner = value.as_str().map(str::to_owned);
            }
            let kept = self.facts.rules.fields.get(word).is_some_and(|rule| rule.value.is_not_taken());
            if let Some(field) = self.plan.field(word).filter(|field| field.attribute && !kept) {
                learned.put(field, value.clone());
            }
        }
        learned
    }

    /// The fields that travel as attributes, as AWS has them.
    pub fn attributes(&self, object: &Value) -> Map<String, Value> {
        let fields = self.plan.fields().iter().filter(|field| field.attribute && field.home == Home::Spec);
        fields.filter_map(|field| Some((field.word.clone(), self.value(field, object)?.clone()))).collect()
    }
}

impl Learned {
    pub fn put(&mut self, field: &Field, value: Value) {
        let home = match field.home {
            Home::Spec => &mut self.spec,
            Home::Status => &mut self.status,
        };
        home.insert(field.name.clone(), value);
    }
}

pub(super) fn flattened(value: &Value, path: &[&str]) -> Option<Value> {
    let Some((first, rest)) = path.split_first() else { return Some(value.clone()) };
    let Value::Array(items) = value else { return flattened(value.get(first)?, rest) };
    let mut all = Vec::new();
    for found in items.iter().filter_map(|item| flattened(item, path)) {
        match found {
            Value::Array(items) => all.extend(items),
            one => all.push(one),
        }
    }
    Some(Value::Array(all))
}

fn each(value: &Value, change: impl Fn(&Value) -> Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(change).collect(),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), change(value))).collect())
        }
        other => other.clone(),
    }
}

/// A text as the member wants it that it is sent as: bytes, or the structure that it spells in JSON.
fn text_as(target: Site, value: &Value) -> Value {
    let document = |text: &str| serde_json::from_str(text).ok();
    let made = value.as_str().and_then(|text| match target.shape.kind() {
        ShapeKind::Blob => Some(BASE64_STANDARD.encode(text).into()),
        ShapeKind::Structure | ShapeKind::Union | ShapeKind::List | ShapeKind::Map => document(text),
        _ => None,
    });
    made.unwrap_or_else(|| value.clone())
}

/// The text that bytes are.
fn decoded(bytes: &Value) -> Option<Value> {
    let bytes = BASE64_STANDARD.decode(bytes.as_str()?).ok()?;
    String::from_utf8(bytes).ok().map(Value::from)
}

/// A published value of one shape as a member of another.
pub(super) fn outbound(overlay: &Overlay, site: Site, target: Site, value: &Value) -> Value {
    match site.shape.kind() {
        ShapeKind::Structure | ShapeKind::Union => {
            let Some(properties) = value.as_object() else { return value.clone() };
            let mut members = Map::new();
            for (word, member) in overlay.members(site) {
                let Some(value) = properties.get(&*overlay.name_in(site.place, word)) else { continue };
                let same = target.shape.member(word).or_else(|| {
                    let name = overlay.published(word);
                    target.shape.members().find(|member| *overlay.published(member.name()) == *name)
                });
                if let Some(same) = same.filter(|_| !value.is_null()) {
                    let value = outbound(overlay, member, Site::of(same.shape()), value);
                    members.insert(same.name().to_owned(), value);
                }
            }
            for word in overlay.texts(site) {
                let text = properties.get(&*overlay.name_in(site.place, word)).and_then(Value::as_str);
                if let Some(document) = text.and_then(|text| serde_json::from_str(text).ok()) {
                    members.insert(word.to_owned(), document);
                }
            }
            for (count, items) in overlay.counts(target) {
                let number = members.get(items).and_then(Value::as_array).map_or(0, Vec::len);
                members.insert(count.to_owned(), number.into());
            }
            Value::Object(members)
        }
        ShapeKind::List | ShapeKind::Map => {
            let inner = |site: Site| match site.shape.kind() {
                ShapeKind::List => site.shape.element().map(|element| Site::of(element.shape())),
                ShapeKind::Map => site.shape.entry().map(|(_, value)| Site::of(value.shape())),
                _ => None,
            };
            match (inner(site), inner(target)) {
                (Some(site), Some(target)) => each(value, |item| outbound(overlay, site, target, item)),
                _ => value.clone(),
            }
        }
        _ => value.clone(),
    }
}

fn inbound(overlay: &Overlay, site: Site, value: &Value) -> Value {
    match site.shape.kind() {
        ShapeKind::Structure | ShapeKind::Union => {
            let Some(members) = value.as_object() else { return value.clone() };
            let mut properties = Map::new();
            for (word, member) in overlay.members(site) {
                if let Some(value) = members.get(word).filter(|value| !value.is_null()) {
                    let name = overlay.name_in(site.place, word);
                    properties.insert(name.to_string(), inbound(overlay, member, value));
                }
            }
            for word in overlay.texts(site) {
                if let Some(document) = members.get(word).filter(|value| !value.is_null()) {
                    let name = overlay.name_in(site.place, word);
                    properties.insert(name.to_string(), document.to_string().into());
                }
            }
            Value::Object(properties)
        }
        ShapeKind::List => match site.shape.element() {
            Some(element) => each(value, |item| inbound(overlay, Site::of(element.shape()), item)),
            None => value.clone(),
        },
        ShapeKind::Map => match site.shape.entry() {
            Some((_, entry)) => each(value, |item| inbound(overlay, Site::of(entry.shape()), item)),
            None => value.clone(),
        },
        // Numbers that requests have as numbers and answers as texts.
        ShapeKind::Integer | ShapeKind::Long => {
            let number = value.as_str().and_then(|text| text.parse::<i64>().ok());
            number.map_or_else(|| value.clone(), Value::from)
        }
        _ => value.clone(),
    }
}

impl Overlay {
    /// The published name of a member of a structure.
    pub fn name_in(&self, place: Place, word: &'static str) -> std::sync::Arc<str> {
        match self.told(place).published.get(word) {
            Some(name) => name.as_str().into(),
            None => self.published(word),
        }
    }
}
