//! Kubeform's dialect: phases, and the policies in the spec; with a `Ready` condition that Kubeform lacks.
//!
//! Conditions are `Reconciling` during work, `Stalled` after a failure, and `Ready` always. Kubeform empties the list
//! on success; here `Ready` stays. The phases are Kubeform's.

use std::time::Duration;

use jiff::Timestamp;
use objects::{Value, meta};
use provision::dialect::{Beginning, Dependable, Look, Report, Verdict};
use provision::policies::{APPLIED, Adoption, DeletionPolicy, Policies, ReplacePolicy};
use provision::{Class, Dialect, Facts, Failure};
use serde_json::json;

/// The id of a resource that is there already and is to be taken over.
pub const IMPORT_ID: &str = "hangar.dev/import-id";
/// The same by identity: a JSON object, for providers that know identities.
pub const IMPORT_IDENTITY: &str = "hangar.dev/import-identity";
/// A Secret with an instance of a state file under `instance`: what is to be taken over, as Terraform left it.
pub const IMPORT_STATE: &str = "hangar.dev/import-state";
/// The name of a Secret that is to hold the resource as Terraform would have it: `main.tf` and `terraform.tfstate`.
pub const EXPORT_STATE: &str = "hangar.dev/export-state";
/// `delete` or `retain`: what becomes of the resource when its object is deleted.
pub const DELETION_POLICY: &str = "hangar.dev/deletion-policy";
/// Attributes of a resource that is there whose changes are not made: a JSON list of names, or of lists of names, keys
/// and indexes that lead to one; an empty list in it means all.
pub const IGNORE_CHANGES: &str = "hangar.dev/ignore-changes";
/// Written when a resource was taken over.
const ADOPTED: &str = "hangar.dev/adopted";
/// `"true"`: the resource is only looked at.
pub const OBSERVE_ONLY: &str = "hangar.dev/observe-only";

/// What is not as desired, without anything being wrong, is looked at again after this time.
const UNSYNCED: Duration = Duration::from_secs(30);
/// What nothing but an edit can help is still looked at now and then: causes go away by themselves, too.
const TERMINAL: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, Default)]
pub struct Kubeform;

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// As Kubeform's messages begin: `instance "default/one"`.
fn named(object: &Value) -> String {
    let (kind, namespace, name) = (meta::kind(object), meta::namespace(object), meta::name(object));
    format!("{} {:?}", kind.to_lowercase(), format!("{namespace}/{name}"))
}

/// Whether a resource is to be taken over that the object names.
pub(crate) fn imports(object: &Value) -> bool {
    annotated(object) || !text(object, "/spec/resource/id").is_empty()
}

fn annotated(object: &Value) -> bool {
    let names = [IMPORT_ID, IMPORT_IDENTITY, IMPORT_STATE];
    names.iter().any(|name| meta::annotation(object, name).is_some())
}

/// Whether the resource that the object names has yet to be taken over.
pub(crate) fn is_taking_over(facts: &Facts, object: &Value) -> bool {
    !meta::finalizers(object).any(|one| one == facts.finalizer) && imports(object)
}

/// Whether it is of others' making what the object names, and was never yet as the object says.
fn is_unproven(facts: &Facts, object: &Value) -> bool {
    let taken = meta::annotation(object, ADOPTED).is_some() || annotated(object);
    (taken || is_taking_over(facts, object)) && meta::annotation(object, APPLIED).is_none()
}

/// Whether what is taken over is as it should be: nothing else is wished, or it comes as Terraform left it.
pub(crate) fn is_blank(object: &Value) -> bool {
    if meta::annotation(object, IMPORT_STATE).is_some() {
        return true;
    }
    let wishes = object.pointer("/spec/resource").and_then(Value::as_object);
    wishes.is_none_or(|wishes| wishes.keys().all(|field| field == "id"))
}

impl Dialect for Kubeform {
    fn policies(&self, facts: &Facts, object: &Value, _: Option<&Value>) -> Result<Policies, Failure> {
        let deletion = match meta::annotation(object, DELETION_POLICY) {
            None | Some("" | "delete") => DeletionPolicy::Delete,
            Some("retain" | "orphan") => DeletionPolicy::Retain,
            Some(other) => {
                let message =
                    format!("annotation {DELETION_POLICY} is {other:?}; it may be delete or retain");
                return Err(Failure::terminal(message));
            }
        };
        let replace = match text(object, "/spec/updatePolicy") {
            "DoNotDestroy" => ReplacePolicy::Refuse,
            // A slip in what is wished must not cost what others made; who means it says so.
            _ if is_unproven(facts, object) => ReplacePolicy::Refuse,
            _ => ReplacePolicy::DeleteFirst,
        };
        Ok(Policies {
            read_only: meta::annotation(object, OBSERVE_ONLY) == Some("true"),
            // Not found is the provider's to say, and an error: nothing is made in its place.
            adoption: is_taking_over(facts, object).then(|| match is_blank(object) {
                true => Adoption::Adopt,
                false => Adoption::AdoptOrCreate,
            }),
            deletion,
            replace,
            ..Policies::default()
        })
    }

