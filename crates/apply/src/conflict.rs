//! Conflicts, and every other reason for which an apply fails.

use objects::{Reason, Status};

use crate::element::PathElement;
use crate::entries::{Entry, EntryError, Operation};
use crate::set::shown_path;
use crate::validate::{TypeError, joined};
use crate::values::quoted;
use crate::versions::ConversionError;

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as it is shown: `"kubectl" with subresource "status" using apps/v1`.
    pub owner: String,
    pub path: Vec<PathElement>,
}

impl Conflict {
    pub(crate) fn with(owner: &Entry, path: Vec<PathElement>) -> Self {
        let mut shown = quoted(&owner.manager);
        if !owner.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {}", quoted(&owner.subresource)));
        }
        if owner.operation == Operation::Update {
            shown.push_str(&format!(" using {}", owner.api_version));
        }
        Conflict { owner: shown, path }
    }
}

/// Why an apply failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("invalid object type: {0}")]
    WrongType(String),
    #[error("metadata.managedFields must be nil")]
    OwnersGiven,
    #[error("failed to create typed patch object ({object}): {}", joined(.errors))]
    Untyped { object: String, errors: Vec<TypeError> },
    #[error("failed to decode managed fields: {0}")]
    Owners(#[from] EntryError),
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    #[error("no corresponding type for {0}")]
    NoVersion(String),
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Status {
        let message = error.to_string();
        match error {
            ApplyError::WrongType(_) | ApplyError::OwnersGiven => Status::bad_request(message),
            ApplyError::Conflicts(conflicts) => {
                conflicts.iter().fold(Status::new(Reason::Conflict, message), |status, conflict| {
                    let text = format!("conflict with {}", conflict.owner);
                    status.cause("FieldManagerConflict", text, shown_path(&conflict.path))
                })
            }
            // Upstream gives these no reason, and with it the code 500; clients show the message.
            ApplyError::Untyped { .. }
            | ApplyError::Owners(_)
            | ApplyError::Conversion(_)
            | ApplyError::NoVersion(_) => Status::new(Reason::Unknown, message),
        }
    }
}

/// The conflicts come grouped by owner.
fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.owner,
            shown_path(&one.path)
        );
    }
    let groups = conflicts.chunk_by(|a, b| a.owner == b.owner).map(|group| {
        let owner = group.first().map(|conflict| conflict.owner.as_str()).unwrap_or_default();
        let paths = group.iter().map(|conflict| format!("\n- {}", shown_path(&conflict.path)));
        format!("conflicts with {owner}:{}", paths.collect::<String>())
    });
    let groups: Vec<String> = groups.collect();
    format!("Apply failed with {} conflicts: {}", conflicts.len(), groups.join("\n"))
}
