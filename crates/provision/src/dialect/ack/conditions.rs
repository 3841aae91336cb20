//! ACK's conditions: what a pass found, as a list in which only what changed has a new time.

use jiff::Timestamp;
use objects::{Value, time};
use serde_json::json;

use super::ROLE_NOT_AVAILABLE;
use crate::dialect::{Advisory, LateState, PAUSED, ReferencesState, Report, Verdict};
use crate::failure::Class;

pub const READY: &str = "Ready";
pub const SYNCED: &str = "ACK.ResourceSynced";
pub const TERMINAL: &str = "ACK.Terminal";
pub const RECOVERABLE: &str = "ACK.Recoverable";
pub const ADVISORY: &str = "ACK.Advisory";
pub const LATE_INITIALIZED: &str = "ACK.LateInitialized";
pub const REFERENCES_RESOLVED: &str = "ACK.ReferencesResolved";
pub const ROLE_SELECTED: &str = "ACK.IAMRoleSelected";

const IS_SYNCED: &str = "Resource synced successfully";
const NOT_SYNCED: &str = "Resource not synced";
const UNKNOWN: &str = "Unable to determine if desired resource state matches latest observed state";
const NO_ROLE: &str = "IAM Role is not available";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

fn condition(
    kind: &'static str,
    status: &'static str,
    reason: impl Into<String>,
    message: impl Into<String>,
) -> Condition {
    Condition { kind, status, reason: reason.into(), message: message.into() }
}

/// The status of a condition of an object.
pub fn status<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let list = object.pointer("/status/conditions")?.as_array()?;
    list.iter().find(|one| one["type"] == kind)?["status"].as_str()
}

/// The conditions that a pass calls for; while paused, those of before stay beside the advisory.
pub fn of(report: &Report<'_>) -> Vec<Condition> {
    let mut all = Vec::new();
    if *report.verdict == Verdict::Paused {
        all.extend(kept(report.object.pointer("/status/conditions")));
    } else {
        all.extend(main(report.verdict));
        all.extend(late(report.late));
        all.extend(references(report.references));
        all.extend(report.place.and_then(|place| place.role.as_ref()).map(|role| {
            let message = format!("Selected {} by {} ({})", role.arn, role.selector, role.resource_version);
            condition(ROLE_SELECTED, "True", "Selected", message)
        }));
    }
    let advisory = |one: &Advisory| condition(ADVISORY, "True", one.reason, one.message.clone());
    all.extend(report.advisories.iter().map(advisory));
    all
}

/// What was said before, but for being paused.
fn kept(list: Option<&Value>) -> Vec<Condition> {
    const KINDS: [&str; 8] = [
        READY,
        SYNCED,
        TERMINAL,
        RECOVERABLE,
        LATE_INITIALIZED,
        REFERENCES_RESOLVED,
        ROLE_SELECTED,
        ADVISORY,
    ];
    const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
    let known = |table: &[&'static str], text: &Value| table.iter().find(|one| *text == **one).copied();
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |one: &Value| {
        let text = |field: &str| one[field].as_str().unwrap_or("").to_owned();
        let (kind, status) = (known(&KINDS, &one["type"])?, known(&STATUSES, &one["status"])?);
        Some(condition(kind, status, text("reason"), text("message")))
    };
    list.iter().filter_map(one).filter(|one| one.kind != ADVISORY || one.reason != PAUSED).collect()
}

fn main(verdict: &Verdict) -> Vec<Condition> {
    let (synced, trouble) = match verdict {
        Verdict::Synced => (condition(SYNCED, "True", "", IS_SYNCED), None),
        Verdict::NotSynced { message, .. } | Verdict::Deleting { message, .. } => {
            (condition(SYNCED, "False", message, NOT_SYNCED), None)
        }
        Verdict::Paused => return Vec::new(),
        Verdict::Failed(failure) => {
            let text = failure.to_string();
            match failure.class {
                Class::Terminal | Class::Exists => {
                    let message = if failure.class == Class::Exists { &failure.message } else { &text };
                    let terminal = condition(TERMINAL, "True", exists_reason(failure.class), message);
                    (condition(SYNCED, "False", &text, NOT_SYNCED), Some(terminal))
                }
                Class::Waiting(_) if failure.code == ROLE_NOT_AVAILABLE => {
                    (condition(SYNCED, "False", &failure.message, NO_ROLE), None)
                }
                Class::Waiting(_) => (condition(SYNCED, "False", &text, NOT_SYNCED), None),
                _ => {
                    let recoverable = condition(RECOVERABLE, "True", "", &text);
                    (condition(SYNCED, "Unknown", &text, UNKNOWN), Some(recoverable))
                }
            }
        }
    };
    let ready = match &trouble {
        Some(trouble) => condition(READY, "False", trouble.kind, &trouble.message),
        None => condition(READY, synced.status, &synced.reason, &synced.message),
    };
    [Some(ready), Some(synced), trouble].into_iter().flatten().collect()
}

/// What to do about a name that is taken.
fn exists_reason(class: Class) -> &'static str {
    match class {
        Class::Exists => {
            "This resource already exists but is not managed by ACK. To bring the resource under ACK management, \
             use the adoption annotations"
        }
        _ => "",
    }
}

fn late(state: Option<&LateState>) -> Option<Condition> {
    Some(match state? {
        LateState::Complete => condition(
            LATE_INITIALIZED,
            "True",
            "Late initialization successful",
            "Late initialization successful",
        ),
        LateState::Delayed(missing) => {
            let message = format!("Waiting for the values of {}", missing.join(", "));
            condition(LATE_INITIALIZED, "False", "Delayed Late Initialization", message)
        }
        LateState::Failed(why) => condition(LATE_INITIALIZED, "False", "Late Initialization Failure", why),
    })
}

fn references(state: &ReferencesState) -> Option<Condition> {
    const FAILED: &str = "Reference resolution failed";
    Some(match state {
        ReferencesState::None => return None,
        ReferencesState::Resolved => condition(REFERENCES_RESOLVED, "True", "", ""),
        ReferencesState::Waiting(why) => condition(REFERENCES_RESOLVED, "Unknown", why, FAILED),
        ReferencesState::Broken(why) => condition(REFERENCES_RESOLVED, "False", why, FAILED),
    })
}

/// The list to write. A condition that had the same status before keeps its time; advisories are told apart by
/// their reason.
pub fn merged(before: Option<&Value>, conditions: &[Condition], now: Timestamp) -> Value {
    let before = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |condition: &Condition| {
        let same = before.iter().find(|old| {
            old["type"] == condition.kind
                && old["status"] == condition.status
                && (condition.kind != ADVISORY || old["reason"] == condition.reason.as_str())
        });
        let since = same.map_or_else(|| time::format(now).into(), |old| old["lastTransitionTime"].clone());
        let mut written =
            json!({"type": condition.kind, "status": condition.status, "lastTransitionTime": since});
        for (field, text) in [("reason", &condition.reason), ("message", &condition.message)] {
            if !text.is_empty() {
                written[field] = text.as_str().into();
            }
        }
        written
    };
    conditions.iter().map(one).collect()
}
