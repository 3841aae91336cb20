//! Devices and their claims, storage versions, and groups of pods.

use objects::{Value, meta};

use super::shown::{condition, few, has_condition};
use super::{AGE, Column, NAME, shown, since, text, text_or};
use crate::dotted::Dotted;

pub(crate) static RESOURCE_CLAIM: [Column; 3] = [NAME, shown("State", claim_state), AGE];

fn claim_state(claim: &Value) -> String {
    let deleting = meta::is_deleting(claim);
    let allocated = claim.has("status.allocation");
    let reserved = allocated && claim.count("status.reservedFor") > 0;
    let states = [
        ("deleted", deleting),
        ("pending", !allocated && !deleting),
        ("allocated", allocated),
        ("reserved", reserved),
    ];
    states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state).collect::<Vec<_>>().join(",")
}

pub(crate) static RESOURCE_SLICE: [Column; 5] =
    [NAME, text("Node", "spec.nodeName"), text("Driver", "spec.driver"), text("Pool", "spec.pool.name"), AGE];

pub(crate) static DEVICE_TAINT_RULE: [Column; 6] = [
    NAME,
    text("Key", "spec.taint.key"),
    text("Value", "spec.taint.value"),
    text("Effect", "spec.taint.effect"),
    since("TimeAdded", "spec.taint.timeAdded", ""),
    AGE,
];

pub(crate) static STORAGE_VERSION: [Column; 4] = [
    NAME,
    text_or("CommonEncodingVersion", "status.commonEncodingVersion", "<unset>"),
    shown("StorageVersions", |o| {
        let versions = o.list("status.storageVersions").iter();
        let shown: Vec<String> =
            versions.map(|v| format!("{}={}", v.text("apiServerID"), v.text("encodingVersion"))).collect();
        few(&shown, 3, ",", "<unset>")
    }),
    AGE,
];

pub(crate) static STORAGE_VERSION_MIGRATION: [Column; 3] = [
    NAME,
    shown("Resource", |o| {
        let dot = if o.text("spec.resource.group").is_empty() { "" } else { "." };
        format!("{}{dot}{}", o.text("spec.resource.resource"), o.text("spec.resource.group"))
    }),
    shown("Status", |o| {
        let states = ["Succeeded", "Failed", "Running"];
        states.into_iter().find(|state| has_condition(o, state)).unwrap_or("Unknown").to_owned()
    }),
];

pub(crate) static POD_GROUP: [Column; 5] = [
    NAME,
    shown("Policy", |o| if o.has("spec.schedulingPolicy.gang") { "Gang" } else { "Basic" }.to_owned()),
    text_or("Workload", "spec.workloadRef.workloadName", "<none>"),
    shown("Status", |o| {
        match (condition(o, "DisruptionTarget"), condition(o, "PodGroupInitiallyScheduled")) {
            (Some(disrupted), _) => disrupted.text("reason").to_owned(),
            (None, Some(scheduled)) if scheduled.text("status") == "True" => "Scheduled".to_owned(),
            (None, Some(_)) => "Unschedulable".to_owned(),
            (None, None) => "Pending".to_owned(),
        }
    }),
    AGE,
];
