//! The journal: what is about to be made, written on the object itself before the call that makes it.
//!
//! It lies in an annotation, so that it is as durable as the object, works on any Kubernetes, and goes where the
//! object goes. It is written under an optimistic lock together with the finalizer, and taken away with or after
//! the write that records the identity of what was made. Whoever finds one open asks the driver what became of it
//! before anything is made again.

use jiff::Timestamp;
use objects::{Value, meta};
use serde::{Deserialize, Serialize};

/// Where an open intent stands.
pub const ANNOTATION: &str = "hangar.dev/intent";

/// The code of a failure that says that the outcome of an intent will never be known; see
/// [`crate::Recovery::Unknown`].
pub const UNKNOWN: &str = "UnknownOutcome";

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Making the resource of this object.
    Create,
    /// Replacing, the old one first: it is being deleted, and a new one is made when it is gone.
    ReplaceDelete,
    /// Replacing: the new one is being made.
    ReplaceCreate,
    /// Replacing, the new one first: it is there, and the old one (`deposed`) is being deleted.
    ReplaceCleanup,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    pub action: Action,
    /// Unique for one resource to be made, the same for all tries to make it: fit to be an idempotency token.
    pub token: String,
    /// Of the object it was written on. Found on another object, such as a copy, it means nothing.
    pub uid: String,
    pub generation: i64,
    /// When the last try began, or was given up without an answer: so long its fate is in doubt.
    pub at: Timestamp,
    /// How many tries began; more than one means that the fate of one was unknown.
    #[serde(default = "one")]
    pub tries: u32,
    /// When the call that made it was answered, if it could not be seen after that: it is waited for, not made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Timestamp>,
    /// What a replacement with the new one first leaves behind, as the driver says it (see
    /// [`crate::Driver::deposed`]). No secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<Value>,
}

fn one() -> u32 {
    1
}

impl Intent {
    pub fn new(action: Action, object: &Value, now: Timestamp) -> Intent {
        Intent {
            action,
            token: uuid::Uuid::new_v4().to_string(),
            uid: meta::uid(object).to_owned(),
            generation: meta::generation(object),
            at: now,
            tries: 1,
            made: None,
            deposed: None,
        }
    }

    /// The open intent of an object. What cannot be read was not written by us, or by a later version of us:
    /// then nothing may be made, and the error says what to do.
    pub fn of(object: &Value) -> Result<Option<Intent>, String> {
        let Some(text) = meta::annotation(object, ANNOTATION) else { return Ok(None) };
        let intent: Intent = serde_json::from_str(text).map_err(|error| {
            format!("annotation {ANNOTATION} cannot be read ({error}); remove it if nothing was made")
        })?;
        Ok(Some(intent).filter(|intent| intent.uid == meta::uid(object)))
    }

    pub fn to_annotation(&self) -> Value {
        // Texts and numbers always serialize.
        Value::String(serde_json::to_string(self).unwrap_or_default())
    }

    #[must_use]
    pub fn next_try(&self, now: Timestamp) -> Intent {
        Intent { tries: self.tries.saturating_add(1), at: now, ..self.clone() }
    }

    /// Given up: what was asked for may still come about.
    #[must_use]
    pub fn in_doubt(&self, now: Timestamp) -> Intent {
        Intent { at: now, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_intent_belongs_to_one_object() {
        let mut object = json!({"metadata": {"uid": "u", "generation": 3}});
        let intent = Intent::new(Action::Create, &object, Timestamp::UNIX_EPOCH);
        assert_eq!(Intent::of(&object), Ok(None));
        object["metadata"]["annotations"][ANNOTATION] = intent.to_annotation();
        assert_eq!(Intent::of(&object), Ok(Some(intent.clone())));
        object["metadata"]["uid"] = "copy".into();
        assert_eq!(Intent::of(&object), Ok(None));
        object["metadata"]["annotations"][ANNOTATION] = "{}".into();
        assert!(Intent::of(&object).is_err());
        let later = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(90);
        let again = intent.next_try(later);
        assert_eq!((again.tries, again.token, again.at), (2, intent.token.clone(), later));
        assert_eq!(intent.in_doubt(later), Intent { at: later, ..intent });
    }
}
