//! Volumes of a pod and the files in them.

use objects::{Value, names};

use super::Place;
use super::selectors::label_selector;
use crate::dotted::Dotted;

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The kinds of volume there are, and what each cannot do without.
const SOURCES: [(&str, &[&str]); 30] = [
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &[]),
    ("flocker", &[]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("flexVolume", &["driver"]),
    ("vsphereVolume", &["volumePath"]),
    ("quobyte", &["volume"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("projected", &[]),
    ("storageos", &["volumeName"]),
    ("csi", &["driver"]),
    ("ephemeral", &[]),
    ("image", &[]),
];

/// The names that containers may mount: those of volumes with nothing wrong.
pub(super) fn volumes<'a>(spec: &Place<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for volume in spec.items("volumes") {
        let name = volume.value.text("name");
        let before = volume.said();
        source(&volume);
        volume.need_shape("name", names::dns1123_label);
        if names.contains(&name) {
            volume.duplicate("name");
        }
        if volume.said() == before {
            names.push(name);
        }
    }
    names
}

fn source(volume: &Place<'_>) {
    let mut found = SOURCES.iter().filter(|(kind, _)| volume.has(kind));
    let Some((kind, needed)) = found.next() else {
        return volume.required("", "must specify a volume type");
    };
    for (more, _) in found {
        volume.forbidden(more, "may not specify more than 1 volume type");
    }
    let source = volume.at(kind);
    for field in *needed {
        source.need(field);
    }
    match *kind {
        "emptyDir" => empty_dir(&source),
        "hostPath" => host_path(&source),
        "secret" | "configMap" => {
            file_mode(&source, "defaultMode");
            source.items("items").for_each(|item| key_to_path(&item));
        }
        "downwardAPI" => {
            file_mode(&source, "defaultMode");
            source.items("items").for_each(|item| downward_file(&item));
        }
        "nfs" => absolute_path(&source.at("path")),
        "projected" => projected(&source),
        "ephemeral" if !source.has("volumeClaimTemplate") => source.required("volumeClaimTemplate", ""),
        "ephemeral" => super::claim_spec(&source.at("volumeClaimTemplate.spec")),
        "image" => {
            source.need("reference");
            source.choice_if("pullPolicy", &["Always", "IfNotPresent", "Never"]);
        }
        _ => {}
    }
}

fn empty_dir(source: &Place<'_>) {
    if source.has("sizeLimit") && source.quantity("sizeLimit").is_some_and(|limit| limit.sign() < 0) {
        source.forbidden("sizeLimit", "SizeLimit field must be a valid resource quantity");
    }
}

pub(super) fn host_path(source: &Place<'_>) {
    no_backsteps(&source.at("path"));
    source.choice_if("type", &HOST_PATH_TYPES);
}

fn projected(source: &Place<'_>) {
    const KINDS: [&str; 6] =
        ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    file_mode(source, "defaultMode");
    let mut paths: Vec<&str> = Vec::new();
    for part in source.items("sources") {
        if KINDS.iter().filter(|kind| part.has(kind)).count() > 1 {
            part.forbidden("", "may not specify more than 1 volume type per source");
        }
        for kind in ["secret", "configMap"] {
            let files = part.at(kind);
            if !files.is_null() {
                files.need("name");
                files.items("items").for_each(|item| key_to_path(&item));
            }
        }
        part.items("downwardAPI.items").for_each(|item| downward_file(&item));
        let token = part.at("serviceAccountToken");
        if !token.is_null() {
            token_projection(source, &token);
        }
        let bundle = part.at("clusterTrustBundle");
        if !bundle.is_null() {
            bundle.need("path");
            label_selector(&bundle.at("labelSelector"));
        }
        let files = ["secret", "configMap", "downwardAPI"]
            .into_iter()
            .flat_map(|kind| part.value.at(kind).list("items"));
        for path in files.map(|item| item.text("path")).filter(|path| !path.is_empty()) {
            if paths.contains(&path) {
                source.invalid_as("", path, "conflicting duplicate paths");
            }
            paths.push(path);
        }
    }
}

