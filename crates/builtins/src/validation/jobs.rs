//! Jobs and what starts them on a schedule.

use objects::selector::labels::Selector;
use objects::{ErrorList, Value, meta, names};

use super::selectors::label_selector;
use super::workloads::matches_template;
use super::{Place, checked, cron, pods};
use crate::behaviour::same;
use crate::dotted::Dotted;

const MAX_PARALLELISM_INDEXED: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
const MAX_MANAGED_BY: usize = 63;
const MAX_FAILURE_RULES: usize = 20;

pub(crate) fn job(job: &Value) -> ErrorList {
    checked(job, |job| {
        let spec = job.at("spec");
        job_spec(&spec);
        if !spec.has("selector") {
            return spec.required("selector", "");
        }
        label_selector(&spec.at("selector"));
        matches_template(&spec, Selector::from_value(spec.value.at("selector")).ok());
    })
}

pub(crate) fn new_job(job: &Value) -> ErrorList {
    checked(job, |job| {
        if !job.flag("spec.manualSelector") {
            generated_selector(job);
        }
        let completions = job.number("spec.completions");
        if job.text("spec.completionMode") == "Indexed" && completions > 0 {
            let last = format!("{}-{}", meta::name(job), completions - 1);
            if !names::dns1123_label(&last).is_empty() {
                let detail = format!("will not able to create pod with invalid DNS label: {last}");
                job.invalid("metadata.name", detail);
            }
        }
    })
}

