//! What became of a create whose answer was lost.
//!
//! A resource with a name of its own is looked for by the name. A creating call that takes a token, or that answers
//! with what is already there, is made again. What has neither carries a mark, and is looked for by that.

use std::time::Duration;

use objects::meta;
use provision::{Failure, OperationType, Record, Recovery};
use serde_json::{Value, json};

use super::{Subjected, changing, reading, scope};
use crate::kinds::KindFacts;
use crate::kinds::calls::{self, Planned};

/// The tag that says whose a resource is, where nothing else does.
pub(super) const MARK: &str = "hangar.dev/owner";

/// Creating calls that answer with what is there when it is there already.
const REPEATABLE: &[(&str, &str)] = &[
    ("ecs", "CreateCluster"),
    ("sfn", "CreateActivity"),
    ("sfn", "CreateStateMachine"),
    ("sns", "CreatePlatformApplication"),
    ("sns", "CreatePlatformEndpoint"),
    ("sns", "CreateTopic"),
    ("sns", "Subscribe"),
    ("sqs", "CreateQueue"),
];

fn is_repeatable(kind: &KindFacts) -> bool {
    let create = kind.rules.operations.create.value.as_str();
    let operation = kind.plan().ok().and_then(|plan| plan.model().operation(create));
    let has_token = operation
        .and_then(|operation| operation.input())
        .is_some_and(|input| input.members().any(|member| member.is_idempotency_token()));
    has_token || REPEATABLE.contains(&(kind.service, create))
}

/// Whether a kind is found again by its mark alone: EC2's, which have no names.
fn is_marked(kind: &KindFacts) -> bool {
    kind.service == "ec2" && !is_repeatable(kind)
}

/// The mark for a resource that would not be found again without it.
pub(super) fn mark(kind: &KindFacts, object: &Value) -> Option<(String, String)> {
    is_marked(kind).then(|| (MARK.to_owned(), meta::uid(object).to_owned()))
}

pub(super) async fn recover(kind: &'static KindFacts, subject: &Subjected<'_>) -> Result<Recovery, Failure> {
    let wanted = scope::wanted(subject);
    if calls::read(kind, &wanted.scope(kind, None)?).is_some() {
        return Ok(match reading::observe(kind, subject, &wanted).await? {
            Some(found) => {
                Recovery::Made(Record { status: found.status, arn: found.arn, ..Record::default() })
            }
            None => Recovery::NotMade,
        });
    }
    if is_repeatable(kind) {
        return Ok(Recovery::Repeat);
    }
    let by_mark = is_marked(kind);
    if let Some(list) = &kind.rules.operations.list {
        let filter =
            json!({"Filters": [{"Name": format!("tag:{MARK}"), "Values": [meta::uid(subject.object)]}]});
        let request = if by_mark { filter } else { json!({}) };
        let planned = Planned {
            operation: list.value.clone(),
            request: request.as_object().cloned().unwrap_or_default(),
            ..Planned::default()
        };
        let reply = reading::ask(kind, subject, OperationType::ReadMany, &planned).await?;
        let scope = wanted.scope(kind, None)?;
        let (path, _) = scope.translator.answer_path(&list.value);
        let items = path.iter().try_fold(&reply, |value, word| value.get(word)).cloned().unwrap_or_default();
        let mine = items
            .as_array()
            .into_iter()
            .flatten()
            .find(|item| by_mark || is_mine(kind, &scope, &list.value, item));
        return Ok(match mine {
            Some(item) => Recovery::Made(changing::record(kind, &wanted, &scope, &list.value, item)),
            // Lists may lag behind what was made.
            None if by_mark && younger_than(subject, Duration::from_secs(60)) => {
                Recovery::NotYet(Duration::from_secs(5))
            }
            None => Recovery::NotMade,
        });
    }
    Ok(Recovery::Unknown(format!(
        "a call of {} was interrupted, and AWS has no way to ask what became of it; look for the resource in the account",
        kind.rules.operations.create.value
    )))
}

fn younger_than(subject: &Subjected<'_>, age: Duration) -> bool {
    let intent = provision::Intent::of(subject.object).ok().flatten();
    intent.is_some_and(|intent| subject.now.duration_since(intent.at).unsigned_abs() < age)
}

/// Whether an item of a list has the name that the object wants.
fn is_mine(kind: &KindFacts, scope: &crate::kinds::send::Scope<'_>, operation: &str, item: &Value) -> bool {
    let names = ["Name".to_owned(), format!("{}Name", kind.resource())];
    let found = item.as_object().into_iter().flatten().find_map(|(member, value)| {
        let field = scope.translator.field_of(operation, member)?;
        let is_name = names.iter().any(|name| field.word.eq_ignore_ascii_case(name));
        is_name.then_some((field, value))
    });
    found.is_some_and(|(field, value)| scope.translator.value(field, scope.object) == Some(value))
}
