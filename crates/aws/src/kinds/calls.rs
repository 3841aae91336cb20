//! The calls that a kind needs, as values: nothing here talks to AWS.
//!
//! Reading, creating, changing and deleting are each a list of [`Planned`] calls made from the rules and a
//! [`Scope`]; what they answer is the business of whoever makes them.

use serde_json::{Map, Value, json};

use super::compare::{FieldChange, diff_collection, is_empty, tag_words, tags_field};
use super::fields::{Field, Home};
use super::send::Scope;
use super::sites::Site;
use super::{KindFacts, functions, paths, policy, tags};
use crate::model::Kind as ShapeKind;
use crate::rules::vocabulary::{Call, Collection, Gate, TagsRule, Verb};

/// A call to be made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Planned {
    pub operation: String,
    pub request: Map<String, Value>,
    /// Codes that are as good as success.
    pub ignore: Vec<String>,
    /// The words of the fields that it is made for.
    pub serves: Vec<String>,
    /// Nothing else is to be written in this pass.
    pub alone: bool,
    /// Makes a version of a document: the oldest has to go first where there are as many as may be.
    pub makes_version: bool,
}

impl Planned {
    fn new(operation: &str, request: Map<String, Value>) -> Planned {
        Planned { operation: operation.to_owned(), request, ..Planned::default() }
    }

    fn of(call: &Call, scope: &Scope<'_>, word: &str) -> Planned {
        let mut request = Map::new();
        if call.spread {
            request = scope.spread(&call.call.value);
        }
        request.extend(scope.request(&call.call.value, &call.send));
        Planned {
            ignore: call.ignore.clone(),
            serves: vec![word.to_owned()],
            alone: call.alone,
            ..Planned::new(&call.call.value, request)
        }
    }
}

/// The call that reads the object; nothing where the object has nothing yet to find it by.
pub fn read(facts: &KindFacts, scope: &Scope<'_>) -> Option<Planned> {
    if let Some(call) = &facts.rules.read {
        let request = scope.request(&call.call.value, &call.send);
        let whole = call.send.as_object().is_none_or(|tree| request.len() == tree.len());
        return whole.then(|| Planned::new(&call.call.value, request));
    }
    let operation = facts.reading_operation()?;
    let mut request = scope.translator.request(operation, Verb::Read, scope.object);
    let input = Site::input(scope.translator.plan.model(), operation)?;
    let lacks =
        input.shape.members().any(|member| member.is_required() && !request.contains_key(member.name()));
    let constants = facts.rules.constants.get(operation).map_or(0, |constants| constants.value.len());
    let blind = request.len() == constants && facts.rules.matching.is_empty();
    if lacks || blind && input.shape.members().next().is_some() {
        return None;
    }
    if let Some(attributes) = &facts.rules.attributes {
        request.extend(attributes.ask.iter().map(|(member, value)| (member.clone(), value.clone())));
    }
    Some(Planned::new(operation, request))
}

/// The object in the answer of the reading call.
pub fn pick(facts: &KindFacts, scope: &Scope<'_>, operation: &str, reply: &Value) -> Option<Value> {
    let told = facts.rules.read.as_ref().and_then(|call| call.take.as_deref());
    let found = match told {
        Some(path) => paths::take(reply, path, &|word| scope.find(word, None))?,
        None => scope.translator.answered(operation, reply)?,
    };
    let object = match found {
        Value::Array(items) => items.into_iter().find(|item| matches(facts, scope, operation, item)),
        Value::Null => None,
        one => Some(one),
    };
    object.filter(|object| !facts.rules.gone.iter().any(|gate| is_gone(gate, object, reply)))
}

/// Whether an answer says itself that the object is gone.
fn is_gone(gate: &Gate, object: &Value, reply: &Value) -> bool {
    let value = match gate.at.value.split_once('.') {
        Some(("answer", path)) => paths::take(object, path, &|_| None),
        Some(("reply", path)) => paths::take(reply, path, &|_| None),
        _ => None,
    };
    value.is_some_and(|value| gate.values.iter().any(|known| *known == value || known == "*"))
}

