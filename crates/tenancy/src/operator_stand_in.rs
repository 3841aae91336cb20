//! The operator as its users look for it: the Deployment `kubeflex-controller-manager`, which scripts wait for.
//!
//! On the embedded host the operator is this process, so that the Deployment is a stand-in like those of control
//! planes: whoever can read that it is available has proof that it is.

use jiff::Timestamp;
use runtime::Error;
use serde_json::json;

use crate::api::{self, Place};
use crate::types::Workload;
use crate::{furniture, names};

const CONTAINER: &str = "manager";

/// Puts the operator's account and Deployment where KubeFlex has them; any number of times.
pub async fn show(client: &kube::Client, now: Timestamp) -> Result<(), Error> {
    let (namespace, name) = (names::SYSTEM_NAMESPACE, names::OPERATOR_ACCOUNT);
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
    });
    let place = Place::new("v1", "serviceaccounts", namespace, name);
    api::apply(client, &place, &account, names::MANAGER, true).await?;

    let labels = json!({"control-plane": "controller-manager"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels,
            "annotations": {names::STAND_IN: furniture::EXPLAINED},
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": name,
                    "containers": [
                        {"name": CONTAINER, "image": furniture::IMAGE, "imagePullPolicy": "IfNotPresent"},
                    ],
                },
            },
        },
    });
    let place = Place::new("apps/v1", "deployments", namespace, name);
    let live = api::apply(client, &place, &deployment, names::MANAGER, true).await?;
    let status = furniture::workload_status(Workload::Deployment(names::OPERATOR_ACCOUNT), &live, true, now);
    if live.get("status") != Some(&status) {
        api::replace_status(client, &place, &status).await?;
    }
    Ok(())
}