    fn reads_namespace(&self) -> bool {
        false
    }

    fn dependable(&self, object: &Value) -> Dependable {
        let (kind, name) = (meta::kind(object), meta::name(object));
        match text(object, "/status/phase") {
            "Current" => Dependable::Yes,
            "Failed" => Dependable::NotYet(format!("{kind} {name} has failed")),
            _ => Dependable::NotYet(format!("{kind} {name} is not there yet")),
        }
    }

    fn forbids_deletion(&self, object: &Value) -> Option<String> {
        (text(object, "/spec/terminationPolicy") == "DoNotTerminate").then(|| {
            let what = named(object);
            format!("{what} can't be terminated. To delete, change spec.terminationPolicy to Delete")
        })
    }

    fn forbids_replacement(&self, old: &Value, new: &Value) -> Option<String> {
        // Before it is there, everything can be changed.
        let made = !text(old, "/spec/resource/id").is_empty();
        let edited = old.pointer("/spec/resource") != new.pointer("/spec/resource");
        (made && edited && text(new, "/spec/updatePolicy") == "DoNotDestroy").then(|| {
            let what = named(new);
            format!("{what} immutable field can't be updated. To update, change spec.updatePolicy to Destroy")
        })
    }

    fn adopted(&self, _: &Value) -> Value {
        json!({"metadata": {"annotations": {ADOPTED: "true"}}})
    }

    fn beginning(&self, object: &Value, beginning: Beginning, now: Timestamp) -> Option<Value> {
        let (phase, what) = match beginning {
            Beginning::Creating => ("InProgress", "The resource is being created"),
            Beginning::Updating => ("InProgress", "The resource is being updated"),
            Beginning::Replacing => ("Terminating", "The resource is being replaced"),
            Beginning::Deleting => ("Terminating", "The resource is being deleted"),
        };
        let ready = Condition { kind: "Ready", status: "False", reason: "InProgress", message: what.into() };
        let reconciling =
            Condition { kind: "Reconciling", status: "True", reason: "InProgress", message: what.into() };
        Some(status(object, Some(phase), &[reconciling, ready], false, now))
    }

    fn identity_in_spec(&self) -> bool {
        true
    }

    fn status(&self, report: &Report<'_>, now: Timestamp) -> Value {
        let object = report.object;
        let ready = |status, reason, message: String| Condition { kind: "Ready", status, reason, message };
        let mut conditions = Vec::new();
        let mut settled = false;
        let phase = match report.verdict {
            Verdict::Paused => None,
            Verdict::Synced => {
                settled = true;
                conditions.push(ready("True", "Current", "The resource is as desired".into()));
                Some("Current")
            }
            Verdict::NotSynced { message, .. } => {
                conditions.push(ready("False", "NotSynced", message.clone()));
                Some(if meta::is_deleting(object) { "Terminating" } else { "InProgress" })
            }
            Verdict::Deleting { message, .. } => {
                conditions.push(ready("False", "Terminating", message.clone()));
                Some("Terminating")
            }
            Verdict::Failed(failure) => {
                let message = failure.to_string();
                let reason = reason(failure.class);
                // What only waits for something else goes on by itself, and nobody needs to look.
                let (kind, phase) = match failure.class {
                    Class::Waiting(_) if meta::is_deleting(object) => ("Reconciling", "Terminating"),
                    Class::Waiting(_) => ("Reconciling", "InProgress"),
                    _ => ("Stalled", "Failed"),
                };
                conditions.push(Condition { kind, status: "True", reason, message: message.clone() });
                conditions.push(ready("False", reason, message));
                Some(phase)
            }
        };
        if *report.verdict == Verdict::Paused {
            // What was the case stays; that it is paused stands beside it.
            let before = object.pointer("/status/conditions").and_then(Value::as_array);
            let kept = before.into_iter().flatten().filter(|one| one["type"] != "Paused");
            let mut status = object.get("status").cloned().unwrap_or_else(|| json!({}));
            let mut all: Vec<Value> = kept.cloned().collect();
            let message = "Nothing is done until the annotation hangar.dev/paused is taken away";
            let paused =
                Condition { kind: "Paused", status: "True", reason: "Paused", message: message.into() };
            all.push(paused.merged(object, now));
            status["conditions"] = all.into();
            return status;
        }
        conditions.extend(report.advisories.iter().map(|advisory| Condition {
            kind: "Advisory",
            status: "True",
            reason: advisory.reason,
            message: advisory.message.clone(),
        }));
        status(object, phase, &conditions, settled, now)
    }