/// Whether an item of a list has what picks the object out of it.
pub fn matches(facts: &KindFacts, scope: &Scope<'_>, operation: &str, item: &Value) -> bool {
    let Some(members) = item.as_object() else { return false };
    facts.rules.matching.iter().all(|word| {
        let Some(field) = scope.translator.plan.field(&word.value) else { return true };
        let wanted = scope.translator.value(field, scope.object);
        let found = members.iter().find(|(member, _)| {
            scope.translator.field_of(operation, member).is_some_and(|other| other.word == field.word)
        });
        match (wanted.and_then(Value::as_str), found.and_then(|(_, value)| value.as_str())) {
            (Some(wanted), Some(found)) => wanted.trim_end_matches('.') == found.trim_end_matches('.'),
            (None, None) => true,
            (Some(_), None) => found.is_none(),
            (None, Some(_)) => wanted.is_none(),
        }
    })
}

/// The call that makes the object; `token` makes it repeatable where the operation takes one.
pub fn create(facts: &KindFacts, scope: &Scope<'_>, token: &str) -> Planned {
    let rules = facts.rules;
    let variant = rules.create.iter().find(|variant| scope.holds(&variant.when));
    let told = variant.and_then(|variant| variant.call.as_ref()).unwrap_or(&rules.operations.create);
    let operation = told.value.as_str();
    let mut request = scope.translator.request(operation, Verb::Create, scope.object);
    for field in scope.translator.plan.fields() {
        let later = rules.parts.get(&field.word).is_some_and(|part| !part.value.on_create)
            || rules.collections.get(&field.word).is_some_and(|collection| !collection.value.on_create);
        if later {
            let member = request.keys().find(|member| {
                scope.translator.field_of(operation, member).is_some_and(|other| other.word == field.word)
            });
            if let Some(member) = member.cloned() {
                request.remove(&member);
            }
        }
    }
    let input = Site::input(scope.translator.plan.model(), operation);
    if rules.attributes.is_some() && input.is_some_and(|input| input.member("Attributes").is_some()) {
        let attributes = scope.translator.attributes(scope.object);
        if !attributes.is_empty() {
            request.insert("Attributes".to_owned(), Value::Object(attributes));
        }
    }
    if let Some(variant) = variant {
        let now = scope.now(None, [("token", token.into())]);
        add(&mut request, now.request(operation, &variant.send));
    }
    annotated(facts, scope, operation, &mut request);
    for member in input.into_iter().flat_map(|input| input.shape.members()) {
        if member.is_idempotency_token() && !request.contains_key(member.name()) {
            request.insert(member.name().to_owned(), token.into());
        }
    }
    Planned::new(operation, request)
}

/// The calls that make the changes, in their order.
pub fn update(facts: &KindFacts, scope: &Scope<'_>, changes: &[FieldChange]) -> Vec<Planned> {
    let cleared = cleared(scope, changes);
    let scope = &Scope { object: &cleared, ..scope.now(scope.field, []) };
    let rules = facts.rules;
    let mut calls = Vec::new();
    let mut rest: Vec<&FieldChange> = changes.iter().collect();
    let tags_word = tags_field(facts);
    take(
        &mut rest,
        |change| rules.parts.contains_key(&change.word),
        |_, change| {
            part_calls(facts, scope, change, &mut calls);
        },
    );
    order_parts(facts, &mut calls);
    make_once(&mut calls);
    take(
        &mut rest,
        |change| rules.collections.contains_key(&change.word),
        |_, change| {
            collection_calls(facts, scope, change, &mut calls);
        },
    );
    take(
        &mut rest,
        |change| tags_word.as_deref() == Some(change.word.as_str()),
        |_, change| {
            tag_calls(facts, scope, change, &mut calls);
        },
    );
    let versioned =
        |change: &FieldChange| rules.versions.as_ref().is_some_and(|told| told.field == change.word);
    take(&mut rest, versioned, |_, change| version_calls(facts, scope, change, &mut calls));
    if rules.attributes.is_some() {
        let is_attribute = |change: &FieldChange| {
            scope.translator.plan.field(&change.word).is_some_and(|field| field.attribute)
        };
        let (attributes, others): (Vec<&FieldChange>, _) =
            rest.into_iter().partition(|change| is_attribute(change));
        rest = others;
        attribute_calls(facts, scope, &attributes, &mut calls);
    }
    step_calls(facts, scope, rest, &mut calls);
    calls
}

