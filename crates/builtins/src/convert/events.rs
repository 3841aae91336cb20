//! Events of the core group and of `events.k8s.io`: the same fields under different names.

use objects::Value;
use serde_json::Map;

use super::rename;

const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("message", "note"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn to_events(event: &mut Map<String, Value>) {
    NAMES.iter().for_each(|(core, events)| rename(event, core, events));
}

pub(super) fn to_core(event: &mut Map<String, Value>) {
    NAMES.iter().for_each(|(core, events)| rename(event, events, core));
}
