//! Floods of connections, and well-behaved clients beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use listener::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::CONFIG_MAPS;
use super::client::Credential;
use super::world::{NOTE, World};

/// Longer than anything here takes, and shorter than the tests may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for the server to close a connection.
async fn ended(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut read = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await;
    assert!(ended.is_ok(), "the connection is still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_a_request_are_closed() {
    let limits = Limits { first_request_timeout: Duration::from_millis(300), ..Limits::new(100) };
    let world = World::with_limits(limits).await;
    let tenant = world.tenant("a").await;
    let attempts: [(&[u8], &str); 5] = [
        (b"h2", ""),
        (b"http/1.1", ""),
        (b"h2", "PRI * HTT"),
        (b"h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
        (b"http/1.1", "GET /version HT"),
    ];
    for credential in [Credential::nobody(), tenant.credentials[0].clone()] {
        for (protocol, sent) in attempts {
            let mut stream = world.network.connect(Some("localhost"), &credential, protocol).await;
            stream.write_all(sent.as_bytes()).await.unwrap();
            ended(&mut stream).await;
        }
    }
    // Whoever has asked once may be idle for longer than that.
    let mut connection = world.network.open(&world.by_path("a"), &tenant.credentials[0]).await;
    assert_eq!(connection.ask("GET", NOTE, "").await.code, 200);
    tokio::time::sleep(limits.first_request_timeout * 3).await;
    assert_eq!(connection.ask("GET", NOTE, "").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_shut_nobody_out() {
    let limits = Limits { max_per_address: 120, max_unauthenticated: 60, ..Limits::new(120) };
    let world = Arc::new(World::with_limits(limits).await);
    let tenant = world.tenant("a").await;
    let mut known = world.network.open(&world.by_path("a"), &tenant.credentials[0]).await;
    assert_eq!(known.ask("GET", NOTE, "").await.code, 200);

    let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flood = |credential: Credential| {
        let (network, stop, opened) = (world.network.clone(), stop.clone(), opened.clone());
        tokio::spawn(async move {
            let mut open = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let (network, credential) = (network.clone(), credential.clone());
                // One that is closed in its handshake fails.
                let connect =
                    tokio::spawn(async move { network.connect(Some("localhost"), &credential, b"h2").await });
                open.extend(connect.await);
                opened.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let floods = [Credential::nobody(), tenant.weak.clone()].map(flood);
    let mut asked = 0;
    while asked < 10 || opened.load(Ordering::Relaxed) < 3 * limits.max_connections {
        let answer = world.network.ask(&world.by_path("a"), &tenant.credentials[1], "GET", NOTE, "").await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        assert_eq!(known.ask("GET", NOTE, "").await.code, 200, "a connection in use stays");
        asked += 1;
    }
    stop.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_nobody_reads_is_reset_and_others_go_on() {
    let limits = Limits { stall_timeout: Duration::from_millis(500), ..Limits::new(100) };
    let world = World::with_limits(limits).await;
    let tenant = world.tenant("a").await;
    let token = &tenant.credentials[1];
    for number in 0..4 {
        let body =
            json!({"metadata": {"name": format!("large-{number}")}, "data": {"text": "x".repeat(400 << 10)}});
        let made =
            world.network.ask(&world.by_path("a"), token, "POST", CONFIG_MAPS, &body.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }
    let stream = world.network.connect(Some("localhost"), token, b"h2").await;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(65_535);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let bearer = format!("Bearer {}", token.token.as_deref().unwrap());
    let get = |path: &str| {
        let request = http::Request::get(format!("https://localhost/control-planes/a{path}"));
        request.header("authorization", &bearer).body(Full::<Bytes>::default()).unwrap()
    };
    let unread = sender.send_request(get(CONFIG_MAPS)).await.unwrap();
    assert_eq!(unread.status(), 200);
    let gone = async {
        while world.engine.fairness.open(tenant.plane.id).0 > 0 || world.engine.fairness.budget().used() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, gone).await.is_ok(), "the answer is still held");
    assert!(unread.into_body().collect().await.is_err(), "it was cut");
    let read = sender.send_request(get(NOTE)).await.unwrap();
    assert_eq!(read.status(), 200, "the connection goes on");
    assert!(read.into_body().collect().await.is_ok());
    let read = sender.send_request(get(CONFIG_MAPS)).await.unwrap();
    assert!(read.into_body().collect().await.unwrap().to_bytes().len() > 1 << 20, "who reads gets it all");
}
