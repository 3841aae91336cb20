//! TCP connections under a policy.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::policy::{Policy, Refusal};

/// For resolving a name and trying its addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses of one name that are tried. More than that is no redundancy but a list of somebody's targets.
const MAX_ADDRESSES: usize = 8;
/// Name lookups at once. The system resolver blocks a thread for each, of which the runtime has 512 for all purposes.
static LOOKUPS: Semaphore = Semaphore::const_new(64);

/// A destination gave no valid response.
///
/// The text is the same whether the destination was refused, unreachable, closed, or spoke another protocol: a tenant
/// that chooses destinations must not learn what is where. The cause is logged at DEBUG. It is told only of a destination
/// that the operator chose.
#[derive(thiserror::Error, Debug, Clone, PartialEq, Eq)]
#[error(
    "no valid response: {}", .cause.as_deref().unwrap_or(
        "check the address, the port and the certificate, and whether the operator's egress policy allows the destination"
    )
)]
pub struct NoResponse {
    sent: bool,
    cause: Option<Arc<str>>,
}

impl NoResponse {
    pub(crate) fn new(policy: &Policy, sent: bool, cause: &dyn fmt::Display) -> NoResponse {
        NoResponse { sent, cause: policy.is_unrestricted().then(|| cause.to_string().into()) }
    }

    /// Of a connection that broke, or on which another protocol is spoken. The cause must have been logged.
    pub fn on_connection() -> NoResponse {
        NoResponse { sent: true, cause: None }
    }

    /// Whether the destination may have received the request.
    pub fn was_sent(&self) -> bool {
        self.sent
    }
}

/// The cause of a failed connection, for the log.
#[derive(thiserror::Error, Debug)]
pub(crate) enum DialError {
    #[error("cannot resolve the name: {0}")]
    Resolve(io::Error),
    #[error("the name has no address")]
    NoAddress,
    #[error("{address}: {refusal}")]
    Refused { address: SocketAddr, refusal: Refusal },
    #[error("{address}: {error}")]
    Connect { address: SocketAddr, error: io::Error },
    #[error("no connection within {} s", CONNECT_TIMEOUT.as_secs())]
    Timeout,
}

/// Opens a connection to a host, which is a name or an IP address, if the policy allows the address it has.
///
/// # Errors
///
/// If there is no connection, for whatever reason.
pub async fn dial(policy: &Policy, host: &str, port: u16) -> Result<TcpStream, NoResponse> {
    try_dial(policy, host, port).await.map_err(|error| {
        tracing::debug!(host, port, %error, "no outgoing connection");
        NoResponse::new(policy, false, &error)
    })
}

pub(crate) async fn try_dial(policy: &Policy, host: &str, port: u16) -> Result<TcpStream, DialError> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    let resolved = timeout_at(deadline, resolve(host, port)).await;
    let addresses = resolved.map_err(|_| DialError::Timeout)??;
    let mut allowed = Vec::with_capacity(addresses.len());
    let mut failure = DialError::NoAddress;
    for address in addresses {
        match policy.check(address) {
            Ok(()) => allowed.push(address),
            Err(refusal) => failure = DialError::Refused { address, refusal },
        }
    }
    let mut left = u32::try_from(allowed.len()).unwrap_or(u32::MAX);
    for address in allowed {
        // An address that swallows packets leaves time for the others.
        let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
        left -= 1;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Requests are written at once; waiting for more to send only delays them.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => failure = DialError::Connect { address, error },
            Err(_) => failure = DialError::Timeout,
        }
    }
    Err(failure)
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let permit = LOOKUPS.acquire().await.map_err(|error| DialError::Resolve(io::Error::other(error)))?;
    let name = bare.to_owned();
    // The permit stays with the thread: a caller that gives up does not stop the lookup.
    let lookup = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        Ok((name.as_str(), port).to_socket_addrs()?.take(MAX_ADDRESSES).collect())
    });
    lookup.await.map_err(io::Error::other).and_then(|found| found).map_err(DialError::Resolve)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn loopback() -> Policy {
        Policy::new("127.0.0.0/8,::1".parse().unwrap())
    }

    /// Spellings of loopback, all of which reach the listener if they are allowed.
    const SPELLINGS: [&str; 9] = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "017700000001",
        "::ffff:127.0.0.1",
        "[::ffff:7f00:1]",
        "localhost",
    ];

    #[tokio::test]
    async fn loopback_is_refused_unless_it_is_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in SPELLINGS {
            let refused = try_dial(&Policy::default(), host, port).await.unwrap_err();
            assert!(matches!(refused, DialError::Refused { .. }), "{host}: {refused}");
            let stream = try_dial(&loopback(), host, port).await.expect(host);
            let (accepted, peer) = listener.accept().await.unwrap();
            assert_eq!(peer.port(), stream.local_addr().unwrap().port(), "{host}");
            drop(accepted);
        }
    }

    #[tokio::test]
    async fn failures_look_alike() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let mut told = Vec::new();
        for (policy, host) in [
            (Policy::default(), "127.0.0.1"),
            (loopback(), "127.0.0.1"),
            (Policy::default(), "localhost"),
            (Policy::default(), &"a".repeat(64)),
            (Policy::default(), ""),
            (Policy::default(), "a b\0"),
        ] {
            let error = dial(&policy, host, closed).await.unwrap_err();
            told.push((error.to_string(), format!("{error:?}")));
        }
        told.dedup();
        assert_eq!(told.len(), 1, "{told:?}");
    }
}
