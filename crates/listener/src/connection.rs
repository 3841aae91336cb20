//! From an accepted socket to requests with their door attached.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use apiserver::{ApiServer, Body, BoxError, Door};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION};
use http::{Request, Response, StatusCode, Uri};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use objects::{Reason, Status};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::doors::{Destination, Doors};
use crate::gathering::Gathering;
use crate::limits::{Active, Connections, Limits, Open};
use crate::lingering::Lingering;
use crate::progress::{Progress, Stalling, Streams};
use crate::tls::{self, ServingCertificate, TlsError};
use crate::unread::{self, Lent};

/// A client that does not finish its handshake in this time is not coming.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for the head of an HTTP/1.1 request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// After the last request has been told to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// For a client to hear that its connection is closed to make room for others.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);
/// Connections that cannot be accepted are reported no more often than this.
const ACCEPT_REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Large enough that a list of megabytes is not sent in 64 KiB steps of acknowledgement.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// A client-go program opens a stream per informer; a thousand is more than any has been seen to want.
const STREAMS_PER_CONNECTION: u32 = 1_000;
const HEADER_BYTES: u32 = 256 << 10;

#[derive(Clone, Debug)]
pub struct Options {
    pub doors: Doors,
    pub limits: Limits,
}

#[derive(thiserror::Error, Debug)]
pub enum ListenError {
    #[error("cannot listen on {address}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound socket, not yet serving.
pub struct Listener {
    socket: TcpListener,
    acceptor: TlsAcceptor,
    options: Arc<Options>,
}

impl Listener {
    pub async fn bind(
        address: SocketAddr,
        certificate: Arc<ServingCertificate>,
        options: Options,
    ) -> Result<Self, ListenError> {
        let socket =
            TcpListener::bind(address).await.map_err(|source| ListenError::Bind { address, source })?;
        let acceptor = TlsAcceptor::from(tls::server_config(certificate)?);
        Ok(Listener { socket, acceptor, options: Arc::new(options) })
    }

    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop`; then accepts nothing more, lets running requests end, and returns.
    pub async fn serve(self, server: ApiServer, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let table = Connections::new(self.options.limits);
        let mut reported = None;
        loop {
            tokio::select! {
                () = table.room() => {}
                () = stop.cancelled() => break,
            };
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let (stream, remote) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to come free.
                    if reported.is_none_or(|at: Instant| at.elapsed() > ACCEPT_REPORT_INTERVAL) {
                        reported = Some(Instant::now());
                        tracing::warn!(%error, "failed to accept a connection");
                    }
                    table.out_of_files();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Some(open) = table.admit(remote.ip()) else { continue };
            let connection = Connection {
                acceptor: self.acceptor.clone(),
                options: self.options.clone(),
                server: server.clone(),
                stop: stop.clone(),
                remote,
                open: Arc::new(open),
            };
            connections.spawn(connection.run(stream));
        }
        drop(self.socket);
        connections.close();
        if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time and were cut");
        }
    }
}

struct Connection {
    acceptor: TlsAcceptor,
    options: Arc<Options>,
    server: ApiServer,
    stop: CancellationToken,
    remote: SocketAddr,
    open: Arc<Open>,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        // Watch events are small and must not wait for more of them.
        let _ = stream.set_nodelay(true);
        let stall = self.options.limits.stall_timeout;
        let stream = Stalling::new(stream, stall);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream));
        let handshake = tokio::select! {
            handshake = handshake => handshake,
            () = self.open.closed() => return,
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(remote = %self.remote, %error, "handshake failed"),
            Err(_) => return tracing::debug!(remote = %self.remote, "handshake timed out"),
        };
        let peer = Arc::new(Peer::of(&stream, self.remote));
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = Gathering::new(Lingering::new(stream, peer.cut.clone()), http2);
        let mut builder = auto::Builder::new(Streams::new(stall));
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .max_header_list_size(HEADER_BYTES)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .keep_alive_interval(Duration::from_secs(30));
        let (server, options, open) = (self.server, self.options, self.open);
        let deadline = Instant::now() + options.limits.first_request_timeout;
        let service = {
            let open = open.clone();
            service_fn(move |request| {
                let (server, options, peer, open) =
                    (server.clone(), options.clone(), peer.clone(), open.clone());
                async move {
                    let active = open.begin();
                    let has_credentials = peer.has_credentials(&request);
                    let response = answer(server, &options.doors, &peer, request).await;
                    if has_credentials && tells_of_a_user(response.status()) {
                        open.authenticated();
                    }
                    Ok::<_, Infallible>(response.map(|body| Counted {
                        body,
                        progress: Progress::current(),
                        _active: active,
                    }))
                }
            })
        };
        let mut connection =
            std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let first_request = async {
            tokio::time::sleep_until(deadline.into()).await;
            if open.has_asked() {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                // What has begun is finished, nothing new is begun.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = first_request => {
                return tracing::debug!(remote = %self.remote, "no request in time");
            }
            () = open.closed() => {
                if !open.has_asked() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                // A request that came in at this moment is finished.
                loop {
                    match tokio::time::timeout(CLOSE_TIMEOUT, connection.as_mut()).await {
                        Ok(ended) => break ended,
                        Err(_) if open.is_idle() => return,
                        Err(_) => {}
                    }
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(remote = %self.remote, %error, "connection ended early");
        }
    }
}

/// What the handshake told of the other side.
struct Peer {
    server_name: Option<String>,
    certificates: Arc<Vec<Vec<u8>>>,
    remote: SocketAddr,
    /// The connection ends, and not all that was sent on it was read.
    cut: Arc<AtomicBool>,
}

impl Peer {
    fn of<S>(stream: &TlsStream<S>, remote: SocketAddr) -> Self {
        let (_, session) = stream.get_ref();
        let certificates = session.peer_certificates().unwrap_or_default();
        Peer {
            server_name: session.server_name().map(str::to_owned),
            certificates: Arc::new(certificates.iter().map(|der| der.as_ref().to_vec()).collect()),
            remote,
            cut: Arc::default(),
        }
    }

    fn has_credentials<B>(&self, request: &Request<B>) -> bool {
        !self.certificates.is_empty() || request.headers().contains_key(AUTHORIZATION)
    }
}

/// Returns true if a request with credentials got an answer that only those with valid ones get. Invalid credentials
/// are answered with 401, and what comes before authentication with other codes.
fn tells_of_a_user(status: StatusCode) -> bool {
    status.is_success() || matches!(status, StatusCode::FORBIDDEN | StatusCode::SWITCHING_PROTOCOLS)
}

/// A body whose connection is not idle until it has been sent.
struct Counted {
    body: Body,
    progress: Option<Arc<Progress>>,
    _active: Active,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(progress) = &this.progress else { return Pin::new(&mut this.body).poll_frame(cx) };
        progress.asked();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            progress.given(data.len());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn answer(server: ApiServer, doors: &Doors, peer: &Peer, request: Request<Incoming>) -> Response<Body> {
    let (request, rest) = unread::lend(request);
    let response = rest.settle(judged(server, doors, peer, request).await).await;
    peer.cut.fetch_or(response.headers().contains_key(CONNECTION), Ordering::Relaxed);
    response
}

async fn judged(server: ApiServer, doors: &Doors, peer: &Peer, mut request: Request<Lent>) -> Response<Body> {
    // RFC 9112, 3.2: two parties that read different ones would disagree about whom the request is for.
    if request.headers().get_all(http::header::HOST).iter().nth(1).is_some() {
        return apiserver::status_response(&Status::bad_request("too many Host headers"));
    }
    let uri = request.uri();
    let host = uri.host().or_else(|| request.headers().get(http::header::HOST)?.to_str().ok());
    let (name, prefix) = match doors.destination(peer.server_name.as_deref(), host, uri.path()) {
        Destination::ControlPlane { name, prefix } => (name, prefix),
        Destination::Misdirected => {
            let mut status = Status::new(Reason::BadRequest, "this connection is for another control plane");
            status.code = http::StatusCode::MISDIRECTED_REQUEST.as_u16();
            return apiserver::status_response(&status);
        }
    };
    let door_prefix = uri.path()[..prefix].into();
    if prefix > 0
        && let Some(stripped) = strip(uri, prefix)
    {
        *request.uri_mut() = stripped;
    }
    request.extensions_mut().insert(Door {
        control_plane: name,
        prefix: door_prefix,
        certificates: peer.certificates.clone(),
        remote: Some(peer.remote),
        identity: None,
    });
    match server.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The same URI with the first bytes of its path taken away.
fn strip(uri: &Uri, prefix: usize) -> Option<Uri> {
    let path = &uri.path()[prefix..];
    let path = if path.is_empty() { "/" } else { path };
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.parse().ok()?);
    if parts.authority.is_some() != parts.scheme.is_some() {
        (parts.authority, parts.scheme) = (None, None);
    }
    Uri::from_parts(parts).ok()
}
