//! Roles, bindings and certificates: who may do what, and how they prove who they are.

use objects::Value;

use super::shown::duration;
use super::{AGE, Column, NAME, shown, text, text_or};
use crate::dotted::Dotted;

/// Role bindings and cluster role bindings alike.
pub(crate) static BINDING: [Column; 6] = [
    NAME,
    shown("Role", |o| format!("{}/{}", o.text("roleRef.kind"), o.text("roleRef.name"))),
    AGE,
    shown("Users", |o| subjects(o, "User")).wide(),
    shown("Groups", |o| subjects(o, "Group")).wide(),
    shown("ServiceAccounts", |o| subjects(o, "ServiceAccount")).wide(),
];

fn subjects(binding: &Value, kind: &str) -> String {
    let named = binding.list("subjects").iter().filter(|subject| subject.text("kind") == kind);
    let shown = named.map(|subject| match (kind, subject.text("namespace")) {
        ("ServiceAccount", namespace) if !namespace.is_empty() => {
            format!("{namespace}/{}", subject.text("name"))
        }
        _ => subject.text("name").to_owned(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

pub(crate) static CERTIFICATE_SIGNING_REQUEST: [Column; 6] = [
    NAME,
    AGE,
    text_or("SignerName", "spec.signerName", "<none>"),
    text("Requestor", "spec.username"),
    shown("RequestedDuration", |o| o.int("spec.expirationSeconds").map_or("<none>".to_owned(), duration)),
    shown("Condition", signing_state),
];

fn signing_state(request: &Value) -> String {
    let has =
        |kind: &str| request.list("status.conditions").iter().any(|condition| condition.text("type") == kind);
    let decided = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if request.text("status.certificate").is_empty() { "" } else { ",Issued" };
    format!("{decided}{failed}{issued}")
}
