//! A client that says whatever it likes: any name in the handshake, any path, any header, any certificate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::pki::Issued;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a client shows of itself.
#[derive(Clone, Default)]
pub struct Credential {
    /// For messages of this test.
    pub what: String,
    /// A chain as PEM, and its key.
    pub certificate: Option<(String, String)>,
    pub token: Option<String>,
}

impl Credential {
    pub fn nobody() -> Credential {
        Credential { what: "nobody".to_owned(), ..Credential::default() }
    }

    pub fn certificate(what: impl Into<String>, issued: &Issued) -> Credential {
        let pair = (issued.certificate.clone(), issued.key.expose().clone());
        Credential { what: what.into(), certificate: Some(pair), token: None }
    }

    pub fn token(what: impl Into<String>, token: impl Into<String>) -> Credential {
        Credential { what: what.into(), certificate: None, token: Some(token.into()) }
    }
}

/// A way to the server: what the handshake names, what the request names, what the path begins with.
#[derive(Clone, Debug)]
pub struct Door {
    pub server_name: Option<String>,
    pub host: String,
    pub prefix: String,
}

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    /// Everything that came back, headers included.
    pub text: String,
}

/// How to reach the server.
#[derive(Clone)]
pub struct Network {
    pub address: SocketAddr,
    pub roots: Arc<RootCertStore>,
}

impl Network {
    /// A connection after the handshake, with no request yet.
    pub async fn connect(
        &self,
        server_name: Option<&str>,
        credential: &Credential,
        protocol: &[u8],
    ) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(self.roots.clone());
        let mut config = match &credential.certificate {
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                    .unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        // An address is no name: nothing is sent.
        let name = server_name.map_or_else(|| self.address.ip().to_string(), str::to_owned);
        let stream = TcpStream::connect(self.address).await.unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from(name).unwrap(), stream)
            .await
            .unwrap()
    }

    /// One HTTP/1.1 request, byte for byte as given; the door's prefix is not put before the path.
    pub async fn raw(
        &self,
        server_name: Option<&str>,
        credential: &Credential,
        head: &str,
        body: &str,
    ) -> Answer {
        let bearer = credential.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let length = body.len();
        let request = format!(
            "{head}\r\n{}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}",
            bearer.unwrap_or_default()
        );
        self.exchange(server_name, credential, request.as_bytes()).await
    }

    /// A read with headers that need not be text.
    pub async fn bytes(&self, door: &Door, credential: &Credential, path: &str, headers: &[&[u8]]) -> Answer {
        let (host, prefix) = (&door.host, &door.prefix);
        let line = format!("GET {prefix}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        let request = [line.as_bytes(), &headers.join(&b"\r\n"[..]), b"\r\n\r\n"].concat();
        self.exchange(door.server_name.as_deref(), credential, &request).await
    }

    async fn exchange(&self, server_name: Option<&str>, credential: &Credential, request: &[u8]) -> Answer {
        let mut stream = self.connect(server_name, credential, b"http/1.1").await;
        stream.write_all(request).await.unwrap();
        let mut read = Vec::new();
        // Whoever is cut off in the middle of an answer has still read the part before.
        let _ =
            tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await.expect("an answer in time");
        let text = String::from_utf8_lossy(&read).into_owned();
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Answer { code, text }
    }

    /// Several HTTP/1.1 requests on one connection that is to be kept, as long as the answers leave it open.
    pub async fn kept(&self, door: &Door, credential: &Credential, requests: &[String]) -> Vec<Answer> {
        let stream = self.connect(door.server_name.as_deref(), credential, b"http/1.1").await;
        let (mut reading, mut writing) = tokio::io::split(stream);
        let mut answers: Vec<Answer> = Vec::new();
        for request in requests {
            let write = writing.write_all(request.as_bytes());
            let read = async {
                let mut read = Vec::new();
                loop {
                    let text = String::from_utf8_lossy(&read).into_owned();
                    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if length.is_some_and(|length| length.parse() == Ok(body.len())) {
                        break text;
                    }
                    assert!(reading.read_buf(&mut read).await.unwrap() > 0, "cut off: {text}");
                }
            };
            let both = async { tokio::join!(write, read) };
            let (written, text) = tokio::time::timeout(PATIENCE, both).await.expect("an answer in time");
            written.expect("it was heard out");
            let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
            let ended = text.contains("connection: close");
            answers.push(Answer { code, text });
            if ended {
                break;
            }
        }
        answers
    }

    /// A request through a door, as a well-behaved client sends it.
    pub async fn ask(
        &self,
        door: &Door,
        credential: &Credential,
        method: &str,
        path: &str,
        body: &str,
    ) -> Answer {
        let (host, prefix) = (&door.host, &door.prefix);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let head = format!("{method} {prefix}{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}");
        self.raw(door.server_name.as_deref(), credential, &head, body).await
    }

    /// A watch that has begun: what it says is read bit by bit.
    pub async fn watch(&self, door: &Door, credential: &Credential, path: &str) -> Watch {
        let (host, prefix) = (&door.host, &door.prefix);
        let bearer = credential.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let bearer = bearer.unwrap_or_default();
        let request =
            format!("GET {prefix}{path} HTTP/1.1\r\nHost: {host}\r\n{bearer}Connection: close\r\n\r\n");
        let mut stream = self.connect(door.server_name.as_deref(), credential, b"http/1.1").await;
        stream.write_all(request.as_bytes()).await.unwrap();
        Watch { stream, read: String::new() }
    }

    /// An HTTP/2 connection through a door, for many requests.
    pub async fn open(&self, door: &Door, credential: &Credential) -> Connection {
        let stream = self.connect(door.server_name.as_deref(), credential, b"h2").await;
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Connection { sender, door: door.clone(), token: credential.token.clone() }
    }
}

pub struct Watch {
    stream: TlsStream<TcpStream>,
    read: String,
}

impl Watch {
    /// Reads until this has been said, or to the end if that is nothing.
    pub async fn until(&mut self, said: Option<&str>) -> &str {
        let mut bytes = Vec::new();
        let reading = async {
            while said.is_none_or(|said| !self.read.contains(said)) {
                bytes.clear();
                if self.stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    assert!(said.is_none(), "it ended: {}", self.read);
                    break;
                }
                self.read.push_str(&String::from_utf8_lossy(&bytes));
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("it is said in time");
        &self.read
    }
}

pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    door: Door,
    token: Option<String>,
}

impl Connection {
    /// `authority` is the pseudo header; `headers` may say something else.
    pub async fn send(
        &mut self,
        method: &str,
        authority: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("https://{authority}{}{path}", self.door.prefix))
            .header("content-type", kind);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = tokio::time::timeout(PATIENCE, self.sender.send_request(request)).await;
        let response = response.expect("an answer in time").unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Answer {
            code: head.status.as_u16(),
            text: format!("{:?}\n{}", head.headers, String::from_utf8_lossy(&body)),
        }
    }

    pub async fn ask(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let host = self.door.host.clone();
        self.send(method, &host, path, &[], body).await
    }
}
