//! `certificatesigningrequests/approval`: conditions that only an approver may write.

use http::header;
use objects::Value;
use wire::negotiate::{self, PatchType};

use crate::call::Call;
use crate::incoming;
use crate::route::Action;
use crate::service::Answer;
use crate::subresources::{pinned_as, written};
use crate::verbs::patch::patched;

pub async fn answer(call: &Call) -> Answer {
    let with_conditions = |current: &Value, wanted: &Value| {
        let mut object = current.clone();
        let mut conditions = wanted.pointer("/status/conditions").cloned().unwrap_or_default();
        for condition in conditions.as_array_mut().into_iter().flatten() {
            stamp(condition, &call.timestamp());
        }
        if !conditions.is_null() {
            object["status"]["conditions"] = conditions;
        }
        pinned_as(&mut object, wanted);
        object
    };
    if call.action == Action::Update {
        let wanted = incoming::object(call)?.object;
        return written(call, "approval", &|current| Ok(with_conditions(current, &wanted))).await;
    }
    let kind = negotiate::patch(call.head.header(header::CONTENT_TYPE), &PatchType::ALL)?;
    let body = incoming::patch_json(&call.body)?.value;
    let make = |current: &Value| Ok(with_conditions(current, &patched(call, kind, current, &body)?));
    written(call, "approval", &make).await
}

/// As upstream: the server notes when a condition was set, where the approver did not.
fn stamp(condition: &mut Value, now: &str) {
    let Some(condition) = condition.as_object_mut() else { return };
    for field in ["lastUpdateTime", "lastTransitionTime"] {
        let given = condition.get(field).is_some_and(|stamp| !stamp.is_null());
        if !given {
            condition.insert(field.to_owned(), now.into());
        }
    }
}
