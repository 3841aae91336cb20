//! How an object tells what is the case, as each ecosystem reads it: pure functions of the object and of what was
//! found, to what is to be written.
//!
//! A dialect makes no calls and has no clock. `ack` speaks ACK's; the one of Kubeform is with its driver.

pub mod ack;

use std::time::Duration;

use jiff::Timestamp;
use objects::Value;

use crate::driver::{Place, Record};
use crate::facts::Facts;
use crate::failure::Failure;
use crate::policies::Policies;

/// Whether others may take values from an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependable {
    Yes,
    NotYet(String),
    /// Not until somebody changes it.
    Never(String),
}

/// What is about to happen, told before it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    Creating,
    Updating,
    Replacing,
    Deleting,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The resource is as desired.
    Synced,
    /// Not as desired yet (or not to be made so), and nothing is wrong: settling, drifted, waiting for approval.
    NotSynced {
        message: String,
        after: Option<Duration>,
    },
    Failed(Failure),
    /// The resource goes; the object when it is gone.
    Deleting {
        message: String,
        after: Duration,
    },
    Paused,
}

/// Something a user should know that changes nothing; one for each reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advisory {
    pub reason: &'static str,
    pub message: String,
}

pub const NOT_CONVERGING: &str = "NotConverging";
pub const DRIFTED: &str = "DriftDetected";
pub const APPROVAL_REQUIRED: &str = "ApprovalRequired";
pub const NOT_WRITTEN: &str = "NotWritten";
pub const PAUSED: &str = "Paused";

/// How references were resolved in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReferencesState {
    /// The object has none.
    #[default]
    None,
    Resolved,
    /// Something is not there or not ready yet.
    Waiting(String),
    /// Resolved only after somebody changes something.
    Broken(String),
}

/// How late initialization went in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LateState {
    Complete,
    Delayed(Vec<String>),
    Failed(String),
}

/// Everything that was found in a pass.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    pub facts: &'a Facts,
    /// The object as it is stored now.
    pub object: &'a Value,
    pub verdict: &'a Verdict,
    /// The driver's whole status, if the resource was looked at and is there.
    pub status: Option<&'a Value>,
    pub arn: Option<&'a str>,
    pub place: Option<&'a Place>,
    pub references: &'a ReferencesState,
    /// None if the kind has no such fields or it did not come to it.
    pub late: Option<&'a LateState>,
    pub advisories: &'a [Advisory],
}

impl<'a> Report<'a> {
    /// Of what is no resource of a cloud itself: nothing is known but how it went.
    pub fn new(facts: &'a Facts, object: &'a Value, verdict: &'a Verdict) -> Report<'a> {
        Report {
            facts,
            object,
            verdict,
            status: None,
            arn: None,
            place: None,
            references: &ReferencesState::None,
            late: None,
            advisories: &[],
        }
    }
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// When something changes.
    Never,
    /// At the interval of a settled resource, with some of it left to chance.
    Interval,
    After(Duration),
    /// After a wait that grows from failure to failure.
    Backoff,
}

pub trait Dialect: Send + Sync + 'static {
    /// What is asked for by annotations (and the like) of the object and of its namespace.
    fn policies(&self, facts: &Facts, object: &Value, namespace: Option<&Value>)
    -> Result<Policies, Failure>;

    /// Whether the policies depend on the namespace: it is only read if they do.
    fn reads_namespace(&self) -> bool {
        true
    }

    fn dependable(&self, object: &Value) -> Dependable;

    /// Why an object must not be deleted, if that is refused when it is asked for.
    fn forbids_deletion(&self, object: &Value) -> Option<String> {
        let _ = object;
        None
    }

    /// What to say to an edit if it turns out that the resource would have to be replaced; none if that is no reason
    /// to refuse it.
    fn forbids_replacement(&self, old: &Value, new: &Value) -> Option<String> {
        let _ = (old, new);
        None
    }

    /// A merge patch of the object that takes note of an adoption, such as an annotation.
    fn adopted(&self, object: &Value) -> Value;

    /// The status before something happens that may take its time; none if it is not told.
    fn beginning(&self, object: &Value, beginning: Beginning, now: Timestamp) -> Option<Value> {
        let _ = (object, beginning, now);
        None
    }

    /// Whether what a record has for the spec names the resource, so that it must be written at once.
    fn identity_in_spec(&self) -> bool {
        false
    }

    /// What a creating or updating call wants recorded: the object's status with it. Told before the pass has a
    /// verdict, so conditions stay as they are.
    fn recorded(&self, object: &Value, record: &Record, place: Option<&Place>) -> Value {
        let _ = place;
        record.merged_status(object)
    }

    /// The whole status after a pass. Must be equal to the one before if nothing changed: times stay.
    fn status(&self, report: &Report<'_>, now: Timestamp) -> Value;

    /// When to look again after a pass.
    fn look(&self, report: &Report<'_>) -> Look;
}
