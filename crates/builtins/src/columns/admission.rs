//! Webhooks, admission policies and the fairness of requests.

use objects::Value;

use super::shown::{condition, selector};
use super::{AGE, Column, NAME, count, made, number, shown, text, text_or};
use crate::dotted::Dotted;

/// Mutating and validating alike.
pub(crate) static WEBHOOK_CONFIGURATION: [Column; 3] = [NAME, count("Webhooks", "webhooks"), AGE];

pub(crate) static VALIDATING_ADMISSION_POLICY: [Column; 4] =
    [NAME, count("Validations", "spec.validations"), shown("ParamKind", param_kind), AGE];

pub(crate) static MUTATING_ADMISSION_POLICY: [Column; 4] =
    [NAME, count("Mutations", "spec.mutations"), shown("ParamKind", param_kind), AGE];

pub(crate) static ADMISSION_POLICY_BINDING: [Column; 4] =
    [NAME, text("PolicyName", "spec.policyName"), shown("ParamRef", param_ref), AGE];

fn param_kind(policy: &Value) -> String {
    match policy.at("spec.paramKind") {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    }
}

fn param_ref(binding: &Value) -> String {
    let reference = binding.at("spec.paramRef");
    match (reference.text("name"), reference.text("namespace")) {
        ("", _) if reference.has("selector") => selector(reference.at("selector")),
        ("", _) => "<unset>".to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    }
}

pub(crate) static FLOW_SCHEMA: [Column; 6] = [
    NAME,
    text("PriorityLevel", "spec.priorityLevelConfiguration.name"),
    number("MatchingPrecedence", "spec.matchingPrecedence").announced("string"),
    text_or("DistinguisherMethod", "spec.distinguisherMethod.type", "<none>"),
    AGE,
    shown("MissingPL", |o| {
        condition(o, "Dangling").map_or("?", |dangling| dangling.text("status")).to_owned()
    }),
];

pub(crate) static PRIORITY_LEVEL: [Column; 7] = [
    NAME,
    text("Type", "spec.type"),
    made("NominalConcurrencyShares", "string", |o| or_none(o.at("spec.limited.nominalConcurrencyShares"))),
    made("Queues", "string", |o| or_none(o.at("spec.limited.limitResponse.queuing.queues"))),
    made("HandSize", "string", |o| or_none(o.at("spec.limited.limitResponse.queuing.handSize"))),
    made("QueueLengthLimit", "string", |o| {
        or_none(o.at("spec.limited.limitResponse.queuing.queueLengthLimit"))
    }),
    AGE,
];

fn or_none(value: &Value) -> Value {
    if value.is_null() { "<none>".into() } else { value.clone() }
}
