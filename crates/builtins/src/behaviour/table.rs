//! The table: every built-in kind that does something of its own, group by group.

use objects::Value;
use serde_json::json;

use super::Generation::{Body, BodyAndAnnotations, BodyAndLabels, Once};
use super::StatusSplit::{KeepLabels, StatusOnly, WithMetadata};
use super::row::{Row, kind};
use super::{names, prepare, selectable, service};
use crate::validation::{self, warnings};
use crate::{columns, defaults};

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
        .columns(&columns::POD)
        .validate(validation::pod)
        .validate_new(validation::new_pod)
        .validate_update(validation::pod_update)
        .validate_status(validation::pod_status_update)
        .validate_parts(&[
            ("ephemeralcontainers", validation::ephemeral_containers_update),
            ("resize", validation::pod_resize),
        ])
        .warnings(warnings::of_pod),
    kind(CORE, "PodTemplate")
        .defaults(defaults::pod_template)
        .generation(Body)
        .columns(&columns::POD_TEMPLATE)
        .validate(validation::pod_template),
    kind(CORE, "ReplicationController")
        .defaults(defaults::replication_controller)
        .generation(Body)
        .status(WithMetadata, || json!({"replicas": 0}))
        .selectable(selectable::REPLICAS)
        .columns(&columns::REPLICATION_CONTROLLER)
        .validate(validation::replication_controller)
        .validate_status(validation::replicas_status)
        .warnings(warnings::of_workload),
    kind(APPS, "Deployment")
        .defaults(defaults::deployment)
        .generation(BodyAndAnnotations)
        .status(KeepLabels, empty)
        .columns(&columns::DEPLOYMENT)
        .validate(validation::deployment)
        .validate_update(validation::selector_fixed)
        .validate_status(validation::replicas_status)
        .warnings(warnings::of_workload),
    kind(APPS, "ReplicaSet")
        .defaults(defaults::replica_set)
        .generation(Body)
        .status(WithMetadata, || json!({"replicas": 0}))
        .selectable(selectable::REPLICAS)
        .columns(&columns::REPLICA_SET)
        .validate(validation::replica_set)
        .validate_update(validation::selector_fixed)
        .validate_status(validation::replicas_status)
        .warnings(warnings::of_workload),
    kind(APPS, "DaemonSet")
        .defaults(defaults::daemon_set)
        .generation(Body)
        .status(WithMetadata, || {
            json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0,
                "numberMisscheduled": 0, "numberReady": 0,
            })
        })
        .on_create(prepare::new_daemon_set)
        .on_update(prepare::daemon_set_template_generation)
        .columns(&columns::DAEMON_SET)
        .validate(validation::daemon_set)
        .validate_update(validation::selector_fixed)
        .validate_status(validation::replicas_status)
        .warnings(warnings::of_workload),
    kind(APPS, "StatefulSet")
        .defaults(defaults::stateful_set)
        .name(names::label)
        .generation(Body)
        .status(WithMetadata, || json!({"replicas": 0, "availableReplicas": 0}))
        .columns(&columns::STATEFUL_SET)
        .validate(validation::stateful_set)
        .validate_update(validation::stateful_set_update)
        .validate_status(validation::replicas_status)
        .warnings(warnings::of_workload),
    kind(APPS, "ControllerRevision")
        .columns(&columns::CONTROLLER_REVISION)
        .validate(validation::controller_revision)
        .validate_update(validation::controller_revision_update),
    kind(BATCH, "Job")
        .defaults(defaults::job)
        .generation(Body)
        .status(WithMetadata, empty)
        .on_create(prepare::new_job)
        .selectable(selectable::JOB)
        .columns(&columns::JOB)
        .validate(validation::job)
        .validate_new(validation::new_job)
        .validate_update(validation::job_update)
        .validate_status(validation::job_status_update)
        .warnings(warnings::of_workload),
    kind(BATCH, "CronJob")
        .defaults(defaults::cron_job)
        .generation(Body)
        .status(WithMetadata, empty)
        .columns(&columns::CRON_JOB)
        .validate(validation::cron_job)
        .validate_new(validation::new_cron_job)
        .warnings(warnings::of_workload),
    kind("autoscaling", "HorizontalPodAutoscaler")
        .defaults(defaults::horizontal_pod_autoscaler)
        .generation(Body)
        .status(WithMetadata, || json!({"desiredReplicas": 0}))
        .columns(&columns::HORIZONTAL_POD_AUTOSCALER)
        .validate(validation::horizontal_pod_autoscaler),
    kind("autoscaling", "Scale").columns(&columns::SCALE),
    kind("policy", "PodDisruptionBudget")
        .generation(Body)
        .status(
            WithMetadata,
            || json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}),
        )
        .columns(&columns::POD_DISRUPTION_BUDGET)
        .validate(validation::pod_disruption_budget)
        .validate_status(validation::pod_disruption_budget_status_update),
    // What a namespace holds.
    kind(CORE, "Namespace")
        .defaults(defaults::namespace)
        .name(names::label)
        .status(WithMetadata, || json!({"phase": "Active"}))
        .on_create(prepare::new_namespace)
        .on_update(prepare::keep_namespace_finalizers)
        .selectable(selectable::NAMESPACE)
        .columns(&columns::NAMESPACE)
        .validate(validation::namespace)
        .validate_status(validation::namespace_status_update)
        .validate_parts(&[("finalize", |new, _| validation::namespace(new))]),
    kind(CORE, "ConfigMap")
        .columns(&columns::CONFIG_MAP)
        .validate(validation::config_map)
        .validate_update(validation::config_map_update),
    kind(CORE, "Secret")
        .defaults(defaults::secret)
        .on_update(prepare::secret_type_kept)
        .selectable(selectable::SECRET)
        .columns(&columns::SECRET)
        .validate(validation::secret)
        .validate_update(validation::secret_update),
    kind(CORE, "ServiceAccount")
        .on_create(prepare::secret_names_only)
        .on_update(prepare::secret_names_only_kept),
    kind(CORE, "ResourceQuota")
        .defaults(defaults::resource_quota)
        .status(WithMetadata, empty)
        .columns(&columns::RESOURCE_QUOTA)
        .validate(validation::resource_quota)
        .validate_update(validation::resource_quota_update)
        .validate_status(validation::resource_quota_status_update),
    kind(CORE, "LimitRange")
        .defaults(defaults::limit_range)
        .columns(&columns::CREATED)
        .validate(validation::limit_range),
    kind(CORE, "Event")
        .selectable(selectable::CORE_EVENT)
        .columns(&columns::EVENT)
        .validate(validation::event)
        .validate_new(validation::new_event)
        .validate_update(validation::event_update),
    kind("events.k8s.io", "Event")
        .selectable(selectable::EVENT)
        .columns(&columns::EVENT)
        .validate(validation::event)
        .validate_new(validation::new_event)
        .validate_update(validation::event_update),
    kind("coordination.k8s.io", "Lease").columns(&columns::LEASE).validate(validation::lease),
    // The network.
    kind(CORE, "Service")
        .defaults(defaults::service)
        .name(names::rfc1035_label)
        .status(WithMetadata, || json!({"loadBalancer": {}}))
        .on_create(service::create)
        .on_update(service::update)
        .selectable(selectable::SERVICE)
        .columns(&columns::SERVICE)
        .validate(validation::service)
        .validate_update(validation::service_update)
        .validate_status(validation::service_status_update),
    kind(CORE, "Endpoints")
        .defaults(defaults::endpoints)
        .columns(&columns::ENDPOINTS)
        .validate(validation::endpoints)
        .warnings(warnings::of_endpoints),
    kind("discovery.k8s.io", "EndpointSlice")
        .defaults(defaults::endpoint_slice)
        .generation(BodyAndLabels)
        .columns(&columns::ENDPOINT_SLICE)
        .validate(validation::endpoint_slice)
        .validate_update(validation::endpoint_slice_update),
    kind(NETWORKING, "Ingress")
        .defaults(defaults::ingress)
        .generation(Body)
        .status(WithMetadata, || json!({"loadBalancer": {}}))
        .columns(&columns::INGRESS)
        .validate(validation::ingress)
        .validate_new(validation::new_ingress)
        .validate_status(validation::ingress_status_update),
    kind(NETWORKING, "IngressClass")
        .defaults(defaults::ingress_class)
        .generation(Body)
        .columns(&columns::INGRESS_CLASS)
        .validate(validation::ingress_class)
        .validate_update(validation::ingress_class_update),
    kind(NETWORKING, "NetworkPolicy")
        .defaults(defaults::network_policy)
        .generation(Body)
        .columns(&columns::NETWORK_POLICY)
        .validate(validation::network_policy),
    kind(NETWORKING, "ServiceCIDR")
        .status(StatusOnly, empty)
        .columns(&columns::SERVICE_CIDR)
        .validate(validation::service_cidr)
        .validate_update(validation::service_cidr_update),
    kind(NETWORKING, "IPAddress")
        .name(names::ip_address)
        .columns(&columns::IP_ADDRESS)
        .validate(validation::ip_address)
        .validate_update(validation::ip_address_update),
    // Storage.
    kind(CORE, "PersistentVolume")
        .defaults(defaults::persistent_volume)
        .status(WithMetadata, || json!({"phase": "Pending"}))
        .columns(&columns::PERSISTENT_VOLUME)
        .validate(validation::volume)
        .validate_update(validation::volume_update),
    kind(CORE, "PersistentVolumeClaim")
        .defaults(defaults::claim)
        .status(WithMetadata, || json!({"phase": "Pending"}))
        .on_create(prepare::claim_data_source)
        .on_update(prepare::claim_data_source_kept)
        .columns(&columns::PERSISTENT_VOLUME_CLAIM)
        .validate(validation::claim)
        .validate_update(validation::claim_update)
        .validate_status(validation::claim_status_update),
    kind(STORAGE, "StorageClass")
        .defaults(defaults::storage_class)
        .columns(&columns::STORAGE_CLASS)
        .validate(validation::storage_class)
        .validate_update(validation::storage_class_update),
    kind(STORAGE, "VolumeAttributesClass")
        .columns(&columns::VOLUME_ATTRIBUTES_CLASS)
        .validate(validation::volume_attributes_class)
        .validate_update(validation::volume_attributes_class_update),
    kind(STORAGE, "VolumeAttachment")
        .status(StatusOnly, || json!({"attached": false}))
        .columns(&columns::VOLUME_ATTACHMENT)
        .validate(validation::volume_attachment)
        .validate_update(validation::volume_attachment_update),
    kind(STORAGE, "CSINode").columns(&columns::CSI_NODE).validate(validation::csi_node),
    kind(STORAGE, "CSIDriver")
        .defaults(defaults::csi_driver)
        .columns(&columns::CSI_DRIVER)
        .validate(validation::csi_driver)
        .validate_update(validation::csi_driver_update),
    kind(STORAGE, "CSIStorageCapacity")
        .columns(&columns::CREATED)
        .validate(validation::csi_storage_capacity)
        .validate_update(validation::csi_storage_capacity_update),
    // Nodes and how pods are placed on them.
    kind(CORE, "Node")
        .defaults(defaults::node)
        .status(WithMetadata, empty)
        .status_from_client()
        .selectable(selectable::NODE)
        .columns(&columns::NODE)
        .validate(validation::node)
        .validate_update(validation::node_update),
    kind(CORE, "ComponentStatus").columns(&columns::COMPONENT_STATUS).warnings(warnings::of_component_status),
    kind("node.k8s.io", "RuntimeClass")
        .columns(&columns::RUNTIME_CLASS)
        .validate(validation::runtime_class)
        .validate_update(validation::runtime_class_update),
    kind("scheduling.k8s.io", "PriorityClass")
        .defaults(defaults::priority_class)
        .generation(Once)
        .columns(&columns::PRIORITY_CLASS)
        .validate(validation::priority_class)
        .validate_update(validation::priority_class_update),
    kind(RESOURCE, "DeviceClass").generation(Body),
    kind(RESOURCE, "ResourceClaim")
        .defaults(defaults::resource_claim)
        .status(StatusOnly, empty)
        .columns(&columns::RESOURCE_CLAIM)
        .validate(validation::resource_claim)
        .validate_update(validation::resource_claim_update),
    kind(RESOURCE, "ResourceClaimTemplate")
        .defaults(defaults::resource_claim_template)
        .validate(validation::resource_claim_template)
        .validate_update(validation::resource_claim_update),
    kind(RESOURCE, "ResourceSlice")
        .generation(Body)
        .selectable(selectable::RESOURCE_SLICE)
        .columns(&columns::RESOURCE_SLICE)
        .validate(validation::resource_slice)
        .validate_update(validation::resource_slice_update),
    // Who may do what.
    kind(RBAC, "Role").name(names::path_segment).columns(&columns::CREATED).validate(validation::role),
    kind(RBAC, "ClusterRole")
        .name(names::path_segment)
        .columns(&columns::CREATED)
        .validate(validation::cluster_role),
    kind(RBAC, "RoleBinding")
        .defaults(defaults::binding)
        .name(names::path_segment)
        .columns(&columns::BINDING)
        .validate(validation::role_binding)
        .validate_update(validation::binding_update),
    kind(RBAC, "ClusterRoleBinding")
        .defaults(defaults::binding)
        .name(names::path_segment)
        .columns(&columns::BINDING)
        .validate(validation::cluster_role_binding)
        .validate_update(validation::binding_update),
    kind(CERTIFICATES, "CertificateSigningRequest")
        .name(names::anything)
        .status(WithMetadata, empty)
        .on_create(prepare::new_signing_request)
        .on_update(prepare::signing_request_fixed)
        .on_status(prepare::signing_request_status)
        .selectable(selectable::SIGNER)
        .columns(&columns::CERTIFICATE_SIGNING_REQUEST)
        .validate(validation::signing_request)
        .validate_status(validation::signing_request_status_update)
        .validate_parts(&[("approval", validation::signing_request_approval)]),
    // How the API itself behaves.
    kind(ADMISSION, "MutatingWebhookConfiguration")
        .defaults(defaults::mutating_webhooks)
        .generation(Body)
        .columns(&columns::WEBHOOK_CONFIGURATION)
        .validate(validation::mutating_webhooks),
    kind(ADMISSION, "ValidatingWebhookConfiguration")
        .defaults(defaults::validating_webhooks)
        .generation(Body)
        .columns(&columns::WEBHOOK_CONFIGURATION)
        .validate(validation::validating_webhooks),
    kind(ADMISSION, "ValidatingAdmissionPolicy")
        .defaults(defaults::admission_policy)
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::VALIDATING_ADMISSION_POLICY)
        .validate(validation::validating_policy),
    kind(ADMISSION, "ValidatingAdmissionPolicyBinding")
        .defaults(defaults::admission_policy_binding)
        .generation(Body)
        .columns(&columns::ADMISSION_POLICY_BINDING)
        .validate(validation::validating_policy_binding),
    kind(ADMISSION, "MutatingAdmissionPolicy")
        .defaults(defaults::admission_policy)
        .generation(Body)
        .columns(&columns::MUTATING_ADMISSION_POLICY)
        .validate(validation::mutating_policy),
    kind(ADMISSION, "MutatingAdmissionPolicyBinding")
        .defaults(defaults::admission_policy_binding)
        .generation(Body)
        .columns(&columns::ADMISSION_POLICY_BINDING)
        .validate(validation::mutating_policy_binding),
    kind(FLOW, "FlowSchema")
        .defaults(defaults::flow_schema)
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::FLOW_SCHEMA)
        .validate(validation::flow_schema),
    kind(FLOW, "PriorityLevelConfiguration")
        .defaults(defaults::priority_level)
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::PRIORITY_LEVEL)
        .validate(validation::priority_level),
    kind("apiextensions.k8s.io", "CustomResourceDefinition")
        .generation(Body)
        .status(StatusOnly, empty)
        .columns(&columns::CREATED),
    kind("apiregistration.k8s.io", "APIService")
        .name(names::path_segment)
        .status(WithMetadata, empty)
        .columns(&columns::API_SERVICE)
        .validate(validation::api_service),
];
