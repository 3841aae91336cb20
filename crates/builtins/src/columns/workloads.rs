//! What makes and keeps pods: deployments, sets, jobs, autoscalers, budgets.

use objects::{GroupVersion, Value, meta};

use super::shown::{self as text_of, has_condition, int_or_text};
use super::{AGE, Column, NAME, count, number, shown, shown_at, since, text, text_or};
use crate::dotted::Dotted;

const CONTAINERS: Column = shown("Containers", |o| of_containers(o, "spec.template", "name"));
const IMAGES: Column = shown("Images", |o| of_containers(o, "spec.template", "image"));
const SELECTOR: Column = shown("Selector", |o| text_of::selector(o.at("spec.selector")));

fn of_containers(object: &Value, template: &str, field: &str) -> String {
    let containers = object.at(template).list("spec.containers");
    containers.iter().map(|container| container.text(field)).collect::<Vec<_>>().join(",")
}

pub(crate) static DEPLOYMENT: [Column; 8] = [
    NAME,
    shown("Ready", |o| format!("{}/{}", o.number("status.readyReplicas"), o.number("spec.replicas"))),
    number("Up-to-date", "status.updatedReplicas").announced("string"),
    number("Available", "status.availableReplicas").announced("string"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    SELECTOR.wide(),
];

pub(crate) static REPLICA_SET: [Column; 8] = [
    NAME,
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    SELECTOR.wide(),
];

pub(crate) static REPLICATION_CONTROLLER: [Column; 8] = [
    NAME,
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    shown("Selector", |o| text_of::labels(o.at("spec.selector"))).wide(),
];

pub(crate) static DAEMON_SET: [Column; 11] = [
    NAME,
    number("Desired", "status.desiredNumberScheduled"),
    number("Current", "status.currentNumberScheduled"),
    number("Ready", "status.numberReady"),
    number("Up-to-date", "status.updatedNumberScheduled"),
    number("Available", "status.numberAvailable"),
    shown("Node Selector", |o| text_of::labels(o.at("spec.template.spec.nodeSelector"))),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    SELECTOR.wide(),
];

pub(crate) static STATEFUL_SET: [Column; 5] = [
    NAME,
    shown("Ready", |o| format!("{}/{}", o.number("status.readyReplicas"), o.number("spec.replicas"))),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
];

pub(crate) static JOB: [Column; 8] = [
    NAME,
    shown("Status", job_status),
    shown("Completions", |job| {
        let succeeded = job.number("status.succeeded");
        match (job.int("spec.completions"), job.number("spec.parallelism")) {
            (Some(wanted), _) => format!("{succeeded}/{wanted}"),
            (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
            _ => format!("{succeeded}/1"),
        }
    }),
    shown_at("Duration", |job, now| {
        let Some(start) = text_of::seconds(job.text("status.startTime")) else { return String::new() };
        let end = text_of::seconds(job.text("status.completionTime")).unwrap_or(now);
        text_of::duration(end.saturating_sub(start))
    }),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    SELECTOR.wide(),
];

fn job_status(job: &Value) -> String {
    let first = |kinds: &[&'static str]| kinds.iter().copied().find(|kind| has_condition(job, kind));
    let status = match first(&["Complete", "Failed"]) {
        Some(done) => done,
        None if meta::is_deleting(job) => "Terminating",
        None => first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]).unwrap_or("Running"),
    };
    status.to_owned()
}

pub(crate) static CRON_JOB: [Column; 10] = [
    NAME,
    text("Schedule", "spec.schedule"),
    text_or("Timezone", "spec.timeZone", "<none>"),
    shown("Suspend", |o| {
        let shown = match o.at("spec.suspend").as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        shown.to_owned()
    })
    .announced("boolean"),
    count("Active", "status.active"),
    since("Last Schedule", "status.lastScheduleTime", "<none>"),
    AGE,
    shown("Containers", |o| of_containers(o, "spec.jobTemplate.spec.template", "name")).wide(),
    shown("Images", |o| of_containers(o, "spec.jobTemplate.spec.template", "image")).wide(),
    shown("Selector", |o| text_of::selector(o.at("spec.jobTemplate.spec.selector"))).wide(),
];

pub(crate) static POD_TEMPLATE: [Column; 4] = [
    NAME,
    shown("Containers", |o| of_containers(o, "template", "name")),
    shown("Images", |o| of_containers(o, "template", "image")),
    shown("Pod Labels", |o| text_of::labels(o.at("template.metadata.labels"))),
];

pub(crate) static CONTROLLER_REVISION: [Column; 4] = [
    NAME,
    shown("Controller", |revision| {
        let owner = meta::owner_references(revision).iter().find(|owner| owner.flag("controller"));
        let Some(owner) = owner else { return "<none>".to_owned() };
        let group = GroupVersion::parse(owner.text("apiVersion")).unwrap_or_default().group;
        let dot = if group.is_empty() { "" } else { "." };
        format!("{}{dot}{group}/{}", owner.text("kind").to_lowercase(), owner.text("name"))
    }),
    number("Revision", "revision").announced("string"),
    AGE,
];

pub(crate) static POD_DISRUPTION_BUDGET: [Column; 5] = [
    NAME,
    shown("Min Available", |o| int_or_not_applicable(o.at("spec.minAvailable"))),
    shown("Max Unavailable", |o| int_or_not_applicable(o.at("spec.maxUnavailable"))),
    number("Allowed Disruptions", "status.disruptionsAllowed"),
    AGE,
];

fn int_or_not_applicable(value: &Value) -> String {
    if value.is_null() { "N/A".to_owned() } else { int_or_text(value) }
}

pub(crate) static HORIZONTAL_POD_AUTOSCALER: [Column; 7] = [
    NAME,
    shown("Reference", |o| {
        format!("{}/{}", o.text("spec.scaleTargetRef.kind"), o.text("spec.scaleTargetRef.name"))
    }),
    shown("Targets", targets),
    shown("MinPods", |o| o.int("spec.minReplicas").map_or("<unset>".to_owned(), |min| min.to_string())),
    number("MaxPods", "spec.maxReplicas").announced("string"),
    number("Replicas", "status.currentReplicas").announced("string"),
    AGE,
];

/// `autoscaling/v2` has a list of metrics; `v1` has one target for the CPU.
fn targets(autoscaler: &Value) -> String {
    let now = autoscaler.list("status.currentMetrics");
    let mut shown: Vec<String> = autoscaler
        .list("spec.metrics")
        .iter()
        .enumerate()
        .map(|(i, metric)| target(metric, now.get(i).unwrap_or(&Value::Null)))
        .collect();
    if let Some(wanted) = autoscaler.int("spec.targetCPUUtilizationPercentage") {
        let current = autoscaler.int("status.currentCPUUtilizationPercentage");
        shown.push(format!(
            "cpu: {}/{wanted}%",
            current.map_or("<unknown>".to_owned(), |now| format!("{now}%"))
        ));
    }
    text_of::few(&shown, 2, ", ", "<none>")
}

fn target(metric: &Value, status: &Value) -> String {
    let source = match metric.text("type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (wanted, current) = (metric.at(source), status.at(source));
    let quantity = |field: &str| match current.at("current").at(field) {
        Value::Null => "<unknown>".to_owned(),
        value => int_or_text(value),
    };
    let percent =
        |value: Option<i64>, absent: &str| value.map_or(absent.to_owned(), |value| format!("{value}%"));
    let per_resource = matches!(source, "resource" | "containerResource");
    match wanted.at("target.averageValue") {
        Value::Null if per_resource => format!(
            "{}: {}/{}",
            wanted.text("name"),
            percent(current.int("current.averageUtilization"), "<unknown>"),
            percent(wanted.int("target.averageUtilization"), "<auto>"),
        ),
        Value::Null => format!("{}/{}", quantity("value"), int_or_text(wanted.at("target.value"))),
        average if per_resource => {
            format!("{}: {}/{}", wanted.text("name"), quantity("averageValue"), int_or_text(average))
        }
        average if source == "pods" => format!("{}/{}", quantity("averageValue"), int_or_text(average)),
        average => format!("{}/{} (avg)", quantity("averageValue"), int_or_text(average)),
    }
}

pub(crate) static SCALE: [Column; 4] =
    [NAME, number("Desired", "spec.replicas"), number("Available", "status.replicas"), AGE];
