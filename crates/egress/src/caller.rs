//! Connections and calls of control planes, each under the policy it has at that moment.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::net::TcpStream;

use crate::{CallError, Client, NoResponse, Policies, Policy, Terms, Tls, dial};

/// What a process connects with on behalf of its control planes; cheap to clone.
#[derive(Clone)]
pub struct Egress {
    client: Client,
    policies: Arc<dyn Policies>,
}

impl Egress {
    pub fn new(client: Client, policies: Arc<dyn Policies>) -> Egress {
        Egress { client, policies }
    }

    /// For a control plane. Nothing is held or asked for it until it calls.
    pub fn caller(&self, control_plane: &str) -> Caller {
        Caller { egress: self.clone(), control_plane: control_plane.into() }
    }
}

/// The default policy for every control plane.
impl Default for Egress {
    fn default() -> Egress {
        Egress::new(Client::default(), Arc::new(Policy::default()))
    }
}

/// One control plane that connects somewhere.
#[derive(Clone)]
pub struct Caller {
    egress: Egress,
    control_plane: Arc<str>,
}

impl Caller {
    pub fn control_plane(&self) -> &str {
        &self.control_plane
    }

    /// Opens a connection to a name or an IP address.
    ///
    /// # Errors
    ///
    /// If there is none, for whatever reason.
    pub async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, NoResponse> {
        dial(&self.egress.policies.of(&self.control_plane).await, host, port).await
    }

    /// Sends a request and reads the whole response, whatever its status is.
    ///
    /// # Errors
    ///
    /// If there is no response to it that can be read as one.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        timeout: Duration,
        max_bytes: usize,
    ) -> Result<Response<Bytes>, CallError> {
        let policy = self.egress.policies.of(&self.control_plane).await;
        let terms = Terms {
            caller: &self.control_plane,
            policy: &policy,
            tls: &Tls::system(),
            connect_to: None,
            timeout,
            max_bytes,
        };
        self.egress.client.send(request, &terms).await
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caller({:?})", self.control_plane)
    }
}
