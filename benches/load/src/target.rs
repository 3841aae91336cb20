//! The server: where it is, who we are to it, and connections to it.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

pub const JSON: &str = "application/json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// Large enough that the client never makes the server wait.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// One request, ready to be sent.
#[derive(Clone, Default)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub content_type: &'static str,
    pub body: Bytes,
    /// JSON if it is empty.
    pub accept: &'static str,
}

impl Request {
    pub fn get(path: impl Into<String>) -> Request {
        Request { method: "GET", path: path.into(), ..Default::default() }
    }

    pub fn delete(path: impl Into<String>) -> Request {
        Request { method: "DELETE", path: path.into(), ..Default::default() }
    }

    pub fn post(path: impl Into<String>, object: &Value) -> Request {
        Request::with_body("POST", path, JSON, object)
    }

    pub fn put(path: impl Into<String>, object: &Value) -> Request {
        Request::with_body("PUT", path, JSON, object)
    }

    pub fn patch(path: impl Into<String>, content_type: &'static str, patch: &Value) -> Request {
        Request::with_body("PATCH", path, content_type, patch)
    }

    fn with_body(
        method: &'static str,
        path: impl Into<String>,
        content_type: &'static str,
        body: &Value,
    ) -> Request {
        Request { method, path: path.into(), content_type, body: body.to_string().into(), accept: "" }
    }
}

#[derive(Clone)]
pub struct Target {
    host: String,
    port: u16,
    /// What stands before every path: control planes can be parts of a server.
    prefix: String,
    tls: TlsConnector,
    /// Shows no certificate.
    anonymous: TlsConnector,
    name: ServerName<'static>,
    token: Option<String>,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A connection; clones share it.
#[derive(Clone)]
pub struct Connection {
    target: Arc<Target>,
    sender: SendRequest<Body>,
}

impl Target {
    pub fn load(kubeconfig: &Path) -> anyhow::Result<Target> {
        let failed = || format!("cannot use {}", kubeconfig.display());
        let text = std::fs::read_to_string(kubeconfig).with_context(failed)?;
        Target::parse(&text).with_context(failed)
    }

    /// The current context of a kubeconfig.
    pub fn parse(kubeconfig: &str) -> anyhow::Result<Target> {
        let config: Value = serde_saphyr::from_str(kubeconfig)?;
        let context = entry(&config, "context", &config["current-context"])?;
        let cluster = entry(&config, "cluster", &context["cluster"])?;
        let user = entry(&config, "user", &context["user"])?;

        let server = cluster["server"].as_str().context("the cluster has no server")?;
        let rest = server.strip_prefix("https://").with_context(|| format!("{server} is not https"))?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => {
                (host, port.parse().with_context(|| format!("{server} has no valid port"))?)
            }
            None => (authority, 443),
        };

        let provider = Arc::new(crypto::ring::default_provider());
        let mut trusted = RootCertStore::empty();
        let authorities =
            material(cluster, "certificate-authority")?.context("the cluster has no authority")?;
        for certificate in CertificateDer::pem_slice_iter(&authorities) {
            trusted.add(certificate?)?;
        }
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(trusted);
        let mut anonymous = config.clone().with_no_client_auth();
        let mut config = match (material(user, "client-certificate")?, material(user, "client-key")?) {
            (Some(chain), Some(key)) => {
                let chain = CertificateDer::pem_slice_iter(&chain).collect::<Result<_, _>>()?;
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
            }
            _ => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        anonymous.alpn_protocols = config.alpn_protocols.clone();
        let name = cluster["tls-server-name"].as_str().unwrap_or(host).to_owned();
        Ok(Target {
            host: host.to_owned(),
            port,
            prefix: path.trim_end_matches('/').to_owned(),
            tls: TlsConnector::from(Arc::new(config)),
            anonymous: TlsConnector::from(Arc::new(anonymous)),
            name: ServerName::try_from(name)?,
            token: user["token"].as_str().map(|token| format!("Bearer {token}")),
        })
    }

