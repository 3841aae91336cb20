//! `kube-public/cluster-info` inside of a control plane: where it is reached from outside, for agents that are to join it.
//!
//! KubeFlex has a Job (`update-cluster-info`) that writes it; here the operator has done it when the Job is complete.

use objects::{Value, meta};
use runtime::Error;
use serde_json::json;

use crate::api::{self, Place};
use crate::host::Doors;
use crate::kubeconfig::Entry;
use crate::names;

const GENERATED: &str = "kubestellar.io/generated";

/// Puts it there, or in the place of one that says something else. It cannot be changed, so it is made anew.
pub async fn ensure(client: &kube::Client, doors: &Doors, authority: &str) -> Result<(), Error> {
    let place = Place::new("v1", "configmaps", "kube-public", "cluster-info");
    let wanted = config_map(doors, authority);
    if let Some(live) = api::get(client, &place).await? {
        if live["data"]["kubeconfig"] == wanted["data"]["kubeconfig"] {
            return Ok(());
        }
        api::delete(client, &place, Some(meta::uid(&live))).await?;
    }
    api::apply(client, &place, &wanted, names::MANAGER, true).await.map(drop)
}

fn config_map(doors: &Doors, authority: &str) -> Value {
    let (server, server_name) = (doors.off_cluster.as_str(), doors.server_name.as_deref());
    let entry = Entry { cluster: "", user: "", context: "", server, server_name, authority };
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {
            "name": "cluster-info", "namespace": "kube-public", "annotations": {GENERATED: "true"},
        },
        "data": {"kubeconfig": entry.write_public()},
    })
}
