//! Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch.
//!
//! All take values and give values; nothing is changed when a patch is refused. Server-side apply is not a patch in
//! this sense: see the crate `apply`.

mod json;
mod merge;
mod strategic;

pub use json::json;
pub use merge::merge;
pub use strategic::{PatchSchema, strategic};

use crate::{Reason, Status};

/// Why a patch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is no patch of its type.
    #[error("{0}")]
    Malformed(String),
    #[error("The allowed maximum operations in a JSON patch is {max}, got {got}")]
    TooManyOperations { max: usize, got: usize },
    /// A `test` operation found something else.
    #[error("testing value {path} failed: test failed")]
    Test { path: String },
    /// A patch that is well-formed and does not fit the document.
    #[error("{0}")]
    DoesNotApply(String),
    #[error("Unable to copy, the accumulated size increase of copy is {got}, exceeding the limit {max}")]
    CopiesTooMuch { max: usize, got: usize },
}

impl PatchError {
    /// What the client is told, as upstream's patch handler does; the detail upstream keeps to itself is a cause.
    pub fn status(&self) -> Status {
        match self {
            PatchError::Malformed(text) => Status::bad_request(text.clone()),
            PatchError::TooManyOperations { .. } => {
                Status::new(Reason::RequestEntityTooLarge, format!("Request entity too large: {self}"))
            }
            PatchError::Test { .. } | PatchError::DoesNotApply(_) | PatchError::CopiesTooMuch { .. } => {
                let message = "the server rejected our request due to an error in our request";
                Status::new(Reason::Invalid, message).cause("", self.to_string(), "patch")
            }
        }
    }
}
