//! Which control plane a request is for.

use objects::CompactString;

/// The path prefix that leads to a control plane for clients without DNS.
pub const PATH_PREFIX: &str = "/control-planes/";

/// How names lead to control planes.
#[derive(Clone, Debug)]
pub struct Doors {
    /// `<name>.<domain>` is the control plane `<name>`.
    pub domain: String,
    /// The one that every other name leads to.
    pub hosting: CompactString,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The control plane, how long the prefix of the path is that led there.
    ControlPlane { name: CompactString, prefix: usize },
    /// The request's `Host` names another control plane than the handshake did.
    Misdirected,
}

impl Doors {
    /// The control plane a host name means, if it is one of ours.
    pub fn by_host<'a>(&self, host: &'a str) -> Option<&'a str> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let name = host.get(..host.len().checked_sub(self.domain.len() + 1)?)?;
        let tail = host.get(name.len()..)?;
        let ours = tail.starts_with('.') && tail[1..].eq_ignore_ascii_case(&self.domain);
        (ours && !name.is_empty() && !name.contains('.')).then_some(name)
    }

    /// `server_name` from the TLS handshake, `host` from the request, and its path.
    pub fn destination(&self, server_name: Option<&str>, host: Option<&str>, path: &str) -> Destination {
        let by_name = server_name.and_then(|name| self.by_host(name));
        let by_host = host.map(without_port).and_then(|host| self.by_host(host));
        match (by_name, by_host) {
            (Some(name), Some(host)) if !name.eq_ignore_ascii_case(host) => Destination::Misdirected,
            // Without the name in the handshake, the certificate shown was not this control plane's door.
            (None, Some(_)) if server_name.is_some() => Destination::Misdirected,
            (Some(name), _) | (None, Some(name)) => {
                let name = CompactString::from(name.to_ascii_lowercase());
                // Who knows two doors to the same control plane may come through both.
                let prefix = match by_path(path) {
                    Some((same, prefix)) if same == name => prefix,
                    _ => 0,
                };
                Destination::ControlPlane { name, prefix }
            }
            (None, None) => match by_path(path) {
                Some((name, prefix)) => Destination::ControlPlane { name: name.into(), prefix },
                None => Destination::ControlPlane { name: self.hosting.clone(), prefix: 0 },
            },
        }
    }
}

/// The control plane that a path leads to, and how long the prefix is that says so.
fn by_path(path: &str) -> Option<(&str, usize)> {
    let name = path.strip_prefix(PATH_PREFIX)?.split('/').next().unwrap_or_default();
    Some((name, PATH_PREFIX.len() + name.len()))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.contains(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server_name: Option<&str>, host: Option<&str>, path: &str, expected: &str) {
        let doors = Doors { domain: "hangar.test".to_owned(), hosting: "host".into() };
        let shown = match doors.destination(server_name, host, path) {
            Destination::ControlPlane { name, prefix } => format!("{name} {}", &path[prefix..]),
            Destination::Misdirected => "misdirected".to_owned(),
        };
        assert_eq!(shown, expected, "{server_name:?} {host:?} {path}");
    }

    #[test]
    fn the_door_decides() {
        check(None, Some("127.0.0.1:6443"), "/api", "host /api");
        check(Some("localhost"), Some("localhost:6443"), "/api", "host /api");
        check(Some("a.hangar.test"), Some("a.hangar.test:6443"), "/api", "a /api");
        check(Some("A.hangar.test"), Some("a.hangar.TEST"), "/api", "a /api");
        check(None, Some("a.hangar.test"), "/api", "a /api");
        check(Some("localhost"), Some("localhost"), "/control-planes/a/api/v1", "a /api/v1");
        check(Some("localhost"), Some("localhost"), "/control-planes/a", "a ");
        check(Some("localhost"), Some("localhost"), "/control-planes/", " ");
        // The path cannot lead away from the name in the handshake.
        check(
            Some("a.hangar.test"),
            Some("a.hangar.test"),
            "/control-planes/b/api",
            "a /control-planes/b/api",
        );
        // To the same one both may lead.
        check(Some("a.hangar.test"), Some("127.0.0.1:6443"), "/control-planes/a/api", "a /api");
        check(Some("a.hangar.test"), Some("127.0.0.1:6443"), "/api", "a /api");
        check(None, Some("A.hangar.test"), "/control-planes/a", "a ");
        check(Some("a.hangar.test"), None, "/control-planes/aa/api", "a /control-planes/aa/api");
        check(Some("a.hangar.test"), None, "/control-planes/%61/api", "a /control-planes/%61/api");
        check(
            Some("a.hangar.test"),
            None,
            "/control-planes/a/control-planes/b/api",
            "a /control-planes/b/api",
        );
        check(Some("a.hangar.test"), Some("b.hangar.test"), "/api", "misdirected");
        check(Some("a.hangar.test"), Some("localhost"), "/api", "a /api");
        check(Some("localhost"), Some("b.hangar.test"), "/api", "misdirected");
        check(Some("x.a.hangar.test"), None, "/api", "host /api");
        check(Some("hangar.test"), None, "/api", "host /api");
        check(Some(".hangar.test"), None, "/api", "host /api");
    }
}
