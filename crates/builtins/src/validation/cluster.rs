//! Nodes, events, leases, classes of priority and runtime.

use objects::field::Error;
use objects::{ErrorList, Value, meta, names};

use super::pods::resource_amount;
use super::scheduling::{TAINT_EFFECTS, tolerations};
use super::services::cidr;
use super::{Place, checked};
use crate::behaviour::same;
use crate::dotted::Dotted;

pub(crate) fn node(node: &Value) -> ErrorList {
    checked(node, |node| {
        // Upstream reports taints below metadata.
        let taints = node.at("spec.taints").called(node.path_to("metadata.taints"));
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for taint in taints.items("") {
            taint.shape("key", names::qualified_name);
            let wrong = names::label_value(taint.text("value"));
            if !wrong.is_empty() {
                taint.invalid("value", wrong.join(";"));
            }
            taint.choice("effect", &TAINT_EFFECTS);
            let pair = (taint.value.text("key"), taint.value.text("effect"));
            if seen.contains(&pair) {
                let mut error = Error::duplicate(&taint.path_to(""), taint.value.clone());
                error.detail = "taints must be unique by key and effect pair".to_owned();
                taint.report(error);
            }
            seen.push(pair);
        }
        for list in ["status.capacity", "status.allocatable"] {
            for (name, amount) in node.keyed(list) {
                resource_amount(&amount.called(node.path_to(list).child(name)), name);
            }
        }
        node.items("spec.podCIDRs").for_each(|range| cidr(&range));
    })
}

pub(crate) fn node_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |node| {
        let before = old.list("spec.podCIDRs");
        if !before.is_empty() && before != node.list("spec.podCIDRs") {
            node.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
        }
        match (old.text("spec.providerID"), node.text("spec.providerID")) {
            ("", _) => {}
            (_, "") => node.invalid_as("spec.providerID", Value::Null, "field cannot be cleared once set"),
            (before, now) if before != now => {
                node.invalid_as("spec.providerID", Value::Null, "field cannot be modified once set");
            }
            _ => {}
        }
    })
}

/// Events of both APIs; the newer one is stricter and calls some fields otherwise.
pub(crate) fn event(event: &Value) -> ErrorList {
    const MAX_INSTANCE: usize = 128;
    const MAX_ACTION: usize = 128;
    const MAX_REASON: usize = 128;
    const MAX_NOTE: usize = 1024;
    checked(event, |event| {
        let newer = is_newer(event);
        let object = if newer { "regarding" } else { "involvedObject" };
        let namespace = meta::namespace(event);
        let about = event.at(object).at("namespace").called(event.path_to("involvedObject.namespace"));
        let detail = "does not match event.namespace";
        if !event.has("eventTime") {
            let elsewhere = about.text("") != namespace;
            let nowhere = about.text("").is_empty() && matches!(namespace, "" | "default");
            if elsewhere && !nowhere {
                about.invalid_as("", about.text(""), detail);
            }
            return;
        }
        if about.text("").is_empty() && !matches!(namespace, "default" | "kube-system") {
            about.invalid_as("", "", detail);
        }
        let controller = if newer { "reportingController" } else { "reportingComponent" };
        event.need(controller);
        event.shape(controller, names::qualified_name);
        let note = if newer { "note" } else { "message" };
        for (field, max, needed) in [
            ("reportingInstance", MAX_INSTANCE, true),
            ("action", MAX_ACTION, true),
            ("reason", MAX_REASON, true),
            (note, MAX_NOTE, false),
        ] {
            if needed {
                event.need(field);
            }
            if event.text(field).len() > max {
                let shown = if field == "note" { "message" } else { field };
                event.invalid_as(shown, "", format!("can have at most {max} characters"));
            }
        }
    })
}

fn is_newer(event: &Value) -> bool {
    meta::api_version(event).starts_with("events.k8s.io/")
}

pub(crate) fn new_event(event: &Value) -> ErrorList {
    checked(event, |event| {
        if !is_newer(event) {
            return;
        }
        series(event);
        if !event.has("eventTime") {
            event.required("eventTime", "");
        }
        if !matches!(event.text("type"), "Normal" | "Warning") {
            event.invalid_as("type", "", format!("has invalid value: {}", event.text("type")));
        }
        for (field, name) in [
            ("deprecatedFirstTimestamp", "firstTimestamp"),
            ("deprecatedLastTimestamp", "lastTimestamp"),
            ("deprecatedCount", "count"),
            ("deprecatedSource.component", "source"),
        ] {
            if event.has(field) && event.int(field) != Some(0) {
                event.invalid_as(name, "", "needs to be unset");
            }
        }
    })
}

fn series(event: &Place<'_>) {
    if !event.has("series") {
        return;
    }
    if event.number("series.count") < 2 {
        event.invalid_as("series.count", "", "should be at least 2");
    }
    if !event.has("series.lastObservedTime") {
        event.required("series.lastObservedTime", "");
    }
}

pub(crate) fn event_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |event| {
        if !is_newer(event) {
            return;
        }
        if !same(new.at("series"), old.at("series")) {
            series(event);
        }
        let fixed = [
            "regarding",
            "reason",
            "note",
            "deprecatedSource",
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
            "deprecatedCount",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingController",
            "reportingInstance",
        ];
        event.immutable(old, &fixed);
    })
}

pub(crate) fn lease(lease: &Value) -> ErrorList {
    checked(lease, |lease| {
        let spec = lease.at("spec");
        if spec.int("leaseDurationSeconds").is_some_and(|seconds| seconds <= 0) {
            spec.invalid("leaseDurationSeconds", "must be greater than 0");
        }
        spec.not_negative("leaseTransitions");
        if !spec.text("preferredHolder").is_empty() && spec.text("strategy").is_empty() {
            spec.forbidden("preferredHolder", "may only be specified if `strategy` is defined");
        }
    })
}

const HIGHEST_PRIORITY: i64 = 1_000_000_000;
/// The classes that the system keeps for itself, and what they are worth.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(crate) fn priority_class(class: &Value) -> ErrorList {
    checked(class, |class| {
        let (name, value) = (meta::name(class), class.number("value"));
        if name.starts_with("system-") {
            let wrong = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
                None => Some(format!("{name} is not a known system priority class")),
                Some((_, expected)) if *expected != value => {
                    Some(format!("value of {name} PriorityClass must be {expected}"))
                }
                Some(_) if class.flag("globalDefault") => {
                    Some(format!("globalDefault of {name} PriorityClass must be false"))
                }
                Some(_) => None,
            };
            if let Some(wrong) = wrong {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
                );
                class.forbidden("metadata.name", detail);
            }
        } else if value > HIGHEST_PRIORITY {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
            class.forbidden("value", detail);
        }
        class.choice_if("preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    })
}

pub(crate) fn priority_class_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |class| {
        if class.number("value") != old.number("value") {
            class.forbidden("value", "may not be changed in an update.");
        }
        class.immutable(old, &["preemptionPolicy"]);
    })
}

pub(crate) fn runtime_class(class: &Value) -> ErrorList {
    checked(class, |class| {
        class.need_shape("handler", names::dns1123_label);
        for (name, amount) in class.keyed("overhead.podFixed") {
            resource_amount(&amount, name);
        }
        let scheduling = class.at("scheduling");
        scheduling.labels("nodeSelector");
        tolerations(&scheduling, "tolerations");
    })
}

pub(crate) fn runtime_class_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |class| class.immutable(old, &["handler"]))
}