/// The object with what empties the fields that it no longer has: calls are made of what is there.
fn cleared(scope: &Scope<'_>, changes: &[FieldChange]) -> Value {
    let mut object = scope.object.clone();
    for change in changes.iter().filter(|change| !change.to.is_null()) {
        let Some(field) = scope.translator.plan.field(&change.word) else { continue };
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && spec.get(&field.name).is_none_or(Value::is_null)
        {
            spec.insert(field.name.clone(), change.to.clone());
        }
    }
    object
}

/// Hands out the changes that fit, one by one, and keeps the others.
fn take<'a>(
    rest: &mut Vec<&'a FieldChange>,
    fits: impl Fn(&FieldChange) -> bool,
    mut each: impl FnMut(usize, &'a FieldChange),
) {
    let (fitting, others): (Vec<&FieldChange>, Vec<&FieldChange>) =
        rest.drain(..).partition(|change| fits(change));
    *rest = others;
    fitting.into_iter().enumerate().for_each(|(at, change)| each(at, change));
}

fn part_calls(facts: &KindFacts, scope: &Scope<'_>, change: &FieldChange, calls: &mut Vec<Planned>) {
    let Some(part) = facts.rules.parts.get(&change.word).map(|part| &part.value) else { return };
    let field = scope.translator.plan.field(&change.word);
    let with = |value: &Value| scope.now(field, [("value", value.clone())]);
    let delete_it = is_empty(&change.to) || part.delete_when.as_ref() == Some(&change.to);
    let had = !is_empty(&change.from);
    if delete_it || part.replace && had {
        match (&part.delete, &part.default) {
            (Some(delete), _) => calls.push(Planned::of(delete, &with(&change.from), &change.word)),
            (None, Some(default)) => calls.push(Planned::of(&part.put, &with(default), &change.word)),
            (None, None) => {}
        }
    }
    if !delete_it {
        calls.push(Planned::of(&part.put, &with(&change.to), &change.word));
    }
}

/// A part comes after those that its rule names.
fn order_parts(facts: &KindFacts, calls: &mut [Planned]) {
    let depth = |word: &str| {
        let mut depth = 0;
        let mut words = vec![word.to_owned()];
        // Rules that wait for each other end at the number of parts.
        while depth <= facts.rules.parts.len() && !words.is_empty() {
            let after = words.iter().filter_map(|word| facts.rules.parts.get(word));
            words = after.flat_map(|part| part.value.after.clone()).collect();
            depth += 1;
        }
        depth
    };
    calls.sort_by_key(|call| call.serves.first().map_or(0, |word| depth(word)));
}

/// Parts that are put together share a call: it is made once, for all of them.
fn make_once(calls: &mut Vec<Planned>) {
    let mut once: Vec<Planned> = Vec::new();
    for call in calls.drain(..) {
        let same =
            once.iter_mut().find(|one| (&one.operation, &one.request) == (&call.operation, &call.request));
        match same {
            Some(one) => one.serves.extend(call.serves),
            None => once.push(call),
        }
    }
    *calls = once;
}

fn collection_calls(facts: &KindFacts, scope: &Scope<'_>, change: &FieldChange, calls: &mut Vec<Planned>) {
    let Some(rule) = facts.rules.collections.get(&change.word).map(|collection| &collection.value) else {
        return;
    };
    let listed = scope.lists.and_then(|lists| lists.get(&change.word));
    let scope = &Scope { reply: listed.or(scope.reply), ..scope.now(None, []) };
    let field = scope.translator.plan.field(&change.word);
    let form = |items: &Value| match &rule.canonical {
        Some(name) => functions::canonical(name, items),
        None => items.clone(),
    };
    let same = |one: &Value, other: &Value| match (one, other) {
        (Value::String(text), _) if text.trim_start().starts_with('{') => policy::same(one, other),
        _ => functions::covers(one, other),
    };
    let diff = diff_collection(&form(&change.to), &form(&change.from), &rule.key, same);
    let mut changed_removed = Vec::new();
    let mut changed_added = Vec::new();
    let mut changed = Vec::new();
    for (key, wanted, found) in diff.changed {
        if rule.change.is_some() {
            changed.push((key, wanted));
        } else {
            changed_removed.push((key.clone(), found));
            changed_added.push((key, wanted));
        }
    }
    let removed: Vec<_> = diff.removed.into_iter().chain(changed_removed).collect();
    let added: Vec<_> = diff.added.into_iter().chain(changed_added).collect();
    for (call, items) in
        [(rule.remove.as_ref(), removed), (Some(&rule.add), added), (rule.change.as_ref(), changed)]
    {
        if let Some(call) = call {
            batches(rule, call, scope, field, &items, &change.word, calls);
        }
    }
}

