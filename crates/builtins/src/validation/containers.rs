//! Containers of every sort: main, init and ephemeral.

use objects::{Value, names};

use super::volumes::{field_ref, local_descending_path, no_backsteps, resource_field_ref};
use super::{Place, security};
use crate::dotted::Dotted;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// What containers may refer to, and what they take from their pod.
pub(super) struct Surroundings<'a> {
    pub volumes: Vec<&'a str>,
    pub claims: Vec<&'a str>,
    pub grace: Option<i64>,
    pub host_users: bool,
    pub restart_policy: &'a str,
}

pub(super) fn all(spec: &Place<'_>, around: &Surroundings<'_>) {
    if spec.count("containers") == 0 {
        spec.required("containers", "");
    }
    let mut taken: Vec<&str> = Vec::new();
    for container in spec.items("containers") {
        common(&container, around);
        unique_name(&container, &mut taken);
        lifecycle_and_probes(&container, around);
        if container.has("restartPolicy") {
            container.choice_if("restartPolicy", &RESTART_POLICIES);
        }
    }
    host_ports(spec.items("containers"));
    for container in spec.items("initContainers") {
        common(&container, around);
        unique_name(&container, &mut taken);
        container.choice_if("restartPolicy", &RESTART_POLICIES);
        if container.text("restartPolicy") == "Always" {
            lifecycle_and_probes(&container, around);
        } else {
            for field in ["lifecycle"].iter().chain(&PROBES).filter(|field| container.has(field)) {
                container.forbidden(field, "may not be set for init containers without restartPolicy=Always");
            }
        }
    }
    ephemeral(spec, around, &mut taken);
}

fn ephemeral<'a>(spec: &Place<'a>, around: &Surroundings<'_>, taken: &mut Vec<&'a str>) {
    const NOT_HERE: [&str; 7] = [
        "ports",
        "resources",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resizePolicy",
    ];
    let lasting = taken.clone();
    for container in spec.items("ephemeralContainers") {
        common(&container, around);
        unique_name(&container, taken);
        let target = container.text("targetContainerName");
        if !target.is_empty() && !lasting.contains(&target) {
            container.not_found("targetContainerName");
        }
        // An empty `resources` is what every container has.
        for field in
            NOT_HERE.iter().filter(|field| container.has(field) && !is_empty(container.value.at(field)))
        {
            container.forbidden(field, "cannot be set for an Ephemeral Container");
        }
        for mount in container.items("volumeMounts") {
            for field in ["subPath", "subPathExpr"].iter().filter(|field| !mount.text(field).is_empty()) {
                mount.forbidden(field, "cannot be set for an Ephemeral Container");
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.is_empty())
        || value.as_array().is_some_and(|items| items.is_empty())
}

/// Names must be unique over all sorts of containers; what is nameless is reported elsewhere.
fn unique_name<'a>(container: &Place<'a>, taken: &mut Vec<&'a str>) {
    let name = container.value.text("name");
    if taken.contains(&name) {
        container.duplicate("name");
    } else if !name.is_empty() {
        taken.push(name);
    }
}

/// What holds for every container.
fn common(container: &Place<'_>, around: &Surroundings<'_>) {
    container.need_shape("name", names::dns1123_label);
    container.need("image");
    container.choice("terminationMessagePolicy", &["File", "FallbackToLogsOnError"]);
    ports(container);
    container.items("env").for_each(|variable| environment(&variable));
    container.items("envFrom").for_each(|source| environment_from(container, &source));
    mounts(container, around);
    devices(container, around);
    container.choice("imagePullPolicy", &PULL_POLICIES);
    super::pods::resource_requirements(&container.at("resources"), &around.claims);
    resize_policies(container, around);
    security::of_container(&container.at("securityContext"), around.host_users);
}

fn ports(container: &Place<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for port in container.items("ports") {
        let name = port.value.text("name");
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if !wrong.is_empty() {
                port.shape("name", names::port_name);
            } else if seen.contains(&name) {
                port.duplicate("name");
            } else {
                seen.push(name);
            }
        }
        if port.number("containerPort") == 0 {
            port.required("containerPort", "");
        } else {
            port.port("containerPort");
        }
        if port.number("hostPort") != 0 {
            port.port("hostPort");
        }
        port.choice("protocol", &PROTOCOLS);
    }
}

