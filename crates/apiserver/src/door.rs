//! Through which door a request came: fixed by whoever accepted the connection, never by the request's body.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::user::UserInfo;
use objects::CompactString;

/// Put into a request's extensions by the caller of the service. A request without one is refused.
#[derive(Clone, Debug)]
pub struct Door {
    /// The control plane's name.
    pub control_plane: CompactString,
    /// The part of the path that led here and that clients put before every path, such as
    /// `/control-planes/a`; already taken off the request's path.
    pub prefix: CompactString,
    /// What the client proved to have the key of, leaf first. Not yet trusted: the control plane's own
    /// authority decides.
    pub certificates: Arc<Vec<Vec<u8>>>,
    pub remote: Option<SocketAddr>,
    /// Set by callers in this process only: the request is theirs, and needs no further proof.
    pub identity: Option<Arc<UserInfo>>,
}

impl Door {
    /// A caller of whom nothing is known.
    pub fn of(control_plane: impl Into<CompactString>) -> Self {
        Door {
            control_plane: control_plane.into(),
            prefix: CompactString::default(),
            certificates: Arc::default(),
            remote: None,
            identity: None,
        }
    }

    /// A caller in this process, already known.
    pub fn in_process(control_plane: impl Into<CompactString>, identity: Arc<UserInfo>) -> Self {
        Door { identity: Some(identity), ..Door::of(control_plane) }
    }
}
