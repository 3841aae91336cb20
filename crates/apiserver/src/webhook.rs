//! Calls out of the server to webhooks of a control plane.
//!
//! A webhook is named by a URL, or by a Service of the control plane, which is reached at its endpoints. Both are chosen
//! by the tenant: the calls go through [`egress`], which judges the address that is dialled.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use egress::{Terms, Tls};
use http::{Request, Uri, header};
use objects::Value;

use crate::control_plane::ControlPlane;
use crate::engine::Engine;
use crate::read;
use crate::stations::decode::BODY_LIMIT;

/// What a webhook may answer: as much as it was asked, and some.
const MAX_RESPONSE_BYTES: usize = 2 * BODY_LIMIT;

#[derive(thiserror::Error, Debug)]
pub enum CallError {
    #[error("the URL {0:?} is not an https:// URL")]
    Url(String),
    #[error("service {0:?} has no endpoint")]
    NoEndpoint(String),
    #[error("the caBundle is not base64")]
    Authority,
    #[error("Post {url:?}: {error}")]
    Failed { url: String, error: egress::CallError },
    #[error("the server responded with status {0}")]
    Code(u16),
}

/// Where a webhook is.
struct Destination {
    url: Uri,
    /// What to connect to, where that is not the host of the URL.
    endpoint: Option<(String, u16)>,
}

impl Destination {
    async fn of(engine: &Engine, plane: &ControlPlane, config: &Value) -> Result<Destination, CallError> {
        if let Some(url) = config.get("url").and_then(Value::as_str) {
            let parsed = url.parse().ok().filter(|uri: &Uri| uri.scheme_str() == Some("https"));
            let url = parsed.ok_or_else(|| CallError::Url(url.to_owned()))?;
            return Ok(Destination { url, endpoint: None });
        }
        let text = |field: &str| {
            config.pointer(&format!("/service/{field}")).and_then(Value::as_str).unwrap_or_default()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let port = config.pointer("/service/port").and_then(Value::as_u64).unwrap_or(443);
        let endpoint = endpoint(engine, plane, namespace, name, port).await;
        let endpoint = endpoint.ok_or_else(|| CallError::NoEndpoint(format!("{namespace}/{name}")))?;
        let url = format!("https://{name}.{namespace}.svc:{port}/{}", text("path").trim_start_matches('/'));
        let url = url.parse().map_err(|_| CallError::Url(url))?;
        Ok(Destination { url, endpoint: Some(endpoint) })
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
    if let Some(host) = service.pointer("/spec/externalName").and_then(Value::as_str) {
        return Some((host.to_owned(), u16::try_from(wanted).ok()?));
    }
    let ports = service.pointer("/spec/ports")?.as_array()?;
    let port = ports.iter().find(|port| port.get("port").and_then(Value::as_u64) == Some(wanted))?;
    let port_name = port.get("name").and_then(Value::as_str).unwrap_or_default();
    let endpoints = read::object(engine, plane, "endpoints", namespace, name).await.ok()??;
    endpoints.get("subsets")?.as_array()?.iter().find_map(|subset| {
        let ip = subset.pointer("/addresses/0/ip")?.as_str()?;
        let ports = subset.get("ports")?.as_array()?;
        let is_named =
            |port: &&Value| port.get("name").and_then(Value::as_str).unwrap_or_default() == port_name;
        let behind = ports.iter().find(is_named)?.get("port")?.as_u64()?;
        Some((ip.to_owned(), u16::try_from(behind).ok()?))
    })
}

/// Sends a review to a webhook and returns what it answers.
pub async fn call(
    engine: &Engine,
    plane: &ControlPlane,
    config: &Value,
    review: Bytes,
    timeout: Duration,
) -> Result<Bytes, CallError> {
    let destination = Destination::of(engine, plane, config).await?;
    let tls = match config.get("caBundle").and_then(Value::as_str).unwrap_or_default() {
        "" => Tls::system(),
        bundle => Tls::trusting(&STANDARD.decode(bundle).map_err(|_| CallError::Authority)?),
    };
    let failed = |error| CallError::Failed { url: destination.url.to_string(), error };
    let request = Request::post(destination.url.clone())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(review)
        .map_err(|error| failed(egress::CallError::Request(error.to_string())))?;
    let terms = Terms {
        caller: &plane.name,
        policy: &engine.egress_policy(plane),
        tls: &tls,
        connect_to: destination.endpoint.as_ref().map(|(host, port)| (host.as_str(), *port)),
        timeout,
        max_bytes: MAX_RESPONSE_BYTES,
    };
    let response = engine.egress.send(request, &terms).await.map_err(failed)?;
    match response.status().as_u16() {
        200..300 => Ok(response.into_body()),
        code => Err(CallError::Code(code)),
    }
}
