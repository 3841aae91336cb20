//! A resource as it is: the reading call, then parts, collections, tags and versions.

use std::collections::BTreeMap;
use std::time::Duration;

use objects::meta;
use provision::dialect::ack;
use provision::{Class, Failure, OperationType, Readiness};
use serde_json::{Map, Value, json};

use super::scope::Wanted;
use super::{Note, Subjected, failure, records};
use crate::client::CallError;
use crate::kinds::calls::{self, Planned};
use crate::kinds::compare::{is_empty, tags_field};
use crate::kinds::send::Scope;
use crate::kinds::translate::Learned;
use crate::kinds::{KindFacts, functions, paths};
use crate::rules::vocabulary::{Call, Compare, Gate, TagsRule};

/// What was found.
pub(super) struct Found {
    pub note: Note,
    pub status: Value,
    pub arn: Option<String>,
    pub readiness: Readiness,
}

/// Calls for parts of one object that are made at once.
const AT_ONCE: usize = 4;
/// Until something that changes by itself is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Reads a resource; nothing if it is not there, or nothing is known to find it by.
pub(super) async fn observe(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
) -> Result<Option<Found>, Failure> {
    let Some((operation, reply)) = reply(kind, subject, wanted).await? else { return Ok(None) };
    let scope = wanted.scope(kind, None)?;
    let Some(answer) = calls::pick(kind, &scope, &operation, &reply) else { return Ok(None) };
    let mut learned = learned(kind, &scope, &operation, &reply, &answer);
    if learned.arn.is_none() {
        learned.arn = arn(kind, wanted, &learned.spec);
    }
    let status = Value::Object(learned.status.clone());
    let identified = wanted.identified(&status, learned.arn.as_deref());
    let mut note = Note { observed: Value::Null, answer, reply, lists: BTreeMap::new(), unseen: false };
    let here = json!({"spec": learned.spec, "status": status});
    if kind.rules.gone.iter().any(|gate| is_open(gate, &here)) {
        return Ok(None);
    }
    let more = parts(kind, subject, &identified, &mut note).await?;
    learned.spec.extend(more);
    look(kind, subject, &identified, &note, &mut learned).await?;
    for (word, rule) in &kind.rules.fields {
        let elsewhere = kind.rules.parts.contains_key(word)
            || kind.rules.looks.iter().any(|look| look.fills.contains_key(word));
        let own = rule.value.shown_by.as_ref().filter(|_| !elsewhere);
        if let (Some(function), Some(field)) = (own, scope.translator.plan.field(word)) {
            let shown = functions::shown(function, &wanted.object["spec"][&field.name], &note.reply);
            learned.put(field, shown);
        }
    }
    let status = Value::Object(learned.status);
    note.observed = json!({"spec": learned.spec, "status": status});
    let readiness = readiness(kind, &note.observed);
    Ok(Some(Found { note, status, arn: learned.arn, readiness }))
}

