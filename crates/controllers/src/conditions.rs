//! Conditions of a status: set by type, with the time of their last change.

use jiff::Timestamp;
use objects::Value;
use serde_json::json;

/// One condition as it should be.
pub struct Condition {
    pub kind: &'static str,
    pub holds: bool,
    pub reason: String,
    pub message: String,
}

/// Puts a condition into `status.conditions`; returns whether anything changed.
pub fn set(object: &mut Value, wanted: &Condition, now: Timestamp) -> bool {
    let status = if wanted.holds { "True" } else { "False" };
    if !object.get("status").is_some_and(Value::is_object) {
        object["status"] = json!({});
    }
    if !object["status"].get("conditions").is_some_and(Value::is_array) {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return false };
    let stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let old = conditions.iter_mut().find(|one| one.get("type").and_then(Value::as_str) == Some(wanted.kind));
    let Some(old) = old else {
        conditions.push(json!({
            "type": wanted.kind, "status": status, "lastTransitionTime": stamp,
            "reason": wanted.reason, "message": wanted.message,
        }));
        return true;
    };
    let moved = old["status"] != status;
    let changed =
        moved || old["reason"] != wanted.reason.as_str() || old["message"] != wanted.message.as_str();
    if moved {
        old["lastTransitionTime"] = stamp.into();
    }
    old["status"] = status.into();
    old["reason"] = wanted.reason.as_str().into();
    old["message"] = wanted.message.as_str().into();
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_with_the_status_only() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let condition = |holds: bool, message: &str| Condition {
            kind: "A",
            holds,
            reason: "R".into(),
            message: message.into(),
        };
        let mut object = json!({"metadata": {}});
        let time = |object: &Value| {
            object["status"]["conditions"][0]["lastTransitionTime"].as_str().unwrap().to_owned()
        };
        for (holds, message, second, changed, expected) in [
            (true, "m", 0, true, "1970-01-01T00:00:00Z"),
            (true, "m", 5, false, "1970-01-01T00:00:00Z"),
            (true, "n", 6, true, "1970-01-01T00:00:00Z"),
            (false, "n", 7, true, "1970-01-01T00:00:07Z"),
        ] {
            assert_eq!(set(&mut object, &condition(holds, message), at(second)), changed);
            assert_eq!(time(&object), expected);
        }
    }
}
