//! TaintNodesByCondition: a new node takes no pods until it says that it is ready.

use serde_json::{Value, json};

use crate::pod::{list, list_mut, text};

const NOT_READY: (&str, &str) = ("node.kubernetes.io/not-ready", "NoSchedule");

/// Taints a node that is being created.
pub fn taint_new(node: &mut Value) {
    if let Some(object) = node.as_object_mut() {
        object.entry("spec").or_insert_with(|| json!({}));
    }
    let tainted =
        list(node, "taints").iter().any(|taint| (text(taint, "key"), text(taint, "effect")) == NOT_READY);
    if !tainted && let Some(taints) = list_mut(node, "taints") {
        taints.push(json!({"key": NOT_READY.0, "effect": NOT_READY.1}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tainted_once() {
        let ours = json!({"key": NOT_READY.0, "effect": NOT_READY.1});
        let other = json!({"key": NOT_READY.0, "effect": "NoExecute"});
        for (before, after) in [
            (json!({}), json!([ours])),
            (json!({"spec": {"taints": [ours]}}), json!([ours])),
            (json!({"spec": {"taints": [other]}}), json!([other, ours])),
        ] {
            let mut node = before;
            taint_new(&mut node);
            assert_eq!(node["spec"]["taints"], after);
        }
    }
}
