//! What became of a create whose answer was lost.
//!
//! A resource with a name of its own is read by the name; where reading needs what only the creating call answers, the
//! rules say how to find it. A creating call that takes a token, or that answers with what is already there, is made
//! again. What has none of that carries a mark, and is looked for by that; so does what two may make at once, each being
//! answered as if it alone had.

use std::time::Duration;

use objects::meta;
use provision::{Class, Failure, OperationType, Record, Recovery};
use serde_json::{Value, json};

use super::scope::Wanted;
use super::{Subjected, changing, reading, scope};
use crate::kinds::calls::{self, Planned};
use crate::kinds::compare::tag_words;
use crate::kinds::send::Scope;
use crate::kinds::{KindFacts, paths, tags};
use crate::rules::vocabulary::{Call, TagsRule};

/// The tag that says whose a resource is, where nothing else does.
pub(super) const MARK: &str = "hangar.dev/owner";

/// Creating calls that answer with what is there when it is there already.
const REPEATABLE: &[(&str, &str)] = &[
    ("ecs", "CreateCluster"),
    ("lambda", "PublishVersion"),
    ("sfn", "CreateActivity"),
    ("sfn", "CreateStateMachine"),
    ("sns", "CreatePlatformApplication"),
    ("sns", "CreatePlatformEndpoint"),
    ("sns", "CreateTopic"),
    ("sns", "Subscribe"),
    ("sqs", "CreateQueue"),
];

/// Whether making something that is there already looks like making it: then nobody can tell afterwards whose it is.
fn takes_over(kind: &KindFacts) -> bool {
    REPEATABLE.contains(&(kind.service, kind.rules.operations.create.value.as_str()))
}

fn is_repeatable(kind: &KindFacts) -> bool {
    let create = kind.rules.operations.create.value.as_str();
    let operation = kind.plan().ok().and_then(|plan| plan.model().operation(create));
    let has_token = operation
        .and_then(|operation| operation.input())
        .is_some_and(|input| input.members().any(|member| member.is_idempotency_token()));
    has_token || takes_over(kind)
}

/// Whether a kind carries a mark: EC2's, which have no names, those whose rules say so, and those whose creating call does not
/// say whether somebody else made it.
fn is_marked(kind: &KindFacts) -> bool {
    kind.rules.marked || is_filtered(kind) || is_contested(kind)
}

/// Whether a mark tells whose something is that a creating call answered with: its tags can be asked for.
fn is_contested(kind: &KindFacts) -> bool {
    takes_over(kind) && matches!(&kind.rules.tags, TagsRule::Told(tags) if tags.get.is_some())
}

/// Whether lists of a kind can be asked for a mark.
fn is_filtered(kind: &KindFacts) -> bool {
    kind.service == "ec2" && !is_repeatable(kind)
}

/// The mark for a resource that would not be found again without it.
pub(super) fn mark(kind: &KindFacts, object: &Value) -> Option<(String, String)> {
    is_marked(kind).then(|| (MARK.to_owned(), meta::uid(object).to_owned()))
}

/// `lag` is how long lists may lag behind what was made.
pub(super) async fn recover(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    lag: Duration,
) -> Result<Recovery, Failure> {
    let wanted = scope::wanted(subject);
    if is_recorded(kind, &wanted)? {
        return Ok(Recovery::Made(Record::default()));
    }
    if calls::read(kind, &wanted.scope(kind, None)?).is_some() {
        return Ok(match reading::observe(kind, subject, &wanted).await? {
            Some(found) => {
                Recovery::Made(Record { status: found.status, arn: found.arn, ..Record::default() })
            }
            None => Recovery::NotMade,
        });
    }
    let told = kind.rules.find.as_ref();
    let listed = if let Some(find) = told.filter(|find| holds(kind, &wanted, find)) {
        Some((find.call.value.as_str(), found(kind, subject, &wanted, find).await?))
    } else if is_repeatable(kind) {
        return Ok(Recovery::Repeat);
    } else {
        listed(kind, subject, &wanted).await?
    };
    let Some((operation, items)) = listed else {
        return Ok(Recovery::Unknown(format!(
            "a call of {} was interrupted, and AWS has no way to ask what became of it; look for the resource in the account",
            kind.rules.operations.create.value
        )));
    };
    let scope = wanted.scope(kind, None)?;
    for item in &items {
        let record = changing::record(kind, &wanted, &scope, operation, item);
        if is_ours(kind, subject, &wanted, &record, item).await? {
            return Ok(Recovery::Made(record));
        }
    }
    // What answers with what is there is made again at once, however old the list is.
    if takes_over(kind) {
        return Ok(Recovery::Repeat);
    }
    Ok(if younger_than(subject, lag) { Recovery::NotYet(LAGGING) } else { Recovery::NotMade })
}

