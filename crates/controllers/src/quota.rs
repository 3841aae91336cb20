//! What a quota says is used is what is there.
//!
//! Admission counts what is made in the transaction that makes it. What goes, or shrinks, is counted here, from
//! scratch and a moment later, so that many at once are counted once.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use objects::{GroupResource, Value, meta};
use runtime::{Change, Context, Controller, Error, Event, Key, Kinds, Next, Request, Triggers};

use crate::resource::Resource;

const KIND: &str = "resourcequotas";
const SOON: Duration = Duration::from_millis(50);

pub struct Quotas;

#[async_trait]
impl Controller for Quotas {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn kinds(&self) -> Kinds {
        Kinds::All
    }

    /// A key is a namespace: all of its quotas.
    fn triggers(&self, event: &Event, triggers: &mut Triggers) {
        let Key { kind, namespace, .. } = &event.key;
        if namespace.is_empty() || matches!(kind.as_str(), "events" | "leases.coordination.k8s.io") {
            return;
        }
        let key = || Key::new(KIND, namespace.clone(), "");
        if kind == KIND && event.change != Change::Deleted {
            if limits_changed(event) {
                triggers.now(key());
            }
        } else if event.change == Change::Deleted || (event.change == Change::Updated && may_shrink(event)) {
            triggers.after(key(), SOON);
        }
    }

    async fn reconcile(&self, context: &Context, request: &Request) -> Result<Next, Error> {
        let namespace = &request.key.namespace;
        for mut quota in context.list(KIND, namespace).await? {
            if meta::is_deleting(&quota) {
                continue;
            }
            let status = count(context, &quota, namespace).await?;
            if quota.get("status") == Some(&status) {
                continue;
            }
            quota["status"] = status;
            let name = meta::name(&quota).to_owned();
            // If something was admitted meanwhile, the quota has changed, and this is refused and done again.
            match Resource::core(context.client(), namespace, KIND).replace(&name, "status", &quota).await {
                Err(error) if error.code() != Some(404) => return Err(error),
                _ => {}
            }
        }
        Ok(Next::Done)
    }
}

/// Whether a quota says something that has not been counted yet.
fn limits_changed(event: &Event) -> bool {
    let Some(quota) = event.object() else { return false };
    let spec_changed = event.previous().is_none_or(|before| before.get("spec") != quota.get("spec"));
    spec_changed || quota.pointer("/spec/hard") != quota.pointer("/status/hard")
}

/// Kinds whose objects may come to use less than before.
fn may_shrink(event: &Event) -> bool {
    let (Some(now), Some(before)) = (event.object(), event.previous()) else { return false };
    match event.key.kind.as_str() {
        "pods" => {
            let phase = |pod: &Value| pod.pointer("/status/phase").cloned();
            phase(now) != phase(before) || meta::is_deleting(now) != meta::is_deleting(before)
        }
        "services" | "persistentvolumeclaims" => now.get("spec") != before.get("spec"),
        _ => false,
    }
}

async fn count(context: &Context, quota: &Value, namespace: &str) -> Result<Value, Error> {
    let mut objects: Vec<(GroupResource, Value)> = Vec::new();
    for kind in counted(quota) {
        let (plural, group) = kind.split_once('.').unwrap_or((&kind, ""));
        let resource = GroupResource::new(group, plural);
        objects.extend(
            context.list(&kind, namespace).await?.into_iter().map(|object| (resource.clone(), object)),
        );
    }
    let objects = objects.iter().map(|(resource, object)| (resource, object));
    Ok(admission::quota::recompute(quota, objects, context.now))
}

/// The kinds that a quota's names are about.
fn counted(quota: &Value) -> BTreeSet<String> {
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object);
    hard.into_iter().flat_map(|hard| hard.keys()).map(|name| kind_of(name)).collect()
}

/// The kind that a name of `hard` is counted by; compute resources are those of pods.
fn kind_of(name: &str) -> String {
    if let Some(kind) = name.strip_prefix("count/") {
        return kind.to_owned();
    }
    match name {
        "configmaps"
        | "persistentvolumeclaims"
        | "replicationcontrollers"
        | "resourcequotas"
        | "secrets"
        | "services" => name.to_owned(),
        name if name.starts_with("services.") => "services".to_owned(),
        name if name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/") => {
            "persistentvolumeclaims".to_owned()
        }
        _ => "pods".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (name, expected) in [
            ("pods", "pods"),
            ("requests.cpu", "pods"),
            ("limits.memory", "pods"),
            ("requests.nvidia.com/gpu", "pods"),
            ("services.loadbalancers", "services"),
            ("services", "services"),
            ("count/deployments.apps", "deployments.apps"),
            ("count/widgets.example.com", "widgets.example.com"),
            ("requests.storage", "persistentvolumeclaims"),
            ("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ] {
            assert_eq!(kind_of(name), expected, "{name}");
        }
    }
}
