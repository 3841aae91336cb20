//! A row of the table of types: one resource in one version, built in or defined at run time.

use compact_str::CompactString;

use crate::{GroupKind, GroupResource, GroupVersion, GroupVersionKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// What can be asked of a resource, in the words of authorization and discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Verb {
    Create = 1,
    Delete = 1 << 1,
    DeleteCollection = 1 << 2,
    Get = 1 << 3,
    List = 1 << 4,
    Patch = 1 << 5,
    Update = 1 << 6,
    Watch = 1 << 7,
}

impl Verb {
    /// In the alphabetical order in which discovery lists them.
    pub const ALL: [Verb; 8] = [
        Verb::Create,
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verbs(u16);

impl Verbs {
    pub const ALL: Verbs = Verbs(0xff);
    pub const NONE: Verbs = Verbs(0);

    pub const fn of(verbs: &[Verb]) -> Verbs {
        let mut bits = 0;
        let mut i = 0;
        while i < verbs.len() {
            bits |= verbs[i] as u16;
            i += 1;
        }
        Verbs(bits)
    }

    pub fn has(self, verb: Verb) -> bool {
        self.0 & verb as u16 != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.has(*verb))
    }
}

/// `status`, `scale`, `token`, ...: a part of a resource with a path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    pub name: CompactString,
    /// The kind its bodies have: usually the parent's, `autoscaling/v1 Scale` for scale.
    pub kind: GroupVersionKind,
    pub verbs: Verbs,
}

/// One resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    pub group: CompactString,
    pub version: CompactString,
    pub kind: CompactString,
    pub list_kind: CompactString,
    pub plural: CompactString,
    pub singular: CompactString,
    pub short_names: Vec<CompactString>,
    pub categories: Vec<CompactString>,
    pub scope: Scope,
    pub verbs: Verbs,
    pub subresources: Vec<Subresource>,
}

impl ResourceType {
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: self.kind.clone() }
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.plural.clone() }
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}