/// The answer of the reading call.
async fn reply(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
) -> Result<Option<(String, Value)>, Failure> {
    if kind.rules.function.as_deref() == Some(records::FUNCTION) {
        return records::read(kind, subject, wanted).await;
    }
    let planned = calls::read(kind, &wanted.scope(kind, None)?);
    let Some(planned) = planned else { return Ok(None) };
    let operations = &kind.rules.operations;
    let is = |operation: &Option<serde_saphyr::Spanned<String>>| {
        operation.as_ref().is_some_and(|operation| operation.value == planned.operation)
    };
    let purpose = if is(&operations.get_attributes) {
        OperationType::GetAttributes
    } else if is(&operations.list) {
        OperationType::ReadMany
    } else {
        OperationType::ReadOne
    };
    match ask(kind, subject, purpose, &planned).await {
        Ok(reply) => Ok(Some((planned.operation, reply))),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Makes a reading call, all its pages.
pub(super) async fn ask(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    purpose: OperationType,
    planned: &Planned,
) -> Result<Value, Failure> {
    raw(kind, subject, purpose, planned).await.map_err(|error| error.0)
}

/// A failure, and the code it came with.
struct Refused(Failure, String);

async fn raw(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    purpose: OperationType,
    planned: &Planned,
) -> Result<Value, Refused> {
    let plan = kind.plan().map_err(|error| Refused(Failure::terminal(error.to_string()), String::new()))?;
    let input = Value::Object(planned.request.clone());
    let call = async {
        let answer = subject.connection.client.call_all(plan.model(), &planned.operation, &input).await;
        answer.map_err(|error: CallError| failure::of(kind, error))
    };
    let made = subject.calls.make(purpose, &planned.operation, call).await;
    made.map_err(|failure| {
        let code = failure.code.to_string();
        Refused(failure, code)
    })
}

fn learned(kind: &KindFacts, scope: &Scope<'_>, operation: &str, reply: &Value, answer: &Value) -> Learned {
    let mut learned = scope.translator.learned(operation, answer);
    let attributes = kind.rules.attributes.as_ref().and(reply.get("Attributes"));
    if let Some(Value::Object(attributes)) = attributes {
        let more = scope.translator.learned_attributes(attributes);
        learned.spec.extend(more.spec);
        learned.status.extend(more.status);
        learned.arn = more.arn.or(learned.arn);
        learned.owner = more.owner.or(learned.owner);
    }
    // IAM shows policies percent-encoded, and a policy never begins so itself.
    for (word, rule) in &kind.rules.fields {
        let Some(field) = scope.translator.plan.field(word) else { continue };
        if let (Some(Compare::Policy), Some(Value::String(text))) =
            (rule.value.compare, learned.spec.get_mut(&field.name))
            && text.starts_with('%')
        {
            *text = crate::kinds::policy::url_decoded(text);
        }
    }
    // What identifies an object is what it was asked by: answers need not repeat it.
    for (word, rule) in &kind.rules.fields {
        let Some(field) = scope.translator.plan.field(word).filter(|_| rule.value.key) else { continue };
        let Some(value) = scope.translator.value(field, scope.object) else { continue };
        let home = match field.home {
            crate::kinds::Home::Spec => &mut learned.spec,
            crate::kinds::Home::Status => &mut learned.status,
        };
        home.entry(field.name.clone()).or_insert_with(|| value.clone());
    }
    learned
}

/// The ARN of an object that AWS does not tell: what is recorded, or what follows from its name.
pub(super) fn arn(kind: &KindFacts, wanted: &Wanted, spec: &Map<String, Value>) -> Option<String> {
    let known = wanted.meta.get("arn").filter(|arn| !arn.is_empty());
    if known.is_some() {
        return known.cloned();
    }
    let partition = wanted.meta.get("partition")?;
    let name = |field: &str| {
        let value = spec.get(field).or_else(|| wanted.object.get("spec")?.get(field));
        value.and_then(Value::as_str)
    };
    match (kind.service, kind.kind) {
        ("s3", "Bucket") => Some(format!("arn:{partition}:s3:::{}", name("name")?)),
        _ => None,
    }
}

/// The fields that have calls of their own.
async fn parts(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    note: &mut Note,
) -> Result<Map<String, Value>, Failure> {
    let rules = kind.rules;
    let answered = note.clone();
    let scope = wanted.scope(kind, Some(&answered))?;
    let asked = scope.translator.plan;
    let is_wanted = |name: &str| wanted.object["spec"].get(name).is_some_and(|value| !is_empty(value));
    let adopting = is_adopting(subject);
    let mut found = Map::new();

    let mut tasks = Vec::new();
    for (word, part) in &rules.parts {
        let (Some(get), Some(field)) = (&part.value.get, asked.field(word)) else { continue };
        let late = rules.fields.get(word).is_some_and(|rule| rule.value.late.is_some());
        // What is left as it is found needs no look, unless its value is to be taken over.
        let idle = part.value.keep && !is_wanted(&field.name) && !late && !adopting;
        if !idle && scope.holds(&get.when) {
            tasks.push((word, field, get, is_wanted(&field.name)));
        }
    }
    for some in tasks.chunks(AT_ONCE) {
        let mut reads = Vec::new();
        for (_, _, get, needed) in some {
            reads.push(read_part(kind, subject, &scope, get, *needed));
        }
        for ((word, field, _, _), answer) in some.iter().zip(futures::future::join_all(reads).await) {
            let shown_by = rules.fields.get(*word).and_then(|rule| rule.value.shown_by.as_deref());
            let value = answer?.map(|reply| match shown_by {
                Some(function) => functions::shown(function, &wanted.object["spec"][&field.name], &reply),
                None => scope.translator.part_value(word, &reply),
            });
            let value = value.unwrap_or_default();
            // A structure without members says nothing.
            if !value.is_null() && value.as_object().is_none_or(|members| !members.is_empty()) {
                found.insert(field.name.clone(), value);
            }
        }
    }
    for (word, collection) in &rules.collections {
        let (Some(list), Some(field)) = (&collection.value.list, asked.field(word)) else { continue };
        let needed = is_wanted(&field.name);
        if collection.value.keep && !needed && !adopting {
            continue;
        }
        let Some(reply) = read_part(kind, subject, &scope, list, needed).await? else { continue };
        let mut value = scope.translator.listed(word, &reply);
        if let Some(each) = &collection.value.each {
            value = details(kind, subject, &scope, each, &value, collection.value.url_encoded).await?;
        } else if collection.value.url_encoded {
            value = decoded(&value);
        }
        found.insert(field.name.clone(), value);
        note.lists.insert(word.clone(), reply);
    }
    if let Some((name, tags)) = tags(kind, subject, &scope, &note.answer).await? {
        found.insert(name, tags);
    }
    if let Some(versions) = &rules.versions
        && let (Some(get), Some(field)) = (&versions.get, asked.field(&versions.field))
    {
        let reply = read_part(kind, subject, &scope, &versions.list, true).await?.unwrap_or_default();
        let items = paths::take(&reply, versions.list.take.as_deref().unwrap_or_default(), &|_| None);
        let current = items
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|item| item.get(&versions.is_default).and_then(Value::as_bool) == Some(true));
        if let Some(id) = current.and_then(|item| item.get(&versions.id)) {
            let now = scope.now(None, [("version", id.clone())]);
            let reply = read_part(kind, subject, &now, get, true).await?.unwrap_or_default();
            let document = paths::take(&reply, get.take.as_deref().unwrap_or_default(), &|_| None);
            let document = document.unwrap_or_default();
            found
                .insert(field.name.clone(), if versions.url_encoded { decoded(&document) } else { document });
        }
    }
    Ok(found)
}

/// What answers tell beside the object, and those of calls that tell of several fields.
async fn look(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    note: &Note,
    learned: &mut Learned,
) -> Result<(), Failure> {
    let scope = wanted.scope(kind, Some(note))?;
    for look in &kind.rules.looks {
        let reply = match (&look.read, &look.of) {
            (Some(call), _) if !scope.holds(&call.when) => None,
            (Some(call), _) => read_part(kind, subject, &scope, call, false).await?,
            (None, Some(word)) => note.lists.get(&word.value).cloned(),
            (None, None) => Some(note.reply.clone()),
        };
        let Some(reply) = reply else { continue };
        for (word, path) in &look.fills {
            let Some(field) = scope.translator.plan.field(word) else { continue };
            let shown_by = kind.rules.fields.get(word).and_then(|rule| rule.value.shown_by.as_deref());
            let value = paths::take(&reply, &path.value, &|word| scope.find(word, None));
            match (value, shown_by) {
                (Some(value), Some(function)) => {
                    let shown = functions::shown(function, &wanted.object["spec"][&field.name], &value);
                    learned.put(field, shown);
                }
                (Some(value), None) => learned.put(field, scope.translator.inbound(field, &value)),
                (None, _) => {}
            }
        }
    }
    Ok(())
}

/// Whether the object is to become like what is there.
fn is_adopting(subject: &Subjected<'_>) -> bool {
    let asked = meta::annotation(subject.object, ack::ADOPTION_POLICY).is_some();
    asked && !meta::finalizers(subject.object).any(|one| one == subject.facts.finalizer)
}

/// The tags of an object and the name of their field: by a call of their own, or as the answer of the reading call shows
/// them.
pub(super) async fn tags(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    scope: &Scope<'_>,
    answer: &Value,
) -> Result<Option<(String, Value)>, Failure> {
    let Some(field) = tags_field(kind).and_then(|word| scope.translator.plan.field(&word)) else {
        return Ok(None);
    };
    let told = match &kind.rules.tags {
        TagsRule::Told(tags) => tags.get.as_ref().filter(|get| scope.holds(&get.when)),
        _ => None,
    };
    let Some(get) = told else {
        let shown = scope.translator.learned("", answer).spec.remove(&field.name);
        return Ok(shown.map(|shown| (field.name.clone(), without_system(shown))));
    };
    let reply = read_part(kind, subject, scope, get, true).await?.unwrap_or_default();
    let taken = paths::take(&reply, get.take.as_deref().unwrap_or_default(), &|word| scope.find(word, None));
    let value = scope.translator.tags_value(field, &taken.unwrap_or_default());
    Ok(Some((field.name.clone(), without_system(value))))
}

/// The answer of a call of a part; nothing where there is nothing. `needed` is whether the object says anything of it.
pub(super) async fn read_part(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    scope: &Scope<'_>,
    call: &Call,
    needed: bool,
) -> Result<Option<Value>, Failure> {
    let request = scope.request(&call.call.value, &call.send);
    let planned = Planned { operation: call.call.value.clone(), request, ..Planned::default() };
    match raw(kind, subject, OperationType::ReadOne, &planned).await {
        Ok(reply) => Ok(Some(reply)),
        Err(Refused(_, code)) if call.absent.contains(&code) || call.ignore.contains(&code) => Ok(None),
        // What nobody asked for and what this endpoint cannot tell is left alone.
        Err(Refused(failure, _)) if !needed && is_unsupported(&failure) => Ok(None),
        Err(Refused(failure, _)) => Err(failure),
    }
}

fn is_unsupported(failure: &Failure) -> bool {
    const CODES: &[&str] =
        &["InternalServerError", "MethodNotAllowed", "NotFound", "NotImplemented", "UnreadableResponse"];
    failure.class != Class::Throttled && CODES.contains(&failure.code.as_str())
}

/// For each name listed, what it is.
async fn details(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    scope: &Scope<'_>,
    each: &Call,
    names: &Value,
    url_encoded: bool,
) -> Result<Value, Failure> {
    let mut items = Map::new();
    for name in names.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let now = scope.now(None, [("key", name.into())]);
        let Some(reply) = read_part(kind, subject, &now, each, true).await? else { continue };
        let value =
            paths::take(&reply, each.take.as_deref().unwrap_or_default(), &|_| None).unwrap_or_default();
        items.insert(name.to_owned(), if url_encoded { decoded(&value) } else { value });
    }
    Ok(Value::Object(items))
}

