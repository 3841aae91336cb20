use serde_json::json;

use super::cluster::{CONTROL_PLANES, Cluster, eventually};

const HOOKS: &str = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/postcreatehooks";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cp1-reader";

/// The operator's account may list few of the kinds that a cluster has.
#[test]
fn a_control_plane_with_hooks_goes_with_what_they_made() {
    let cluster = Cluster::installed(&[]);
    let _operator = cluster.operator(&[]);
    let hook = json!({
        "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "PostCreateHook", "metadata": {"name": "reader"},
        "spec": {"templates": [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "{{.ControlPlaneName}}-reader"},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
            },
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"a": "b"}},
        ]},
    });
    cluster.client.post(&cluster.plane.path(HOOKS), &hook).ok();
    cluster.create("cp1", json!({"type": "k8s", "postCreateHooks": [{"hookName": "reader"}]}));
    cluster.await_condition("cp1", "Synced", "True");
    cluster.run_pods("/apis/apps/v1/namespaces/cp1-system/deployments/kube-apiserver");
    cluster.await_condition("cp1", "HooksCompleted", "True");
    assert_eq!(cluster.get(ROLE)["metadata"]["annotations"]["meta.helm.sh/release-namespace"], "cp1-system");

    cluster.delete(&format!("{CONTROL_PLANES}/cp1"));
    let gone = |path: &str| cluster.find(path).is_none().then_some(());
    eventually("the end of the control plane", || gone(&format!("{CONTROL_PLANES}/cp1")));
    assert_eq!(cluster.find(ROLE), None);
}
