//! Ingresses, network policies, address ranges.

use std::net::IpAddr;

use objects::{ErrorList, GroupVersion, Value, meta, names};

use super::selectors::label_selector;
use super::services::cidr;
use super::{Place, checked};
use crate::dotted::Dotted;

pub(crate) fn ingress(ingress: &Value) -> ErrorList {
    checked(ingress, |ingress| {
        let spec = ingress.at("spec");
        if spec.count("rules") == 0 && !spec.has("defaultBackend") {
            let rules = spec.value.at("rules").clone();
            spec.invalid_as("", rules, "either `defaultBackend` or `rules` must be specified");
        }
        if spec.has("defaultBackend") {
            backend(&spec.at("defaultBackend"));
        }
        for rule in spec.items("rules") {
            if rule.text("host").parse::<IpAddr>().is_ok() {
                rule.invalid("host", "must be a DNS name, not an IP address");
            }
            if !rule.text("host").is_empty() {
                host(&rule.at("host"));
            }
            if rule.has("http") {
                if rule.count("http.paths") == 0 {
                    rule.required("http.paths", "");
                }
                rule.items("http.paths").for_each(|path| http_path(&path));
            }
        }
        for tls in spec.items("tls") {
            tls.items("hosts").for_each(|name| host(&name));
            tls.shape_if("secretName", names::dns1123_subdomain);
        }
        if spec.has("ingressClassName") {
            spec.shape("ingressClassName", names::dns1123_subdomain);
        }
    })
}

fn host(name: &Place<'_>) {
    if name.text("").contains('*') {
        name.shape("", names::wildcard_dns1123_subdomain);
    } else {
        name.shape("", names::dns1123_subdomain);
    }
}

fn http_path(path: &Place<'_>) {
    const KINDS: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    const SEQUENCES: [&str; 6] = ["//", "/./", "/../", "%2f", "%2F", "\\"];
    const SUFFIXES: [&str; 2] = ["/..", "/."];
    if !path.has("pathType") {
        return path.required("pathType", "pathType must be specified");
    }
    let text = path.text("path");
    let absolute = text.starts_with('/');
    match path.text("pathType") {
        "Exact" | "Prefix" => {
            if !absolute {
                path.invalid_as("path", text, "must be an absolute path");
            }
            for sequence in SEQUENCES.iter().filter(|sequence| text.contains(**sequence)) {
                path.invalid("path", format!("must not contain '{sequence}'"));
            }
            for suffix in SUFFIXES.iter().filter(|suffix| text.ends_with(**suffix)) {
                path.invalid("path", format!("cannot end with '{suffix}'"));
            }
        }
        "ImplementationSpecific" if !text.is_empty() && !absolute => {
            path.invalid("path", "must be an absolute path");
        }
        "ImplementationSpecific" => {}
        _ => path.unsupported("pathType", &KINDS),
    }
    backend(&path.at("backend"));
}

fn backend(backend: &Place<'_>) {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => backend.invalid_as("", "", "cannot set both resource and service backends"),
        (true, false) => {
            let resource = backend.at("resource");
            resource.shape_if("apiGroup", names::dns1123_subdomain);
            resource.need_shape("kind", names::path_segment);
            resource.need_shape("name", names::path_segment);
        }
        (false, true) => {
            let service = backend.at("service");
            service.need_shape("name", names::dns1035_label);
            match (service.text("port.name"), service.number("port.number")) {
                ("", 0) => backend.required("", "port name or number is required"),
                ("", _) => service.port("port.number"),
                (_, 0) => service.shape("port.name", names::port_name),
                _ => backend.invalid_as("", "", "cannot set both port name & port number"),
            }
        }
        (false, false) => backend.invalid_as("", "", "resource or service backend is required"),
    }
}