/// Texts without their percent-encoding.
fn decoded(value: &Value) -> Value {
    match value {
        Value::String(text) => crate::kinds::policy::url_decoded(text).into(),
        Value::Array(items) => items.iter().map(decoded).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), decoded(value))).collect())
        }
        other => other.clone(),
    }
}

/// Tags without those that only AWS can set.
fn without_system(tags: Value) -> Value {
    let is_system =
        |text: Option<&Value>| text.and_then(Value::as_str).is_some_and(crate::kinds::tags::is_system);
    match tags {
        Value::Object(entries) => Value::Object(
            entries.into_iter().filter(|(key, _)| !crate::kinds::tags::is_system(key)).collect(),
        ),
        Value::Array(items) => items
            .into_iter()
            .filter(|item| {
                !item.as_object().is_some_and(|item| item.values().any(|value| is_system(Some(value))))
            })
            .collect(),
        other => other,
    }
}

/// Whether the value at a gate is one of its values; of a list, all of them. A list without items is like nothing.
pub(super) fn is_open(gate: &Gate, object: &Value) -> bool {
    let any = gate.values.iter().any(|value| value == "*");
    let fits = |value: &Value| any && !is_empty(value) || gate.values.contains(value);
    match paths::take(object, &gate.at.value, &|_| None).unwrap_or_default() {
        Value::Array(items) if !items.is_empty() => items.iter().all(fits),
        Value::Array(_) => fits(&Value::Null),
        one => fits(&one),
    }
}

