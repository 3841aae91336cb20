//! What runs in the cluster for a control plane. Pure.
//!
//! The first workload of a type is the control plane: `hangar serve`, API server and controllers in one process, since
//! that is how they are quickest and smallest. What KubeFlex runs beside it is there under its names: Deployments with
//! no replicas, because there is nothing left for them to do, and Jobs that prove the in-cluster kubeconfig.

use objects::Value;
use serde_json::json;

use super::backend::{self, Backend};
use super::{Options, keys};
use crate::furniture::{self, Wanted};
use crate::host::Settings;
use crate::names;
use crate::plane::Plane;
use crate::types::{Hosted, Workload};

/// Where things are in the pod.
pub const KEYS_DIR: &str = "/etc/kubernetes/pki";
pub const DATA_DIR: &str = "/var/lib/hangar";
const KUBECONFIG_DIR: &str = "/etc/kube";

/// On pods: what they were started with. Another one, and they are started anew.
const STARTED_WITH: &str = "hangar.dev/started-with";

const NOTHING_TO_RUN: &str =
    "the controllers run in the same process as the API server; no pods are needed for this";

/// Everything of one control plane that pods are made from.
pub struct Pods<'a> {
    pub plane: &'a Plane,
    pub row: &'a Hosted,
    pub options: &'a Options,
    pub settings: &'a Settings,
    pub backend: &'a Backend,
    /// Changes when pods have to be started anew.
    pub keys: String,
}

impl Pods<'_> {
    pub fn workloads(&self) -> Vec<Wanted> {
        let mut workloads = self.row.workloads.iter();
        let first = workloads.next().map(|workload| self.api_server(*workload));
        first.into_iter().chain(workloads.map(|workload| self.beside(*workload))).collect()
    }

    /// What the pod is told.
    fn arguments(&self) -> Vec<String> {
        let file = |flag: &str, name: &str| format!("--{flag}={KEYS_DIR}/{name}");
        let mut arguments = vec![
            "serve".to_owned(),
            format!("--control-plane={}", self.plane.name),
            "--controllers=denatured".to_owned(),
            format!("--listen=0.0.0.0:{}", self.row.port),
            "--advertise-address=$(POD_IP)".to_owned(),
            format!("--domain={}", self.settings.domain),
            format!("--data-dir={DATA_DIR}"),
            file("tls-cert-file", "apiserver.crt"),
            file("tls-private-key-file", "apiserver.key"),
            file("root-ca-file", "ca.crt"),
            file("client-ca-file", "ca.crt"),
            file("client-ca-key-file", "ca.key"),
            file("service-account-key-file", "sa.key"),
            file("data-key-file", "data.key"),
        ];
        // OpenShift chooses the host of a route only after there is one.
        if !self.settings.is_openshift {
            let issuers = apiserver::Issuers::Host {
                domain: self.settings.domain.clone(),
                port: self.settings.external_port,
            };
            arguments.push(format!("--service-account-issuer={}", issuers.url(&self.plane.name, "")));
        }
        if matches!(self.backend, Backend::Volume) {
            arguments.push(format!("--store=embedded:{DATA_DIR}/store"));
        }
        let quota = serde_json::to_string(&self.plane.spec.quota).unwrap_or_default();
        arguments.push(format!("--quota={quota}"));
        // A range that is none is told of before.
        let own = self.plane.spec.egress.ranges().unwrap_or_default();
        let egress = self.options.egress_allow.and(&own);
        if !egress.is_empty() {
            arguments.push(format!("--egress-allow={egress}"));
        }
        arguments
    }

    fn container(&self, name: &str) -> Value {
        let probe = |path: &str, period: u32, failures: u32| {
            json!({
                "httpGet": {"scheme": "HTTPS", "path": path, "port": "https"},
                "periodSeconds": period, "timeoutSeconds": 15, "failureThreshold": failures,
            })
        };
        let mut environment =
            vec![json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})];
        if matches!(self.backend, Backend::Server { .. }) {
            for (name, key) in [("HANGAR_STORE", backend::URL), ("HANGAR_STORE_ROOM", backend::ROOM)] {
                let reference = json!({"secretKeyRef": {"name": backend::SECRET, "key": key}});
                environment.push(json!({"name": name, "valueFrom": reference}));
            }
        }
        json!({
            "name": name,
            "image": self.options.image,
            "imagePullPolicy": self.options.image_pull_policy,
            "command": ["hangar"],
            "args": self.arguments(),
            "env": environment,
            "ports": [{"name": "https", "containerPort": self.row.port, "protocol": "TCP"}],
            // It answers within a second; a store with much history takes longer to open.
            "startupProbe": probe("/livez", 1, 120),
            "livenessProbe": probe("/livez", 10, 8),
            "readinessProbe": probe("/readyz", 1, 3),
            "resources": {
                "requests": {"cpu": "20m", "memory": "64Mi"},
                "limits": {"memory": "1Gi"},
            },
            "securityContext": restricted(),
            "volumeMounts": [
                {"name": "keys", "mountPath": KEYS_DIR, "readOnly": true},
                {"name": "data", "mountPath": DATA_DIR},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        })
    }

    fn api_server(&self, workload: Workload) -> Wanted {
        let data = match self.backend {
            Backend::Volume => {
                json!({"name": "data", "persistentVolumeClaim": {"claimName": backend::CLAIM}})
            }
            Backend::Server { .. } => json!({"name": "data", "emptyDir": {}}),
        };
        let (kind, name) = kind_of(workload);
        let mut pod = self.pod(json!([self.container(name)]));
        pod["terminationGracePeriodSeconds"] = 30.into();
        pod["volumes"] = json!([
            {"name": "keys", "secret": {"secretName": keys::SECRET, "defaultMode": 0o440}},
            data,
            {"name": "tmp", "emptyDir": {}},
        ]);
        let store = match self.backend {
            Backend::Volume => String::new(),
            Backend::Server { url, .. } => url.expose().clone(),
        };
        let started_with = keys::checksum([self.keys.as_bytes(), store.as_bytes()]);
        let mut spec = self.replicated(name, 1, pod);
        spec["template"]["metadata"]["annotations"] = json!({STARTED_WITH: started_with});
        match (workload, self.backend) {
            (Workload::StatefulSet(_), _) => {
                spec["serviceName"] = furniture::service_name(self.plane, self.row).into();
            }
            // A volume is mounted by one pod at a time; servers are shared with the next pod for a moment.
            (_, Backend::Volume) => spec["strategy"] = json!({"type": "Recreate"}),
            (_, Backend::Server { .. }) => {
                spec["strategy"] =
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
            }
        }
        let rest = json!({"metadata": {"labels": labels(self.row, name)}, "spec": spec});
        furniture::owned(self.plane, kind, name, rest)
    }

    fn beside(&self, workload: Workload) -> Wanted {
        let (kind, name) = kind_of(workload);
        let mut container = json!({
            "name": name, "image": self.options.image, "imagePullPolicy": self.options.image_pull_policy,
            "command": ["hangar"], "securityContext": restricted(),
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        });
        let mut annotations = json!({});
        let spec = match workload {
            Workload::Job(_) => {
                let key = match self.row.in_cluster_key {
                    "" => self.row.key,
                    key => key,
                };
                container["args"] =
                    json!(["operator", "await", format!("--kubeconfig={KUBECONFIG_DIR}/{key}")]);
                container["volumeMounts"] =
                    json!([{"name": "kubeconfig", "mountPath": KUBECONFIG_DIR, "readOnly": true}]);
                let mut pod = self.pod(json!([container]));
                pod["restartPolicy"] = "OnFailure".into();
                pod["volumes"] = json!([
                    {"name": "kubeconfig", "secret": {"secretName": self.row.secret, "defaultMode": 0o440}},
                ]);
                // It waits until the control plane answers.
                json!({"backoffLimit": 3, "template": {"spec": pod}})
            }
            Workload::Deployment(_) | Workload::StatefulSet(_) => {
                annotations = json!({names::STAND_IN: NOTHING_TO_RUN});
                container["args"] = json!(["version"]);
                self.replicated(name, 0, self.pod(json!([container])))
            }
        };
        let rest =
            json!({"metadata": {"labels": labels(self.row, name), "annotations": annotations}, "spec": spec});
        furniture::owned(self.plane, kind, name, rest)
    }

    fn replicated(&self, name: &str, replicas: u32, pod: Value) -> Value {
        let app = json!({"app": name});
        json!({
            "replicas": replicas, "selector": {"matchLabels": app},
            "template": {"metadata": {"labels": app}, "spec": pod},
        })
    }

    fn pod(&self, containers: Value) -> Value {
        let mut security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        if !self.settings.is_openshift {
            // OpenShift gives every namespace numbers of its own and refuses others.
            for field in ["runAsUser", "runAsGroup", "fsGroup"] {
                security[field] = 65_532.into();
            }
        }
        let mut pod = json!({
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": security,
            "containers": containers,
        });
        if let Some(secret) = &self.options.image_pull_secret {
            pod["imagePullSecrets"] = json!([{ "name": secret }]);
        }
        pod
    }
}

