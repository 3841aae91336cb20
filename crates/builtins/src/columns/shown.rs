//! How times, lists, labels and selectors are written in a cell.

use std::fmt::Write as _;

use objects::Value;
use objects::selector::labels::Selector;
pub(super) use wire::duration::human_duration as duration;

use crate::dotted::Dotted;

/// Seconds since the epoch of an RFC 3339 stamp.
pub(super) fn seconds(stamp: &str) -> Option<i64> {
    objects::time::parse(stamp).ok().map(|time| time.as_second())
}

/// How long ago a stamp was.
pub(super) fn since(stamp: &str, now: i64) -> String {
    match seconds(stamp) {
        Some(then) => duration(now.saturating_sub(then)),
        None => "<unknown>".to_owned(),
    }
}

/// `a,b,c + 2 more...`; `absent` where there is nothing.
pub(super) fn few(items: &[String], max: usize, separator: &str, absent: &str) -> String {
    let mut text = items.iter().take(max).map(String::as_str).collect::<Vec<_>>().join(separator);
    if items.len() > max {
        let _ = write!(text, " + {} more...", items.len() - max);
    }
    if text.is_empty() { absent.to_owned() } else { text }
}

/// A map of labels: `a=b,c=d`.
pub(super) fn labels(map: &Value) -> String {
    let mut pairs: Vec<String> =
        map.entries("").map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or(""))).collect();
    pairs.sort_unstable();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A `LabelSelector` object in the grammar of `-l`.
pub(super) fn selector(selector: &Value) -> String {
    if selector.is_null() {
        return "<none>".to_owned();
    }
    match Selector::from_value(selector).map(|parsed| parsed.to_string()) {
        Ok(text) if text.is_empty() => "<none>".to_owned(),
        Ok(text) => text,
        Err(_) => "<error>".to_owned(),
    }
}

/// Texts joined by commas, or something else where there are none.
pub(super) fn joined(items: &[&str], absent: &str) -> String {
    if items.is_empty() { absent.to_owned() } else { items.join(",") }
}

/// A number or percentage as it was written.
pub(super) fn int_or_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The condition of a type, if the object has it.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.list("status.conditions").iter().find(|condition| condition.text("type") == kind)
}

pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition.text("status") == "True")
}