fn readiness(kind: &KindFacts, object: &Value) -> Readiness {
    let state = |gates: &[Gate]| {
        let shut = gates.iter().find(|gate| !is_open(gate, object))?;
        let value = paths::take(object, &shut.at.value, &|_| None).unwrap_or_default();
        Some(format!(
            "{} is {}",
            shut.at.value,
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        ))
    };
    if let Some(gate) = kind.rules.failed.iter().find(|gate| is_open(gate, object)) {
        let value = paths::take(object, &gate.at.value, &|_| None).unwrap_or_default();
        return Readiness::Failed { message: format!("{} is {value}", gate.at.value) };
    }
    if let Some(message) = state(&kind.rules.updatable) {
        return Readiness::Busy { message, after: Some(LOOK_AGAIN) };
    }
    match state(&kind.rules.synced) {
        Some(message) => Readiness::NotReady { message, after: Some(LOOK_AGAIN) },
        None => Readiness::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_decide_what_may_be_done() {
        let table = crate::kinds::find("dynamodb", "Table").unwrap();
        let check = |status: &str, busy: bool, ready: bool| {
            let object = json!({"spec": {}, "status": {"tableStatus": status}});
            let found = readiness(table, &object);
            assert_eq!(matches!(found, Readiness::Busy { .. }), busy, "{found:?}");
            assert_eq!(found == Readiness::Ready, ready, "{found:?}");
        };
        check("ACTIVE", false, true);
        check("CREATING", true, false);
        check("INACCESSIBLE_ENCRYPTION_CREDENTIALS", false, false);
        let failed = crate::kinds::all().iter().find(|kind| !kind.rules.failed.is_empty()).unwrap();
        let gate = &failed.rules.failed[0];
        let mut object = json!({"spec": {}, "status": {}});
        super::super::scope::put(
            &mut object,
            &gate.at.value.split('.').collect::<Vec<_>>(),
            gate.values[0].clone(),
        );
        assert!(matches!(readiness(failed, &object), Readiness::Failed { .. }), "{failed:?}");
    }
}
