//! What changes on the way into the store, kind by kind: initial fields, and what an update may not touch.

use objects::{Value, meta};
use serde_json::json;

use crate::dotted::Dotted;
use crate::resources;

/// A namespace is held by the `kubernetes` finalizer until its contents are gone.
pub(super) fn new_namespace(namespace: &mut Value) {
    if !namespace.texts("spec.finalizers").contains(&"kubernetes") {
        let mut finalizers = namespace.list("spec.finalizers").to_vec();
        finalizers.push("kubernetes".into());
        namespace.put("spec.finalizers", finalizers);
    }
}

/// Only the finalize endpoint takes finalizers off.
pub(super) fn keep_namespace_finalizers(new: &mut Value, old: &Value) {
    new.keep("spec.finalizers", old);
}

pub(super) fn new_pod(pod: &mut Value) {
    if pod.count("spec.schedulingGates") > 0 {
        let gated = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
        pod.put("status.conditions", gated);
    }
    spread_by_label_keys(pod);
    let qos = resources::qos_class(pod.at("spec"));
    pod.put("status.qosClass", qos);
}

/// `matchLabelKeys` become requirements on the values this pod's own labels have.
fn spread_by_label_keys(pod: &mut Value) {
    let labels = pod.at("metadata.labels").clone();
    let requirements = |keys: &Value, operator: &str| -> Vec<Value> {
        let keys = keys.as_array().into_iter().flatten().filter_map(Value::as_str);
        let known = keys.filter_map(|key| Some((key, labels.get(key)?.as_str()?)));
        known.map(|(key, value)| json!({"key": key, "operator": operator, "values": [value]})).collect()
    };
    let narrow = |term: &mut Value| {
        if !term.has("labelSelector") {
            return;
        }
        let mut added = requirements(term.at("matchLabelKeys"), "In");
        added.extend(requirements(term.at("mismatchLabelKeys"), "NotIn"));
        if !added.is_empty() {
            let mut expressions = term.list("labelSelector.matchExpressions").to_vec();
            added.retain(|new| !expressions.contains(new));
            expressions.extend(added);
            term.put("labelSelector.matchExpressions", expressions);
        }
    };
    pod.items_mut("spec.topologySpreadConstraints").for_each(narrow);
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let at = |list: &str| format!("spec.affinity.{affinity}.{list}");
        pod.items_mut(&at("requiredDuringSchedulingIgnoredDuringExecution")).for_each(narrow);
        pod.items_mut(&at("preferredDuringSchedulingIgnoredDuringExecution"))
            .filter_map(|weighted| weighted.get_mut("podAffinityTerm"))
            .for_each(narrow);
    }
}

/// Kubelets of old drop owner references and the QoS class; neither may be lost by that.
pub(super) fn pod_status(new: &mut Value, old: &Value) {
    new.keep("metadata.ownerReferences", old);
    new.keep("metadata.deletionTimestamp", old);
    if new.text("status.qosClass").is_empty() {
        new.keep("status.qosClass", old);
    }
    for field in
        ["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"]
    {
        let path = format!("status.{field}");
        if !new.has(&path) {
            new.keep(&path, old);
        }
    }
}

pub(super) fn new_daemon_set(set: &mut Value) {
    let deprecated = "deprecated.daemonset.template.generation";
    if let Some(annotations) = annotations(set) {
        annotations.entry(deprecated).or_insert_with(|| "1".into());
    }
}

/// The generation of the template lives on as an annotation in `apps/v1`.
pub(super) fn daemon_set_template_generation(new: &mut Value, old: &Value) {
    let deprecated = "deprecated.daemonset.template.generation";
    let mut generation =
        meta::annotation(old, deprecated).and_then(|text| text.parse::<i64>().ok()).unwrap_or(1);
    if !super::same(new.at("spec.template"), old.at("spec.template")) {
        generation = generation.saturating_add(1);
    }
    if let Some(annotations) = annotations(new) {
        annotations.insert(deprecated.to_owned(), generation.to_string().into());
    }
}

