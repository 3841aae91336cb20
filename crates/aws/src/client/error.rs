//! Why a call failed, and what follows from it.

use std::time::{Duration, SystemTime};

use super::HttpError;
use crate::credentials::CredentialsError;
use crate::model::Operation;
use crate::protocol::{DecodeError, Refusal, Response};
use crate::value::Value;

/// A call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {message}")]
pub struct CallError {
    /// AWS's code, or one of ours where AWS was not reached: `UnknownOperation`, `InvalidInput`,
    /// `InvalidEndpoint`, `SigningFailed`, `CredentialsUnavailable`, `NoResponse`, `UnreadableResponse`.
    pub code: String,
    /// One sentence without secrets. No request id: it would differ every time.
    pub message: String,
    pub http_status: Option<u16>,
    pub request_id: Option<String>,
    /// Members of the error by the model.
    pub members: Value,
    /// It may work later without anybody changing anything.
    pub retryable: bool,
    /// Too many calls.
    pub throttled: bool,
    /// The call may have been carried out: it was sent, and no clear answer came.
    pub ambiguous: bool,
    /// How long the service asks to wait.
    pub retry_after: Option<Duration>,
    pub(super) date: Option<SystemTime>,
}

/// Codes that mean "slower", as AWS's own clients know them.
const THROTTLING: &[&str] = &[
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException.Throttling",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "TooManyRequestsException",
    "TransactionInProgressException",
];

/// Codes that mean "again".
const TRANSIENT: &[&str] = &[
    "IDPCommunicationError",
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "InternalServiceError",
    "InternalServerException",
    "InternalServiceException",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "Unavailable",
];

/// Codes that a wrong clock brings.
const CLOCK: &[&str] = &[
    "AuthFailure",
    "InvalidSignatureException",
    "RequestExpired",
    "RequestInTheFuture",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// Codes of credentials that are wrong or have too few rights.
const DENIED: &[&str] = &[
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "AuthorizationError",
    "CredentialsUnavailable",
    "ExpiredToken",
    "ExpiredTokenException",
    "Forbidden",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
];

/// First words of operations that change nothing.
const READS: &[&str] = &["Describe", "Get", "List", "Head", "BatchGet", "Search", "Lookup"];

impl CallError {
    fn new(code: &str, message: String) -> CallError {
        CallError {
            code: code.to_owned(),
            message,
            http_status: None,
            request_id: None,
            members: Value::Null,
            retryable: false,
            throttled: false,
            ambiguous: false,
            retry_after: None,
            date: None,
        }
    }

    /// Nothing was sent.
    pub(crate) fn local(code: &str, message: String) -> CallError {
        CallError::new(code, message)
    }

    pub(super) fn credentials(error: CredentialsError) -> CallError {
        CallError { retryable: true, ..CallError::new("CredentialsUnavailable", error.to_string()) }
    }

    pub(super) fn transport(operation: &str, error: &HttpError) -> CallError {
        // One code, whether there was a connection or not: a tenant may have chosen the address.
        let message = format!("{operation}: {error}");
        CallError { retryable: true, ambiguous: error.was_sent(), ..CallError::new("NoResponse", message) }
    }

    pub(super) fn unreadable(error: DecodeError, status: u16) -> CallError {
        CallError {
            http_status: Some(status),
            retryable: true,
            ambiguous: true,
            ..CallError::new("UnreadableResponse", error.to_string())
        }
    }

    pub(super) fn refused(refusal: Refusal, response: &Response, date: Option<SystemTime>) -> CallError {
        let code = refusal.code.as_str();
        let throttled = refusal.throttling || refusal.status == 429 || THROTTLING.contains(&code);
        let transient = refusal.status >= 500 || TRANSIENT.contains(&code);
        let seconds = response.header("retry-after").and_then(|text| text.trim().parse().ok());
        CallError {
            http_status: Some(refusal.status),
            request_id: refusal.request_id.clone(),
            members: refusal.members,
            retryable: throttled || transient || refusal.retryable,
            throttled,
            // A service that broke down may have broken down after it did its work.
            ambiguous: transient && !throttled,
            // Whoever asks for more than this is not waited for in place.
            retry_after: seconds.map(|seconds: u64| Duration::from_secs(seconds.min(20))),
            date,
            ..CallError::new(code, refusal.message.clone())
        }
    }

    pub fn is_denied(&self) -> bool {
        DENIED.contains(&self.code.as_str())
    }

    pub(super) fn is_clock_skew(&self) -> bool {
        CLOCK.contains(&self.code.as_str())
    }

    /// Whether trying again at once cannot do anything twice.
    pub(super) fn may_be_tried_again(&self, operation: Operation<'_>) -> bool {
        if !self.retryable || self.code == "CredentialsUnavailable" {
            return false;
        }
        !self.ambiguous || is_repeatable(operation)
    }
}

/// Whether an operation done twice is the same as done once.
pub(crate) fn is_repeatable(operation: Operation<'_>) -> bool {
    let is_read = operation.is_read_only() || READS.iter().any(|word| operation.name().starts_with(word));
    let has_token =
        operation.input().is_some_and(|input| input.members().any(|member| member.is_idempotency_token()));
    is_read || has_token || ["GET", "HEAD"].contains(&operation.method())
}
