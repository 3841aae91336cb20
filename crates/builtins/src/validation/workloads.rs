//! What keeps pods: deployments, sets, controllers.

use objects::selector::labels::Selector;
use objects::{ErrorList, Path, Value, names};
use serde_json::json;

use super::selectors::{is_empty, label_selector};
use super::{Place, checked, claim_spec, pods};
use crate::dotted::Dotted;

pub(crate) fn deployment(deployment: &Value) -> ErrorList {
    checked(deployment, |deployment| {
        let spec = deployment.at("spec");
        spec.not_negative("replicas");
        selector(&spec, "deployment");
        template_of_set(&spec, "ReplicaSet");
        deployment_strategy(&spec);
        spec.not_negative("minReadySeconds");
        spec.not_negative("revisionHistoryLimit");
        spec.not_negative("progressDeadlineSeconds");
        if spec
            .int("progressDeadlineSeconds")
            .is_some_and(|deadline| deadline <= spec.number("minReadySeconds"))
        {
            spec.invalid("progressDeadlineSeconds", "must be greater than minReadySeconds");
        }
    })
}

pub(crate) fn replica_set(set: &Value) -> ErrorList {
    checked(set, |set| {
        let spec = set.at("spec");
        spec.not_negative("replicas");
        spec.not_negative("minReadySeconds");
        selector(&spec, "deployment");
        template_of_set(&spec, "ReplicaSet");
    })
}

pub(crate) fn daemon_set(set: &Value) -> ErrorList {
    checked(set, |set| {
        let spec = set.at("spec");
        label_selector(&spec.at("selector"));
        if is_empty(spec.value.at("selector")) && spec.has("selector") {
            spec.invalid("selector", "empty selector is invalid for daemonset");
        }
        if !spec.has("selector") {
            // No selector selects nothing, and so not the template either.
            matches_template(&spec, Some(Selector::nothing()));
        }
        template_of_set(&spec, "DaemonSet");
        spec.not_negative("minReadySeconds");
        daemon_set_strategy(&spec);
        spec.not_negative("revisionHistoryLimit");
    })
}

pub(crate) fn stateful_set(set: &Value) -> ErrorList {
    checked(set, |set| {
        let spec = set.at("spec");
        match spec.text("podManagementPolicy") {
            "" => spec.required("podManagementPolicy", ""),
            "OrderedReady" | "Parallel" => {}
            _ => spec.invalid("podManagementPolicy", "must be 'OrderedReady' or 'Parallel'"),
        }
        stateful_set_strategy(&spec);
        for moment in ["whenDeleted", "whenScaled"] {
            spec.at("persistentVolumeClaimRetentionPolicy").choice_if(moment, &["Retain", "Delete"]);
        }
        spec.items("volumeClaimTemplates").for_each(|claim| claim_spec(&claim.at("spec")));
        spec.not_negative("replicas");
        spec.not_negative("minReadySeconds");
        spec.not_negative("ordinals.start");
        spec.shape_if("serviceName", names::dns1123_label);
        selector(&spec, "statefulset");
        let template = template_with_claims(spec.value);
        let mut claimed = spec.value.clone();
        claimed.put("template", template);
        template_of_set(&spec.instead(&claimed), "StatefulSet");
    })
}

/// The template as the pods will have it: claims are volumes, and the host name is the set's to give.
fn template_with_claims(spec: &Value) -> Value {
    let mut template = spec.at("template").clone();
    let claims: Vec<&str> =
        spec.list("volumeClaimTemplates").iter().map(|claim| claim.text("metadata.name")).collect();
    if !claims.is_empty() && template.has("spec") {
        let claimed =
            claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let others =
            template.list("spec.volumes").iter().filter(|volume| !claims.contains(&volume.text("name")));
        let volumes: Vec<Value> = claimed.chain(others.cloned()).collect();
        template.put("spec.volumes", volumes);
    }
    template.remove("spec.hostname");
    template.remove("spec.subdomain");
    template
}

pub(crate) fn replication_controller(controller: &Value) -> ErrorList {
    checked(controller, |controller| {
        let spec = controller.at("spec");
        spec.not_negative("minReadySeconds");
        spec.not_negative("replicas");
        if spec.count("selector") == 0 {
            spec.required("selector", "");
        }
        if !spec.has("template") {
            return spec.required("template", "");
        }
        let selects = spec.value.at("selector").as_object().map(Selector::from_map);
        matches_template(&spec, selects);
        restarts_always(&spec, "ReplicationController");
        pods::template(&spec.at("template"));
    })
}

/// A selector that is there, sound, and not empty.
fn selector(spec: &Place<'_>, of: &str) {
    if !spec.has("selector") {
        return spec.required("selector", "");
    }
    label_selector(&spec.at("selector"));
    if is_empty(spec.value.at("selector")) {
        spec.invalid("selector", format!("empty selector is invalid for {of}"));
    }
}

fn template_of_set(spec: &Place<'_>, kind: &str) {
    if spec.has("selector") && !is_empty(spec.value.at("selector")) {
        matches_template(spec, Selector::from_value(spec.value.at("selector")).ok());
    }
    pods::template(&spec.at("template"));
    restarts_always(spec, kind);
}

