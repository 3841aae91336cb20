//! Pods, templates of pods, and what they ask for.

use objects::field::Error;
use objects::quantity::Quantity;
use objects::{ErrorList, Value, metadata, names};

use super::containers::{self, Surroundings};
use super::{Place, checked, scheduling, security, volumes};
use crate::dotted::Dotted;

pub(crate) fn pod(pod: &Value) -> ErrorList {
    checked(pod, |pod| {
        let spec = pod.at("spec");
        pod_spec(&spec, true);
        for sort in ["containers", "initContainers", "ephemeralContainers"] {
            for container in spec.items(sort) {
                let image = container.text("image");
                if image.trim() != image {
                    container.invalid("image", "must not have leading or trailing whitespace");
                }
            }
        }
    })
}

/// What holds only of a pod that is made, not of one that is there.
pub(crate) fn new_pod(pod: &Value) -> ErrorList {
    checked(pod, |pod| {
        if pod.count("spec.ephemeralContainers") > 0 {
            pod.forbidden("spec.ephemeralContainers", "cannot be set on create");
        }
        if !pod.text("spec.nodeName").is_empty() && pod.count("spec.schedulingGates") > 0 {
            pod.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
        }
    })
}

pub(crate) fn pod_template(object: &Value) -> ErrorList {
    checked(object, |object| template(&object.at("template")))
}

/// The template of a pod, wherever it stands.
pub(super) fn template(template: &Place<'_>) {
    template.at("metadata.labels").called(template.path_to("labels")).labels("");
    if let Some(annotations) = template.value.at("metadata.annotations").as_object() {
        template.extend(metadata::annotations(annotations, &template.path_to("annotations")));
    }
    pod_spec(&template.at("spec"), false);
    if template.count("spec.ephemeralContainers") > 0 {
        template.forbidden("spec.ephemeralContainers", "ephemeral containers not allowed in pod template");
    }
}

