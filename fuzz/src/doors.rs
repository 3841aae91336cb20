//! Which control plane a connection leads to.

use listener::Doors;
use listener::doors::Destination;

use crate::{parts, text};

pub fn destination(data: &[u8]) {
    let [server_name, host, path] = parts(data).map(text);
    let doors = Doors { domain: "hangar.localhost".into(), hosting: "host".into() };
    let path = path.unwrap_or("/");
    // An empty name is none: neither TLS nor HTTP has it.
    let server_name = server_name.filter(|name| !name.is_empty());
    if let Destination::ControlPlane { name, prefix } = doors.destination(server_name, host, path) {
        assert!(path.is_char_boundary(prefix) && prefix <= path.len());
        if prefix > 0 {
            assert!(!name.contains('/') && path[..prefix].ends_with(name.as_str()));
        }
        // Whom the handshake named is whom the request reaches.
        if let Some(named) = server_name.and_then(|server_name| doors.by_host(server_name)) {
            assert_eq!(name, named.to_ascii_lowercase());
        }
    }
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const destination: &[&[u8]] = &[
        b"a.hangar.localhost\xffA.hangar.localhost.:6443\xff/api",
        b"\xff127.0.0.1:6443\xff/control-planes/a/api/v1",
        b"localhost\xff[::1]:6443\xff/control-planes/",
        b"a.b.hangar.localhost\xffb.hangar.localhost\xff/",
    ];
}
