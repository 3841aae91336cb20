//! Groups, versions, kinds and resources.

use std::fmt;

use compact_str::CompactString;

/// `apps/v1`; the core group is the empty string, shown as `v1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersion {
    pub group: CompactString,
    pub version: CompactString,
}

impl GroupVersion {
    pub fn new(group: impl Into<CompactString>, version: impl Into<CompactString>) -> Self {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`. More than one slash is nobody's group and version.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None if api_version.is_empty() => None,
            None => Some(Self::new("", api_version)),
            Some((group, version)) if version.contains('/') || group.is_empty() || version.is_empty() => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }

    pub fn with_kind(&self, kind: impl Into<CompactString>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    pub fn with_resource(&self, resource: impl Into<CompactString>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            return f.write_str(&self.version);
        }
        write!(f, "{}/{}", self.group, self.version)
    }
}

/// A kind in a version of a group: what `apiVersion` and `kind` say together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersionKind {
    pub group: CompactString,
    pub version: CompactString,
    pub kind: CompactString,
}

impl GroupVersionKind {
    pub fn new(
        group: impl Into<CompactString>,
        version: impl Into<CompactString>,
        kind: impl Into<CompactString>,
    ) -> Self {
        GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

/// As Go prints it: `apps/v1, Kind=Deployment`.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A kind whatever its version: `Deployment.apps`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupKind {
    pub group: CompactString,
    pub kind: CompactString,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

/// A resource in a version of a group: what a path names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupVersionResource {
    pub group: CompactString,
    pub version: CompactString,
    pub resource: CompactString,
}

impl GroupVersionResource {
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

/// A resource whatever its version: `deployments.apps`. Also how a type is named in storage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupResource {
    pub group: CompactString,
    pub resource: CompactString,
}

impl GroupResource {
    pub fn new(group: impl Into<CompactString>, resource: impl Into<CompactString>) -> Self {
        GroupResource { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() {
        return f.write_str(name);
    }
    write!(f, "{name}.{group}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions() {
        for (text, shown) in [
            ("v1", Some("v1")),
            ("apps/v1", Some("apps/v1")),
            ("a.b/v1", Some("a.b/v1")),
            ("", None),
            ("/v1", None),
            ("apps/", None),
            ("a/b/c", None),
        ] {
            assert_eq!(
                GroupVersion::parse(text).map(|version| version.to_string()).as_deref(),
                shown,
                "{text:?}"
            );
        }
    }

    #[test]
    fn as_go_prints_them() {
        let deployment = GroupVersion::new("apps", "v1").with_kind("Deployment");
        assert_eq!(deployment.to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(deployment.group_kind().to_string(), "Deployment.apps");
        assert_eq!(GroupVersion::new("", "v1").with_kind("Pod").to_string(), "/v1, Kind=Pod");
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
    }
}
