//! Volumes, claims, classes, drivers.

use objects::Value;
use serde_json::json;

use super::pods::volume_source;
use super::{absent, empty, within};
use crate::dotted::Dotted;
use crate::resources;

pub(crate) fn persistent_volume(volume: &mut Value) {
    absent(
        volume,
        [
            ("status.phase", json!("Pending")),
            ("spec.persistentVolumeReclaimPolicy", json!("Retain")),
            ("spec.volumeMode", json!("Filesystem")),
        ],
    );
    within(volume, "spec", volume_source);
    resources::canonical(volume, &["spec.capacity"]);
}

pub(crate) fn claim(claim: &mut Value) {
    claim.default("status.phase", "Pending");
    empty(claim, &["spec"]);
    within(claim, "spec", claim_spec);
    resources::canonical(claim, &["status.capacity", "status.allocatedResources"]);
}

pub(super) fn claim_spec(spec: &mut Value) {
    empty(spec, &["resources"]);
    spec.default("volumeMode", "Filesystem");
    resources::canonical(spec, &["resources.limits", "resources.requests"]);
}

pub(crate) fn storage_class(class: &mut Value) {
    absent(class, [("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))]);
}

pub(crate) fn csi_driver(driver: &mut Value) {
    absent(
        driver,
        [
            ("spec.attachRequired", json!(true)),
            ("spec.podInfoOnMount", json!(false)),
            ("spec.storageCapacity", json!(false)),
            ("spec.fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
            ("spec.requiresRepublish", json!(false)),
            ("spec.seLinuxMount", json!(false)),
        ],
    );
    if driver.count("spec.volumeLifecycleModes") == 0 {
        driver.put("spec.volumeLifecycleModes", json!(["Persistent"]));
    }
}
