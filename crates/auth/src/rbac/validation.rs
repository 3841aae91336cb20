//! What is wrong with a role or a binding, field by field. Metadata is checked elsewhere.

use objects::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::{GROUP, Rule};

/// A Role or ClusterRole.
pub fn role(role: &Value) -> ErrorList {
    let cluster = objects::meta::kind(role) == "ClusterRole";
    let mut errors = ErrorList::new();
    for (i, value) in list(role, "rules").iter().enumerate() {
        let path = Path::new("rules").index(i);
        match Rule::deserialize_from(value) {
            Ok(rule) => errors.extend(policy_rule(&rule, cluster, &path)),
            Err(error) => errors.push(Error::invalid(&path, value.clone(), error.to_string())),
        }
    }
    if let Some(rule) = role.get("aggregationRule").filter(|rule| cluster && !rule.is_null()) {
        errors.extend(aggregation_rule(rule));
    }
    errors
}

fn policy_rule(rule: &Rule, cluster: bool, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if rule.verbs.is_empty() {
        errors.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !rule.non_resource_urls.is_empty() {
        let path = path.child("nonResourceURLs");
        let mut refuse = |why: &str| {
            errors.push(Error::invalid(&path, rule.non_resource_urls.clone(), why));
        };
        if !cluster {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !rule.api_groups.is_empty() || !rule.resources.is_empty() || !rule.resource_names.is_empty() {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return errors;
    }
    if rule.api_groups.is_empty() {
        let detail = "resource rules must supply at least one api group";
        errors.push(Error::required(&path.child("apiGroups"), detail));
    }
    if rule.resources.is_empty() {
        let detail = "resource rules must supply at least one resource";
        errors.push(Error::required(&path.child("resources"), detail));
    }
    errors
}

fn aggregation_rule(rule: &Value) -> ErrorList {
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = list(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        return vec![Error::required(&path, detail)];
    }
    let selectors = selectors.iter().enumerate();
    let bad = selectors.filter(|(_, value)| objects::selector::labels::Selector::from_value(value).is_err());
    bad.map(|(i, value)| Error::invalid(&path.index(i), value.clone(), "invalid label selector.")).collect()
}

/// A RoleBinding or ClusterRoleBinding.
pub fn binding(binding: &Value) -> ErrorList {
    let cluster = objects::meta::kind(binding) == "ClusterRoleBinding";
    let kinds: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    let path = Path::new("roleRef");
    let role = |field: &str| text(binding.get("roleRef"), field);
    let mut errors = ErrorList::new();
    if role("apiGroup") != GROUP {
        errors.push(Error::not_supported(&path.child("apiGroup"), role("apiGroup"), &[GROUP]));
    }
    if !kinds.contains(&role("kind")) {
        errors.push(Error::not_supported(&path.child("kind"), role("kind"), kinds));
    }
    if role("name").is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    for message in objects::names::path_segment(role("name")) {
        errors.push(Error::invalid(&path.child("name"), role("name"), message));
    }
    for (i, one) in list(binding, "subjects").iter().enumerate() {
        errors.extend(subject(one, cluster, &Path::new("subjects").index(i)));
    }
    errors
}

/// A change of a binding: what it refers to never changes.
pub fn binding_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = binding(new);
    if new.get("roleRef") != old.get("roleRef") {
        let bad = new.get("roleRef").cloned().unwrap_or_default();
        errors.push(Error::invalid(&Path::new("roleRef"), bad, "cannot change roleRef"));
    }
    errors
}

fn subject(subject: &Value, cluster: bool, path: &Path) -> ErrorList {
    let field = |name: &str| text(Some(subject), name);
    let (kind, name, group) = (field("kind"), field("name"), field("apiGroup"));
    let mut errors = ErrorList::new();
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    let mut expect_group = |expected: &str| {
        if group != expected {
            errors.push(Error::not_supported(&path.child("apiGroup"), group, &[expected]));
        }
    };
    match kind {
        "User" | "Group" => expect_group(GROUP),
        "ServiceAccount" => {
            expect_group("");
            if !name.is_empty() {
                let wrong = objects::names::dns1123_subdomain(name).into_iter();
                errors.extend(wrong.map(|message| Error::invalid(&path.child("name"), name, message)));
            }
            if cluster && field("namespace").is_empty() {
                errors.push(Error::required(&path.child("namespace"), ""));
            }
        }
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(Error::not_supported(&path.child("kind"), kind, &kinds));
        }
    }
    errors
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(object: Option<&'a Value>, field: &str) -> &'a str {
    object.and_then(|object| object.get(field)).and_then(Value::as_str).unwrap_or_default()
}
