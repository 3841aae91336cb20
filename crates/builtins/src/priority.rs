//! In which order groups are listed, and which of a group's versions is preferred.

use std::cmp::Ordering;

/// `groupPriorityMinimum` of the APIServices that stand for the built-in groups. The core group is listed
/// under a path of its own; `apiregistration.k8s.io` is always the first of the others.
const GROUPS: &[(&str, i32)] = &[
    ("apiregistration.k8s.io", 20001),
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
];

/// What the APIService of a group of custom resources gets.
const CUSTOM: i32 = 1000;

/// Higher comes first.
pub fn group_priority(group: &str) -> i32 {
    GROUPS.iter().find(|(name, _)| *name == group).map_or(CUSTOM, |(_, priority)| *priority)
}

/// Whether the group belongs to the built-in kinds.
pub fn is_builtin_group(group: &str) -> bool {
    GROUPS.iter().any(|(name, _)| *name == group)
}

/// By priority; among equals by name.
pub fn compare_groups(a: &str, b: &str) -> Ordering {
    group_priority(b).cmp(&group_priority(a)).then_with(|| a.cmp(b))
}

/// The preferred version first: stable before beta before alpha, then the higher number;
/// names that are no Kubernetes version come last, alphabetically.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (ranked(a), ranked(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// `v2beta1` as (stability, major, minor).
fn ranked(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let number = |text: &str| text.chars().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let major = number(major)?;
    for (word, stability) in [("beta", 1), ("alpha", 0)] {
        if let Some(minor) = rest.strip_prefix(word) {
            return Some((stability, major, number(minor)?));
        }
    }
    rest.is_empty().then_some((2, major, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_upstream_does() {
        let ordered =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        let mut shuffled = ordered;
        shuffled.reverse();
        shuffled.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(shuffled, ordered);
        for odd in ["v", "v1gamma1", "v1beta", "1", "v1beta1x", "v-1", "v99999999999999999999999"] {
            assert_eq!(ranked(odd), None, "{odd}");
        }
    }

    #[test]
    fn custom_groups_come_last_by_name() {
        let mut groups =
            vec!["b.example.com", "apps", "a.example.com", "resource.k8s.io", "discovery.k8s.io"];
        groups.sort_by(|a, b| compare_groups(a, b));
        assert_eq!(groups, ["apps", "discovery.k8s.io", "resource.k8s.io", "a.example.com", "b.example.com"]);
    }
}
