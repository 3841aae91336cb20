//! RuntimeClass: the overhead of a runtime and where it runs.

use serde_json::{Value, json};

use crate::pod::{has, list, set_spec, spec_text};
use crate::{Amounts, Refusal, tolerations};

/// The runtime class to look up for a new pod.
pub fn class_of(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/runtimeClassName").and_then(Value::as_str)
}

/// Adds to a new pod what its runtime class brings along: overhead, node selector and tolerations.
pub fn admit_pod(pod: &mut Value, class: Option<&Value>) -> Result<(), Refusal> {
    let Some(class) = found(pod, class)? else { return Ok(()) };
    if let Some(overhead) = class.get("overhead").filter(|overhead| !overhead.is_null()) {
        let fixed = overhead.get("podFixed").cloned().unwrap_or_else(|| json!({}));
        let own = Amounts::of(pod.pointer("/spec/overhead"));
        if !own.is_empty() && own != Amounts::of(Some(&fixed)) {
            return Err(differs());
        }
        set_spec(pod, "overhead", fixed);
    }
    let Some(scheduling) = class.get("scheduling").filter(|scheduling| !scheduling.is_null()) else {
        return Ok(());
    };
    let mut selector =
        pod.pointer("/spec/nodeSelector").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, wanted) in scheduling.get("nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(own) = selector.get(key).filter(|own| *own != wanted) {
            return Err(Refusal::new(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                shown(wanted),
                shown(own),
            )));
        }
        selector.insert(key.clone(), wanted.clone());
    }
    if !selector.is_empty() {
        set_spec(pod, "nodeSelector", Value::Object(selector));
    }
    let brought =
        scheduling.get("tolerations").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let merged = tolerations::merged(list(pod, "tolerations"), brought);
    if !merged.is_empty() {
        set_spec(pod, "tolerations", Value::Array(merged));
    }
    Ok(())
}

/// After all changes: a pod's overhead is its runtime class's, and nothing of its own.
pub fn validate_pod(pod: &Value, class: Option<&Value>) -> Result<(), Refusal> {
    let class = found(pod, class)?;
    let overhead = class.and_then(|class| class.get("overhead")).filter(|overhead| !overhead.is_null());
    let Some(overhead) = overhead else {
        if pod.get("spec").is_some_and(|spec| has(spec, "overhead")) {
            let message =
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(Refusal::new(message));
        }
        return Ok(());
    };
    let same = Amounts::of(overhead.get("podFixed")) == Amounts::of(pod.pointer("/spec/overhead"));
    if same { Ok(()) } else { Err(differs()) }
}

fn found<'a>(pod: &Value, class: Option<&'a Value>) -> Result<Option<&'a Value>, Refusal> {
    match (class_of(pod), class) {
        (Some(_), Some(class)) => Ok(Some(class)),
        (Some(_), None) => {
            let name = spec_text(pod, "runtimeClassName");
            Err(Refusal::new(format!("pod rejected: RuntimeClass {name:?} not found")))
        }
        (None, _) => Ok(None),
    }
}

fn differs() -> Refusal {
    Refusal::new("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods() {
        fn check(spec: Value, class: Option<Value>, expected: Result<Value, &str>) {
            let mut pod = json!({"spec": spec});
            let got = admit_pod(&mut pod, class.as_ref())
                .and_then(|()| validate_pod(&pod, class.as_ref()))
                .map_err(|refusal| refusal.message);
            assert_eq!(got.map(|()| pod["spec"].clone()), expected.map_err(str::to_owned));
        }
        check(json!({}), None, Ok(json!({})));
        check(
            json!({"overhead": {"cpu": "1"}}),
            None,
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        );
        let named = json!({"runtimeClassName": "kata"});
        check(named.clone(), None, Err("pod rejected: RuntimeClass \"kata\" not found"));
        check(named.clone(), Some(json!({})), Ok(named.clone()));
        let class = json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
        });
        check(
            named,
            Some(class.clone()),
            Ok(json!({
                "runtimeClassName": "kata", "overhead": {"cpu": "250m"}, "nodeSelector": {"kata": "yes"},
                "tolerations": [{"key": "kata", "operator": "Exists"}],
            })),
        );
        let same =
            json!({"runtimeClassName": "kata", "overhead": {"cpu": "0.25"}, "nodeSelector": {"kata": "no"}});
        check(
            same,
            Some(class.clone()),
            Err(
                "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no",
            ),
        );
        check(
            json!({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}),
            Some(class),
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        );
    }
}
