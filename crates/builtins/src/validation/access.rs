//! Roles, bindings, and requests for certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use objects::{ErrorList, Value, names};

use super::selectors::label_selector;
use super::{Place, checked};
use crate::behaviour::same;
use crate::dotted::Dotted;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(crate) fn role(role: &Value) -> ErrorList {
    checked(role, |role| role.items("rules").for_each(|rule| policy_rule(&rule, true)))
}

pub(crate) fn cluster_role(role: &Value) -> ErrorList {
    checked(role, |role| {
        role.items("rules").for_each(|rule| policy_rule(&rule, false));
        if role.has("aggregationRule") {
            let selectors = "aggregationRule.clusterRoleSelectors";
            if role.count(selectors) == 0 {
                role.required(
                    selectors,
                    "at least one clusterRoleSelector required if aggregationRule is non-nil",
                );
            }
            role.items(selectors).for_each(|selector| label_selector(&selector));
        }
    })
}

fn policy_rule(rule: &Place<'_>, namespaced: bool) {
    if rule.count("verbs") == 0 {
        rule.required("verbs", "verbs must contain at least one value");
    }
    if rule.count("nonResourceURLs") > 0 {
        if namespaced {
            rule.invalid("nonResourceURLs", "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| rule.count(field) > 0) {
            rule.invalid(
                "nonResourceURLs",
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if rule.count("apiGroups") == 0 {
        rule.required("apiGroups", "resource rules must supply at least one api group");
    }
    if rule.count("resources") == 0 {
        rule.required("resources", "resource rules must supply at least one resource");
    }
}

pub(crate) fn role_binding(object: &Value) -> ErrorList {
    checked(object, |object| binding(object, true, &["Role", "ClusterRole"]))
}

pub(crate) fn cluster_role_binding(object: &Value) -> ErrorList {
    checked(object, |object| binding(object, false, &["ClusterRole"]))
}

fn binding(binding: &Place<'_>, namespaced: bool, kinds: &[&str]) {
    let role = binding.at("roleRef");
    if role.text("apiGroup") != RBAC {
        role.unsupported("apiGroup", &[RBAC]);
    }
    if !kinds.contains(&role.text("kind")) {
        role.unsupported("kind", kinds);
    }
    role.need_shape("name", names::path_segment);
    for subject in binding.items("subjects") {
        subject.need("name");
        match subject.text("kind") {
            "ServiceAccount" => {
                subject.shape_if("name", names::dns1123_subdomain);
                if !subject.text("apiGroup").is_empty() {
                    subject.unsupported("apiGroup", &[""]);
                }
                if !namespaced {
                    subject.need("namespace");
                }
            }
            "User" | "Group" if subject.text("apiGroup") != RBAC => subject.unsupported("apiGroup", &[RBAC]),
            "User" | "Group" => {}
            _ => subject.unsupported("kind", &["ServiceAccount", "User", "Group"]),
        }
    }
}

/// A binding to another role is another binding: whoever may change one might not be allowed to make the other.
pub(crate) fn binding_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |binding| {
        if !same(new.at("roleRef"), old.at("roleRef")) {
            binding.invalid("roleRef", "cannot change roleRef");
        }
    })
}

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The request itself is read by whoever signs it; here it must be a PEM block of the right type.
pub(crate) fn signing_request(request: &Value) -> ErrorList {
    checked(request, |request| {
        let spec = request.at("spec");
        if let Err(detail) = pem_request(spec.text("request")) {
            spec.invalid("request", detail);
        }
        if spec.count("usages") == 0 {
            spec.required("usages", "");
        }
        for usage in spec.items("usages").filter(|usage| !USAGES.contains(&usage.text(""))) {
            usage.unsupported("", &USAGES);
        }
        super::place::no_repeats(spec.items("usages"), "");
        if spec.text("signerName") == "kubernetes.io/legacy-unknown" {
            spec.invalid("signerName", "the legacy signerName is not allowed via this API version");
        } else {
            signer_name(&spec.at("signerName"));
        }
        if spec.int("expirationSeconds").is_some_and(|seconds| seconds < 600) {
            spec.invalid(
                "expirationSeconds",
                "may not specify a duration less than 600 seconds (10 minutes)",
            );
        }
        signing_conditions(request);
    })
}

fn pem_request(encoded: &str) -> Result<(), &'static str> {
    const WRONG: &str = "PEM block type must be CERTIFICATE REQUEST";
    let bytes = STANDARD.decode(encoded).map_err(|_| "illegal base64 data")?;
    let text = String::from_utf8(bytes).map_err(|_| WRONG)?;
    let (_, after) = text.split_once("-----BEGIN CERTIFICATE REQUEST-----").ok_or(WRONG)?;
    let (body, _) = after.split_once("-----END CERTIFICATE REQUEST-----").ok_or(WRONG)?;
    let body: String = body.split_whitespace().collect();
    let der = STANDARD.decode(body).map_err(|_| WRONG)?;
    match der.first() {
        Some(0x30) => Ok(()),
        _ => Err("asn1: structure error: tags don't match"),
    }
}

/// `example.com/signer-name`
fn signer_name(name: &Place<'_>) {
    if !name.need("") {
        return;
    }
    let (domain, path) = match name.text("").split('/').collect::<Vec<_>>()[..] {
        [domain, path] => (domain, path),
        _ => {
            return name.invalid(
                "",
                "must be a fully qualified domain and path of the form 'example.com/signer-name'",
            );
        }
    };
    for (text, part, rule) in [
        (domain, domain.split('.').collect::<Vec<_>>(), names::dns1123_label as fn(&str) -> Vec<String>),
        (path, path.split('.').collect(), names::dns1123_subdomain),
    ] {
        let first_wrong =
            part.into_iter().map(|label| (label, rule(label))).find(|(_, wrong)| !wrong.is_empty());
        if let Some((label, wrong)) = first_wrong {
            for sentence in wrong {
                name.invalid_as("", text, format!("validating label {label:?}: {sentence}"));
            }
        }
    }
    if !domain.contains('.') {
        name.invalid_as("", domain, "should be a domain with at least two segments separated by dots");
    }
}

fn signing_conditions(request: &Place<'_>) {
    super::place::no_repeats(request.items("status.conditions"), "type");
    let mut decided: Option<&str> = None;
    for condition in request.items("status.conditions") {
        let kind = condition.value.text("type");
        condition.need("type");
        // These three only ever become true.
        let allowed: &[&str] = if matches!(kind, "Approved" | "Denied" | "Failed") {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        condition.choice("status", allowed);
        if matches!(kind, "Approved" | "Denied") {
            if decided.is_some_and(|before| before != kind) {
                let detail = "Approved and Denied conditions are mutually exclusive";
                request.invalid_as("status.conditions", kind, detail);
            }
            decided = Some(kind);
        }
    }
}

/// Whether an approval or denial may be written, and only by its own endpoint.
pub(crate) fn signing_request_approval(new: &Value, old: &Value) -> ErrorList {
    checked(new, |request| {
        signing_conditions(request);
        none_removed(request, old);
        if new.text("status.certificate") != old.text("status.certificate") {
            request.forbidden("status.certificate", "updates may not set certificate content");
        }
    })
}

pub(crate) fn signing_request_status_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |request| {
        signing_conditions(request);
        none_removed(request, old);
        for kind in ["Approved", "Denied"] {
            if conditions(new, kind) > conditions(old, kind) {
                let detail = format!("updates may not add a condition of type {kind:?}");
                request.forbidden("status.conditions", detail);
            }
        }
        let certificate = "status.certificate";
        if !old.text(certificate).is_empty() && new.text(certificate) != old.text(certificate) {
            request.forbidden(certificate, "updates may not modify existing certificate content");
        }
    })
}

/// What was decided stays decided.
fn none_removed(request: &Place<'_>, old: &Value) {
    for kind in ["Approved", "Denied", "Failed"] {
        if conditions(request, kind) < conditions(old, kind) {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            request.forbidden("status.conditions", detail);
        }
    }
}

fn conditions(request: &Value, kind: &str) -> usize {
    request.list("status.conditions").iter().filter(|condition| condition.text("type") == kind).count()
}
