//! Kubernetes Events about a resource: one when something happens, none while nothing does.

use jiff::Timestamp;
use objects::{Value, meta, time};
use serde_json::json;

use crate::writing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

/// The longest note that an event may have.
const LONGEST: usize = 1_024;

/// Events are for people to read: one that cannot be written is no failure.
pub(crate) async fn record(
    client: &kube::Client,
    about: &Value,
    severity: Severity,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let namespace =
        Some(meta::namespace(about)).filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    let (name, now) = (format!("{}.{:016x}", meta::name(about), rand::random::<u64>()), time::format(now));
    let message: String = message.chars().take(LONGEST).collect();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": meta::api_version(about), "kind": meta::kind(about), "namespace": meta::namespace(about),
            "name": meta::name(about), "uid": meta::uid(about), "resourceVersion": meta::resource_version(about),
        },
        "type": match severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
        "reason": reason, "message": message, "source": {"component": "hangar-provision"},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    if let Err(error) =
        writing::create(client, &format!("/api/v1/namespaces/{namespace}/events"), &event).await
    {
        tracing::debug!(%error, "an event was not written");
    }
}
