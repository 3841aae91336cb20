//! `/api` and `/apis`: what is served.

use builtins::discovery::{self, AggregatedVersion};
use http::{HeaderValue, header};
use objects::{GroupVersion, ResourceType};
use wire::negotiate::{self, Endpoint, Shape};

use crate::call::Head;
use crate::control_plane::ControlPlane;
use crate::engine::{Engine, no_control_plane};
use crate::present;
use crate::service::Answer;

pub async fn answer(engine: &Engine, plane: &ControlPlane, head: &Head, parts: &[&str]) -> Answer {
    let surface = engine.planes.surface(plane).await?;
    let rows = || surface.rows().map(|row| -> &ResourceType { &row.ty });
    let endpoint = if parts.len() == 1 { &Endpoint::DISCOVERY } else { &Endpoint::PLAIN };
    let accepted = negotiate::accept(head.header(header::ACCEPT), endpoint)?;
    let aggregated = (accepted.shape == Shape::Discovery).then_some(match accepted.version {
        "v2beta1" => AggregatedVersion::V2Beta1,
        _ => AggregatedVersion::V2,
    });
    let document = match (parts, aggregated) {
        (["api"], Some(version)) => Some(discovery::aggregated_core(rows(), version)),
        (["apis"], Some(version)) => Some(discovery::aggregated(rows(), version)),
        (["api"], None) => Some(discovery::api_versions(&engine.config.address.to_string())),
        (["apis"], None) => Some(discovery::group_list(rows())),
        (["api", version], _) => discovery::resource_list(rows(), &GroupVersion::new("", *version)),
        (["apis", group], _) => discovery::group(rows(), group),
        (["apis", group, version], _) => {
            discovery::resource_list(rows(), &GroupVersion::new(*group, *version))
        }
        _ => None,
    };
    let mut response = present::encode(&accepted, 200, &document.ok_or_else(no_control_plane)?)?;
    if let Ok(content_type) = HeaderValue::from_str(&accepted.content_type()) {
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}
