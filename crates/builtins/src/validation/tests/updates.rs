//! Changes that are refused.

use super::*;

#[test]
fn pods() {
    let pod = |fields: Value| {
        let mut spec = json!({"containers": [{"name": "a", "image": "x"}]});
        for (path, value) in fields.as_object().unwrap() {
            spec.put(path, value.clone());
        }
        json!({"spec": spec})
    };
    let refused = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";
    let check =
        |old: Value, new: Value, expected: &[&str]| check_update("", "Pod", pod(old), pod(new), expected);
    check(json!({}), json!({}), &[]);
    // The pull policy of a new image is not defaulted anew: what was there comes with the update.
    let image =
        |image: &str| json!({"containers": [{"name": "a", "image": image, "imagePullPolicy": "Always"}]});
    check(image("x"), image("y"), &[]);
    check(json!({}), json!({"nodeName": "n"}), &[refused]);
    check(
        json!({}),
        json!({"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}),
        &["spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
    check(
        json!({"activeDeadlineSeconds": 5}),
        json!({"activeDeadlineSeconds": 9}),
        &["spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value"],
    );
    check(
        json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
        json!({}),
        &[
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ],
    );
    check(json!({}), json!({"tolerations": [{"key": "a", "operator": "Exists"}]}), &[]);
    check(json!({"schedulingGates": [{"name": "a"}]}), json!({"nodeSelector": {"a": "b"}}), &[]);
    check(
        json!({}),
        json!({"schedulingGates": [{"name": "a"}]}),
        &[
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a'",
        ],
    );
}

#[test]
fn workloads() {
    let set = |app: &str| json!({"spec": {"selector": {"matchLabels": {"app": app}}, "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "a", "image": "x"}]}}}});
    let fixed = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable";
    for kind in ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"] {
        check_update("apps", kind, set("a"), set("a"), &[]);
        check_update("apps", kind, set("a"), set("b"), &[fixed]);
    }
    let job = |image: &str, suspend: bool| {
        json!({"spec": {"suspend": suspend, "selector": {"matchLabels": {"a": "b"}}, "manualSelector": true,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "nodeSelector": {"i": image}, "containers": [{"name": "a", "image": "x"}]}}}})
    };
    check_update("batch", "Job", job("x", false), job("x", true), &[]);
    let said = super::super::job_update(&job("y", false), &job("x", false));
    assert_eq!(said.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["spec.template"]);
    check_update("batch", "Job", job("x", true), job("y", true), &[]);
}

#[test]
fn configuration() {
    let sealed = json!({"immutable": true, "data": {"a": "MQ=="}});
    let detail = "field is immutable when `immutable` is set";
    for kind in ["ConfigMap", "Secret"] {
        check_update("", kind, sealed.clone(), sealed.clone(), &[]);
        check_update(
            "",
            kind,
            sealed.clone(),
            json!({"immutable": true, "data": {"a": "Mg=="}}),
            &[&format!("data: Forbidden: {detail}")],
        );
        check_update(
            "",
            kind,
            sealed.clone(),
            json!({"data": {"a": "MQ=="}}),
            &[&format!("immutable: Forbidden: {detail}")],
        );
    }
    check_update(
        "",
        "Secret",
        json!({"type": "a"}),
        json!({"type": "b"}),
        &["type: Invalid value: \"b\": field is immutable"],
    );
}

#[test]
fn others() {
    let service = |ip: &str| json!({"spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 80}]}});
    check_update("", "Service", service("10.0.0.1"), service("10.0.0.1"), &[]);
    check_update(
        "",
        "Service",
        service("10.0.0.1"),
        service("10.0.0.2"),
        &["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
    );
    check_update("", "Service", service("10.0.0.1"), json!({"spec": {"ports": [{"port": 81}]}}), &[]);
    let binding = |role: &str| json!({"roleRef": {"kind": "ClusterRole", "name": role}});
    check_update(
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        binding("a"),
        binding("b"),
        &[
            "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":\"b\"}: cannot change roleRef",
        ],
    );
    check_update(
        "storage.k8s.io",
        "StorageClass",
        json!({"provisioner": "a"}),
        json!({"provisioner": "b"}),
        &["provisioner: Forbidden: updates to provisioner are forbidden."],
    );
    check_update(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 1}),
        json!({"value": 2}),
        &["value: Forbidden: may not be changed in an update."],
    );
    let claim = |size: &str, class: &str| json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}}});
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
    check_update("", "PersistentVolumeClaim", claim("1Gi", "a"), claim("1Gi", "a"), &[]);
    check_update("", "PersistentVolumeClaim", claim("1Gi", "a"), claim("1Gi", "b"), &[immutable]);
    check_update("", "PersistentVolumeClaim", claim("1Gi", "a"), claim("2Gi", "a"), &[immutable]);
    check_update(
        "networking.k8s.io",
        "IngressClass",
        json!({"spec": {"controller": "a.b/c"}}),
        json!({"spec": {"controller": "a.b/d"}}),
        &["spec.controller: Invalid value: \"a.b/d\": field is immutable"],
    );
    check_update(
        "node.k8s.io",
        "RuntimeClass",
        json!({"handler": "a"}),
        json!({"handler": "b"}),
        &["handler: Invalid value: \"b\": field is immutable"],
    );
}

#[test]
fn status() {
    let check = |group: &str, kind: &str, old: Value, new: Value, expected: &[&str]| {
        let said = behaviour(group, kind).validate_status_update(&new, &old);
        assert_eq!(said.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{kind}");
    };
    check(
        "apps",
        "Deployment",
        json!({}),
        json!({"status": {"replicas": 1, "readyReplicas": 2}}),
        &["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
    );
    check(
        "apps",
        "Deployment",
        json!({"status": {"collisionCount": 2}}),
        json!({"status": {"collisionCount": 1}}),
        &["status.collisionCount: Invalid value: 1: cannot be decremented"],
    );
    check(
        "",
        "Namespace",
        json!({}),
        json!({"status": {"phase": "Terminating"}}),
        &[
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
        ],
    );
    check(
        "",
        "Pod",
        json!({"status": {"qosClass": "Burstable"}}),
        json!({"status": {"qosClass": "Guaranteed"}}),
        &["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"],
    );
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        json!({}),
        json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}}),
        &["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""],
    );
    check(
        "",
        "Service",
        json!({}),
        json!({"spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}),
        &["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is LoadBalancer"],
    );
    check(
        "batch",
        "Job",
        json!({"status": {"succeeded": 2}}),
        json!({"status": {"succeeded": 1}}),
        &["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"],
    );
}

#[test]
fn parts() {
    let check = |group: &str, kind: &str, part: &str, old: Value, new: Value, expected: &[&str]| {
        let behaviour = behaviour(group, kind);
        let (mut old, mut new) = (old, new);
        behaviour.defaults(&mut old);
        behaviour.defaults(&mut new);
        let said = behaviour.validate_part(part, &new, &old);
        assert_eq!(said.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{kind}/{part}");
    };
    let debugged = |names: &[&str]| {
        let containers: Vec<Value> = names.iter().map(|name| json!({"name": name, "image": "x"})).collect();
        json!({"spec": {"containers": [{"name": "a", "image": "x"}], "ephemeralContainers": containers}})
    };
    check("", "Pod", "ephemeralcontainers", debugged(&[]), debugged(&["d"]), &[]);
    check(
        "",
        "Pod",
        "ephemeralcontainers",
        debugged(&["d"]),
        debugged(&["e"]),
        &["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n"],
    );
    check(
        "",
        "Pod",
        "ephemeralcontainers",
        debugged(&[]),
        debugged(&["a"]),
        &["spec.ephemeralContainers[0].name: Duplicate value: \"a\""],
    );
    let sized = |cpu: Value, image: &str| json!({"spec": {"containers": [{"name": "a", "image": image, "imagePullPolicy": "Never", "resources": {"requests": cpu}}]}});
    check("", "Pod", "resize", sized(json!({"cpu": "1"}), "x"), sized(json!({"cpu": "2"}), "x"), &[]);
    check(
        "",
        "Pod",
        "resize",
        sized(json!({"cpu": "1"}), "x"),
        sized(json!({"cpu": "2"}), "y"),
        &["spec: Forbidden: only cpu and memory resources are mutable"],
    );
    check(
        "",
        "Pod",
        "resize",
        sized(json!({"cpu": "1", "memory": "1"}), "x"),
        sized(json!({"cpu": "1"}), "x"),
        &["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
    );
    check(
        "",
        "Pod",
        "resize",
        sized(json!({}), "x"),
        sized(json!({"cpu": "1"}), "x"),
        &["spec: Invalid value: \"\": Pod QOS Class may not change as a result of resizing"],
    );
    let decided = |kinds: &[&str]| {
        let conditions: Vec<Value> =
            kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        json!({"status": {"conditions": conditions}})
    };
    let group = "certificates.k8s.io";
    check(group, "CertificateSigningRequest", "approval", decided(&[]), decided(&["Approved"]), &[]);
    check(
        group,
        "CertificateSigningRequest",
        "approval",
        decided(&["Denied"]),
        decided(&[]),
        &["status.conditions: Forbidden: updates may not remove a condition of type \"Denied\""],
    );
    check(
        group,
        "CertificateSigningRequest",
        "approval",
        decided(&["Denied"]),
        decided(&["Denied", "Approved"]),
        &[
            "status.conditions: Invalid value: \"Approved\": Approved and Denied conditions are mutually exclusive",
        ],
    );
    check(
        "",
        "Namespace",
        "finalize",
        json!({}),
        json!({"spec": {"finalizers": ["odd"]}}),
        &[
            "spec.finalizers: Invalid value: \"odd\": name is neither a standard finalizer name nor is it fully qualified",
        ],
    );
    check("", "ConfigMap", "scale", json!({}), json!({}), &[]);
}
