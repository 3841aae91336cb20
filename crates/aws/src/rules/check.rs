//! Rules held against the models: a word that the model does not have is an error with file and line.

use serde_json::Value;
use serde_saphyr::Spanned;

use super::vocabulary::{Call, Field as FieldRule, Gate, Kind as KindRules, Look, TagsRule};
use super::{RulesError, ServiceRules};
use crate::kinds::fields::source;
use crate::kinds::send::{ELSE, IF, THEN, WHOLE};
use crate::kinds::sites::{Literal, Site};
use crate::kinds::{self, KindFacts, Type, functions, paths};
use crate::model;

/// What a `$path` may begin with.
pub const ROOTS: &[&str] = &[
    "spec", "status", "meta", "value", "item", "items", "key", "tags", "keys", "version", "token", "answer",
    "reply", "observed",
];

/// Every fault in the rules of a service.
pub fn check(rules: &'static ServiceRules) -> Vec<RulesError> {
    let mut checker = Checker { service: &rules.name, faults: Vec::new() };
    match model::service(&rules.name) {
        Ok(model) => checker.service(model, rules),
        Err(error) => checker.fault(0, error.to_string()),
    }
    checker.faults
}

struct Checker<'a> {
    service: &'a str,
    faults: Vec<RulesError>,
}

type Model = &'static model::Service;

fn line<T>(spanned: &Spanned<T>) -> u64 {
    spanned.referenced.line()
}

