//! Everything that is no resource: health, version, discovery, OpenAPI, the keys that tokens are verified by.

mod discovery;
mod openapi;

use std::sync::Arc;

use http::{Method, Response};
use objects::Value;
use serde_json::json;

use crate::body::{self, Body};
use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::{Engine, no_control_plane};
use crate::metrics;
use crate::service::{Answer, method_not_allowed};

pub use openapi::Documents;

/// The Kubernetes whose API this is.
const MAJOR: &str = "1";
const MINOR: &str = "36";
pub(crate) const GIT_VERSION: &str = concat!("v1.36.0+hangar-", env!("CARGO_PKG_VERSION"));

const PATHS: [&str; 13] = [
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
    "/version/",
];

pub async fn answer(engine: &Arc<Engine>, plane: &Arc<ControlPlane>, head: &Head, path: &str) -> Answer {
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(method_not_allowed().into());
    }
    if let Some(answer) = public(engine, head, path) {
        return answer;
    }
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["metrics"] => metrics::answer(engine, plane, head).await,
        ["api" | "apis", ..] => discovery::answer(engine, plane, head, &parts).await,
        ["openapi", rest @ ..] => openapi::answer(engine, plane, head, rest).await,
        [".well-known", "openid-configuration"] => Ok(body::json(200, &plane.issuer.discovery_document())),
        ["openid", "v1", "jwks"] => {
            let content_type = http::HeaderValue::from_static("application/jwk-set+json");
            Ok(body::response(200, content_type, plane.issuer.keys_document().to_string()))
        }
        [""] => Ok(body::json(200, &json!({ "paths": PATHS }))),
        _ => Err(no_control_plane().into()),
    }
}

/// Answers what is about the process and the same for every control plane: health and version.
pub fn public(engine: &Engine, head: &Head, path: &str) -> Option<Answer> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let is_public = HEALTH.contains(&parts[0]) || parts == ["version"];
    if !is_public {
        return None;
    }
    Some(match head.method {
        Method::GET | Method::HEAD if parts == ["version"] => Ok(body::json(200, &version())),
        Method::GET | Method::HEAD => health(engine, head, &parts),
        _ => Err(method_not_allowed().into()),
    })
}

const HEALTH: [&str; 3] = ["healthz", "livez", "readyz"];

/// Whether a path asks for the health of the process, which is nobody's secret.
pub(crate) fn is_health(path: &str) -> bool {
    HEALTH.contains(&path.trim_matches('/').split('/').next().unwrap_or_default())
}

/// The checks behind a health endpoint, by name.
const CHECKS: [&str; 3] = ["ping", "store", "shutdown"];

fn health(engine: &Engine, head: &Head, parts: &[&str]) -> Answer {
    let endpoint = parts[0];
    // Who is alive is not restarted because others are away, or because it is about to end.
    let failed = |check: &str| match check {
        _ if endpoint != "readyz" => false,
        "shutdown" => engine.is_retiring(),
        "store" => engine.pulse.is_gone() || engine.store.trouble().is_some(),
        _ => false,
    };
    if let [_, check] = parts {
        if !CHECKS.contains(check) {
            return Err(no_control_plane().into());
        }
        return Ok(if failed(check) {
            body::text(500, "internal server error: not ready")
        } else {
            body::text(200, "ok")
        });
    }
    let excluded: Vec<&str> = head.query.all("exclude").collect();
    let all = CHECKS.iter().filter(|check| !excluded.contains(check));
    let bad = all.clone().any(|check| failed(check));
    if !bad && !head.query.flag("verbose").unwrap_or(false) {
        return Ok(body::text(200, "ok"));
    }
    let mut text: String = all
        .map(|check| if failed(check) { format!("[-]{check} failed\n") } else { format!("[+]{check} ok\n") })
        .collect();
    text.push_str(&format!("{endpoint} check {}\n", if bad { "failed" } else { "passed" }));
    Ok(verdict(bad, text))
}

fn verdict(bad: bool, text: String) -> Response<Body> {
    body::text(if bad { 500 } else { 200 }, text)
}

fn version() -> Value {
    let arch = if cfg!(target_arch = "x86_64") { "amd64" } else { std::env::consts::ARCH };
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{arch}", std::env::consts::OS),
    })
}
