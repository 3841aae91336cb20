//! What users are told of references that cannot hold.

use objects::{Value, meta};
use runtime::{Error, Key};
use serde_json::json;

use super::Scene;
use super::references::Owner;
use crate::resource::Resource;

/// Namespaces searched for an owner that is not where it should be. The search is for the report alone.
const SEARCHED: usize = 100;

impl Scene<'_> {
    /// Whether the owner is there, but in another namespace than its dependant.
    pub(super) async fn is_elsewhere(&self, owner: &Owner<'_>, at: &Key) -> Result<bool, Error> {
        let namespaces = self.context.list("namespaces", "").await?;
        if namespaces.len() > SEARCHED {
            return Ok(false);
        }
        for namespace in namespaces.iter().map(meta::name).filter(|name| *name != at.namespace) {
            let found = self.context.get(&at.kind, namespace, &at.name).await?;
            if found.is_some_and(|found| meta::uid(&found) == owner.uid) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A warning about the dependant. That it cannot be written changes nothing.
    pub(super) async fn report_invalid(&self, owner: &Owner<'_>, key: &Key, dependant: &Value) {
        let Owner { api_version, kind, name, uid, .. } = owner;
        let reference =
            format!("[{api_version}/{kind}, namespace: {}, name: {name}, uid: {uid}]", key.namespace);
        let message = format!("ownerRef {reference} does not exist in namespace {:?}", key.namespace);
        let namespace = if key.namespace.is_empty() { "default" } else { key.namespace.as_str() };
        let now = self.context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        // One per dependant and owner, however often it is looked at.
        let suffix: String = uid.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{}.{}", meta::name(dependant), suffix.to_ascii_lowercase()), "namespace": namespace},
            "involvedObject": {
                "apiVersion": meta::api_version(dependant), "kind": meta::kind(dependant), "name": meta::name(dependant),
                "namespace": key.namespace, "uid": meta::uid(dependant), "resourceVersion": meta::resource_version(dependant),
            },
            "reason": "OwnerRefInvalidNamespace", "message": message, "type": "Warning",
            "source": {"component": "garbage-collector-controller"}, "reportingComponent": "garbage-collector-controller",
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        });
        if let Err(error) =
            crate::resource::ensure(&Resource::core(self.context.client(), namespace, "events"), &event).await
        {
            tracing::debug!(%error, "an event about an owner reference cannot be written");
        }
    }
}
