//! Sets, jobs and what they make.

use super::*;

fn template(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "x"}]}})
}

fn with(fields: Value) -> Value {
    let mut spec =
        json!({"selector": {"matchLabels": {"app": "a"}}, "template": template(json!({"app": "a"}))});
    for (path, value) in fields.as_object().unwrap() {
        spec.put(path, value.clone());
    }
    json!({"spec": spec})
}

#[test]
fn deployments() {
    let deployment = |fields: Value, expected: &[&str]| check("apps", "Deployment", with(fields), expected);
    deployment(json!({}), &[]);
    deployment(
        json!({"replicas": -1}),
        &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    );
    deployment(json!({"selector": null}), &["spec.selector: Required value"]);
    deployment(
        json!({"selector": {}}),
        &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    );
    deployment(
        json!({"template.metadata.labels": {"app": "b"}}),
        &[
            "spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not match template `labels`",
        ],
    );
    deployment(
        json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}),
        &[
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
        ],
    );
    deployment(
        json!({"template.spec.restartPolicy": "Never"}),
        &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
    );
    deployment(json!({"template.spec.containers": []}), &["spec.template.spec.containers: Required value"]);
    deployment(
        json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
        &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    );
    deployment(
        json!({"strategy.rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
    );
    deployment(
        json!({"strategy.rollingUpdate": {"maxUnavailable": "101%"}}),
        &[
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        ],
    );
    deployment(
        json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}),
        &["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
    );
}

#[test]
fn other_sets() {
    check("apps", "ReplicaSet", with(json!({})), &[]);
    check("apps", "ReplicaSet", with(json!({"selector": null})), &["spec.selector: Required value"]);
    check("apps", "DaemonSet", with(json!({})), &[]);
    check(
        "apps",
        "DaemonSet",
        with(json!({"selector": null})),
        &[
            "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
        ],
    );
    check(
        "apps",
        "DaemonSet",
        with(json!({"updateStrategy.rollingUpdate": {"maxUnavailable": 0}})),
        &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
    );
    check(
        "apps",
        "DaemonSet",
        with(json!({"template.spec.activeDeadlineSeconds": 5})),
        &[
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
        ],
    );
    check("apps", "StatefulSet", with(json!({})), &[]);
    check(
        "apps",
        "StatefulSet",
        with(json!({"podManagementPolicy": "Chaos"})),
        &["spec.podManagementPolicy: Invalid value: \"Chaos\": must be 'OrderedReady' or 'Parallel'"],
    );
    let claimed = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let mounted = json!([{"name": "a", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]);
    check(
        "apps",
        "StatefulSet",
        with(json!({"volumeClaimTemplates": claimed, "template.spec.containers": mounted})),
        &[],
    );
    check(
        "apps",
        "StatefulSet",
        with(json!({"template.spec.containers": mounted})),
        &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""],
    );
    check("", "ReplicationController", json!({"spec": {"template": template(json!({"a": "b"}))}}), &[]);
    check(
        "",
        "ReplicationController",
        json!({"spec": {"selector": {"a": "c"}, "template": template(json!({"a": "b"}))}}),
        &[
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
        ],
    );
    check(
        "",
        "ReplicationController",
        json!({"spec": {"selector": {"a": "c"}}}),
        &["spec.template: Required value"],
    );
    check("apps", "ControllerRevision", json!({"revision": 1}), &["data: Required value: data is mandatory"]);
}

fn job(fields: Value) -> Value {
    let mut spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}}});
    for (path, value) in fields.as_object().unwrap() {
        spec.put(path, value.clone());
    }
    json!({"spec": spec})
}

#[test]
fn jobs() {
    let check = |fields: Value, expected: &[&str]| check("batch", "Job", job(fields), expected);
    check(json!({}), &[]);
    check(
        json!({"template.spec.restartPolicy": "Always"}),
        &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
    );
    check(
        json!({"parallelism": -1}),
        &["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(
        json!({"completionMode": "Indexed", "parallelism": 1}),
        &["spec.completions: Required value: when completion mode is Indexed"],
    );
    check(
        json!({"backoffLimitPerIndex": 1}),
        &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    );
    check(
        json!({"ttlSecondsAfterFinished": -5}),
        &["spec.ttlSecondsAfterFinished: Invalid value: -5: must be greater than or equal to 0"],
    );
    check(
        json!({"selector": {"matchLabels": {"mine": "x"}}}),
        &[
            "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u1\",\"batch.kubernetes.io/job-name\":\"it\",\"controller-uid\":\"u1\",\"job-name\":\"it\"}: `selector` does not match template `labels`",
            "spec.selector: Invalid value: {\"matchLabels\":{\"batch.kubernetes.io/controller-uid\":\"u1\",\"mine\":\"x\"}}: `selector` not auto-generated",
        ],
    );
    check(
        json!({"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}}),
        &[
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ],
    );
}

#[test]
fn cron_jobs() {
    let check = |fields: Value, expected: &[&str]| {
        let mut spec = json!({"schedule": "* * * * *", "jobTemplate": job(json!({}))});
        for (path, value) in fields.as_object().unwrap() {
            spec.put(path, value.clone());
        }
        check("batch", "CronJob", json!({"spec": spec}), expected);
    };
    check(json!({}), &[]);
    check(json!({"schedule": ""}), &["spec.schedule: Required value"]);
    check(
        json!({"schedule": "often"}),
        &["spec.schedule: Invalid value: \"often\": expected exactly 5 fields, found 1: [often]"],
    );
    check(
        json!({"schedule": "TZ=UTC 0 0 * * *"}),
        &[
            "spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ],
    );
    check(
        json!({"timeZone": "Mars/../x"}),
        &["spec.timeZone: Invalid value: \"Mars/../x\": unknown time zone Mars/../x"],
    );
    check(
        json!({"concurrencyPolicy": "Race"}),
        &[
            "spec.concurrencyPolicy: Unsupported value: \"Race\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
        ],
    );
    check(
        json!({"jobTemplate.spec.selector": {"matchLabels": {}}}),
        &[
            "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{}}: `selector` will be auto-generated",
        ],
    );
    let long = "a".repeat(53);
    super::check(
        "batch",
        "CronJob",
        json!({"metadata": {"name": long}, "spec": {"schedule": "@daily", "jobTemplate": job(json!({}))}}),
        &[&format!("metadata.name: Invalid value: \"{long}\": must be no more than 52 characters")],
    );
}
