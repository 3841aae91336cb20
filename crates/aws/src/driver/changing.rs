//! Making, changing and deleting a resource.

use std::time::Duration;

use provision::{Change, Class, Deleted, Failure, Observed, OperationType, Record};
use serde_json::Value;

use super::scope::Wanted;
use super::{Note, SOON, Subjected, failure, reading, records};
use crate::kinds::KindFacts;
use crate::kinds::calls::{self, Planned};
use crate::kinds::compare::{FieldChange, compare};
use crate::kinds::send::Scope;

/// Makes one call; codes that the rules call as good as success are.
pub(super) async fn perform(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    purpose: OperationType,
    planned: &Planned,
    token: Option<&str>,
) -> Result<Value, Failure> {
    let plan = kind.plan().map_err(|error| Failure::terminal(error.to_string()))?;
    let input = Value::Object(planned.request.clone());
    let call = async {
        let client = &subject.connection.client;
        let answer = match token {
            Some(token) => client.call_with_token(plan.model(), &planned.operation, &input, token).await,
            None => client.call(plan.model(), &planned.operation, &input).await,
        };
        answer.map_err(|error| failure::of(kind, error))
    };
    match subject.calls.make(purpose, &planned.operation, call).await {
        Err(failure) if planned.ignore.iter().any(|code| failure.code == code.as_str()) => Ok(Value::Null),
        Err(failure) => {
            let message = subject.secrets.redact(&failure.message);
            Err(Failure { message, ..failure })
        }
        Ok(answer) => match refused_entry(kind, &answer) {
            Some(failure) => Err(failure),
            None => Ok(answer),
        },
    }
}

/// What an answer says of entries that were not taken, although the call as a whole was.
fn refused_entry(kind: &KindFacts, answer: &Value) -> Option<Failure> {
    let count = answer.get("FailedEntryCount").and_then(Value::as_i64).filter(|count| *count > 0)?;
    let first = answer.get("FailedEntries").and_then(|entries| entries.get(0));
    let text =
        |member: &str| first.and_then(|first| first.get(member)).and_then(Value::as_str).unwrap_or_default();
    let code = text("ErrorCode").to_owned();
    let class = if kind.rules.errors.terminal.contains(&code) { Class::Terminal } else { Class::Recoverable };
    let of = text("TargetId");
    Some(Failure::new(
        class,
        code,
        format!("{count} entries were refused, first {of}: {}", text("ErrorMessage")),
    ))
}

fn named(kind: &KindFacts, planned: &Planned) -> String {
    format!("{}:{}", kind.service, planned.operation)
}

/// What making the object would call.
pub(super) fn creating_calls(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
) -> Result<Vec<String>, Failure> {
    let scope = wanted.scope(kind, None)?;
    let mut names = vec![named(kind, &calls::create(kind, &scope, ""))];
    // What no creating call carries is put by an update after it.
    let nothing = compare(kind, scope.translator.plan, &subject.desired["spec"], &Value::Null);
    let rules = kind.rules;
    let later = nothing.into_iter().filter(|change| {
        rules.parts.get(&change.word).is_some_and(|part| !part.value.on_create)
            || rules.collections.get(&change.word).is_some_and(|collection| !collection.value.on_create)
    });
    let later: Vec<FieldChange> = later.collect();
    names.extend(calls::update(kind, &scope, &later).iter().map(|planned| named(kind, planned)));
    Ok(names)
}

pub(super) async fn create(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    token: &str,
) -> Result<Record, Failure> {
    if kind.rules.function.as_deref() == Some(records::FUNCTION) {
        return records::create(kind, subject, wanted).await;
    }
    let scope = wanted.scope(kind, None)?;
    let planned = calls::create(kind, &scope, token);
    let answer = perform(kind, subject, OperationType::Create, &planned, Some(token)).await?;
    Ok(record(kind, wanted, &scope, &planned.operation, &answer))
}