    /// The same server, as whoever has a token.
    pub fn with_token(&self, token: &str) -> Target {
        Target { token: Some(format!("Bearer {token}")), tls: self.anonymous.clone(), ..self.clone() }
    }

    pub async fn connect(self: &Arc<Self>) -> anyhow::Result<Connection> {
        // Names under localhost are this machine, whatever the resolver thinks of them (RFC 6761).
        let host = if self.host.ends_with(".localhost") { "127.0.0.1" } else { &self.host };
        let stream = TcpStream::connect((host, self.port)).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await.context("TLS handshake")?;
        ensure!(stream.get_ref().1.alpn_protocol() == Some(b"h2"), "the server does not speak HTTP/2");
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        // Its end is seen by whoever sends the next request.
        tokio::spawn(driver);
        Ok(Connection { target: self.clone(), sender })
    }
}

/// The whole body of an answer.
pub async fn read(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    Ok(response.into_body().collect().await?.to_bytes())
}

impl Connection {
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Another connection to the same server.
    pub async fn again(&self) -> anyhow::Result<Connection> {
        self.target.connect().await
    }

    /// Sends a request and returns when the answer begins.
    pub async fn send(&self, request: Request) -> anyhow::Result<Response<Incoming>> {
        let body = Full::new(request.body.clone()).boxed_unsync();
        self.send_body(request, body).await
    }

    /// Sends the head of a request and the beginning of its body, and no more.
    pub async fn send_slowly(&self, request: Request, begin: Bytes) -> anyhow::Result<Response<Incoming>> {
        let begun = stream::iter([Ok(Frame::data(begin))]);
        let body = StreamBody::new(begun.chain(stream::pending())).boxed_unsync();
        self.send_body(request, body).await
    }

    async fn send_body(&self, request: Request, body: Body) -> anyhow::Result<Response<Incoming>> {
        let accept = if request.accept.is_empty() { JSON } else { request.accept };
        let Target { host, port, prefix, token, .. } = &*self.target;
        let mut builder = hyper::Request::builder()
            .method(request.method)
            .uri(format!("https://{host}:{port}{prefix}{}", request.path))
            .header("accept", accept)
            .header("user-agent", concat!("load/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = token {
            builder = builder.header("authorization", token);
        }
        if !request.content_type.is_empty() {
            builder = builder.header("content-type", request.content_type);
        }
        let mut sender = self.sender.clone();
        sender.ready().await?;
        Ok(sender.send_request(builder.body(body)?).await?)
    }

    /// The whole answer, whatever it is.
    pub async fn call(&self, request: Request) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.send(request).await?;
        let status = response.status();
        Ok((status, read(response).await?))
    }

    /// The body of an answer that is a success.
    pub async fn succeed(&self, request: Request) -> anyhow::Result<Bytes> {
        let (method, path) = (request.method, request.path.clone());
        let (status, body) = self.call(request).await?;
        if !status.is_success() {
            let words: String = String::from_utf8_lossy(&body).chars().take(400).collect();
            bail!("{method} {path}: {status}: {words}");
        }
        Ok(body)
    }

    pub async fn json(&self, request: Request) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.succeed(request).await?)?)
    }
}

/// `clusters`, `users` and `contexts` are lists of named things.
fn entry<'a>(config: &'a Value, kind: &str, name: &Value) -> anyhow::Result<&'a Value> {
    let entries = config[format!("{kind}s")].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = entries.iter().find(|entry| !name.is_null() && entry["name"] == *name);
    found.map(|entry| &entry[kind]).with_context(|| format!("the kubeconfig has no {kind} {name}"))
}

/// Certificates and keys lie in the kubeconfig itself or in a file beside it.
fn material(entry: &Value, field: &str) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(data) = entry[format!("{field}-data")].as_str() {
        return Ok(Some(STANDARD.decode(data.trim())?));
    }
    let file = entry[field].as_str();
    file.map(|file| std::fs::read(file).with_context(|| format!("cannot read {file}"))).transpose()
}