/// The spec of a pod; `of_pod` where it is the pod's own and not that of a template.
pub(super) fn pod_spec(spec: &Place<'_>, of_pod: bool) {
    if !spec.has("terminationGracePeriodSeconds") {
        spec.required("terminationGracePeriodSeconds", "");
    }
    let around = Surroundings {
        volumes: volumes::volumes(spec),
        claims: resource_claims(spec),
        grace: spec.int("terminationGracePeriodSeconds"),
        host_users: spec.value.at("hostUsers").as_bool().unwrap_or(true),
        restart_policy: spec.value.text("restartPolicy"),
    };
    containers::all(spec, &around);
    if spec.flag("hostNetwork") {
        host_network_ports(spec, of_pod);
    }
    spec.choice("restartPolicy", &["Always", "OnFailure", "Never"]);
    spec.choice("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    spec.labels("nodeSelector");
    security::of_pod(spec);
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        spec.invalid("shareProcessNamespace", "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    scheduling::affinity(&spec.at("affinity"));
    dns_config(spec);
    spec.items("readinessGates").for_each(|gate| gate.shape("conditionType", names::qualified_name));
    scheduling_gates(spec);
    scheduling::topology_spread(spec);
    for (field, rule) in [
        ("serviceAccountName", names::dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns1123_subdomain),
        ("hostname", names::dns1123_label),
        ("subdomain", names::dns1123_label),
        ("priorityClassName", names::dns1123_subdomain),
        ("runtimeClassName", names::dns1123_subdomain),
    ] {
        spec.shape_if(field, rule);
    }
    spec.in_range("activeDeadlineSeconds", 1, i64::from(i32::MAX));
    scheduling::tolerations(spec, "tolerations");
    for alias in spec.items("hostAliases") {
        alias.shape("ip", names::ip_address);
        alias.items("hostnames").for_each(|name| name.shape("", names::dns1123_subdomain));
    }
    spec.choice_if("preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    for (name, amount) in spec.keyed("overhead") {
        resource_name(&amount, name, Use::Container);
        amount.not_negative_quantity("");
    }
    if spec.has("os") {
        spec.at("os").choice("name", &["linux", "windows"]);
    }
    if spec.has("resources") {
        if spec.has("resources.claims") {
            spec.forbidden("resources.claims", "claims may not be set for Resources at pod-level");
        }
        amounts(&spec.at("resources"), Use::Pod);
    }
}

fn host_network_ports(spec: &Place<'_>, of_pod: bool) {
    for container in spec.items("containers") {
        for port in container.items("ports") {
            let (host, inside) = (port.number("hostPort"), port.number("containerPort"));
            if (of_pod || host != 0) && host != inside {
                port.invalid_as("hostPort", host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn dns_config(spec: &Place<'_>) {
    const NAMESERVERS: usize = 3;
    const SEARCHES: usize = 32;
    const SEARCH_BYTES: usize = 2048;
    let config = spec.at("dnsConfig");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            return spec.required("dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if config.count("nameservers") == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return config.required("nameservers", detail);
        }
    }
    if config.count("nameservers") > NAMESERVERS {
        config.invalid("nameservers", format!("must not have more than {NAMESERVERS} nameservers"));
    }
    config.items("nameservers").for_each(|server| server.shape("", names::ip_address));
    if config.count("searches") > SEARCHES {
        config.invalid("searches", format!("must not have more than {SEARCHES} search paths"));
    }
    if config.texts("searches").join(" ").len() > SEARCH_BYTES {
        let detail = format!(
            "must not have more than {SEARCH_BYTES} characters (including spaces) in the search list"
        );
        config.invalid("searches", detail);
    }
    for search in config.items("searches") {
        let domain = search.text("");
        // Underscores are no part of host names but of domains that are searched.
        let plain = domain.strip_suffix('.').unwrap_or(domain).replace('_', "-");
        if domain != "." && !names::dns1123_subdomain(&plain).is_empty() {
            search.shape("", names::dns1123_subdomain);
        }
    }
    for option in config.items("options").filter(|option| option.text("name").is_empty()) {
        option.required("", "must not be empty");
    }
}

fn scheduling_gates(spec: &Place<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.value.text("name");
        for sentence in names::qualified_name(name) {
            gate.invalid_as("", name, sentence);
        }
        if seen.contains(&name) {
            gate.report(Error::duplicate(&gate.path_to(""), name));
        }
        seen.push(name);
    }
}

fn resource_claims<'a>(spec: &Place<'a>) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::new();
    for claim in spec.items("resourceClaims") {
        let name = claim.value.text("name");
        claim.need_shape("name", names::dns1123_label);
        if seen.contains(&name) {
            claim.duplicate("name");
        }
        seen.push(name);
        let named = ["resourceClaimName", "resourceClaimTemplateName"];
        match named.iter().filter(|field| claim.has(field)).count() {
            0 => claim.invalid("", "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => {}
            _ => claim.invalid(
                "",
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        }
        named.iter().for_each(|field| claim.shape_if(field, names::dns1123_subdomain));
    }
    seen
}

/// Who counts resources, because not everyone can count the same ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Container,
    Pod,
    Quota,
    Any,
}

/// What a container asks for and may have.
pub(super) fn resource_requirements(resources: &Place<'_>, claims: &[&str]) {
    amounts(resources, Use::Container);
    let mut seen: Vec<&Value> = Vec::new();
    for claim in resources.items("claims") {
        let name = claim.value.text("name");
        if name.is_empty() {
            claim.required("", "");
            continue;
        }
        if seen.contains(&claim.value) {
            claim.report(Error::duplicate(&claim.path_to(""), name));
        }
        seen.push(claim.value);
        if !claims.contains(&name) {
            let mut error = Error::not_found(&claim.path_to(""), name);
            let among = if claims.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", claims.join(", "))
            };
            error.detail = format!("must be one of the names in pod.spec.resourceClaims{among}");
            claim.report(error);
        }
    }
}

fn amounts(resources: &Place<'_>, counted_by: Use) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources.keyed(list) {
            resource_name(&amount, name, counted_by);
            resource_amount(&amount, name);
        }
    }
    let limits = resources.value.at("limits");
    for (name, request) in resources.keyed("requests") {
        let Ok(asked) = Quantity::from_value(request.value) else { continue };
        let limit = limits.get(name).filter(|limit| !limit.is_null());
        match limit.map(Quantity::from_value) {
            Some(Ok(limit)) if asked != limit && !can_be_overcommitted(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                resources.invalid_as("requests", asked.to_string(), detail);
            }
            Some(Ok(limit)) if asked > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                resources.invalid_as("requests", asked.to_string(), detail);
            }
            None if !can_be_overcommitted(name) => {
                resources.required("limits", "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    let has = |wanted: fn(&str) -> bool| {
        let names = resources.value.entries("limits").chain(resources.value.entries("requests"));
        names.map(|(name, _)| name).any(wanted)
    };
    if has(|name| name.starts_with("hugepages-")) && !has(|name| matches!(name, "cpu" | "memory")) {
        resources.forbidden("", "HugePages require cpu or memory");
    }
}

/// Native resources may be promised more often than they are there; devices and huge pages may not.
fn can_be_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.split('/').next().is_some_and(|prefix| prefix.ends_with("kubernetes.io"))
}

/// Kinds that quotas count.
const OBJECTS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The key of an amount in a resource list.
pub(super) fn resource_name(amount: &Place<'_>, name: &str, counted_by: Use) {
    let wrong = names::qualified_name(name);
    if !wrong.is_empty() {
        return wrong.into_iter().for_each(|sentence| amount.invalid_as("", name, sentence));
    }
    if name.contains('/') {
        let unqualified = !is_native(name) && name.starts_with("requests.");
        if counted_by == Use::Container && unqualified {
            amount.invalid_as("", name, "doesn't follow extended resource name standard");
        }
        return;
    }
    let huge = name.starts_with("hugepages-");
    let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    let of_quota = huge
        || OBJECTS.contains(&name)
        || matches!(bare, "cpu" | "memory" | "ephemeral-storage" | "storage")
        || bare.starts_with("hugepages-");
    if !of_quota {
        amount.invalid_as("", name, "must be a standard resource type or fully qualified");
    }
    match counted_by {
        Use::Container if !huge && !matches!(name, "cpu" | "memory" | "ephemeral-storage") => {
            amount.invalid_as("", name, "must be a standard resource for containers");
        }
        Use::Pod if !huge && !matches!(name, "cpu" | "memory") => {
            amount.report(Error::not_supported(&amount.path_to(""), name, &["cpu", "hugepages-", "memory"]));
        }
        Use::Quota if !of_quota => amount.invalid_as("", name, "must be a standard resource for quota"),
        _ => {}
    }
}

/// An amount that is there and not negative; whole where the resource cannot be divided.
pub(super) fn resource_amount(amount: &Place<'_>, name: &str) {
    let Some(quantity) = amount.quantity("") else { return };
    if quantity.sign() < 0 {
        amount.invalid("", "must be greater than or equal to 0");
    }
    let indivisible = !is_native(name) || OBJECTS.contains(&name);
    if indivisible && quantity.milli_value() % 1000 != 0 {
        amount.invalid("", "must be an integer");
    }
}
