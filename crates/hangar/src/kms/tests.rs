//! A small plugin that speaks the protocol over a real socket, and encrypts with AES-256-GCM.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper_util::rt::TokioExecutor;
use prost::Message;
use tokio::net::UnixListener;

use super::*;
use crate::keys::{self, KeyOptions};

struct Plugin {
    key: RandomizedNonceKey,
    healthz: &'static str,
    asked: AtomicUsize,
}

impl Plugin {
    fn answer(&self, method: &str, question: &[u8]) -> Result<Vec<u8>, &'static str> {
        match method {
            "Status" => {
                let (version, healthz) = ("v2".to_owned(), self.healthz.to_owned());
                Ok(StatusResponse { version, healthz, key_id: "key-1".to_owned() }.encode_to_vec())
            }
            "Encrypt" => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let mut bytes = EncryptRequest::decode(question).map_err(|_| "no request")?.plaintext;
                let nonce = self.key.seal_in_place_append_tag(Aad::from(b"key-1"), &mut bytes);
                let nonce = nonce.map_err(|_| "not encrypted")?;
                let annotations = BTreeMap::from([("nonce.example.com".to_owned(), nonce.as_ref().to_vec())]);
                let key_id = "key-1".to_owned();
                Ok(EncryptResponse { ciphertext: bytes, key_id, annotations }.encode_to_vec())
            }
            "Decrypt" => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let question = DecryptRequest::decode(question).map_err(|_| "no request")?;
                let nonce = question.annotations.get("nonce.example.com").ok_or("no nonce")?;
                let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| "no nonce")?;
                let mut bytes = question.ciphertext;
                let bound = Aad::from(question.key_id.as_bytes());
                let plain = self.key.open_in_place(nonce, bound, &mut bytes).map_err(|_| "wrong key")?;
                Ok(DecryptResponse { plaintext: plain.to_vec() }.encode_to_vec())
            }
            _ => Err("no such method"),
        }
    }
}

type Answer =
    Response<StreamBody<futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>>;

/// gRPC: a byte and a length before each message, and the status behind them.
async fn serve(plugin: Arc<Plugin>, request: http::Request<Incoming>) -> Result<Answer, Infallible> {
    let method =
        request.uri().path().strip_prefix("/v2.KeyManagementService/").unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut trailers = HeaderMap::new();
    let mut frames = Vec::new();
    match plugin.answer(&method, body.get(5..).unwrap_or_default()) {
        Ok(message) => {
            let length = u32::try_from(message.len()).unwrap_or_default().to_be_bytes();
            frames.push(Ok(Frame::data(Bytes::from([&[0], &length[..], &message].concat()))));
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
        }
        Err(why) => {
            trailers.insert("grpc-status", HeaderValue::from_static("2"));
            trailers.insert("grpc-message", HeaderValue::from_static(why));
        }
    }
    frames.push(Ok(Frame::trailers(trailers)));
    let body = StreamBody::new(futures::stream::iter(frames));
    let response = Response::builder().header("content-type", "application/grpc").body(body);
    Ok(response.unwrap_or_else(|_| unreachable!("the header is one")))
}

fn start(socket: &Path, secret: u8, healthz: &'static str) -> (Arc<Plugin>, tokio::task::JoinHandle<()>) {
    let key = RandomizedNonceKey::new(&AES_256_GCM, &[secret; 32]).unwrap();
    let plugin = Arc::new(Plugin { key, healthz, asked: AtomicUsize::new(0) });
    let listener = UnixListener::bind(socket).unwrap();
    let serving = plugin.clone();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let plugin = serving.clone();
            let service = hyper::service::service_fn(move |request| serve(plugin.clone(), request));
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
        }
    });
    (plugin, task)
}

fn endpoint(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}

#[tokio::test]
async fn a_plugin_encrypts_a_key_and_gives_it_back() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other, sick) =
        (directory.path().join("one"), directory.path().join("other"), directory.path().join("sick"));
    let (plugin, _one) = start(&one, 1, "ok");
    let (_, _other) = start(&other, 2, "ok");
    let (_, _sick) = start(&sick, 1, "the device is locked");
    let kms = Kms::new(&endpoint(&one)).unwrap();
    let wrapped = kms.encrypt(&[9; 32]).await.unwrap();
    assert_eq!(wrapped.key_id, "key-1");
    assert!(!STANDARD.decode(&wrapped.ciphertext).unwrap().windows(32).any(|bytes| bytes == [9; 32]));
    assert_eq!(kms.decrypt(&wrapped).await.unwrap(), [9; 32]);
    assert_eq!(plugin.asked.load(Ordering::Relaxed), 2);
    let refused = |error: anyhow::Error| format!("{error:#}");
    let wrong = Kms::new(&endpoint(&other)).unwrap().decrypt(&wrapped).await.map_err(refused).unwrap_err();
    assert!(wrong.contains("Decrypt") && wrong.ends_with("wrong key"), "{wrong}");
    let sick = Kms::new(&endpoint(&sick)).unwrap().decrypt(&wrapped).await.map_err(refused).unwrap_err();
    assert!(sick.ends_with("the KMS plugin is not healthy: the device is locked"), "{sick}");
    let nobody = Kms::new("unix:///nowhere/kms.sock").unwrap().decrypt(&wrapped).await.map_err(refused);
    assert!(
        nobody
            .unwrap_err()
            .contains("call /v2.KeyManagementService/Status of the KMS plugin at /nowhere/kms.sock")
    );
    for bad in ["", "/run/kms.sock", "unix://relative", "tcp://127.0.0.1:1"] {
        assert!(Kms::new(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn the_key_is_on_disk_only_as_the_plugin_encrypted_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kms.sock");
    let (_, plugin) = start(&socket, 3, "ok");
    let options = KeyOptions { kms_endpoint: Some(endpoint(&socket)), ..KeyOptions::default() };
    let data = directory.path().join("data");
    let made = keys::open(&options, &data, false, false).await.unwrap();
    let again = keys::open(&options, &data, false, true).await.unwrap();
    assert_eq!(made.keys.names(), again.keys.names());
    assert!(!data.join("keys/data.key").exists());
    let rows: Vec<Wrapped> =
        serde_json::from_slice(&std::fs::read(data.join("keys/data.key.kms")).unwrap()).unwrap();
    assert_eq!(rows.len(), 1);
    // Without the plugin there is no start, and no other key.
    plugin.abort();
    let _ = plugin.await;
    std::fs::remove_file(&socket).unwrap();
    let refused = keys::open(&options, &data, false, true).await.err().unwrap();
    assert!(format!("{refused:#}").contains("with the KMS"), "{refused:#}");
}
