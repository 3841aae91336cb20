//! Volumes, claims, classes and the drivers behind them.

use objects::{Value, meta};

use super::shown::{int_or_text, joined};
use super::{AGE, Cell, Column, NAME, count, flag, made, name_or_default, named, shown, text, text_or};
use crate::dotted::Dotted;

pub(crate) static PERSISTENT_VOLUME: [Column; 11] = [
    NAME,
    shown("Capacity", |o| storage_of(o.at("spec.capacity"))),
    shown("Access Modes", |o| access_modes(&o.texts("spec.accessModes"))),
    text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
    shown("Status", phase),
    shown("Claim", |o| match o.at("spec.claimRef") {
        Value::Null => String::new(),
        claim => format!("{}/{}", claim.text("namespace"), claim.text("name")),
    }),
    shown("StorageClass", class),
    text_or("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
    text("Reason", "status.reason"),
    AGE,
    text_or("VolumeMode", "spec.volumeMode", "<unset>").wide(),
];

pub(crate) static PERSISTENT_VOLUME_CLAIM: [Column; 9] = [
    NAME,
    shown("Status", phase),
    text("Volume", "spec.volumeName"),
    shown("Capacity", |o| if_bound(o, || storage_of(o.at("status.capacity")))),
    shown("Access Modes", |o| if_bound(o, || access_modes(&o.texts("status.accessModes")))),
    shown("StorageClass", class),
    text_or("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
    AGE,
    text_or("VolumeMode", "spec.volumeMode", "<unset>").wide(),
];

/// A claim has a size and modes once it has a volume.
fn if_bound(claim: &Value, read: impl FnOnce() -> String) -> String {
    if claim.text("spec.volumeName").is_empty() { String::new() } else { read() }
}

fn phase(object: &Value) -> String {
    if meta::is_deleting(object) { "Terminating" } else { object.text("status.phase") }.to_owned()
}

fn storage_of(resources: &Value) -> String {
    match resources.at("storage") {
        Value::Null => "0".to_owned(),
        quantity => int_or_text(quantity),
    }
}

/// The class is a field now; the annotation of old still wins.
fn class(object: &Value) -> String {
    let annotated = meta::annotation(object, "volume.beta.kubernetes.io/storage-class");
    annotated.unwrap_or_else(|| object.text("spec.storageClassName")).to_owned()
}

fn access_modes(modes: &[&str]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let known = SHORT.iter().filter(|(mode, _)| modes.contains(mode)).map(|(_, short)| *short);
    known.collect::<Vec<_>>().join(",")
}

pub(crate) static STORAGE_CLASS: [Column; 6] = [
    named(
        "Name",
        Cell::Shown(|o| {
            name_or_default(
                o,
                &[
                    "storageclass.kubernetes.io/is-default-class",
                    "storageclass.beta.kubernetes.io/is-default-class",
                ],
            )
        }),
    ),
    text("Provisioner", "provisioner"),
    text_or("ReclaimPolicy", "reclaimPolicy", "Delete"),
    text_or("VolumeBindingMode", "volumeBindingMode", "Immediate"),
    flag("AllowVolumeExpansion", "allowVolumeExpansion").announced("string"),
    AGE,
];

pub(crate) static VOLUME_ATTRIBUTES_CLASS: [Column; 3] = [NAME, text("DriverName", "driverName"), AGE];

pub(crate) static VOLUME_ATTACHMENT: [Column; 6] = [
    NAME,
    named("Attacher", Cell::Text("spec.attacher", "")),
    text("PV", "spec.source.persistentVolumeName"),
    text("Node", "spec.nodeName"),
    flag("Attached", "status.attached"),
    AGE,
];

pub(crate) static CSI_NODE: [Column; 3] = [NAME, count("Drivers", "spec.drivers"), AGE];

pub(crate) static CSI_DRIVER: [Column; 8] = [
    NAME,
    made("AttachRequired", "boolean", |o| o.at("spec.attachRequired").as_bool().unwrap_or(true).into()),
    flag("PodInfoOnMount", "spec.podInfoOnMount"),
    flag("StorageCapacity", "spec.storageCapacity"),
    shown("TokenRequests", |o| {
        let audiences: Vec<&str> =
            o.list("spec.tokenRequests").iter().map(|token| token.text("audience")).collect();
        joined(&audiences, "<unset>")
    }),
    flag("RequiresRepublish", "spec.requiresRepublish"),
    shown("Modes", |o| joined(&o.texts("spec.volumeLifecycleModes"), "<none>")),
    AGE,
];