/// One call for each item, or for as many as the rule says.
fn batches(
    rule: &Collection,
    call: &Call,
    scope: &Scope<'_>,
    field: Option<&Field>,
    items: &[(String, Value)],
    word: &str,
    calls: &mut Vec<Planned>,
) {
    let size = rule.batch.map_or(1, |size| size.max(1) as usize);
    for batch in items.chunks(size) {
        let values: Vec<Value> = batch.iter().map(|(_, item)| item.clone()).collect();
        let keys: Vec<Value> = batch.iter().map(|(key, _)| key.as_str().into()).collect();
        let now = scope.now(
            field,
            [
                ("item", values.first().cloned().unwrap_or_default()),
                ("key", keys.first().cloned().unwrap_or_default()),
                ("items", Value::Array(values)),
                ("keys", Value::Array(keys)),
            ],
        );
        calls.push(Planned::of(call, &now, word));
    }
}

fn tag_calls(facts: &KindFacts, scope: &Scope<'_>, change: &FieldChange, calls: &mut Vec<Planned>) {
    let TagsRule::Told(rule) = &facts.rules.tags else { return };
    let (key, value) = tag_words(facts);
    let wanted = tags::as_map(&change.to, &key, &value);
    let found = tags::as_map(&change.from, &key, &value);
    let (set, removed) = tags::changes(&wanted, &found);
    // In the model's words, in the form that the member has: a map, or structures with these two members.
    let form = |call: &Call, tags: &std::collections::BTreeMap<String, String>, keys_only: bool| {
        let words = (rule.key.as_deref().unwrap_or("Key"), rule.value.as_deref().unwrap_or("Value"));
        let site = member_of(scope, call, "$tags");
        let shape = site.map(|site| site.content().shape);
        if site.is_some_and(|site| site.shape.kind() == ShapeKind::Map) {
            return tags::as_object(tags);
        }
        let find = |word: &str| {
            let members = shape.into_iter().flat_map(|shape| shape.members());
            let same = members.map(|member| member.name()).find(|name| name.eq_ignore_ascii_case(word));
            same.unwrap_or(if word.len() > 5 { "TagValue" } else { word }).to_owned()
        };
        let (key, value) = (find(words.0), find(words.1));
        match keys_only {
            true => tags.keys().map(|name| json!({&key: name})).collect(),
            false => tags::as_list(tags, &key, &value),
        }
    };
    if let Some(call) = rule.remove.as_ref().filter(|_| !removed.is_empty()) {
        let gone = removed.iter().map(|key| (key.clone(), String::new())).collect();
        let now = scope.now(None, [("keys", json!(removed)), ("tags", form(call, &gone, true))]);
        calls.push(Planned::of(call, &now, &change.word));
    }
    if let Some(call) = rule.add.as_ref().filter(|_| !set.is_empty()) {
        let now = scope.now(None, [("tags", form(call, &set, false))]);
        calls.push(Planned::of(call, &now, &change.word));
    }
}

/// The member of a call that a `$word` is sent in.
fn member_of(scope: &Scope<'_>, call: &Call, word: &str) -> Option<Site> {
    let input = Site::input(scope.translator.plan.model(), &call.call.value)?;
    let (member, _) = call.send.as_object()?.iter().find(|(_, value)| value.as_str() == Some(word))?;
    input.member(member)
}

fn version_calls(facts: &KindFacts, scope: &Scope<'_>, change: &FieldChange, calls: &mut Vec<Planned>) {
    let Some(versions) = &facts.rules.versions else { return };
    let now = scope.now(scope.translator.plan.field(&change.word), [("value", change.to.clone())]);
    calls.push(Planned { makes_version: true, ..Planned::of(&versions.create, &now, &change.word) });
}

