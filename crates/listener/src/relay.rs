//! Requests for a control plane of another process, over a socket that only the two have.
//!
//! Whoever has the doors ([`Relay`]) tells in headers of our own what it saw there: the client's address, the part of the
//! path that led here, and the certificates that the client proved to have the keys of. Whoever serves the control plane
//! ([`serve`]) makes a [`Door`] of them and judges for itself. It is one connection of HTTP/2 with a stream per request.

use std::convert::Infallible;
use std::sync::Arc;

use apiserver::{ApiServer, Body, Door};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use objects::CompactString;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// What was seen at the door. From a client, headers of these names mean nothing and go no further.
const PREFIX: HeaderName = HeaderName::from_static("hangar-door-prefix");
const REMOTE: HeaderName = HeaderName::from_static("hangar-door-remote");
const CERTIFICATE: HeaderName = HeaderName::from_static("hangar-door-certificate");

/// What belongs to the connection that a request came by, not to the request.
const OF_THE_CONNECTION: [HeaderName; 6] = [
    header::HOST,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    HeaderName::from_static("keep-alive"),
];

/// A client that does not read holds this much of the connection, and the connection has room for sixteen thousand such.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// As many as all connections of the doors may have open.
const STREAMS: u32 = 100_000;
/// Certificates are in the headers, in base64.
const HEADER_BYTES: u32 = 512 << 10;

#[derive(thiserror::Error, Debug)]
pub enum RelayError {
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    #[error("what was seen at the door cannot be told")]
    Door,
}

/// The end that has the doors.
#[derive(Clone)]
pub struct Relay(SendRequest<Body>);

impl Relay {
    /// Speaks over a socket, in the background, until one of the two ends is gone. Nothing is waited for: what is asked
    /// before the other end serves is answered when it does.
    pub async fn open(socket: UnixStream) -> Result<Relay, RelayError> {
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_BYTES);
        let (sender, connection) = builder.handshake(TokioIo::new(socket)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a relay ended early");
            }
        });
        Ok(Relay(sender))
    }

    pub async fn ask(&self, door: &Door, mut request: Request<Body>) -> Result<Response<Body>, RelayError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().scheme("http").authority("control-plane").path_and_query(path).build();
        *request.uri_mut() = uri.map_err(|_| RelayError::Door)?;
        *request.version_mut() = http::Version::HTTP_2;
        // How far it came by other means is nothing to the other process.
        *request.extensions_mut() = http::Extensions::new();
        tell(door, request.headers_mut()).ok_or(RelayError::Door)?;
        let response = self.0.clone().send_request(request).await?;
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }
}

fn tell(door: &Door, headers: &mut HeaderMap) -> Option<()> {
    for name in OF_THE_CONNECTION.iter().chain(&[PREFIX, REMOTE, CERTIFICATE]) {
        headers.remove(name);
    }
    headers.insert(PREFIX, HeaderValue::from_str(&door.prefix).ok()?);
    if let Some(remote) = door.remote {
        headers.insert(REMOTE, HeaderValue::from_str(&remote.to_string()).ok()?);
    }
    for certificate in door.certificates.iter() {
        headers.append(CERTIFICATE, HeaderValue::from_str(&STANDARD.encode(certificate)).ok()?);
    }
    Some(())
}

/// The door that was told of.
fn told(control_plane: CompactString, headers: &mut HeaderMap) -> Door {
    let certificates = headers.get_all(CERTIFICATE).iter().filter_map(|text| STANDARD.decode(text).ok());
    let certificates = Arc::new(certificates.collect());
    let text = |value: Option<HeaderValue>| Some(value?.to_str().ok()?.to_owned());
    headers.remove(CERTIFICATE);
    Door {
        control_plane,
        prefix: text(headers.remove(PREFIX)).unwrap_or_default().into(),
        certificates,
        remote: text(headers.remove(REMOTE)).and_then(|remote| remote.parse().ok()),
        identity: None,
    }
}

/// The end that serves the control plane: until `stop`, or until the other end is gone.
pub async fn serve(
    socket: UnixStream,
    control_plane: CompactString,
    server: ApiServer,
    stop: CancellationToken,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        let door = told(control_plane.clone(), request.headers_mut());
        request.extensions_mut().insert(door);
        let server = server.clone();
        async move {
            match server.oneshot(request).await {
                Ok(response) => Ok::<_, Infallible>(response),
                Err(never) => match never {},
            }
        }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTES)
        // Clients go away in the middle of watches all the time; whoever passes that on is no attacker.
        .max_local_error_reset_streams(None);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(socket), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the relay ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(prefix: &str, certificates: &[&[u8]], remote: Option<&str>) -> Door {
        Door {
            control_plane: "a".into(),
            prefix: prefix.into(),
            certificates: Arc::new(certificates.iter().map(|one| one.to_vec()).collect()),
            remote: remote.map(|remote| remote.parse().unwrap()),
            identity: None,
        }
    }

    #[test]
    fn what_is_told_of_a_door_is_what_was_seen_there() {
        let check = |seen: Door| {
            let mut headers = HeaderMap::new();
            // Nobody becomes somebody else by saying so.
            headers.append(CERTIFICATE, HeaderValue::from_static("AAAA"));
            headers.append(REMOTE, HeaderValue::from_static("1.2.3.4:5"));
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            tell(&seen, &mut headers).unwrap();
            let door = told("b".into(), &mut headers);
            assert_eq!(door.control_plane, "b", "the one that is served here, whatever is asked for");
            assert_eq!(door.certificates, seen.certificates);
            assert_eq!((door.prefix, door.remote), (seen.prefix, seen.remote));
            assert_eq!(headers.keys().collect::<Vec<_>>(), [header::AUTHORIZATION]);
        };
        check(door("", &[], None));
        check(door("/control-planes/a", &[b"leaf", b"\0\xff"], Some("127.0.0.1:5")));
        check(door("", &[b"leaf"], Some("[::1]:5")));
    }
}
