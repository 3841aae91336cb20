//! Pods and everything inside a pod's spec: containers, probes, volumes.

use objects::{Value, meta};
use serde_json::json;

use super::{absent, empty, within, zero};
use crate::dotted::Dotted;
use crate::resources;

pub(crate) fn pod(pod: &mut Value) {
    // Enforced on pods but, for historical reasons, not on templates of pods.
    if pod.int("spec.terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        pod.put("spec.terminationGracePeriodSeconds", 1);
    }
    pod_spec(pod, "spec");
    for containers in ["spec.containers", "spec.initContainers"] {
        pod.items_mut(containers).for_each(requests_from_limits);
    }
    pod.default("spec.enableServiceLinks", true);
    if pod.flag("spec.hostNetwork") {
        for containers in ["spec.containers", "spec.initContainers"] {
            for port in pod.items_mut(containers).flat_map(|container| container.items_mut("ports")) {
                let number = port.number("containerPort");
                zero(port, &[("hostPort", number)]);
            }
        }
    }
    pod_ips(pod);
}

/// One address and the list of them say the same; the single one wins where they differ.
fn pod_ips(pod: &mut Value) {
    let (one, first) = (
        pod.text("status.podIP").to_owned(),
        pod.list("status.podIPs").first().map_or("", |ip| ip.text("ip")).to_owned(),
    );
    if one.is_empty() && !first.is_empty() {
        pod.put("status.podIP", first);
    } else if one != first {
        pod.put("status.podIPs", json!([{"ip": one}]));
    }
}

/// A request that is not made is as large as its limit.
fn requests_from_limits(container: &mut Value) {
    let limits = container.at("resources.limits").as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    empty(container, &["resources.requests"]);
    let requests = container.at_mut("resources.requests").and_then(Value::as_object_mut);
    if let Some(requests) = requests {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

pub(crate) fn pod_template(object: &mut Value) {
    template(object, "template");
}

/// A pod template at a path: its spec has defaults, and labels are the caller's business.
pub(super) fn template(object: &mut Value, path: &str) {
    within(object, path, |template| {
        empty(template, &["metadata"]);
        pod_spec(template, "spec");
    });
}

fn pod_spec(object: &mut Value, path: &str) {
    let Some(spec) = object.at_mut(path) else { return };
    if spec.is_null() {
        *spec = json!({});
    }
    let account = match spec.text("serviceAccountName") {
        "" => spec.text("serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !account.is_empty() {
        spec.put("serviceAccountName", account.clone());
        spec.put("serviceAccount", account);
    }
    absent(
        spec,
        [
            ("dnsPolicy", json!("ClusterFirst")),
            ("restartPolicy", json!("Always")),
            ("schedulerName", json!("default-scheduler")),
            ("securityContext", json!({})),
            ("terminationGracePeriodSeconds", json!(30)),
        ],
    );
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        spec.items_mut(containers).for_each(container);
    }
    spec.items_mut("volumes").for_each(volume);
    resources::canonical(spec, &["overhead", "resources.limits", "resources.requests"]);
}

fn container(container: &mut Value) {
    let policy = pull_policy(container.text("image"));
    absent(
        container,
        [
            ("imagePullPolicy", policy.into()),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("resources", json!({})),
        ],
    );
    container.items_mut("ports").for_each(|port| port.default("protocol", "TCP"));
    for variable in container.items_mut("env") {
        within(variable, "valueFrom.fieldRef", |field| field.default("apiVersion", "v1"));
        within(variable, "valueFrom.fileKeyRef", |file| file.default("optional", false));
        within(variable, "valueFrom.resourceFieldRef", divisor);
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, kind, probe);
    }
    for moment in ["lifecycle.postStart", "lifecycle.preStop"] {
        within(container, moment, |handler| within(handler, "httpGet", http_get));
    }
    resources::canonical(container, &["resources.limits", "resources.requests"]);
}

/// An image that may move is always pulled.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    // A colon before the last slash belongs to the port of the registry.
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if !digest && !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

fn probe(probe: &mut Value) {
    zero(
        probe,
        &[("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)],
    );
    within(probe, "httpGet", http_get);
    within(probe, "grpc", |grpc| grpc.default("service", ""));
}

fn http_get(action: &mut Value) {
    absent(action, [("path", json!("/")), ("scheme", json!("HTTP"))]);
}

fn volume(volume: &mut Value) {
    let sources = volume.as_object().map_or(0, |fields| fields.keys().filter(|key| *key != "name").count());
    if sources == 0 {
        volume.put("emptyDir", json!({}));
    }
    resources::canonical_amounts(volume, &["emptyDir.sizeLimit"]);
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        within(volume, source, |source| source.default("defaultMode", 0o644));
    }
    within(volume, "downwardAPI", |source| source.items_mut("items").for_each(downward_item));
    for source in volume.items_mut("projected.sources") {
        within(source, "serviceAccountToken", |token| token.default("expirationSeconds", 3600));
        within(source, "downwardAPI", |source| source.items_mut("items").for_each(downward_item));
    }
    within(volume, "image", |image| {
        let policy = pull_policy(image.text("reference"));
        image.default("pullPolicy", policy);
    });
    within(volume, "ephemeral.volumeClaimTemplate", |template| {
        empty(template, &["metadata", "spec"]);
        within(template, "spec", super::claim_spec);
    });
    volume_source(volume);
}

/// The sources that volumes of pods and persistent volumes have in common.
pub(super) fn volume_source(holder: &mut Value) {
    within(holder, "hostPath", |source| source.default("type", ""));
    within(holder, "iscsi", |source| source.default("iscsiInterface", "default"));
    within(holder, "rbd", |source| {
        absent(
            source,
            [("pool", json!("rbd")), ("user", json!("admin")), ("keyring", json!("/etc/ceph/keyring"))],
        );
    });
    within(holder, "azureDisk", |source| {
        absent(
            source,
            [
                ("cachingMode", json!("ReadWrite")),
                ("kind", json!("Shared")),
                ("fsType", json!("ext4")),
                ("readOnly", json!(false)),
            ],
        );
    });
    within(holder, "scaleIO", |source| {
        absent(source, [("storageMode", json!("ThinProvisioned")), ("fsType", json!("xfs"))]);
    });
}

fn downward_item(item: &mut Value) {
    within(item, "fieldRef", |field| field.default("apiVersion", "v1"));
    within(item, "resourceFieldRef", divisor);
}

fn divisor(reference: &mut Value) {
    reference.default("divisor", "0");
    resources::canonical_amounts(reference, &["divisor"]);
}

/// Labels that objects take from their pod template when they bring none of their own.
pub(super) fn labels_from_template(object: &mut Value) {
    let labels = object.at("spec.template.metadata.labels").clone();
    if labels.as_object().is_some_and(|labels| !labels.is_empty())
        && meta::labels(object).is_none_or(|own| own.is_empty())
    {
        meta::set(object, "labels", labels);
    }
}