fn labels(row: &Hosted, name: &str) -> Value {
    furniture::labels(row, json!({"component": name, "tier": "control-plane"}))
}

fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

pub fn kind_of(workload: Workload) -> (&'static str, &'static str) {
    match workload {
        Workload::Deployment(name) => ("Deployment", name),
        Workload::StatefulSet(name) => ("StatefulSet", name),
        Workload::Job(name) => ("Job", name),
    }
}

/// Whether a Deployment or StatefulSet is as it was last asked to be, and answers.
pub fn is_ready(live: &Value) -> bool {
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let (wanted, status) = (live["spec"]["replicas"].as_i64().unwrap_or(1), &live["status"]);
    number(&status["observedGeneration"]) >= objects::meta::generation(live)
        && wanted > 0
        && number(&status["replicas"]) == wanted
        && number(&status["updatedReplicas"]) == wanted
        && number(&status["readyReplicas"]) == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness() {
        let check = |replicas: u32, status: Value, expected: bool| {
            let live =
                json!({"metadata": {"generation": 2}, "spec": {"replicas": replicas}, "status": status});
            assert_eq!(is_ready(&live), expected, "{live}");
        };
        let status = |observed: u32, all: u32, updated: u32, ready: u32| {
            json!({
                "observedGeneration": observed, "replicas": all, "updatedReplicas": updated, "readyReplicas": ready,
            })
        };
        check(1, status(2, 1, 1, 1), true);
        check(1, status(3, 1, 1, 1), true);
        check(1, status(1, 1, 1, 1), false);
        check(1, status(2, 1, 1, 0), false);
        check(1, status(2, 2, 1, 1), false);
        check(1, status(2, 1, 0, 1), false);
        check(1, json!({}), false);
        check(1, Value::Null, false);
        check(0, status(2, 0, 0, 0), false);
    }
}
