//! The objects that a hosted control plane has in the hosting one, as they should be. Pure.
//!
//! What KubeFlex runs as pods is here one process for all, so the workloads are stand-ins: under the names that
//! people and scripts wait for, with a status that is written by the operator and true.

use jiff::Timestamp;
use objects::Value;
use serde_json::json;

use crate::api::Place;
use crate::conditions::{self, Condition};
use crate::host::Settings;
use crate::names;
use crate::plane::Plane;
use crate::types::{Hosted, Workload};

/// An object with the place where it belongs.
pub struct Wanted {
    pub place: Place,
    pub object: Value,
}

/// Kinds of owned objects: apiVersion, kind, plural.
const KINDS: [(&str, &str, &str); 11] = [
    ("v1", "Namespace", "namespaces"),
    ("v1", "Service", "services"),
    ("v1", "Secret", "secrets"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("networking.k8s.io/v1", "Ingress", "ingresses"),
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("batch/v1", "Job", "jobs"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
];

/// Puts what every owned object has around what is particular to this one.
pub fn owned(plane: &Plane, kind: &str, name: &str, rest: Value) -> Wanted {
    let row = KINDS.iter().find(|row| row.1 == kind).copied();
    owned_as(plane, row.unwrap_or(("v1", kind, "")), name, rest)
}

/// The same for a kind that not every cluster has: apiVersion, kind, plural.
pub fn owned_as(
    plane: &Plane,
    (api_version, kind, plural): (&str, &str, &str),
    name: &str,
    rest: Value,
) -> Wanted {
    let cluster_wide = matches!(kind, "Namespace" | "ClusterRoleBinding");
    let namespace = if cluster_wide { "" } else { plane.namespace.as_str() };
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "ownerReferences": [plane.owner_reference()]},
    });
    if !cluster_wide {
        object["metadata"]["namespace"] = namespace.into();
    }
    for (field, value) in rest.as_object().into_iter().flatten() {
        if field == "metadata" {
            // No object is stored with empty labels or annotations: one that was wanted with them would never be as wanted.
            let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
            for (field, value) in value.as_object().into_iter().flatten().filter(|(_, one)| !is_empty(one)) {
                object["metadata"][field] = value.clone();
            }
        } else {
            object[field] = value.clone();
        }
    }
    Wanted { place: Place::new(api_version, plural, namespace, name), object }
}

pub fn namespace(plane: &Plane) -> Wanted {
    owned(plane, "Namespace", &plane.namespace, json!({}))
}

pub fn service_name<'a>(plane: &'a Plane, row: &'a Hosted) -> &'a str {
    row.service.unwrap_or(&plane.name)
}

/// `outward` is the type of those that are for the outside of the cluster.
pub fn services(plane: &Plane, row: &Hosted, outward: &str) -> Vec<Wanted> {
    let service = |name: &str, r#type: &str| {
        let spec = json!({
            "type": r#type,
            "selector": {"app": row.app},
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": row.port}],
        });
        owned(plane, "Service", name, json!({"metadata": {"labels": labels(row, json!({}))}, "spec": spec}))
    };
    let own = service(service_name(plane, row), if row.internal { "ClusterIP" } else { outward });
    std::iter::once(own).chain(row.outward.map(|name| service(name, outward))).collect()
}

/// Those that every such object of the type has, and these.
pub fn labels(row: &Hosted, more: Value) -> Value {
    let mut labels = more;
    for (name, value) in row.labels {
        labels[name] = (*value).into();
    }
    labels
}

pub fn ingress(plane: &Plane, row: &Hosted, settings: &Settings) -> Wanted {
    let backend = json!({"service": {"name": service_name(plane, row), "port": {"number": 443}}});
    owned(
        plane,
        "Ingress",
        &plane.name,
        json!({
            "metadata": {"annotations": {"nginx.ingress.kubernetes.io/ssl-passthrough": "true"}},
            "spec": {
                "ingressClassName": "nginx",
                "rules": [{
                    "host": format!("{}.{}", plane.name, settings.domain),
                    "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
                }],
            },
        }),
    )
}

pub const IMAGE: &str = concat!("hangar:", env!("CARGO_PKG_VERSION"));
pub const EXPLAINED: &str = "served by hangar itself; no pods are made of this";

