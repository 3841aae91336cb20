//! DefaultTolerationSeconds: pods stay for five minutes on nodes that stop answering.

use serde_json::{Value, json};

use crate::pod::{list, list_mut, text};

const SECONDS: i64 = 300;
const NO_EXECUTE: &str = "NoExecute";
const DEFAULTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds the two tolerations to a pod that does not speak about these taints itself.
pub fn default_pod(pod: &mut Value) {
    for taint in DEFAULTS {
        let tolerated = list(pod, "tolerations").iter().any(|one| {
            matches!(text(one, "key"), key if key.is_empty() || key == taint)
                && matches!(text(one, "effect"), "" | NO_EXECUTE)
        });
        if !tolerated && let Some(tolerations) = list_mut(pod, "tolerations") {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": SECONDS,
            }));
        }
    }
}

/// Two lists as one, without tolerations that another one includes.
pub(crate) fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let later = all.get(i + 1..).unwrap_or_default();
        let redundant = kept.iter().any(|other| includes(other, one))
            || later.iter().any(|other| other != one && includes(other, one));
        if !redundant {
            kept.push((*one).clone());
        }
    }
    kept
}

/// Whether whatever `small` tolerates is tolerated by `large`.
fn includes(large: &Value, small: &Value) -> bool {
    if large == small {
        return true;
    }
    let everything = text(large, "key").is_empty() && text(large, "operator") == "Exists";
    if text(large, "key") != text(small, "key") && !everything {
        return false;
    }
    let effect = text(large, "effect");
    if !effect.is_empty() && effect != text(small, "effect") {
        return false;
    }
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    if effect == NO_EXECUTE
        && seconds(large).is_some_and(|limit| seconds(small).is_none_or(|own| own > limit))
    {
        return false;
    }
    match text(large, "operator") {
        "Exists" => true,
        "" | "Equal" => text(small, "operator") == "Equal" && text(small, "value") == text(large, "value"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults() {
        fn check(tolerations: Value, added: &[&str]) {
            let before = tolerations.as_array().map_or(0, Vec::len);
            let mut pod = json!({"spec": {"tolerations": tolerations}});
            default_pod(&mut pod);
            let keys: Vec<&str> =
                list(&pod, "tolerations")[before..].iter().map(|one| text(one, "key")).collect();
            assert_eq!(keys, added);
        }
        check(json!(null), &DEFAULTS);
        check(json!([{"key": "x", "operator": "Exists"}]), &DEFAULTS);
        check(json!([{"operator": "Exists"}]), &[]);
        check(json!([{"operator": "Exists", "effect": "NoSchedule"}]), &DEFAULTS);
        check(json!([{"key": DEFAULTS[0], "operator": "Exists", "effect": "NoExecute"}]), &DEFAULTS[1..]);
    }

    #[test]
    fn merging() {
        fn check(first: Value, second: Value, expected: Value) {
            let got = merged(first.as_array().unwrap(), second.as_array().unwrap());
            assert_eq!(Value::Array(got), expected);
        }
        let all = json!({"operator": "Exists"});
        let equal = json!({"key": "k", "operator": "Equal", "value": "v"});
        let exists = json!({"key": "k", "operator": "Exists"});
        check(json!([equal]), json!([equal]), json!([equal]));
        check(json!([equal]), json!([exists]), json!([exists]));
        check(json!([all]), json!([equal, exists]), json!([all]));
        let short = json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let long = json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9});
        check(json!([short]), json!([long]), json!([long]));
    }
}
