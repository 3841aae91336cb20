//! The table: every built-in kind that does something of its own, group by group.

use objects::{ErrorList, Value};
use serde_json::json;

use super::Generation::{Body, BodyAndAnnotations, BodyAndLabels, Once};
use super::StatusSplit::{KeepLabels, StatusOnly, WithMetadata};
use super::{Behaviour, Generation, Selectable, StatusSplit, names, prepare, selectable, service};
use crate::columns::{self, Columns};
use crate::defaults;

pub(super) struct Row {
    pub group: &'static str,
    pub kind: &'static str,
    pub behaviour: Behaviour,
}

const fn kind(group: &'static str, kind: &'static str) -> Row {
    Row { group, kind, behaviour: Behaviour::plain() }
}

impl Row {
    const fn name(mut self, rule: fn(&str) -> Vec<String>) -> Self {
        self.behaviour.name = rule;
        self
    }

    const fn generation(mut self, when: Generation) -> Self {
        self.behaviour.generation = when;
        self
    }

    /// Has a status endpoint; a new object starts with this status.
    const fn status(mut self, split: StatusSplit, initial: fn() -> Value) -> Self {
        self.behaviour.status = split;
        self.behaviour.initial_status = Some(initial);
        self
    }

    /// A new object may bring its status along: kubelets register their nodes so.
    const fn status_from_client(mut self) -> Self {
        self.behaviour.initial_status = None;
        self
    }

    const fn defaults(mut self, defaults: fn(&mut Value)) -> Self {
        self.behaviour.defaults = defaults;
        self
    }

    const fn on_create(mut self, create: fn(&mut Value)) -> Self {
        self.behaviour.create = create;
        self
    }

    const fn on_update(mut self, update: fn(&mut Value, &Value)) -> Self {
        self.behaviour.update = update;
        self
    }

    const fn on_status(mut self, update: fn(&mut Value, &Value)) -> Self {
        self.behaviour.status_update = update;
        self
    }

    const fn validate(mut self, validate: fn(&Value) -> ErrorList) -> Self {
        self.behaviour.validate = validate;
        self
    }

    const fn validate_update(mut self, validate: fn(&Value, &Value) -> ErrorList) -> Self {
        self.behaviour.validate_update = validate;
        self
    }

    const fn validate_status(mut self, validate: fn(&Value, &Value) -> ErrorList) -> Self {
        self.behaviour.validate_status_update = validate;
        self
    }

    const fn selectable(mut self, fields: &'static [Selectable]) -> Self {
        self.behaviour.selectable = fields;
        self
    }

    const fn columns(mut self, columns: &'static Columns) -> Self {
        self.behaviour.columns = columns;
        self
    }
}

const CORE: &str = "";
const APPS: &str = "apps";
const BATCH: &str = "batch";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const RESOURCE: &str = "resource.k8s.io";

/// A status in which everything is optional.
fn empty() -> Value {
    json!({})
}

