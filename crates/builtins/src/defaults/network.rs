//! Services, endpoints, ingresses, network policies.

use objects::Value;
use serde_json::json;

use super::{absent, empty, within};
use crate::behaviour::is_reachable_from_outside;
use crate::dotted::Dotted;

pub(crate) fn service(service: &mut Value) {
    absent(service, [("spec.sessionAffinity", json!("None")), ("spec.type", json!("ClusterIP"))]);
    match service.text("spec.sessionAffinity") {
        "None" => service.remove("spec.sessionAffinityConfig"),
        "ClientIP" => service.default("spec.sessionAffinityConfig.clientIP.timeoutSeconds", 10800),
        _ => {}
    }
    for port in service.items_mut("spec.ports") {
        port.default("protocol", "TCP");
        let unset = matches!(port.at("targetPort"), Value::Null)
            || port.int("targetPort") == Some(0)
            || port.at("targetPort").as_str() == Some("");
        if unset {
            let number = port.at("port").clone();
            port.put("targetPort", number);
        }
    }
    if is_reachable_from_outside(service) {
        service.default("spec.externalTrafficPolicy", "Cluster");
    }
    if matches!(service.text("spec.type"), "ClusterIP" | "NodePort" | "LoadBalancer") {
        service.default("spec.internalTrafficPolicy", "Cluster");
    }
    if service.text("spec.type") == "LoadBalancer" {
        service.default("spec.allocateLoadBalancerNodePorts", true);
        for ingress in service.items_mut("status.loadBalancer.ingress") {
            if !ingress.text("ip").is_empty() {
                ingress.default("ipMode", "VIP");
            }
        }
    }
    empty(service, &["status.loadBalancer"]);
}

pub(crate) fn endpoints(endpoints: &mut Value) {
    for port in endpoints.items_mut("subsets").flat_map(|subset| subset.items_mut("ports")) {
        port.default("protocol", "TCP");
    }
}

pub(crate) fn endpoint_slice(slice: &mut Value) {
    for port in slice.items_mut("ports") {
        absent(port, [("name", json!("")), ("protocol", json!("TCP"))]);
    }
}

pub(crate) fn ingress(ingress: &mut Value) {
    empty(ingress, &["status.loadBalancer"]);
}

pub(crate) fn ingress_class(class: &mut Value) {
    within(class, "spec.parameters", |parameters| parameters.default("scope", "Cluster"));
}

/// A policy that does not say what it is about is about ingress, and about egress if it has rules for it.
pub(crate) fn network_policy(policy: &mut Value) {
    empty(policy, &["spec.podSelector"]);
    if policy.count("spec.policyTypes") == 0 {
        let both = policy.count("spec.egress") > 0;
        policy.put("spec.policyTypes", if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
    for rules in ["spec.ingress", "spec.egress"] {
        for port in policy.items_mut(rules).flat_map(|rule| rule.items_mut("ports")) {
            port.default("protocol", "TCP");
        }
    }
}
