//! Volumes, claims and classes.

use objects::field::Error;
use objects::quantity::Quantity;
use objects::{ErrorList, Value, names};

use super::selectors::{label_selector, node_selector};
use super::{Place, checked, volumes};
use crate::behaviour::same;
use crate::dotted::Dotted;
use crate::resources::amount;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

fn access_modes(spec: &Place<'_>) {
    let modes = spec.texts("accessModes");
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        spec.report(Error::not_supported(&spec.path_to("accessModes"), *mode, &ACCESS_MODES));
    }
    if modes.contains(&"ReadWriteOncePod") && modes.len() > 1 {
        spec.forbidden("accessModes", "may not use ReadWriteOncePod with other access modes");
    }
}

pub(crate) fn claim(claim: &Value) -> ErrorList {
    checked(claim, |claim| claim_spec(&claim.at("spec")))
}

pub(super) fn claim_spec(spec: &Place<'_>) {
    if spec.count("accessModes") == 0 {
        spec.required("accessModes", "at least 1 access mode is required");
    }
    label_selector(&spec.at("selector"));
    access_modes(spec);
    let size = spec.at("resources.requests.storage").called(spec.path_to("resources").key("storage"));
    if size.is_null() {
        size.required("", "");
    } else if size.quantity("").is_some_and(|quantity| quantity.sign() <= 0) {
        size.invalid("", "must be greater than zero");
    }
    spec.shape_if("storageClassName", names::dns1123_subdomain);
    spec.choice_if("volumeMode", &VOLUME_MODES);
    for source in ["dataSource", "dataSourceRef"] {
        data_source(&spec.at(source));
    }
    spec.shape_if("volumeAttributesClassName", names::dns1123_subdomain);
}

fn data_source(source: &Place<'_>) {
    if source.is_null() {
        return;
    }
    source.need("name");
    source.need("kind");
    if source.text("apiGroup").is_empty()
        && source.text("kind") != "PersistentVolumeClaim"
        && !source.text("kind").is_empty()
    {
        source.invalid_as(
            "",
            source.text("kind"),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    }
    source.shape_if("apiGroup", names::dns1123_subdomain);
    source.shape_if("namespace", names::dns1123_label);
}

pub(crate) fn claim_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |claim| {
        let (size, before) = (amount_of(new), amount_of(old));
        if !same(&settled(new, old), &bound(new, old)) {
            let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
            claim.forbidden("spec", detail);
        }
        if size < before && size <= amount(old.at("status.capacity"), "storage") {
            claim.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
        } else if size < before && !old.has("status.capacity") {
            claim.forbidden("spec.resources.requests.storage", "field can not be less than previous value");
        }
        if !same(new.at("spec.volumeMode"), old.at("spec.volumeMode")) {
            claim.invalid_as("volumeMode", new.at("spec.volumeMode").clone(), "field is immutable");
        }
    })
}

fn amount_of(claim: &Value) -> Quantity {
    amount(claim.at("spec.resources.requests"), "storage")
}

/// The new spec without what may change of it.
fn settled(new: &Value, old: &Value) -> Value {
    let mut spec = new.at("spec").clone();
    if new.text("status.phase") == "Bound" {
        spec.keep("resources.requests.storage", old.at("spec"));
        spec.keep("volumeAttributesClassName", old.at("spec"));
    }
    if old.text("spec.storageClassName").is_empty() && !old.has("spec.storageClassName") {
        // A default class that came later may be filled in.
        spec.remove("storageClassName");
    }
    spec
}

/// The old spec, bound to the volume that the new one names.
fn bound(new: &Value, old: &Value) -> Value {
    let mut spec = old.at("spec").clone();
    if spec.text("volumeName").is_empty() {
        spec.keep("volumeName", new.at("spec"));
    }
    spec
}

pub(crate) fn claim_status_update(new: &Value, _: &Value) -> ErrorList {
    checked(new, |claim| {
        if claim.count("spec.accessModes") == 0 {
            claim.required("Spec.accessModes", "");
        }
        for (_, amount) in claim.keyed("status.capacity") {
            if amount.quantity("").is_some_and(|quantity| quantity.sign() < 0) {
                amount.invalid("", "must be a valid resource quantity");
            }
        }
    })
}

/// The kinds of volume that outlive a pod.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flocker",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
    "flexVolume",
];