impl Checker<'_> {
    fn fault(&mut self, line: u64, fault: String) {
        self.faults.push(RulesError::Fault { service: self.service.to_owned(), line, fault });
    }

    fn service(&mut self, model: Model, rules: &'static ServiceRules) {
        for word in rules.rules.drop.shapes.iter().chain(&rules.rules.opaque) {
            if model.shape(&word.value).is_none() {
                self.fault(line(word), format!("there is no shape {}", word.value));
            }
        }
        for (structure, members) in &rules.rules.drop.members {
            let Some(site) = Site::named(model, structure) else {
                self.fault(line(members), format!("there is no structure {structure}"));
                continue;
            };
            for member in members.value.iter().filter(|member| site.shape.member(member).is_none()) {
                self.fault(line(members), format!("{structure} has no member {member}"));
            }
        }
        for (count, items) in &rules.rules.counted {
            let holds = |(structure, members): (&String, &Spanned<Vec<String>>)| {
                let site = Site::named(model, structure);
                members.value.contains(count) && site.is_some_and(|site| site.member(&items.value).is_some())
            };
            if !rules.rules.drop.members.iter().any(holds) {
                self.fault(line(items), format!("no structure drops {count} beside {}", items.value));
            }
        }
        for facts in KindFacts::of_service(rules) {
            let at = rules.rules.kinds.get(facts.kind).map_or(0, line);
            self.kind(model, &facts, at);
        }
    }

    fn kind(&mut self, model: Model, facts: &KindFacts, at: u64) {
        let rules = facts.rules;
        for (_, operation) in rules.operations.iter() {
            self.operation(model, operation);
        }
        if let Some(inside) = &rules.inside {
            let input = Site::input(model, &rules.operations.create.value);
            if input.and_then(|input| input.member(&inside.value)).is_none() {
                self.fault(
                    line(inside),
                    format!("{} takes no {}", rules.operations.create.value, inside.value),
                );
            }
        }
        for (operation, path) in &rules.answers {
            // These go through lists by themselves, and know no brackets.
            let bare = !path.value.contains('[');
            if !bare || Site::output(model, operation).and_then(|site| follow(site, &path.value)).is_none() {
                self.fault(line(path), format!("{operation} does not answer with {}", path.value));
            }
        }
        for (operation, members) in &rules.constants {
            for member in members.value.keys() {
                if Site::input(model, operation).and_then(|site| site.member(member)).is_none() {
                    self.fault(line(members), format!("{operation} takes no {member}"));
                }
            }
        }
        for (operation, members) in &rules.renames {
            for member in
                members.value.keys().filter(|member| !is_in_messages(model, rules, operation, member))
            {
                self.fault(line(members), format!("neither input nor answer of {operation} has {member}"));
            }
        }
        let plan = match facts.plan() {
            Ok(plan) => plan,
            Err(error) => return self.fault(at, error.to_string()),
        };
        for (path, rule) in &rules.fields {
            self.field(model, plan, path, rule);
        }
        let gates = [&rules.synced, &rules.updatable, &rules.deletable, &rules.failed, &rules.gone];
        for gate in gates.into_iter().flatten() {
            self.gate(plan, gate);
        }
        for word in &rules.matching {
            self.known_field(plan, &word.value, line(word));
        }
        self.behaviour(model, plan, rules, at);
        self.unseen(facts, at);
    }

    /// A change of a field of a full kind is noticed, or the rules say why not.
    fn unseen(&mut self, facts: &KindFacts, at: u64) {
        let unseen = kinds::unseen::unseen(facts).unwrap_or_default();
        for (field, _) in unseen.iter().filter(|(_, reason)| facts.rules.full && reason.is_none()) {
            self.fault(at, format!("a change of {} is not noticed, and no reason is given", field.word));
        }
        for (word, rule) in facts.rules.fields.iter().filter(|(_, rule)| rule.value.unseen.is_some()) {
            if !unseen.iter().any(|(field, _)| field.word == *word) {
                self.fault(
                    line(rule),
                    format!("a change of {word} is noticed, whatever the reason against it"),
                );
            }
        }
    }

    fn operation(&mut self, model: Model, operation: &Spanned<String>) -> bool {
        let known = model.operation(&operation.value).is_some();
        if !known {
            self.fault(line(operation), format!("there is no operation {}", operation.value));
        }
        known
    }

    fn field(&mut self, model: Model, plan: &kinds::Plan, path: &str, rule: &Spanned<Box<FieldRule>>) {
        let at = line(rule);
        let rule = &rule.value;
        let words: Vec<&str> = path.split('.').collect();
        let field = plan.field(words[0]);
        let identity_only = rule.arn || rule.owner || rule.key;
        match field.map(|field| &field.kind) {
            None if identity_only => {}
            None => self.fault(at, format!("there is no field {}", words[0])),
            Some(_) if words.len() == 1 => {}
            Some(Type::Model(site) | Type::ListOf(site) | Type::MapOf(site)) => {
                let (parents, last) = (&words[1..words.len() - 1], words[words.len() - 1]);
                let parent = parents.iter().try_fold(*site, |site, word| site.member(word));
                let known =
                    parent.is_some_and(|parent| rule.literal.is_some() || parent.member(last).is_some());
                if !known {
                    self.fault(at, format!("there is no field {path}"));
                }
            }
            Some(_) => self.fault(at, format!("{} has no members", words[0])),
        }
        if let Some(from) = &rule.from
            && source(model, from, rule.status).is_none()
        {
            self.fault(at, format!("there is no {from}"));
        }
        for word in rule.list_of.iter().chain(&rule.map_of).filter(|word| Site::named(model, word).is_none())
        {
            self.fault(at, format!("there is no shape {word}"));
        }
        if let Some(literal) = rule.literal.as_ref().filter(|literal| Literal::parse(literal).is_none()) {
            self.fault(at, format!("{literal} is not a type"));
        }
        if let Some(reference) = rule.reference.as_ref().filter(|reference| !is_reference(reference)) {
            self.fault(at, format!("{reference} is not `service/Kind path` of a known kind's field"));
        }
    }

    fn gate(&mut self, plan: &kinds::Plan, gate: &Gate) {
        let name = gate.at.value.split(['.', '[']).nth(1).unwrap_or_default();
        if ["answer.", "reply."].iter().any(|root| gate.at.value.starts_with(root)) {
            return;
        }
        if !plan.fields().iter().any(|field| field.name == name) {
            self.fault(line(&gate.at), format!("there is no field at {}", gate.at.value));
        }
    }

    fn known_field(&mut self, plan: &kinds::Plan, path: &str, at: u64) {
        let word = path.split('.').next().unwrap_or_default();
        if plan.field(word).is_none() {
            self.fault(at, format!("there is no field {word}"));
        }
    }

    fn behaviour(&mut self, model: Model, plan: &kinds::Plan, rules: &KindRules, at: u64) {
        for variant in &rules.create {
            let operation = variant.call.as_ref().unwrap_or(&rules.operations.create);
            if self.operation(model, operation) {
                self.sent(model, &operation.value, &variant.send, line(operation));
            }
        }
        let planners = rules.update.iter().filter_map(|step| step.function.as_deref());
        let forms = rules.collections.values().filter_map(|collection| collection.value.canonical.as_deref());
        let shown = rules.fields.values().filter_map(|rule| rule.value.shown_by.as_deref());
        for name in planners.chain(forms).chain(shown).filter(|name| !functions::is_known(name)) {
            self.fault(at, format!("there is no function {name}"));
        }
        for step in &rules.update {
            let operation = step.call.as_ref().or(rules.operations.update.as_ref());
            for field in &step.fields {
                self.known_field(plan, &field.value, line(field));
            }
            match operation {
                Some(operation) if self.operation(model, operation) => {
                    self.sent(model, &operation.value, &step.send, line(operation));
                }
                None if step.function.is_none() && rules.function.is_none() => {
                    self.fault(at, "an update without a call".to_owned())
                }
                _ => {}
            }
        }
        for (field, part) in &rules.parts {
            self.known_field(plan, field, line(part));
            for other in &part.value.keep_with {
                self.known_field(plan, &other.value, line(other));
            }
        }
        for (field, collection) in &rules.collections {
            self.known_field(plan, field, line(collection));
        }
        if let TagsRule::Told(tags) = &rules.tags
            && let Some(field) = &tags.field
        {
            self.known_field(plan, field, at);
        }
        for call in rules.calls() {
            self.call(model, call);
        }
        for look in &rules.looks {
            self.look(model, plan, rules, look);
        }
        if let Some(delete) = &rules.delete
            && let Some(operation) = delete.call.as_ref().or(rules.operations.delete.as_ref())
            && self.operation(model, operation)
        {
            self.sent(model, &operation.value, &delete.send, line(operation));
        }
        for annotation in rules.annotations.values() {
            let operation = &annotation.operation;
            let input = Site::input(model, &operation.value);
            if input.and_then(|input| input.member(&annotation.member)).is_none() {
                self.fault(line(operation), format!("{} takes no {}", operation.value, annotation.member));
            }
        }
    }

    fn look(&mut self, model: Model, plan: &kinds::Plan, rules: &KindRules, look: &Look) {
        let listed = |word: &Spanned<String>| rules.collections.get(&word.value)?.value.list.as_ref();
        let reading = rules.read.as_ref().map(|call| &call.call).or(rules.operations.read.as_ref());
        let operation = match (&look.read, &look.of) {
            (Some(call), _) => Some(&call.call),
            (None, Some(word)) => listed(word).map(|call| &call.call),
            (None, None) => reading,
        };
        let output = operation.and_then(|operation| Site::output(model, &operation.value));
        for (field, path) in &look.fills {
            self.known_field(plan, field, line(path));
            if output.and_then(|output| paths::follow(output, &path.value)).is_none() {
                self.fault(line(path), format!("no answer has {} for {field}", path.value));
            }
        }
    }

    fn call(&mut self, model: Model, call: &Call) {
        if !self.operation(model, &call.call) {
            return;
        }
        self.sent(model, &call.call.value, &call.send, line(&call.call));
        let Some(take) = call.take.as_ref().filter(|take| !take.is_empty()) else { return };
        let output = Site::output(model, &call.call.value);
        if output.and_then(|output| paths::follow(output, take)).is_none() {
            self.fault(line(&call.call), format!("{} does not answer with {take}", call.call.value));
        }
    }

    fn sent(&mut self, model: Model, operation: &str, tree: &Value, at: u64) {
        if tree.is_null() {
            return;
        }
        match Site::input(model, operation) {
            Some(input) => self.tree(input, tree, operation, at),
            None => self.fault(at, format!("{operation} takes nothing")),
        }
    }

    fn tree(&mut self, site: Site, tree: &Value, path: &str, at: u64) {
        match tree {
            Value::String(text) => {
                let one = text.strip_prefix('$').filter(|path| !path.starts_with('{'));
                let woven = text.split("${").skip(1).map(|part| part.split('}').next().unwrap_or_default());
                for path in one.into_iter().chain(woven) {
                    let root = path.split(['.', '[', '|']).next().unwrap_or_default();
                    if !ROOTS.contains(&root) {
                        self.fault(at, format!("${path} begins with nothing known"));
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.tree(site.content(), item, path, at)),
            Value::Object(members) if members.contains_key(IF) => {
                for branch in [THEN, ELSE].into_iter().filter_map(|word| members.get(word)) {
                    self.tree(site, branch, path, at);
                }
            }
            Value::Object(members) if site.content().shape.is_structure() => {
                for (word, below) in members {
                    match site.member(word) {
                        None if word == WHOLE => self.tree(site, below, path, at),
                        Some(member) => self.tree(member, below, &format!("{path}.{word}"), at),
                        None => self.fault(at, format!("{path} takes no {word}")),
                    }
                }
            }
            _ => {}
        }
    }
}

fn follow(site: Site, path: &str) -> Option<Site> {
    paths::members(path).iter().try_fold(site, |site, word| site.member(word))
}

/// Whether a word is a member of an operation's input, of its answer, or of the objects in its answer.
fn is_in_messages(model: Model, rules: &KindRules, operation: &str, word: &str) -> bool {
    let input = Site::input(model, operation);
    let inside = rules.inside.as_ref().and_then(|inside| input?.member(&inside.value));
    let output = Site::output(model, operation);
    let below =
        output.into_iter().flat_map(|output| output.shape.members()).map(|member| Site::of(member.shape()));
    let answer = rules.answers.get(operation).and_then(|path| follow(output?, &path.value));
    let mut sites = input.into_iter().chain(inside).chain(output).chain(answer).chain(below);
    sites.any(|site| site.member(word).is_some())
}

/// `service/Kind path`, where the path begins with a field of that kind.
fn is_reference(reference: &str) -> bool {
    let parts = reference.split_once(' ').and_then(|(kind, path)| Some((kind.split_once('/')?, path)));
    let Some(((service, kind), path)) = parts else { return false };
    let mut words = path.split('.');
    let home = words.next();
    let Some(field) = words.next().filter(|_| matches!(home, Some("spec" | "status"))) else { return false };
    // Services without rules here may be named too: their objects are looked up by name alone.
    let Some(facts) = kinds::find(service, kind) else {
        return !super::all().iter().any(|rules| rules.name == service);
    };
    field == "ackResourceMetadata"
        || facts.plan().is_ok_and(|plan| plan.fields().iter().any(|known| known.name == field))
}
