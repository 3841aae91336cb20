//! Reading pods: containers, and what all of them need together.

use serde_json::Value;

use crate::Amounts;

pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// A list of `spec`, empty where it is absent.
pub(crate) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn spec_text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a field is there and is not null.
pub(crate) fn has(value: &Value, field: &str) -> bool {
    value.get(field).is_some_and(|value| !value.is_null())
}

/// A list of `spec` for writing, made where it is absent. `None` if there is no `spec`.
pub(crate) fn list_mut<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Vec<Value>> {
    let spec = object.get_mut("spec")?.as_object_mut()?;
    let list = spec.entry(field).or_insert_with(|| Value::Array(Vec::new()));
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut()
}

/// Sets a field of `spec`, if there is a `spec`.
pub(crate) fn set_spec(object: &mut Value, field: &str, value: Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert(field.to_owned(), value);
    }
}

pub(crate) fn is_mirror(pod: &Value) -> bool {
    objects::meta::annotation(pod, MIRROR).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Requests,
    Limits,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Side::Requests => "requests",
            Side::Limits => "limits",
        }
    }
}

/// `resources.requests` or `resources.limits` of a container or of a pod's spec.
pub(crate) fn resources(of: &Value, side: Side) -> Amounts {
    Amounts::of(of.get("resources").and_then(|resources| resources.get(side.field())))
}

/// What a pod needs as a whole, by its spec: containers and sidecars run together, init containers
/// one after another before them, and what is set for the pod itself overrides cpu and memory.
pub(crate) fn total(pod: &Value, side: Side) -> Amounts {
    combined(pod, |container| resources(container, side), side)
}

/// The same for quotas: what is really allocated counts while a resize is under way, and the overhead
/// of the runtime is added.
pub(crate) fn charged(pod: &Value, side: Side) -> Amounts {
    let statuses = ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .flat_map(|field| pod.pointer(&format!("/status/{field}")).and_then(Value::as_array))
        .flatten()
        .collect::<Vec<_>>();
    let of_container = |container: &Value| {
        let mut amounts = resources(container, side);
        let status = statuses.iter().find(|status| text(status, "name") == text(container, "name"));
        if let Some(status) = status {
            amounts.raise(&resources(status, side));
            if side == Side::Requests {
                amounts.raise(&Amounts::of(status.get("allocatedResources")));
            }
        }
        amounts
    };
    let mut total = combined(pod, of_container, side);
    let overhead = Amounts::of(pod.pointer("/spec/overhead"));
    match side {
        Side::Requests => total.add(&overhead),
        // Without a limit there is none to raise.
        Side::Limits => {
            let limited = overhead.only(|name| total.get(name).is_some_and(|limit| !limit.is_zero()));
            total.add(&limited);
        }
    }
    total
}

fn combined(pod: &Value, of_container: impl Fn(&Value) -> Amounts, side: Side) -> Amounts {
    let mut total = Amounts::default();
    for container in list(pod, "containers") {
        total.add(&of_container(container));
    }
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for container in list(pod, "initContainers") {
        let mut amounts = of_container(container);
        if text(container, "restartPolicy") == "Always" {
            total.add(&amounts);
            sidecars.add(&amounts);
            amounts = sidecars.clone();
        } else {
            amounts.add(&sidecars);
        }
        starting.raise(&amounts);
    }
    total.raise(&starting);
    let own = pod.get("spec").map(|spec| resources(spec, side)).unwrap_or_default();
    for (name, amount) in own.iter().filter(|(name, _)| is_pod_level(name)) {
        total.set(name, amount);
    }
    total
}

/// What can be set for a pod as a whole.
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Whether a pod says what it needs as a whole.
pub(crate) fn has_own_resources(pod: &Value) -> bool {
    let Some(spec) = pod.get("spec") else { return false };
    let set = |side| resources(spec, side).names().any(is_pod_level);
    set(Side::Requests) || set(Side::Limits)
}

/// Whether nothing of cpu and memory is asked for or limited anywhere.
pub(crate) fn is_best_effort(pod: &Value) -> bool {
    if let Some(class) =
        pod.pointer("/status/qosClass").and_then(Value::as_str).filter(|class| !class.is_empty())
    {
        return class == "BestEffort";
    }
    let silent = |of: &Value| {
        [Side::Requests, Side::Limits].into_iter().all(|side| {
            let amounts = resources(of, side);
            ["cpu", "memory"].iter().all(|name| amounts.get(name).is_none_or(|amount| amount.sign() <= 0))
        })
    };
    if has_own_resources(pod) {
        return pod.get("spec").is_none_or(silent);
    }
    list(pod, "containers").iter().chain(list(pod, "initContainers")).all(silent)
}
