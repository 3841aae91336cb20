//! The extension named `kubeflex`: where KubeFlex keeps what it knows of contexts. Other programs' extensions are
//! beside it and stay there.
//!
//! A list entry whose value has the shape of a ConfigMap, as KubeFlex writes it: read by either program.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub const NAME: &str = "kubeflex";

/// Of the whole file: the context of the hosting control plane.
pub const HOSTING: &str = "hosting-cluster-ctx-name";
/// The same, as older releases called it.
pub const HOSTING_BEFORE: &str = "kflex-initial-ctx-name";
/// Of a context: the control plane it is of.
pub const CONTROL_PLANE: &str = "controlplane-name";
/// Of a context: `"true"` for the hosting one.
pub const IS_HOSTING: &str = "is-hosting-cluster-ctx";

/// Where releases before 0.9 kept the hosting context: below `preferences`, under this name.
pub const NAME_BEFORE: &str = "kflex-config-extension-name";

/// The extension of a context, or of a whole file.
pub fn find(holder: &Value) -> Option<&Value> {
    named(holder, NAME)
}

pub fn named<'a>(holder: &'a Value, name: &str) -> Option<&'a Value> {
    let extensions = holder["extensions"].as_array()?;
    extensions.iter().find(|entry| entry["name"] == name).map(|entry| &entry["extension"])
}

/// A value that is there and not empty.
pub fn get<'a>(holder: &'a Value, key: &str) -> Option<&'a str> {
    find(holder)?["data"][key].as_str().filter(|value| !value.is_empty())
}

pub fn set(holder: &mut Value, key: &str, value: &str, now: Timestamp) {
    if get(holder, key) == Some(value) {
        return;
    }
    let Some(extension) = make(holder, now) else { return };
    if !extension["data"].is_object() {
        extension["data"] = json!({});
    }
    extension["data"][key] = value.into();
}

/// Takes a value out, and the extension with the last of them.
pub fn unset(holder: &mut Value, key: &str) {
    let Some(extensions) = holder.get_mut("extensions").and_then(Value::as_array_mut) else { return };
    let Some(at) = extensions.iter().position(|entry| entry["name"] == NAME) else { return };
    let data = extensions.get_mut(at).and_then(|entry| entry.pointer_mut("/extension/data"));
    let Some(data) = data.and_then(Value::as_object_mut) else { return };
    if data.remove(key).is_some() && data.is_empty() {
        extensions.remove(at);
        let none_left = extensions.is_empty();
        if let Some(map) = holder.as_object_mut().filter(|_| none_left) {
            map.remove("extensions");
        }
    }
}

fn make(holder: &mut Value, now: Timestamp) -> Option<&mut Value> {
    if holder.is_null() {
        *holder = json!({});
    }
    let extensions = holder.as_object_mut()?.entry("extensions").or_insert_with(|| json!([]));
    if extensions.is_null() {
        *extensions = json!([]);
    }
    let extensions = extensions.as_array_mut()?;
    let at = match extensions.iter().position(|entry| entry["name"] == NAME) {
        Some(at) => at,
        None => {
            let metadata = json!({"name": NAME, "creationTimestamp": objects::time::format(now)});
            extensions.push(json!({"name": NAME, "extension": {"data": Map::new(), "metadata": metadata}}));
            extensions.len() - 1
        }
    };
    let entry = extensions.get_mut(at)?;
    if !entry["extension"].is_object() {
        entry["extension"] = json!({});
    }
    entry.get_mut("extension")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    #[track_caller]
    fn check(before: Value, change: impl FnOnce(&mut Value), after: Value) {
        let mut holder = before;
        change(&mut holder);
        assert_eq!(holder, after);
    }

    fn of(data: Value) -> Value {
        let metadata = json!({"creationTimestamp": "2026-01-02T03:04:05Z", "name": "kubeflex"});
        json!({"name": "kubeflex", "extension": {"data": data, "metadata": metadata}})
    }

    #[test]
    fn values_come_and_go_beside_what_others_have() {
        let others = json!({"name": "minikube.sigs.k8s.io", "extension": {"provider": "minikube"}});
        let set_hosting = |holder: &mut Value| set(holder, HOSTING, "h", now());
        check(json!({}), set_hosting, json!({"extensions": [of(json!({HOSTING: "h"}))]}));
        check(Value::Null, set_hosting, json!({"extensions": [of(json!({HOSTING: "h"}))]}));
        check(json!({"extensions": null}), set_hosting, json!({"extensions": [of(json!({HOSTING: "h"}))]}));
        check(
            json!({"extensions": [others]}),
            set_hosting,
            json!({"extensions": [others, of(json!({HOSTING: "h"}))]}),
        );
        check(
            json!({"extensions": [{"name": "kubeflex", "extension": {"x": 1, "data": {"y": "z"}}}]}),
            set_hosting,
            json!({"extensions": [{"name": "kubeflex", "extension": {"x": 1, "data": {"y": "z", HOSTING: "h"}}}]}),
        );
        let unset_hosting = |holder: &mut Value| unset(holder, HOSTING);
        check(json!({"extensions": [of(json!({HOSTING: "h"}))]}), unset_hosting, json!({}));
        check(
            json!({"extensions": [others, of(json!({HOSTING: "h"}))]}),
            unset_hosting,
            json!({"extensions": [others]}),
        );
        check(
            json!({"extensions": [of(json!({HOSTING: "h", "y": "z"}))]}),
            unset_hosting,
            json!({"extensions": [of(json!({"y": "z"}))]}),
        );
        check(json!({"extensions": [others]}), unset_hosting, json!({"extensions": [others]}));
    }

    #[test]
    fn values_are_read_whatever_else_is_there() {
        assert_eq!(get(&json!({"extensions": [of(json!({HOSTING: "h"}))]}), HOSTING), Some("h"));
        for nothing in [
            json!(null),
            json!({}),
            json!({"extensions": "no"}),
            json!({"extensions": [1, {"name": "kubeflex"}]}),
            json!({"extensions": [{"name": "kubeflex", "extension": {"data": []}}]}),
            json!({"extensions": [of(json!({HOSTING: ""}))]}),
        ] {
            assert_eq!(get(&nothing, HOSTING), None, "{nothing}");
        }
    }
}