pub(super) static ROWS: &[Row] = &[
    // What runs.
    kind(CORE, "Pod")
        .defaults(defaults::pod)
        .generation(Body)
        .status(WithMetadata, || json!({"phase": "Pending"}))
        .on_create(prepare::new_pod)
        .on_status(prepare::pod_status)
        .selectable(selectable::POD)
        .columns(&columns::POD),
    kind(CORE, "PodTemplate")
        .defaults(defaults::pod_template)
        .generation(Body)
        .columns(&columns::POD_TEMPLATE),
    kind(CORE, "ReplicationController")
        .defaults(defaults::replication_controller)
        .generation(Body)
        .status(WithMetadata, || json!({"replicas": 0}))
        .selectable(selectable::REPLICAS)
        .columns(&columns::REPLICATION_CONTROLLER),
    kind(APPS, "Deployment")
        .defaults(defaults::deployment)
        .generation(BodyAndAnnotations)
        .status(KeepLabels, empty)
        .columns(&columns::DEPLOYMENT),
    kind(APPS, "ReplicaSet")
        .defaults(defaults::replica_set)
        .generation(Body)
        .status(WithMetadata, || json!({"replicas": 0}))
        .selectable(selectable::REPLICAS)
        .columns(&columns::REPLICA_SET),
    kind(APPS, "DaemonSet")
        .defaults(defaults::daemon_set)
        .generation(Body)
        .status(WithMetadata, || {
            let counts =
                ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"];
            counts
                .iter()
                .map(|count| ((*count).to_owned(), 0.into()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        })
        .on_create(prepare::new_daemon_set)
        .on_update(prepare::daemon_set_template_generation)
        .columns(&columns::DAEMON_SET),
    kind(APPS, "StatefulSet")
        .defaults(defaults::stateful_set)
        .name(names::label)
        .generation(Body)
        .status(WithMetadata, || json!({"replicas": 0, "availableReplicas": 0}))
        .columns(&columns::STATEFUL_SET),
    kind(APPS, "ControllerRevision").columns(&columns::CONTROLLER_REVISION),
    kind(BATCH, "Job")
        .defaults(defaults::job)
        .generation(Body)
        .status(WithMetadata, empty)
        .on_create(prepare::new_job)
        .selectable(selectable::JOB)
        .columns(&columns::JOB),
    kind(BATCH, "CronJob")
        .defaults(defaults::cron_job)
        .generation(Body)
        .status(WithMetadata, empty)
        .columns(&columns::CRON_JOB),
    kind("autoscaling", "HorizontalPodAutoscaler")
        .defaults(defaults::horizontal_pod_autoscaler)
        .generation(Body)
        .status(WithMetadata, || json!({"desiredReplicas": 0}))
        .columns(&columns::HORIZONTAL_POD_AUTOSCALER),
    kind("autoscaling", "Scale").columns(&columns::SCALE),
    kind("policy", "PodDisruptionBudget")
        .generation(Body)
        .status(
            WithMetadata,
            || json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}),
        )
        .columns(&columns::POD_DISRUPTION_BUDGET),
    // What a namespace holds.
    kind(CORE, "Namespace")
        .defaults(defaults::namespace)
        .name(names::label)
        .status(WithMetadata, || json!({"phase": "Active"}))
        .on_create(prepare::new_namespace)
        .on_update(prepare::keep_namespace_finalizers)
        .selectable(selectable::NAMESPACE)
        .columns(&columns::NAMESPACE),
    kind(CORE, "ConfigMap").columns(&columns::CONFIG_MAP),
    kind(CORE, "Secret")
        .defaults(defaults::secret)
        .on_update(prepare::secret_type_kept)
        .selectable(selectable::SECRET)
        .columns(&columns::SECRET),
    kind(CORE, "ServiceAccount")
        .on_create(prepare::secret_names_only)
        .on_update(prepare::secret_names_only_kept),
    kind(CORE, "ResourceQuota")
        .defaults(defaults::resource_quota)
        .status(WithMetadata, empty)
        .columns(&columns::RESOURCE_QUOTA),
    kind(CORE, "LimitRange").defaults(defaults::limit_range).columns(&columns::CREATED),
    kind(CORE, "Event").selectable(selectable::CORE_EVENT).columns(&columns::EVENT),
    kind("events.k8s.io", "Event").selectable(selectable::EVENT).columns(&columns::EVENT),
    kind("coordination.k8s.io", "Lease").columns(&columns::LEASE),
    kind("coordination.k8s.io", "LeaseCandidate").columns(&columns::LEASE_CANDIDATE),
    // The network.
    kind(CORE, "Service")
        .defaults(defaults::service)
        .name(names::rfc1035_label)
        .status(WithMetadata, || json!({"loadBalancer": {}}))
        .on_create(service::create)
        .on_update(service::update)
        .selectable(selectable::SERVICE)
        .columns(&columns::SERVICE),
    kind(CORE, "Endpoints").defaults(defaults::endpoints).columns(&columns::ENDPOINTS),
    kind("discovery.k8s.io", "EndpointSlice")
        .defaults(defaults::endpoint_slice)
        .generation(BodyAndLabels)
        .columns(&columns::ENDPOINT_SLICE),
    kind(NETWORKING, "Ingress")
        .defaults(defaults::ingress)
        .generation(Body)
        .status(WithMetadata, || json!({"loadBalancer": {}}))
        .columns(&columns::INGRESS),
    kind(NETWORKING, "IngressClass")
        .defaults(defaults::ingress_class)
        .generation(Body)
        .columns(&columns::INGRESS_CLASS),
    kind(NETWORKING, "NetworkPolicy")
        .defaults(defaults::network_policy)
        .generation(Body)
        .columns(&columns::NETWORK_POLICY),
    kind(NETWORKING, "ServiceCIDR").status(StatusOnly, empty).columns(&columns::SERVICE_CIDR),
    kind(NETWORKING, "IPAddress").name(names::ip_address).columns(&columns::IP_ADDRESS),
    // Storage.
    kind(CORE, "PersistentVolume")
        .defaults(defaults::persistent_volume)
        .status(WithMetadata, || json!({"phase": "Pending"}))
        .columns(&columns::PERSISTENT_VOLUME),
    kind(CORE, "PersistentVolumeClaim")
        .defaults(defaults::claim)
        .status(WithMetadata, || json!({"phase": "Pending"}))
        .on_create(prepare::claim_data_source)
        .on_update(prepare::claim_data_source_kept)
        .columns(&columns::PERSISTENT_VOLUME_CLAIM),
    kind(STORAGE, "StorageClass").defaults(defaults::storage_class).columns(&columns::STORAGE_CLASS),
    kind(STORAGE, "VolumeAttributesClass").columns(&columns::VOLUME_ATTRIBUTES_CLASS),
    kind(STORAGE, "VolumeAttachment")
        .status(StatusOnly, || json!({"attached": false}))
        .columns(&columns::VOLUME_ATTACHMENT),
    kind(STORAGE, "CSINode").columns(&columns::CSI_NODE),
    kind(STORAGE, "CSIDriver").defaults(defaults::csi_driver).columns(&columns::CSI_DRIVER),
    kind(STORAGE, "CSIStorageCapacity").columns(&columns::CREATED),
    // Nodes and how pods are placed on them.
    kind(CORE, "Node")
        .defaults(defaults::node)
        .status(WithMetadata, empty)
        .status_from_client()
        .selectable(selectable::NODE)
        .columns(&columns::NODE),
    kind(CORE, "ComponentStatus").columns(&columns::COMPONENT_STATUS),
    kind("node.k8s.io", "RuntimeClass").columns(&columns::RUNTIME_CLASS),
    kind("scheduling.k8s.io", "PriorityClass")
        .defaults(defaults::priority_class)
        .generation(Once)
        .columns(&columns::PRIORITY_CLASS),
    kind("scheduling.k8s.io", "PodGroup").status(StatusOnly, empty).columns(&columns::POD_GROUP),
    kind(RESOURCE, "DeviceClass").generation(Body),
    kind(RESOURCE, "ResourceClaim")
        .defaults(defaults::resource_claim)
        .status(StatusOnly, empty)
        .columns(&columns::RESOURCE_CLAIM),
    kind(RESOURCE, "ResourceClaimTemplate").defaults(defaults::resource_claim_template),
    kind(RESOURCE, "ResourceSlice")
        .generation(Body)
        .selectable(selectable::RESOURCE_SLICE)
        .columns(&columns::RESOURCE_SLICE),
    kind(RESOURCE, "DeviceTaintRule")
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::DEVICE_TAINT_RULE),
    // Who may do what.
    kind(RBAC, "Role").name(names::path_segment).columns(&columns::CREATED),
    kind(RBAC, "ClusterRole").name(names::path_segment).columns(&columns::CREATED),
    kind(RBAC, "RoleBinding")
        .defaults(defaults::binding)
        .name(names::path_segment)
        .columns(&columns::BINDING),
    kind(RBAC, "ClusterRoleBinding")
        .defaults(defaults::binding)
        .name(names::path_segment)
        .columns(&columns::BINDING),
    kind(CERTIFICATES, "CertificateSigningRequest")
        .name(names::anything)
        .status(WithMetadata, empty)
        .on_create(prepare::new_signing_request)
        .on_update(prepare::signing_request_fixed)
        .on_status(prepare::signing_request_status)
        .selectable(selectable::SIGNER)
        .columns(&columns::CERTIFICATE_SIGNING_REQUEST),
    kind(CERTIFICATES, "ClusterTrustBundle")
        .name(names::trust_bundle)
        .selectable(selectable::SIGNER)
        .columns(&columns::CLUSTER_TRUST_BUNDLE),
    kind(CERTIFICATES, "PodCertificateRequest")
        .status(StatusOnly, empty)
        .selectable(selectable::POD_CERTIFICATE)
        .columns(&columns::POD_CERTIFICATE_REQUEST),
    // How the API itself behaves.
    kind(ADMISSION, "MutatingWebhookConfiguration")
        .defaults(defaults::mutating_webhooks)
        .generation(Body)
        .columns(&columns::WEBHOOK_CONFIGURATION),
    kind(ADMISSION, "ValidatingWebhookConfiguration")
        .defaults(defaults::validating_webhooks)
        .generation(Body)
        .columns(&columns::WEBHOOK_CONFIGURATION),
    kind(ADMISSION, "ValidatingAdmissionPolicy")
        .defaults(defaults::admission_policy)
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::VALIDATING_ADMISSION_POLICY),
    kind(ADMISSION, "ValidatingAdmissionPolicyBinding")
        .defaults(defaults::admission_policy_binding)
        .generation(Body)
        .columns(&columns::ADMISSION_POLICY_BINDING),
    kind(ADMISSION, "MutatingAdmissionPolicy")
        .defaults(defaults::admission_policy)
        .generation(Body)
        .columns(&columns::MUTATING_ADMISSION_POLICY),
    kind(ADMISSION, "MutatingAdmissionPolicyBinding")
        .defaults(defaults::admission_policy_binding)
        .generation(Body)
        .columns(&columns::ADMISSION_POLICY_BINDING),
    kind(FLOW, "FlowSchema")
        .defaults(defaults::flow_schema)
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::FLOW_SCHEMA),
    kind(FLOW, "PriorityLevelConfiguration")
        .defaults(defaults::priority_level)
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::PRIORITY_LEVEL),
    kind("apiextensions.k8s.io", "CustomResourceDefinition")
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::CREATED),
    kind("apiregistration.k8s.io", "APIService")
        .name(names::path_segment)
        .status(WithMetadata, empty)
        .columns(&columns::API_SERVICE),
    kind("internal.apiserver.k8s.io", "StorageVersion")
        .status(StatusOnly, empty)
        .columns(&columns::STORAGE_VERSION),
    kind("storagemigration.k8s.io", "StorageVersionMigration")
        .status(StatusOnly, empty)
        .columns(&columns::STORAGE_VERSION_MIGRATION),
];
