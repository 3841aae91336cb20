//! What else somebody must be allowed to do who writes a `ControlPlane`: rights of their own for fields that hand out what
//! is not the control plane's. Pure, but for [`may`].

use std::collections::BTreeMap;

use apiserver::Needed;
use auth::authorize::{Attributes, forbidden_because};
use auth::user::UserInfo;
use objects::{GroupResource, Status, Value, meta};
use runtime::Error;
use serde_json::json;

use crate::names;
use crate::plane::{Spec, Variables};

/// Fields of a `ControlPlane` that take a right of their own: the verb on it, the field, and what stands for none. An
/// absent field and this value are the same.
pub const FIELDS: [(&str, &str, &str); 6] = [
    ("quota", "quota", "{}"),
    ("isolation", "isolation", "\"shared\""),
    // Only of a process of its own.
    ("isolation", "process", "{}"),
    ("store", "store", "\"\""),
    ("egress", "egress", "{}"),
    ("aws", "aws", "{}"),
];

/// The verb for control planes of type `host`, whose administrators are those of the hosting control plane.
pub const HOST: &str = "host";

/// All rights that a new or changed object takes beside the one to write it.
pub fn needed(object: &Value, old: Option<&Value>) -> Vec<Needed> {
    let mut needed = Vec::new();
    let changed = |field: &str| {
        let wanted = object.pointer(field)?;
        (old.and_then(|old| old.pointer(field)) != Some(wanted)).then_some(wanted)
    };
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    // A copy shows all that the original has, so that it takes more than to see that there is an original.
    if let Some(source) = changed("/spec/source") {
        needed.push(on("fork", "controlplanes", &text(source, "controlPlane")));
    }
    // A kubeconfig is used, and then thrown away.
    if let Some(bootstrap) = changed("/spec/bootstrapSecretRef") {
        needed.extend(["get", "delete"].map(|verb| {
            let (namespace, name) = (text(bootstrap, "namespace"), text(bootstrap, "name"));
            Needed { verb, group: "", resource: "secrets", namespace, name }
        }));
    }
    needed.extend(hooks(object, old));
    let name = meta::name(object);
    let is_host = |object: &Value| object["spec"]["type"] == "host";
    if is_host(object) && !old.is_some_and(is_host) {
        needed.push(on(HOST, "controlplanes", name));
    }
    for (verb, field, none) in FIELDS {
        let none: Value = serde_json::from_str(none).unwrap_or_default();
        let of = |object: &Value| {
            object["spec"].get(field).filter(|value| !value.is_null()).unwrap_or(&none).clone()
        };
        let before = old.map_or_else(|| none.clone(), of);
        if of(object) != before && !needed.iter().any(|one| one.verb == verb) {
            needed.push(on(verb, "controlplanes", name));
        }
    }
    needed
}

fn on(verb: &'static str, resource: &'static str, name: &str) -> Needed {
    Needed { verb, group: names::GROUP, resource, namespace: String::new(), name: name.to_owned() }
}

/// A hook acts with its author's rights, so that it takes a right to have it act, and to say with which variables.
fn hooks(object: &Value, old: Option<&Value>) -> impl Iterator<Item = Needed> {
    let before = old.map(uses).unwrap_or_default();
    let named = uses(object).into_iter().filter(move |(name, with)| before.get(name) != Some(with));
    named.map(|(name, _)| on("use", "postcreatehooks", &name))
}

/// The hooks that an object names, with the variables that it gives them.
fn uses(object: &Value) -> BTreeMap<String, Variables> {
    // What cannot be read is refused by the schema.
    let spec: Spec =
        object.get("spec").and_then(|spec| serde_json::from_value(spec.clone()).ok()).unwrap_or_default();
    let given = |vars: Variables| spec.global_vars.clone().into_iter().chain(vars).collect();
    spec.hooks().into_iter().map(|one| (one.hook_name, given(one.vars))).collect()
}

/// Whether the user of a client has a right.
pub async fn may(client: &kube::Client, needed: &Needed) -> Result<bool, Error> {
    let Needed { verb, group, resource, namespace, name } = needed;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name,
        }},
    });
    let place = crate::api::Place::new("authorization.k8s.io/v1", "selfsubjectaccessreviews", "", "");
    let answer = crate::api::create(client, &place, &review).await?;
    Ok(answer["status"]["allowed"] == true)
}

