//! HTTP calls under a policy, over connections that are kept for the next call to the same destination.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};

use crate::dial::NoResponse;
use crate::policy::Policy;
use crate::pool::{Destination, Pool};
use crate::tls::Tls;
use crate::turns::{Limits, Turns};

/// Who makes a call, to whom it may go, and what it may take.
#[derive(Clone, Debug)]
pub struct Terms<'a> {
    /// The control plane on whose behalf the call is made. Connections are never shared between control planes.
    pub caller: &'a str,
    pub policy: &'a Policy,
    pub tls: &'a Tls,
    /// Where to connect to, if that is not the host of the URL. The certificate must still be that host's.
    pub connect_to: Option<(&'a str, u16)>,
    /// For the whole call, from the wait for a turn to the last byte of the response.
    pub timeout: Duration,
    /// How large the body of the response may be.
    pub max_bytes: usize,
}

#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    #[error(transparent)]
    NoResponse(#[from] NoResponse),
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    /// The caller's own input is wrong; nothing was sent.
    #[error("{0}")]
    Request(String),
}

/// The HTTP client of a process; cheap to clone.
///
/// Redirects are not followed: the response says where one leads, and the caller decides.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Arc<Pool>,
    turns: Turns,
}

impl Default for Client {
    fn default() -> Client {
        Client::new(Limits::default())
    }
}

impl Client {
    pub fn new(limits: Limits) -> Client {
        let pool = Arc::new(Pool::new(limits.idle_connections));
        Client { shared: Arc::new(Shared { pool, turns: Turns::new(limits) }) }
    }

    #[cfg(test)]
    pub(crate) fn destinations(&self) -> usize {
        self.shared.pool.destinations()
    }

    /// Sends a request and reads the whole response, whatever its status is.
    ///
    /// # Errors
    ///
    /// If there is no response to it that can be read as one.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        terms: &Terms<'_>,
    ) -> Result<Response<Bytes>, CallError> {
        let destination = destination(request.uri(), terms)?;
        let failed = |sent: bool, error: &dyn std::fmt::Display| {
            let Destination { caller, host, port, .. } = &destination;
            tracing::debug!(control_plane = %caller, %host, port, %error, "outgoing call failed");
            CallError::NoResponse(NoResponse::new(terms.policy, sent, error))
        };
        // Who waited for a turn in vain has sent nothing.
        let began = AtomicBool::new(false);
        let exchange = async {
            let _turn = self.shared.turns.take(&destination.caller).await;
            let client = self.shared.pool.client(&destination).map_err(CallError::Request)?;
            began.store(true, Ordering::Relaxed);
            let response = client.request(request.map(Full::new)).await;
            let response = response.map_err(|error| failed(!error.is_connect(), &causes(&error)))?;
            let (parts, body) = response.into_parts();
            let body =
                Limited::new(body, terms.max_bytes).collect().await.map_err(|error| match error
                    .is::<LengthLimitError>(
                ) {
                    true => CallError::TooLarge(terms.max_bytes),
                    false => failed(true, &error),
                })?;
            self.shared.pool.used(&destination);
            Ok(Response::from_parts(parts, body.to_bytes()))
        };
        match tokio::time::timeout(terms.timeout, exchange).await {
            Ok(answered) => answered,
            Err(_) => {
                let late = format_args!("no response within {} s", terms.timeout.as_secs_f32());
                Err(failed(began.load(Ordering::Relaxed), &late))
            }
        }
    }
}

fn destination(uri: &Uri, terms: &Terms<'_>) -> Result<Destination, CallError> {
    let wrong = |why: &str| Err(CallError::Request(why.to_owned()));
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return wrong("the URL must begin with https:// or http://"),
    };
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return wrong("the URL has no host");
    };
    if authority.as_str().contains('@') {
        return wrong("the URL must not contain a user name or password");
    }
    let own_port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let (host, port) = terms.connect_to.unwrap_or((authority.host(), own_port));
    Ok(Destination {
        caller: terms.caller.into(),
        policy: terms.policy.clone(),
        secure,
        authority: authority.clone(),
        host: host.into(),
        port,
        tls: terms.tls.clone(),
    })
}

/// An error with all that led to it: the outer ones say only that there is one.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
