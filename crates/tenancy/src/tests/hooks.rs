use objects::{Value, meta};
use serde_json::{Value as Json, json};

use super::fixture::Fixture;
use crate::api::{self, Place};
use crate::{conditions, names};

fn map(name: &str, data: Json) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn job(name: &str) -> Json {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
    })
}

async fn data(f: &Fixture, cp: &str, name: &str) -> Json {
    let found = f.get("v1", "configmaps", &names::namespace(cp), name).await;
    found.unwrap_or_else(|| panic!("no {name}"))["data"].clone()
}

async fn completed(f: &Fixture, name: &str) -> Value {
    f.until("hooks are completed", async |f| {
        f.plane(name).await.filter(|cp| cp["status"]["postCreateHookCompleted"] == true)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn several_hooks_share_variables_and_give_their_labels() {
    let f = Fixture::new().await;
    f.create(json!({
        "apiVersion": names::API_VERSION, "kind": "PostCreateHook",
        "metadata": {"name": "one", "labels": {"kflex.kubestellar.io/cptype": "wds"}},
        "spec": {
            "defaultVars": [{"name": "A", "value": "default"}, {"name": "B", "value": "default"}],
            "templates": [map("one-{{.ControlPlaneName}}", json!({
                "all": "{{.A}} {{.B}} {{.C}} {{.Namespace}} {{.HookName}} {{.None}}",
            }))],
        },
    }))
    .await;
    f.hook("two", json!({"templates": [map("two", json!({"quoted": "{{.C}}"}))]})).await;
    let spec = json!({
        "type": "k8s", "globalVars": {"B": "global", "C": "say \"hi\"\n", "ControlPlaneName": "ignored"},
        "postCreateHooks": [{"hookName": "one", "vars": {"A": "use"}}, {"hookName": "two"}],
    });
    f.create_plane("cp1", spec).await;
    let cp = completed(&f, "cp1").await;
    assert_eq!(cp["status"]["postCreateHooks"], json!({"one": true, "two": true}));
    assert_eq!(data(&f, "cp1", "one-cp1").await["all"], "use global say \"hi\"\n cp1-system one <no value>");
    assert_eq!(data(&f, "cp1", "two").await["quoted"], "say \"hi\"\n");
    f.until("the label is there", async |f| {
        let cp = f.plane("cp1").await?;
        (meta::labels(&cp)?.get("kflex.kubestellar.io/cptype")? == "wds").then_some(())
    })
    .await;
    let object = f.get("v1", "configmaps", "cp1-system", "two").await.unwrap();
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().any(|one| one["manager"] == "kubeflex" && one["operation"] == "Apply"),
        "{managers:?}"
    );
    // Nothing of the operator's is on what is in the namespace.
    assert!(meta::owner_references(&object).is_empty() && meta::labels(&object).is_none());
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_hook_is_told_and_noticed_when_it_comes() {
    let f = Fixture::new().await;
    f.hook("there", json!({"templates": [map("there", json!({}))]})).await;
    let spec = json!({
        "type": "k8s", "waitForPostCreateHooks": true,
        "postCreateHook": "late", "postCreateHookVars": {"X": "1"}, "postCreateHooks": [{"hookName": "there"}],
    });
    f.create_plane("cp1", spec).await;
    let waiting = f.until_condition("cp1", "Ready", "False", "WaitingForPostCreateHooks").await;
    assert_eq!(waiting["message"], "Waiting for PostCreateHook completion");
    let cp = f.plane("cp1").await.unwrap();
    assert_eq!(cp["status"]["postCreateHookErrors"], json!({"late": "post create hook not found: late"}));
    // The others run all the same.
    assert_eq!(cp["status"]["postCreateHooks"], json!({"there": true}));
    assert!(conditions::is_true(&cp["status"], "Synced"));
    assert!(
        f.events("cp1")
            .await
            .contains(&"Warning HookFailed hook late: post create hook not found: late".into())
    );
    f.hook("late", json!({"templates": [map("late", json!({"x": "{{.X}}"}))]})).await;
    let cp = f.until_ready("cp1").await;
    assert_eq!(cp["status"]["postCreateHooks"], json!({"there": true, "late": true}));
    assert_eq!(cp["status"].get("postCreateHookErrors"), None);
    assert_eq!(data(&f, "cp1", "late").await, json!({"x": "1"}));
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_waiting_a_control_plane_is_ready_when_it_answers() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s", "postCreateHook": "none"})).await;
    f.until_ready("cp1").await;
    f.until_condition("cp1", "HooksCompleted", "False", "HookError").await;
    // And waiting for no hooks is no waiting.
    f.create_plane("cp2", json!({"type": "k8s", "waitForPostCreateHooks": true})).await;
    f.until_ready("cp2").await;
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_mode_waits_for_what_the_hook_made() {
    let f = Fixture::new().await;
    f.hook("work", json!({"templates": [job("{{.HookName}}")]})).await;
    let spec =
        json!({"type": "k8s", "waitForPostCreateHooks": true, "postCreateHooks": [{"hookName": "work"}]});
    f.create_plane("cp1", spec).await;
    f.until_condition("cp1", "Ready", "False", "WaitingForPostCreateHooks").await;
    f.until("the job is there", async |f| f.get("batch/v1", "jobs", "cp1-system", "work").await).await;
    f.settle().await;
    let cp = f.plane("cp1").await.unwrap();
    assert_eq!(cp["status"].get("postCreateHooks"), None);
    let said = f.until_condition("cp1", "HooksCompleted", "False", "Waiting").await;
    assert_eq!(said["message"], "work: waiting for Job work (which needs nodes: there are none here)");
    let place = Place::new("batch/v1", "jobs", "cp1-system", "work");
    let now = objects::time::format(jiff::Timestamp::now());
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now});
    let status = json!({
        "succeeded": 1, "startTime": now, "completionTime": now,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    api::replace_status(&f.client, &place, &status).await.unwrap();
    let cp = f.until_ready("cp1").await;
    assert_eq!(cp["status"]["postCreateHooks"], json!({"work": true}));
    assert_eq!(cp["status"]["postCreateHookCompleted"], true);
    // What it made goes away: it is told, and the hook is not run again.
    f.delete("batch/v1", "jobs", "cp1-system", "work").await;
    f.until_condition("cp1", "Ready", "False", "WaitingForPostCreateHooks").await;
    assert!(f.get("batch/v1", "jobs", "cp1-system", "work").await.is_none());
    let said = f.until_condition("cp1", "HooksCompleted", "False", "Waiting").await;
    assert_eq!(said["message"], "work: waiting for Job work, which is gone");
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_hook_says_why_and_is_tried_again_when_it_changes() {
    let f = Fixture::new().await;
    for (name, template, expected) in [
        (
            "unknown",
            json!({"apiVersion": "x.io/v1", "kind": "Nothing", "metadata": {"name": "a"}}),
            "no matches for kind \"Nothing\"",
        ),
        ("broken", map("{{if}}", json!({})), "template 0:"),
        (
            "elsewhere",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}),
            "not that of the control plane",
        ),
        (
            "invalid",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": {"ports": []}}),
            "spec.ports",
        ),
    ] {
        f.hook(name, json!({ "templates": [template] })).await;
        f.create_plane(
            &format!("cp-{name}"),
            json!({"type": "k8s", "waitForPostCreateHooks": true, "postCreateHooks": [{"hookName": name}]}),
        )
        .await;
        let message = f
            .until("the error is told", async |f| {
                let cp = f.plane(&format!("cp-{name}")).await?;
                Some(cp["status"]["postCreateHookErrors"][name].as_str()?.to_owned())
            })
            .await;
        assert!(message.contains(expected), "{name}: {message}");
    }
    let broken = f.get(names::API_VERSION, "postcreatehooks", "", "broken").await.unwrap();
    assert_eq!(conditions::find(&broken["status"], "Synced").unwrap()["status"], "False");
    let place = Place::new(names::API_VERSION, "postcreatehooks", "", "broken");
    api::merge(&f.client, &place, "", &json!({"spec": {"templates": [map("mended", json!({}))]}}))
        .await
        .unwrap();
    f.until_ready("cp-broken").await;
    assert!(f.get("v1", "configmaps", "cp-broken-system", "mended").await.is_some());
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_is_applied_once_and_later_ones_when_they_are_added() {
    let f = Fixture::new().await;
    f.hook("one", json!({"templates": [map("one", json!({"v": "1"}))]})).await;
    f.create_plane("cp1", json!({"type": "k8s", "postCreateHooks": [{"hookName": "one"}]})).await;
    completed(&f, "cp1").await;
    // Edited later: what has been applied stays as it is.
    let place = Place::new(names::API_VERSION, "postcreatehooks", "", "one");
    api::merge(&f.client, &place, "", &json!({"spec": {"templates": [map("one", json!({"v": "2"}))]}}))
        .await
        .unwrap();
    f.settle().await;
    assert_eq!(data(&f, "cp1", "one").await, json!({"v": "1"}));
    // The next control plane gets the new one.
    f.create_plane("cp2", json!({"type": "k8s", "postCreateHooks": [{"hookName": "one"}]})).await;
    completed(&f, "cp2").await;
    assert_eq!(data(&f, "cp2", "one").await, json!({"v": "2"}));
    f.hook("two", json!({"templates": [map("two", json!({}))]})).await;
    f.patch("cp1", json!({"spec": {"postCreateHook": "two"}})).await.unwrap();
    f.until("the added hook is applied", async |f| f.get("v1", "configmaps", "cp1-system", "two").await)
        .await;
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_all_kinds_without_a_namespace_go_with_their_control_plane() {
    let f = Fixture::new().await;
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "{{.ControlPlaneName}}-role"},
        "rules": [],
    });
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "{{.ControlPlaneName}}-class"}, "value": 5,
    });
    // The custom resource comes in the same pass as its definition.
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "thing"}});
    f.hook("wide", json!({"templates": [crd, role, class, thing]})).await;
    f.create_plane("cp1", json!({"type": "k8s", "waitForPostCreateHooks": true, "postCreateHook": "wide"}))
        .await;
    f.until_ready("cp1").await;
    let all = [
        ("apiextensions.k8s.io/v1", "customresourcedefinitions", "things.example.com"),
        ("rbac.authorization.k8s.io/v1", "clusterroles", "cp1-role"),
        ("scheduling.k8s.io/v1", "priorityclasses", "cp1-class"),
    ];
    for (version, plural, name) in all {
        let object = f.get(version, plural, "", name).await.unwrap();
        assert_eq!(meta::labels(&object).unwrap()["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!(meta::annotation(&object, "meta.helm.sh/release-namespace"), Some("cp1-system"));
    }
    assert!(f.get("example.com/v1", "things", "", "thing").await.is_some());
    f.delete_plane("cp1").await;
    f.until_gone("cp1").await;
    for (version, plural, name) in all {
        f.until(&format!("{name} is gone"), async |f| {
            f.get(version, plural, "", name).await.is_none().then_some(())
        })
        .await;
    }
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_go_into_the_new_control_plane() {
    let f = Fixture::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-{{.Team}}"}});
    let quota = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of", "namespace": "team-{{.Team}}"},
        "data": {"cp": "{{.ControlPlaneName}}"},
    });
    let steps = json!([
        {"templates": [namespace, quota, map("plain", json!({}))]},
        {"target": "HostingControlPlane", "templates": [map("outside", json!({}))]},
    ]);
    f.hook("team", json!({ "steps": steps })).await;
    let uses = json!([{"hookName": "team", "vars": {"Team": "a"}}]);
    f.create_plane("cp1", json!({"type": "k8s", "waitForPostCreateHooks": true, "postCreateHooks": uses}))
        .await;
    f.until_ready("cp1").await;
    let tenant = f.tenant("cp1");
    let found = api::get(&tenant, &Place::new("v1", "configmaps", "team-a", "of")).await.unwrap().unwrap();
    assert_eq!(found["data"]["cp"], "cp1");
    assert!(meta::labels(&found).is_none());
    assert!(api::get(&tenant, &Place::new("v1", "configmaps", "default", "plain")).await.unwrap().is_some());
    assert!(f.get("v1", "configmaps", "cp1-system", "outside").await.is_some());
    assert!(f.get("v1", "namespaces", "", "team-a").await.is_none());
    f.close().await;
}
