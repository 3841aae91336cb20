//! Cells as kubectl users know them.

use serde_json::{Value, json};

use super::*;
use crate::behaviour;

const NOW: i64 = 1_700_000_000; // 2023-11-14T22:13:20Z
const HOUR_AGO: &str = "2023-11-14T21:13:20Z";

fn cells(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    behaviour(group, kind).columns.iter().map(|column| column.cell(object, NOW)).collect()
}

/// The cells of an object that was made an hour ago, joined by bars.
fn check(group: &str, kind: &str, mut object: Value, expected: &str) {
    object["metadata"]["creationTimestamp"] = HOUR_AGO.into();
    object["metadata"]["name"] = "it".into();
    let cells = cells(group, kind, &object);
    let shown: Vec<String> = cells.iter().map(shown::int_or_text).collect();
    assert_eq!(shown.join("|"), expected, "{kind} {object}");
}

#[test]
fn headers() {
    let check = |group, kind, expected: &str| {
        let shown = behaviour(group, kind).columns.iter().map(|column| match column.priority {
            0 => column.name.to_uppercase(),
            _ => format!("({})", column.name.to_uppercase()),
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{kind}");
    };
    check("", "Pod", "NAME READY STATUS RESTARTS AGE (IP) (NODE) (NOMINATED NODE) (READINESS GATES)");
    check("apps", "Deployment", "NAME READY UP-TO-DATE AVAILABLE AGE (CONTAINERS) (IMAGES) (SELECTOR)");
    check("", "Service", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE (SELECTOR)");
    check(
        "",
        "Event",
        "LAST SEEN TYPE REASON OBJECT (SUBOBJECT) (SOURCE) MESSAGE (FIRST SEEN) (COUNT) (NAME)",
    );
    check("rbac.authorization.k8s.io", "Role", "NAME CREATED AT");
    check("rbac.authorization.k8s.io", "RoleBinding", "NAME ROLE AGE (USERS) (GROUPS) (SERVICEACCOUNTS)");
    check("", "ServiceAccount", "NAME AGE");
    check("nobody.example.com", "Unheard", "NAME AGE");
    check("apiextensions.k8s.io", "CustomResourceDefinition", "NAME CREATED AT");
}

#[test]
fn exactly_one_column_names_the_object() {
    for (group, kind) in crate::behaviour::kinds() {
        let names = behaviour(group, kind).columns.iter().filter(|column| column.name == "Name");
        assert_eq!(names.map(|column| column.format).collect::<Vec<_>>(), ["name"], "{group} {kind}");
    }
}

#[test]
fn nothing_in_an_object_is_needed() {
    for (group, kind) in crate::behaviour::kinds() {
        for object in
            [json!(null), json!({}), json!({"spec": 1, "status": [], "metadata": "x", "data": true})]
        {
            assert_eq!(cells(group, kind, &object).len(), behaviour(group, kind).columns.len());
        }
    }
}

#[test]
fn pods() {
    let pod = |init: usize, main: usize, status: Value| {
        let containers = |n: usize| (0..n).map(|i| json!({"name": format!("c{i}")})).collect::<Vec<_>>();
        json!({"spec": {"containers": containers(main), "initContainers": containers(init)}, "status": status})
    };
    let running = json!({"name": "c0", "ready": true, "restartCount": 0, "state": {"running": {}}});
    let waiting =
        |reason: &str| json!({"name": "c0", "restartCount": 0, "state": {"waiting": {"reason": reason}}});
    let ended = |state: Value| json!({"name": "c0", "restartCount": 0, "state": {"terminated": state}});
    let check = |pod: Value, expected: &str| {
        let shown: Vec<String> = cells("", "Pod", &pod)[1..4].iter().map(shown::int_or_text).collect();
        assert_eq!(shown.join("|"), expected, "{pod}");
    };
    check(pod(0, 1, json!({"phase": "Pending"})), "0/1|Pending|0");
    check(pod(0, 1, json!({"phase": "Running", "containerStatuses": [running]})), "1/1|Running|0");
    check(
        pod(0, 1, json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]})),
        "0/1|ContainerCreating|0",
    );
    check(pod(0, 1, json!({"phase": "Failed", "reason": "Evicted"})), "0/1|Evicted|0");
    check(
        pod(
            0,
            1,
            json!({"phase": "Succeeded", "containerStatuses": [ended(json!({"exitCode": 0, "reason": "Completed"}))]}),
        ),
        "0/1|Completed|0",
    );
    check(
        pod(
            0,
            1,
            json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 1, "reason": "Error"}))]}),
        ),
        "0/1|Error|0",
    );
    check(
        pod(
            0,
            1,
            json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 137, "signal": 9}))]}),
        ),
        "0/1|Signal:9|0",
    );
    check(
        pod(0, 1, json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 2}))]})),
        "0/1|ExitCode:2|0",
    );
    check(
        pod(2, 1, json!({"phase": "Pending", "initContainerStatuses": [waiting("PodInitializing")]})),
        "0/1|Init:0/2|0",
    );
    check(
        pod(
            2,
            1,
            json!({"phase": "Pending", "initContainerStatuses": [ended(json!({"exitCode": 0})), waiting("ImagePullBackOff")]}),
        ),
        "0/1|Init:ImagePullBackOff|0",
    );
    check(
        pod(
            1,
            1,
            json!({"phase": "Pending", "initContainerStatuses": [ended(json!({"exitCode": 1, "reason": "Error"}))]}),
        ),
        "0/1|Init:Error|0",
    );
    check(
        pod(1, 1, json!({"phase": "Pending", "initContainerStatuses": [ended(json!({"exitCode": 3}))]})),
        "0/1|Init:ExitCode:3|0",
    );

    let mut crashing = waiting("CrashLoopBackOff");
    crashing["restartCount"] = 3.into();
    crashing["lastState"] = json!({"terminated": {"finishedAt": "2023-11-14T22:08:20Z"}});
    check(
        pod(0, 1, json!({"phase": "Running", "containerStatuses": [crashing]})),
        "0/1|CrashLoopBackOff|3 (5m ago)",
    );

    let done = ended(json!({"exitCode": 0, "reason": "Completed"}));
    let ready = json!([{"type": "Ready", "status": "True"}]);
    check(
        pod(0, 2, json!({"phase": "Running", "conditions": ready, "containerStatuses": [done, running]})),
        "1/2|Running|0",
    );
    check(pod(0, 2, json!({"phase": "Running", "containerStatuses": [done, running]})), "1/2|NotReady|0");
    check(
        pod(
            0,
            1,
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
        ),
        "0/1|SchedulingGated|0",
    );

    let mut sidecar = pod(
        1,
        1,
        json!({
            "phase": "Running", "containerStatuses": [running],
            "initContainerStatuses": [{"name": "c0", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}}],
        }),
    );
    sidecar["spec"]["initContainers"][0]["restartPolicy"] = "Always".into();
    check(sidecar, "2/2|Running|1");

    let mut deleting = pod(0, 1, json!({"phase": "Running", "containerStatuses": [running]}));
    deleting["metadata"] = json!({"deletionTimestamp": HOUR_AGO});
    check(deleting.clone(), "1/1|Terminating|0");
    deleting["status"]["reason"] = "NodeLost".into();
    check(deleting, "1/1|Unknown|0");
}

