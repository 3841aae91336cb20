//! What can go wrong with a cloud, sorted by what is to be done about it.

use std::fmt;
use std::time::Duration;

use objects::CompactString;

/// What a failure asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Trying again does not help until somebody changes something.
    Terminal,
    /// It may work the next time: after a wait that grows.
    Recoverable,
    /// Too many calls. The shared limit of the account slows down for all.
    Throttled,
    /// Credentials are wrong, expired, or have too few rights.
    Denied,
    /// What was asked about is not there.
    NotFound,
    /// What was to be made is there already, made by somebody else or by an earlier try.
    Exists,
    /// Nothing is wrong; something else has to happen first.
    Waiting(Duration),
}

/// Why a call, or the way to it, failed. The message goes into conditions and events: it must hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: Class,
    /// As the cloud calls it, such as `InvalidParameterValue`; may be empty.
    pub code: CompactString,
    /// One plain sentence that a user can act on.
    pub message: String,
    /// The call may have been carried out although it failed: no answer came, or half of one. An intent stays open
    /// after such a failure, and is closed after any other.
    pub ambiguous: bool,
    /// The field of the object that is to blame, such as `spec.policy`.
    pub field: Option<String>,
}

impl Failure {
    pub fn new(class: Class, code: impl Into<CompactString>, message: impl Into<String>) -> Failure {
        Failure { class, code: code.into(), message: message.into(), ambiguous: false, field: None }
    }

    pub fn terminal(message: impl Into<String>) -> Failure {
        Failure::new(Class::Terminal, "", message)
    }

    pub fn recoverable(message: impl Into<String>) -> Failure {
        Failure::new(Class::Recoverable, "", message)
    }

    pub fn waiting(after: Duration, message: impl Into<String>) -> Failure {
        Failure::new(Class::Waiting(after), "", message)
    }

    /// No answer: nobody knows whether the call was carried out.
    pub fn lost(message: impl Into<String>) -> Failure {
        Failure { ambiguous: true, ..Failure::recoverable(message) }
    }

    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Failure {
        self.field = Some(field.into());
        self
    }

    pub fn is_not_found(&self) -> bool {
        self.class == Class::NotFound
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.code.is_empty() {
            write!(f, "{}: ", self.code)?;
        }
        f.write_str(&self.message)?;
        if let Some(field) = &self.field {
            write!(f, " ({field})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// The control plane itself could not be asked or written to.
impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Failure {
        Failure::new(Class::Recoverable, "ControlPlane", error.to_string())
    }
}
