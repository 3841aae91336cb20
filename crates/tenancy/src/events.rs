//! Events about a control plane, once for each thing that happens.

use objects::{Value, meta, time};
use runtime::{Context, Error};
use serde_json::json;

use crate::api::{self, Place};
use crate::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// Objects without a namespace have their events in this one.
const NAMESPACE: &str = "default";

pub async fn record(
    context: &Context,
    about: &Value,
    severity: Severity,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let now = time::format(context.now);
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{}.{:016x}", meta::name(about), rand::random::<u64>()), "namespace": NAMESPACE},
        "involvedObject": {
            "apiVersion": meta::api_version(about), "kind": meta::kind(about),
            "name": meta::name(about), "uid": meta::uid(about),
            "resourceVersion": meta::resource_version(about),
        },
        "type": match severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
        "reason": reason, "message": message,
        "source": {"component": names::COMPONENT},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let place = Place::new("v1", "events", NAMESPACE, "");
    api::create(context.client(), &place, &event).await.map(drop)
}
