//! Which resources are the same objects under two names, and in which of them they are stored.

use objects::{CompactString, GroupResource};

use crate::types;

struct Shared {
    /// (group, version) under which the resource is served; all have the same plural.
    served: &'static [(&'static str, &'static str)],
    plural: &'static str,
    stored: (&'static str, &'static str),
}

const SHARED: &[Shared] = &[
    Shared { served: &[("", "v1"), ("events.k8s.io", "v1")], plural: "events", stored: ("", "v1") },
    Shared {
        served: &[("autoscaling", "v1"), ("autoscaling", "v2")],
        plural: "horizontalpodautoscalers",
        stored: ("autoscaling", "v2"),
    },
];

/// Under which resource and in which version the objects of a built-in resource are stored.
pub fn storage_type(resource: &GroupResource) -> Option<(GroupResource, CompactString)> {
    let shared = SHARED.iter().find(|shared| {
        shared.plural == resource.resource && shared.served.iter().any(|(group, _)| *group == resource.group)
    });
    if let Some(Shared { stored: (group, version), .. }) = shared {
        return Some((GroupResource::new(*group, resource.resource.clone()), (*version).into()));
    }
    let row = types().iter().find(|row| row.plural == resource.resource && row.group == resource.group)?;
    Some((resource.clone(), row.version.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: &str, resource: &str, expected: Option<(&str, &str)>) {
        let found = storage_type(&GroupResource::new(group, resource));
        let found = found.as_ref().map(|(resource, version)| (resource.group.as_str(), version.as_str()));
        assert_eq!(found, expected);
    }

    #[test]
    fn shared_storage() {
        check("", "events", Some(("", "v1")));
        check("events.k8s.io", "events", Some(("", "v1")));
        check("autoscaling", "horizontalpodautoscalers", Some(("autoscaling", "v2")));
        check("apps", "deployments", Some(("apps", "v1")));
        check("apps", "events", None);
        check("example.com", "crontabs", None);
    }
}
