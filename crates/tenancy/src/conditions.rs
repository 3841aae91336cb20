//! Conditions with two times: when it was last said, and when it last changed. Both stay as long as nothing does.

use jiff::Timestamp;
use objects::{Value, time};
use serde_json::json;

pub const REFUSED: &str = "Refused";

/// What is true of an object, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub r#type: &'static str,
    pub status: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    pub fn new(r#type: &'static str, status: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Condition { r#type, status, reason, message: message.into() }
    }

    pub fn synced() -> Self {
        Condition::new("Synced", true, "ReconcileSuccess", "")
    }

    pub fn not_synced(why: impl Into<String>) -> Self {
        Condition::new("Synced", false, "ReconcileError", why)
    }

    /// That nothing will come of it as it is: somebody has to change something.
    pub fn refused(why: impl Into<String>) -> Self {
        Condition::new(REFUSED, true, "NeedsChange", why)
    }

    pub fn available() -> Self {
        Condition::new("Ready", true, "Available", "")
    }

    pub fn unavailable() -> Self {
        Condition::new("Ready", false, "Unavailable", "")
    }

    pub fn store_away(why: impl Into<String>) -> Self {
        Condition::new("Ready", false, "Unavailable", why)
    }

    pub fn waiting_for_hooks() -> Self {
        Condition::new("Ready", false, "WaitingForPostCreateHooks", "Waiting for PostCreateHook completion")
    }

    pub fn restoring() -> Self {
        Condition::new("Ready", false, "Restoring", "it is being restored from a backup")
    }

    pub fn deleting(waits_for: impl Into<String>) -> Self {
        Condition::new("Ready", false, "Deleting", waits_for)
    }
}

/// Puts a condition into `object.conditions`; returns whether that changed anything.
pub fn set(status: &mut Value, condition: &Condition, now: Timestamp) -> bool {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(list) = status["conditions"].as_array_mut() else { return false };
    let truth = if condition.status { "True" } else { "False" };
    let found = list.iter_mut().find(|one| one["type"] == condition.r#type);
    let since = match &found {
        Some(one) if one["status"] == truth => {
            if one["reason"] == condition.reason && one["message"] == condition.message.as_str() {
                return false;
            }
            one["lastTransitionTime"].clone()
        }
        _ => time::format(now).into(),
    };
    let new = json!({
        "type": condition.r#type, "status": truth, "reason": condition.reason, "message": condition.message,
        "lastUpdateTime": time::format(now), "lastTransitionTime": since,
    });
    match found {
        Some(one) => *one = new,
        None => list.push(new),
    }
    true
}

/// Takes a condition out that has nothing to say any more.
pub fn remove(status: &mut Value, r#type: &str) {
    if let Some(list) = status["conditions"].as_array_mut() {
        list.retain(|one| one["type"] != r#type);
    }
}

pub fn find<'a>(status: &'a Value, r#type: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == r#type)
}

pub fn is_true(status: &Value, r#type: &str) -> bool {
    find(status, r#type).is_some_and(|one| one["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_only_with_what_they_are_of() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut status = json!({});
        assert!(set(&mut status, &Condition::unavailable(), at(1)));
        assert!(!set(&mut status, &Condition::unavailable(), at(2)));
        let times = |status: &Value| {
            let ready = find(status, "Ready").unwrap();
            (ready["lastUpdateTime"].clone(), ready["lastTransitionTime"].clone())
        };
        let (one, three, four) = (time::format(at(1)), time::format(at(3)), time::format(at(4)));
        assert_eq!(times(&status), (json!(one), json!(one)));
        assert!(set(&mut status, &Condition::waiting_for_hooks(), at(3)));
        assert_eq!(times(&status), (json!(three), json!(one)));
        assert!(set(&mut status, &Condition::available(), at(4)));
        assert_eq!(times(&status), (json!(four), json!(four)));
        assert!(is_true(&status, "Ready"));
        remove(&mut status, "Ready");
        assert_eq!(find(&status, "Ready"), None);
    }
}
