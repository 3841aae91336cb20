//! HTTP with a pool of connections, for all clients of the process.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::Clock;
use crate::protocol::Response;

/// No answer of a control plane is larger.
const LARGEST_BODY: usize = 64 << 20;
/// Idle connections that are kept for one host.
const IDLE_PER_HOST: usize = 32;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request got no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HttpError {
    #[error("cannot connect to {host}: {reason}")]
    Connect { host: String, reason: String },
    #[error("{host} gave no answer within {seconds} s")]
    Timeout { host: String, seconds: u64 },
    #[error("the connection to {host} broke: {reason}")]
    Broken { host: String, reason: String },
    #[error("a request to {host} cannot be made: {reason}")]
    Request { host: String, reason: String },
}

impl HttpError {
    /// Whether the service may have got the request.
    pub fn was_sent(&self) -> bool {
        matches!(self, HttpError::Timeout { .. } | HttpError::Broken { .. })
    }
}

/// The way to the network.
pub struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
    clock: Clock,
}

impl Http {
    /// `timeout` is that of a whole request with its answer. Trusts the authorities of the system.
    pub fn new(timeout: Duration) -> Result<Http, HttpError> {
        let failed = |reason: String| HttpError::Request { host: "any host".to_owned(), reason };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| failed(error.to_string()))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .build(tls);
        Ok(Http { client, timeout, clock: Clock::default() })
    }

    /// The time by the clock of the services.
    pub(super) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    pub(super) fn correct_clock(&self, date: Option<SystemTime>) -> bool {
        self.clock.correct(date)
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Response, HttpError> {
        let host = host(url);
        let request = request(method, url, headers, body)
            .map_err(|reason| HttpError::Request { host: host.clone(), reason })?;
        match tokio::time::timeout(self.timeout, self.exchange(request, &host)).await {
            Ok(response) => response,
            Err(_) => Err(HttpError::Timeout { host, seconds: self.timeout.as_secs() }),
        }
    }

    async fn exchange(&self, request: http::Request<Full<Bytes>>, host: &str) -> Result<Response, HttpError> {
        let sent = self.client.request(request).await;
        let response = sent.map_err(|error| {
            let reason = reason(&error);
            let host = host.to_owned();
            match error.is_connect() {
                true => HttpError::Connect { host, reason },
                false => HttpError::Broken { host, reason },
            }
        })?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, LARGEST_BODY).collect().await;
        let body = body
            .map_err(|error| HttpError::Broken { host: host.to_owned(), reason: error.to_string() })?
            .to_bytes();
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
) -> Result<http::Request<Full<Bytes>>, String> {
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
    request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())
}

fn host(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    after_scheme.split('/').next().unwrap_or(after_scheme).to_owned()
}

/// The innermost cause: the outer ones say only that there is one.
fn reason(error: &hyper_util::client::legacy::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
