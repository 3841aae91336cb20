//! Why a request is not admitted.

use objects::status::Cause;
use objects::{GroupResource, Status};
use serde_json::Value;

/// A plugin's no. It becomes a 403 that names the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub causes: Vec<Cause>,
}

impl Refusal {
    pub fn new(message: impl Into<String>) -> Self {
        Refusal { message: message.into(), causes: Vec::new() }
    }

    /// Several complaints as one: a single one bare, several in brackets.
    pub(crate) fn all(mut messages: Vec<String>) -> Result<(), Refusal> {
        match messages.len() {
            0 => Ok(()),
            1 => Err(Refusal::new(messages.remove(0))),
            _ => {
                let mut seen = Vec::new();
                for message in messages {
                    if !seen.contains(&message) {
                        seen.push(message);
                    }
                }
                let text = if seen.len() == 1 { seen.remove(0) } else { format!("[{}]", seen.join(", ")) };
                Err(Refusal::new(text))
            }
        }
    }

    /// `pods "web-" is forbidden: ...`; an object that has no name yet is called by what it will begin with.
    pub fn into_status(self, resource: &GroupResource, object: &Value) -> Status {
        let names = [objects::meta::name(object), objects::meta::text(object, "generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let mut status = Status::forbidden(resource, name, self.message);
        status.causes = self.causes;
        status
    }
}
