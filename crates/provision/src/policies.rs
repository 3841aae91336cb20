//! What users may ask of the engine for one object, whatever its driver: annotations under `hangar.dev`.

use std::collections::BTreeMap;
use std::time::Duration;

use objects::{Value, meta};

use crate::failure::Failure;
use crate::plan::drift::DriftPolicy;

/// `"true"`: nothing is done with the object until it is taken away, not even its deletion.
pub const PAUSED: &str = "hangar.dev/paused";
/// Any value; a new one has the object looked at now.
pub const RECONCILE: &str = "hangar.dev/reconcile";
/// `correct`, `report` or `ignore`.
pub const DRIFT_POLICY: &str = "hangar.dev/drift-policy";
/// How often a settled resource is looked at, such as `5m`.
pub const DRIFT_INTERVAL: &str = "hangar.dev/drift-interval";
/// `required`: a plan is only carried out once its fingerprint stands in [`APPROVED`].
pub const APPROVAL: &str = "hangar.dev/approval";
pub const APPROVED: &str = "hangar.dev/approved-plan";
/// `refuse`, `delete-first` or `create-first`.
pub const REPLACE_POLICY: &str = "hangar.dev/replace-policy";
/// `any`: deleted although other objects still refer to it.
pub const DELETION_ORDER: &str = "hangar.dev/deletion-order";
/// Written by the engine: what was last made so.
pub const APPLIED: &str = "hangar.dev/applied";

/// Looked at more often than this, a resource costs more than it is worth.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

/// What happens to the resource when the object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    #[default]
    Delete,
    /// It stays, and nobody looks after it.
    Retain,
}

/// Whether a resource that is there already may be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It has to be there; the object becomes like it.
    Adopt,
    /// It is taken over if it is there, made if not, and becomes like the object.
    AdoptOrCreate,
}

/// What happens when a change cannot be made in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplacePolicy {
    #[default]
    Refuse,
    DeleteFirst,
    CreateFirst,
}

/// What a dialect reads from an object and its namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// Only looked at, never changed, and left alone when the object goes.
    pub read_only: bool,
    pub adoption: Option<Adoption>,
    /// Was taken over once: it is not made again if it is gone.
    pub adopted: bool,
    /// By which a resource to be adopted is found; none if nothing was given.
    pub adoption_fields: Option<BTreeMap<String, String>>,
    pub deletion: DeletionPolicy,
    pub replace: ReplacePolicy,
}

/// What is asked for under `hangar.dev`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controls {
    pub paused: bool,
    pub drift: DriftPolicy,
    pub interval: Option<Duration>,
    pub approval: bool,
    pub approved: Option<String>,
    /// None: as the dialect says.
    pub replace: Option<ReplacePolicy>,
    /// Goes without waiting for those that refer to it.
    pub any_order: bool,
}

fn unknown(annotation: &str, value: &str, known: &str) -> Failure {
    Failure::terminal(format!("annotation {annotation} is {value:?}; it may be {known}"))
}

impl Controls {
    pub fn of(object: &Value) -> Result<Controls, Failure> {
        let get = |name| meta::annotation(object, name);
        let drift = match get(DRIFT_POLICY) {
            None | Some("" | "correct") => DriftPolicy::Correct,
            Some("report") => DriftPolicy::Report,
            Some("ignore") => DriftPolicy::Ignore,
            Some(other) => return Err(unknown(DRIFT_POLICY, other, "correct, report or ignore")),
        };
        let interval = match get(DRIFT_INTERVAL) {
            None | Some("") => None,
            Some(text) => match duration(text) {
                Some(interval) => Some(interval.max(SHORTEST_INTERVAL)),
                None => return Err(unknown(DRIFT_INTERVAL, text, "a time such as 90s, 5m or 1h30m")),
            },
        };
        let approval = match get(APPROVAL) {
            None | Some("") => false,
            Some("required") => true,
            Some(other) => return Err(unknown(APPROVAL, other, "required")),
        };
        let replace = match get(REPLACE_POLICY) {
            None | Some("") => None,
            Some("refuse") => Some(ReplacePolicy::Refuse),
            Some("delete-first") => Some(ReplacePolicy::DeleteFirst),
            Some("create-first") => Some(ReplacePolicy::CreateFirst),
            Some(other) => {
                return Err(unknown(REPLACE_POLICY, other, "refuse, delete-first or create-first"));
            }
        };
        Ok(Controls {
            paused: get(PAUSED) == Some("true"),
            drift,
            interval,
            approval,
            approved: get(APPROVED).map(str::to_owned),
            replace,
            any_order: get(DELETION_ORDER) == Some("any"),
        })
    }
}

/// `5m`, `1h30m`, as Go writes them.
fn duration(text: &str) -> Option<Duration> {
    let span: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(span).ok().filter(|span| !span.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn controls(name: &str, value: &str) -> Result<Controls, Failure> {
        Controls::of(&json!({"metadata": {"annotations": {name: value}}}))
    }

    #[test]
    fn what_is_asked_for() {
        assert_eq!(Controls::of(&json!({})).unwrap(), Controls::default());
        assert!(controls(PAUSED, "true").unwrap().paused && !controls(PAUSED, "no").unwrap().paused);
        assert_eq!(controls(DRIFT_POLICY, "report").unwrap().drift, DriftPolicy::Report);
        for (text, seconds) in [("5m", 300), ("1h30m", 5_400), ("90s", 90), ("1s", 10)] {
            let interval = controls(DRIFT_INTERVAL, text).unwrap().interval;
            assert_eq!(interval, Some(Duration::from_secs(seconds)), "{text}");
        }
        for (name, value) in [
            (DRIFT_POLICY, "sometimes"),
            (DRIFT_INTERVAL, "often"),
            (DRIFT_INTERVAL, "-5m"),
            (APPROVAL, "yes"),
        ] {
            assert!(
                controls(name, value).is_err_and(|failure| failure.message.contains(name)),
                "{name}: {value}"
            );
        }
    }
}
