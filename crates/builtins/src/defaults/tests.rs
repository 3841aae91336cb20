//! Objects as clients write them, and as the server keeps them.

use serde_json::{Value, json};

use crate::behaviour::{behaviour, kinds};

/// The defaults must add exactly this: `expected` holds the object with what is added.
fn check(group: &str, kind: &str, mut object: Value, expected: Value) {
    behaviour(group, kind).defaults(&mut object);
    assert_eq!(object, expected, "{kind}");
    behaviour(group, kind).defaults(&mut object);
    assert_eq!(object, expected, "{kind}, twice");
}

/// What stands at a pointer after defaults.
fn found(group: &str, kind: &str, object: Value, pointer: &str, expected: Value) {
    let mut object = object;
    behaviour(group, kind).defaults(&mut object);
    assert_eq!(
        object.pointer(pointer).cloned().unwrap_or_default(),
        expected,
        "{kind} {pointer} in {object}"
    );
}

#[test]
fn twice_changes_nothing() {
    for (group, kind) in kinds() {
        let mut once =
            json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [{}]}}}});
        behaviour(group, kind).defaults(&mut once);
        let mut twice = once.clone();
        behaviour(group, kind).defaults(&mut twice);
        assert_eq!(once, twice, "{group} {kind}");
    }
}

#[test]
fn pods() {
    check(
        "",
        "Pod",
        json!({"spec": {"containers": [{"name": "a", "image": "nginx"}]}}),
        json!({"spec": {
            "containers": [{
                "name": "a", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
        }}),
    );
    let with = |container: Value| json!({"spec": {"containers": [container]}});
    let at = |container: Value, pointer: &str, expected: Value| {
        found("", "Pod", with(container), &format!("/spec/containers/0{pointer}"), expected);
    };
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("localhost:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
        ("nginx:latest@sha256:0123", "Always"),
        ("", "IfNotPresent"),
    ] {
        at(json!({"image": image}), "/imagePullPolicy", json!(policy));
    }
    at(
        json!({"env": [{"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
        "/env/0/valueFrom/resourceFieldRef/divisor",
        json!("0"),
    );
    at(json!({"imagePullPolicy": "Never"}), "/imagePullPolicy", json!("Never"));
    at(json!({"ports": [{"containerPort": 80}]}), "/ports/0/protocol", json!("TCP"));
    at(
        json!({"livenessProbe": {"httpGet": {"port": 80}}}),
        "/livenessProbe",
        json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
    );
    at(
        json!({"env": [{"valueFrom": {"fieldRef": {"fieldPath": "a"}}}]}),
        "/env/0/valueFrom/fieldRef/apiVersion",
        json!("v1"),
    );
    at(
        json!({"resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": "0.5"}}}),
        "/resources",
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}),
    );
    let spec = |spec: Value, pointer: &str, expected: Value| {
        found("", "Pod", json!({"spec": spec}), pointer, expected)
    };
    spec(
        json!({"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1024Mi"}}]}),
        "/spec/volumes/0/emptyDir",
        json!({"sizeLimit": "1Gi"}),
    );
    spec(json!({"volumes": [{"name": "a"}]}), "/spec/volumes/0/emptyDir", json!({}));
    spec(json!({"volumes": [{"name": "a", "secret": {}}]}), "/spec/volumes/0/secret/defaultMode", json!(420));
    spec(
        json!({"volumes": [{"name": "a", "hostPath": {"path": "/x"}}]}),
        "/spec/volumes/0/hostPath/type",
        json!(""),
    );
    spec(
        json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}, {"downwardAPI": {"items": [{"fieldRef": {}}]}}]}}]}),
        "/spec/volumes/0/projected",
        json!({"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3600}}, {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1"}}]}}]}),
    );
    spec(json!({"serviceAccount": "sa"}), "/spec/serviceAccountName", json!("sa"));
    spec(json!({"terminationGracePeriodSeconds": -4}), "/spec/terminationGracePeriodSeconds", json!(1));
    spec(json!({"terminationGracePeriodSeconds": 0}), "/spec/terminationGracePeriodSeconds", json!(0));
    spec(
        json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}),
        "/spec/containers/0/ports/0/hostPort",
        json!(80),
    );
    found("", "Pod", json!({"status": {"podIP": "1.1.1.1"}}), "/status/podIPs", json!([{"ip": "1.1.1.1"}]));
}

