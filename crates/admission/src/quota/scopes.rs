//! Which objects a quota is about.

use objects::GroupResource;
use serde_json::Value;

use crate::pod;

/// Whether an object is in all scopes of a quota. Without scopes everything is.
pub(super) fn matches(quota: &Value, resource: &GroupResource, object: &Value) -> bool {
    let named = pod::list(quota, "scopes").iter().filter_map(Value::as_str);
    let selected = quota.pointer("/spec/scopeSelector/matchExpressions").and_then(Value::as_array);
    let mut all = named
        .map(|scope| Requirement { scope, operator: "Exists", values: Vec::new() })
        .chain(selected.into_iter().flatten().map(Requirement::read));
    all.all(|requirement| requirement.holds(resource, object))
}

struct Requirement<'a> {
    scope: &'a str,
    operator: &'a str,
    values: Vec<&'a str>,
}

impl<'a> Requirement<'a> {
    fn read(expression: &'a Value) -> Self {
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        Requirement {
            scope: pod::text(expression, "scopeName"),
            operator: pod::text(expression, "operator"),
            values: values.filter_map(Value::as_str).collect(),
        }
    }

    fn holds(&self, resource: &GroupResource, object: &Value) -> bool {
        if !resource.group.is_empty() {
            return false;
        }
        match (resource.resource.as_str(), self.scope) {
            ("pods", "Terminating") => is_terminating(object),
            ("pods", "NotTerminating") => !is_terminating(object),
            ("pods", "BestEffort") => pod::is_best_effort(object),
            ("pods", "NotBestEffort") => !pod::is_best_effort(object),
            ("pods", "PriorityClass") => self.selects(&[pod::spec_text(object, "priorityClassName")]),
            ("pods", "CrossNamespacePodAffinity") => has_cross_namespace_affinity(object),
            ("persistentvolumeclaims", "VolumeAttributesClass") => self.selects(&attribute_classes(object)),
            _ => false,
        }
    }

    /// Whether one of the names fits, as a label with that value would; empty names are none.
    fn selects(&self, names: &[&str]) -> bool {
        let names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        match self.operator {
            "Exists" => !names.is_empty(),
            "DoesNotExist" => names.is_empty(),
            "In" => names.iter().any(|name| self.values.contains(name)),
            "NotIn" => names.is_empty() || names.iter().any(|name| !self.values.contains(name)),
            _ => false,
        }
    }
}

/// A pod with a deadline ends by itself.
pub(super) fn is_terminating(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        let namespaces = term.get("namespaces").and_then(Value::as_array);
        namespaces.is_some_and(|list| !list.is_empty()) || pod::has(term, "namespaceSelector")
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = |when: &str| {
            let path = format!("/spec/affinity/{kind}/{when}DuringSchedulingIgnoredDuringExecution");
            pod.pointer(&path).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice)
        };
        terms("required").iter().any(crosses)
            || terms("preferred").iter().filter_map(|term| term.get("podAffinityTerm")).any(crosses)
    })
}

/// What a claim is of, was of and is becoming.
fn attribute_classes(claim: &Value) -> [&str; 3] {
    let at = |path: &str| claim.pointer(path).and_then(Value::as_str).unwrap_or_default();
    [
        at("/spec/volumeAttributesClassName"),
        at("/status/currentVolumeAttributesClassName"),
        at("/status/modifyVolumeStatus/targetVolumeAttributesClassName"),
    ]
}