/// The id of the version that has to go before another is made; `listed` is the answer of the listing call.
pub fn version_to_prune(facts: &KindFacts, listed: &Value) -> Option<String> {
    let versions = facts.rules.versions.as_ref()?;
    let items = paths::take(listed, versions.list.take.as_deref().unwrap_or_default(), &|_| None)?;
    let items = items.as_array()?;
    if items.len() < versions.most as usize {
        return None;
    }
    let is_default = |item: &&Value| item.get(&versions.is_default).and_then(Value::as_bool) == Some(true);
    let created = |item: &&Value| {
        let created = item.get(&versions.created).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = item.get(&versions.id).and_then(Value::as_str).unwrap_or_default();
        (created, id.len(), id.to_owned())
    };
    let oldest = items.iter().filter(|item| !is_default(item)).min_by_key(created)?;
    oldest.get(&versions.id)?.as_str().map(str::to_owned)
}

fn attribute_calls(facts: &KindFacts, scope: &Scope<'_>, changes: &[&FieldChange], calls: &mut Vec<Planned>) {
    let Some(set) = facts.rules.operations.set_attributes.as_ref().filter(|_| !changes.is_empty()) else {
        return;
    };
    let identity = scope.translator.request(&set.value, Verb::Update, scope.object);
    let one_by_one = facts.rules.attributes.as_ref().is_some_and(|attributes| attributes.one_by_one);
    let groups: Vec<&[&FieldChange]> = if one_by_one { changes.chunks(1).collect() } else { vec![changes] };
    for group in groups {
        let mut request = identity.clone();
        if one_by_one {
            let Some(change) = group.first() else { continue };
            request.insert("AttributeName".to_owned(), change.word.as_str().into());
            request.insert("AttributeValue".to_owned(), change.to.clone());
        } else {
            let attributes = group.iter().map(|change| (change.word.clone(), change.to.clone())).collect();
            request.insert("Attributes".to_owned(), Value::Object(attributes));
        }
        let serves = group.iter().map(|change| change.word.clone()).collect();
        calls.push(Planned { serves, ..Planned::new(&set.value, request) });
    }
}

fn step_calls(facts: &KindFacts, scope: &Scope<'_>, mut rest: Vec<&FieldChange>, calls: &mut Vec<Planned>) {
    let rules = facts.rules;
    for step in &rules.update {
        let named: Vec<&str> = step.fields.iter().map(|field| field.value.as_str()).collect();
        let serves: Vec<&FieldChange> = rest
            .iter()
            .filter(|change| named.is_empty() || named.contains(&change.word.as_str()))
            .copied()
            .collect();
        if serves.is_empty() || !scope.holds(&step.when) {
            continue;
        }
        rest.retain(|change| !serves.iter().any(|served| served.path == change.path));
        let words: Vec<String> = serves.iter().map(|change| change.word.clone()).collect();
        if let Some(name) = &step.function {
            let made = functions::plan(name, scope, &serves);
            calls.extend(made.into_iter().map(|call| Planned {
                serves: words.clone(),
                alone: step.alone,
                ..call
            }));
            continue;
        }
        let Some(operation) = step.call.as_ref().or(rules.operations.update.as_ref()) else { continue };
        let operation = operation.value.as_str();
        let mut request = Map::new();
        if named.is_empty() || step.changed_only {
            request = scope.translator.request(operation, Verb::Update, scope.object);
            if step.changed_only {
                keep_changed(scope, operation, &mut request, &words);
            }
        }
        let words = if named.is_empty() && step.send.is_null() {
            carried(scope, operation, &request, words)
        } else {
            words
        };
        add(&mut request, scope.request(operation, &step.send));
        if words.is_empty() {
            continue;
        }
        calls.push(Planned { serves: words, alone: step.alone, ..Planned::new(operation, request) });
    }
    let Some(operation) = rules.operations.update.as_ref().filter(|_| rules.update.is_empty()) else {
        return;
    };
    if rest.is_empty() {
        return;
    }
    let mut request = scope.translator.request(&operation.value, Verb::Update, scope.object);
    let words = rest.iter().map(|change| change.word.clone()).collect();
    let words: Vec<String> = carried(scope, &operation.value, &request, words);
    if words.is_empty() {
        return;
    }
    if rules.send_changed_only {
        keep_changed(scope, &operation.value, &mut request, &words);
    }
    annotated(facts, scope, &operation.value, &mut request);
    calls.push(Planned { serves: words, ..Planned::new(&operation.value, request) });
}

/// Adds members to a request, and to the structures in it.
fn add(request: &mut Map<String, Value>, members: Map<String, Value>) {
    for (member, value) in members {
        match (request.get_mut(&member), value) {
            (Some(Value::Object(before)), Value::Object(more)) => add(before, more),
            (_, value) => drop(request.insert(member, value)),
        }
    }
}