/// What has the name already that an object which has nothing yet asks for, where the creating call would not say so.
pub(super) async fn namesake(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
) -> Result<Option<reading::Found>, Failure> {
    let scope = wanted.scope(kind, None)?;
    let told = kind.rules.find.as_ref().filter(|_| takes_over(kind) && calls::read(kind, &scope).is_none());
    let Some(find) = told.filter(|find| scope.holds(&find.when)) else { return Ok(None) };
    for item in found(kind, subject, wanted, find).await? {
        let record = changing::record(kind, wanted, &scope, &find.call.value, &item);
        if is_pending(&record) {
            continue;
        }
        let known = wanted.identified(&record.status, record.arn.as_deref());
        if let Some(found) = reading::observe(kind, subject, &known).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether the object names what only the creating call can have told: then that call was answered, whatever reads say.
fn is_recorded(kind: &KindFacts, wanted: &Wanted) -> Result<bool, Failure> {
    let names = |scope: Scope<'_>| calls::read(kind, &scope).is_some();
    Ok(names(wanted.scope(kind, None)?) && !names(wanted.unidentified().scope(kind, None)?))
}

/// Between looks for what a list may not show yet.
const LAGGING: Duration = Duration::from_secs(5);

fn holds(kind: &KindFacts, wanted: &Wanted, find: &Call) -> bool {
    wanted.scope(kind, None).is_ok_and(|scope| scope.holds(&find.when))
}

/// What the rules of a kind find.
async fn found(
    kind: &KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    find: &Call,
) -> Result<Vec<Value>, Failure> {
    let scope = wanted.scope(kind, None)?;
    let reply = reading::read_part(kind, subject, &scope, find, true).await?.unwrap_or_default();
    let path = find.take.as_deref().unwrap_or_default();
    let operation = find.call.value.as_str();
    Ok(match paths::take(&reply, path, &|word| scope.find(word, None)) {
        Some(Value::Array(items)) => {
            items.into_iter().filter(|item| calls::matches(kind, &scope, operation, item)).collect()
        }
        // What it was asked by names it too: answers need not repeat it.
        Some(Value::Object(members)) => {
            let asked = scope.request(operation, &find.send);
            let arn = asked.into_iter().filter(|(member, _)| scope.translator.is_own_arn(member));
            vec![Value::Object(arn.chain(members).collect())]
        }
        Some(one) => vec![one],
        None => Vec::new(),
    })
}

/// What the listing operation of a kind shows: with the mark, or with the name.
async fn listed(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
) -> Result<Option<(&'static str, Vec<Value>)>, Failure> {
    let Some(list) = &kind.rules.operations.list else { return Ok(None) };
    let filter = json!({"Filters": [{"Name": format!("tag:{MARK}"), "Values": [meta::uid(subject.object)]}]});
    let request = if is_filtered(kind) { filter } else { json!({}) };
    let planned = Planned {
        operation: list.value.clone(),
        request: request.as_object().cloned().unwrap_or_default(),
        ..Planned::default()
    };
    let reply = reading::ask(kind, subject, OperationType::ReadMany, &planned).await?;
    let scope = wanted.scope(kind, None)?;
    let items = scope.translator.answered(&list.value, &reply);
    let Some(Value::Array(mut items)) = items else { return Ok(Some((&list.value, Vec::new()))) };
    if !is_marked(kind) {
        items.retain(|item| has_name(kind, &scope, &list.value, item));
    }
    Ok(Some((&list.value, items)))
}

/// Lists of SNS have words in the place of an ARN while nobody has confirmed a subscription.
fn is_pending(record: &Record) -> bool {
    record.arn.as_deref().is_some_and(|arn| !arn.starts_with("arn:"))
}

/// Whether something that was found is there and was made for this object.
async fn is_ours(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    wanted: &Wanted,
    record: &Record,
    item: &Value,
) -> Result<bool, Failure> {
    if is_pending(record) {
        return Ok(false);
    }
    let known = wanted.identified(&record.status, record.arn.as_deref());
    if is_marked(kind) && !is_filtered(kind) {
        let owner = owner(kind, subject, &known, item).await?;
        if owner.as_deref() != Some(meta::uid(subject.object)) {
            return Ok(false);
        }
    }
    // What an earlier one of the same object left behind may be listed for long after it is gone.
    Ok(reading::observe(kind, subject, &known).await?.is_some())
}

/// Whether what a creating call answered with is somebody else's, who was quicker: then it is as if the name was taken.
pub(super) async fn is_taken(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    known: &Wanted,
) -> Result<bool, Failure> {
    if !is_contested(kind) {
        return Ok(false);
    }
    let owner = owner(kind, subject, known, &Value::Null).await;
    // Without an answer it may be ours, and is looked for.
    let owner = owner.map_err(|failure| Failure { ambiguous: true, ..failure })?;
    Ok(owner.is_some_and(|owner| owner != meta::uid(subject.object)))
}

/// Whom something was made for, by its mark.
async fn owner(
    kind: &'static KindFacts,
    subject: &Subjected<'_>,
    known: &Wanted,
    item: &Value,
) -> Result<Option<String>, Failure> {
    let tagged = match reading::tags(kind, subject, &known.scope(kind, None)?, item).await {
        Ok(tagged) => tagged,
        // Others may have things that we may not look into, or that go while we look.
        Err(failure) if matches!(failure.class, Class::Denied | Class::NotFound) => None,
        Err(failure) => return Err(failure),
    };
    let (key, value) = tag_words(kind);
    let mut found = tagged.map(|(_, found)| tags::as_map(&found, &key, &value)).unwrap_or_default();
    Ok(found.remove(MARK))
}

fn younger_than(subject: &Subjected<'_>, age: Duration) -> bool {
    let intent = provision::Intent::of(subject.object).ok().flatten();
    intent.is_some_and(|intent| subject.now.duration_since(intent.at).unsigned_abs() < age)
}

/// Whether an item of a list has the name that the object wants.
fn has_name(kind: &KindFacts, scope: &Scope<'_>, operation: &str, item: &Value) -> bool {
    let names = ["Name".to_owned(), format!("{}Name", kind.resource())];
    let found = item.as_object().into_iter().flatten().find_map(|(member, value)| {
        let field = scope.translator.field_of(operation, member)?;
        let is_name = names.iter().any(|name| field.word.eq_ignore_ascii_case(name));
        is_name.then_some((field, value))
    });
    found.is_some_and(|(field, value)| scope.translator.value(field, scope.object) == Some(value))
}