/// That a user lacks a right, as the server says it.
pub fn forbidden(user: &UserInfo, needed: &Needed) -> Status {
    let attributes = Attributes::resource(needed.verb, needed.group, needed.resource);
    let attributes = attributes.namespace(&needed.namespace).name(&needed.name);
    let why = forbidden_because(user, &attributes, "");
    Status::forbidden(&GroupResource::new(needed.group, needed.resource), &needed.name, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: Value, old: Option<Value>, expected: &[&str]) {
        let object = |spec: Value| json!({"metadata": {"name": "cp1"}, "spec": spec});
        let needed = needed(&object(spec.clone()), old.clone().map(object).as_ref());
        let shown: Vec<String> =
            needed.iter().map(|one| format!("{} {}/{}", one.verb, one.resource, one.name)).collect();
        assert_eq!(shown, expected, "{spec} after {old:?}");
    }

    #[test]
    fn of_copies_and_secrets() {
        let copy = json!({"type": "k8s", "source": {"controlPlane": "one"}});
        check(copy.clone(), None, &["fork controlplanes/one"]);
        check(copy.clone(), Some(copy), &[]);
        let external = json!({"type": "external", "bootstrapSecretRef": {"namespace": "a", "name": "b"}});
        check(external.clone(), None, &["get secrets/b", "delete secrets/b"]);
        check(external.clone(), Some(external), &[]);
    }

    #[test]
    fn of_fields() {
        let plain = json!({"type": "k8s"});
        check(plain.clone(), None, &[]);
        check(json!({"type": "host"}), None, &["host controlplanes/cp1"]);
        check(json!({"type": "host", "backend": "shared"}), Some(json!({"type": "host"})), &[]);
        for (field, value, verb) in [
            ("quota", json!({"objects": 5}), "quota"),
            ("isolation", json!("process"), "isolation"),
            ("process", json!({"memoryLimit": "1Gi"}), "isolation"),
            ("store", json!("fast"), "store"),
            ("egress", json!({"allow": ["10.0.0.0/8"]}), "egress"),
            ("aws", json!({"serverCredentials": true}), "aws"),
        ] {
            let with = json!({"type": "k8s", field: value});
            let expected = format!("{verb} controlplanes/cp1");
            check(with.clone(), None, &[&expected]);
            check(with.clone(), Some(plain.clone()), &[&expected]);
            // Taken away as much as set.
            check(plain.clone(), Some(with.clone()), &[&expected]);
            check(with.clone(), Some(with), &[]);
        }
        // What stands for nothing is nothing.
        for none in [
            json!({"isolation": "shared"}),
            json!({"store": ""}),
            json!({"quota": {}}),
            json!({"quota": null}),
        ] {
            check(none.clone(), None, &[]);
            check(none, Some(plain.clone()), &[]);
        }
        let both = json!({"type": "k8s", "isolation": "process", "process": {"memoryLimit": "1Gi"}});
        check(both, None, &["isolation controlplanes/cp1"]);
    }

    #[test]
    fn of_hooks() {
        let one = |vars: Value, global: Value| json!({"type": "k8s", "globalVars": global, "postCreateHooks": [{"hookName": "h", "vars": vars}]});
        let plain = one(json!({}), json!({}));
        check(json!({"type": "k8s"}), None, &[]);
        check(json!({"type": "k8s", "postCreateHook": "h"}), None, &["use postcreatehooks/h"]);
        check(plain.clone(), None, &["use postcreatehooks/h"]);
        check(plain.clone(), Some(plain.clone()), &[]);
        // The same said in another way.
        check(plain.clone(), Some(json!({"type": "k8s", "postCreateHook": "h"})), &[]);
        check(one(json!({"A": "1"}), json!({})), Some(plain.clone()), &["use postcreatehooks/h"]);
        check(one(json!({}), json!({"A": "1"})), Some(plain.clone()), &["use postcreatehooks/h"]);
        let two = json!({"type": "k8s", "postCreateHook": "h", "postCreateHooks": [{"hookName": "i"}]});
        check(two.clone(), Some(plain.clone()), &["use postcreatehooks/i"]);
        check(plain, Some(two), &[]);
    }
}