/// A port of the host can be had once per protocol and address.
fn host_ports<'a>(containers: impl Iterator<Item = Place<'a>>) {
    let mut taken: Vec<String> = Vec::new();
    for port in containers.flat_map(|container| container.items("ports").collect::<Vec<_>>()) {
        let number = port.number("hostPort");
        if number == 0 {
            continue;
        }
        let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
        if taken.contains(&key) {
            port.report(objects::field::Error::duplicate(&port.path_to("hostPort"), key.as_str()));
        }
        taken.push(key);
    }
}

fn environment(variable: &Place<'_>) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    variable.need_shape("name", names::env_var_name);
    let source = variable.at("valueFrom");
    if source.is_null() {
        return;
    }
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let found = kinds.iter().filter(|kind| source.has(kind)).count();
    if source.has("fieldRef") {
        field_ref(&source.at("fieldRef"), &FIELDS);
    }
    if source.has("resourceFieldRef") {
        resource_field_ref(&source.at("resourceFieldRef"), false);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let key = source.at(kind);
        if !key.is_null() {
            key.shape("name", names::dns1123_subdomain);
            key.need_shape("key", names::config_map_key);
        }
    }
    let file = source.at("fileKeyRef");
    if !file.is_null() {
        file.need_shape("key", names::env_var_name);
        file.need_shape("volumeName", names::dns1123_label);
        if file.need("path") {
            no_backsteps(&file.at("path"));
        }
    }
    if found == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        source.invalid_as("", "", detail);
    } else if !variable.text("value").is_empty() {
        source.invalid_as("", "", "may not be specified when `value` is not empty");
    } else if found > 1 {
        source.invalid_as("", "", "may not have more than one field specified at a time");
    }
}

fn environment_from(container: &Place<'_>, source: &Place<'_>) {
    source.shape_if("prefix", names::env_var_name);
    let kinds = ["configMapRef", "secretRef"];
    for kind in kinds.iter().filter(|kind| source.has(kind)) {
        source.at(kind).need_shape("name", names::dns1123_subdomain);
    }
    match kinds.iter().filter(|kind| source.has(kind)).count() {
        0 => container.invalid_as("envFrom", "", "must specify one of: `configMapRef` or `secretRef`"),
        1 => {}
        _ => container.invalid_as("envFrom", "", "may not have more than one field specified at a time"),
    }
}

