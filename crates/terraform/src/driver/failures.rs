//! What went wrong with a provider, in the engine's classes.

use std::time::Duration;

use provision::{Class, Failure};

use crate::diagnostic::{Diagnostic, Diagnostics, Path};
use crate::plugin::PluginError;
use crate::schema::Block;
use crate::shape::{self, FieldError};

/// Until there may be room for another process.
const ROOM: Duration = Duration::from_secs(10);
/// Until what a provider waits for may be there: it has no way to say that it is.
const DEFERRED: Duration = Duration::from_secs(30);
/// Words by which clouds say that these were too many calls; providers pass them on as text.
const THROTTLED: [&str; 5] = ["429", "Too Many Requests", "Throttl", "rate exceeded", "RequestLimitExceeded"];
const DENIED: [&str; 5] = ["401", "403", "AccessDenied", "Unauthorized", "Forbidden"];

/// `changing` says that the call may have been carried out although no answer came.
pub fn failure(error: PluginError, block: Option<&Block>, changing: bool) -> Failure {
    let message = error.to_string();
    let class = match &error {
        PluginError::Refused(diagnostics) => return refused(diagnostics, block, Class::Recoverable),
        PluginError::TooMany { .. } => Class::Waiting(ROOM),
        PluginError::Deferred { .. } => Class::Waiting(DEFERRED),
        PluginError::WrongArchitecture { .. } | PluginError::Protocol { .. } | PluginError::Value(_) => {
            Class::Terminal
        }
        PluginError::NoSuch { .. } | PluginError::Unsupported { .. } => Class::Terminal,
        _ => Class::Recoverable,
    };
    let lost = matches!(
        error,
        PluginError::TimedOut { .. }
            | PluginError::Died { .. }
            | PluginError::Nonsense { .. }
            | PluginError::TooLarge { .. }
            | PluginError::Failed { .. }
    );
    Failure { ambiguous: changing && lost, ..Failure::new(class, "Provider", message) }
}

/// Something of ours could not be written: the control plane says why.
pub fn unwritten(what: &str, error: kube::Error) -> Failure {
    Failure::recoverable(format!("{what}: {}", runtime::Error::from(error)))
}

/// Errors of a provider about what it was asked.
pub fn refused(diagnostics: &Diagnostics, block: Option<&Block>, otherwise: Class) -> Failure {
    refused_in("spec.resource", diagnostics, block, otherwise)
}

/// The same where what was asked stands somewhere else in the object.
pub fn refused_in(root: &str, diagnostics: &Diagnostics, block: Option<&Block>, otherwise: Class) -> Failure {
    let message = diagnostics.to_string();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let class = if says(&THROTTLED) {
        Class::Throttled
    } else if says(&DENIED) {
        Class::Denied
    } else {
        otherwise
    };
    let first = diagnostics.errors().next().filter(|error| !error.path.0.is_empty());
    let field = first.zip(block).map(|(error, block)| shape::field_path(root, block, &error.path));
    // The field says it better than the provider's own path.
    let message = match (&field, first) {
        (Some(_), Some(error)) if diagnostics.errors().count() == 1 => {
            let detail = error.detail.trim();
            if detail.is_empty() { error.summary.clone() } else { format!("{}: {detail}", error.summary) }
        }
        _ => message,
    };
    Failure { field, ..Failure::new(class, "Provider", message) }
}

/// A field of the object that the provider has not, or not in this form.
pub fn field(error: &FieldError) -> Failure {
    Failure::terminal(error.problem.clone()).at(format!("spec.resource.{}", error.path))
}

/// A warning, with the field of the object that it is about.
pub fn warning(warning: &Diagnostic, block: Option<&Block>) -> String {
    let field = block.filter(|_| !warning.path.0.is_empty());
    match field.map(|block| shape::field_path("spec.resource", block, &warning.path)) {
        Some(field) => format!("{field}: {}", Diagnostic { path: Path::default(), ..warning.clone() }),
        None => warning.to_string(),
    }
}

/// Values that must not be seen, taken out of a message.
pub fn redact(failure: Failure, secrets: &[String]) -> Failure {
    Failure { message: redacted(failure.message, secrets), ..failure }
}

/// The same of any text.
pub fn redacted(mut text: String, secrets: &[String]) -> String {
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), "(sensitive)");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_control_plane_says_is_told_in_its_words() {
        let status = kube::core::Status::failure("secrets \"a\" is forbidden: exceeded quota", "Forbidden");
        let failure = unwritten("the state cannot be kept", kube::Error::Api(Box::new(status)));
        let expected = "the state cannot be kept: secrets \"a\" is forbidden: exceeded quota";
        assert_eq!(failure.to_string(), expected);
    }
}
