//! Calls: an operation's input in, its output or a [`CallError`] out.
//!
//! A [`Client`] is credentials, a region and endpoint settings over a shared [`Http`]: cheap to make, cheap to
//! clone. It signs, sends, retries what can be retried without doing anything twice, and corrects its clock by
//! that of the service.
//!
//! Not here: how often an account may be asked. That is shared by all clients and is the engine's.

mod error;
mod http;
mod pages;
mod retry;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use ::http::HeaderMap;
use aws_credential_types::Credentials;
use egress::Caller;

pub use self::error::CallError;
pub use self::http::{Http, HttpError};
pub use self::pages::Pages;
use self::retry::Budget;
use crate::credentials::Provider;
use crate::endpoint::{self, Endpoint, Settings};
use crate::model::{Operation, Service};
use crate::protocol::{self, Answer, Request, Response};
use crate::sign;
use crate::value::Value;

/// How a client tries again.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// Tries of one call, the first one included.
    pub attempts: u32,
    /// Whether to wait and try again when the service says that it is too much. The engine slows down all clients
    /// of an account at once instead.
    pub throttled: bool,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { attempts: 3, throttled: true }
    }
}

/// What calls are made with.
#[derive(Clone)]
pub struct Client {
    http: Arc<Http>,
    /// Where the tenant says where the services are, the tenant's control plane.
    caller: Option<Caller>,
    credentials: Provider,
    region: Arc<str>,
    settings: Arc<Settings>,
    policy: RetryPolicy,
    budget: Arc<Budget>,
    user_agent: Arc<str>,
}

impl Client {
    pub fn new(http: Arc<Http>, credentials: Provider, region: &str, settings: Settings) -> Client {
        Client {
            http,
            caller: None,
            credentials,
            region: region.into(),
            settings: Arc::new(settings),
            policy: RetryPolicy::default(),
            budget: Arc::new(Budget::default()),
            user_agent: concat!("hangar/", env!("CARGO_PKG_VERSION")).into(),
        }
    }

    pub fn with_policy(mut self, policy: RetryPolicy) -> Client {
        self.policy = policy;
        self
    }

    /// The endpoint of the settings is not the operator's but a tenant's: it is only reached if the policy of the control
    /// plane allows it.
    pub fn on_behalf_of(mut self, caller: Caller) -> Client {
        self.caller = Some(caller);
        self
    }

    pub fn with_user_agent(mut self, user_agent: &str) -> Client {
        self.user_agent = user_agent.into();
        self
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    /// Makes a call. Members by the names of the model; see [`crate::value`] for their form.
    pub async fn call(&self, service: &Service, operation: &str, input: &Value) -> Result<Value, CallError> {
        self.call_with_token(service, operation, input, &uuid::Uuid::new_v4().to_string()).await
    }

    /// Makes a call under an idempotency token of the caller's, where the operation takes one.
    pub async fn call_with_token(
        &self,
        service: &Service,
        operation: &str,
        input: &Value,
        token: &str,
    ) -> Result<Value, CallError> {
        let name = operation;
        let operation = service.operation(name).ok_or_else(|| {
            CallError::local("UnknownOperation", format!("{} has no operation {name}", service.name()))
        })?;
        let request = protocol::encode(operation, input, token)
            .map_err(|error| CallError::local("InvalidInput", format!("{name}: {error}")))?;
        let endpoint = endpoint::resolve(service, &self.region, &self.settings)
            .map_err(|error| CallError::local("InvalidEndpoint", error.to_string()))?;
        let bucket = match service.name() {
            "s3" => input.get("Bucket").and_then(Value::as_str),
            _ => None,
        };
        let call = Call { client: self, operation, request, endpoint, bucket };
        call.run().await
    }

    /// Makes a call for every page and gives all results in one answer: the lists of the pages, joined.
    pub async fn call_all(
        &self,
        service: &Service,
        operation: &str,
        input: &Value,
    ) -> Result<Value, CallError> {
        let mut pages = Pages::new(service, operation, input);
        while let Some(input) = pages.next_input() {
            let answer = self.call(service, operation, &input).await?;
            pages.add(answer)?;
        }
        Ok(pages.into_answer())
    }
}

/// One call with all its tries.
struct Call<'a> {
    client: &'a Client,
    operation: Operation<'a>,
    request: Request,
    endpoint: Endpoint,
    bucket: Option<&'a str>,
}

