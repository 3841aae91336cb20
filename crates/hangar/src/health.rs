//! Whether a process without an API of its own is well, for whoever restarts it; and what it counts.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use provision::Metrics;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Answers `/healthz` from now on, and `/readyz` once it is ready, until it is stopped.
pub async fn serve(
    address: SocketAddr,
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    answer(address, stop, move |method, path| {
        let (code, text) = said(method, path, ready.load(Ordering::Relaxed));
        (code, Bytes::from_static(text.as_bytes()))
    })
    .await
}

/// Answers `/metrics` with what the clouds' engine counts, until it is stopped.
pub async fn serve_metrics(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    answer(address, stop, move |method, path| match path {
        "/metrics" if *method == Method::GET => (StatusCode::OK, metrics.text().into()),
        _ => (StatusCode::NOT_FOUND, "not found\n".into()),
    })
    .await
}

async fn answer(
    address: SocketAddr,
    stop: CancellationToken,
    said: impl Fn(&Method, &str) -> (StatusCode, Bytes) + Clone + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    tokio::spawn(async move {
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            let Ok((stream, _)) = accepted else { continue };
            let said = said.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let (code, text) = said(request.method(), request.uri().path());
                let mut response = Response::new(Full::new(text));
                *response.status_mut() = code;
                std::future::ready(Ok::<_, Infallible>(response))
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            // Who connects and says nothing is not waited for.
            http.timer(TokioTimer::new())
                .header_read_timeout(std::time::Duration::from_secs(10))
                .keep_alive(false);
            tokio::spawn(async move {
                let _ = http.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    Ok(())
}

fn said(method: &Method, path: &str, ready: bool) -> (StatusCode, &'static str) {
    match path {
        _ if method != Method::GET && method != Method::HEAD => {
            (StatusCode::METHOD_NOT_ALLOWED, "only GET\n")
        }
        "/healthz" | "/livez" => (StatusCode::OK, "ok"),
        "/readyz" if ready => (StatusCode::OK, "ok"),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "not ready yet\n"),
        _ => (StatusCode::NOT_FOUND, "not found\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |path: &str, ready: bool, expected: u16| {
            assert_eq!(said(&Method::GET, path, ready).0.as_u16(), expected, "{path} {ready}");
        };
        check("/healthz", false, 200);
        check("/readyz", false, 503);
        check("/readyz", true, 200);
        check("/metrics", true, 404);
        assert_eq!(said(&Method::POST, "/readyz", true).0.as_u16(), 405);
    }
}
