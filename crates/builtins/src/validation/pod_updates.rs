//! What may change of a pod that is there: very little.

use objects::{ErrorList, Value, names};

use super::{Place, checked};
use crate::behaviour::same;
use crate::dotted::Dotted;
use crate::resources;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to \
     be set to 1 if it was previously negative)";

pub(crate) fn pod_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |pod| {
        let (spec, before) = (pod.at("spec"), old.at("spec"));
        for sort in ["containers", "initContainers"] {
            if spec.count(sort) != before.count(sort) {
                return spec.forbidden(sort, "pod updates may not add or remove containers");
            }
        }
        active_deadline(&spec, before);
        tolerations(&spec, before);
        scheduling_gates(&spec, before);
        if !same(&with_what_may_change(spec.value, before), before) {
            spec.forbidden("", format!("pod updates may not change fields other than {UPDATABLE}\n"));
        }
    })
}

/// The deadline may be set, and then only come nearer.
fn active_deadline(spec: &Place<'_>, before: &Value) {
    let path = "activeDeadlineSeconds";
    match (spec.int(path), before.int(path)) {
        (Some(new), Some(old)) if old < new => {
            spec.invalid(path, "must be less than or equal to previous value")
        }
        (None, Some(_)) => spec.invalid(path, "must not update from a positive integer to nil value"),
        _ => {}
    }
}

fn tolerations(spec: &Place<'_>, before: &Value) {
    let timeless = |toleration: &Value| {
        let mut timeless = toleration.clone();
        timeless.remove("tolerationSeconds");
        timeless
    };
    let kept: Vec<Value> = spec.list("tolerations").iter().map(timeless).collect();
    if before.list("tolerations").iter().any(|old| !kept.contains(&timeless(old))) {
        spec.forbidden("tolerations", "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn scheduling_gates(spec: &Place<'_>, before: &Value) {
    let known: Vec<&str> = before.list("schedulingGates").iter().map(|gate| gate.text("name")).collect();
    for gate in spec.items("schedulingGates").filter(|gate| !known.contains(&gate.text("name"))) {
        let name = gate.text("name");
        gate.forbidden("name", format!("only deletion is allowed, but found new scheduling gate '{name}'"));
    }
}

/// The new spec with everything put back that an update may change.
fn with_what_may_change(spec: &Value, before: &Value) -> Value {
    let mut spec = spec.clone();
    for sort in ["containers", "initContainers"] {
        for (container, old) in spec.items_mut(sort).zip(before.list(sort)) {
            container.keep("image", old);
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"] {
        spec.keep(field, before);
    }
    let grace = "terminationGracePeriodSeconds";
    if spec.int(grace) == Some(1) && before.int(grace).is_some_and(|old| old < 0) {
        spec.keep(grace, before);
    }
    if before.count("schedulingGates") > 0 {
        // A pod that is held back may still be told where to go.
        spec.keep("nodeSelector", before);
        spec.keep("affinity.nodeAffinity", before);
        if spec.at("affinity").as_object().is_some_and(|affinity| affinity.is_empty()) {
            spec.remove("affinity");
        }
    }
    spec
}

/// Containers for debugging may be added; those that are there stay as they are.
pub(crate) fn ephemeral_containers_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = super::pod(new);
    errors.extend(checked(new, |pod| {
        let path = "spec.ephemeralContainers";
        for before in old.list(path) {
            let name = before.text("name");
            match pod.list(path).iter().find(|container| container.text("name") == name) {
                None => pod
                    .forbidden(path, format!("existing ephemeral containers {name:?} may not be removed\n")),
                Some(now) if !same(now, before) => {
                    pod.forbidden(
                        path,
                        format!("existing ephemeral containers {name:?} may not be changed\n"),
                    );
                }
                Some(_) => {}
            }
        }
    }));
    errors
}

/// The CPU and memory of running containers may change, as long as the class of the pod does not.
pub(crate) fn pod_resize(new: &Value, old: &Value) -> ErrorList {
    let mut errors = super::pod(new);
    errors.extend(checked(new, |pod| {
        let (spec, before) = (pod.at("spec"), old.at("spec"));
        if resources::qos_class(spec.value) != resources::qos_class(before) {
            let class = new.text("status.qosClass");
            spec.invalid_as("", class, "Pod QOS Class may not change as a result of resizing");
        }
        let mut settled = spec.value.clone();
        for sort in ["containers", "initContainers"] {
            if spec.count(sort) != before.count(sort) {
                return spec.forbidden(sort, format!("{sort} may not be added or removed on resize"));
            }
            for (container, before) in spec.items(sort).zip(before.list(sort)) {
                for list in ["requests", "limits"] {
                    let now = container.value.at("resources").at(list);
                    if before.entries(&format!("resources.{list}")).any(|(name, _)| now.get(name).is_none()) {
                        let path = format!("resources.{list}");
                        container.forbidden(&path, format!("resource {list} cannot be removed"));
                    }
                }
            }
            for (container, before) in settled.items_mut(sort).zip(before.list(sort)) {
                for path in ["requests.cpu", "requests.memory", "limits.cpu", "limits.memory"] {
                    container.keep(&format!("resources.{path}"), before);
                }
            }
        }
        settled.keep("resources", before);
        if !same(&settled, before) {
            spec.forbidden("", "only cpu and memory resources are mutable");
        }
    }));
    errors
}

pub(crate) fn pod_status_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |pod| {
        let status = pod.at("status");
        let nominated = "nominatedNodeName";
        if status.text(nominated) != old.at("status").text(nominated) {
            status.shape_if(nominated, names::dns1123_subdomain);
        }
        if !old.text("status.qosClass").is_empty() {
            pod.immutable(old, &["status.qosClass"]);
        }
        for address in status.items("podIPs") {
            address.shape("ip", names::ip_address);
        }
        for condition in status.items("conditions") {
            condition.choice("status", &["True", "False", "Unknown"]);
        }
        unrestarted(&status, old);
    })
}

/// What has ended in a pod that does not restart has ended for good.
fn unrestarted(status: &Place<'_>, old: &Value) {
    let forgiven = match old.text("spec.restartPolicy") {
        "Never" => |_: &Value| false,
        "OnFailure" => |ended: &Value| ended.number("exitCode") != 0,
        _ => return,
    };
    let specs = old.list("spec.containers");
    for (i, before) in old.list("status.containerStatuses").iter().enumerate() {
        let ended = before.at("state.terminated");
        let name = before.text("name");
        let own_policy = specs.iter().any(|spec| spec.text("name") == name && spec.has("restartPolicy"));
        if ended.is_null() || forgiven(ended) || own_policy {
            continue;
        }
        let now = status.list("containerStatuses").iter().find(|container| container.text("name") == name);
        if now.is_some_and(|now| !now.has("state.terminated")) {
            let path = format!("containerStatuses[{i}].state");
            status.forbidden(&path, "may not be transitioned to non-terminated state");
        }
    }
}