/// What a set makes it must also find again.
pub(super) fn matches_template(spec: &Place<'_>, selects: Option<Selector>) {
    let labels = spec.value.at("template.metadata.labels");
    if selects.is_some_and(|selects| !selects.matches(labels.as_object())) {
        let shown = if labels.is_null() { json!({}) } else { labels.clone() };
        spec.invalid_as("template.metadata.labels", shown, "`selector` does not match template `labels`");
    }
}

fn restarts_always(spec: &Place<'_>, kind: &str) {
    let template = spec.at("template.spec");
    if template.text("restartPolicy") != "Always" {
        template.unsupported("restartPolicy", &["Always"]);
    }
    if template.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        template.forbidden("activeDeadlineSeconds", detail);
    }
}

/// A number, or the number before the percent sign.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

fn at_most_all(rolling: &Place<'_>, path: &str) {
    let value = rolling.value.at(path);
    if value.is_string() && names::percent(rolling.text(path)).is_empty() && amount(value) > 100 {
        rolling.invalid(path, "must not be greater than 100%");
    }
}

fn deployment_strategy(spec: &Place<'_>) {
    let strategy = spec.at("strategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if !rolling.is_null() => {
            strategy.forbidden("rollingUpdate", "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_null() => {
            strategy.required("rollingUpdate", "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            rolling.int_or_percent("maxUnavailable");
            rolling.int_or_percent("maxSurge");
            if amount(rolling.value.at("maxUnavailable")) == 0 && amount(rolling.value.at("maxSurge")) == 0 {
                rolling.invalid("maxUnavailable", "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(&rolling, "maxUnavailable");
        }
        _ => strategy.unsupported("", &["Recreate", "RollingUpdate"]),
    }
}

fn daemon_set_strategy(spec: &Place<'_>) {
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => strategy.required("rollingUpdate", ""),
        "RollingUpdate" => {
            for bound in ["maxUnavailable", "maxSurge"] {
                rolling.int_or_percent(bound);
                at_most_all(&rolling, bound);
            }
            let unavailable = amount(rolling.value.at("maxUnavailable")) != 0;
            let surge = amount(rolling.value.at("maxSurge")) != 0;
            if unavailable && surge {
                rolling.invalid("maxSurge", "may not be set when maxUnavailable is non-zero");
            } else if !unavailable && !surge {
                rolling.required("maxUnavailable", "cannot be 0 when maxSurge is 0");
            }
        }
        _ => strategy.unsupported("", &["RollingUpdate", "OnDelete"]),
    }
}

fn stateful_set_strategy(spec: &Place<'_>) {
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "" => spec.required("updateStrategy", ""),
        "OnDelete" if !rolling.is_null() => {
            strategy.invalid("rollingUpdate", "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.not_negative("partition");
            if rolling.has("maxUnavailable") {
                rolling.int_or_percent("maxUnavailable");
                if amount(rolling.value.at("maxUnavailable")) == 0 {
                    rolling.invalid("maxUnavailable", "cannot be 0");
                }
                at_most_all(&rolling, "maxUnavailable");
            }
        }
        _ => strategy.invalid("", "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

pub(crate) fn selector_fixed(new: &Value, old: &Value) -> ErrorList {
    checked(new, |set| set.immutable(old, &["spec.selector"]))
}

pub(crate) fn stateful_set_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |set| {
        let fixed =
            ["spec.selector", "spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy"];
        set.immutable(old, &fixed);
    })
}

pub(crate) fn controller_revision(revision: &Value) -> ErrorList {
    checked(revision, |revision| {
        revision.not_negative("revision");
        match revision.value.at("data") {
            Value::Null => revision.required("data", "data is mandatory"),
            Value::Object(_) => {}
            _ => revision.required("data", "data must be a valid JSON object"),
        }
    })
}

pub(crate) fn controller_revision_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |revision| revision.immutable(old, &["data"]))
}

/// Counts of replicas: none is negative, parts are not more than the whole, collisions are not forgotten.
pub(crate) fn replicas_status(new: &Value, old: &Value) -> ErrorList {
    const COUNTS: [&str; 12] = [
        "replicas",
        "fullyLabeledReplicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "currentReplicas",
        "terminatingReplicas",
        "observedGeneration",
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberReady",
    ];
    const PARTS: [&str; 5] =
        ["fullyLabeledReplicas", "updatedReplicas", "readyReplicas", "availableReplicas", "currentReplicas"];
    checked(new, |object| {
        let status = object.at("status");
        COUNTS.iter().for_each(|count| status.not_negative(count));
        if status.has("replicas") {
            let all = status.number("replicas");
            for part in PARTS.iter().filter(|part| status.number(part) > all) {
                status.invalid(part, "cannot be greater than status.replicas");
            }
            if status.number("availableReplicas") > status.number("readyReplicas") {
                status.invalid("availableReplicas", "cannot be greater than readyReplicas");
            }
        }
        let collisions = status.number("collisionCount");
        if old.at("status").number("collisionCount") > collisions {
            let path = Path::new("status.collisionCount");
            status.called(path).invalid_as("", collisions, "cannot be decremented");
        }
    })
}
