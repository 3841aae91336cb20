//! The first line a plugin writes: `CORE|APP|NETWORK|ADDRESS|PROTOCOL|CERTIFICATE`.

use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::protocol::Version;

/// A plugin started without it tells its user that it is not meant to be run by hand.
pub const COOKIE: (&str, &str) =
    ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2");

/// The version of the handshake itself.
const CORE: &str = "1";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    pub version: Version,
    pub address: Address,
    /// The certificate the plugin will show, if it speaks TLS.
    pub certificate: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("its first line is not a handshake")]
    NotAHandshake,
    #[error("its handshake is of version {0:?}, not 1")]
    Core(String),
    #[error("its protocol version is {0}")]
    Version(String),
    #[error("it wants to talk over {0:?}, not gRPC")]
    Protocol(String),
    #[error("its address {0:?} is not one of this machine")]
    Address(String),
    #[error("its certificate is not base64")]
    Certificate,
}

impl Handshake {
    pub fn parse(line: &str) -> Result<Handshake, HandshakeError> {
        let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('|').collect();
        let [core, app, network, address, rest @ ..] = fields.as_slice() else {
            return Err(HandshakeError::NotAHandshake);
        };
        if *core != CORE {
            return Err(HandshakeError::Core(excerpt(core)));
        }
        let version = app.parse().ok().and_then(Version::of_number);
        let version = version.ok_or_else(|| HandshakeError::Version(excerpt(app)))?;
        // Before the field was there, plugins spoke Go's own protocol.
        let protocol = rest.first().copied().unwrap_or("netrpc");
        if protocol != "grpc" {
            return Err(HandshakeError::Protocol(excerpt(protocol)));
        }
        let wrong = || HandshakeError::Address(excerpt(address));
        let address = match *network {
            "unix" if address.starts_with('/') => Address::Unix(PathBuf::from(address)),
            "tcp" => {
                let socket: SocketAddr =
                    address.replacen("localhost", "127.0.0.1", 1).parse().map_err(|_| wrong())?;
                if !socket.ip().is_loopback() {
                    return Err(wrong());
                }
                Address::Tcp(socket)
            }
            _ => return Err(wrong()),
        };
        let certificate = match rest.get(1).copied().unwrap_or_default() {
            "" => None,
            text => Some(
                STANDARD_NO_PAD
                    .decode(text.trim_end_matches('='))
                    .map_err(|_| HandshakeError::Certificate)?,
            ),
        };
        Ok(Handshake { version, address, certificate })
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line: &str, expected: Result<(Version, Address, bool), HandshakeError>| {
            let found = Handshake::parse(line).map(|h| (h.version, h.address, h.certificate.is_some()));
            assert_eq!(found, expected, "{line}");
        };
        let unix = |path: &str| Address::Unix(path.into());
        check("1|5|unix|/run/p1|grpc|\n", Ok((Version::V5, unix("/run/p1"), false)));
        check("1|6|unix|/run/p1|grpc|aGVsbG8", Ok((Version::V6, unix("/run/p1"), true)));
        check("1|6|unix|/run/p1|grpc|aGVsbG8|true\r\n", Ok((Version::V6, unix("/run/p1"), true)));
        check(
            "1|6|tcp|127.0.0.1:1234|grpc|",
            Ok((Version::V6, Address::Tcp(([127, 0, 0, 1], 1234).into()), false)),
        );
        check(
            "1|6|tcp|localhost:1234|grpc",
            Ok((Version::V6, Address::Tcp(([127, 0, 0, 1], 1234).into()), false)),
        );
        check("1|6|tcp|192.0.2.1:1234|grpc", Err(HandshakeError::Address("192.0.2.1:1234".into())));
        check("1|6|unix|relative|grpc", Err(HandshakeError::Address("relative".into())));
        check("1|4|unix|/run/p1|grpc|", Err(HandshakeError::Version("4".into())));
        check("2|6|unix|/run/p1|grpc|", Err(HandshakeError::Core("2".into())));
        check("1|6|unix|/run/p1", Err(HandshakeError::Protocol("netrpc".into())));
        check("1|6|unix|/run/p1|grpc|***", Err(HandshakeError::Certificate));
        check("This binary is a plugin.", Err(HandshakeError::NotAHandshake));
        check("", Err(HandshakeError::NotAHandshake));
    }
}
