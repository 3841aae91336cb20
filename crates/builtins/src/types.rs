//! The table of every resource that Kubernetes 1.36 serves by default, one line each.
//!
//! Versions that upstream keeps off by default (alphas, and betas since 1.24) are not served here either.

use std::sync::{Arc, LazyLock};

use objects::Verb::{Create, Delete, Get, List, Patch, Update, Watch};
use objects::{GroupVersion, GroupVersionKind, ResourceType, Scope, Subresource, Verbs};

/// All built-in resources, by group in the order of the table and by plural within a version.
pub fn types() -> &'static [Arc<ResourceType>] {
    static TYPES: LazyLock<Vec<Arc<ResourceType>>> = LazyLock::new(|| {
        let versions = TABLE.iter();
        versions.flat_map(|v| v.rows.iter().map(|row| Arc::new(row.in_version(v.group, v.name)))).collect()
    });
    &TYPES
}

const CREATE: Verbs = Verbs::of(&[Create]);
const READ: Verbs = Verbs::of(&[Get, List]);
const STREAM: Verbs = Verbs::of(&[Create, Get]);
const CHANGE: Verbs = Verbs::of(&[Get, Patch, Update]);
const PROXY: Verbs = Verbs::of(&[Create, Delete, Get, Patch, Update]);
/// Deleting every namespace at once is not offered.
const NO_DELETE_COLLECTION: Verbs = Verbs::of(&[Create, Delete, Get, List, Patch, Update, Watch]);

const STATUS: &[Sub] = &[own("status", CHANGE)];
const SCALE_STATUS: &[Sub] = &[of("scale", "autoscaling", "Scale", CHANGE), own("status", CHANGE)];
const NAMESPACE: &[Sub] = &[own("finalize", Verbs::of(&[Update])), own("status", CHANGE)];
const NODE: &[Sub] = &[of("proxy", "", "NodeProxyOptions", PROXY), own("status", CHANGE)];
const SERVICE: &[Sub] = &[of("proxy", "", "ServiceProxyOptions", PROXY), own("status", CHANGE)];
const TOKEN: &[Sub] = &[of("token", "authentication.k8s.io", "TokenRequest", CREATE)];
const APPROVAL_STATUS: &[Sub] = &[own("approval", CHANGE), own("status", CHANGE)];
const POD: &[Sub] = &[
    of("attach", "", "PodAttachOptions", STREAM),
    of("binding", "", "Binding", CREATE),
    own("ephemeralcontainers", CHANGE),
    of("eviction", "policy", "Eviction", CREATE),
    of("exec", "", "PodExecOptions", STREAM),
    own("log", Verbs::of(&[Get])),
    of("portforward", "", "PodPortForwardOptions", STREAM),
    of("proxy", "", "PodProxyOptions", PROXY),
    own("resize", CHANGE),
    own("status", CHANGE),
];