/// The labels that mark a job's pods, and its selector, are the server's to make.
fn generated_selector(job: &Place<'_>) {
    let (name, uid) = (meta::name(job), meta::uid(job));
    let metadata = job.at("spec.template.metadata");
    let labels = job.value.at("spec.template.metadata.labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (label, value) in expected {
        match labels.get(label).and_then(Value::as_str) {
            None => metadata
                .at("labels")
                .called(metadata.path_to("labels").key(label))
                .required("", format!("must be '{value}'")),
            Some(found) if found != value => {
                let place = metadata.at("labels").called(metadata.path_to("labels").key(label));
                place.invalid_as("", labels.clone(), format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let marks: serde_json::Map<String, Value> =
        expected.iter().map(|(label, value)| ((*label).to_owned(), (*value).into())).collect();
    let selector = Selector::from_value(job.value.at("spec.selector"));
    if selector.is_ok_and(|selector| !selector.matches(Some(&marks))) {
        job.invalid("spec.selector", "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Place<'_>) {
    for count in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.not_negative(count);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        spec.required("backoffLimitPerIndex", "when maxFailedIndexes is specified");
    }
    if spec.has("managedBy") {
        spec.shape("managedBy", names::domain_prefixed_path);
        if spec.text("managedBy").len() > MAX_MANAGED_BY {
            spec.report(objects::field::Error::too_long(&spec.path_to("managedBy"), MAX_MANAGED_BY));
        }
    }
    completion_mode(spec);
    failure_policy(spec);
    if spec.has("successPolicy") && spec.text("completionMode") != "Indexed" {
        spec.invalid("successPolicy", "requires indexed completion mode");
    }
    if spec.has("podFailurePolicy") && !matches!(spec.text("podReplacementPolicy"), "" | "Failed") {
        spec.unsupported("podReplacementPolicy", &["Failed"]);
    } else {
        spec.choice_if("podReplacementPolicy", &["Failed", "TerminatingOrFailed"]);
    }
    pods::template(&spec.at("template"));
    restart_policy(spec);
}

fn completion_mode(spec: &Place<'_>) {
    spec.choice_if("completionMode", &["NonIndexed", "Indexed"]);
    if spec.text("completionMode") != "Indexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"].iter().filter(|field| spec.has(field)) {
            spec.invalid(field, "requires indexed completion mode");
        }
        return;
    }
    if !spec.has("completions") {
        spec.required("completions", "when completion mode is Indexed");
    }
    if spec.number("parallelism") > MAX_PARALLELISM_INDEXED {
        let detail = format!(
            "must be less than or equal to {MAX_PARALLELISM_INDEXED} when completion mode is Indexed"
        );
        spec.invalid("parallelism", detail);
    }
    if let Some(failed) = spec.int("maxFailedIndexes") {
        if spec.int("completions").is_some_and(|completions| failed > completions) {
            spec.invalid("maxFailedIndexes", "must be less than or equal to completions");
        }
        if failed > MAX_FAILED_INDEXES {
            spec.invalid("maxFailedIndexes", format!("must be less than or equal to {MAX_FAILED_INDEXES}"));
        }
    }
}

fn failure_policy(spec: &Place<'_>) {
    let policy = spec.at("podFailurePolicy");
    if policy.count("rules") > MAX_FAILURE_RULES {
        policy.too_many("rules", MAX_FAILURE_RULES);
    }
    let containers =
        spec.list("template.spec.containers").iter().chain(spec.list("template.spec.initContainers"));
    let containers: Vec<&str> = containers.map(|container| container.text("name")).collect();
    for rule in policy.items("rules") {
        rule.choice("action", &["Count", "FailIndex", "FailJob", "Ignore"]);
        let codes = rule.at("onExitCodes");
        match (codes.is_null(), rule.count("onPodConditions")) {
            (true, 0) => rule.invalid("", "specifying one of OnExitCodes and OnPodConditions is required"),
            (false, 1..) => {
                rule.invalid("", "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            _ => {}
        }
        for pattern in rule.items("onPodConditions") {
            pattern.shape("type", names::qualified_name);
            pattern.choice("status", &["False", "True", "Unknown"]);
        }
        if codes.is_null() {
            continue;
        }
        codes.choice("operator", &["In", "NotIn"]);
        let named = codes.text("containerName");
        if codes.has("containerName") && !containers.contains(&named) {
            codes.invalid(
                "containerName",
                "must be one of the container or initContainer names in the pod template",
            );
        }
        if codes.count("values") == 0 {
            codes.invalid("values", "at least one value is required");
        }
        if codes.text("operator") == "In" {
            for value in codes.items("values").filter(|value| value.number("") == 0) {
                value.invalid("", "must not be 0 for the In operator");
            }
        }
    }
}

/// The controller restarts pods as often as it was told to; the kubelet must not do so for ever.
fn restart_policy(spec: &Place<'_>) {
    let template = spec.at("template.spec");
    match template.text("restartPolicy") {
        "" | "Always" => template.required("restartPolicy", "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.has("podFailurePolicy") => {
            template
                .invalid("restartPolicy", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => template.unsupported("restartPolicy", &["OnFailure", "Never"]),
    }
}

pub(crate) fn job_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |job| {
        if job.text("spec.completionMode") == "Indexed" {
            let spec = job.at("spec");
            let changed = !same(spec.value.at("completions"), old.at("spec.completions"));
            if changed && spec.has("completions") && spec.number("completions") != spec.number("parallelism")
            {
                spec.invalid("completions", "can only be modified in tandem with spec.parallelism");
            }
        } else {
            job.immutable(old, &["spec.completions"]);
        }
        let fixed = [
            "spec.selector",
            "spec.completionMode",
            "spec.podFailurePolicy",
            "spec.backoffLimitPerIndex",
            "spec.managedBy",
            "spec.successPolicy",
        ];
        job.immutable(old, &fixed);
        if !same(job.value.at("spec.template"), &reachable_template(job.value, old)) {
            job.invalid("spec.template", "field is immutable");
        }
    })
}

/// The old template with what may change of it taken from the new: directives, while nothing runs yet.
fn reachable_template(new: &Value, old: &Value) -> Value {
    let mut template = old.at("spec.template").clone();
    let never_started = old.flag("spec.suspend") && !old.has("status.startTime");
    if never_started {
        let directives = [
            "spec.affinity.nodeAffinity",
            "spec.nodeSelector",
            "spec.tolerations",
            "spec.schedulingGates",
            "metadata.annotations",
            "metadata.labels",
        ];
        for path in directives {
            template.keep(path, new.at("spec.template"));
        }
    }
    template
}

pub(crate) fn job_status_update(new: &Value, old: &Value) -> ErrorList {
    let holds = |job: &Value, kind: &str| {
        job.list("status.conditions").iter().any(|c| c.text("type") == kind && c.text("status") == "True")
    };
    checked(new, |job| {
        let status = job.at("status");
        for count in ["active", "succeeded", "failed", "ready", "terminating"] {
            status.not_negative(count);
        }
        for kind in ["Failed", "Complete", "FailureTarget"] {
            if holds(old, kind) && !holds(job, kind) {
                let detail = format!("cannot disable the terminal {kind}=True condition");
                status.invalid_as("conditions", Value::Null, detail);
            }
        }
        for count in ["failed", "succeeded"] {
            if status.number(count) < old.at("status").number(count) {
                status.invalid_as(
                    count,
                    status.number(count),
                    format!("cannot decrease the {count} counter"),
                );
            }
        }
        if holds(job, "Complete") && holds(job, "Failed") {
            status.invalid_as(
                "conditions",
                Value::Null,
                "cannot set Complete=True and Failed=true conditions",
            );
        }
        if status.has("completionTime") && old.has("status.completionTime") {
            job.immutable(old, &["status.completionTime"]);
        }
    })
}

pub(crate) fn cron_job(cron: &Value) -> ErrorList {
    checked(cron, |cron| {
        let spec = cron.at("spec");
        if spec.need("schedule") {
            if let Err(detail) = cron::parse(spec.text("schedule")) {
                spec.invalid("schedule", detail);
            }
            if spec.text("schedule").contains("TZ") {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                spec.invalid("schedule", detail);
            }
        }
        spec.not_negative("startingDeadlineSeconds");
        time_zone(&spec);
        spec.choice("concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
        let template = spec.at("jobTemplate.spec");
        job_spec(&template);
        if template.has("selector") {
            template.invalid("selector", "`selector` will be auto-generated");
        }
        if template.flag("manualSelector") {
            template.unsupported("manualSelector", &["nil", "false"]);
        }
        spec.not_negative("successfulJobsHistoryLimit");
        spec.not_negative("failedJobsHistoryLimit");
    })
}

/// The shape of a zone's name. Whether there is such a zone is for whoever has the database of them.
fn time_zone(spec: &Place<'_>) {
    if !spec.has("timeZone") {
        return;
    }
    let zone = spec.text("timeZone");
    let sound = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.len() <= 14
            && !part.starts_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if zone.is_empty() {
        spec.invalid("timeZone", "timeZone must be nil or non-empty string");
    } else if !zone.split('/').all(sound) {
        spec.invalid("timeZone", format!("unknown time zone {zone}"));
    } else if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        spec.invalid("timeZone", detail);
    }
}

pub(crate) fn new_cron_job(cron: &Value) -> ErrorList {
    checked(cron, |cron| {
        if meta::name(cron).len() > 52 {
            cron.invalid("metadata.name", "must be no more than 52 characters");
        }
    })
}
