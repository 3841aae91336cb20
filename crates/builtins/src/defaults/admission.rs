//! Webhooks, admission policies, the fairness of requests, device requests.

use objects::Value;
use serde_json::json;

use super::{absent, within, zero};
use crate::dotted::Dotted;

pub(crate) fn validating_webhooks(configuration: &mut Value) {
    configuration.items_mut("webhooks").for_each(webhook);
}

pub(crate) fn mutating_webhooks(configuration: &mut Value) {
    for hook in configuration.items_mut("webhooks") {
        webhook(hook);
        hook.default("reinvocationPolicy", "Never");
    }
}

fn webhook(hook: &mut Value) {
    absent(hook, [("failurePolicy", json!("Fail")), ("timeoutSeconds", json!(10))]);
    matching(hook);
    within(hook, "clientConfig.service", |service| service.default("port", 443));
    hook.items_mut("rules").for_each(|rule| rule.default("scope", "*"));
}

fn matching(holder: &mut Value) {
    absent(
        holder,
        [
            ("matchPolicy", json!("Equivalent")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
        ],
    );
}

pub(crate) fn admission_policy(policy: &mut Value) {
    policy.default("spec.failurePolicy", "Fail");
    within(policy, "spec.matchConstraints", match_resources);
}

pub(crate) fn admission_policy_binding(binding: &mut Value) {
    within(binding, "spec.matchResources", match_resources);
}

fn match_resources(resources: &mut Value) {
    matching(resources);
    for rules in ["resourceRules", "excludeResourceRules"] {
        resources.items_mut(rules).for_each(|rule| rule.default("scope", "*"));
    }
}

pub(crate) fn flow_schema(schema: &mut Value) {
    zero(schema, &[("spec.matchingPrecedence", 1000)]);
}

pub(crate) fn priority_level(level: &mut Value) {
    within(level, "spec.exempt", |exempt| {
        absent(exempt, [("nominalConcurrencyShares", json!(0)), ("lendablePercent", json!(0))]);
    });
    within(level, "spec.limited", |limited| {
        absent(limited, [("nominalConcurrencyShares", json!(30)), ("lendablePercent", json!(0))]);
        within(limited, "limitResponse.queuing", |queuing| {
            zero(queuing, &[("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)]);
        });
    });
}

pub(crate) fn resource_claim(claim: &mut Value) {
    within(claim, "spec", device_requests);
}

pub(crate) fn resource_claim_template(template: &mut Value) {
    within(template, "spec.spec", device_requests);
}

fn device_requests(spec: &mut Value) {
    let counted = |request: &mut Value| {
        request.default("allocationMode", "ExactCount");
        if request.text("allocationMode") == "ExactCount" {
            zero(request, &[("count", 1)]);
        }
    };
    for request in spec.items_mut("devices.requests") {
        within(request, "exactly", counted);
        request.items_mut("firstAvailable").for_each(counted);
    }
}