#[rustfmt::skip]
const TABLE: &[Version] = &[
    version("", "v1", &[
        namespaced("Binding", "bindings").only(CREATE),
        cluster("ComponentStatus", "componentstatuses").short(&["cs"]).only(READ),
        namespaced("ConfigMap", "configmaps").short(&["cm"]),
        namespaced("Endpoints", "endpoints").short(&["ep"]),
        namespaced("Event", "events").short(&["ev"]),
        namespaced("LimitRange", "limitranges").short(&["limits"]),
        cluster("Namespace", "namespaces").short(&["ns"]).only(NO_DELETE_COLLECTION).with(NAMESPACE),
        cluster("Node", "nodes").short(&["no"]).with(NODE),
        namespaced("PersistentVolumeClaim", "persistentvolumeclaims").short(&["pvc"]).with(STATUS),
        cluster("PersistentVolume", "persistentvolumes").short(&["pv"]).with(STATUS),
        namespaced("Pod", "pods").short(&["po"]).category("all").with(POD),
        namespaced("PodTemplate", "podtemplates"),
        namespaced("ReplicationController", "replicationcontrollers").short(&["rc"]).category("all").with(SCALE_STATUS),
        namespaced("ResourceQuota", "resourcequotas").short(&["quota"]).with(STATUS),
        namespaced("Secret", "secrets"),
        namespaced("ServiceAccount", "serviceaccounts").short(&["sa"]).with(TOKEN),
        namespaced("Service", "services").short(&["svc"]).category("all").with(SERVICE),
    ]),
    version("admissionregistration.k8s.io", "v1", &[
        cluster("MutatingAdmissionPolicy", "mutatingadmissionpolicies").category("api-extensions"),
        cluster("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings").category("api-extensions"),
        cluster("MutatingWebhookConfiguration", "mutatingwebhookconfigurations").category("api-extensions"),
        cluster("ValidatingAdmissionPolicy", "validatingadmissionpolicies").category("api-extensions").with(STATUS),
        cluster("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings").category("api-extensions"),
        cluster("ValidatingWebhookConfiguration", "validatingwebhookconfigurations").category("api-extensions"),
    ]),
    version("apiextensions.k8s.io", "v1", &[
        cluster("CustomResourceDefinition", "customresourcedefinitions").short(&["crd", "crds"]).category("api-extensions").with(STATUS),
    ]),
    version("apiregistration.k8s.io", "v1", &[
        cluster("APIService", "apiservices").category("api-extensions").with(STATUS),
    ]),
    version("apps", "v1", &[
        namespaced("ControllerRevision", "controllerrevisions"),
        namespaced("DaemonSet", "daemonsets").short(&["ds"]).category("all").with(STATUS),
        namespaced("Deployment", "deployments").short(&["deploy"]).category("all").with(SCALE_STATUS),
        namespaced("ReplicaSet", "replicasets").short(&["rs"]).category("all").with(SCALE_STATUS),
        namespaced("StatefulSet", "statefulsets").short(&["sts"]).category("all").with(SCALE_STATUS),
    ]),
    version("authentication.k8s.io", "v1", &[
        cluster("SelfSubjectReview", "selfsubjectreviews").only(CREATE),
        cluster("TokenReview", "tokenreviews").only(CREATE),
    ]),
    version("authorization.k8s.io", "v1", &[
        namespaced("LocalSubjectAccessReview", "localsubjectaccessreviews").only(CREATE),
        cluster("SelfSubjectAccessReview", "selfsubjectaccessreviews").only(CREATE),
        cluster("SelfSubjectRulesReview", "selfsubjectrulesreviews").only(CREATE),
        cluster("SubjectAccessReview", "subjectaccessreviews").only(CREATE),
    ]),
    version("autoscaling", "v1", &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).category("all").with(STATUS),
    ]),
    version("autoscaling", "v2", &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).category("all").with(STATUS),
    ]),
    version("batch", "v1", &[
        namespaced("CronJob", "cronjobs").short(&["cj"]).category("all").with(STATUS),
        namespaced("Job", "jobs").category("all").with(STATUS),
    ]),
    version("certificates.k8s.io", "v1", &[
        cluster("CertificateSigningRequest", "certificatesigningrequests").short(&["csr"]).with(APPROVAL_STATUS),
    ]),
    version("coordination.k8s.io", "v1", &[
        namespaced("Lease", "leases"),
    ]),
    version("discovery.k8s.io", "v1", &[
        namespaced("EndpointSlice", "endpointslices"),
    ]),
    version("events.k8s.io", "v1", &[
        namespaced("Event", "events").short(&["ev"]),
    ]),
    version("flowcontrol.apiserver.k8s.io", "v1", &[
        cluster("FlowSchema", "flowschemas").with(STATUS),
        cluster("PriorityLevelConfiguration", "prioritylevelconfigurations").with(STATUS),
    ]),
    version("networking.k8s.io", "v1", &[
        cluster("IngressClass", "ingressclasses"),
        namespaced("Ingress", "ingresses").short(&["ing"]).with(STATUS),
        cluster("IPAddress", "ipaddresses").short(&["ip"]),
        namespaced("NetworkPolicy", "networkpolicies").short(&["netpol"]),
        cluster("ServiceCIDR", "servicecidrs").with(STATUS),
    ]),
    version("node.k8s.io", "v1", &[
        cluster("RuntimeClass", "runtimeclasses"),
    ]),
    version("policy", "v1", &[
        namespaced("PodDisruptionBudget", "poddisruptionbudgets").short(&["pdb"]).with(STATUS),
    ]),
    version("rbac.authorization.k8s.io", "v1", &[
        cluster("ClusterRoleBinding", "clusterrolebindings"),
        cluster("ClusterRole", "clusterroles"),
        namespaced("RoleBinding", "rolebindings"),
        namespaced("Role", "roles"),
    ]),
    version("resource.k8s.io", "v1", &[
        cluster("DeviceClass", "deviceclasses"),
        namespaced("ResourceClaim", "resourceclaims").with(STATUS),
        namespaced("ResourceClaimTemplate", "resourceclaimtemplates"),
        cluster("ResourceSlice", "resourceslices"),
    ]),
    version("scheduling.k8s.io", "v1", &[
        cluster("PriorityClass", "priorityclasses").short(&["pc"]),
    ]),
    version("storage.k8s.io", "v1", &[
        cluster("CSIDriver", "csidrivers"),
        cluster("CSINode", "csinodes"),
        namespaced("CSIStorageCapacity", "csistoragecapacities"),
        cluster("StorageClass", "storageclasses").short(&["sc"]),
        cluster("VolumeAttachment", "volumeattachments").with(STATUS),
        cluster("VolumeAttributesClass", "volumeattributesclasses").short(&["vac"]),
    ]),
];

