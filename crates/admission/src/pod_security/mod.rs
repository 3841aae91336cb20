//! PodSecurity: the levels privileged, baseline and restricted, chosen by labels of the namespace.

mod checks;
pub mod namespace;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::{Refusal, pod};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much a pod may ask of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn named(name: &str) -> Option<Self> {
        match name {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        })
    }
}

/// Which edition of the rules: that of a minor version of Kubernetes 1, or the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    Minor(u16),
    #[default]
    Latest,
}

impl Version {
    fn read(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let plain =
            digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        digits.parse().ok().filter(|_| plain).map(Version::Minor)
    }

    fn is_at_least(self, minor: u16) -> bool {
        match self {
            Version::Latest => true,
            Version::Minor(own) => own >= minor,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Latest => f.write_str("latest"),
            Version::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standard {
    pub level: Level,
    pub version: Version,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

/// What a namespace demands, notes and warns about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub enforce: Standard,
    pub audit: Standard,
    pub warn: Standard,
}

impl Policy {
    /// Reads the labels of a Namespace. A level that cannot be read is taken for restricted where it is
    /// enforced (an error must not open doors) and for privileged where it only informs.
    pub fn of(namespace: &Value) -> Self {
        let label = |name: &str| {
            let labels = objects::meta::labels(namespace);
            labels.and_then(|labels| labels.get(&format!("{PREFIX}{name}"))).and_then(Value::as_str)
        };
        let read = |mode: &str, otherwise: Level| Standard {
            level: label(mode).map_or(Level::Privileged, |text| Level::named(text).unwrap_or(otherwise)),
            version: label(&format!("{mode}-version")).and_then(Version::read).unwrap_or_default(),
        };
        let enforce = read("enforce", Level::Restricted);
        let mut warn = read("warn", Level::Privileged);
        // What is demanded is warned about too, for workloads that would make such pods later.
        let demanded = label("enforce").and_then(Level::named);
        if let (None, Some(level)) = (label("warn"), demanded.filter(|level| *level > warn.level)) {
            warn.level = level;
            if label("warn-version").is_none() {
                warn.version = enforce.version;
            }
        }
        let audit = read("audit", Level::Privileged);
        Policy { enforce, audit, warn }
    }

    fn is_idle(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|standard| standard.level == Level::Privileged)
    }
}

/// What is to be said about a request that goes through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// For the `Warning` header.
    pub warnings: Vec<String>,
    /// For the audit log, under [`PREFIX`].
    pub audit: Vec<(&'static str, String)>,
}

/// Whether a change of a pod can change the verdict: other containers or images. A label or a finalizer
/// can be set on a pod that would not be admitted any more.
pub fn concerns_update(pod: &Value, old: &Value) -> bool {
    let image = |container: &Value| container.get("image").cloned();
    let differ = |field: &str| {
        let (new, old) = (pod::list(pod, field), pod::list(old, field));
        new.len() != old.len() || new.iter().zip(old).any(|(new, old)| image(new) != image(old))
    };
    let ephemeral = pod::list(pod, "ephemeralContainers").iter().any(|container| {
        let name = pod::text(container, "name");
        let before =
            pod::list(old, "ephemeralContainers").iter().find(|other| pod::text(other, "name") == name);
        before.is_none_or(|before| image(before) != image(container))
    });
    differ("containers") || differ("initContainers") || ephemeral
}

/// Checks a pod that is created, or that is changed in a way that [`concerns_update`].
pub fn check_pod(policy: &Policy, pod: &Value) -> Result<Notes, Refusal> {
    if policy.is_idle() {
        return Ok(Notes::default());
    }
    if let Some(violations) = violations(policy.enforce, pod) {
        return Err(Refusal::new(format!("violates PodSecurity \"{}\": {violations}", policy.enforce)));
    }
    let mut notes = notes(policy, pod);
    notes.audit.push(("enforce-policy", policy.enforce.to_string()));
    Ok(notes)
}

/// Looks at the pods that a workload would make: nothing is refused, only said.
pub fn check_workload(policy: &Policy, workload: &Value) -> Notes {
    template_of(workload).map(|template| notes(policy, template)).unwrap_or_default()
}

fn notes(policy: &Policy, pod: &Value) -> Notes {
    let would = |standard: Standard| {
        violations(standard, pod).map(|text| format!("would violate PodSecurity \"{standard}\": {text}"))
    };
    Notes {
        warnings: would(policy.warn).into_iter().collect(),
        audit: would(policy.audit).map(|text| ("audit-violations", text)).into_iter().collect(),
    }
}

/// The pod template in a workload, wherever its kind keeps it.
fn template_of(workload: &Value) -> Option<&Value> {
    match objects::meta::kind(workload) {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            workload.pointer("/spec/template")
        }
        "CronJob" => workload.pointer("/spec/jobTemplate/spec/template"),
        "PodTemplate" => workload.get("template"),
        _ => None,
    }
}

/// `hostPort (container "a" uses hostPort 80), privileged (...)`; `None` if all is well.
fn violations(standard: Standard, pod: &Value) -> Option<String> {
    let found = checks::run(standard, pod);
    let shown: Vec<String> = found.iter().map(|(reason, detail)| format!("{reason} ({detail})")).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}
