//! Namespaces, nodes, events, configuration and the rest of what a cluster keeps.

use std::collections::{BTreeMap, BTreeSet};

use objects::{Value, meta};

use super::shown::{condition, int_or_text, since as ago};
use super::{AGE, Cell, Column, NAME, count, flag, made, named, number, shown, shown_at, text, text_or};
use crate::dotted::Dotted;

pub(crate) static NAMESPACE: [Column; 3] = [NAME, text("Status", "status.phase"), AGE];

pub(crate) static CONFIG_MAP: [Column; 3] =
    [NAME, made("Data", "string", |o| (o.count("data") + o.count("binaryData")).into()), AGE];

pub(crate) static SECRET: [Column; 4] =
    [NAME, text("Type", "type"), count("Data", "data").announced("string"), AGE];

pub(crate) static NODE: [Column; 10] = [
    NAME,
    shown("Status", node_status),
    shown("Roles", node_roles),
    AGE,
    text("Version", "status.nodeInfo.kubeletVersion"),
    shown("Internal-IP", |node| node_address(node, "InternalIP")).wide(),
    shown("External-IP", |node| node_address(node, "ExternalIP")).wide(),
    text_or("OS-Image", "status.nodeInfo.osImage", "<unknown>").wide(),
    shown("Kernel-Version", |node| {
        let kernel = match node.text("status.nodeInfo.kernelVersion") {
            "" => "<unknown>",
            kernel => kernel,
        };
        match node.text("status.nodeInfo.architecture") {
            "" => kernel.to_owned(),
            architecture => format!("{kernel} ({architecture})"),
        }
    })
    .wide(),
    text_or("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>").wide(),
];

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready").map(|ready| ready.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    format!("{ready}{}", if node.flag("spec.unschedulable") { ",SchedulingDisabled" } else { "" })
}

fn node_roles(node: &Value) -> String {
    let labels = meta::labels(node).into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn node_address(node: &Value, kind: &str) -> String {
    let found = node.list("status.addresses").iter().find(|address| address.text("type") == kind);
    found.map_or("<none>", |address| address.text("address")).to_owned()
}

pub(crate) static EVENT: [Column; 10] = [
    shown_at("Last Seen", |event, now| {
        let series = either(event, "series.lastObservedTime", "");
        let last = either(event, "lastTimestamp", "deprecatedLastTimestamp");
        match (series, last) {
            ("", "") => first_seen(event, now),
            ("", last) => ago(last, now),
            (series, _) => ago(series, now),
        }
    }),
    text("Type", "type"),
    text("Reason", "reason"),
    shown("Object", |event| {
        let object = involved(event);
        let kind = object.text("kind").to_lowercase();
        match object.text("name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        }
    }),
    shown("Subobject", |event| involved(event).text("fieldPath").to_owned()).wide(),
    shown("Source", |event| {
        let source = if event.has("source") { event.at("source") } else { event.at("deprecatedSource") };
        let component = match source.text("component") {
            "" => either(event, "reportingComponent", "reportingController"),
            component => component,
        };
        match (source.text("host"), event.text("reportingInstance")) {
            ("", "") => component.to_owned(),
            ("", instance) => format!("{component}, {instance}"),
            (host, _) => format!("{component}, {host}"),
        }
    })
    .wide(),
    shown("Message", |event| either(event, "message", "note").trim().to_owned()),
    shown_at("First Seen", first_seen).wide(),
    made("Count", "string", |event| {
        let series = event.int("series.count");
        let count = event.int("count").or_else(|| event.int("deprecatedCount"));
        // An event that happened once carries no count in the newer API.
        series.or(count.filter(|count| *count != 0)).unwrap_or(1).into()
    })
    .wide(),
    named("Name", Cell::Text("metadata.name", "")).wide(),
];

/// An Event under the field names of either of its two APIs.
fn either<'a>(event: &'a Value, core: &str, newer: &str) -> &'a str {
    match event.text(core) {
        "" if !newer.is_empty() => event.text(newer),
        text => text,
    }
}

fn involved(event: &Value) -> &Value {
    if event.has("involvedObject") { event.at("involvedObject") } else { event.at("regarding") }
}

fn first_seen(event: &Value, now: i64) -> String {
    match (either(event, "firstTimestamp", "deprecatedFirstTimestamp"), event.text("eventTime")) {
        ("", "") => "<unknown>".to_owned(),
        ("", at) => ago(at, now),
        (first, _) => ago(first, now),
    }
}

pub(crate) static LEASE: [Column; 3] = [NAME, text("Holder", "spec.holderIdentity"), AGE];

pub(crate) static RESOURCE_QUOTA: [Column; 4] =
    [NAME, shown("Request", |o| usage(o, false)), shown("Limit", |o| usage(o, true)), AGE];

fn usage(quota: &Value, limits: bool) -> String {
    let hard: BTreeMap<&str, &Value> =
        quota.entries("status.hard").filter(|(name, _)| name.starts_with("limits.") == limits).collect();
    let used = quota.at("status.used");
    let shown = hard.into_iter().map(|(name, hard)| {
        let used = used.get(name).map_or("0".to_owned(), int_or_text);
        format!("{name}: {used}/{}", int_or_text(hard))
    });
    shown.collect::<Vec<_>>().join(", ")
}

pub(crate) static PRIORITY_CLASS: [Column; 5] = [
    NAME,
    number("Value", "value"),
    flag("Global-Default", "globalDefault"),
    AGE,
    text("PreemptionPolicy", "preemptionPolicy"),
];

pub(crate) static RUNTIME_CLASS: [Column; 3] = [NAME, text("Handler", "handler"), AGE];

pub(crate) static COMPONENT_STATUS: [Column; 4] = [
    NAME,
    shown("Status", |o| {
        let shown = match healthy(o).map(|condition| condition.text("status")) {
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
            None => "Unknown",
        };
        shown.to_owned()
    }),
    shown("Message", |o| healthy(o).map_or("", |condition| condition.text("message")).to_owned()),
    shown("Error", |o| healthy(o).map_or("", |condition| condition.text("error")).to_owned()),
];

fn healthy(component: &Value) -> Option<&Value> {
    component.list("conditions").iter().find(|condition| condition.text("type") == "Healthy")
}

pub(crate) static API_SERVICE: [Column; 4] = [
    NAME,
    shown("Service", |o| match o.at("spec.service") {
        Value::Null => "Local".to_owned(),
        service => format!("{}/{}", service.text("namespace"), service.text("name")),
    }),
    shown("Available", |o| match condition(o, "Available") {
        Some(available) if available.text("status") == "True" => "True".to_owned(),
        Some(available) if available.text("reason").is_empty() => available.text("status").to_owned(),
        Some(available) => format!("{} ({})", available.text("status"), available.text("reason")),
        None => "Unknown".to_owned(),
    }),
    AGE,
];