/// What an answer says of a resource that was made: everything by which it is found again.
pub(super) fn record(
    kind: &KindFacts,
    wanted: &Wanted,
    scope: &Scope<'_>,
    operation: &str,
    answer: &Value,
) -> Record {
    let found = match scope.translator.answered(operation, answer).unwrap_or_else(|| answer.clone()) {
        Value::Array(items) => items.into_iter().next().unwrap_or_default(),
        one => one,
    };
    let mut learned = scope.translator.learned(operation, &found);
    if learned.arn.is_none() {
        learned.arn = scope.translator.learned(operation, answer).arn;
    }
    let arn = learned.arn.or_else(|| reading::arn(kind, wanted, &learned.spec));
    Record { status: Value::Object(learned.status), arn, ..Record::default() }
}

/// The calls that make these changes.
pub(super) fn updating_calls(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    observed: &Observed<Note>,
    changes: &[Change],
) -> Result<Vec<Planned>, Failure> {
    let identified = wanted.identified(&observed.status, observed.arn.as_deref());
    let scope = identified.scope(kind, Some(&observed.note))?;
    let plan = scope.translator.plan;
    let mut differences = compare(kind, plan, &subject.desired["spec"], &observed.note.observed["spec"]);
    differences.retain(|difference| changes.iter().any(|change| change.path == difference.path));
    for change in changes.iter().filter(|change| change.sensitive) {
        let name = change.path.trim_start_matches("spec.").split(['.', '[']).next().unwrap_or_default();
        if let Some(field) = plan.fields().iter().find(|field| field.name == name) {
            let to = identified.object["spec"].get(name).cloned().unwrap_or_default();
            let path = change.path.clone();
            differences.push(FieldChange { word: field.word.clone(), path, from: Value::Null, to });
        }
    }
    if kind.rules.function.as_deref() == Some(records::FUNCTION) {
        return records::update(kind, &identified, &observed.note, &differences);
    }
    Ok(calls::update(kind, &scope, &differences))
}

/// Makes the changes. The time after which to look again, if not all of them could be made at once.
pub(super) async fn update(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    observed: &Observed<Note>,
    changes: &[Change],
) -> Result<Option<Duration>, Failure> {
    let asked = asked(kind, subject, wanted, observed, changes).await?;
    let planned = updating_calls(kind, subject, wanted, asked.as_ref().unwrap_or(observed), changes)?;
    for call in &planned {
        if call.makes_version {
            prune(kind, subject, wanted, observed).await?;
        }
        let sets = kind.rules.operations.set_attributes.as_ref();
        let purpose = match sets.is_some_and(|sets| sets.value == call.operation) {
            true => OperationType::SetAttributes,
            false => OperationType::Update,
        };
        perform(kind, subject, purpose, call, None).await?;
        if call.alone {
            return Ok(Some(SOON));
        }
    }
    Ok(None)
}

/// What was found, with what collections ask before their items come and go; nothing where none does.
async fn asked(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    observed: &Observed<Note>,
    changes: &[Change],
) -> Result<Option<Observed<Note>>, Failure> {
    let identified = wanted.identified(&observed.status, observed.arn.as_deref());
    let scope = identified.scope(kind, Some(&observed.note))?;
    let mut asked = None;
    for (word, collection) in &kind.rules.collections {
        let (Some(ask), Some(field)) = (&collection.value.ask, scope.translator.plan.field(word)) else {
            continue;
        };
        if changes.iter().any(|change| change.path == format!("spec.{}", field.name)) {
            let reply = reading::read_part(kind, subject, &scope, ask, true).await?;
            let with: &mut Observed<Note> = asked.get_or_insert_with(|| observed.clone());
            with.note.lists.extend(reply.map(|reply| (word.clone(), reply)));
        }
    }
    Ok(asked)
}

