//! HTTP for all clients of the process: to AWS and to where the operator says, or to where a tenant says.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use egress::{Caller, Limits, Policy, Terms, Tls};
use http::{HeaderName, HeaderValue, Method};

use super::Clock;
use crate::protocol::Response;

/// No answer of a control plane is larger.
const LARGEST_BODY: usize = 64 << 20;
/// Calls to AWS are made for all control planes together, over the same connections. How often an account is asked is
/// limited by the engine; this bounds what the process holds.
const LIMITS: Limits = Limits { calls: 1_024, calls_of_one: 1_024, idle_connections: 32 };

/// A request got no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HttpError {
    #[error("{host}: {error}")]
    NoResponse { host: String, error: egress::NoResponse },
    #[error("the response of {host} is too large")]
    TooLarge { host: String },
    #[error("a request to {host} cannot be made: {reason}")]
    Request { host: String, reason: String },
}

impl HttpError {
    /// Whether the service may have got the request.
    pub fn was_sent(&self) -> bool {
        match self {
            HttpError::NoResponse { error, .. } => error.was_sent(),
            HttpError::TooLarge { .. } => true,
            HttpError::Request { .. } => false,
        }
    }
}

/// The way to the network.
pub struct Http {
    client: egress::Client,
    timeout: Duration,
    clock: Clock,
}

impl Http {
    /// `timeout` is that of a whole request with its answer. Trusts the authorities of the system.
    pub fn new(timeout: Duration) -> Http {
        Http { client: egress::Client::new(LIMITS), timeout, clock: Clock::default() }
    }

    /// The time by the clock of the services.
    pub(super) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    pub(super) fn correct_clock(&self, date: Option<SystemTime>) -> bool {
        self.clock.correct(date)
    }

    /// Sends a request and reads the whole answer. A destination that a tenant chose is only for that tenant's `caller`.
    pub async fn send(
        &self,
        caller: Option<&Caller>,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Response, HttpError> {
        let host = || host(url);
        let request = request(method, url, headers, body)
            .map_err(|reason| HttpError::Request { host: host(), reason })?;
        let sent = match caller {
            Some(caller) => caller.send(request, self.timeout, LARGEST_BODY).await,
            None => {
                let (policy, tls) = (Policy::unrestricted(), Tls::system().only_http1());
                let (timeout, max_bytes) = (self.timeout, LARGEST_BODY);
                let terms =
                    Terms { caller: "", policy: &policy, tls: &tls, connect_to: None, timeout, max_bytes };
                self.client.send(request, &terms).await
            }
        };
        let (parts, body) = sent
            .map_err(|error| match error {
                egress::CallError::NoResponse(error) => HttpError::NoResponse { host: host(), error },
                egress::CallError::TooLarge(_) => HttpError::TooLarge { host: host() },
                egress::CallError::Request(reason) => HttpError::Request { host: host(), reason },
            })?
            .into_parts();
        Ok(Response { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Http").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

fn request(
    method: &str,
    url: &str,
    headers: &[(String, String)],
    body: Vec<u8>,
) -> Result<http::Request<Bytes>, String> {
    let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
    let length = body.len();
    let has_body = length > 0 || [Method::POST, Method::PUT].contains(&method);
    let mut request = http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|error| error.to_string())?;
        value.set_sensitive(name == http::header::AUTHORIZATION || name == "x-amz-security-token");
        request = request.header(name, value);
    }
    if has_body {
        request = request.header(http::header::CONTENT_LENGTH, length);
    }
    request.body(Bytes::from(body)).map_err(|error| error.to_string())
}

fn host(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    after_scheme.split('/').next().unwrap_or(after_scheme).to_owned()
}
