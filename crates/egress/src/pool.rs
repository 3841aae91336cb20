//! Connections that are kept between calls.
//!
//! hyper-util's client keeps connections by scheme and host alone. Here they also belong to a control plane, its policy,
//! and the identity of the destination, so there is one such client for each of these, for as long as it is in use.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::uri::Authority;
use http_body_util::Full;
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::Service;

use crate::dial::{DialError, try_dial};
use crate::policy::Policy;
use crate::tls::Tls;

/// After this time without a call nothing is kept of a destination.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Destinations whose connections are kept. The one that was used longest ago makes room.
const MAX_DESTINATIONS: usize = 256;
/// What is read ahead of the head of a response, which may be no larger.
const MAX_HEAD_BYTES: usize = 64 << 10;

pub(crate) type HttpClient = legacy::Client<HttpsConnector<Dialer>, Full<Bytes>>;

/// Where calls go, and for whom.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub caller: Arc<str>,
    pub policy: Policy,
    pub secure: bool,
    /// That of the URL: its host is whose certificate is wanted.
    pub authority: Authority,
    /// What is connected to.
    pub host: Arc<str>,
    pub port: u16,
    pub tls: Tls,
}

pub(crate) struct Pool {
    /// Idle connections to one destination.
    max_idle: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    clients: HashMap<Destination, Slot>,
    /// Whether a task ends what is not used any more. There is one while there is anything to end.
    is_swept: bool,
}

struct Slot {
    client: HttpClient,
    used: Instant,
}

impl Pool {
    pub fn new(max_idle: usize) -> Pool {
        Pool { max_idle, kept: Mutex::default() }
    }

    /// The client for a destination; or why its certificates cannot be used.
    pub fn client(self: &Arc<Self>, destination: &Destination) -> Result<HttpClient, String> {
        let now = Instant::now();
        if let Some(slot) = self.kept.lock().clients.get_mut(destination) {
            slot.used = now;
            return Ok(slot.client.clone());
        }
        let client = client(destination, self.max_idle)?;
        let slot = Slot { client: client.clone(), used: now };
        let mut kept = self.kept.lock();
        if kept.clients.len() >= MAX_DESTINATIONS && !kept.clients.contains_key(destination) {
            let oldest = kept.clients.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| kept.clients.remove(&oldest));
        }
        kept.clients.insert(destination.clone(), slot);
        if !std::mem::replace(&mut kept.is_swept, true) {
            tokio::spawn(sweep(self.clone()));
        }
        Ok(client)
    }

    /// A call has ended: its connection is idle from now on.
    pub fn used(&self, destination: &Destination) {
        if let Some(slot) = self.kept.lock().clients.get_mut(destination) {
            slot.used = Instant::now();
        }
    }

    #[cfg(test)]
    pub fn destinations(&self) -> usize {
        self.kept.lock().clients.len()
    }
}

async fn sweep(pool: Arc<Pool>) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        let mut kept = pool.kept.lock();
        kept.clients.retain(|_, slot| slot.used.elapsed() < IDLE_TIMEOUT);
        if kept.clients.is_empty() {
            kept.is_swept = false;
            return;
        }
    }
}

fn client(destination: &Destination, max_idle: usize) -> Result<HttpClient, String> {
    let config = match destination.secure {
        true => destination.tls.config()?,
        // Not used, and the machine may have no authorities.
        false => Tls::none(),
    };
    let Destination { policy, host, port, .. } = destination;
    let dialer = Dialer { policy: policy.clone(), host: host.clone(), port: *port };
    let names = Arc::new(DefaultServerNameResolver::default());
    let connector = HttpsConnector::new(dialer, config, destination.secure, names);
    Ok(legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(max_idle)
        .http1_max_buf_size(MAX_HEAD_BYTES)
        .build(connector))
}

/// Connects to one destination, whatever the URL says.
#[derive(Clone)]
pub(crate) struct Dialer {
    policy: Policy,
    host: Arc<str>,
    port: u16,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Dialer { policy, host, port } = self.clone();
        Box::pin(async move { try_dial(&policy, &host, port).await.map(TokioIo::new) })
    }
}
