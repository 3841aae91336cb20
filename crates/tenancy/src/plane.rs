//! A `ControlPlane` as the operator reads it.

use std::collections::{BTreeMap, BTreeSet};

use apiserver::control_plane::{AwsUse, Quota};
use egress::{RangeError, Ranges};
use objects::{Value, meta};
use serde::Deserialize;
use serde_json::json;

use crate::names;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    #[default]
    K8s,
    Vcluster,
    K3s,
    Ocm,
    /// The hosting control plane itself.
    Host,
    /// A cluster elsewhere that was adopted.
    External,
}

pub type Variables = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub r#type: Type,
    pub backend: String,
    pub bootstrap_secret_ref: Option<BootstrapSecret>,
    pub token_expiration_seconds: Option<i64>,
    pub post_create_hook: String,
    pub post_create_hook_vars: Variables,
    pub post_create_hooks: Vec<HookUse>,
    pub global_vars: Variables,
    pub wait_for_post_create_hooks: bool,
    pub isolation: String,
    pub process: ProcessLimits,
    pub store: String,
    pub quota: Quota,
    pub egress: Egress,
    pub aws: AwsUse,
    pub source: Option<Source>,
    pub credentials: Credentials,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootstrapSecret {
    pub namespace: String,
    pub name: String,
    pub in_cluster_key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookUse {
    pub hook_name: String,
    pub vars: Variables,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Credentials {
    /// Raised to make all client certificates that were issued before worthless.
    pub generation: u64,
}

/// What it may have the server connect to, beyond what all control planes may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Egress {
    pub allow: Vec<String>,
}

impl Egress {
    /// # Errors
    ///
    /// If one of the texts is not a range.
    pub fn ranges(&self) -> Result<Ranges, RangeError> {
        Ranges::parse(&self.allow)
    }
}

/// What a process of its own may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessLimits {
    /// A quantity of bytes.
    pub memory_limit: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    pub control_plane: String,
    pub revision: Option<u64>,
}

impl Spec {
    /// Whether it is to be in a process of its own.
    pub fn is_apart(&self) -> bool {
        self.isolation == "process"
    }

    /// Hooks in the order in which they are applied: the deprecated single one first, no name twice.
    pub fn hooks(&self) -> Vec<HookUse> {
        let single =
            HookUse { hook_name: self.post_create_hook.clone(), vars: self.post_create_hook_vars.clone() };
        let mut seen = BTreeSet::new();
        std::iter::once(&single)
            .chain(&self.post_create_hooks)
            .filter(|hook| !hook.hook_name.is_empty() && seen.insert(hook.hook_name.clone()))
            .cloned()
            .collect()
    }
}

/// The object, with what is in it at hand.
#[derive(Clone, Debug)]
pub struct Plane {
    pub name: String,
    pub uid: String,
    pub namespace: String,
    pub spec: Spec,
    pub object: Value,
}

impl Plane {
    pub fn read(object: Value) -> Result<Plane, serde_json::Error> {
        // The schema does not insist on a spec; without one it is what most are.
        let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
        let name = meta::name(&object).to_owned();
        Ok(Plane {
            uid: meta::uid(&object).to_owned(),
            namespace: names::namespace(&name),
            spec: serde_json::from_value(spec)?,
            name,
            object,
        })
    }

    pub fn has_finalizer(&self) -> bool {
        meta::finalizers(&self.object).any(|finalizer| finalizer == names::FINALIZER)
    }

    /// What makes an object this control plane's own.
    pub fn owner_reference(&self) -> Value {
        json!({
            "apiVersion": names::API_VERSION, "kind": "ControlPlane", "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// Whether an object belongs to this control plane and not to an earlier one of the same name.
    pub fn owns(&self, object: &Value) -> bool {
        meta::owner_references(object).iter().any(|owner| owner["uid"] == self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: Value, expected: &[&str]) {
        let plane = Plane::read(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        let hooks = plane.spec.hooks();
        let shown: Vec<String> =
            hooks.iter().map(|hook| format!("{}{:?}", hook.hook_name, hook.vars)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_deprecated_hook_comes_first_and_no_hook_twice() {
        check(json!({"type": "k8s"}), &[]);
        check(json!({"type": "k8s", "postCreateHook": ""}), &[]);
        check(
            json!({
                "type": "k8s", "postCreateHook": "b", "postCreateHookVars": {"x": "1"},
                "postCreateHooks": [{"hookName": "a"}, {"hookName": "b", "vars": {"x": "2"}}, {"hookName": ""}, {"hookName": "a"}],
            }),
            &[r#"b{"x": "1"}"#, "a{}"],
        );
    }

    #[test]
    fn a_control_plane_without_a_spec_is_of_type_k8s() {
        assert_eq!(Plane::read(json!({"metadata": {"name": "a"}})).unwrap().spec.r#type, Type::K8s);
    }
}