#[test]
fn wide_pods() {
    check(
        "",
        "Pod",
        json!({"spec": {"containers": [{}]}, "status": {"phase": "Pending"}}),
        "it|0/1|Pending|0|60m|<none>|<none>|<none>|<none>",
    );
    check(
        "",
        "Pod",
        json!({
            "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "a", "status": "True"}]},
        }),
        "it|0/0|Running|0|60m|10.0.0.1|n1|<none>|1/2",
    );
}

#[test]
fn workloads() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}});
    check(
        "apps",
        "Deployment",
        json!({"spec": {"replicas": 3, "template": template, "selector": {"matchLabels": {"b": "1", "a": "2"}}}, "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}}),
        "it|2/3|1|2|60m|a,b|x,y|a=2,b=1",
    );
    check(
        "apps",
        "ReplicaSet",
        json!({"spec": {"replicas": 3, "template": template}, "status": {"replicas": 2}}),
        "it|3|2|0|60m|a,b|x,y|<none>",
    );
    check(
        "apps",
        "DaemonSet",
        json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}, "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, "status": {"desiredNumberScheduled": 4, "numberReady": 3}}),
        "it|4|0|3|0|0|disk=ssd|60m|||a",
    );
    check(
        "apps",
        "StatefulSet",
        json!({"spec": {"replicas": 1, "template": template}}),
        "it|0/1|60m|a,b|x,y",
    );
    check(
        "",
        "ReplicationController",
        json!({"spec": {"replicas": 1, "selector": {"a": "b"}}}),
        "it|1|0|0|60m|||a=b",
    );
    check(
        "batch",
        "Job",
        json!({"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2023-11-14T22:13:00Z"}}),
        "it|Running|1/2|20s|60m|||<none>",
    );
    check(
        "batch",
        "Job",
        json!({"spec": {"parallelism": 3}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
        "it|Complete|0/1 of 3||60m|||<none>",
    );
    check(
        "batch",
        "Job",
        json!({"metadata": {"deletionTimestamp": HOUR_AGO}}),
        "it|Terminating|0/1||60m|||<none>",
    );
    check(
        "batch",
        "CronJob",
        json!({"spec": {"schedule": "* * * * *", "suspend": false}, "status": {"active": [{}]}}),
        "it|* * * * *|<none>|False|1|<none>|60m|||<none>",
    );
    check(
        "policy",
        "PodDisruptionBudget",
        json!({"spec": {"maxUnavailable": "25%"}, "status": {"disruptionsAllowed": 1}}),
        "it|N/A|25%|1|60m",
    );
    check(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"spec": {"maxReplicas": 9, "minReplicas": 1, "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]},
            "status": {"currentReplicas": 2}}),
        "it|Deployment/web|cpu: <unknown>/80%|1|9|2|60m",
    );
    check(
        "apps",
        "ControllerRevision",
        json!({"revision": 2, "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true}]}}),
        "it|statefulset.apps/db|2|60m",
    );
}

#[test]
fn network() {
    check(
        "",
        "Service",
        json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}}),
        "it|ClusterIP|10.0.0.1|<none>|80/TCP|60m|a=b",
    );
    check(
        "",
        "Service",
        json!({"spec": {"type": "NodePort", "clusterIPs": ["None"], "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]}}),
        "it|NodePort|None|<none>|80:30080/TCP,53/UDP|60m|<none>",
    );
    check(
        "",
        "Service",
        json!({"spec": {"type": "LoadBalancer"}}),
        "it|LoadBalancer|<none>|<pending>|<none>|60m|<none>",
    );
    check(
        "",
        "Service",
        json!({"spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}, "status": {"loadBalancer": {"ingress": [{"hostname": "b.example"}, {"ip": "1.1.1.1"}]}}}),
        "it|LoadBalancer|<none>|1.1.1.1,b.example,9.9.9.9|<none>|60m|<none>",
    );
    check(
        "",
        "Service",
        json!({"spec": {"type": "ExternalName", "externalName": "a.example"}}),
        "it|ExternalName|<none>|a.example|<none>|60m|<none>",
    );
    check("", "Endpoints", json!({}), "it|<none>|60m");
    check(
        "",
        "Endpoints",
        json!({"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 80}, {"port": 81}]}]}),
        "it|1.1.1.1:80,[::1]:80,1.1.1.1:81 + 1 more...|60m",
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}], "endpoints": [{"addresses": ["1.1.1.1"]}]}),
        "it|IPv4|80,x,*|1.1.1.1|60m",
    );
    check("discovery.k8s.io", "EndpointSlice", json!({"addressType": "IPv4"}), "it|IPv4|<unset>|<unset>|60m");
    check(
        "networking.k8s.io",
        "Ingress",
        json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}], "tls": [{}]}}),
        "it|<none>|a,b||80, 443|60m",
    );
    check(
        "networking.k8s.io",
        "Ingress",
        json!({"spec": {"ingressClassName": "nginx", "rules": [{}]}}),
        "it|nginx|*||80|60m",
    );
    check(
        "networking.k8s.io",
        "Ingress",
        json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}]}}),
        "it|<none>|a,b,c + 1 more...||80|60m",
    );
    check(
        "networking.k8s.io",
        "IngressClass",
        json!({"metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}, "spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}}),
        "it (default)|c|K.g/n|60m",
    );
    check("networking.k8s.io", "NetworkPolicy", json!({"spec": {"podSelector": {}}}), "it|<none>|60m");
    check(
        "networking.k8s.io",
        "IPAddress",
        json!({"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}}),
        "it|services/default/kubernetes",
    );
}

#[test]
fn cluster() {
    check("", "Namespace", json!({"status": {"phase": "Active"}}), "it|Active|60m");
    check("", "ConfigMap", json!({"data": {"a": "1"}, "binaryData": {"b": ""}}), "it|2|60m");
    check("", "Secret", json!({"type": "Opaque", "data": {"a": ""}}), "it|Opaque|1|60m");
    check(
        "",
        "Node",
        json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "db"}}, "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64"}, "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}]}}),
        "it|Ready,SchedulingDisabled|db,worker|60m|v1.36.0|10.1.1.1|<none>|<unknown>|6.1 (amd64)|<unknown>",
    );
    check(
        "",
        "Event",
        json!({"type": "Normal", "reason": "Pulled", "message": " hello ", "involvedObject": {"kind": "Pod", "name": "p"}, "firstTimestamp": HOUR_AGO, "lastTimestamp": "2023-11-14T22:13:10Z", "count": 3, "source": {"component": "kubelet", "host": "n1"}}),
        "10s|Normal|Pulled|pod/p||kubelet, n1|hello|60m|3|it",
    );
    check(
        "events.k8s.io",
        "Event",
        json!({"type": "Normal", "reason": "R", "note": "hi", "regarding": {"kind": "Pod", "name": "p", "fieldPath": "f"}, "eventTime": "2023-11-14T22:13:10.000000Z", "reportingController": "c", "reportingInstance": "i"}),
        "10s|Normal|R|pod/p|f|c, i|hi|10s|1|it",
    );
    check(
        "",
        "ResourceQuota",
        json!({"status": {"hard": {"pods": "4", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "1"}}}),
        "it|cpu: 0/1, pods: 1/4|limits.cpu: 0/2|60m",
    );
    check("rbac.authorization.k8s.io", "ClusterRole", json!({}), "it|2023-11-14T21:13:20Z");
    check(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
        "it|Role/r|60m|u||n/s",
    );
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        json!({"spec": {"signerName": "s", "username": "me", "expirationSeconds": 86400}, "status": {"certificate": "x", "conditions": [{"type": "Approved"}]}}),
        "it|60m|s|me|24h|Approved,Issued",
    );
    check("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "me"}}), "it|me|60m");
    check(
        "scheduling.k8s.io",
        "PriorityClass",
        json!({"value": 7, "preemptionPolicy": "Never"}),
        "it|7|false|60m|Never",
    );
    check(
        "apiregistration.k8s.io",
        "APIService",
        json!({"spec": {}, "status": {"conditions": [{"type": "Available", "status": "True"}]}}),
        "it|Local|True|60m",
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        json!({"spec": {"type": "Exempt"}}),
        "it|Exempt|<none>|<none>|<none>|<none>|60m",
    );
}

#[test]
fn storage() {
    check(
        "",
        "PersistentVolume",
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "fast", "volumeMode": "Block"}, "status": {"phase": "Bound"}}),
        "it|1Gi|RWO,RWX|Retain|Bound|n/c|fast|<unset>||60m|Block",
    );
    check(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}}),
        "it|Pending|||||<unset>|60m|<unset>",
    );
    check(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"volumeName": "v", "volumeMode": "Filesystem"}, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"]}}),
        "it|Bound|v|2Gi|RWOP||<unset>|60m|Filesystem",
    );
    check(
        "storage.k8s.io",
        "StorageClass",
        json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
        "it (default)|p|Delete|Immediate|false|60m",
    );
    check(
        "storage.k8s.io",
        "CSIDriver",
        json!({"spec": {"volumeLifecycleModes": ["Persistent"]}}),
        "it|true|false|false|<unset>|false|Persistent|60m",
    );
    check(
        "storage.k8s.io",
        "VolumeAttachment",
        json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
        "it|a|v|n|false|60m",
    );
    check(
        "resource.k8s.io",
        "ResourceClaim",
        json!({"status": {"allocation": {}, "reservedFor": [{}]}}),
        "it|allocated,reserved|60m",
    );
}