pub fn workload(plane: &Plane, row: &Hosted, workload: Workload) -> Wanted {
    let (kind, name) = match workload {
        Workload::Deployment(name) => ("Deployment", name),
        Workload::StatefulSet(name) => ("StatefulSet", name),
        Workload::Job(name) => ("Job", name),
    };
    let selected = json!({ "app": name });
    let mut pod = json!({"containers": [{"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent"}]});
    let spec = match workload {
        Workload::Deployment(_) => {
            pod["priorityClassName"] = "system-node-critical".into();
            json!({
                "replicas": 1, "selector": {"matchLabels": selected},
                "template": {"metadata": {"labels": selected}, "spec": pod},
            })
        }
        Workload::StatefulSet(_) => json!({
            "replicas": 1, "serviceName": name, "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": pod},
        }),
        Workload::Job(_) => {
            pod["restartPolicy"] = "Never".into();
            // Nothing has to run: the operator has already done what the job would do.
            json!({"backoffLimit": 3, "template": {"spec": pod}})
        }
    };
    let metadata = json!({
        "labels": labels(row, json!({"component": name, "tier": "control-plane"})),
        "annotations": {names::STAND_IN: EXPLAINED},
    });
    owned(plane, kind, name, json!({"metadata": metadata, "spec": spec}))
}

/// Claims for data that is in the server's store, and scripts for jobs that have nothing to do.
pub fn belongings(plane: &Plane, row: &Hosted) -> Vec<Wanted> {
    let metadata = json!({"labels": labels(row, json!({})), "annotations": {names::STAND_IN: EXPLAINED}});
    let claims = row.claims.iter().map(|name| {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
            "resources": {"requests": {"storage": CLAIMED}},
        });
        owned(plane, "PersistentVolumeClaim", name, json!({"metadata": metadata, "spec": spec}))
    });
    let scripts = row.scripts.iter().map(|(name, scripts)| {
        let data: serde_json::Map<String, Value> =
            scripts.iter().map(|script| ((*script).to_owned(), NOTHING_LEFT.into())).collect();
        owned(plane, "ConfigMap", name, json!({"metadata": metadata, "data": data}))
    });
    claims.chain(scripts).collect()
}

/// As KubeFlex claims it.
const CLAIMED: &str = "1Gi";

/// Whoever runs such a script finds what it is for.
const NOTHING_LEFT: &str = "#!/bin/sh\n# The operator has written the Secret k3s-config already.\nexit 0\n";

/// What the status of a claim has to say: what it is for is kept.
pub fn claim_status() -> Value {
    json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": CLAIMED}})
}

/// What the status of a stand-in has to say. `live` is the object as it is.
pub fn workload_status(workload: Workload, live: &Value, serving: bool, now: Timestamp) -> Value {
    let mut status = live.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let ready = i32::from(serving);
    match workload {
        Workload::Deployment(_) => {
            let available = if serving {
                Condition::new(
                    "Available",
                    true,
                    "MinimumReplicasAvailable",
                    "Deployment has minimum availability.",
                )
            } else {
                let message = "Deployment does not have minimum availability.";
                Condition::new("Available", false, "MinimumReplicasUnavailable", message)
            };
            conditions::set(&mut status, &available, now);
            let done = Condition::new("Progressing", true, "NewReplicaSetAvailable", "");
            conditions::set(&mut status, &done, now);
            replicas(&mut status, live, ready);
            status["unavailableReplicas"] = if serving { Value::Null } else { json!(1) };
        }
        Workload::StatefulSet(_) => {
            replicas(&mut status, live, ready);
            status["currentReplicas"] = ready.into();
            status["currentRevision"] = "hangar".into();
            status["updateRevision"] = "hangar".into();
        }
        Workload::Job(_) if status["succeeded"] != 1 => {
            let at = objects::time::format(now);
            let condition = |kind: &str, reason: &str, message: &str| {
                json!({
                    "type": kind, "status": "True", "reason": reason, "message": message,
                    "lastProbeTime": at, "lastTransitionTime": at,
                })
            };
            let message = "Reached expected number of succeeded pods";
            status = json!({
                "succeeded": 1, "ready": 0, "terminating": 0, "startTime": at, "completionTime": at,
                "uncountedTerminatedPods": {},
                "conditions": [
                    condition("SuccessCriteriaMet", "CompletionsReached", message),
                    condition("Complete", "CompletionsReached", message),
                ],
            });
        }
        Workload::Job(_) => {}
    }
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    status
}

fn replicas(status: &mut Value, live: &Value, ready: i32) {
    status["observedGeneration"] = objects::meta::generation(live).into();
    status["replicas"] = 1.into();
    status["updatedReplicas"] = 1.into();
    status["readyReplicas"] = ready.into();
    status["availableReplicas"] = ready.into();
}