fn annotations(object: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    meta::metadata_mut(object)?.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
}

const JOB_NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
const CONTROLLER_UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// A job selects its pods by its own uid unless the client says that it brings a selector.
pub(super) fn new_job(job: &mut Value) {
    if job.flag("spec.manualSelector") {
        return;
    }
    let (name, uid) = (meta::name(job).to_owned(), meta::uid(job).to_owned());
    // Labels that the job has from its template follow it.
    let own = job.at("metadata.labels");
    let from_template = own.is_null() || own == job.at("spec.template.metadata.labels");
    let marks =
        JOB_NAME.map(|label| (label, &name)).into_iter().chain(CONTROLLER_UID.map(|label| (label, &uid)));
    let labels = job.at_mut("spec.template.metadata.labels");
    if let Some(labels) = labels.and_then(object_or_made) {
        for (label, value) in marks {
            labels.entry(label).or_insert_with(|| value.as_str().into());
        }
    }
    if from_template {
        let labels = job.at("spec.template.metadata.labels").clone();
        meta::set(job, "labels", labels);
    }
    let selected = job.at_mut("spec.selector.matchLabels");
    if let Some(selected) = selected.and_then(object_or_made) {
        selected.entry(CONTROLLER_UID[0]).or_insert_with(|| uid.as_str().into());
    }
}

/// The value as a map, made where there is nothing. (Label keys hold dots, so paths do not reach into them.)
fn object_or_made(place: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    if place.is_null() {
        *place = json!({});
    }
    place.as_object_mut()
}

/// `dataSource` and `dataSourceRef` say the same of a claim; whoever sets one has set both.
pub(super) fn claim_data_source(claim: &mut Value) {
    let (source, reference) = ("spec.dataSource", "spec.dataSourceRef");
    if claim.has(source) && !claim.has(reference) {
        let same = claim.at(source).clone();
        claim.put(reference, same);
    } else if claim.has(reference)
        && !claim.has(source)
        && claim.text("spec.dataSourceRef.namespace").is_empty()
    {
        let mut same = claim.at(reference).clone();
        same.remove("namespace");
        claim.put(source, same);
    }
}

pub(super) fn claim_data_source_kept(new: &mut Value, _: &Value) {
    claim_data_source(new);
}

/// An update that says nothing of the type means the one there is.
pub(super) fn secret_type_kept(new: &mut Value, old: &Value) {
    if new.text("type").is_empty() {
        new.keep("type", old);
    }
}

/// Of the secrets of a service account only their names count.
pub(super) fn secret_names_only(account: &mut Value) {
    for secret in account.items_mut("secrets") {
        *secret = json!({"name": secret.text("name")});
    }
}

pub(super) fn secret_names_only_kept(new: &mut Value, _: &Value) {
    secret_names_only(new);
}

/// A signing request is fixed once made; only its status moves, by its own endpoints.
pub(super) fn signing_request_fixed(new: &mut Value, old: &Value) {
    new.keep("spec", old);
}

/// Who asks is what the server knows, not what the request says. The server writes it after this.
pub(super) fn new_signing_request(request: &mut Value) {
    for field in ["username", "uid", "groups", "extra"] {
        request.remove(&format!("spec.{field}"));
    }
}

/// Approval has an endpoint of its own: here the conditions that decide stay as they are.
pub(super) fn signing_request_status(new: &mut Value, old: &Value) {
    let decides = |condition: &&Value| matches!(condition.text("type"), "Approved" | "Denied");
    for condition in new.items_mut("status.conditions") {
        let kind = condition.text("type").to_owned();
        let before = old.list("status.conditions").iter().filter(decides).find(|c| c.text("type") == kind);
        if let Some(before) = before {
            *condition = before.clone();
        }
    }
}
