//! Claims: the class of those that name none, and which ones may grow.

use std::cmp::Reverse;

use objects::quantity::Quantity;
use serde_json::{Value, json};

use crate::Refusal;
use crate::pod::{self, Side, set_spec, spec_text};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The storage class of a claim; the annotation of old wins over the field.
pub(crate) fn class_of(claim: &Value) -> &str {
    objects::meta::annotation(claim, CLASS_ANNOTATION).unwrap_or_else(|| spec_text(claim, "storageClassName"))
}

/// Whether a claim leaves its class to the cluster. The empty string is a choice: no class at all.
pub fn needs_class(claim: &Value) -> bool {
    objects::meta::annotation(claim, CLASS_ANNOTATION).is_none()
        && claim.pointer("/spec/storageClassName").is_none_or(Value::is_null)
}

/// Gives a claim that [`needs_class`] the default one, if the cluster has any: the newest of several.
pub fn default_class<'a>(claim: &mut Value, classes: impl IntoIterator<Item = &'a Value>) {
    if !needs_class(claim) {
        return;
    }
    let is_default = |class: &&Value| {
        DEFAULT_ANNOTATIONS.iter().any(|key| objects::meta::annotation(class, key) == Some("true"))
    };
    // Creation times are written so that they sort as text.
    let newest = classes.into_iter().filter(is_default).min_by_key(|class| {
        (Reverse(objects::meta::text(class, "creationTimestamp")), objects::meta::name(class))
    });
    if let Some(class) = newest {
        set_spec(claim, "storageClassName", json!(objects::meta::name(class)));
    }
}

/// Whether a claim may become as large as an update asks. `class` is its storage class.
pub fn check_resize(claim: &Value, old: &Value, class: Option<&Value>) -> Result<(), Refusal> {
    let size = |claim: &Value| -> Quantity {
        let requests = claim.get("spec").map(|spec| pod::resources(spec, Side::Requests));
        requests.unwrap_or_default().get("storage").unwrap_or_default()
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old.pointer("/status/phase").and_then(Value::as_str) != Some("Bound") {
        return Err(Refusal::new("Only bound persistent volume claims can be expanded"));
    }
    let same_class = !class_of(claim).is_empty() && class_of(claim) == class_of(old);
    let expandable = class.and_then(|class| class.get("allowVolumeExpansion")) == Some(&Value::Bool(true));
    if same_class && expandable {
        return Ok(());
    }
    Err(Refusal::new(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let class = |name: &str, created: &str, default: &str| json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {DEFAULT_ANNOTATIONS[0]: default}}});
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("b", "2026-02-01T00:00:00Z", "true"),
            class("a", "2026-02-01T00:00:00Z", "true"),
            class("newest", "2026-03-01T00:00:00Z", "false"),
        ];
        let check = |claim: Value, expected: Option<&str>| {
            let mut claim = claim;
            default_class(&mut claim, &classes);
            assert_eq!(claim.pointer("/spec/storageClassName").and_then(Value::as_str), expected);
        };
        check(json!({"spec": {}}), Some("a"));
        check(json!({"spec": {"storageClassName": null}}), Some("a"));
        check(json!({"spec": {"storageClassName": ""}}), Some(""));
        check(json!({"spec": {"storageClassName": "mine"}}), Some("mine"));
        check(json!({"metadata": {"annotations": {CLASS_ANNOTATION: "x"}}, "spec": {}}), None);
        let mut claim = json!({"spec": {}});
        default_class(&mut claim, &classes[3..]);
        assert!(needs_class(&claim));
    }

    #[test]
    fn growth() {
        fn check(from: &str, to: &str, phase: &str, class: Option<bool>, expected: Result<(), &str>) {
            let claim = |size: &str| {
                json!({
                    "spec": {"storageClassName": "c", "resources": {"requests": {"storage": size}}},
                    "status": {"phase": phase},
                })
            };
            let class = class.map(|allow| json!({"allowVolumeExpansion": allow}));
            let got = check_resize(&claim(to), &claim(from), class.as_ref());
            match (got, expected) {
                (Ok(()), Ok(())) => {}
                (Err(refusal), Err(part)) => assert!(refusal.message.contains(part), "{}", refusal.message),
                (got, _) => panic!("{got:?}"),
            }
        }
        check("1Gi", "1024Mi", "Pending", None, Ok(()));
        check("2Gi", "1Gi", "Pending", None, Ok(()));
        check("1Gi", "2Gi", "Bound", Some(true), Ok(()));
        check(
            "1Gi",
            "2Gi",
            "Pending",
            Some(true),
            Err("Only bound persistent volume claims can be expanded"),
        );
        check("1Gi", "2Gi", "Bound", Some(false), Err("must support resize"));
        check("1Gi", "2Gi", "Bound", None, Err("must support resize"));
    }
}
