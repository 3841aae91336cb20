//! When what a hook made counts as ready, by kind. Pure.

use objects::{Value, meta};

use crate::conditions;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotYet,
    /// It will not become ready by itself.
    Failed(String),
}

pub fn of(object: &Value) -> Readiness {
    let status = object.get("status").cloned().unwrap_or_default();
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = match meta::kind(object) {
        "Deployment" | "StatefulSet" => number("readyReplicas") == replicas,
        "DaemonSet" => !status.is_null() && number("numberReady") == number("desiredNumberScheduled"),
        "Job" => {
            if conditions::is_true(&status, "Failed") {
                let why = conditions::find(&status, "Failed").and_then(|one| one["message"].as_str());
                return Readiness::Failed(format!(
                    "Job {} failed: {}",
                    meta::name(object),
                    why.unwrap_or_default()
                ));
            }
            number("succeeded") > 0
        }
        "CustomResourceDefinition" => conditions::is_true(&status, "Established"),
        "Pod" => matches!(status["phase"].as_str(), Some("Running" | "Succeeded")),
        _ => true,
    };
    if ready { Readiness::Ready } else { Readiness::NotYet }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn by_kind() {
        let check = |kind: &str, spec: Value, status: Value, expected: bool| {
            let object = json!({"kind": kind, "metadata": {"name": "x"}, "spec": spec, "status": status});
            assert_eq!(of(&object) == Readiness::Ready, expected, "{object}");
        };
        check("Deployment", json!({"replicas": 2}), json!({"readyReplicas": 2}), true);
        check("Deployment", json!({"replicas": 2}), json!({"readyReplicas": 1}), false);
        check("Deployment", json!({}), json!({"readyReplicas": 1}), true);
        check("StatefulSet", json!({}), json!({}), false);
        check("StatefulSet", json!({"replicas": 0}), json!({}), true);
        check("DaemonSet", json!({}), json!({"numberReady": 1, "desiredNumberScheduled": 2}), false);
        check("DaemonSet", json!({}), json!({"numberReady": 2, "desiredNumberScheduled": 2}), true);
        check("Job", json!({}), json!({"succeeded": 1}), true);
        check("Job", json!({}), json!({"active": 1}), false);
        check("Pod", json!({}), json!({"phase": "Pending"}), false);
        check("Pod", json!({}), json!({"phase": "Running"}), true);
        check("Pod", json!({}), json!({"phase": "Succeeded"}), true);
        check("ConfigMap", json!({}), Value::Null, true);
        let established = |status: &str| json!({"conditions": [{"type": "Established", "status": status}]});
        check("CustomResourceDefinition", json!({}), established("True"), true);
        check("CustomResourceDefinition", json!({}), established("False"), false);
        let failed = json!({
            "kind": "Job", "metadata": {"name": "x"},
            "status": {"conditions": [{"type": "Failed", "status": "True", "message": "backoff limit"}]},
        });
        assert_eq!(of(&failed), Readiness::Failed("Job x failed: backoff limit".into()));
    }
}
