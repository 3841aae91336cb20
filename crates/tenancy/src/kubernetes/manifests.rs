//! What the operator itself needs in a cluster, as objects to apply: definitions, an account with the least rights
//! that do, its configuration and its Deployment.
//!
//! The names are those that KubeFlex's chart has. Hooks that are there from the beginning are the operator's to apply
//! when it starts: nothing can make one before the definitions are served.

use objects::{Value, meta};
use runtime::Error;
use serde_json::json;

use super::backend::{POSTGRES, POSTGRES_PASSWORD};
use super::policy;
use crate::host::Settings;
use crate::{api, install, names};

/// How the operator is to be installed.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Where its Deployment and account are. What users look for is in `kubeflex-system` in any case.
    pub namespace: String,
    pub image: String,
    pub image_pull_policy: String,
    pub image_pull_secret: Option<String>,
    /// What is said in `kubeflex-config`.
    pub settings: Settings,
    /// What else the operator is told on its command line.
    pub arguments: Vec<String>,
    /// Whether control planes of type `host` may be made: their accounts administer the cluster, and who gives such a
    /// right must be allowed to.
    pub host_type: bool,
    /// The image of a PostgreSQL to install as the shared store; none if there is another, or none is wanted.
    pub postgresql: Option<String>,
}

/// What runs where nothing else is said.
pub const POSTGRESQL_IMAGE: &str = "postgres:17";

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ROLE: &str = "kubeflex-manager-role";
const BINDING: &str = "kubeflex-manager-rolebinding";
/// Of those who may lead: the one that works, of several.
const ELECTION_ROLE: &str = "kubeflex-leader-election-role";
const ELECTION_BINDING: &str = "kubeflex-leader-election-rolebinding";
const HEALTH_PORT: u16 = 8_081;

/// Everything, in an order in which it can be applied.
pub fn manifests(installation: &Installation) -> Vec<Value> {
    let Installation { namespace, settings, .. } = installation;
    let mut all: Vec<Value> = Vec::new();
    let mut namespaces = vec![names::SYSTEM_NAMESPACE];
    if namespace != names::SYSTEM_NAMESPACE {
        namespaces.push(namespace);
    }
    all.extend(
        namespaces
            .iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})),
    );
    all.extend(install::definitions());
    let account = names::OPERATOR_ACCOUNT;
    all.push(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace},
    }));
    all.push(json!({
        "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules(installation.host_type),
    }));
    all.push(json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": BINDING},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }));
    all.push(json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": {"name": ELECTION_ROLE, "namespace": names::SYSTEM_NAMESPACE},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}],
    }));
    all.push(json!({
        "apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": ELECTION_BINDING, "namespace": names::SYSTEM_NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ELECTION_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }));
    all.extend(policy::policies());
    all.push(install::configuration(settings));
    if let Some(image) = &installation.postgresql {
        all.extend(postgresql(image, settings));
    }
    all.push(deployment(installation));
    all
}

/// One server with a volume, under the names that KubeFlex's has. Its password is made by the operator.
fn postgresql(image: &str, settings: &Settings) -> [Value; 2] {
    let (name, namespace) = (POSTGRES, names::SYSTEM_NAMESPACE);
    let labels = json!({"app.kubernetes.io/name": "postgresql", "app.kubernetes.io/instance": "postgres"});
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    let password = json!({"secretKeyRef": {"name": name, "key": POSTGRES_PASSWORD}});
    let ask = json!({"exec": {"command": ["pg_isready", "--username=postgres"]}, "periodSeconds": 5});
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "postgresql",
            "image": image,
            "args": ["-c", "max_connections=1000"],
            "env": [
                {"name": "POSTGRES_PASSWORD", "valueFrom": password},
                {"name": "PGDATA", "value": "/var/lib/postgresql/data/pgdata"},
            ],
            "ports": [{"name": "postgresql", "containerPort": 5432, "protocol": "TCP"}],
            "readinessProbe": ask,
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [
                {"name": "data", "mountPath": "/var/lib/postgresql/data"},
                {"name": "run", "mountPath": "/var/run/postgresql"},
            ],
        }],
        "volumes": [{"name": "run", "emptyDir": {}}],
    });
    if !settings.is_openshift {
        for field in ["runAsUser", "runAsGroup", "fsGroup"] {
            pod["securityContext"][field] = 999.into();
        }
    }
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}});
    let port = json!({"name": "postgresql", "port": 5432, "protocol": "TCP", "targetPort": "postgresql"});
    [
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"type": "ClusterIP", "selector": labels, "ports": [port]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
            "spec": {
                "replicas": 1, "serviceName": name, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
            },
        }),
    ]
}

const KEEP: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
const LOOK: [&str; 3] = ["get", "list", "watch"];

