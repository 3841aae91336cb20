//! What users of each type of control plane look for, and under which names: a row per type.

use crate::plane::Type;

/// A type whose control plane is made here.
pub struct Hosted {
    /// The Secret with the kubeconfigs, and their keys in it. An empty in-cluster key is none.
    pub secret: &'static str,
    pub key: &'static str,
    pub in_cluster_key: &'static str,
    /// The Service; none is one of the control plane's own name.
    pub service: Option<&'static str>,
    /// Whether that is for the inside of the cluster only.
    pub internal: bool,
    /// A Service beside it, for the outside.
    pub outward: Option<&'static str>,
    /// What its Services and the workload are found by.
    pub labels: &'static [(&'static str, &'static str)],
    /// What the Service selects, and the port there.
    pub app: &'static str,
    pub port: u16,
    pub naming: Naming,
    pub workloads: &'static [Workload],
    /// Claims that its processes would keep their data in.
    pub claims: &'static [&'static str],
    /// A ConfigMap of scripts for its jobs, and how they are called.
    pub scripts: Option<(&'static str, &'static [&'static str])>,
    /// Whether others find in it (`kube-public/cluster-info`) where it is reached from outside.
    pub cluster_info: bool,
    /// What a control plane of this type cannot do yet, said in its status.
    pub missing: Option<&'static str>,
}

/// How the entries of a kubeconfig are called.
pub enum Naming {
    /// `NAME-cluster`, `NAME-admin` and `NAME`, for the control plane's own name.
    OwnName,
    Fixed {
        cluster: &'static str,
        user: &'static str,
        context: &'static str,
    },
}

impl Naming {
    /// Cluster, user and context.
    pub fn of(&self, name: &str) -> (String, String, String) {
        match self {
            Naming::OwnName => (format!("{name}-cluster"), format!("{name}-admin"), name.to_owned()),
            Naming::Fixed { cluster, user, context } => {
                ((*cluster).into(), (*user).into(), (*context).into())
            }
        }
    }
}

/// Something that stands for a process of the control plane. The first of a type is what readiness is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Deployment(&'static str),
    StatefulSet(&'static str),
    Job(&'static str),
}

const NO_PODS: &str = "workload controllers and nodes are not part of this version: objects are served and stored, \
    pods do not run";

const K8S: Hosted = Hosted {
    secret: "admin-kubeconfig",
    key: "kubeconfig",
    in_cluster_key: "kubeconfig-incluster",
    service: None,
    internal: false,
    outward: None,
    labels: &[],
    app: "kube-apiserver",
    port: 9444,
    naming: Naming::OwnName,
    workloads: &[Workload::Deployment("kube-apiserver"), Workload::Deployment("kube-controller-manager")],
    claims: &[],
    scripts: None,
    cluster_info: false,
    missing: None,
};

const VCLUSTER: Hosted = Hosted {
    secret: "vc-vcluster",
    key: "config",
    in_cluster_key: "config-incluster",
    service: Some("vcluster"),
    internal: true,
    outward: Some("vcluster-nodeport"),
    labels: &[("app", "vcluster"), ("release", "vcluster")],
    app: "vcluster",
    port: 8443,
    naming: Naming::Fixed { cluster: "my-vcluster", user: "my-vcluster", context: "my-vcluster" },
    workloads: &[Workload::StatefulSet("vcluster"), Workload::Job("update-cluster-info")],
    claims: &["data-vcluster-0"],
    scripts: None,
    cluster_info: true,
    missing: Some(NO_PODS),
};

const K3S: Hosted = Hosted {
    secret: "k3s-config",
    key: "config",
    in_cluster_key: "config-incluster",
    service: Some("k3s"),
    internal: true,
    outward: None,
    labels: &[
        ("controller.kubeflex.dev/type", "k3s"),
        ("controller.kubeflex.dev/service-name", "k3s"),
        ("controller.kubeflex.dev/pvc-name", "k3s-data"),
    ],
    app: "k3s-server",
    port: 6443,
    naming: Naming::Fixed { cluster: "default", user: "default", context: "default" },
    workloads: &[Workload::StatefulSet("k3s-server"), Workload::Job("k3s-bootstrap-kubeconfig")],
    claims: &["k3s-config", "k3s-data"],
    scripts: Some(("k3s-scripts", &["save-k3s-kubeconfig.sh", "save-k3s-token.sh"])),
    cluster_info: false,
    missing: Some(NO_PODS),
};

const OCM: Hosted = Hosted {
    secret: "multicluster-controlplane-kubeconfig",
    key: "kubeconfig",
    in_cluster_key: "",
    service: Some("multicluster-controlplane"),
    internal: false,
    outward: None,
    labels: &[],
    app: "multicluster-controlplane",
    port: 9443,
    naming: Naming::Fixed {
        cluster: "multicluster-controlplane",
        user: "user",
        context: "multicluster-controlplane",
    },
    workloads: &[Workload::Deployment("multicluster-controlplane"), Workload::Job("update-cluster-info")],
    claims: &[],
    scripts: None,
    cluster_info: true,
    missing: Some("registration of managed clusters is not part of this version"),
};

/// The row of a type; none for those that are control planes already.
pub fn hosted(r#type: Type) -> Option<&'static Hosted> {
    match r#type {
        Type::K8s => Some(&K8S),
        Type::Vcluster => Some(&VCLUSTER),
        Type::K3s => Some(&K3S),
        Type::Ocm => Some(&OCM),
        Type::Host | Type::External => None,
    }
}
