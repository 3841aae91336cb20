//! Rows of KubeFlex's contract that no other scenario goes through.

use objects::meta;
use serde_json::json;

use super::fixture::{Fixture, settings};
use crate::api::{self, Place};
use crate::{conditions, names};

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_and_its_configuration_are_where_they_are_looked_for() {
    let f = Fixture::new().await;
    let deployment =
        f.get("apps/v1", "deployments", "kubeflex-system", "kubeflex-controller-manager").await.unwrap();
    assert!(conditions::is_true(&deployment["status"], "Available"));
    let pod = &deployment["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["control-plane"], "controller-manager");
    assert_eq!(pod["spec"]["containers"][0]["name"], "manager");
    assert_eq!(pod["spec"]["serviceAccountName"], "kubeflex-controller-manager");
    assert!(f.get("v1", "serviceaccounts", "kubeflex-system", "kubeflex-controller-manager").await.is_some());
    let config = f.get("v1", "configmaps", "kubeflex-system", "kubeflex-config").await.unwrap();
    let expected = json!({
        "domain": settings().domain, "externalPort": "6443", "hostContainer": "kubeflex-control-plane",
        "isOpenShift": "false",
    });
    assert_eq!(config["data"], expected);
    // A second start finds it as it should be, and leaves it.
    crate::prepare(f.engine.clone(), &settings(), None).await.unwrap();
    let again =
        f.get("apps/v1", "deployments", "kubeflex-system", "kubeflex-controller-manager").await.unwrap();
    assert_eq!(meta::resource_version(&again), meta::resource_version(&deployment));
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_only_written_through_its_subresource_and_unknown_fields_are_pruned() {
    let f = Fixture::new().await;
    let made = f
        .create(json!({
            "apiVersion": names::API_VERSION, "kind": "ControlPlane", "metadata": {"name": "cp1"},
            "spec": {"type": "k8s", "unknown": 1},
            "status": {"conditions": [], "observedGeneration": 7},
        }))
        .await;
    assert_eq!((made.get("status"), made["spec"].get("unknown")), (None, None));
    let cp = f.until_ready("cp1").await;
    assert_eq!(cp["status"]["observedGeneration"], meta::generation(&cp));
    for condition in cp["status"]["conditions"].as_array().unwrap() {
        for field in ["type", "status", "reason", "message", "lastUpdateTime", "lastTransitionTime"] {
            assert!(condition[field].is_string(), "{field} of {condition}");
        }
    }
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_later_leaves_ready_as_it_is() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s"})).await;
    let cp = f.until_ready("cp1").await;
    let since = conditions::find(&cp["status"], "Ready").unwrap()["lastTransitionTime"].clone();
    f.patch("cp1", json!({"spec": {"store": "nowhere"}})).await.unwrap();
    let synced = f.until_condition("cp1", "Synced", "False", "ReconcileError").await;
    assert!(synced["message"].as_str().unwrap().starts_with("spec.store: "), "{synced}");
    let cp = f.plane("cp1").await.unwrap();
    let ready = conditions::find(&cp["status"], "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["lastTransitionTime"]), (&json!("True"), &since));
    assert_eq!(cp["status"]["observedGeneration"], meta::generation(&cp));
    f.patch("cp1", json!({"spec": {"store": null}})).await.unwrap();
    f.until_condition("cp1", "Synced", "True", "ReconcileSuccess").await;
    f.close().await;
}

fn map(name: &str, value: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_set_is_not_taken_by_a_hook() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s"})).await;
    f.until_ready("cp1").await;
    let place = Place::new("v1", "configmaps", "cp1-system", "theirs");
    api::apply(&f.client, &place, &map("theirs", "1"), "somebody", true).await.unwrap();
    f.hook("greedy", json!({"templates": [map("theirs", "2")]})).await;
    f.hook("modest", json!({"templates": [map("ours", "1")]})).await;
    let uses = json!([{"hookName": "greedy"}, {"hookName": "modest"}]);
    f.patch("cp1", json!({"spec": {"postCreateHooks": uses}})).await.unwrap();
    let error = f
        .until("the conflict is told", async |f| {
            f.plane("cp1").await?["status"]["postCreateHookErrors"]["greedy"].as_str().map(str::to_owned)
        })
        .await;
    assert!(error.contains("conflict") && error.contains("somebody"), "{error}");
    assert_eq!(api::get(&f.client, &place).await.unwrap().unwrap()["data"]["v"], "1");
    let cp = f.plane("cp1").await.unwrap();
    assert_eq!(cp["status"]["postCreateHooks"], json!({"modest": true}));
    assert_eq!(cp["status"].get("postCreateHookCompleted"), None);
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_hook_undoes_nothing() {
    let f = Fixture::new().await;
    f.hook("one", json!({"templates": [map("one", "1")]})).await;
    f.create_plane("cp1", json!({"type": "k8s", "postCreateHooks": [{"hookName": "one"}]})).await;
    f.until("the hook is applied", async |f| {
        (f.plane("cp1").await?["status"]["postCreateHooks"]["one"] == true).then_some(())
    })
    .await;
    f.patch("cp1", json!({"spec": {"postCreateHooks": null}})).await.unwrap();
    f.until("the change is seen", async |f| {
        let cp = f.plane("cp1").await?;
        (cp["status"]["observedGeneration"] == meta::generation(&cp)).then_some(())
    })
    .await;
    assert_eq!(f.plane("cp1").await.unwrap()["status"]["postCreateHooks"], json!({"one": true}));
    assert!(f.get("v1", "configmaps", "cp1-system", "one").await.is_some());
    // Nor does taking the hook itself away.
    f.delete(names::API_VERSION, "postcreatehooks", "", "one").await;
    f.settle().await;
    assert!(f.get("v1", "configmaps", "cp1-system", "one").await.is_some());
    assert!(conditions::is_true(&f.plane("cp1").await.unwrap()["status"], "Ready"));
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_hook_that_failed_is_told() {
    let f = Fixture::new().await;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
    });
    f.hook("work", json!({ "templates": [job] })).await;
    let spec =
        json!({"type": "k8s", "waitForPostCreateHooks": true, "postCreateHooks": [{"hookName": "work"}]});
    f.create_plane("cp1", spec).await;
    f.until("the job is there", async |f| f.get("batch/v1", "jobs", "cp1-system", "work").await).await;
    let now = objects::time::format(jiff::Timestamp::now());
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "it did not work",
            "lastTransitionTime": now, "lastProbeTime": now,
        })
    };
    let status = json!({
        "failed": 1, "startTime": now, "conditions": [condition("FailureTarget"), condition("Failed")],
    });
    let place = Place::new("batch/v1", "jobs", "cp1-system", "work");
    api::replace_status(&f.client, &place, &status).await.unwrap();
    let found = f.until_condition("cp1", "HooksCompleted", "False", "HookError").await;
    assert_eq!(found["message"], "work: Job work failed: it did not work");
    f.until_condition("cp1", "Ready", "False", "WaitingForPostCreateHooks").await;
    // In place of the failed one, somebody makes one that works.
    f.delete("batch/v1", "jobs", "cp1-system", "work").await;
    f.until("the job is back", async |f| {
        f.get("batch/v1", "jobs", "cp1-system", "work")
            .await
            .filter(|job| job["status"].get("failed").is_none())
    })
    .await;
    f.close().await;
}
