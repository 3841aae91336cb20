//! What namespaces and pods may use: quotas, limit ranges, budgets, autoscalers.

use std::collections::BTreeSet;

use objects::field::Error;
use objects::quantity::Quantity;
use objects::{ErrorList, Value, names};

use super::pods::{Use, resource_amount, resource_name};
use super::selectors::label_selector;
use super::{Place, checked};
use crate::dotted::Dotted;

pub(crate) fn resource_quota(quota: &Value) -> ErrorList {
    checked(quota, |quota| {
        quantities(quota, "spec.hard");
        let spec = quota.at("spec");
        let scopes: Vec<&str> = spec.texts("scopes");
        for _ in scopes.iter().filter(|scope| !SCOPES.contains(scope)) {
            spec.invalid("scopes", "unsupported scope");
        }
        conflicting(&spec.at("scopes"), &scopes);
        let selector = spec.at("scopeSelector").at("matchExpressions");
        let selected: Vec<&str> =
            selector.list("").iter().map(|requirement| requirement.text("scopeName")).collect();
        for requirement in selector.items("") {
            scope_requirement(&requirement.called(selector.path_to("")));
        }
        conflicting(&selector, &selected);
    })
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn quantities(quota: &Place<'_>, list: &str) {
    for (name, amount) in quota.keyed(list) {
        resource_name(&amount, name, Use::Quota);
        resource_amount(&amount, name);
    }
}

fn conflicting(place: &Place<'_>, scopes: &[&str]) {
    for [one, other] in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if scopes.contains(&one) && scopes.contains(&other) {
            place.invalid("", "conflicting scopes");
        }
    }
}

fn scope_requirement(requirement: &Place<'_>) {
    let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
    if !SCOPES.contains(&scope) {
        requirement.invalid("scopeName", "unsupported scope");
    }
    let only_exists = !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope);
    if only_exists && operator != "Exists" {
        requirement.invalid(
            "operator",
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
             ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
        );
    }
    match (operator, requirement.count("values")) {
        ("In" | "NotIn", 0) => requirement.required(
            "values",
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        ("Exists" | "DoesNotExist", 1..) => requirement.invalid(
            "values",
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        _ => requirement.invalid("operator", "not a valid selector operator"),
    }
}

pub(crate) fn resource_quota_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |quota| {
        let scopes = |quota: &Value| -> BTreeSet<String> {
            quota.texts("spec.scopes").into_iter().map(str::to_owned).collect()
        };
        if scopes(new) != scopes(old) {
            quota.invalid("spec.scopes", "field is immutable");
        }
    })
}

pub(crate) fn resource_quota_status_update(new: &Value, _: &Value) -> ErrorList {
    checked(new, |quota| {
        quantities(quota, "status.hard");
        quantities(quota, "status.used");
    })
}

pub(crate) fn limit_range(range: &Value) -> ErrorList {
    checked(range, |range| {
        super::place::no_repeats(range.items("spec.limits"), "type");
        range.items("spec.limits").for_each(|limit| limits_of_type(&limit));
    })
}

const LIMIT_LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn limits_of_type(limit: &Place<'_>) {
    let kind = limit.text("type");
    let wrong = names::qualified_name(kind);
    if wrong.is_empty()
        && !kind.contains('/')
        && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
    {
        limit.invalid("type", "must be a standard limit type or fully qualified");
    }
    wrong.into_iter().for_each(|sentence| limit.invalid_as("type", kind, sentence));
    let counted_by = if matches!(kind, "Pod" | "Container") { Use::Container } else { Use::Any };
    let mut resources: BTreeSet<&str> = BTreeSet::new();
    for list in LIMIT_LISTS {
        if kind == "Pod" && matches!(list, "default" | "defaultRequest") {
            if limit.count(list) > 0 {
                limit.forbidden(list, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, amount) in limit.keyed(list) {
            resource_name(&amount, name, counted_by);
            amount.quantity("");
            resources.insert(name);
        }
    }
    let has_storage = |list: &str| limit.value.at(list).get("storage").is_some();
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        limit.required("limits", detail);
    }
    resources.into_iter().for_each(|name| bounds(limit, name));
}

/// The least, the most, and the defaults of one resource must be in order.
fn bounds(limit: &Place<'_>, name: &str) {
    let amount =
        |list: &str| limit.value.at(list).get(name).and_then(|amount| Quantity::from_value(amount).ok());
    let [max, min, default, request, ratio] = LIMIT_LISTS.map(amount);
    let orders = [
        (min, max, "min", "min value", "max value"),
        (min, request, "defaultRequest", "min value", "default request value"),
        (request, max, "defaultRequest", "default request value", "max value"),
        (request, default, "defaultRequest", "default request value", "default limit value"),
        (min, default, "default", "min value", "default value"),
        (default, max, "default", "default value", "max value"),
    ];
    for (small, large, list, small_name, large_name) in orders {
        if let (Some(small), Some(large)) = (small, large)
            && small > large
        {
            let shown = limit.value.at(list).get(name).cloned().unwrap_or_default();
            let detail = format!("{small_name} {small} is greater than {large_name} {large}");
            limit.report(Error::invalid(&limit.path_to(list).key(name), shown, detail));
        }
    }
    let one = Quantity::new(1, objects::quantity::Format::DecimalSI);
    if let Some(ratio) = ratio.filter(|ratio| *ratio < one) {
        let path = limit.path_to("maxLimitRequestRatio").key(name);
        limit.report(Error::invalid(&path, ratio.to_string(), format!("ratio {ratio} is less than 1")));
    }
}

pub(crate) fn pod_disruption_budget(budget: &Value) -> ErrorList {
    checked(budget, |budget| {
        let spec = budget.at("spec");
        if spec.has("minAvailable") && spec.has("maxUnavailable") {
            spec.invalid("", "minAvailable and maxUnavailable cannot be both set");
        }
        for bound in ["minAvailable", "maxUnavailable"].iter().filter(|bound| spec.has(bound)) {
            spec.int_or_percent(bound);
            let percent = spec.text(bound).strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
            if percent.is_some_and(|percent| percent > 100) {
                spec.invalid(bound, "must not be greater than 100%");
            }
        }
        label_selector(&spec.at("selector"));
        spec.choice_if("unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"]);
    })
}

