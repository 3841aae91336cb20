//! Groups of the Kubernetes project itself are protected: a definition in one of them says who approved it.
//!
//! Mirrors `GetAPIApprovalState` of `apiextensions-apiserver/pkg/apihelpers`.

use objects::ErrorList;
use objects::field::{Error, Path};
use objects::meta;
use serde_json::Value;

use super::status::Condition;
use super::text;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const PROPOSAL: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Whether a group belongs to the Kubernetes project.
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    /// A link to the approval
    Approved,
    /// "unapproved", and why it is used all the same
    Bypassed,
    Missing,
    /// Something else
    Invalid,
}

fn approval(definition: &Value) -> Approval {
    match meta::annotation(definition, ANNOTATION).unwrap_or("") {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text => match text.split_once("://") {
            Some((scheme, rest)) if !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/') => {
                Approval::Approved
            }
            _ => Approval::Invalid,
        },
    }
}

fn reason(definition: &Value, approval: Approval) -> String {
    let given = meta::annotation(definition, ANNOTATION).unwrap_or("");
    match approval {
        Approval::Approved => format!("approved in {given}"),
        Approval::Bypassed => format!("not approved: {given:?}"),
        Approval::Missing => {
            format!("protected groups must have approval annotation {ANNOTATION:?}, {PROPOSAL}")
        }
        Approval::Invalid => format!(
            "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason \
             starting with \"unapproved\", {PROPOSAL}"
        ),
    }
}

/// An update that leaves the approval as it was is never refused for it.
pub(super) fn check(definition: &Value, old: Option<&Value>) -> ErrorList {
    let state = approval(definition);
    if !is_protected(text(definition.get("spec").unwrap_or(&Value::Null), "group"))
        || old.is_some_and(|old| approval(old) == state)
    {
        return ErrorList::new();
    }
    let path = Path::new("metadata").child("annotations").key(ANNOTATION);
    let reason = reason(definition, state);
    match state {
        Approval::Missing => vec![Error::required(&path, reason)],
        Approval::Invalid => {
            let given = meta::annotation(definition, ANNOTATION).unwrap_or("");
            vec![Error::invalid(&path, given, reason)]
        }
        Approval::Approved | Approval::Bypassed => ErrorList::new(),
    }
}

/// `KubernetesAPIApprovalPolicyConformant`, for protected groups only.
pub(super) fn condition(definition: &Value) -> Option<Condition> {
    if !is_protected(text(definition.get("spec").unwrap_or(&Value::Null), "group")) {
        return None;
    }
    let state = approval(definition);
    let (conforms, name) = match state {
        Approval::Approved => (true, "ApprovedAnnotation"),
        Approval::Bypassed => (false, "UnapprovedAnnotation"),
        Approval::Missing => (false, "MissingAnnotation"),
        Approval::Invalid => (false, "InvalidAnnotation"),
    };
    let message = reason(definition, state);
    Some(Condition::new("KubernetesAPIApprovalPolicyConformant", conforms, name, message))
}