/// Deletes the oldest version of a document, if there are as many as there may be.
async fn prune(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    observed: &Observed<Note>,
) -> Result<(), Failure> {
    let Some(versions) = &kind.rules.versions else { return Ok(()) };
    let identified = wanted.identified(&observed.status, observed.arn.as_deref());
    let scope = identified.scope(kind, Some(&observed.note))?;
    let list = Planned {
        operation: versions.list.call.value.clone(),
        request: scope.request(&versions.list.call.value, &versions.list.send),
        ..Planned::default()
    };
    let listed = reading::ask(kind, subject, OperationType::ReadMany, &list).await?;
    let Some(oldest) = calls::version_to_prune(kind, &listed) else { return Ok(()) };
    let now = scope.now(None, [("version", oldest.into())]);
    let delete = Planned {
        operation: versions.delete.call.value.clone(),
        request: now.request(&versions.delete.call.value, &versions.delete.send),
        ..Planned::default()
    };
    perform(kind, subject, OperationType::Delete, &delete, None).await.map(|_| ())
}

pub(super) async fn delete(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    observed: &Observed<Note>,
) -> Result<Deleted, Failure> {
    if kind.rules.function.as_deref() == Some(records::FUNCTION) {
        return records::delete(kind, subject, wanted, observed).await;
    }
    let shut = !observed.note.unseen
        && kind.rules.deletable.iter().any(|gate| !reading::is_open(gate, &observed.note.observed));
    if shut {
        return Ok(Deleted::Going(SOON));
    }
    let identified = wanted.identified(&observed.status, observed.arn.as_deref());
    let scope = identified.scope(kind, Some(&observed.note))?;
    let mut planned = calls::delete(kind, &scope);
    // Versions of a document that are not in use stand in the way of the last one.
    if kind.rules.versions.is_some() {
        let at = planned.len().saturating_sub(1);
        planned.splice(at..at, version_deletions(kind, subject, &scope).await?);
    }
    for call in &planned {
        match perform(kind, subject, OperationType::Delete, call, None).await {
            // What makes it deletable takes its time.
            Ok(_) if call.alone => return Ok(Deleted::Going(SOON)),
            Ok(_) => {}
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
    }
    let waits = kind.rules.delete.as_ref().is_some_and(|delete| delete.wait);
    Ok(if waits { Deleted::Going(SOON) } else { Deleted::Gone })
}

async fn version_deletions(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    scope: &Scope<'_>,
) -> Result<Vec<Planned>, Failure> {
    let Some(versions) = &kind.rules.versions else { return Ok(Vec::new()) };
    let list = Planned {
        operation: versions.list.call.value.clone(),
        request: scope.request(&versions.list.call.value, &versions.list.send),
        ..Planned::default()
    };
    let listed = reading::ask(kind, subject, OperationType::ReadMany, &list).await?;
    let taken = versions.list.take.as_deref().unwrap_or_default();
    let items = crate::kinds::paths::take(&listed, taken, &|_| None).unwrap_or_default();
    let old = items
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| item.get(&versions.is_default) != Some(&Value::Bool(true)));
    let deletion = |item: &Value| {
        let now = scope.now(None, [("version", item.get(&versions.id).cloned().unwrap_or_default())]);
        Planned {
            operation: versions.delete.call.value.clone(),
            request: now.request(&versions.delete.call.value, &versions.delete.send),
            ..Planned::default()
        }
    };
    Ok(old.map(deletion).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_that_were_not_taken() {
        let rule = crate::kinds::find("eventbridge", "Rule").unwrap();
        let refused = json!({"FailedEntryCount": 1, "FailedEntries": [
            {"TargetId": "t", "ErrorCode": "ManagedRuleException", "ErrorMessage": "it is not yours"},
        ]});
        let failure = refused_entry(rule, &refused).unwrap();
        assert_eq!(
            failure.to_string(),
            "ManagedRuleException: 1 entries were refused, first t: it is not yours"
        );
        assert_eq!(refused_entry(rule, &json!({"FailedEntryCount": 0, "FailedEntries": []})), None);
        assert_eq!(refused_entry(rule, &json!({})), None);
    }
}
