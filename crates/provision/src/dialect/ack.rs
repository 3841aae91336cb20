//! ACK's dialect: its annotations, its conditions, its `status.ackResourceMetadata`, its times of looking again.
//!
//! One difference on purpose: a condition keeps its transition time as long as its status stays, where upstream
//! writes it anew in every pass.

mod annotations;
mod conditions;
pub mod definitions;
pub mod exports;
pub mod gates;
pub mod place;
pub mod query;
pub mod selectors;
pub mod tags;

use std::time::Duration;

use jiff::Timestamp;
use objects::{Value, meta};
use serde_json::{Map, json};

pub use annotations::*;
pub use gates::Gates;

use super::{Dependable, Dialect, LateState, Look, ReferencesState, Report, Verdict};
use crate::driver::{Place, Record};
use crate::facts::Facts;
use crate::failure::{Class, Failure};
use crate::policies::{Adoption, DeletionPolicy, Policies};

/// A resource that is not as desired, without anything being wrong.
const UNSYNCED: Duration = Duration::from_secs(30);
const LATE: Duration = Duration::from_secs(5);
/// What is terminal is not looked at before somebody changes something; upstream never does, and users have to edit
/// the spec to get out of it.
const TERMINAL: Duration = Duration::from_secs(10 * 3_600);

/// The dialect of the kinds of all of AWS's services.
#[derive(Clone, Debug, Default)]
pub struct Ack {
    pub gates: Gates,
    /// Where neither the object nor its namespace says anything.
    pub deletion_policy: DeletionPolicy,
}

fn deletion_policy(annotation: &str, text: &str) -> Result<DeletionPolicy, Failure> {
    match text {
        "delete" => Ok(DeletionPolicy::Delete),
        "retain" => Ok(DeletionPolicy::Retain),
        other => Err(Failure::terminal(format!(
            "annotation {annotation} is {other:?}; it may be delete or retain"
        ))),
    }
}

impl Dialect for Ack {
    fn policies(
        &self,
        facts: &Facts,
        object: &Value,
        namespace: Option<&Value>,
    ) -> Result<Policies, Failure> {
        let get = |name| meta::annotation(object, name).filter(|text| !text.is_empty());
        let by_service = format!("{}.{DELETION_POLICY}", facts.service);
        let by_namespace = namespace.and_then(|namespace| meta::annotation(namespace, &by_service));
        let deletion = match (get(DELETION_POLICY), by_namespace) {
            (Some(text), _) => deletion_policy(DELETION_POLICY, text)?,
            (None, Some(text)) => deletion_policy(&by_service, text)?,
            (None, None) => self.deletion_policy,
        };
        let managed = meta::finalizers(object).any(|one| one == facts.finalizer);
        let adoption = match get(ADOPTION_POLICY).filter(|_| !managed && self.gates.resource_adoption) {
            None => None,
            Some("adopt") => Some(Adoption::Adopt),
            Some("adopt-or-create") => Some(Adoption::AdoptOrCreate),
            Some(other) => {
                let message =
                    format!("unrecognized adoption policy {other:?}; it may be adopt or adopt-or-create");
                return Err(Failure::terminal(message));
            }
        };
        let adoption_fields = match (adoption, get(ADOPTION_FIELDS)) {
            (None, _) | (Some(Adoption::AdoptOrCreate), None) => None,
            (Some(Adoption::Adopt), None) => {
                let message = format!("annotation {ADOPTION_FIELDS} is required when a resource is adopted");
                return Err(Failure::terminal(message));
            }
            (Some(_), Some(text)) => Some(serde_json::from_str(text).map_err(|error| {
                Failure::terminal(format!(
                    "annotation {ADOPTION_FIELDS} is not a JSON object of strings: {error}"
                ))
            })?),
        };
        Ok(Policies {
            read_only: get(READ_ONLY) == Some("true") && self.gates.read_only_resources,
            adoption,
            adopted: get(ADOPTED) == Some("true"),
            adoption_fields,
            deletion,
            ..Policies::default()
        })
    }

    fn dependable(&self, object: &Value) -> Dependable {
        let (kind, name) = (meta::kind(object), meta::name(object));
        match (
            conditions::status(object, conditions::TERMINAL),
            conditions::status(object, conditions::SYNCED),
        ) {
            (Some("True"), _) => Dependable::Never(format!("{kind} {name} is in a terminal condition")),
            (_, Some("True")) => Dependable::Yes,
            _ => Dependable::NotYet(format!("{kind} {name} is not synced yet")),
        }
    }

    fn adopted(&self, _: &Value) -> Value {
        json!({"metadata": {"annotations": {ADOPTED: "true"}}})
    }

    fn recorded(&self, object: &Value, record: &Record, place: Option<&Place>) -> Value {
        let mut status = record.merged_status(object);
        resource_metadata(&mut status, record.arn.as_deref(), place);
        status
    }

    fn status(&self, report: &Report<'_>, now: Timestamp) -> Value {
        let before = report.object.get("status").cloned().unwrap_or_else(|| json!({}));
        let mut status = match report.status {
            None => before.clone(),
            Some(found) => {
                let mut status = found.clone();
                if !status.is_object() {
                    status = Value::Object(Map::new());
                }
                if let Some(metadata) = before.get("ackResourceMetadata") {
                    status["ackResourceMetadata"] = metadata.clone();
                }
                status
            }
        };
        if !status.is_object() {
            status = json!({});
        }
        resource_metadata(&mut status, report.arn, report.place);
        let conditions = conditions::of(report);
        status["conditions"] = conditions::merged(before.get("conditions"), &conditions, now);
        status
    }

    fn look(&self, report: &Report<'_>) -> Look {
        match (report.verdict, report.references, report.late) {
            (Verdict::Paused, _, _) => Look::Never,
            (Verdict::Synced, _, Some(LateState::Delayed(_) | LateState::Failed(_))) => Look::After(LATE),
            (Verdict::Synced, _, _) => Look::Interval,
            (Verdict::NotSynced { after, .. }, _, _) => Look::After(after.unwrap_or(UNSYNCED)),
            (Verdict::Deleting { after, .. }, _, _) => Look::After(*after),
            (Verdict::Failed(_), ReferencesState::Waiting(_), _) => Look::Backoff,
            (Verdict::Failed(failure), _, _) => match failure.class {
                Class::Terminal | Class::Exists => Look::After(TERMINAL),
                Class::Waiting(after) => Look::After(after),
                _ => Look::Backoff,
            },
        }
    }
}

/// What upstream calls `ackResourceMetadata`, as far as it is known.
fn resource_metadata(status: &mut Value, arn: Option<&str>, place: Option<&Place>) {
    let mut put = |field: &str, value: &str| {
        if !value.is_empty() {
            status["ackResourceMetadata"][field] = value.into();
        }
    };
    put("arn", arn.unwrap_or(""));
    if let Some(place) = place {
        put("ownerAccountID", &place.account);
        put("region", &place.region);
        put("partition", &place.partition);
    }
}
