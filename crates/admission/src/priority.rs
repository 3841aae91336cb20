//! Priority: the number behind a pod's priority class.

use serde_json::{Value, json};

use crate::pod::{has, set_spec, spec_text};
use crate::{Operation, Refusal};

const PREEMPT: &str = "PreemptLowerPriority";

/// The priority class to look up for a new pod; `None` means the default one, if there is any.
pub fn class_of(pod: &Value) -> Option<&str> {
    Some(spec_text(pod, "priorityClassName")).filter(|name| !name.is_empty())
}

/// The class that pods without one have: of several that claim to be it, the lowest.
pub fn default_class<'a>(classes: impl IntoIterator<Item = &'a Value>) -> Option<&'a Value> {
    let claiming = classes.into_iter().filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)));
    claiming.min_by_key(|class| value_of(class))
}

/// Fills in priority and preemption policy of a new pod. `class` is the one [`class_of`] names, or else
/// the default one.
pub fn admit_pod(pod: &mut Value, class: Option<&Value>) -> Result<(), Refusal> {
    if let (Some(name), None) = (class_of(pod), class) {
        return Err(Refusal::new(format!("no PriorityClass with name {name} was found")));
    }
    if let Some(class) = class {
        set_spec(pod, "priorityClassName", json!(objects::meta::name(class)));
    }
    let priority = class.map_or(0, value_of);
    let given = pod.pointer("/spec/priority").and_then(Value::as_i64);
    if let Some(given) = given.filter(|given| *given != priority) {
        return Err(Refusal::new(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        )));
    }
    set_spec(pod, "priority", json!(priority));
    let policy = match class {
        None => PREEMPT,
        Some(class) => class.get("preemptionPolicy").and_then(Value::as_str).unwrap_or_default(),
    };
    if policy.is_empty() {
        return Ok(());
    }
    let given = spec_text(pod, "preemptionPolicy");
    if !given.is_empty() && given != policy {
        return Err(Refusal::new(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        )));
    }
    set_spec(pod, "preemptionPolicy", json!(policy));
    Ok(())
}

/// An update that leaves out what was filled in keeps it.
pub fn keep_on_update(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        let missing = pod.get("spec").is_some_and(|spec| !has(spec, field));
        let before = old.get("spec").and_then(|spec| spec.get(field)).filter(|value| !value.is_null());
        if let (true, Some(before)) = (missing, before) {
            set_spec(pod, field, before.clone());
        }
    }
}

/// There is at most one default class. `default` is what [`default_class`] found.
pub fn check_class(class: &Value, operation: Operation, default: Option<&Value>) -> Result<(), Refusal> {
    let Some(default) = default.filter(|_| class.get("globalDefault") == Some(&Value::Bool(true))) else {
        return Ok(());
    };
    let name = objects::meta::name(default);
    if operation == Operation::Update && name == objects::meta::name(class) {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "PriorityClass {name} is already marked as default. Only one default can exist"
    )))
}

fn value_of(class: &Value) -> i64 {
    class.get("value").and_then(Value::as_i64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, value: i64, policy: &str, default: bool) -> Value {
        json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy, "globalDefault": default})
    }

    #[test]
    fn pods() {
        fn check(spec: Value, class: Option<Value>, expected: Result<Value, &str>) {
            let mut pod = json!({"spec": spec});
            let got = admit_pod(&mut pod, class.as_ref()).map_err(|refusal| refusal.message);
            assert_eq!(got.map(|()| pod["spec"].clone()), expected.map_err(str::to_owned));
        }
        check(json!({}), None, Ok(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})));
        let high = || Some(class("high", 100, "Never", false));
        let resolved = json!({"priorityClassName": "high", "priority": 100, "preemptionPolicy": "Never"});
        check(json!({"priorityClassName": "high"}), high(), Ok(resolved.clone()));
        check(json!({"priorityClassName": "high", "priority": 100}), high(), Ok(resolved.clone()));
        check(json!({}), high(), Ok(resolved));
        check(json!({"priorityClassName": "gone"}), None, Err("no PriorityClass with name gone was found"));
        check(
            json!({"priorityClassName": "high", "priority": 5}),
            high(),
            Err(
                "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 100 from the given PriorityClass name",
            ),
        );
        check(
            json!({"preemptionPolicy": "Never"}),
            None,
            Err(
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
            ),
        );
    }

    #[test]
    fn one_default() {
        let classes = [class("a", 10, "", true), class("b", 5, "", true), class("c", 1, "", false)];
        let default = default_class(&classes).unwrap();
        assert_eq!(objects::meta::name(default), "b");
        let check = |index: usize, operation: Operation, expected: bool| {
            assert_eq!(check_class(&classes[index], operation, Some(default)).is_ok(), expected);
        };
        check(0, Operation::Create, false);
        check(1, Operation::Update, true);
        check(1, Operation::Create, false);
        check(2, Operation::Create, true);
    }

    #[test]
    fn updates_keep() {
        let mut pod = json!({"spec": {}});
        keep_on_update(&mut pod, &json!({"spec": {"priority": 7, "preemptionPolicy": "Never"}}));
        assert_eq!(pod, json!({"spec": {"priority": 7, "preemptionPolicy": "Never"}}));
        keep_on_update(&mut pod, &json!({"spec": {"priority": 8}}));
        assert_eq!(pod["spec"]["priority"], 7);
    }
}