fn mounts(container: &Place<'_>, around: &Surroundings<'_>) {
    let devices = container.list("volumeDevices");
    let mut paths: Vec<&str> = Vec::new();
    for mount in container.items("volumeMounts") {
        let (name, path) = (mount.value.text("name"), mount.value.text("mountPath"));
        mount.need("name");
        if !around.volumes.contains(&name) {
            mount.not_found("name");
        }
        mount.need("mountPath");
        if paths.contains(&path) {
            mount.invalid("mountPath", "must be unique");
        }
        paths.push(path);
        if devices.iter().any(|device| device.text("name") == name) {
            mount.invalid("name", "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.text("devicePath") == path) {
            mount.invalid("mountPath", "must not already exist as a path in volumeDevices");
        }
        if !mount.text("subPath").is_empty() && !mount.text("subPathExpr").is_empty() {
            mount.invalid("subPathExpr", "subPathExpr and subPath are mutually exclusive");
        }
        for field in ["subPath", "subPathExpr"] {
            let within = mount.at(field).called(container.path_to("volumeMounts").child(field));
            local_descending_path(&within);
        }
        mount.choice_if("mountPropagation", &["Bidirectional", "HostToContainer", "None"]);
        mount.choice_if("recursiveReadOnly", &["Disabled", "Enabled", "IfPossible"]);
    }
}

fn devices(container: &Place<'_>, around: &Surroundings<'_>) {
    let (mut names_seen, mut paths): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for device in container.items("volumeDevices") {
        let (name, path) = (device.value.text("name"), device.value.text("devicePath"));
        device.need("name");
        if names_seen.contains(&name) {
            device.invalid("name", "must be unique");
        }
        if !name.is_empty() && !around.volumes.contains(&name) {
            device.not_found("name");
        }
        if device.need("devicePath") {
            no_backsteps(&device.at("devicePath"));
        }
        if paths.contains(&path) {
            device.invalid("devicePath", "must be unique");
        }
        names_seen.push(name);
        paths.push(path);
    }
}

fn resize_policies(container: &Place<'_>, around: &Surroundings<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for policy in container.items("resizePolicy") {
        let resource = policy.value.text("resourceName");
        if seen.contains(&resource) {
            policy.report(objects::field::Error::duplicate(&policy.path_to(""), resource));
        }
        seen.push(resource);
        let list = policy.called(container.path_to("resizePolicy"));
        if !["cpu", "memory"].contains(&resource) {
            list.report(objects::field::Error::not_supported(
                &list.path_to(""),
                resource,
                &["cpu", "memory"],
            ));
        }
        let restart = policy.text("restartPolicy");
        if !["NotRequired", "RestartContainer"].contains(&restart) {
            let supported = ["NotRequired", "RestartContainer"];
            list.report(objects::field::Error::not_supported(&list.path_to(""), restart, &supported));
        } else if around.restart_policy == "Never" && restart != "NotRequired" {
            list.invalid_as("", restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn lifecycle_and_probes(container: &Place<'_>, around: &Surroundings<'_>) {
    for moment in ["lifecycle.postStart", "lifecycle.preStop"] {
        if container.has(moment) {
            handler(&container.at(moment), &["exec", "httpGet", "tcpSocket", "sleep"], around.grace);
        }
    }
    for kind in PROBES.iter().filter(|kind| container.has(kind)) {
        let probe = container.at(kind);
        handler(&probe, &["exec", "httpGet", "tcpSocket", "grpc"], around.grace);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            probe.not_negative(field);
        }
        if probe.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds <= 0) {
            probe.invalid("terminationGracePeriodSeconds", "must be greater than 0");
        }
        if *kind == "readinessProbe" {
            if probe.has("terminationGracePeriodSeconds") {
                probe.invalid("terminationGracePeriodSeconds", "must not be set for readinessProbes");
            }
        } else if probe.number("successThreshold") != 1 {
            probe.invalid_as("successThreshold", probe.number("successThreshold"), "must be 1");
        }
    }
}

fn handler(holder: &Place<'_>, kinds: &[&str], grace: Option<i64>) {
    let mut found = kinds.iter().filter(|kind| holder.has(kind));
    let Some(kind) = found.next() else {
        return holder.required("", "must specify a handler type");
    };
    for more in found {
        holder.forbidden(more, "may not specify more than 1 handler type");
    }
    let action = holder.at(kind);
    match *kind {
        "exec" if action.count("command") == 0 => action.required("command", ""),
        "httpGet" => {
            action.need("path");
            action.port_or_name("port");
            if !["HTTP", "HTTPS"].contains(&action.text("scheme")) {
                action.unsupported("scheme", &["HTTP", "HTTPS"]);
            }
            for header in action.list("httpHeaders") {
                for sentence in names::http_header_name(header.text("name")) {
                    action.invalid_as("httpHeaders", header.text("name"), sentence);
                }
            }
        }
        "tcpSocket" => action.port_or_name("port"),
        "grpc" => action.port("port"),
        "sleep" => {
            let seconds = action.number("seconds");
            if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                action.invalid_as("", seconds, detail);
            }
        }
        _ => {}
    }
}
