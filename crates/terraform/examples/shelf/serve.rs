//! gRPC as a plugin serves it: frames, trailers, mutual TLS.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use terraform::protocol::messages::Stdio;
use tokio::net::UnixListener;

pub enum Reply {
    Message(Vec<u8>),
    Messages(Vec<Vec<u8>>),
    /// The last of them again and again, at a pace that can be borne.
    Endless(Vec<Vec<u8>>),
    /// The same without a pause.
    Flood(Vec<Vec<u8>>),
    /// After which the process ends.
    Last(Vec<Vec<u8>>),
    Failure(u8, String),
}

/// The plugin's side of mutual TLS, as Go plugins have it: an authority of its own with a P-521 key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    config: Arc<rustls::ServerConfig>,
}

impl Identity {
    pub fn generate(client_pem: &str) -> Identity {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512).unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        let certificate = certificate.der().clone();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(client_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![certificate.clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Identity { certificate, config: Arc::new(config) }
    }

    pub fn announced(&self) -> String {
        STANDARD_NO_PAD.encode(&self.certificate)
    }
}

pub async fn serve<F, A>(listener: UnixListener, identity: Identity, answer: F)
where
    F: Fn(String, Vec<u8>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Reply> + Send + 'static,
{
    let acceptor = tokio_rustls::TlsAcceptor::from(identity.config);
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        tokio::spawn(async move {
            let stream = match acceptor.accept(stream).await {
                Ok(stream) => stream,
                Err(error) => return eprintln!("no TLS: {error}"),
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(respond(request, answer).await) }
            });
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn frames(messages: Vec<Vec<u8>>) -> Bytes {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.push(0);
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message);
    }
    bytes.into()
}

/// As go-plugin gives it: in pieces, of both outputs.
fn written() -> Vec<Vec<u8>> {
    let pieces = [(1, "the shelf "), (2, "the shelf creaks\n"), (1, "is open\n")];
    let piece =
        |(channel, text): (i32, &'static str)| Stdio { channel, data: Bytes::from_static(text.as_bytes()) };
    pieces.map(|one| piece(one).encode_to_vec()).into()
}

async fn respond<F, A>(request: Request<Incoming>, answer: F) -> Response<UnsyncBoxBody<Bytes, Infallible>>
where
    F: Fn(String, Vec<u8>) -> A,
    A: Future<Output = Reply>,
{
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    // A byte that says whether it is compressed, and four with the length.
    let message = body.get(5..).unwrap_or_default().to_vec();
    let mut goes = false;
    let reply = match path.strip_prefix("/tfplugin5.Provider/") {
        Some(method) => answer(method.to_owned(), message).await,
        None if path == "/plugin.GRPCController/Shutdown" => {
            goes = true;
            Reply::Message(Vec::new())
        }
        None if path == "/plugin.GRPCStdio/StreamStdio" => Reply::Messages(written()),
        None => Reply::Failure(12, format!("unknown service {path}")),
    };
    if goes {
        tokio::spawn(async {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            std::process::exit(0);
        });
    }
    let response = Response::builder().header("content-type", "application/grpc+proto");
    let mut trailers = HeaderMap::new();
    let bytes = match reply {
        Reply::Endless(messages) => {
            let messages = futures::stream::iter(again(messages).enumerate());
            let paced = messages.then(|(number, message)| async move {
                if number % 50 == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                message
            });
            return response.body(in_pieces(paced)).unwrap();
        }
        Reply::Flood(messages) => {
            return response.body(in_pieces(futures::stream::iter(again(messages)))).unwrap();
        }
        Reply::Last(messages) => {
            let end = futures::stream::once(async {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                std::process::exit(42)
            });
            return response.body(in_pieces(futures::stream::iter(messages).chain(end))).unwrap();
        }
        Reply::Message(message) => {
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            frames(vec![message])
        }
        Reply::Messages(messages) => {
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            frames(messages)
        }
        Reply::Failure(code, text) => {
            trailers.insert("grpc-status", HeaderValue::from(u16::from(code)));
            trailers.insert("grpc-message", HeaderValue::from_str(&text).unwrap());
            Bytes::new()
        }
    };
    let body = Full::new(bytes).with_trailers(async move { Some(Ok(trailers)) });
    response.body(body.boxed_unsync()).unwrap()
}

fn again(messages: Vec<Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
    let last = messages.last().cloned().unwrap_or_default();
    messages.into_iter().chain(std::iter::repeat(last))
}

/// A message at a time, as its reader takes them.
fn in_pieces(
    messages: impl futures::Stream<Item = Vec<u8>> + Send + 'static,
) -> UnsyncBoxBody<Bytes, Infallible> {
    StreamBody::new(messages.map(|message| Ok(Frame::data(frames(vec![message]))))).boxed_unsync()
}
