//! The checks of the levels baseline and restricted, in the order in which violations are listed.
//!
//! Rules of the editions before 1.19, which looked at annotations instead of `seccompProfile`, are not
//! kept: the field is checked in every edition.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Level, Standard, Version};
use crate::pod::{has, text};

/// What is wrong, in a word or two, and where.
type Violation = (String, String);

struct Check {
    level: Level,
    /// The minor version that brought it.
    since: u16,
    /// From this minor version on, the restricted level has a stricter check of its own.
    replaced_in_restricted: Option<u16>,
    run: fn(&Pod<'_>) -> Option<Violation>,
}

const fn baseline(since: u16, run: fn(&Pod<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Baseline, since, replaced_in_restricted: None, run }
}

const fn replaced(restricted_since: u16, run: fn(&Pod<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Baseline, since: 0, replaced_in_restricted: Some(restricted_since), run }
}

const fn restricted(since: u16, run: fn(&Pod<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Restricted, since, replaced_in_restricted: None, run }
}

const CHECKS: [Check; 19] = [
    baseline(0, app_armor),
    replaced(22, added_capabilities),
    baseline(0, host_namespaces),
    replaced(0, host_path_volumes),
    baseline(0, host_ports),
    baseline(34, hosts_of_probes),
    baseline(0, privileged),
    replaced(35, proc_mount_unless_user_namespace),
    baseline(0, se_linux),
    replaced(19, seccomp_type),
    baseline(0, sysctls),
    baseline(0, windows_host_process),
    restricted(8, privilege_escalation),
    restricted(22, dropped_capabilities),
    restricted(35, proc_mount),
    restricted(0, volume_types),
    restricted(0, non_root),
    restricted(23, root_user),
    restricted(19, seccomp_required),
];

/// All that a pod (or a pod template) does that the standard does not allow.
pub(super) fn run(standard: Standard, pod: &Value) -> Vec<Violation> {
    let none = Value::Null;
    let pod = Pod {
        metadata: pod.get("metadata").unwrap_or(&none),
        spec: pod.get("spec").unwrap_or(&none),
        version: standard.version,
    };
    let applies = |check: &&Check| {
        let replaced = standard.level == Level::Restricted
            && check.replaced_in_restricted.is_some_and(|minor| standard.version.is_at_least(minor));
        check.level <= standard.level && standard.version.is_at_least(check.since) && !replaced
    };
    CHECKS.iter().filter(applies).filter_map(|check| (check.run)(&pod)).collect()
}

struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    version: Version,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .filter_map(move |field| spec.get(field)?.as_array())
            .flatten()
    }

    /// Names of the containers for which something holds.
    fn containers_where(&self, holds: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| holds(container))
            .map(|container| text(container, "name"))
            .collect()
    }

    /// From 1.25 on, pods for Windows need not set what only Linux has.
    fn is_for_windows(&self) -> bool {
        self.version.is_at_least(25)
            && self.spec.pointer("/os/name").and_then(Value::as_str) == Some("windows")
    }

    /// From 1.35 on, root in a user namespace of its own is nobody outside.
    fn has_user_namespace(&self) -> bool {
        self.version.is_at_least(35) && self.spec.get("hostUsers") == Some(&Value::Bool(false))
    }

    fn volumes(&self) -> &'a [Value] {
        self.spec.get("volumes").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// A field of the `securityContext` of a container or of a pod's spec.
fn security<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get("securityContext")?.get(field).filter(|value| !value.is_null())
}

fn profile_type<'a>(of: &'a Value, profile: &str) -> Option<&'a str> {
    security(of, profile).map(|profile| text(profile, "type"))
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{item}\"")).collect();
    items.join(", ")
}

/// `container "a"` or `containers "a", "b"`.
fn named(singular: &str, items: &[&str]) -> String {
    let s = if items.len() == 1 { "" } else { "s" };
    format!("{singular}{s} {}", quoted(items.iter().copied()))
}

/// `pod and container "a"`: who set something.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let pod = pod.then(|| "pod".to_owned());
    let containers = (!containers.is_empty()).then(|| named("container", containers));
    let all: Vec<String> = pod.into_iter().chain(containers).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn violation(reason: &str, detail: impl Into<String>) -> Option<Violation> {
    Some((reason.to_owned(), detail.into()))
}

fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let bad = |of: &Value| {
        profile_type(of, "appArmorProfile")
            .filter(|kind| !matches!(*kind, "RuntimeDefault" | "Localhost"))
            .map(str::to_owned)
    };
    let containers = pod.containers_where(|container| bad(container).is_some());
    let values: BTreeSet<String> = pod.containers().chain([pod.spec]).filter_map(bad).collect();
    let annotations = pod.metadata.get("annotations").and_then(Value::as_object).into_iter().flatten();
    let annotations: Vec<String> = annotations
        .filter_map(|(key, value)| {
            let value = value.as_str().filter(|value| {
                key.starts_with(PREFIX)
                    && !value.is_empty()
                    && *value != "runtime/default"
                    && !value.starts_with("localhost/")
            })?;
            Some(format!("{key}={value:?}"))
        })
        .collect();
    let mut who: Vec<String> = setters(bad(pod.spec).is_some(), &containers).into_iter().collect();
    if !annotations.is_empty() {
        who.push(if annotations.len() == 1 { "annotation" } else { "annotations" }.to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let values: Vec<&str> = values.iter().chain(&annotations).map(String::as_str).collect();
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    violation(
        reason,
        format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values)),
    )
}

