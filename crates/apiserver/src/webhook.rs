//! Calls out of the server: to webhooks that convert custom resources.
//!
//! A webhook is named by a URL, or by a Service of the control plane, which is reached at its endpoints.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use objects::{Reason, Status, Value, meta};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::read;
use crate::service::Failure;
use crate::stations::decode::BODY_LIMIT;
use crate::surface::Definition;

/// As upstream: how long a conversion may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What a webhook may answer: as much as it was asked, and some.
const ANSWER_LIMIT: usize = 2 * BODY_LIMIT;

#[derive(thiserror::Error, Debug)]
enum CallError {
    #[error("the webhook's address {0:?} cannot be used")]
    Address(String),
    #[error("service {0:?} has no endpoint")]
    NoEndpoint(String),
    #[error("the webhook's caBundle holds no certificate")]
    Authority,
    #[error("Post {url:?}: {why}")]
    Failed { url: String, why: String },
    #[error("the webhook answered {0}")]
    Code(u16),
    #[error("the webhook's answer is no JSON: {0}")]
    Answer(serde_json::Error),
}

/// Where a webhook is.
struct Destination {
    /// Whom to open a connection to.
    host: String,
    port: u16,
    /// Whose certificate it must show.
    server_name: String,
    path: String,
}

impl Destination {
    async fn of(engine: &Engine, plane: &ControlPlane, config: &Value) -> Result<Destination, CallError> {
        if let Some(url) = config.get("url").and_then(Value::as_str) {
            let bad = || CallError::Address(url.to_owned());
            let uri: Uri = url.parse().map_err(|_| bad())?;
            let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
            let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
            return Ok(Destination {
                server_name: host.clone(),
                host,
                port: uri.port_u16().unwrap_or(443),
                path,
            });
        }
        let text = |field: &str| {
            config.pointer(&format!("/service/{field}")).and_then(Value::as_str).unwrap_or_default()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let wanted = config.pointer("/service/port").and_then(Value::as_u64).unwrap_or(443);
        let (host, port) = endpoint(engine, plane, namespace, name, wanted)
            .await
            .ok_or_else(|| CallError::NoEndpoint(format!("{namespace}/{name}")))?;
        let path = text("path");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Destination { host, port, server_name: format!("{name}.{namespace}.svc"), path })
    }

    fn url(&self) -> String {
        format!("https://{}:{}{}", self.server_name, self.port, self.path)
    }
}

/// An address behind a Service, and the port there that its port leads to.
async fn endpoint(
    engine: &Engine,
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    wanted: u64,
) -> Option<(String, u16)> {
    let service = read::object(engine, plane, "services", namespace, name).await.ok()??;
    let ports = service.pointer("/spec/ports")?.as_array()?;
    let port = ports.iter().find(|port| port.get("port").and_then(Value::as_u64) == Some(wanted))?;
    let port_name = port.get("name").and_then(Value::as_str).unwrap_or_default();
    if let Some(host) = service.pointer("/spec/externalName").and_then(Value::as_str) {
        return Some((host.to_owned(), u16::try_from(wanted).ok()?));
    }
    let endpoints = read::object(engine, plane, "endpoints", namespace, name).await.ok()??;
    let subset = endpoints.get("subsets")?.as_array()?.first()?;
    let ip = subset.pointer("/addresses/0/ip")?.as_str()?;
    let ports = subset.get("ports")?.as_array()?;
    let behind =
        ports.iter().find(|p| p.get("name").and_then(Value::as_str).unwrap_or_default() == port_name)?;
    Some((ip.to_owned(), u16::try_from(behind.get("port")?.as_u64()?).ok()?))
}

/// Sends a review to a webhook and returns what it says.
async fn call(
    engine: &Engine,
    plane: &ControlPlane,
    config: &Value,
    review: &Value,
) -> Result<Value, CallError> {
    let destination = Destination::of(engine, plane, config).await?;
    let failed = |why: String| CallError::Failed { url: destination.url(), why };
    let connector = TlsConnector::from(client_config(config)?);
    let exchange = async {
        let tcp = TcpStream::connect((destination.host.as_str(), destination.port)).await;
        let tcp = tcp.map_err(|error| failed(error.to_string()))?;
        let name = ServerName::try_from(destination.server_name.clone())
            .map_err(|_| CallError::Address(destination.server_name.clone()))?;
        let tls = connector.connect(name, tcp).await.map_err(|error| failed(error.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
            .await
            .map_err(|e| failed(e.to_string()))?;
        // Ends with the exchange: the sender is dropped with it.
        tokio::spawn(connection);
        let request = Request::post(&destination.path)
            .header(header::HOST, format!("{}:{}", destination.server_name, destination.port))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(review.to_string())))
            .map_err(|error| failed(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
        let code = response.status().as_u16();
        if !(200..300).contains(&code) {
            return Err(CallError::Code(code));
        }
        let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        serde_json::from_slice(&body).map_err(CallError::Answer)
    };
    match tokio::time::timeout(TIMEOUT, exchange).await {
        Ok(answered) => answered,
        Err(_) => Err(failed("context deadline exceeded".to_owned())),
    }
}

fn client_config(config: &Value) -> Result<Arc<ClientConfig>, CallError> {
    let bundle = config.get("caBundle").and_then(Value::as_str).unwrap_or_default();
    let pem = STANDARD.decode(bundle).map_err(|_| CallError::Authority)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem).flatten() {
        roots.add(certificate).map_err(|_| CallError::Authority)?;
    }
    if roots.is_empty() {
        return Err(CallError::Authority);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|_| CallError::Authority)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// An object as another version of its kind shows it, by the definition's webhook.
pub async fn convert(
    engine: &Engine,
    plane: &ControlPlane,
    definition: &Definition,
    object: Value,
    api_version: &str,
) -> Result<Value, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        let kind = meta::kind(&object);
        let from = meta::api_version(&object);
        let message = format!("conversion webhook for {from}, Kind={kind} failed: {why}");
        Failure::from(Status::new(Reason::InternalError, message))
    };
    let null = Value::Null;
    let config = definition.object.pointer("/spec/conversion/webhook/clientConfig").unwrap_or(&null);
    let uid = uuid::Uuid::new_v4().to_string();
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": [object]},
    });
    let answer = call(engine, plane, config, &review).await.map_err(|error| failed(&error))?;
    let response = answer.get("response").unwrap_or(&null);
    if response.get("uid").and_then(Value::as_str) != Some(&uid) {
        return Err(failed(&"expected response.uid to be that of the request"));
    }
    if response.pointer("/result/status").and_then(Value::as_str) != Some("Success") {
        let why = response
            .pointer("/result/message")
            .and_then(Value::as_str)
            .unwrap_or("the webhook gave no reason");
        return Err(failed(&why));
    }
    let converted = response.get("convertedObjects").and_then(Value::as_array).map(Vec::as_slice);
    let Some([converted]) = converted else {
        return Err(failed(&"expected as many converted objects as were sent"));
    };
    if meta::api_version(converted) != api_version || meta::kind(converted) != meta::kind(&object) {
        return Err(failed(&format!("expected {api_version}, got {}", meta::api_version(converted))));
    }
    // A webhook converts, it does not rename: labels and annotations are all it may touch of the metadata.
    let mut result = converted.clone();
    let mut metadata = object.get("metadata").cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match converted.pointer(&format!("/metadata/{field}")) {
            Some(value) => metadata[field] = value.clone(),
            None => drop(metadata.as_object_mut().and_then(|metadata| metadata.remove(field))),
        }
    }
    result["metadata"] = metadata;
    Ok(result)
}