pub(crate) fn new_ingress(ingress: &Value) -> ErrorList {
    checked(ingress, |ingress| {
        let annotated = meta::annotation(ingress, "kubernetes.io/ingress.class");
        if let Some(class) = annotated
            && ingress.has("spec.ingressClassName")
            && ingress.text("spec.ingressClassName") != class
        {
            let detail = "must match `ingressClassName` when both are specified";
            ingress.invalid_as("annotations.kubernetes.io/ingress.class", class, detail);
        }
    })
}

pub(crate) fn ingress_status_update(new: &Value, _: &Value) -> ErrorList {
    checked(new, |ingress| {
        for point in ingress.items("status.loadBalancer.ingress") {
            point.shape_if("ip", names::ip_address);
            point.shape_if("hostname", names::dns1123_subdomain);
            if point.text("hostname").parse::<IpAddr>().is_ok() {
                point.invalid("hostname", "must be a DNS name, not an IP address");
            }
        }
    })
}

pub(crate) fn ingress_class(class: &Value) -> ErrorList {
    const MAX_CONTROLLER: usize = 250;
    checked(class, |class| {
        let spec = class.at("spec");
        if spec.text("controller").len() > MAX_CONTROLLER {
            spec.report(objects::field::Error::too_long(&spec.path_to("controller"), MAX_CONTROLLER));
        }
        if spec.need("controller") {
            spec.shape("controller", names::domain_prefixed_path);
        }
        let parameters = spec.at("parameters");
        if parameters.is_null() {
            return;
        }
        parameters.shape_if("apiGroup", names::dns1123_subdomain);
        parameters.need_shape("kind", names::path_segment);
        parameters.need_shape("name", names::path_segment);
        parameters.choice("scope", &["Cluster", "Namespace"]);
        match (parameters.text("scope"), parameters.has("namespace")) {
            ("Namespace", false) => {
                parameters.required("namespace", "`parameters.scope` is set to 'Namespace'");
            }
            ("Namespace", true) => parameters.shape("namespace", names::dns1123_label),
            ("Cluster", true) => parameters.forbidden("namespace", "`parameters.scope` is set to 'Cluster'"),
            _ => {}
        }
    })
}

pub(crate) fn ingress_class_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |class| class.immutable(old, &["spec.controller"]))
}

pub(crate) fn network_policy(policy: &Value) -> ErrorList {
    checked(policy, |policy| {
        let spec = policy.at("spec");
        label_selector(&spec.at("podSelector"));
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.items(direction) {
                rule.items("ports").for_each(|port| policy_port(&port));
                rule.items(peers).for_each(|peer| policy_peer(&peer));
            }
        }
        if spec.count("policyTypes") > 2 {
            return spec.invalid("policyTypes", "may not specify more than two policyTypes");
        }
        spec.items("policyTypes").for_each(|kind| kind.choice_if("", &["Ingress", "Egress"]));
    })
}

fn policy_port(port: &Place<'_>) {
    port.choice_if("protocol", &["TCP", "UDP", "SCTP"]);
    let end = port.int("endPort");
    match port.value.at("port") {
        Value::Null if end.is_some() => {
            port.invalid("endPort", "may not be specified when `port` is not specified")
        }
        Value::Null => {}
        Value::String(_) => {
            if end.is_some() {
                port.invalid("endPort", "may not be specified when `port` is non-numeric");
            }
            port.shape("port", names::port_name);
        }
        _ => {
            port.port("port");
            if end.is_some_and(|end| end < port.number("port")) {
                port.invalid("endPort", "must be greater than or equal to `port`");
            }
            port.in_range("endPort", 1, 65535);
        }
    }
}