#[test]
fn workloads() {
    let empty = || json!({"spec": {}});
    check(
        "apps",
        "Deployment",
        empty(),
        json!({"spec": {
            "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        }}),
    );
    found(
        "apps",
        "Deployment",
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
        "/spec/strategy",
        json!({"type": "Recreate"}),
    );
    found("apps", "Deployment", json!({"spec": {"replicas": 0}}), "/spec/replicas", json!(0));
    found(
        "apps",
        "Deployment",
        json!({"spec": {"template": {"spec": {}}}}),
        "/spec/template/spec/restartPolicy",
        json!("Always"),
    );
    found(
        "apps",
        "Deployment",
        json!({"spec": {"template": {"spec": {}}}}),
        "/spec/template/spec/enableServiceLinks",
        json!(null),
    );
    check("apps", "ReplicaSet", empty(), json!({"spec": {"replicas": 1}}));
    check(
        "apps",
        "DaemonSet",
        empty(),
        json!({"spec": {"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}}),
    );
    check(
        "apps",
        "StatefulSet",
        empty(),
        json!({"spec": {
            "podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        }}),
    );
    found(
        "apps",
        "StatefulSet",
        json!({"spec": {"volumeClaimTemplates": [{"spec": {}}]}}),
        "/spec/volumeClaimTemplates/0",
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"resources": {}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    );
    check(
        "batch",
        "Job",
        empty(),
        json!({"spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
            "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed", "suspend": false,
        }}),
    );
    found("batch", "Job", json!({"spec": {"parallelism": 2}}), "/spec/completions", json!(null));
    found(
        "batch",
        "Job",
        json!({"spec": {"backoffLimitPerIndex": 1}}),
        "/spec/backoffLimit",
        json!(2147483647),
    );
    found(
        "batch",
        "Job",
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
        "/metadata/labels/a",
        json!("b"),
    );
    check(
        "batch",
        "CronJob",
        empty(),
        json!({"spec": {"concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}}),
    );
    found(
        "",
        "ReplicationController",
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
        "/spec/selector",
        json!({"a": "b"}),
    );
    found(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"apiVersion": "autoscaling/v2"}),
        "/spec/metrics/0/resource/target/averageUtilization",
        json!(80),
    );
    found(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"apiVersion": "autoscaling/v1"}),
        "/spec",
        json!({"minReplicas": 1}),
    );
}

#[test]
fn network() {
    check(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 80}]}}),
        json!({
            "spec": {
                "internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "sessionAffinity": "None", "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        }),
    );
    let spec = |spec: Value, pointer: &str, expected: Value| {
        found("", "Service", json!({"spec": spec}), pointer, expected)
    };
    spec(json!({"type": "NodePort"}), "/spec/externalTrafficPolicy", json!("Cluster"));
    spec(json!({"type": "LoadBalancer"}), "/spec/allocateLoadBalancerNodePorts", json!(true));
    spec(json!({"type": "ExternalName"}), "/spec/internalTrafficPolicy", json!(null));
    spec(
        json!({"sessionAffinity": "ClientIP"}),
        "/spec/sessionAffinityConfig/clientIP/timeoutSeconds",
        json!(10800),
    );
    spec(json!({"ports": [{"port": 80, "targetPort": "http"}]}), "/spec/ports/0/targetPort", json!("http"));
    check(
        "",
        "Endpoints",
        json!({"subsets": [{"ports": [{"port": 1}]}]}),
        json!({"subsets": [{"ports": [{"port": 1, "protocol": "TCP"}]}]}),
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"ports": [{}]}),
        json!({"ports": [{"name": "", "protocol": "TCP"}]}),
    );
    check(
        "networking.k8s.io",
        "NetworkPolicy",
        json!({}),
        json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
    );
    found(
        "networking.k8s.io",
        "NetworkPolicy",
        json!({"spec": {"egress": [{}]}}),
        "/spec/policyTypes",
        json!(["Ingress", "Egress"]),
    );
    found(
        "networking.k8s.io",
        "NetworkPolicy",
        json!({"spec": {"ingress": [{"ports": [{"port": 1}]}]}}),
        "/spec/ingress/0/ports/0/protocol",
        json!("TCP"),
    );
}

#[test]
fn the_rest() {
    check("", "Secret", json!({}), json!({"type": "Opaque"}));
    check(
        "",
        "Secret",
        json!({"data": {"a": "MQ=="}, "stringData": {"a": "2", "b": "3"}}),
        json!({"type": "Opaque", "data": {"a": "Mg==", "b": "Mw=="}}),
    );
    check(
        "",
        "Namespace",
        json!({"metadata": {"name": "a"}}),
        json!({"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}}, "spec": {}, "status": {"phase": "Active"}}),
    );
    check(
        "",
        "PersistentVolumeClaim",
        json!({}),
        json!({"spec": {"resources": {}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    );
    check(
        "",
        "PersistentVolume",
        json!({"spec": {"capacity": {"storage": "1024Mi"}}}),
        json!({"spec": {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    );
    check(
        "storage.k8s.io",
        "StorageClass",
        json!({}),
        json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    );
    check(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
        }),
    );
    found(
        "",
        "LimitRange",
        json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}}),
        "/spec/limits/0",
        json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}}),
    );
    check(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        json!({"webhooks": [{"name": "a", "clientConfig": {"service": {}}, "rules": [{}]}]}),
        json!({"webhooks": [{
            "name": "a", "clientConfig": {"service": {"port": 443}}, "rules": [{"scope": "*"}], "failurePolicy": "Fail",
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "reinvocationPolicy": "Never", "timeoutSeconds": 10,
        }]}),
    );
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 1}),
        json!({"value": 1, "preemptionPolicy": "PreemptLowerPriority"}),
    );
    found(
        "",
        "Node",
        json!({"status": {"capacity": {"cpu": 4}}}),
        "/status/allocatable",
        json!({"cpu": "4"}),
    );
    found("", "Node", json!({"spec": {"podCIDR": "10.0.0.0/24"}}), "/spec/podCIDRs", json!(["10.0.0.0/24"]));
    found(
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        json!({"spec": {}}),
        "/spec/matchingPrecedence",
        json!(1000),
    );
    found(
        "resource.k8s.io",
        "ResourceClaim",
        json!({"spec": {"devices": {"requests": [{"exactly": {}}]}}}),
        "/spec/devices/requests/0/exactly",
        json!({"allocationMode": "ExactCount", "count": 1}),
    );
}
