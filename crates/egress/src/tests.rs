//! The client against servers on loopback.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::{CallError, Client, Policy, Terms, Tls};

/// What a server does with a connection.
#[derive(Clone)]
enum Behaviour {
    /// Answers with its protocol and the path; to `/large` with 1,000 bytes, to `/moved` with a redirect.
    Answer,
    Tls(Arc<ServerConfig>),
    /// Accepts, and says nothing.
    Hang,
    /// Accepts, and closes.
    Close,
    /// Speaks something else.
    Other,
}

struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn start(behaviour: Behaviour) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { port: listener.local_addr().unwrap().port(), connections: Arc::default() };
        let connections = server.connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, behaviour.clone()));
            }
        });
        server
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, behaviour: Behaviour) {
    match behaviour {
        Behaviour::Answer => {
            let served = hyper::server::conn::http1::Builder::new();
            let _ = served.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        }
        Behaviour::Tls(config) => {
            let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
            let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let (stream, service) = (TokioIo::new(stream), service_fn(answer));
            let _ = match two {
                true => {
                    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    served.serve_connection(stream, service).await
                }
                false => hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await,
            };
        }
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Close => {}
        Behaviour::Other => {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let body = match path {
        "/large" => "x".repeat(1_000),
        path => format!("{:?} {path}", request.version()),
    };
    let moved = path == "/moved";
    let response = Response::builder().status(if moved { 302 } else { 200 });
    Ok(response.header("location", "http://169.254.169.254/").body(Full::new(body.into())).unwrap())
}

/// A certificate for `hook.example`, and a server with it that offers protocols.
fn certified(protocols: &[&str]) -> (Tls, Behaviour) {
    let made = rcgen::generate_simple_self_signed(["hook.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let mut config = config.unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (Tls::trusting(made.cert.pem().as_bytes()), Behaviour::Tls(Arc::new(config)))
}

fn loopback() -> Policy {
    Policy::new("127.0.0.0/8".parse().unwrap())
}

fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

fn terms<'a>(policy: &'a Policy, tls: &'a Tls) -> Terms<'a> {
    let timeout = Duration::from_secs(30);
    Terms { caller: "a", policy, tls, connect_to: None, timeout, max_bytes: 500 }
}

#[tokio::test]
async fn connections_are_kept_for_the_same_caller_and_destination() {
    let server = Server::start(Behaviour::Answer).await;
    let (client, policy, tls) = (Client::default(), loopback(), Tls::system());
    let url = format!("http://127.0.0.1:{}/a", server.port);
    let terms = terms(&policy, &tls);
    for _ in 0..3 {
        let response = client.send(get(&url), &terms).await.unwrap();
        assert_eq!(response.body(), "HTTP/1.1 /a");
    }
    assert_eq!(server.connections(), 1);
    client.send(get(&url), &Terms { caller: "b", ..terms.clone() }).await.unwrap();
    assert_eq!(server.connections(), 2);
    // What is no longer allowed is not reached over a connection from before.
    let none = Policy::default();
    client.send(get(&url), &Terms { policy: &none, ..terms.clone() }).await.unwrap_err();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn nothing_is_kept_when_idle() {
    let server = Server::start(Behaviour::Answer).await;
    let (client, policy, tls) = (Client::default(), loopback(), Tls::system());
    client.send(get(&format!("http://127.0.0.1:{}/", server.port)), &terms(&policy, &tls)).await.unwrap();
    assert_eq!(client.destinations(), 1);
    tokio::time::pause();
    while client.destinations() > 0 {
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tls_by_the_name_of_the_url() {
    for (protocols, expected) in [(vec!["h2", "http/1.1"], "HTTP/2.0 /x"), (vec![], "HTTP/1.1 /x")] {
        let (tls, behaviour) = certified(&protocols);
        let server = Server::start(behaviour).await;
        let (client, policy) = (Client::default(), loopback());
        let terms = Terms { connect_to: Some(("127.0.0.1", server.port)), ..terms(&policy, &tls) };
        for _ in 0..2 {
            let response = client.send(get("https://hook.example/x"), &terms).await.unwrap();
            assert_eq!(response.body(), expected);
        }
        assert_eq!(server.connections(), 1);
        let tls = tls.clone().only_http1();
        let response =
            client.send(get("https://hook.example/x"), &Terms { tls: &tls, ..terms.clone() }).await;
        assert_eq!(response.unwrap().body(), "HTTP/1.1 /x");
        assert_eq!(server.connections(), 2);
        let wrong = client.send(get("https://other.example/x"), &terms).await;
        assert!(matches!(wrong, Err(CallError::NoResponse(_))), "{wrong:?}");
    }
}

#[tokio::test]
async fn redirects_are_for_the_caller_to_judge() {
    let server = Server::start(Behaviour::Answer).await;
    let (policy, tls) = (loopback(), Tls::system());
    let url = format!("http://127.0.0.1:{}/moved", server.port);
    let response = Client::default().send(get(&url), &terms(&policy, &tls)).await.unwrap();
    assert_eq!((response.status().as_u16(), server.connections()), (302, 1));
}

#[tokio::test]
async fn limits() {
    let (policy, tls) = (loopback(), Tls::system());
    let server = Server::start(Behaviour::Answer).await;
    let url = format!("http://127.0.0.1:{}/large", server.port);
    let large = Client::default().send(get(&url), &terms(&policy, &tls)).await;
    assert_eq!(large.unwrap_err(), CallError::TooLarge(500));
    let hanging = Server::start(Behaviour::Hang).await;
    let url = format!("http://127.0.0.1:{}/", hanging.port);
    let short = Terms { timeout: Duration::from_millis(50), ..terms(&policy, &tls) };
    let late = Client::default().send(get(&url), &short).await.unwrap_err();
    assert!(matches!(late, CallError::NoResponse(ref error) if error.was_sent()), "{late:?}");
}

#[tokio::test]
async fn failures_look_alike() {
    let (policy, refusing, tls) = (loopback(), Policy::default(), certified(&[]).0);
    let (_, stranger) = certified(&[]);
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut told = Vec::new();
    let mut check = async |policy: &Policy, port: u16| {
        for scheme in ["https", "http"] {
            let url = format!("{scheme}://127.0.0.1:{port}/");
            let terms = Terms { timeout: Duration::from_millis(500), ..terms(policy, &tls) };
            match Client::default().send(get(&url), &terms).await {
                Err(CallError::NoResponse(error)) => told.push(error.to_string()),
                other => panic!("{url}: {other:?}"),
            }
        }
    };
    check(&refusing, closed).await;
    check(&policy, closed).await;
    for behaviour in [Behaviour::Hang, Behaviour::Close, Behaviour::Other, stranger] {
        let server = Server::start(behaviour).await;
        check(&policy, server.port).await;
        check(&refusing, server.port).await;
        assert_eq!(server.connections(), 2, "one for each scheme, and none where it is refused");
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test]
async fn urls_that_cannot_be_called() {
    let (policy, tls) = (loopback(), Tls::system());
    for (url, why) in [
        ("ftp://127.0.0.1/", "the URL must begin with https:// or http://"),
        ("/a", "the URL must begin with https:// or http://"),
        ("http://user:word@127.0.0.1/", "the URL must not contain a user name or password"),
    ] {
        let refused = Client::default().send(get(url), &terms(&policy, &tls)).await.unwrap_err();
        assert_eq!(refused, CallError::Request(why.to_owned()), "{url}");
    }
    let bundle = Tls::trusting(b"no certificate");
    let refused = Client::default().send(get("https://127.0.0.1:1/"), &terms(&policy, &bundle)).await;
    assert_eq!(refused.unwrap_err().to_string(), "the CA bundle holds no certificate");
}