    fn look(&self, report: &Report<'_>) -> Look {
        match report.verdict {
            Verdict::Paused => Look::Never,
            Verdict::Synced => Look::Interval,
            Verdict::NotSynced { after, .. } => Look::After(after.unwrap_or(UNSYNCED)),
            Verdict::Deleting { after, .. } => Look::After(*after),
            Verdict::Failed(failure) => match failure.class {
                Class::Terminal | Class::Exists => Look::After(TERMINAL),
                Class::Waiting(after) => Look::After(after),
                _ => Look::Backoff,
            },
        }
    }
}

fn reason(class: Class) -> &'static str {
    match class {
        Class::Terminal => "Terminal",
        Class::Recoverable => "Recoverable",
        Class::Throttled => "Throttled",
        Class::Denied => "Denied",
        Class::NotFound => "NotFound",
        Class::Exists => "Exists",
        Class::Waiting(_) => "Waiting",
    }
}

pub(crate) struct Condition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    /// With the time of the last change of its status: one that stays keeps its time.
    fn merged(&self, object: &Value, now: Timestamp) -> Value {
        let before = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let same = before.filter(|one| one["type"] == self.kind).find(|one| one["status"] == self.status);
        let time = same.and_then(|one| one["lastTransitionTime"].as_str()).map(str::to_owned);
        let time = time.unwrap_or_else(|| objects::time::format(now));
        json!({
            "type": self.kind, "status": self.status, "reason": self.reason, "message": self.message,
            "lastTransitionTime": time, "observedGeneration": meta::generation(object),
        })
    }
}

pub(crate) fn status(
    object: &Value,
    phase: Option<&str>,
    conditions: &[Condition],
    settled: bool,
    now: Timestamp,
) -> Value {
    let mut status =
        object.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    if settled {
        status["observedGeneration"] = meta::generation(object).into();
    }
    status["conditions"] = conditions.iter().map(|condition| condition.merged(object, now)).collect();
    status
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn facts() -> Facts {
        Facts::new(
            "things.shelf.kubeform.com",
            "Thing",
            "shelf",
            "shelf.kubeform.com/finalizer",
            Arc::new(Kubeform),
        )
    }

    #[test]
    fn policies() {
        let check = |object: Value, expected: Policies| {
            assert_eq!(Kubeform.policies(&facts(), &object, None).unwrap(), expected, "{object}");
        };
        let plain = Policies { replace: ReplacePolicy::DeleteFirst, ..Policies::default() };
        check(json!({}), plain.clone());
        check(
            json!({"spec": {"updatePolicy": "DoNotDestroy"}}),
            Policies { replace: ReplacePolicy::Refuse, ..plain.clone() },
        );
        // What others made is not replaced before it was once as the object says.
        let theirs = Policies { replace: ReplacePolicy::Refuse, ..plain.clone() };
        let adopts = Policies { adoption: Some(Adoption::AdoptOrCreate), ..theirs.clone() };
        check(json!({"spec": {"resource": {"id": "x", "size": 1}}}), adopts.clone());
        let annotations = json!({"annotations": {IMPORT_ID: "x"}});
        check(json!({"metadata": annotations, "spec": {"resource": {"size": 1}}}), adopts);
        // Without a wish, what is there is as it should be.
        let as_it_is = Policies { adoption: Some(Adoption::Adopt), ..theirs.clone() };
        check(json!({"metadata": annotations}), as_it_is.clone());
        check(json!({"spec": {"resource": {"id": "x"}}}), as_it_is);
        // What Kubeform made is ours already.
        let finalizers = json!(["shelf.kubeform.com/finalizer"]);
        check(
            json!({"metadata": {"finalizers": finalizers}, "spec": {"resource": {"id": "x"}}}),
            plain.clone(),
        );
        let taken = json!({"finalizers": finalizers, "annotations": {ADOPTED: "true"}});
        check(json!({"metadata": taken, "spec": {"resource": {"id": "x"}}}), theirs);
        let settled = json!({"finalizers": finalizers, "annotations": {ADOPTED: "true", APPLIED: "{}"}});
        check(json!({"metadata": settled, "spec": {"resource": {"id": "x"}}}), plain.clone());
        let retain = json!({"metadata": {"annotations": {DELETION_POLICY: "retain"}}});
        check(retain, Policies { deletion: DeletionPolicy::Retain, ..plain });
        let wrong = json!({"metadata": {"annotations": {DELETION_POLICY: "keep"}}});
        assert!(Kubeform.policies(&facts(), &wrong, None).is_err());
    }
}
