//! Security contexts of pods and containers.

use objects::Value;

use super::Place;
use super::volumes::local_descending_path;
use crate::dotted::Dotted;

const MAX_ID: i64 = i32::MAX as i64;
const SYSCTL_MAX: usize = 253;
const SYSCTL_REGEX: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

pub(super) fn of_pod(spec: &Place<'_>) {
    let context = spec.at("securityContext");
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        context.in_range(id, 0, MAX_ID);
    }
    context.items("supplementalGroups").for_each(|group| group.in_range("", 0, MAX_ID));
    sysctls(spec, &context);
    context.choice_if("fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    context.choice_if("supplementalGroupsPolicy", &["Merge", "Strict"]);
    context.choice_if("seLinuxChangePolicy", &["MountOption", "Recursive"]);
    seccomp_profile(&context.at("seccompProfile"));
    app_armor_profile(&context.at("appArmorProfile"));
}

fn sysctls(spec: &Place<'_>, context: &Place<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for sysctl in context.items("sysctls") {
        let name = sysctl.value.text("name");
        if !sysctl.need("name") {
            continue;
        }
        if !is_sysctl(name) {
            let detail = format!("must have at most {SYSCTL_MAX} characters and match regex {SYSCTL_REGEX}");
            sysctl.invalid("name", detail);
        } else if seen.contains(&name) {
            sysctl.duplicate("name");
        }
        let dotted = name.replace('/', ".");
        if spec.flag("hostNetwork") && dotted.starts_with("net.") {
            sysctl.invalid("name", "may not be specified when 'hostNetwork' is true");
        }
        let of_ipc =
            ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| dotted.starts_with(prefix));
        if spec.flag("hostIPC") && (of_ipc || dotted == "kernel.sem") {
            sysctl.invalid("name", "may not be specified when 'hostIPC' is true");
        }
        seen.push(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= SYSCTL_MAX
        && name.split(['.', '/']).map(str::as_bytes).all(|segment| {
            segment.first().is_some_and(edge)
                && segment.last().is_some_and(edge)
                && segment.iter().all(|b| edge(b) || matches!(b, b'-' | b'_'))
        })
}

pub(super) fn of_container(context: &Place<'_>, host_users: bool) {
    if context.is_null() {
        return;
    }
    context.in_range("runAsUser", 0, MAX_ID);
    context.in_range("runAsGroup", 0, MAX_ID);
    context.choice_if("procMount", &["Default", "Unmasked"]);
    if host_users && context.text("procMount") == "Unmasked" {
        context.invalid("procMount", "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp_profile(&context.at("seccompProfile"));
    app_armor_profile(&context.at("appArmorProfile"));
    if context.value.at("allowPrivilegeEscalation") == &Value::Bool(false) {
        if context.flag("privileged") {
            context.invalid("", "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        if context.texts("capabilities.add").contains(&"CAP_SYS_ADMIN") {
            context.invalid(
                "",
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            );
        }
    }
}

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn seccomp_profile(profile: &Place<'_>) {
    if profile.is_null() {
        return;
    }
    match profile.text("type") {
        "" => profile.required("type", "type is required when seccompProfile is set"),
        kind if !PROFILE_TYPES.contains(&kind) => profile.unsupported("type", &PROFILE_TYPES),
        _ => {}
    }
    match (profile.text("type"), profile.has("localhostProfile")) {
        ("Localhost", false) => {
            profile.required("localhostProfile", "must be set when seccomp type is Localhost")
        }
        ("Localhost", true) => local_descending_path(&profile.at("localhostProfile")),
        (_, true) => profile.invalid("localhostProfile", "can only be set when seccomp type is Localhost"),
        _ => {}
    }
}

fn app_armor_profile(profile: &Place<'_>) {
    if profile.is_null() {
        return;
    }
    match profile.text("type") {
        "" => profile.required("type", "type is required when appArmorProfile is set"),
        kind if !PROFILE_TYPES.contains(&kind) => profile.unsupported("type", &PROFILE_TYPES),
        _ => {}
    }
    match (profile.text("type"), profile.has("localhostProfile")) {
        ("Localhost", false) => {
            profile.required("localhostProfile", "must be set when AppArmor type is Localhost")
        }
        ("Localhost", true) => {
            let name = profile.text("localhostProfile");
            if name.trim().is_empty() {
                profile.required("localhostProfile", "must be set when AppArmor type is Localhost");
            } else if name.trim() != name {
                profile.invalid("localhostProfile", "must not be padded with whitespace");
            }
        }
        (_, true) => profile.invalid("localhostProfile", "can only be set when AppArmor type is Localhost"),
        _ => {}
    }
}