fn token_projection(volume: &Place<'_>, token: &Place<'_>) {
    match token.int("expirationSeconds") {
        None => token.required("expirationSeconds", ""),
        Some(seconds) if seconds < 600 => {
            token.invalid("expirationSeconds", "may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > 1 << 32 => {
            token.invalid("expirationSeconds", "may not specify a duration larger than 2^32 seconds");
        }
        Some(_) => {}
    }
    let path = token.at("path").called(volume.path_to("path"));
    if path.need("") {
        local_path(&path);
    }
}

fn key_to_path(item: &Place<'_>) {
    item.need("key");
    item.need("path");
    local_path(&item.at("path"));
    file_mode(item, "mode");
}

fn downward_file(file: &Place<'_>) {
    file.need("path");
    local_path(&file.at("path"));
    match (file.has("fieldRef"), file.has("resourceFieldRef")) {
        (true, true) => {
            file.invalid_as(
                "",
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
        (true, false) => field_ref(
            &file.at("fieldRef"),
            &[
                "metadata.name",
                "metadata.namespace",
                "metadata.labels",
                "metadata.annotations",
                "metadata.uid",
            ],
        ),
        (false, true) => resource_field_ref(&file.at("resourceFieldRef"), true),
        (false, false) => file.required("", "one of fieldRef and resourceFieldRef is required"),
    }
    file_mode(file, "mode");
}

/// A field of the pod itself, by one of the paths that are offered, or a label or annotation by its key.
pub(super) fn field_ref(reference: &Place<'_>, offered: &[&str]) {
    if !reference.need("apiVersion") || !reference.need("fieldPath") {
        return;
    }
    let path = reference.text("fieldPath");
    let subscript = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    match subscript {
        Some(("metadata.annotations" | "metadata.labels", key)) => {
            for sentence in names::qualified_name(&key.to_lowercase()) {
                reference.invalid_as("", key, sentence);
            }
        }
        Some((of, _)) => reference.invalid_as("", of, "does not support subscript"),
        None if !offered.contains(&path) => reference.unsupported("fieldPath", offered),
        None => {}
    }
}

/// A request or limit of a container.
pub(super) fn resource_field_ref(reference: &Place<'_>, names_container: bool) {
    const OFFERED: [&str; 6] = [
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
    ];
    if names_container && reference.text("containerName").is_empty() {
        return reference.required("containerName", "");
    }
    let resource = reference.text("resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if resource.is_empty() {
        reference.required("resource", "");
    } else if !OFFERED.contains(&resource) && !huge {
        reference.unsupported("resource", &OFFERED);
    }
    let divisor = match reference.value.at("divisor") {
        Value::Null => return,
        _ => reference.quantity("divisor"),
    };
    let Some(divisor) = divisor.filter(|divisor| !divisor.is_zero()).map(|divisor| divisor.to_string())
    else {
        return;
    };
    let of_cpu = resource.ends_with(".cpu");
    let of_bytes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let fits =
        if of_cpu { ["1m", "1"].contains(&divisor.as_str()) } else { of_bytes.contains(&divisor.as_str()) };
    if !fits && of_cpu {
        reference.invalid_as(
            "divisor",
            resource,
            "only divisor's values 1m and 1 are supported with the cpu resource",
        );
    } else if !fits {
        let what = if resource.ends_with(".memory") { "memory" } else { "local ephemeral storage" };
        let detail =
            format!("only divisor's values {} are supported with the {what} resource", of_bytes.join(", "));
        reference.invalid_as("divisor", resource, detail);
    }
}

pub(super) fn file_mode(holder: &Place<'_>, path: &str) {
    if holder.int(path).is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        holder.invalid(path, FILE_MODE);
    }
}

pub(super) fn absolute_path(path: &Place<'_>) {
    if !path.text("").starts_with('/') {
        path.invalid("", "must be an absolute path");
    }
}

pub(super) fn no_backsteps(path: &Place<'_>) {
    if path.text("").split('/').any(|step| step == "..") {
        path.invalid("", "must not contain '..'");
    }
}

/// A path below a directory.
pub(super) fn local_descending_path(path: &Place<'_>) {
    if path.text("").starts_with('/') {
        path.invalid("", "must be a relative path");
    }
    no_backsteps(path);
}

/// The same, and no name that the kubelet keeps for itself.
pub(super) fn local_path(path: &Place<'_>) {
    local_descending_path(path);
    let text = path.text("");
    if text.starts_with("..") && !text.starts_with("../") && text != ".." {
        path.invalid("", "must not start with '..'");
    }
}
