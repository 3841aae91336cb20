//! Rows of KubeFlex's contract about hooks that no other scenario goes through.

use objects::{Value, meta};
use serde_json::json;

use super::fixture::Fixture;
use super::types::bootstrap;
use crate::api::{self, Place};
use crate::{conditions, names};

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
    })
}

/// Waits until all hooks of a control plane are recorded.
async fn applied(f: &Fixture, cp: &str) -> Value {
    f.until("all hooks are applied", async |f| {
        f.plane(cp).await.filter(|cp| cp["status"]["postCreateHookCompleted"] == true)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_waits_for_no_other_not_even_in_wait_mode() {
    let f = Fixture::new().await;
    f.hook("first", json!({"templates": [job("first")]})).await;
    f.hook("second", json!({"templates": [map("second", "1")]})).await;
    let uses = json!([{"hookName": "first"}, {"hookName": "second"}]);
    f.create_plane("cp1", json!({"type": "k8s", "waitForPostCreateHooks": true, "postCreateHooks": uses}))
        .await;
    f.until("the second is recorded", async |f| {
        (f.plane("cp1").await?["status"]["postCreateHooks"] == json!({"second": true})).then_some(())
    })
    .await;
    let cp = f.plane("cp1").await.unwrap();
    assert_eq!(conditions::find(&cp["status"], "Ready").unwrap()["reason"], "WaitingForPostCreateHooks");
    assert_eq!(cp["status"].get("postCreateHookCompleted"), None, "left out while it is not so");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_of_every_type_have_hooks() {
    let f = Fixture::new().await;
    f.hook("one", json!({"templates": [map("{{.ControlPlaneName}}", "{{.Namespace}} {{.HookName}}")]})).await;
    let uses = json!([{"hookName": "one"}]);
    for kind in ["k8s", "vcluster", "k3s", "ocm", "host"] {
        let name = format!("a-{kind}");
        f.create_plane(
            &name,
            json!({"type": kind, "backend": "shared", "waitForPostCreateHooks": true, "postCreateHooks": uses}),
        )
        .await;
        f.until_ready(&name).await;
        let namespace = names::namespace(&name);
        let made = f.get("v1", "configmaps", &namespace, &name).await.unwrap();
        assert_eq!(made["data"]["v"], format!("{namespace} one"), "{kind}");
    }
    bootstrap(&f, "a-k8s", "ext", "kubeconfig-incluster").await;
    let reference = json!({"name": "ext-bootstrap", "namespace": "kubeflex-system", "inClusterKey": ""});
    let spec = json!({"type": "external", "bootstrapSecretRef": reference, "postCreateHooks": uses});
    f.create_plane("ext", spec).await;
    applied(&f, "ext").await;
    assert!(f.get("v1", "configmaps", "ext-system", "ext").await.is_some());
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_as_a_hook_wants_it_is_not_written_and_the_rest_of_it_is_kept() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s"})).await;
    f.until_ready("cp1").await;
    let theirs = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "cp1-system"},
            "data": {"v": "1", "own": "x"},
        })
    };
    let same = f.create(theirs("same")).await;
    f.create(theirs("more")).await;
    let more =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}, "data": {"w": "2"}});
    f.hook("both", json!({"templates": [map("same", "1"), more]})).await;
    f.patch("cp1", json!({"spec": {"postCreateHook": "both"}})).await.unwrap();
    applied(&f, "cp1").await;
    let found = f.get("v1", "configmaps", "cp1-system", "same").await.unwrap();
    assert_eq!(meta::resource_version(&found), meta::resource_version(&same));
    let found = f.get("v1", "configmaps", "cp1-system", "more").await.unwrap();
    assert_eq!(found["data"], json!({"v": "1", "own": "x", "w": "2"}));
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_a_hook_take_the_place_of_the_control_planes() {
    let f = Fixture::new().await;
    f.create(json!({
        "apiVersion": names::API_VERSION, "kind": "PostCreateHook",
        "metadata": {"name": "one", "labels": {"kflex.kubestellar.io/cptype": "wds", "more": "1"}},
        "spec": {"templates": [map("one", "1")]},
    }))
    .await;
    f.create(json!({
        "apiVersion": names::API_VERSION, "kind": "ControlPlane",
        "metadata": {"name": "cp1", "labels": {"kflex.kubestellar.io/cptype": "its", "own": "x"}},
        "spec": {"type": "k8s", "postCreateHook": "one"},
    }))
    .await;
    let cp = applied(&f, "cp1").await;
    let expected = json!({"kflex.kubestellar.io/cptype": "wds", "more": "1", "own": "x"});
    assert_eq!(cp["metadata"]["labels"], expected);
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_says_whether_its_templates_can_be_read() {
    let f = Fixture::new().await;
    f.hook("good", json!({"templates": [map("{{.HookName}}", "1")]})).await;
    f.hook("bad", json!({"templates": [map("a", "{{.Name")]})).await;
    for (name, synced, ready) in [("good", "True", "True"), ("bad", "False", "False")] {
        let status = f
            .until("it is judged", async |f| {
                let hook = f.get(names::API_VERSION, "postcreatehooks", "", name).await?;
                hook.get("status").cloned()
            })
            .await;
        let said = |kind: &str| conditions::find(&status, kind).unwrap()["status"].clone();
        assert_eq!((said("Synced"), said("Ready")), (json!(synced), json!(ready)), "{name}");
    }
    f.close().await;
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
    f.hook("work", json!({ "templates": [job("work")] })).await;
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
