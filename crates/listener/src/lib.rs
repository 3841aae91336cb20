//! Sockets, TLS, HTTP, and the tenant at the door.
//!
//! [`Listener`] accepts connections, speaks TLS and HTTP/1.1 or HTTP/2, finds out which control plane a request
//! is for ([`doors`]) and hands it to the service with a [`apiserver::Door`] attached.
//!
//! [`relay`] passes requests on to a process that serves one of the control planes.
//!
//! **Invariant:** the control plane comes from the name in the TLS handshake or from the path, and where both
//! could speak, the handshake wins. Nothing in a request's headers or body can change it.
//!
//! Not here: objects, authentication (a client certificate is carried along, the control plane judges it).

mod connection;
pub mod doors;
mod gathering;
mod limits;
mod lingering;
mod progress;
pub mod relay;
mod tls;
mod unread;

pub use connection::{ListenError, Listener, Options};
pub use doors::Doors;
pub use limits::Limits;
pub use tls::{ServingCertificate, TlsError};