/// Capabilities that containers have anyway.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Who adds capabilities that are not allowed: `container "a" must not include "X" in ...`.
fn adding(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let bad = |container: &Value| -> Vec<String> {
        let added = strings(security(container, "capabilities").and_then(|all| all.get("add")));
        added.filter(|capability| !allowed.contains(capability)).map(str::to_owned).collect()
    };
    let containers = pod.containers_where(|container| !bad(container).is_empty());
    let capabilities: BTreeSet<String> = pod.containers().flat_map(bad).collect();
    (!containers.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            named("container", &containers),
            quoted(capabilities.iter().map(String::as_str)),
        )
    })
}

fn added_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    violation("non-default capabilities", adding(pod, &DEFAULT_CAPABILITIES)?)
}

fn dropped_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_for_windows() {
        return None;
    }
    let keeping = pod.containers_where(|container| {
        !strings(security(container, "capabilities").and_then(|all| all.get("drop"))).any(|one| one == "ALL")
    });
    let keeping = (!keeping.is_empty()).then(|| {
        format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named("container", &keeping))
    });
    let all: Vec<String> = keeping.into_iter().chain(adding(pod, &["NET_BIND_SERVICE"])).collect();
    if all.is_empty() { None } else { violation("unrestricted capabilities", all.join("; ")) }
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let used = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| pod.spec.get(field) == Some(&Value::Bool(true)));
    let used: Vec<String> = used.map(|field| format!("{field}=true")).collect();
    if used.is_empty() { None } else { violation("host namespaces", used.join(", ")) }
}

fn host_path_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod.volumes().iter().filter(|volume| has(volume, "hostPath"));
    let volumes: Vec<&str> = volumes.map(|volume| text(volume, "name")).collect();
    if volumes.is_empty() { None } else { violation("hostPath volumes", named("volume", &volumes)) }
}

fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let used = |container: &Value| -> Vec<String> {
        let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
        let ports =
            ports.filter_map(|port| port.get("hostPort").and_then(Value::as_i64)).filter(|port| *port != 0);
        ports.map(|port| port.to_string()).collect()
    };
    let containers = pod.containers_where(|container| !used(container).is_empty());
    if containers.is_empty() {
        return None;
    }
    let ports: BTreeSet<String> = pod.containers().flat_map(used).collect();
    let detail = format!(
        "{} {} {} {}",
        named("container", &containers),
        if containers.len() == 1 { "uses" } else { "use" },
        if ports.len() == 1 { "hostPort" } else { "hostPorts" },
        ports.into_iter().collect::<Vec<_>>().join(", "),
    );
    violation("hostPort", detail)
}

fn hosts_of_probes(pod: &Pod<'_>) -> Option<Violation> {
    const HANDLERS: [&str; 5] =
        ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];
    let hosts = |container: &Value| -> Vec<String> {
        let handlers = HANDLERS.iter().filter_map(|path| container.pointer(path));
        let actions = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|action| handler.get(action)));
        let hosts = actions.flatten().map(|action| text(action, "host")).filter(|host| !host.is_empty());
        hosts.map(str::to_owned).collect()
    };
    let containers: BTreeSet<&str> =
        pod.containers_where(|container| !hosts(container).is_empty()).into_iter().collect();
    if containers.is_empty() {
        return None;
    }
    let containers: Vec<&str> = containers.into_iter().collect();
    let found: BTreeSet<String> = pod.containers().flat_map(hosts).collect();
    let detail = format!(
        "{} {} probe or lifecycle {} {}",
        named("container", &containers),
        if containers.len() == 1 { "uses" } else { "use" },
        if found.len() == 1 { "host" } else { "hosts" },
        quoted(found.iter().map(String::as_str)),
    );
    violation("probe or lifecycle host", detail)
}

fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let containers =
        pod.containers_where(|container| security(container, "privileged") == Some(&Value::Bool(true)));
    let who = setters(false, &containers)?;
    violation("privileged", format!("{who} must not set securityContext.privileged=true"))
}

fn proc_mount_unless_user_namespace(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { proc_mount(pod) }
}

fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let bad = |container: &Value| {
        security(container, "procMount")
            .and_then(Value::as_str)
            .filter(|kind| *kind != "Default")
            .map(str::to_owned)
    };
    let who = setters(false, &pod.containers_where(|container| bad(container).is_some()))?;
    let kinds: BTreeSet<String> = pod.containers().filter_map(bad).collect();
    let kinds = quoted(kinds.iter().map(String::as_str));
    violation("procMount", format!("{who} must not set securityContext.procMount to {kinds}"))
}

fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    let known = |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || kind == "container_engine_t" && pod.version.is_at_least(31)
    };
    let options = |of: &Value| security(of, "seLinuxOptions").cloned();
    let bad = |of: &Value| {
        options(of).is_some_and(|options| {
            !known(text(&options, "type"))
                || !text(&options, "user").is_empty()
                || !text(&options, "role").is_empty()
        })
    };
    let who = setters(bad(pod.spec), &pod.containers_where(bad))?;
    let all: Vec<Value> = pod.containers().chain([pod.spec]).filter_map(options).collect();
    let kinds: BTreeSet<&str> =
        all.iter().map(|options| text(options, "type")).filter(|kind| !known(kind)).collect();
    let mut what = Vec::new();
    if !kinds.is_empty() {
        what.push(named("type", &kinds.into_iter().collect::<Vec<_>>()));
    }
    for field in ["user", "role"] {
        if all.iter().any(|options| !text(options, field).is_empty()) {
            what.push(format!("{field} may not be set"));
        }
    }
    violation(
        "seLinuxOptions",
        format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; ")),
    )
}

fn seccomp_type(pod: &Pod<'_>) -> Option<Violation> {
    let bad = |of: &Value| {
        profile_type(of, "seccompProfile")
            .filter(|kind| !matches!(*kind, "RuntimeDefault" | "Localhost"))
            .map(str::to_owned)
    };
    let who = setters(bad(pod.spec).is_some(), &pod.containers_where(|container| bad(container).is_some()))?;
    let kinds: BTreeSet<String> = pod.containers().chain([pod.spec]).filter_map(bad).collect();
    let kinds = quoted(kinds.iter().map(String::as_str));
    violation("seccompProfile", format!("{who} must not set securityContext.seccompProfile.type to {kinds}"))
}

fn seccomp_required(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_for_windows() {
        return None;
    }
    if let Some(wrong) = seccomp_type(pod) {
        return Some(wrong);
    }
    if security(pod.spec, "seccompProfile").is_some() {
        return None;
    }
    let silent = pod.containers_where(|container| security(container, "seccompProfile").is_none());
    let who = setters(false, &silent)?;
    violation(
        "seccompProfile",
        format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}

/// Settings of the kernel that concern the pod alone, and since when they are allowed.
const SYSCTLS: [(&str, u16); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let allowed =
        |name: &str| SYSCTLS.iter().any(|(known, since)| *known == name && pod.version.is_at_least(*since));
    let set = security(pod.spec, "sysctls").and_then(Value::as_array).into_iter().flatten();
    let bad: Vec<&str> = set.map(|sysctl| text(sysctl, "name")).filter(|name| !allowed(name)).collect();
    if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
}

fn windows_host_process(pod: &Pod<'_>) -> Option<Violation> {
    let bad = |of: &Value| {
        security(of, "windowsOptions").and_then(|options| options.get("hostProcess"))
            == Some(&Value::Bool(true))
    };
    let who = setters(bad(pod.spec), &pod.containers_where(bad))?;
    violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_for_windows() {
        return None;
    }
    let containers = pod.containers_where(|container| {
        security(container, "allowPrivilegeEscalation") != Some(&Value::Bool(false))
    });
    let who = setters(false, &containers)?;
    violation(
        "allowPrivilegeEscalation != false",
        format!("{who} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn volume_types(pod: &Pod<'_>) -> Option<Violation> {
    let bad: Vec<&Value> =
        pod.volumes().iter().filter(|volume| !ALLOWED_VOLUMES.iter().any(|kind| has(volume, kind))).collect();
    if bad.is_empty() {
        return None;
    }
    let kind = |volume: &&Value| {
        let keys = volume
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| *key != "name" && !value.is_null());
        keys.map(|(key, _)| key.clone()).next().unwrap_or_else(|| "unknown".to_owned())
    };
    let kinds: BTreeSet<String> = bad.iter().map(kind).collect();
    let names: Vec<&str> = bad.iter().map(|volume| text(volume, "name")).collect();
    let detail = format!(
        "{} {} restricted volume {} {}",
        named("volume", &names),
        if names.len() == 1 { "uses" } else { "use" },
        if kinds.len() == 1 { "type" } else { "types" },
        quoted(kinds.iter().map(String::as_str)),
    );
    violation("restricted volume types", detail)
}

fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.has_user_namespace() {
        return None;
    }
    let says = |of: &Value| security(of, "runAsNonRoot").and_then(Value::as_bool);
    let refusing = pod.containers_where(|container| says(container) == Some(false));
    if let Some(who) = setters(says(pod.spec) == Some(false), &refusing) {
        return violation(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    if says(pod.spec) == Some(true) {
        return None;
    }
    let who = setters(false, &pod.containers_where(|container| says(container).is_none()))?;
    violation(REASON, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

fn root_user(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() {
        return None;
    }
    let root = |of: &Value| security(of, "runAsUser").and_then(Value::as_i64) == Some(0);
    let who = setters(root(pod.spec), &pod.containers_where(root))?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}
