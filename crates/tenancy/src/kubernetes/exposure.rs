//! How a control plane is reached from outside of the cluster: what passes its TLS connections on, unopened.

use objects::Value;
use runtime::Error;
use serde_json::json;

use crate::api;
use crate::furniture::{self, Wanted};
use crate::host::{HostError, Settings};
use crate::plane::Plane;
use crate::types::Hosted;

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expose {
    /// A Gateway if one is named, a Route where there are Routes, else an Ingress.
    #[default]
    Auto,
    Ingress,
    Route,
    Gateway,
    Nothing,
}

/// A Gateway with a listener that passes TLS on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    pub namespace: String,
    pub name: String,
    /// One of its listeners; empty is any.
    pub listener: String,
}

impl Gateway {
    /// `NAMESPACE/NAME` or `NAMESPACE/NAME/LISTENER`.
    pub fn parse(text: &str) -> Result<Gateway, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (namespace, name, listener) = match parts[..] {
            [namespace, name] => (namespace, name, ""),
            [namespace, name, listener] if !listener.is_empty() => (namespace, name, listener),
            _ => return Err(format!("{text:?} is not NAMESPACE/NAME or NAMESPACE/NAME/LISTENER")),
        };
        if namespace.is_empty() || name.is_empty() {
            return Err(format!("{text:?} is not NAMESPACE/NAME or NAMESPACE/NAME/LISTENER"));
        }
        Ok(Gateway { namespace: namespace.into(), name: name.into(), listener: listener.into() })
    }
}

/// What it is on this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    Ingress { class: String },
    Route,
    TlsRoute { api_version: String, gateway: Gateway },
    Nothing,
}

const ROUTES: &str = "route.openshift.io/v1";
const GATEWAYS: &str = "gateway.networking.k8s.io";

impl Exposure {
    /// What was asked for, as far as the cluster has it.
    pub async fn find(
        client: &kube::Client,
        wish: Expose,
        class: &str,
        gateway: Option<&Gateway>,
        settings: &Settings,
    ) -> Result<Exposure, HostError> {
        let failed =
            |error: Error| HostError::Failed(format!("the cluster does not say what it serves: {error}"));
        let wish = match wish {
            Expose::Auto if gateway.is_some() => Expose::Gateway,
            Expose::Auto
                if settings.is_openshift || serves(client, ROUTES, "routes").await.map_err(failed)? =>
            {
                Expose::Route
            }
            Expose::Auto => Expose::Ingress,
            wish => wish,
        };
        match wish {
            Expose::Nothing => Ok(Exposure::Nothing),
            Expose::Route => Ok(Exposure::Route),
            Expose::Gateway => {
                let Some(gateway) = gateway else {
                    return Err(HostError::Refused("a Gateway has to be named: use --gateway".to_owned()));
                };
                let Some(api_version) = tls_routes(client).await.map_err(failed)? else {
                    let why = "the cluster does not serve TLSRoutes: install the Gateway API with them";
                    return Err(HostError::Refused(why.to_owned()));
                };
                Ok(Exposure::TlsRoute { api_version, gateway: gateway.clone() })
            }
            Expose::Ingress | Expose::Auto => Ok(Exposure::Ingress { class: class.to_owned() }),
        }
    }

    /// As the store and the runtime call the kind, if it is not one that every host has.
    pub fn kind(&self) -> Option<&'static str> {
        match self {
            Exposure::Route => Some("routes.route.openshift.io"),
            Exposure::TlsRoute { .. } => Some("tlsroutes.gateway.networking.k8s.io"),
            Exposure::Ingress { .. } | Exposure::Nothing => None,
        }
    }

    pub fn object(&self, plane: &Plane, row: &Hosted, settings: &Settings) -> Option<Wanted> {
        let service = furniture::service_name(plane, row);
        let host = format!("{}.{}", plane.name, settings.domain);
        match self {
            Exposure::Nothing => None,
            Exposure::Ingress { class } => {
                let mut ingress = furniture::ingress(plane, row, settings);
                ingress.object["spec"]["ingressClassName"] = class.as_str().into();
                Some(ingress)
            }
            Exposure::Route => {
                // The cluster chooses the host; see `route_host`.
                let rest = json!({
                    "metadata": {"annotations": {"openshift.io/host.generated": "true"}},
                    "spec": {
                        "to": {"kind": "Service", "name": service, "weight": 100},
                        "port": {"targetPort": "https"},
                        "tls": {"termination": "passthrough", "insecureEdgeTerminationPolicy": "None"},
                        "wildcardPolicy": "None",
                    },
                });
                Some(furniture::owned_as(plane, (ROUTES, "Route", "routes"), &plane.name, rest))
            }
            Exposure::TlsRoute { api_version, gateway } => {
                let mut parent = json!({"name": gateway.name, "namespace": gateway.namespace});
                if !gateway.listener.is_empty() {
                    parent["sectionName"] = gateway.listener.as_str().into();
                }
                let rest = json!({"spec": {
                    "parentRefs": [parent],
                    "hostnames": [host],
                    "rules": [{"backendRefs": [{"name": service, "port": 443}]}],
                }});
                Some(furniture::owned_as(plane, (api_version, "TLSRoute", "tlsroutes"), &plane.name, rest))
            }
        }
    }
}

/// The host that the cluster has chosen for a Route.
pub fn route_host(route: &Value) -> Option<&str> {
    route["spec"]["host"].as_str().filter(|host| !host.is_empty())
}

async fn serves(client: &kube::Client, api_version: &str, plural: &str) -> Result<bool, Error> {
    let list =
        api::optional(api::get_path(client, &format!("/apis/{api_version}")).await)?.unwrap_or_default();
    Ok(list["resources"].as_array().into_iter().flatten().any(|one| one["name"] == plural))
}

/// The version that TLSRoutes are served in: the first that has them, in the cluster's own order.
async fn tls_routes(client: &kube::Client) -> Result<Option<String>, Error> {
    let group = api::optional(api::get_path(client, &format!("/apis/{GATEWAYS}")).await)?.unwrap_or_default();
    for version in group["versions"].as_array().into_iter().flatten() {
        let api_version = version["groupVersion"].as_str().unwrap_or_default();
        if serves(client, api_version, "tlsroutes").await? {
            return Ok(Some(api_version.to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways() {
        let check = |text: &str, expected: Option<(&str, &str, &str)>| {
            let parsed = Gateway::parse(text).ok();
            let shown = parsed.as_ref().map(|g| (g.namespace.as_str(), g.name.as_str(), g.listener.as_str()));
            assert_eq!(shown, expected, "{text}");
        };
        check("infra/main", Some(("infra", "main", "")));
        check("infra/main/tls", Some(("infra", "main", "tls")));
        for wrong in ["", "main", "/main", "infra/", "infra/main/", "a/b/c/d"] {
            check(wrong, None);
        }
    }
}