impl Call<'_> {
    async fn run(&self) -> Result<Value, CallError> {
        let mut attempt = 1;
        let mut clock_corrected = false;
        let mut unsure = false;
        loop {
            let error = match self.attempt().await {
                Ok(output) => {
                    self.client.budget.refund();
                    return Ok(output);
                }
                Err(error) => error,
            };
            if error.is_clock_skew() && !clock_corrected && self.client.http.correct_clock(error.date) {
                clock_corrected = true;
                continue;
            }
            let again = attempt < self.client.policy.attempts
                && (!error.throttled || self.client.policy.throttled)
                && error.may_be_tried_again(self.operation)
                && self.client.budget.take(error.throttled);
            // What a later try is refused with says nothing about an earlier one that may have been carried out.
            unsure |= error.ambiguous;
            if !again {
                return Err(CallError { ambiguous: unsure, ..error });
            }
            tokio::time::sleep(retry::delay(attempt, error.retry_after)).await;
            attempt += 1;
        }
    }

    async fn attempt(&self) -> Result<Value, CallError> {
        let client = self.client;
        let target = endpoint::place(&self.endpoint, &self.request, self.bucket, client.settings.path_style);
        let query =
            if self.request.query.is_empty() { String::new() } else { format!("?{}", self.request.query) };
        let url = format!("{}://{}{}{query}", target.scheme, target.authority, target.path);
        let mut headers = self.request.headers.clone();
        headers.push(("user-agent".to_owned(), client.user_agent.to_string()));
        if !self.operation.is_unsigned() {
            let credentials = client.credentials.get().await.map_err(CallError::credentials)?;
            headers.extend(self.signature(&url, target.signing_name, &headers, &credentials)?);
        }
        // The endpoints of single services are always the operator's.
        let is_operators = client.settings.services.contains_key(self.operation.service().name());
        let caller = client.caller.as_ref().filter(|_| self.endpoint.is_custom && !is_operators);
        let (method, body) = (&self.request.method, self.request.body.clone());
        let sent = client.http.send(caller, method, &url, &headers, body).await;
        let response = sent.map_err(|error| CallError::transport(self.operation.name(), &error))?;
        let date = server_time(&response.headers);
        protocol::decode(self.operation, &response).map_err(|answer| self.refused(answer, &response, date))
    }

    fn signature(
        &self,
        url: &str,
        signing_name: Option<&str>,
        headers: &[(String, String)],
        credentials: &Credentials,
    ) -> Result<Vec<(String, String)>, CallError> {
        let service = self.operation.service();
        let request = sign::Signable {
            method: &self.request.method,
            url,
            headers,
            body: &self.request.body,
            region: &self.endpoint.signing_region,
            name: signing_name.unwrap_or(service.signing_name()),
            time: self.client.http.now(),
            s3: service.signature_version().starts_with("s3"),
            unsigned_payload: self.operation.is_payload_unsigned(),
        };
        sign::headers(&request, credentials)
            .map_err(|error| CallError::local("SigningFailed", error.to_string()))
    }

    fn refused(&self, answer: Answer, response: &Response, date: Option<SystemTime>) -> CallError {
        match answer {
            Answer::Refused(refusal) => CallError::refused(refusal, response, date),
            Answer::Unreadable(error) => CallError::unreadable(error, response.status),
        }
    }
}

fn server_time(headers: &HeaderMap) -> Option<SystemTime> {
    let text = headers.get(::http::header::DATE)?.to_str().ok()?;
    crate::value::moment(&Value::String(text.to_owned())).map(SystemTime::from)
}

/// How far the clock of the services is from ours, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    ahead: AtomicI64,
}

/// Less than this is the way of the answer, not the clock.
const SMALLEST_SKEW: Duration = Duration::from_secs(60);

impl Clock {
    fn now(&self) -> SystemTime {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let distance = Duration::from_millis(ahead.unsigned_abs());
        let now = SystemTime::now();
        let shifted = if ahead < 0 { now.checked_sub(distance) } else { now.checked_add(distance) };
        shifted.unwrap_or(now)
    }

    /// Sets the clock by the service's; whether that changed anything.
    fn correct(&self, date: Option<SystemTime>) -> bool {
        let Some(date) = date else { return false };
        let now = SystemTime::now();
        let ahead = match date.duration_since(now) {
            Ok(ahead) => i64::try_from(ahead.as_millis()).unwrap_or(0),
            Err(behind) => -i64::try_from(behind.duration().as_millis()).unwrap_or(0),
        };
        let before = self.ahead.swap(ahead, Ordering::Relaxed);
        (ahead - before).unsigned_abs() >= SMALLEST_SKEW.as_millis() as u64
    }
}

#[cfg(test)]
mod tests;
