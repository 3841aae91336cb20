//! Services, endpoints and slices of endpoints.

use std::net::IpAddr;

use objects::field::Error;
use objects::{ErrorList, Value, names};

use super::{Place, checked};
use crate::behaviour::is_reachable_from_outside;
use crate::dotted::Dotted;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const AFFINITY_MAX: i64 = 86400;

pub(crate) fn service(service: &Value) -> ErrorList {
    checked(service, |service| {
        let spec = service.at("spec");
        let headless = is_headless(&spec);
        let kind = spec.text("type");
        if spec.count("ports") == 0 && !headless && kind != "ExternalName" {
            spec.required("ports", "");
        }
        match kind {
            "LoadBalancer" | "NodePort" if headless => {
                let detail = format!("may not be set to 'None' for {kind} services");
                spec.invalid_as("clusterIPs[0]", "None", detail);
            }
            "ExternalName" => external_name(&spec),
            _ => {}
        }
        ports(&spec);
        spec.labels("selector");
        session_affinity(&spec);
        if kind != "ExternalName" {
            cluster_ips(&spec);
        }
        for ip in spec.items("externalIPs") {
            let before = ip.said();
            ip.shape("", names::ip_address);
            if ip.said() == before {
                endpoint_ip(&ip);
            }
        }
        spec.choice("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
        load_balancer(&spec);
        traffic_policies(&spec);
    })
}

fn is_headless(spec: &Value) -> bool {
    spec.texts("clusterIPs") == ["None"]
}

fn external_name(spec: &Place<'_>) {
    for field in ["clusterIPs", "ipFamilies"].iter().filter(|field| spec.count(field) > 0) {
        spec.forbidden(field, "may not be set for ExternalName services");
    }
    if spec.has("ipFamilyPolicy") {
        spec.forbidden("ipFamilyPolicy", "may not be set for ExternalName services");
    }
    match spec.text("externalName").trim_end_matches('.') {
        "" => spec.required("externalName", ""),
        name => {
            for sentence in names::dns1123_subdomain(name) {
                spec.invalid_as("externalName", name, sentence);
            }
        }
    }
}

fn ports(spec: &Place<'_>) {
    let several = spec.count("ports") > 1;
    let mut seen: Vec<&str> = Vec::new();
    for port in spec.items("ports") {
        let name = port.value.text("name");
        if several && name.is_empty() {
            port.required("name", "");
        } else if !name.is_empty() {
            port.shape("name", names::dns1123_label);
            if seen.contains(&name) {
                port.duplicate("name");
            }
            seen.push(name);
        }
        port.port("port");
        port.choice("protocol", &PROTOCOLS);
        port.port_or_name("targetPort");
        port.shape_if("appProtocol", names::qualified_name);
        if spec.text("type") == "ClusterIP" && port.number("nodePort") != 0 {
            port.forbidden("nodePort", "may not be used when `type` is 'ClusterIP'");
        }
    }
    // The same number may be had once per protocol, at the service and at the nodes.
    let (mut on_nodes, mut on_service) = (Vec::new(), Vec::new());
    for port in spec.items("ports") {
        let protocol = port.value.text("protocol");
        let (number, node) = (port.number("port"), port.number("nodePort"));
        if node != 0 && on_nodes.contains(&(protocol, node)) {
            port.duplicate("nodePort");
        }
        on_nodes.push((protocol, node));
        if on_service.contains(&(protocol, number)) {
            let shown = serde_json::json!({"port": number, "protocol": protocol});
            port.report(Error::duplicate(&port.path_to(""), shown));
        }
        on_service.push((protocol, number));
    }
}

fn session_affinity(spec: &Place<'_>) {
    spec.choice("sessionAffinity", &["ClientIP", "None"]);
    let path = "sessionAffinityConfig.clientIP.timeoutSeconds";
    match spec.text("sessionAffinity") {
        "ClientIP" => match spec.int(path) {
            None => spec.required(path, "when session affinity type is ClientIP"),
            Some(seconds) if !(1..=AFFINITY_MAX).contains(&seconds) => {
                spec.invalid(path, format!("must be greater than 0 and less than {AFFINITY_MAX}"));
            }
            Some(_) => {}
        },
        "None" if spec.has("sessionAffinityConfig") => {
            spec.forbidden("sessionAffinityConfig", "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn cluster_ips(spec: &Place<'_>) {
    let (one, all) = (spec.text("clusterIP"), spec.texts("clusterIPs"));
    match (one, all.first()) {
        ("", Some(_)) => spec.invalid("clusterIPs", "must be empty when `clusterIP` is not specified"),
        ("", None) => {}
        (_, None) => spec.required("clusterIPs", ""),
        (one, Some(first)) if one != *first => {
            spec.invalid("clusterIPs", "first value must match `clusterIP`")
        }
        _ => {}
    }
    super::place::no_repeats(spec.items("ipFamilies"), "");
    spec.items("ipFamilies").for_each(|family| family.choice_if("", &["IPv4", "IPv6"]));
    spec.choice_if("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    let before = spec.said();
    for (i, ip) in spec.items("clusterIPs").enumerate() {
        match (i, ip.text("")) {
            (0, "None") if all.len() > 1 => {
                spec.invalid("clusterIPs", "'None' must be the first and only value")
            }
            (0, "None") => {}
            _ => ip.shape("", names::ip_address),
        }
    }
    if all.len() > 2 {
        spec.invalid("clusterIPs", "may only hold up to 2 values");
    }
    if spec.said() != before {
        return;
    }
    let parsed: Vec<IpAddr> = all.iter().filter_map(|ip| ip.parse().ok()).collect();
    if let [first, second] = parsed[..]
        && first.is_ipv4() == second.is_ipv4()
    {
        spec.invalid("clusterIPs", "may specify no more than one IP for each IP family");
    }
    for (i, (ip, family)) in parsed.iter().zip(spec.texts("ipFamilies")).enumerate() {
        let fits = if family == "IPv6" { ip.is_ipv6() } else { ip.is_ipv4() };
        if !fits {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            spec.invalid_as(&format!("clusterIPs[{i}]"), ip.to_string(), detail);
        }
    }
}

fn load_balancer(spec: &Place<'_>) {
    let balanced = spec.text("type") == "LoadBalancer";
    let only = "may only be used when `type` is 'LoadBalancer'";
    if spec.count("loadBalancerSourceRanges") > 0 {
        let ranges = spec.at("loadBalancerSourceRanges").called(spec.path_to("LoadBalancerSourceRanges"));
        if !balanced {
            ranges.forbidden("", only);
        }
        ranges.items("").for_each(|range| cidr(&range));
    }
    match (balanced, spec.has("allocateLoadBalancerNodePorts")) {
        (false, true) => spec.forbidden("allocateLoadBalancerNodePorts", only),
        (true, false) => spec.required("allocateLoadBalancerNodePorts", ""),
        _ => {}
    }
    if balanced {
        spec.shape_if("loadBalancerClass", names::qualified_name);
    } else if spec.has("loadBalancerClass") {
        spec.forbidden("loadBalancerClass", only);
    }
}

/// An address and how much of it counts.
pub(super) fn cidr(place: &Place<'_>) {
    let text = place.text("").trim();
    let sound = text.split_once('/').is_some_and(|(address, bits)| match address.parse::<IpAddr>() {
        Ok(address) => bits.parse::<u8>().is_ok_and(|bits| bits <= if address.is_ipv4() { 32 } else { 128 }),
        Err(_) => false,
    });
    if !sound {
        place.invalid("", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
}

fn traffic_policies(spec: &Place<'_>) {
    let external = "externalTrafficPolicy";
    let reachable = is_reachable_from_outside(&serde_json::json!({"spec": spec.value}));
    match (reachable, spec.text(external)) {
        (false, "") => {}
        (false, _) => spec.invalid(external, "may only be set for externally-accessible services"),
        (true, _) => spec.choice(external, &["Cluster", "Local"]),
    }
    let checked = spec.text("type") == "LoadBalancer" && spec.text(external) == "Local";
    match (checked, spec.number("healthCheckNodePort")) {
        (false, 0) => {}
        (false, _) => spec.invalid(
            "healthCheckNodePort",
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ),
        (true, 0) => spec.required("healthCheckNodePort", ""),
        (true, _) => spec.port("healthCheckNodePort"),
    }
    match spec.text("type") {
        "ClusterIP" | "LoadBalancer" | "NodePort" => {
            spec.choice("internalTrafficPolicy", &["Cluster", "Local"])
        }
        _ => spec.choice_if("internalTrafficPolicy", &["Cluster", "Local"]),
    }
    spec.choice_if("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

pub(crate) fn service_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |service| {
        let (spec, before) = (service.at("spec"), old.at("spec"));
        if spec.text("type") != "ExternalName" && before.text("type") != "ExternalName" {
            fixed_addresses(&spec, before);
            if !is_headless(&spec) && !is_headless(before) {
                fixed_families(&spec, before);
            }
        }
        let balanced = |spec: &Value| spec.text("type") == "LoadBalancer";
        if balanced(&spec) && balanced(before) {
            if spec.value.at("loadBalancerClass") != before.at("loadBalancerClass") {
                spec.invalid("loadBalancerClass", "may not change once set");
            }
            let local = |spec: &Value| spec.text("externalTrafficPolicy") == "Local";
            let port = "healthCheckNodePort";
            if local(&spec) && local(before) && spec.number(port) != before.number(port) {
                spec.forbidden(port, "field is immutable");
            }
        }
    })
}

fn fixed_addresses(spec: &Place<'_>, before: &Value) {
    let (new, old) = (spec.texts("clusterIPs"), before.texts("clusterIPs"));
    if is_headless(spec) && is_headless(before) {
        return;
    }
    let shown = || spec.value.at("clusterIPs").clone();
    if new.is_empty() && !old.is_empty() {
        spec.invalid_as("clusterIPs[0]", shown(), "primary clusterIP can not be unset");
    }
    for (i, (new, old)) in new.iter().zip(&old).enumerate() {
        if new != old {
            spec.invalid_as(&format!("clusterIPs[{i}]"), shown(), "may not change once set");
        }
    }
    if new.len() == 1 && old.len() > 1 && spec.text("ipFamilyPolicy") != "SingleStack" {
        spec.invalid("ipFamilyPolicy", "must be set to 'SingleStack' when releasing the secondary clusterIP");
    }
}

fn fixed_families(spec: &Place<'_>, before: &Value) {
    let (new, old) = (spec.texts("ipFamilies"), before.texts("ipFamilies"));
    let shown = || spec.value.at("ipFamilies").clone();
    if new.iter().zip(&old).any(|(new, old)| new != old) {
        spec.invalid_as("ipFamilies[0]", shown(), "may not change once set");
    }
    if new.len() == 1 && old.len() > 1 && spec.text("ipFamilyPolicy") != "SingleStack" {
        spec.invalid("ipFamilyPolicy", "must be set to 'SingleStack' when releasing the secondary ipFamily");
    }
}

pub(crate) fn service_status_update(new: &Value, _: &Value) -> ErrorList {
    checked(new, |service| {
        let status = service.at("status.loadBalancer");
        if service.text("spec.type") != "LoadBalancer" && status.count("ingress") > 0 {
            return status.forbidden("ingress", "may only be used when `spec.type` is LoadBalancer");
        }
        for point in status.items("ingress") {
            point.shape_if("ip", names::ip_address);
            point.choice_if("ipMode", &["Proxy", "VIP"]);
            if point.has("ipMode") && point.text("ip").is_empty() {
                point.forbidden("ipMode", "may not be specified when `ip` is not set");
            }
            if point.text("hostname").parse::<IpAddr>().is_ok() {
                point.invalid("hostname", "must be a DNS name, not an IP address");
            }
            point.shape_if("hostname", names::dns1123_subdomain);
        }
    })
}

/// An address that traffic can be sent to from elsewhere.
pub(super) fn endpoint_ip(place: &Place<'_>) {
    let Ok(ip) = place.text("").parse::<IpAddr>() else { return };
    let v4 = |test: fn(&std::net::Ipv4Addr) -> bool| matches!(ip, IpAddr::V4(ip) if test(&ip));
    if ip.is_unspecified() {
        place.invalid("", "may not be unspecified (0.0.0.0 or ::)");
    }
    if ip.is_loopback() {
        place.invalid("", "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let link_local = matches!(ip, IpAddr::V6(ip) if ip.segments()[0] & 0xffc0 == 0xfe80);
    if v4(std::net::Ipv4Addr::is_link_local) || link_local {
        place.invalid("", "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    let local_multicast = matches!(ip, IpAddr::V6(ip) if ip.segments()[0] & 0xff0f == 0xff02);
    if v4(|ip| ip.octets()[..3] == [224, 0, 0]) || local_multicast {
        place.invalid("", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

pub(crate) fn endpoints(endpoints: &Value) -> ErrorList {
    checked(endpoints, |endpoints| {
        for subset in endpoints.items("subsets") {
            if subset.count("addresses") + subset.count("notReadyAddresses") == 0 {
                subset.required("", "must specify `addresses` or `notReadyAddresses`");
            }
            for list in ["addresses", "notReadyAddresses"] {
                for address in subset.items(list) {
                    address.shape("ip", names::ip_address);
                    address.shape_if("hostname", names::dns1123_label);
                    address.shape_if("nodeName", names::dns1123_subdomain);
                    endpoint_ip(&address.at("ip"));
                }
            }
            for port in subset.items("ports") {
                if subset.count("ports") > 1 && port.text("name").is_empty() {
                    port.required("name", "");
                } else {
                    port.shape_if("name", names::dns1123_label);
                }
                port.port("port");
                port.choice("protocol", &PROTOCOLS);
                port.shape_if("appProtocol", names::qualified_name);
            }
        }
    })
}

pub(crate) fn endpoint_slice(slice: &Value) -> ErrorList {
    const MAX_ENDPOINTS: usize = 1000;
    const MAX_PORTS: usize = 20_000;
    const MAX_ADDRESSES: usize = 100;
    checked(slice, |slice| {
        slice.choice("addressType", &["FQDN", "IPv4", "IPv6"]);
        if slice.count("endpoints") > MAX_ENDPOINTS {
            slice.too_many("endpoints", MAX_ENDPOINTS);
        }
        for endpoint in slice.items("endpoints") {
            match endpoint.count("addresses") {
                0 => endpoint.required("addresses", "must contain at least 1 address"),
                count if count > MAX_ADDRESSES => endpoint.too_many("addresses", MAX_ADDRESSES),
                _ => {}
            }
            for address in endpoint.items("addresses") {
                slice_address(&address, slice.text("addressType"));
            }
            endpoint.shape_if("nodeName", names::dns1123_subdomain);
            endpoint.shape_if("hostname", names::dns1123_label);
        }
        if slice.count("ports") > MAX_PORTS {
            slice.too_many("ports", MAX_PORTS);
        }
        let mut seen: Vec<&str> = Vec::new();
        for port in slice.items("ports") {
            let name = port.value.text("name");
            port.shape_if("name", names::dns1123_label);
            if seen.contains(&name) {
                port.report(Error::duplicate(&port.path_to("name"), name));
            }
            seen.push(name);
            port.choice("protocol", &PROTOCOLS);
            port.in_range("port", 1, 65535);
            port.shape_if("appProtocol", names::qualified_name);
        }
    })
}

fn slice_address(address: &Place<'_>, kind: &str) {
    match (kind, address.text("").parse::<IpAddr>()) {
        ("IPv4", Ok(IpAddr::V4(_))) | ("IPv6", Ok(IpAddr::V6(_))) => endpoint_ip(address),
        ("IPv4", _) => address.invalid("", "must be an IPv4 address"),
        ("IPv6", _) => address.invalid("", "must be an IPv6 address"),
        ("FQDN", _) => address.shape("", names::dns1123_subdomain),
        _ => {}
    }
}

pub(crate) fn endpoint_slice_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |slice| slice.immutable(old, &["addressType"]))
}
