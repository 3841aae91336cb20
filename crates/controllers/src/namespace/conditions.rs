//! The conditions of a namespace that is being deleted, in upstream's words.

use jiff::Timestamp;
use objects::Value;

use super::content::Content;
use crate::conditions::{Condition, set};

/// (type, reason and message when all is well)
const WELL: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// Brings the conditions up to date; returns whether any changed.
pub(super) fn update(namespace: &mut Value, content: &Content, now: Timestamp) -> bool {
    let mut changed = false;
    for (kind, reason, message) in WELL {
        let wrong = match kind {
            "NamespaceDeletionContentFailure" => content_failure(content),
            "NamespaceContentRemaining" => content_remaining(content),
            "NamespaceFinalizersRemaining" => finalizers_remaining(content),
            _ => None,
        };
        let holds = wrong.is_some();
        let (reason, message) = wrong.unwrap_or((reason, message.to_owned()));
        changed |= set(namespace, &Condition { kind, holds, reason: reason.to_owned(), message }, now);
    }
    changed
}

fn content_failure(content: &Content) -> Option<(&'static str, String)> {
    if content.failures.is_empty() {
        return None;
    }
    let (count, list) = (content.failures.len(), content.failures.join(", "));
    Some(("ContentDeletionFailed", format!("Failed to delete all resource types, {count} remaining: {list}")))
}

fn content_remaining(content: &Content) -> Option<(&'static str, String)> {
    let mut left: Vec<String> = content
        .remaining
        .iter()
        .map(|(resource, count)| format!("{resource} has {count} resource instances"))
        .collect();
    if left.is_empty() {
        return None;
    }
    left.sort();
    Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", left.join(", "))))
}

fn finalizers_remaining(content: &Content) -> Option<(&'static str, String)> {
    if content.finalizers.is_empty() {
        return None;
    }
    let left = content.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
    let left: Vec<String> = left.collect();
    Some((
        "SomeFinalizersRemain",
        format!("Some content in the namespace has finalizers remaining: {}", left.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(content: &Content, kind: &str, status: &str, reason: &str, message: &str) {
        let mut namespace = json!({});
        assert!(update(&mut namespace, content, Timestamp::UNIX_EPOCH));
        assert!(!update(&mut namespace, content, Timestamp::UNIX_EPOCH));
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 5);
        let found = conditions.iter().find(|one| one["type"] == kind).unwrap();
        assert_eq!([&found["status"], &found["reason"], &found["message"]], [status, reason, message]);
    }

    #[test]
    fn words() {
        let mut content = Content::default();
        let (remaining, finalizers) = ("NamespaceContentRemaining", "NamespaceFinalizersRemaining");
        check(&content, remaining, "False", "ContentRemoved", "All content successfully removed");
        content.remaining = vec![("pods.".into(), 2), ("jobs.batch".into(), 1)];
        content.finalizers = [("a.io/x".to_owned(), 3)].into();
        content.failures = vec!["no".to_owned()];
        let message = "Some resources are remaining: jobs.batch has 1 resource instances, pods. has 2 resource instances";
        check(&content, remaining, "True", "SomeResourcesRemain", message);
        let message =
            "Some content in the namespace has finalizers remaining: a.io/x in 3 resource instances";
        check(&content, finalizers, "True", "SomeFinalizersRemain", message);
        let message = "Failed to delete all resource types, 1 remaining: no";
        check(&content, "NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", message);
    }
}
