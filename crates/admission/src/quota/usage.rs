//! What one object uses of everything a quota can limit.

use jiff::{SignedDuration, Timestamp};
use objects::GroupResource;
use objects::quantity::{Format, Quantity};
use serde_json::Value;

use crate::Amounts;
use crate::pod::{self, Side};

const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Resources that are not objects of their own, or too many to count.
const IGNORED: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Kinds that quotas count under their plain name too.
const COUNTED_BY_NAME: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// Amounts of a pod under the names of quotas: (resource, its request is, its limit is).
const COMPUTE: &[(&str, [&str; 2], &str)] = &[
    ("cpu", ["cpu", "requests.cpu"], "limits.cpu"),
    ("memory", ["memory", "requests.memory"], "limits.memory"),
    ("ephemeral-storage", ["ephemeral-storage", "requests.ephemeral-storage"], "limits.ephemeral-storage"),
];

pub fn is_ignored(resource: &GroupResource) -> bool {
    IGNORED.contains(&(resource.group.as_str(), resource.resource.as_str()))
}

/// Everything an object counts for, by the names that quotas use.
pub fn usage(resource: &GroupResource, object: &Value, now: Timestamp) -> Amounts {
    let mut used = Amounts::default();
    // Counted while it is stored, whatever state it is in.
    used.set(count_name(resource), one());
    if !resource.group.is_empty() {
        return used;
    }
    match resource.resource.as_str() {
        "pods" if holds_resources(object, now) => used.add(&pod_usage(object)),
        "pods" => {}
        "services" => used.add(&service_usage(object)),
        "persistentvolumeclaims" => used.add(&claim_usage(object)),
        name if COUNTED_BY_NAME.contains(&name) => used.set(name, one()),
        _ => {}
    }
    used
}

/// Whether a name of a quota's `hard` is about this resource.
pub(super) fn tracks(resource: &GroupResource, name: &str) -> bool {
    if name == count_name(resource) {
        return true;
    }
    if !resource.group.is_empty() {
        return false;
    }
    match resource.resource.as_str() {
        "pods" => {
            name == "pods"
                || COMPUTE.iter().any(|(_, requests, limits)| requests.contains(&name) || *limits == name)
                || name.starts_with("hugepages-")
                || name.starts_with("requests.hugepages-")
                || name.strip_prefix("requests.").is_some_and(is_extended)
        }
        "services" => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => {
            let of_class = name.split_once(STORAGE_CLASS).map_or(name, |(_, rest)| rest);
            matches!(of_class, "persistentvolumeclaims" | "requests.storage")
        }
        own => own == name && COUNTED_BY_NAME.contains(&own),
    }
}

/// Whether there is anything at all that a name of a quota's `hard` is about.
pub(super) fn is_known(name: &str) -> bool {
    name.starts_with("count/")
        || COUNTED_BY_NAME.iter().any(|resource| tracks(&GroupResource::new("", *resource), name))
}

/// `count/deployments.apps`
fn count_name(resource: &GroupResource) -> String {
    format!("count/{resource}")
}

fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSI)
}

/// A pod that has ended, or that should have been gone by now, holds nothing.
fn holds_resources(pod: &Value, now: Timestamp) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    if matches!(phase, Some("Failed" | "Succeeded")) {
        return false;
    }
    let deleted = objects::meta::text(pod, "deletionTimestamp").parse::<Timestamp>();
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    match (deleted, grace) {
        (Ok(deleted), Some(grace)) => {
            let end = deleted.checked_add(SignedDuration::from_secs(grace));
            end.is_ok_and(|end| now <= end)
        }
        _ => true,
    }
}

fn pod_usage(pod: &Value) -> Amounts {
    compute_usage(&pod::charged(pod, Side::Requests), &pod::charged(pod, Side::Limits))
}

/// Requests and limits under the names that quotas have for them.
pub(super) fn compute_usage(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::default();
    used.set("pods", one());
    for (resource, request_names, limit_name) in COMPUTE {
        if let Some(amount) = requests.get(resource) {
            for name in request_names {
                used.set(*name, amount);
            }
        }
        if let Some(amount) = limits.get(resource) {
            used.set(*limit_name, amount);
        }
    }
    for (name, amount) in requests.iter() {
        if name.starts_with("hugepages-") {
            used.set(name, amount);
            used.set(format!("requests.{name}"), amount);
        } else if is_extended(name) {
            used.set(format!("requests.{name}"), amount);
        }
    }
    used
}

/// A resource that Kubernetes does not know itself, such as `example.com/gpu`.
fn is_extended(name: &str) -> bool {
    let device_class = name.starts_with("deviceclass.resource.kubernetes.io/");
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    device_class || !native && !name.starts_with("requests.")
}

fn service_usage(service: &Value) -> Amounts {
    let ports = pod::list(service, "ports");
    let count = |number: usize| Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSI);
    let kind = pod::spec_text(service, "type");
    let allocates = service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if allocates => ports.len(),
        // Nothing is allocated, but what is asked for by number is still given.
        "LoadBalancer" => {
            let asked =
                |port: &&Value| port.get("nodePort").and_then(Value::as_i64).is_some_and(|port| port != 0);
            ports.iter().filter(asked).count()
        }
        _ => 0,
    };
    let mut used = Amounts::default();
    used.set("services", one());
    used.set("services.nodeports", count(node_ports));
    used.set("services.loadbalancers", count(usize::from(kind == "LoadBalancer")));
    used
}

fn claim_usage(claim: &Value) -> Amounts {
    let mut used = Amounts::default();
    used.set("persistentvolumeclaims", one());
    let requested = claim.get("spec").and_then(|spec| pod::resources(spec, Side::Requests).get("storage"));
    let allocated = Amounts::of(claim.pointer("/status/allocatedResources")).get("storage");
    let storage = requested.map(|amount| whole(allocated.map_or(amount, |other| amount.max(other))));
    if let Some(amount) = storage {
        used.set("requests.storage", amount);
    }
    let class = crate::storage::class_of(claim);
    if !class.is_empty() {
        used.set(format!("{class}{STORAGE_CLASS}persistentvolumeclaims"), one());
        if let Some(amount) = storage {
            used.set(format!("{class}{STORAGE_CLASS}requests.storage"), amount);
        }
    }
    used
}

/// Storage is counted in whole bytes.
fn whole(amount: Quantity) -> Quantity {
    let rounded = Quantity::new(amount.value(), amount.format());
    if rounded == amount { amount } else { rounded }
}
