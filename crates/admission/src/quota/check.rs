//! Whether a request fits into the quotas of its namespace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use objects::GroupResource;
use serde_json::Value;

use super::scopes;
use super::usage::{compute_usage, is_ignored, tracks, usage};
use crate::pod::{self, Side};
use crate::{Amounts, Operation, Refusal};

/// A request that may use something up.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub resource: &'a GroupResource,
    pub subresource: &'a str,
    pub operation: Operation,
    pub object: &'a Value,
    /// What an update replaces.
    pub old: Option<&'a Value>,
}

/// What a quota's `status.used` becomes if the request goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Position among the quotas given.
    pub quota: usize,
    pub used: Amounts,
}

/// Resources of which every container must say how much it needs, once a quota limits them.
const REQUIRED_OF_CONTAINERS: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

impl Request<'_> {
    /// Whether such a request can change what is used at all.
    fn counts(&self) -> bool {
        if is_ignored(self.resource) || self.operation == Operation::Delete {
            return false;
        }
        let update = self.operation == Operation::Update;
        let core = self.resource.group.is_empty();
        match (self.resource.resource.as_str(), self.subresource) {
            ("pods", "") if core && update => {
                self.old.is_some_and(|old| scopes::is_terminating(old) != scopes::is_terminating(self.object))
            }
            ("pods", "resize") if core => update,
            ("services", "") if core => true,
            ("persistentvolumeclaims", "" | "status") if core => true,
            (_, "") => !update,
            _ => false,
        }
    }
}

/// Checks a request against all quotas of its namespace. What it would use is compared with what their
/// `status` says is used; the charges are to be written together with the object, or not at all.
pub fn check(request: &Request<'_>, quotas: &[Value], now: Timestamp) -> Result<Vec<Charge>, Refusal> {
    if !request.counts() {
        return Ok(Vec::new());
    }
    let Request { resource, object, .. } = *request;
    let mut concerned = Vec::new();
    for (position, quota) in quotas.iter().enumerate() {
        let hard = Amounts::of(quota.pointer("/status/hard"));
        let restricted: Vec<&str> = hard.names().filter(|name| tracks(resource, name)).collect();
        if restricted.is_empty() || !scopes::matches(quota, resource, object) {
            continue;
        }
        let name = objects::meta::name(quota);
        if resource.group.is_empty() && resource.resource == "pods" {
            check_containers(object, &restricted)
                .map_err(|missing| Refusal::new(format!("failed quota: {name}: {missing}")))?;
        }
        let used = Amounts::of(quota.pointer("/status/used"));
        if restricted.iter().any(|name| used.get(name).is_none()) {
            let message = format!("status unknown for quota: {name}, resources: {}", restricted.join(","));
            return Err(Refusal::new(message));
        }
        concerned.push((position, quota, used));
    }
    if concerned.is_empty() {
        return Ok(Vec::new());
    }
    let whole = usage(resource, object, now);
    let negative: Vec<&str> =
        whole.iter().filter(|(_, amount)| amount.sign() < 0).map(|(name, _)| name).collect();
    if !negative.is_empty() {
        let message = format!("quota usage is negative for resource(s): {}", negative.join(","));
        return Err(Refusal::new(message));
    }
    // An update is charged for what it adds, unless the object was not within the quota before.
    let before = request.old.filter(|_| request.operation == Operation::Update);
    let before = before.filter(|old| !objects::meta::resource_version(old).is_empty());
    let mut charges = Vec::new();
    for (position, quota, used) in concerned {
        let was_within = before.filter(|old| scopes::matches(quota, resource, old));
        let added =
            was_within.map_or_else(|| whole.clone(), |old| whole.increase_over(&usage(resource, old, now)));
        if let Some(used) = charge(request, quota, &added.without_zeros(), used)? {
            charges.push(Charge { quota: position, used });
        }
    }
    Ok(charges)
}

/// What a quota's usage becomes; `None` if it does not change.
fn charge(
    request: &Request<'_>,
    quota: &Value,
    added: &Amounts,
    used: Amounts,
) -> Result<Option<Amounts>, Refusal> {
    let hard = Amounts::of(quota.pointer("/status/hard"));
    let requested = added.only(|name| hard.get(name).is_some());
    if requested.is_empty() {
        return Ok(None);
    }
    let mut after = used.clone();
    after.add(&requested);
    let exceeds = |name: &str| {
        let (sum, limit) = (after.get(name), hard.get(name));
        requested.get(name).is_some() && sum.zip(limit).is_some_and(|(sum, limit)| sum > limit)
    };
    // A status reports what happened; it cannot be refused for it.
    if request.subresource != "status" && hard.names().any(exceeds) {
        let message = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            objects::meta::name(quota),
            requested.only(exceeds),
            used.only(exceeds),
            hard.only(exceeds),
        );
        return Err(Refusal::new(message));
    }
    Ok(Some(after))
}

/// `must specify limits.cpu for: a,b; memory for: a`
fn check_containers(pod: &Value, restricted: &[&str]) -> Result<(), String> {
    if pod::has_own_resources(pod) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for container in pod::list(pod, "containers").iter().chain(pod::list(pod, "initContainers")) {
        let requests = pod::resources(container, Side::Requests);
        let said = compute_usage(&requests, &pod::resources(container, Side::Limits));
        for name in REQUIRED_OF_CONTAINERS.iter().filter(|name| restricted.contains(name)) {
            if said.get(name).is_none() {
                missing.entry(name).or_default().push(pod::text(container, "name"));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = missing
        .into_iter()
        .map(|(name, mut containers)| {
            containers.sort_unstable();
            containers.dedup();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    Err(format!("must specify {}", shown.join("; ")))
}
