//! What the engine has to know of a kind. Everything else about it is the driver's.

use std::sync::Arc;
use std::time::Duration;

use objects::CompactString;

use crate::dialect::Dialect;

/// A field that may name another object instead of giving a value: `kmsMasterKeyRef.from.name` instead of
/// `kmsMasterKeyID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where the value belongs, such as `spec.kmsMasterKeyID` or `spec.rules[].groupID`; `[]` is every element.
    pub field: String,
    /// Where the name stands: a sibling of `field`, such as `spec.kmsMasterKeyRef`. Holds `{from: {name, namespace}}`,
    /// or a list of such where `field` is a list.
    pub reference: String,
    /// The kind that is named, as it is stored: `keys.kms.services.k8s.aws`.
    pub kind: CompactString,
    /// The field of that object that has the value, such as `status.keyID`.
    pub target: String,
    /// One of the two must be given.
    pub required: bool,
    /// The value is taken as soon as it is there, ready or not: for kinds that refer to each other in circles.
    pub unready: bool,
    /// No creating call carries the value: the resource is made without it, and changed when it is there. An object that
    /// refers to itself, and objects that refer to each other, come to be so.
    pub later: bool,
}

/// A field that holds a reference to a key of a Secret, `{name, namespace, key}`, instead of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretField {
    /// Such as `spec.masterUserPassword` or `spec.users[].password`.
    pub field: String,
}

/// How a kind is treated by the engine.
#[derive(Clone)]
pub struct Facts {
    /// As it is stored and as the runtime calls it: plural and group, `buckets.s3.services.k8s.aws`.
    pub resource: CompactString,
    /// Such as `Bucket`.
    pub kind: CompactString,
    /// Such as `s3`: for limits, metrics, and policies that are given by service.
    pub service: CompactString,
    pub finalizer: String,
    pub references: Vec<Reference>,
    pub secrets: Vec<SecretField>,
    /// Fields that stand in the spec as they are, and that the cloud takes and never shows. Whether such a one changed is
    /// known as with those of Secrets, and like them it is told nowhere.
    pub hidden: Vec<String>,
    /// Changes that the plan still shows are made before the resource is deleted, such as taking away its deletion
    /// protection. Only changes of these fields; none by default.
    pub before_delete: Vec<String>,
    /// How often a settled resource is looked at; none for the engine's own setting.
    pub interval: Option<Duration>,
    /// How its objects tell what is the case.
    pub dialect: Arc<dyn Dialect>,
}

impl Facts {
    /// For a kind with nothing special about it.
    pub fn new(
        resource: impl Into<CompactString>,
        kind: impl Into<CompactString>,
        service: impl Into<CompactString>,
        finalizer: impl Into<String>,
        dialect: Arc<dyn Dialect>,
    ) -> Facts {
        Facts {
            resource: resource.into(),
            kind: kind.into(),
            service: service.into(),
            finalizer: finalizer.into(),
            references: Vec::new(),
            secrets: Vec::new(),
            hidden: Vec::new(),
            before_delete: Vec::new(),
            interval: None,
            dialect,
        }
    }

    /// The group of the kind: what follows the first dot.
    pub fn group(&self) -> &str {
        self.resource.split_once('.').map_or("", |(_, group)| group)
    }

    pub fn plural(&self) -> &str {
        self.resource.split_once('.').map_or(&self.resource, |(plural, _)| plural)
    }
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Facts({})", self.resource)
    }
}