/// What may be done with what: API group, resources, verbs.
const RIGHTS: [(&str, &[&str], &[&str]); 15] = [
    // In the namespace of every control plane, which may be any.
    (
        "",
        &["namespaces", "secrets", "services", "serviceaccounts", "configmaps", "persistentvolumeclaims"],
        &KEEP,
    ),
    ("apps", &["deployments", "statefulsets"], &KEEP),
    ("batch", &["jobs"], &KEEP),
    ("networking.k8s.io", &["ingresses"], &KEEP),
    ("route.openshift.io", &["routes"], &KEEP),
    ("route.openshift.io", &["routes/custom-host"], &["create", "update"]),
    ("gateway.networking.k8s.io", &["tlsroutes"], &KEEP),
    // Seen by hooks that wait.
    ("", &["pods"], &LOOK),
    ("apps", &["daemonsets"], &LOOK),
    // What hooks may make beside these. Nobody gives a right that they do not have.
    ("rbac.authorization.k8s.io", &["roles", "rolebindings", "clusterroles", "clusterrolebindings"], &KEEP),
    ("apiextensions.k8s.io", &["customresourcedefinitions"], &KEEP),
    (
        names::GROUP,
        &[
            "controlplanes",
            "controlplanes/status",
            "controlplanes/finalizers",
            "postcreatehooks",
            "postcreatehooks/status",
        ],
        &KEEP,
    ),
    // Hooks that are there from the beginning; see `policy`.
    (names::GROUP, &["postcreatehooks"], &[policy::APPLY_AS_OPERATOR]),
    ("", &["events"], &["create", "patch"]),
    // Tokens of the accounts of control planes of type host.
    ("", &["serviceaccounts/token"], &["create"]),
];

fn rules(host_type: bool) -> Value {
    let mut rules: Vec<Value> = RIGHTS
        .iter()
        .map(
            |(group, resources, verbs)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}),
        )
        .collect();
    if host_type {
        rules.push(json!({
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
            "resourceNames": ["cluster-admin"], "verbs": ["bind"],
        }));
    }
    rules.into()
}

fn deployment(installation: &Installation) -> Value {
    let labels = json!({"control-plane": "controller-manager"});
    let mut arguments = vec![
        "operator".to_owned(),
        format!("--image={}", installation.image),
        format!("--image-pull-policy={}", installation.image_pull_policy),
        format!("--health-probe-bind-address=0.0.0.0:{HEALTH_PORT}"),
        "--leader-elect".to_owned(),
    ];
    if installation.postgresql.is_some() {
        arguments.push("--make-postgresql-password".to_owned());
    }
    if let Some(secret) = &installation.image_pull_secret {
        arguments.push(format!("--image-pull-secret={secret}"));
    }
    arguments.extend(installation.arguments.iter().cloned());
    let probe = |path: &str, delay: u32, period: u32| {
        json!({
            "httpGet": {"path": path, "port": "health"}, "initialDelaySeconds": delay, "periodSeconds": period,
        })
    };
    let mut pod = json!({
        "serviceAccountName": names::OPERATOR_ACCOUNT,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "manager",
            "image": installation.image,
            "imagePullPolicy": installation.image_pull_policy,
            "command": ["hangar"],
            "args": arguments,
            "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
            "livenessProbe": probe("/healthz", 15, 20),
            "readinessProbe": probe("/readyz", 1, 5),
            "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
    });
    if !installation.settings.is_openshift {
        pod["securityContext"]["runAsUser"] = 65_532.into();
    }
    if let Some(secret) = &installation.image_pull_secret {
        pod["imagePullSecrets"] = json!([{ "name": secret }]);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": names::OPERATOR_ACCOUNT, "namespace": installation.namespace, "labels": labels,
        },
        "spec": {
            "replicas": 1,
            // The next one waits until the last one has given its lease back.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// Whether an object is of the PostgreSQL that may come with the operator.
pub fn is_of_postgresql(object: &Value) -> bool {
    meta::name(object) == POSTGRES
}

/// Applies objects one after the other, as `kubectl apply --server-side` would.
pub async fn apply(client: &kube::Client, objects: &[Value]) -> Result<(), Error> {
    for object in objects {
        let what = || format!("{} {}", meta::kind(object), meta::name(object));
        let Some(place) = api::place_of(client, object, meta::namespace(object)).await? else {
            return Err(Error::failed(format!("{}: the cluster does not serve this kind", what())));
        };
        let applied = api::apply(client, &place, object, names::MANAGER, true).await;
        applied.map_err(|error| Error::failed(format!("{}: {error}", what())))?;
    }
    Ok(())
}

/// All of them as one file.
pub fn to_yaml(manifests: &[Value]) -> String {
    manifests.iter().map(|one| format!("---\n{}", wire::yaml::encode(one))).collect()
}