pub(crate) fn pod_disruption_budget_status_update(new: &Value, _: &Value) -> ErrorList {
    checked(new, |budget| {
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            budget.at("status").not_negative(count);
        }
    })
}

pub(crate) fn horizontal_pod_autoscaler(autoscaler: &Value) -> ErrorList {
    checked(autoscaler, |autoscaler| {
        let spec = autoscaler.at("spec");
        let (min, max) = (spec.int("minReplicas"), spec.number("maxReplicas"));
        if min.is_some_and(|min| min < 1) {
            spec.invalid("minReplicas", "must be greater than or equal to 1");
        }
        match max {
            0 => spec.required("maxReplicas", "must be set and greater than 0"),
            ..0 => spec.invalid("maxReplicas", "must be greater than or equal to 1"),
            _ => {}
        }
        if min.is_some_and(|min| max < min) {
            spec.invalid_as("maxReplicas", max, "must be greater than or equal to `minReplicas`");
        }
        object_reference(&spec.at("scaleTargetRef"));
        if spec.int("targetCPUUtilizationPercentage").is_some_and(|percent| percent < 1) {
            spec.invalid("targetCPUUtilizationPercentage", "must be greater than 0");
        }
        spec.items("metrics").for_each(|metric| metric_spec(&metric));
        for direction in ["behavior.scaleUp", "behavior.scaleDown"] {
            if spec.has(direction) {
                scaling_rules(&spec.at(direction));
            }
        }
    })
}

fn object_reference(reference: &Place<'_>) {
    reference.need_shape("kind", names::path_segment);
    reference.need_shape("name", names::path_segment);
}

fn metric_spec(metric: &Place<'_>) {
    const KINDS: [(&str, &str); 5] = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    let kind = metric.text("type");
    if kind.is_empty() {
        metric.required("type", "must specify a metric source type");
    }
    let Some((_, expected)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        return metric.unsupported("type", &KINDS.map(|(name, _)| name));
    };
    if !metric.has(expected) {
        metric.required(expected, "must populate information for the given metric source");
    }
    for (_, other) in KINDS.iter().filter(|(_, other)| other != expected && metric.has(other)) {
        metric.forbidden(other, "must populate the given metric source only");
    }
    let source = metric.at(expected);
    if source.is_null() {
        return;
    }
    match *expected {
        "resource" | "containerResource" => {
            if source.text("name").is_empty() {
                source.required("name", "must specify a resource name");
            }
            if *expected == "containerResource" && source.text("container").is_empty() {
                source.required("container", "must specify a container");
            }
        }
        _ => source.at("metric").need_shape("name", names::path_segment),
    }
    if *expected == "object" {
        object_reference(&source.at("describedObject"));
    }
    metric_target(&source);
}

fn metric_target(source: &Place<'_>) {
    let target = source.at("target");
    if target.text("type").is_empty() {
        target.required("type", "must specify a metric target type");
    } else {
        target.choice_if("type", &["Utilization", "Value", "AverageValue"]);
    }
    for field in ["value", "averageValue"].iter().filter(|field| target.has(field)) {
        if target.quantity(field).is_some_and(|quantity| quantity.sign() <= 0) {
            target.invalid(field, "must be positive");
        }
    }
    if target.int("averageUtilization").is_some_and(|percent| percent < 1) {
        target.invalid("averageUtilization", "must be greater than 0");
    }
    if !["value", "averageValue", "averageUtilization"].iter().any(|field| target.has(field)) {
        target.required("averageValue", "must set either a target value or averageValue");
    }
}

fn scaling_rules(rules: &Place<'_>) {
    const MAX_WINDOW: i64 = 3600;
    const MAX_PERIOD: i64 = 1800;
    match rules.number("stabilizationWindowSeconds") {
        ..0 => rules.invalid("stabilizationWindowSeconds", "must be greater than or equal to zero"),
        0..=MAX_WINDOW => {}
        _ => {
            rules.invalid("stabilizationWindowSeconds", format!("must be less than or equal to {MAX_WINDOW}"))
        }
    }
    rules.choice_if("selectPolicy", &["Disabled", "Max", "Min"]);
    if rules.count("policies") == 0 {
        rules.required("policies", "must specify at least one Policy");
    }
    for policy in rules.items("policies") {
        if !["Percent", "Pods"].contains(&policy.text("type")) {
            policy.unsupported("type", &["Percent", "Pods"]);
        }
        policy.positive("value");
        policy.positive("periodSeconds");
        if policy.number("periodSeconds") > MAX_PERIOD {
            policy.invalid("periodSeconds", format!("must be less than or equal to {MAX_PERIOD}"));
        }
    }
}