/// The words of those fields that a request made of the object has.
fn carried(
    scope: &Scope<'_>,
    operation: &str,
    request: &Map<String, Value>,
    mut words: Vec<String>,
) -> Vec<String> {
    let inside = scope.translator.facts.rules.inside.as_ref().and_then(|inside| request.get(&inside.value));
    let nested = inside.and_then(Value::as_object).into_iter().flatten();
    let members = request.iter().chain(nested).map(|(member, _)| member);
    let sent: Vec<&str> = members
        .filter_map(|member| scope.translator.sent_field(operation, Verb::Update, member))
        .map(|field| field.word.as_str())
        .collect();
    words.retain(|word| sent.contains(&word.as_str()));
    words
}

/// Leaves what changed, what identifies the object, what the operation requires, and constants.
fn keep_changed(scope: &Scope<'_>, operation: &str, request: &mut Map<String, Value>, words: &[String]) {
    let input = Site::input(scope.translator.plan.model(), operation);
    let constants = scope.translator.facts.rules.constants.get(operation);
    request.retain(|member, _| {
        let required =
            input.and_then(|input| input.shape.member(member)).is_some_and(|found| found.is_required());
        let field = scope.translator.field_of(operation, member);
        let rule = field.and_then(|field| scope.translator.facts.rules.fields.get(&field.word));
        let identity = rule.is_some_and(|rule| rule.value.key)
            || field.is_some_and(|field| field.home == Home::Status)
            || scope.translator.is_own_arn(member);
        let constant = constants.is_some_and(|constants| constants.value.contains_key(member));
        required || identity || constant || field.is_some_and(|field| words.contains(&field.word))
    });
}

/// The calls that delete the object, the deleting operation last.
pub fn delete(facts: &KindFacts, scope: &Scope<'_>) -> Vec<Planned> {
    let rules = facts.rules;
    let mut calls = Vec::new();
    let found = |word: &str| {
        let name = &scope.translator.plan.field(word)?.name;
        scope.observed?.get("spec")?.get(name).filter(|value| !is_empty(value)).cloned()
    };
    for (word, _) in rules.collections.iter().filter(|(_, told)| told.value.clear_before_delete) {
        if let Some(from) = found(word) {
            let change = FieldChange { word: word.clone(), path: String::new(), from, to: Value::Null };
            collection_calls(facts, scope, &change, &mut calls);
        }
    }
    for (word, part) in rules.parts.iter().filter(|(_, told)| told.value.clear_before_delete) {
        if let (Some(from), Some(delete)) = (found(word), &part.value.delete) {
            let now = scope.now(scope.translator.plan.field(word), [("value", from)]);
            calls.push(Planned::of(delete, &now, word));
        }
    }
    if let Some(delete) = &rules.delete {
        let before = delete.before.iter().filter(|call| scope.holds(&call.when));
        calls.extend(before.map(|call| Planned::of(call, scope, "")));
    }
    let told =
        rules.delete.as_ref().and_then(|delete| delete.call.as_ref()).or(rules.operations.delete.as_ref());
    if let Some(operation) = told {
        let mut request = scope.translator.request(&operation.value, Verb::Delete, scope.object);
        if let Some(delete) = &rules.delete {
            add(&mut request, scope.request(&operation.value, &delete.send));
        }
        annotated(facts, scope, &operation.value, &mut request);
        calls.push(Planned::new(&operation.value, request));
    }
    calls
}

/// Annotations of the object that are members of the operation.
fn annotated(facts: &KindFacts, scope: &Scope<'_>, operation: &str, request: &mut Map<String, Value>) {
    let annotations = scope.object.pointer("/metadata/annotations");
    for (name, rule) in facts.rules.annotations.iter().filter(|(_, rule)| rule.operation.value == operation) {
        let text = annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str);
        let value = text.and_then(|text| match rule.literal.as_str() {
            "bool" => text.parse::<bool>().ok().map(Value::from),
            "int64" => text.parse::<i64>().ok().map(Value::from),
            _ => Some(Value::from(text)),
        });
        if let Some(value) = value.or_else(|| rule.default.clone()) {
            request.insert(rule.member.clone(), value);
        }
    }
}