pub(crate) fn volume(volume: &Value) -> ErrorList {
    checked(volume, |volume| {
        let spec = volume.at("spec");
        if spec.count("accessModes") == 0 {
            spec.required("accessModes", "");
        }
        access_modes(&spec);
        if spec.count("capacity") == 0 {
            spec.required("capacity", "");
        }
        if spec.value.at("capacity").get("storage").is_none() || spec.count("capacity") > 1 {
            spec.unsupported("capacity", &["storage"]);
        }
        for (_, amount) in spec.keyed("capacity") {
            if amount.quantity("").is_some_and(|quantity| quantity.sign() <= 0) {
                amount.invalid("", "must be greater than zero");
            }
        }
        spec.choice_if("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]);
        if spec.has("nodeAffinity") {
            match spec.has("nodeAffinity.required") {
                true => node_selector(&spec.at("nodeAffinity.required")),
                false => spec.required("nodeAffinity.required", "must specify required node constraints"),
            }
        }
        volume_source(&spec);
        spec.shape_if("storageClassName", names::dns1123_subdomain);
        spec.choice_if("volumeMode", &VOLUME_MODES);
    })
}

fn volume_source(spec: &Place<'_>) {
    let mut found = SOURCES.iter().filter(|kind| spec.has(kind));
    let Some(kind) = found.next() else {
        return spec.required("", "must specify a volume type");
    };
    for more in found {
        spec.forbidden(more, "may not specify more than 1 volume type");
    }
    let source = spec.at(kind);
    match *kind {
        "hostPath" if source.need("path") => volumes::host_path(&source),
        "local" if source.need("path") => volumes::no_backsteps(&source.at("path")),
        "nfs" => {
            source.need("server");
            if source.need("path") {
                volumes::absolute_path(&source.at("path"));
            }
        }
        "csi" => {
            source.need("driver");
            source.need("volumeHandle");
        }
        _ => {}
    }
    if *kind == "local" && !spec.has("nodeAffinity") {
        spec.required("nodeAffinity", "Local volume requires node affinity");
    }
    let recycled = spec.text("persistentVolumeReclaimPolicy") == "Recycle";
    if *kind == "hostPath" && recycled && source.text("path").trim_end_matches('/').is_empty() {
        spec.forbidden("persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'");
    }
}

pub(crate) fn volume_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |volume| {
        let source = |volume: &Value| {
            let mut source = Value::Null;
            for kind in SOURCES.iter().filter(|kind| volume.at("spec").has(kind)) {
                source.put(kind, volume.at("spec").at(kind).clone());
            }
            source
        };
        if !same(&source(new), &source(old)) {
            let detail = "spec.persistentvolumesource is immutable after creation\n";
            volume.forbidden("spec.persistentvolumesource", detail);
        }
        if !same(new.at("spec.volumeMode"), old.at("spec.volumeMode")) {
            volume.invalid_as("volumeMode", new.at("spec.volumeMode").clone(), "field is immutable");
        }
    })
}

pub(crate) fn storage_class(class: &Value) -> ErrorList {
    checked(class, |class| {
        driver_and_parameters(class, "provisioner");
        class.choice_if("reclaimPolicy", &["Delete", "Retain"]);
        class.choice("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]);
    })
}

/// Who makes the volumes of a class, and what it is told.
fn driver_and_parameters(class: &Place<'_>, driver: &str) {
    const MAX_PARAMETERS: usize = 512;
    const MAX_SIZE: usize = 256 * 1024;
    if class.need(driver) {
        for sentence in names::qualified_name(&class.text(driver).to_lowercase()) {
            class.invalid(driver, sentence);
        }
    }
    if class.count("parameters") > MAX_PARAMETERS {
        class.report(Error::too_long(&class.path_to("Provisioner Parameters"), MAX_PARAMETERS));
    }
    let parameters = class.value.entries("parameters");
    let size: usize = parameters.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_SIZE {
        class.report(Error::too_long(&class.path_to("parameters"), MAX_SIZE));
    }
    for (key, value) in class.keyed("parameters").filter(|(key, _)| key.is_empty()) {
        value.invalid_as("", key, "field can not be empty.");
    }
}

pub(crate) fn storage_class_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |class| {
        fixed(class, old, &["parameters", "provisioner", "reclaimPolicy"]);
        class.immutable(old, &["volumeBindingMode"]);
    })
}

/// A class that changed would be another class under the same name.
fn fixed(class: &Place<'_>, old: &Value, fields: &[&str]) {
    for field in fields.iter().filter(|field| !same(class.value.at(field), old.at(field))) {
        class.forbidden(field, format!("updates to {field} are forbidden."));
    }
}

pub(crate) fn volume_attributes_class(class: &Value) -> ErrorList {
    checked(class, |class| driver_and_parameters(class, "driverName"))
}

pub(crate) fn volume_attributes_class_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |class| fixed(class, old, &["driverName", "parameters"]))
}

pub(crate) fn csi_storage_capacity(capacity: &Value) -> ErrorList {
    checked(capacity, |capacity| {
        label_selector(&capacity.at("nodeTopology"));
        capacity.shape("storageClassName", names::dns1123_subdomain);
        if capacity.has("capacity") {
            capacity.not_negative_quantity("capacity");
        }
    })
}

pub(crate) fn csi_storage_capacity_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |capacity| capacity.immutable(old, &["nodeTopology", "storageClassName"]))
}

pub(crate) fn csi_driver_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |driver| {
        if !same(new.at("spec.attachRequired"), old.at("spec.attachRequired")) {
            let shown = new.at("spec.attachRequired").clone();
            driver.invalid_as("spec.attachedRequired", shown, "field is immutable");
        }
        driver.immutable(old, &["spec.volumeLifecycleModes"]);
    })
}

pub(crate) fn volume_attachment(attachment: &Value) -> ErrorList {
    checked(attachment, |attachment| {
        let spec = attachment.at("spec");
        spec.need("attacher");
        spec.shape_if("nodeName", names::dns1123_subdomain);
        spec.need("nodeName");
        if !spec.has("source.persistentVolumeName") && !spec.has("source.inlineVolumeSpec") {
            spec.required("source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
        }
    })
}

pub(crate) fn volume_attachment_update(new: &Value, old: &Value) -> ErrorList {
    checked(new, |attachment| {
        if !same(new.at("spec"), old.at("spec")) {
            attachment.invalid("spec", "field is immutable");
        }
    })
}

pub(crate) fn csi_driver(driver: &Value) -> ErrorList {
    checked(driver, |driver| {
        let spec = driver.at("spec");
        for required in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
            if !spec.has(required) {
                spec.required(required, "");
            }
        }
        for mode in spec.items("volumeLifecycleModes") {
            mode.choice_if("", &["Ephemeral", "Persistent"]);
        }
        spec.choice_if("fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"]);
    })
}

pub(crate) fn csi_node(node: &Value) -> ErrorList {
    checked(node, |node| {
        super::place::no_repeats(node.items("spec.drivers"), "name");
        for driver in node.items("spec.drivers") {
            driver.need("name");
            driver.need("nodeID");
            driver.not_negative("allocatable.count");
        }
    })
}
