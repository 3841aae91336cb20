//! `metav1.Status`: the one shape of every error a client sees, and where the HTTP code comes from.

use serde_json::{Value, json};

use crate::{GroupKind, GroupResource, field};

/// Why a request failed, in the words clients match on; each has its HTTP code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unknown => "",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Invalid => "Invalid",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::BadRequest => "BadRequest",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::InternalError => "InternalError",
            Reason::Expired => "Expired",
            Reason::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    pub fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::NotFound => 404,
            Reason::MethodNotAllowed => 405,
            Reason::NotAcceptable => 406,
            Reason::AlreadyExists | Reason::Conflict => 409,
            Reason::Gone | Reason::Expired => 410,
            Reason::RequestEntityTooLarge => 413,
            Reason::UnsupportedMediaType => 415,
            Reason::Invalid => 422,
            Reason::TooManyRequests => 429,
            // A server that gave up on its own work says 500; one that ran out of the request's time says 504.
            Reason::Unknown | Reason::InternalError | Reason::ServerTimeout => 500,
            Reason::ServiceUnavailable => 503,
            Reason::Timeout => 504,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// A failure (or, for some deletes, a success) as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: u16,
    pub reason: Reason,
    pub message: String,
    /// Resource name or kind, as upstream: the resource for most, the kind for `Invalid`.
    pub kind: String,
    pub group: String,
    pub name: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: Option<u32>,
    /// `metadata.continue` of an expired list: where an inconsistent continuation may go on.
    pub continue_token: Option<String>,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Status {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Status {
            code: reason.code(),
            reason,
            message: message.into(),
            kind: String::new(),
            group: String::new(),
            name: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: None,
            continue_token: None,
        }
    }

    #[must_use]
    pub fn about(mut self, resource: &GroupResource, name: impl Into<String>) -> Self {
        self.kind = resource.resource.to_string();
        self.group = resource.group.to_string();
        self.name = name.into();
        self
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    #[must_use]
    pub fn cause(
        mut self,
        reason: impl Into<String>,
        message: impl Into<String>,
        field: impl Into<String>,
    ) -> Self {
        self.causes.push(Cause { reason: reason.into(), message: message.into(), field: field.into() });
        self
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(Reason::NotFound, format!("{resource} {name:?} not found")).about(resource, name)
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(Reason::AlreadyExists, format!("{resource} {name:?} already exists")).about(resource, name)
    }

    pub fn conflict(resource: &GroupResource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(Reason::Conflict, message).about(resource, name)
    }

    /// The object changed between the read and this write.
    pub fn stale(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(resource: &GroupResource, name: &str, why: impl std::fmt::Display) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {name:?} is forbidden: {why}")
        };
        Self::new(Reason::Forbidden, message).about(resource, name)
    }

    pub fn invalid(kind: &GroupKind, name: &str, errors: &[field::Error]) -> Self {
        let mut status =
            Self::new(Reason::Invalid, format!("{kind} {name:?} is invalid: {}", field::aggregate(errors)));
        status.kind = kind.kind.to_string();
        status.group = kind.group.to_string();
        status.name = name.to_owned();
        for error in errors {
            status = status.cause(error.kind.reason(), error.body(), error.field.clone());
        }
        status
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(Reason::InternalError, format!("Internal error occurred: {message}")).cause(
            "",
            message.to_string(),
            "",
        )
    }

    /// 410: the revision asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    pub fn to_value(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = json!(token);
        }
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": if self.code < 400 { "Success" } else { "Failure" },
        });
        if !self.message.is_empty() {
            body["message"] = json!(self.message);
        }
        if !self.reason.as_str().is_empty() {
            body["reason"] = json!(self.reason.as_str());
        }
        let mut details = serde_json::Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                details.insert(key.to_owned(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            let causes: Vec<Value> = self.causes.iter().map(cause_value).collect();
            details.insert("causes".to_owned(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after_seconds {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        if !details.is_empty() {
            body["details"] = Value::Object(details);
        }
        // Go marshals the code unless it is zero; a success with details carries none.
        if self.code >= 400 {
            body["code"] = json!(self.code);
        }
        body
    }
}

fn cause_value(cause: &Cause) -> Value {
    let mut value = serde_json::Map::new();
    for (key, text) in [("reason", &cause.reason), ("message", &cause.message), ("field", &cause.field)] {
        if !text.is_empty() {
            value.insert(key.to_owned(), json!(text));
        }
    }
    Value::Object(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;

    #[track_caller]
    fn check(status: &Status, code: u16, reason: &str, message: &str, details: Value) {
        let body = status.to_value();
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "details": details, "code": code,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn what_clients_see() {
        let pods = GroupResource::new("", "pods");
        let deployments = GroupResource::new("apps", "deployments");
        let about = json!({"name": "a", "group": "apps", "kind": "deployments"});
        check(
            &Status::not_found(&pods, "a"),
            404,
            "NotFound",
            "pods \"a\" not found",
            json!({"name": "a", "kind": "pods"}),
        );
        check(
            &Status::already_exists(&deployments, "a"),
            409,
            "AlreadyExists",
            "deployments.apps \"a\" already exists",
            about.clone(),
        );
        check(
            &Status::stale(&deployments, "a"),
            409,
            "Conflict",
            "Operation cannot be fulfilled on deployments.apps \"a\": the object has been modified; please apply your \
             changes to the latest version and try again",
            about,
        );
        let kind = GroupKind { group: "apps".into(), kind: "Deployment".into() };
        check(
            &Status::invalid(&kind, "a", &[field::Error::required(&Path::new("spec.selector"), "")]),
            422,
            "Invalid",
            "Deployment.apps \"a\" is invalid: spec.selector: Required value",
            json!({
                "name": "a", "group": "apps", "kind": "Deployment",
                "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"}],
            }),
        );
        check(
            &Status::new(Reason::TooManyRequests, "slow down").retry_after(1),
            429,
            "TooManyRequests",
            "slow down",
            json!({"retryAfterSeconds": 1}),
        );
    }

    #[test]
    fn a_status_without_details_has_none_and_a_success_no_code() {
        assert!(Status::bad_request("x").to_value().get("details").is_none());
        let mut success = Status::new(Reason::Unknown, "");
        success.code = 200;
        let body = success.to_value();
        assert_eq!(
            (body["status"].as_str(), body.get("code"), body.get("message")),
            (Some("Success"), None, None)
        );
    }
}
