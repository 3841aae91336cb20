//! Where pods may run: affinity, tolerations, spreading.

use objects::names;

use super::Place;
use super::selectors::{label_selector, node_selector, node_selector_term};
use crate::dotted::Dotted;

pub(super) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Place<'_>) {
    let nodes = affinity.at("nodeAffinity");
    if nodes.has(REQUIRED) {
        node_selector(&nodes.at(REQUIRED));
    }
    for term in nodes.items(PREFERRED) {
        weight(&term);
        node_selector_term(&term.at("preference"), false);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.at(kind);
        pods.items(REQUIRED).for_each(|term| pod_affinity_term(&term));
        for weighted in pods.items(PREFERRED) {
            weight(&weighted);
            pod_affinity_term(&weighted.at("podAffinityTerm"));
        }
    }
}

fn weight(term: &Place<'_>) {
    if !(1..=100).contains(&term.number("weight")) {
        term.invalid_as("weight", term.number("weight"), "must be in the range 1-100");
    }
}

fn pod_affinity_term(term: &Place<'_>) {
    label_selector(&term.at("labelSelector"));
    label_selector(&term.at("namespaceSelector"));
    for name in term.texts("namespaces") {
        for sentence in names::dns1123_label(name) {
            term.invalid_as("namespace", name, sentence);
        }
    }
    if term.text("topologyKey").is_empty() {
        term.required("topologyKey", "can not be empty");
    }
    term.shape("topologyKey", names::qualified_name);
}

pub(super) fn tolerations(spec: &Place<'_>, path: &str) {
    for toleration in spec.items(path) {
        let (key, operator, value) =
            (toleration.text("key"), toleration.text("operator"), toleration.text("value"));
        toleration.shape_if("key", names::qualified_name);
        if key.is_empty() && operator != "Exists" {
            toleration.invalid_as(
                "operator",
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if toleration.has("tolerationSeconds") && toleration.text("effect") != "NoExecute" {
            toleration.invalid_as(
                "effect",
                toleration.text("effect"),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    toleration.invalid_as("operator", value, wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                toleration.invalid_as("operator", value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            _ => toleration.unsupported("operator", &["Equal", "Exists"]),
        }
        if !toleration.text("effect").is_empty() {
            toleration.choice_if("effect", &TAINT_EFFECTS);
        }
    }
}

pub(super) fn topology_spread(spec: &Place<'_>) {
    const UNSATISFIABLE: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    const INCLUSION: [&str; 2] = ["Honor", "Ignore"];
    let all: Vec<Place<'_>> = spec.items("topologySpreadConstraints").collect();
    for (i, constraint) in all.iter().enumerate() {
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        constraint.positive("maxSkew");
        if key.is_empty() {
            constraint.required("topologyKey", "can not be empty");
        }
        if !UNSATISFIABLE.contains(&action) {
            constraint.unsupported("whenUnsatisfiable", &UNSATISFIABLE);
        }
        let again =
            |other: &Place<'_>| other.text("topologyKey") == key && other.text("whenUnsatisfiable") == action;
        if all.iter().skip(i + 1).any(again) {
            let path = constraint.path_to("{topologyKey, whenUnsatisfiable}");
            constraint.report(objects::field::Error::duplicate(&path, format!("{{{key}, {action}}}")));
        }
        if constraint.has("minDomains") {
            constraint.positive("minDomains");
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                constraint.invalid("minDomains", detail);
            }
        }
        constraint.choice_if("nodeAffinityPolicy", &INCLUSION);
        constraint.choice_if("nodeTaintsPolicy", &INCLUSION);
        let selector = constraint.at("labelSelector");
        for key in constraint.items("matchLabelKeys") {
            key.shape("", names::qualified_name);
            if !constraint.has("labelSelector") {
                key.forbidden("", "must not be specified when labelSelector is not set");
            }
        }
        label_selector(&selector);
    }
}