fn policy_peer(peer: &Place<'_>) {
    label_selector(&peer.at("podSelector"));
    label_selector(&peer.at("namespaceSelector"));
    let block = peer.at("ipBlock");
    if block.has("") {
        ip_block(&block);
    }
    match ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|kind| peer.has(kind)).count() {
        0 => peer.required("", "must specify a peer"),
        1 => {}
        _ if peer.has("ipBlock") => peer.forbidden("", "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(block: &Place<'_>) {
    if !block.need("cidr") {
        return;
    }
    cidr(&block.at("cidr"));
    let Ok(whole) = block.text("cidr").parse::<ipnet::IpNet>() else { return };
    for except in block.items("except") {
        cidr(&except);
        if let Ok(part) = except.text("").parse::<ipnet::IpNet>()
            && (!whole.contains(&part) || whole.prefix_len() >= part.prefix_len())
        {
            except.invalid("", "must be a strict subset of `cidr`");
        }
    }
}

pub(crate) fn service_cidr(object: &Value) -> ErrorList {
    checked(object, |object| {
        let cidrs = object.at("spec.cidrs");
        match cidrs.count("") {
            0 => return cidrs.required("", "at least one CIDR required"),
            1 | 2 => {}
            _ => return cidrs.invalid("", "may only hold up to 2 values"),
        }
        cidrs.items("").for_each(|range| cidr(&range));
        let parsed: Vec<ipnet::IpNet> = cidrs.texts("").iter().filter_map(|text| text.parse().ok()).collect();
        if let [one, other] = parsed[..]
            && one.addr().is_ipv4() == other.addr().is_ipv4()
        {
            let detail =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            cidrs.invalid("", detail);
        }
    })
}

/// A range may gain one of the other family, and change in no other way.
pub(crate) fn service_cidr_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |object| {
        let (now, before) = (object.texts("spec.cidrs"), old.texts("spec.cidrs"));
        let grown = before.len() == 1 && now.len() == 2;
        if now.len() != before.len() && !grown {
            return object.invalid("spec.cidrs", "field is immutable");
        }
        for (i, _) in now.iter().zip(&before).enumerate().filter(|(_, (now, before))| now != before) {
            object.invalid_as(&format!("spec.cidrs[{i}]"), now[i], "field is immutable");
        }
    })
}

pub(crate) fn ip_address(address: &Value) -> ErrorList {
    checked(address, |address| {
        let parent = address.at("spec.parentRef");
        if parent.is_null() {
            return parent.required("", "");
        }
        parent.shape_if("group", names::dns1123_subdomain);
        parent.need_shape("resource", names::path_segment);
        parent.need_shape("name", names::path_segment);
        parent.shape_if("namespace", names::path_segment);
    })
}

pub(crate) fn ip_address_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |address| address.immutable(old, &["spec.parentRef"]))
}

/// A group and version served by another server.
pub(crate) fn api_service(service: &Value) -> ErrorList {
    checked(service, |service| {
        let spec = service.at("spec");
        let (group, version) = (spec.text("group"), spec.text("version"));
        let named = format!("{version}.{group}");
        if meta::name(service) != named {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {named:?}");
            service.invalid("metadata.name", detail);
        }
        if group.is_empty() && version != "v1" {
            spec.required("group", "only v1 may have an empty group and it better be legacy kube");
        }
        spec.shape_if("group", names::dns1123_subdomain);
        spec.shape("version", names::dns1035_label);
        for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
            if !(1..=most).contains(&spec.number(field)) {
                spec.invalid_as(field, spec.number(field), format!("must be positive and less than {most}"));
            }
        }
        if !spec.has("service") {
            if spec.flag("insecureSkipTLSVerify") {
                spec.invalid("insecureSkipTLSVerify", "local APIServices may not have insecureSkipTLSVerify");
            }
            return;
        }
        spec.need("service.namespace");
        spec.need("service.name");
        spec.in_range("service.port", 1, 65535);
        if spec.flag("insecureSkipTLSVerify") && !spec.text("caBundle").is_empty() {
            spec.invalid("insecureSkipTLSVerify", "may not be true if caBundle is present");
        }
    })
}

/// Whether text names a group and version.
pub(super) fn is_group_version(text: &str) -> bool {
    GroupVersion::parse(text).is_some()
}
