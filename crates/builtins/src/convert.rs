//! Between the two names of one object: horizontal pod autoscalers in v1 and v2, events in two groups.

mod autoscaling;
mod events;

use objects::{GroupVersion, GroupVersionKind, Value};
use serde_json::Map;

type Conversion = fn(&mut Map<String, Value>);

const HPA: &str = "HorizontalPodAutoscaler";

/// kind, from `apiVersion`, to `apiVersion`, how
const CONVERSIONS: &[(&str, &str, &str, Conversion)] = &[
    (HPA, "autoscaling/v2", "autoscaling/v1", autoscaling::to_v1),
    (HPA, "autoscaling/v1", "autoscaling/v2", autoscaling::to_v2),
    ("Event", "v1", "events.k8s.io/v1", events::to_events),
    ("Event", "events.k8s.io/v1", "v1", events::to_core),
];

/// The same object as another kind, if there is a way. Fields that neither side knows are kept.
pub fn convert(object: &Value, to: &GroupVersionKind) -> Option<Value> {
    let kind = object.get("kind")?.as_str()?;
    let from = GroupVersion::parse(object.get("apiVersion")?.as_str()?)?;
    if kind != to.kind {
        return None;
    }
    let target = to.group_version();
    if from == target {
        return Some(object.clone());
    }
    let (from, target) = (from.to_string(), target.to_string());
    let row =
        CONVERSIONS.iter().find(|(k, f, t, _)| (*k, *f, *t) == (kind, from.as_str(), target.as_str()))?;
    let mut converted = object.as_object()?.clone();
    (row.3)(&mut converted);
    converted.insert("apiVersion".into(), target.into());
    Some(Value::Object(converted))
}

/// Moves a field under another name, if it is there.
fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
