//! How objects get from one version to another: not at all, or by a webhook.
//!
//! Field paths are those that upstream tells, which are the internal version's (`webhookClientConfig`).

use base64::Engine as _;
use objects::field::{Error, Path};
use objects::{ErrorList, names};
use serde_json::Value;

use super::{list, present, text};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn check(spec: &Value, established: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec").child("conversion");
    let Some(conversion) = present(spec, "conversion") else { return errors };
    let strategy = text(conversion, "strategy");
    match strategy {
        "" => errors.push(Error::required(&path.child("strategy"), "")),
        "None" | "Webhook" => {}
        other => errors.push(Error::not_supported(&path.child("strategy"), other, &["None", "Webhook"])),
    }
    let nothing = Value::Null;
    let webhook = present(conversion, "webhook").unwrap_or(&nothing);
    let client = present(webhook, "clientConfig");
    let reviews = list(webhook, "conversionReviewVersions");
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(Error::forbidden(&path.child("webhookClientConfig"), detail));
        }
        if !reviews.is_empty() {
            errors.push(Error::forbidden(&path.child("conversionReviewVersions"), detail));
        }
        return errors;
    }
    match client {
        None => {
            let detail = "required when strategy is set to Webhook";
            errors.push(Error::required(&path.child("webhookClientConfig"), detail));
        }
        Some(client) => check_client(client, established, &path.child("webhookClientConfig"), &mut errors),
    }
    check_reviews(reviews, &path.child("conversionReviewVersions"), &mut errors);
    errors
}

fn check_client(client: &Value, established: bool, path: &Path, errors: &mut ErrorList) {
    match (present(client, "url").and_then(Value::as_str), present(client, "service")) {
        (Some(url), None) => check_url(url, &path.child("url"), errors),
        (None, Some(service)) => check_service(service, &path.child("service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
    // Before it is established, a definition may wait for something that injects the bundle.
    let bundle = text(client, "caBundle");
    if established && !is_ca_bundle(bundle) {
        let detail = "unable to load root certificates: unable to parse bytes as PEM block";
        errors.push(Error::invalid(&path.child("caBundle"), bundle, detail));
    }
}

fn check_reviews(versions: &[Value], path: &Path, errors: &mut ErrorList) {
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    for (i, version) in versions.iter().enumerate() {
        let name = version.as_str().unwrap_or("");
        if versions[..i].contains(version) {
            errors.push(Error::invalid(&path.index(i), name, "duplicate version"));
            continue;
        }
        errors.extend(
            names::dns1035_label(name).into_iter().map(|why| Error::invalid(&path.index(i), name, why)),
        );
    }
    if !versions.iter().filter_map(Value::as_str).any(|version| REVIEW_VERSIONS.contains(&version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(path, Value::from(versions), detail));
    }
}

fn check_url(url: &str, path: &Path, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.push(Error::invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or("") };
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if host.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(Error::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(Error::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

fn check_service(service: &Value, path: &Path, errors: &mut ErrorList) {
    for field in ["name", "namespace"] {
        if text(service, field).is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(0);
    let wrong = names::port_number(port);
    if !wrong.is_empty() {
        let detail = format!("port is not valid: {}", wrong.join(", "));
        errors.push(Error::invalid(&path.child("port"), port, detail));
    }
    let (at, given) = (path.child("path"), text(service, "path"));
    if matches!(given, "" | "/") {
        return;
    }
    if given == "//" {
        errors.push(Error::invalid(&at, given, "segment[0] may not be empty"));
        return;
    }
    let Some(steps) = given.strip_prefix('/') else {
        errors.push(Error::invalid(&at, given, "must start with a '/'"));
        return;
    };
    for (i, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            errors.push(Error::invalid(&at, given, format!("segment[{i}] may not be empty")));
            continue;
        }
        let wrong = names::dns1123_subdomain(step);
        errors
            .extend(wrong.into_iter().map(|why| Error::invalid(&at, given, format!("segment[{i}]: {why}"))));
    }
}

pub(super) fn has_invalid_ca_bundle(definition: &Value) -> bool {
    let bundle = definition.pointer("/spec/conversion/webhook/clientConfig/caBundle").and_then(Value::as_str);
    bundle.is_some_and(|bundle| !is_ca_bundle(bundle))
}

/// Nothing at all (the system's authorities are trusted then), or base64 of PEM with a certificate in it.
fn is_ca_bundle(bundle: &str) -> bool {
    if bundle.is_empty() {
        return true;
    }
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(bundle) else { return false };
    let pem = String::from_utf8_lossy(&bytes);
    let begin = pem.find("-----BEGIN CERTIFICATE-----");
    begin.is_some_and(|at| pem[at..].contains("-----END CERTIFICATE-----"))
}
