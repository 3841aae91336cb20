//! Deployments, sets, jobs, autoscalers.

use objects::Value;
use serde_json::json;

use super::pods::{labels_from_template, template};
use super::{absent, empty, within};
use crate::dotted::Dotted;

pub(crate) fn deployment(deployment: &mut Value) {
    absent(
        deployment,
        [
            ("spec.replicas", json!(1)),
            ("spec.revisionHistoryLimit", json!(10)),
            ("spec.progressDeadlineSeconds", json!(600)),
            ("spec.strategy.type", json!("RollingUpdate")),
        ],
    );
    if deployment.text("spec.strategy.type") == "RollingUpdate" {
        let quarter = json!("25%");
        absent(
            deployment,
            [
                ("spec.strategy.rollingUpdate.maxUnavailable", quarter.clone()),
                ("spec.strategy.rollingUpdate.maxSurge", quarter),
            ],
        );
    }
    template(deployment, "spec.template");
}

pub(crate) fn replica_set(set: &mut Value) {
    set.default("spec.replicas", 1);
    template(set, "spec.template");
}

pub(crate) fn replication_controller(controller: &mut Value) {
    controller.default("spec.replicas", 1);
    let labels = controller.at("spec.template.metadata.labels").clone();
    if controller.count("spec.selector") == 0 && labels.is_object() {
        controller.put("spec.selector", labels);
    }
    labels_from_template(controller);
    template(controller, "spec.template");
}

pub(crate) fn daemon_set(set: &mut Value) {
    absent(
        set,
        [("spec.revisionHistoryLimit", json!(10)), ("spec.updateStrategy.type", json!("RollingUpdate"))],
    );
    if set.text("spec.updateStrategy.type") == "RollingUpdate" {
        absent(
            set,
            [
                ("spec.updateStrategy.rollingUpdate.maxUnavailable", json!(1)),
                ("spec.updateStrategy.rollingUpdate.maxSurge", json!(0)),
            ],
        );
    }
    template(set, "spec.template");
}

pub(crate) fn stateful_set(set: &mut Value) {
    if set.text("spec.updateStrategy.type").is_empty() {
        set.put("spec.updateStrategy.type", "RollingUpdate");
        empty(set, &["spec.updateStrategy.rollingUpdate"]);
    }
    if set.text("spec.updateStrategy.type") == "RollingUpdate" {
        within(set, "spec.updateStrategy.rollingUpdate", |rolling| rolling.default("partition", 0));
    }
    absent(
        set,
        [
            ("spec.podManagementPolicy", json!("OrderedReady")),
            ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", json!("Retain")),
            ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", json!("Retain")),
            ("spec.replicas", json!(1)),
            ("spec.revisionHistoryLimit", json!(10)),
        ],
    );
    template(set, "spec.template");
    for claim in set.items_mut("spec.volumeClaimTemplates") {
        absent(claim, [("apiVersion", json!("v1")), ("kind", json!("PersistentVolumeClaim"))]);
        super::claim(claim);
    }
}

pub(crate) fn job(job: &mut Value) {
    let fixed = job.has("spec.completions") || job.has("spec.parallelism");
    if !fixed {
        job.put("spec.completions", 1);
    }
    let retries = if job.has("spec.backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    let replaced = if job.has("spec.podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    absent(
        job,
        [
            ("spec.parallelism", json!(1)),
            ("spec.backoffLimit", json!(retries)),
            ("spec.completionMode", json!("NonIndexed")),
            ("spec.suspend", json!(false)),
            ("spec.podReplacementPolicy", json!(replaced)),
            ("spec.manualSelector", json!(false)),
        ],
    );
    labels_from_template(job);
    job_spec(job, "spec");
}

/// What a job and the template of a cron job have in common. A template gets no counts of its own.
fn job_spec(object: &mut Value, path: &str) {
    within(object, path, |spec| {
        template(spec, "template");
        for rule in spec.items_mut("podFailurePolicy.rules") {
            rule.items_mut("onPodConditions").for_each(|pattern| pattern.default("status", "True"));
        }
    });
}

pub(crate) fn cron_job(cron: &mut Value) {
    absent(
        cron,
        [
            ("spec.concurrencyPolicy", json!("Allow")),
            ("spec.suspend", json!(false)),
            ("spec.successfulJobsHistoryLimit", json!(3)),
            ("spec.failedJobsHistoryLimit", json!(1)),
        ],
    );
    within(cron, "spec.jobTemplate", |template| empty(template, &["metadata"]));
    job_spec(cron, "spec.jobTemplate.spec");
}

/// Of `autoscaling/v2`, in which autoscalers are kept; `v1` has fewer fields and one default.
pub(crate) fn horizontal_pod_autoscaler(autoscaler: &mut Value) {
    autoscaler.default("spec.minReplicas", 1);
    if objects::meta::api_version(autoscaler).ends_with("/v1") {
        return;
    }
    if autoscaler.count("spec.metrics") == 0 {
        let cpu = json!([{
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }]);
        autoscaler.put("spec.metrics", cpu);
    }
    within(autoscaler, "spec.behavior", |behavior| {
        absent(
            behavior,
            [
                ("scaleUp.selectPolicy", json!("Max")),
                ("scaleUp.stabilizationWindowSeconds", json!(0)),
                (
                    "scaleUp.policies",
                    json!([
                        {"type": "Pods", "value": 4, "periodSeconds": 15},
                        {"type": "Percent", "value": 100, "periodSeconds": 15},
                    ]),
                ),
                ("scaleDown.selectPolicy", json!("Max")),
                ("scaleDown.policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}])),
            ],
        );
    });
}