struct Version {
    group: &'static str,
    name: &'static str,
    rows: &'static [Row],
}

const fn version(group: &'static str, name: &'static str, rows: &'static [Row]) -> Version {
    Version { group, name, rows }
}

struct Row {
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
    short: &'static [&'static str],
    category: Option<&'static str>,
    verbs: Verbs,
    subresources: &'static [Sub],
}

struct Sub {
    name: &'static str,
    /// Group and kind (all of them are v1) where it is not the parent's.
    other: Option<(&'static str, &'static str)>,
    verbs: Verbs,
}

const fn own(name: &'static str, verbs: Verbs) -> Sub {
    Sub { name, other: None, verbs }
}

const fn of(name: &'static str, group: &'static str, kind: &'static str, verbs: Verbs) -> Sub {
    Sub { name, other: Some((group, kind)), verbs }
}

const fn row(kind: &'static str, plural: &'static str, scope: Scope) -> Row {
    Row { kind, plural, scope, short: &[], category: None, verbs: Verbs::ALL, subresources: &[] }
}

const fn namespaced(kind: &'static str, plural: &'static str) -> Row {
    row(kind, plural, Scope::Namespaced)
}

const fn cluster(kind: &'static str, plural: &'static str) -> Row {
    row(kind, plural, Scope::Cluster)
}

impl Row {
    const fn short(mut self, names: &'static [&'static str]) -> Row {
        self.short = names;
        self
    }

    const fn category(mut self, name: &'static str) -> Row {
        self.category = Some(name);
        self
    }

    const fn only(mut self, verbs: Verbs) -> Row {
        self.verbs = verbs;
        self
    }

    const fn with(mut self, subresources: &'static [Sub]) -> Row {
        self.subresources = subresources;
        self
    }

    fn in_version(&self, group: &str, version: &str) -> ResourceType {
        let own = GroupVersion::new(group, version).with_kind(self.kind);
        let subresource = |sub: &Sub| Subresource {
            name: sub.name.into(),
            kind: sub
                .other
                .map_or_else(|| own.clone(), |(group, kind)| GroupVersionKind::new(group, "v1", kind)),
            verbs: sub.verbs,
        };
        ResourceType {
            group: group.into(),
            version: version.into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            plural: self.plural.into(),
            singular: self.kind.to_ascii_lowercase().into(),
            short_names: self.short.iter().map(|name| (*name).into()).collect(),
            categories: self.category.map(Into::into).into_iter().collect(),
            scope: self.scope,
            verbs: self.verbs,
            subresources: self.subresources.iter().map(subresource).collect(),
        }
    }
}
