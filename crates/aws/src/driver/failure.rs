//! What an error of a call means for the object.

use provision::{Class, Failure};

use crate::client::CallError;
use crate::kinds::KindFacts;

/// Codes of a name that is taken, beside those that say so in words.
const TAKEN: &[&str] = &["BucketAlreadyOwnedByYou", "ResourceExistsException", "InvalidGroup.Duplicate"];

/// Sorts an error by what is to be done about it. The rules have the first word.
pub(super) fn of(kind: &KindFacts, error: CallError) -> Failure {
    let told = |codes: &[String]| codes.contains(&error.code);
    let errors = &kind.rules.errors;
    let class = if kind.is_not_found(&error.code, &error.message) {
        Class::NotFound
    } else if error.throttled {
        Class::Throttled
    } else if told(&errors.retry) {
        Class::Recoverable
    } else if error.code.contains("AlreadyExist") || TAKEN.contains(&error.code.as_str()) {
        Class::Exists
    } else if told(&errors.terminal) || error.code == "InvalidInput" && error.http_status.is_none() {
        Class::Terminal
    } else if error.is_denied() {
        Class::Denied
    } else {
        Class::Recoverable
    };
    Failure { ambiguous: error.ambiguous, ..Failure::new(class, error.code, error.message) }
}
