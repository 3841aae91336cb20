//! Label selectors and node selectors.

use objects::{Value, names};

use super::Place;
use crate::dotted::Dotted;

/// A `LabelSelector` object, if there is one.
pub(super) fn label_selector(selector: &Place<'_>) {
    selector.labels("matchLabels");
    for requirement in selector.items("matchExpressions") {
        operator(&requirement, false);
        requirement.shape("key", names::qualified_name);
        label_values(&requirement);
    }
}

fn operator(requirement: &Place<'_>, of_nodes: bool) {
    let count = requirement.count("values");
    match requirement.text("operator") {
        "In" | "NotIn" if count == 0 => {
            requirement.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            requirement
                .forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if of_nodes && count != 1 => {
            requirement.required("values", "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        "Gt" | "Lt" if of_nodes => {}
        _ => requirement.invalid("operator", "not a valid selector operator"),
    }
}

fn label_values(requirement: &Place<'_>) {
    requirement.items("values").for_each(|value| value.shape("", names::label_value));
}

/// Terms of which one must hold, each with requirements on labels or fields of a node.
pub(super) fn node_selector(selector: &Place<'_>) {
    if selector.count("nodeSelectorTerms") == 0 {
        selector.required("nodeSelectorTerms", "must have at least one node selector term");
    }
    selector.items("nodeSelectorTerms").for_each(|term| node_selector_term(&term, true));
}

/// Values that are no label values are let through where they are only preferred.
pub(super) fn node_selector_term(term: &Place<'_>, values: bool) {
    for requirement in term.items("matchExpressions") {
        operator(&requirement, true);
        requirement.shape("key", names::qualified_name);
        if values {
            label_values(&requirement);
        }
    }
    for requirement in term.items("matchFields") {
        match requirement.text("operator") {
            "In" | "NotIn" if requirement.count("values") != 1 => requirement.required(
                "values",
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            "In" | "NotIn" => {}
            _ => requirement.invalid("operator", "not a valid selector operator"),
        }
        match requirement.text("key") {
            "metadata.name" => {
                requirement.items("values").for_each(|value| value.shape("", names::dns1123_subdomain));
            }
            _ => requirement.invalid("key", "not a valid field selector key"),
        }
    }
}

/// A selector that selects by nothing selects everything, which is rarely meant.
pub(super) fn is_empty(selector: &Value) -> bool {
    selector.count("matchLabels") + selector.count("matchExpressions") == 0
}
