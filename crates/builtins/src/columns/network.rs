//! Services and what stands before and behind them.

use std::collections::BTreeSet;

use objects::Value;

use super::shown::{self as text_of, joined};
use super::{AGE, Cell, Column, NAME, name_or_default, named, shown, text, text_or};
use crate::dotted::Dotted;

pub(crate) static SERVICE: [Column; 7] = [
    NAME,
    text("Type", "spec.type"),
    shown("Cluster-IP", |o| {
        o.texts("spec.clusterIPs").first().map_or("<none>".to_owned(), |first| (*first).to_owned())
    }),
    shown("External-IP", external_ip),
    shown("Port(s)", ports),
    AGE,
    shown("Selector", |o| text_of::labels(o.at("spec.selector"))).wide(),
];

fn external_ip(service: &Value) -> String {
    let fixed = service.texts("spec.externalIPs");
    match service.text("spec.type") {
        "ClusterIP" | "NodePort" => joined(&fixed, "<none>"),
        "LoadBalancer" => {
            let mut all = ingress_points(service);
            all.extend(fixed.iter().map(|ip| (*ip).to_owned()));
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => service.text("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Addresses or host names of a load balancer, each once and in order.
fn ingress_points(object: &Value) -> Vec<String> {
    let points = object.list("status.loadBalancer.ingress").iter();
    let named = points.map(|point| match point.text("ip") {
        "" => point.text("hostname"),
        ip => ip,
    });
    named.filter(|name| !name.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

fn ports(service: &Value) -> String {
    let shown: Vec<String> = service
        .list("spec.ports")
        .iter()
        .map(|port| match port.number("nodePort") {
            0 => format!("{}/{}", port.number("port"), port.text("protocol")),
            node => format!("{}:{node}/{}", port.number("port"), port.text("protocol")),
        })
        .collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}

pub(crate) static ENDPOINTS: [Column; 3] = [NAME, shown("Endpoints", endpoints), AGE];

fn endpoints(object: &Value) -> String {
    let mut shown = Vec::new();
    for subset in object.list("subsets") {
        let addresses = subset.list("addresses");
        if subset.count("ports") == 0 {
            // A headless service may have no ports.
            shown.extend(addresses.iter().map(|address| address.text("ip").to_owned()));
        }
        for port in subset.list("ports") {
            shown.extend(addresses.iter().map(|address| match address.text("ip") {
                ip if ip.contains(':') => format!("[{ip}]:{}", port.number("port")),
                ip => format!("{ip}:{}", port.number("port")),
            }));
        }
    }
    text_of::few(&shown, 3, ",", if object.count("subsets") == 0 { "<none>" } else { "" })
}

pub(crate) static ENDPOINT_SLICE: [Column; 5] = [
    NAME,
    text("AddressType", "addressType"),
    shown("Ports", |slice| {
        let shown: Vec<String> = slice
            .list("ports")
            .iter()
            .map(|port| match (port.int("port"), port.text("name")) {
                (Some(number), _) => number.to_string(),
                (None, "") => "*".to_owned(),
                (None, name) => name.to_owned(),
            })
            .collect();
        text_of::few(&shown, 3, ",", "<unset>")
    }),
    shown("Endpoints", |slice| {
        let addresses = slice.list("endpoints").iter().flat_map(|endpoint| endpoint.texts("addresses"));
        text_of::few(&addresses.map(str::to_owned).collect::<Vec<_>>(), 3, ",", "<unset>")
    }),
    AGE,
];

pub(crate) static INGRESS: [Column; 6] = [
    NAME,
    text_or("Class", "spec.ingressClassName", "<none>"),
    shown("Hosts", hosts),
    shown("Address", |o| ingress_points(o).join(",")),
    shown("Ports", |o| if o.count("spec.tls") > 0 { "80, 443" } else { "80" }.to_owned()),
    AGE,
];

fn hosts(ingress: &Value) -> String {
    const MAX: usize = 3;
    let rules = ingress.list("spec.rules");
    let hosts: Vec<&str> =
        rules.iter().map(|rule| rule.text("host")).filter(|host| !host.is_empty()).collect();
    let mut shown = hosts.iter().take(MAX).copied().collect::<Vec<_>>().join(",");
    if shown.is_empty() {
        shown.push('*');
    }
    // What is more is counted in rules, not hosts: a rule without a host stands for all of them.
    if hosts.len() >= MAX && rules.len() > MAX {
        shown = format!("{shown} + {} more...", rules.len() - MAX);
    }
    shown
}

pub(crate) static INGRESS_CLASS: [Column; 4] = [
    named("Name", Cell::Shown(|o| name_or_default(o, &["ingressclass.kubernetes.io/is-default-class"]))),
    text("Controller", "spec.controller"),
    shown("Parameters", |o| {
        let parameters = o.at("spec.parameters");
        if parameters.is_null() {
            return "<none>".to_owned();
        }
        let dot = if parameters.has("apiGroup") { "." } else { "" };
        format!("{}{dot}{}/{}", parameters.text("kind"), parameters.text("apiGroup"), parameters.text("name"))
    }),
    AGE,
];

pub(crate) static NETWORK_POLICY: [Column; 3] =
    [NAME, shown("Pod-Selector", |o| text_of::selector(o.at("spec.podSelector"))), AGE];

pub(crate) static SERVICE_CIDR: [Column; 3] =
    [NAME, shown("CIDRs", |o| o.texts("spec.cidrs").join(",")), AGE];

pub(crate) static IP_ADDRESS: [Column; 2] = [
    NAME,
    shown("ParentRef", |o| {
        let parent = o.at("spec.parentRef");
        if parent.is_null() {
            return "<none>".to_owned();
        }
        let parts = [parent.text("namespace"), parent.text("name")];
        let dot = if parent.text("group").is_empty() { "" } else { "." };
        let resource = format!("{}{dot}{}", parent.text("resource"), parent.text("group")).to_lowercase();
        parts.iter().filter(|part| !part.is_empty()).fold(resource, |shown, part| format!("{shown}/{part}"))
    }),
];
