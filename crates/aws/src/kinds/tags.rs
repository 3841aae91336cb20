//! Tags: lists of key and value or maps, what to set and what to remove, and default tags.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Tags that AWS itself keeps begin so; nobody else can set them.
pub const SYSTEM_PREFIX: &str = "aws:";

/// Tags by key, whatever form they are in. A tag without a value has an empty one.
pub fn as_map(tags: &Value, key: &str, value: &str) -> BTreeMap<String, String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    match tags {
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), text(Some(value)))).collect()
        }
        Value::Array(items) => {
            let named = items.iter().filter(|item| item.get(key).is_some_and(Value::is_string));
            named.map(|item| (text(item.get(key)), text(item.get(value)))).collect()
        }
        _ => BTreeMap::new(),
    }
}

/// Tags as a list of structures.
pub fn as_list(tags: &BTreeMap<String, String>, key: &str, value: &str) -> Value {
    tags.iter().map(|(name, text)| json!({key: name, value: text})).collect()
}

/// Tags as a map.
pub fn as_object(tags: &BTreeMap<String, String>) -> Value {
    Value::Object(
        tags.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect::<Map<_, _>>(),
    )
}

/// What to set and which keys to remove, so that the found tags become the wanted ones. System tags stay.
pub fn changes(
    wanted: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let set = wanted.iter().filter(|(key, value)| found.get(*key) != Some(value) && !is_system(key));
    let removed = found.keys().filter(|key| !wanted.contains_key(*key) && !is_system(key));
    (set.map(|(key, value)| (key.clone(), value.clone())).collect(), removed.cloned().collect())
}

/// The user's tags over the defaults; empty defaults are left out.
pub fn with_defaults(
    users: &BTreeMap<String, String>,
    defaults: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut tags: BTreeMap<String, String> = defaults.clone();
    tags.retain(|_, value| !value.is_empty());
    tags.extend(users.iter().map(|(key, value)| (key.clone(), value.clone())));
    tags
}

pub fn is_system(key: &str) -> bool {
    key.starts_with(SYSTEM_PREFIX)
}
