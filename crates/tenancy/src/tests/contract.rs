//! Rows of KubeFlex's contract about objects and their status that no other scenario goes through.

use objects::{Value, meta};
use serde_json::json;

use super::fixture::{Fixture, settings};
use crate::api::{self, Place};
use crate::{conditions, names};

#[test]
fn the_definitions_are_kubeflexs() {
    for (definition, kind, plural, singular, short) in [
        (0, "ControlPlane", "controlplanes", "controlplane", ["cp", "cps"]),
        (1, "PostCreateHook", "postcreatehooks", "postcreatehook", ["pch", "pchs"]),
    ] {
        let definition = &crate::definitions()[definition];
        let names = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular, "shortNames": short,
        });
        assert_eq!(meta::name(definition), format!("{plural}.tenancy.kflex.kubestellar.org"));
        let spec = &definition["spec"];
        assert_eq!((&spec["names"], &spec["scope"]), (&names, &json!("Cluster")));
        let [version] = &spec["versions"].as_array().unwrap()[..] else { panic!("one version: {spec}") };
        assert_eq!(
            (&version["name"], &version["subresources"]),
            (&json!("v1alpha1"), &json!({"status": {}}))
        );
        assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
        assert_eq!(spec.get("conversion"), None);
        let condition = |kind: &str| format!(".status.conditions[?(@.type==\"{kind}\")].status");
        let columns = json!([
            {"name": "SYNCED", "type": "string", "jsonPath": condition("Synced")},
            {"name": "READY", "type": "string", "jsonPath": condition("Ready")},
            {"name": "TYPE", "type": "string", "jsonPath": ".spec.type"},
            {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]);
        assert_eq!(version["additionalPrinterColumns"], columns, "{kind}");
    }
}

#[test]
fn the_hook_that_comes_with_it() {
    let [hook] = &crate::built_in_hooks()[..] else { panic!("one hook") };
    assert_eq!(meta::name(hook), "openshift-crds");
    assert_eq!(meta::labels(hook).unwrap()["kflex.kubestellar.io/flavor"], "openshift");
    let job = &hook["spec"]["templates"][0];
    assert_eq!((meta::kind(job), meta::name(job)), ("Job", "{{.HookName}}"));
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "admin-kubeconfig");
    let environment = pod["containers"][0]["env"].as_array().unwrap();
    assert!(environment.contains(&json!({"name": "KUBECONFIG", "value": "/etc/kube/kubeconfig-incluster"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_not_as_their_schema_says_are_refused() {
    let f = Fixture::new().await;
    let object = |kind: &str, spec: Value| json!({"apiVersion": names::API_VERSION, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let without = |field: &str| {
        let mut template = map.clone();
        template.as_object_mut().unwrap().remove(field);
        json!({"templates": [template]})
    };
    for (wrong, why) in [
        (
            object(
                "ControlPlane",
                json!({"type": "external", "bootstrapSecretRef": {"name": "a", "namespace": "b"}}),
            ),
            "spec.bootstrapSecretRef.inClusterKey: Required value",
        ),
        (
            object("ControlPlane", json!({"type": "k8s", "globalVars": {"a": 1}})),
            "spec.globalVars.a: Invalid value",
        ),
        (
            object("ControlPlane", json!({"type": "k8s", "waitForPostCreateHooks": "yes"})),
            "spec.waitForPostCreateHooks: Invalid value",
        ),
        (object("PostCreateHook", without("apiVersion")), "spec.templates[0].apiVersion: Required value"),
        (object("PostCreateHook", without("kind")), "spec.templates[0].kind: Required value"),
        (
            object("PostCreateHook", json!({"defaultVars": [{"name": "a"}]})),
            "spec.defaultVars[0].value: Required value",
        ),
        (
            object("PostCreateHook", json!({"defaultVars": [{"value": "a"}]})),
            "spec.defaultVars[0].name: Required value",
        ),
    ] {
        let error = f.try_create(wrong.clone()).await.unwrap_err().to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
    // Only the type is required within a spec, and a spec is not; both lists of a hook may be missing.
    f.create(json!({"apiVersion": names::API_VERSION, "kind": "ControlPlane", "metadata": {"name": "bare"}}))
        .await;
    f.until_ready("bare").await;
    f.create(object("PostCreateHook", json!({}))).await;

    // Of a condition nothing may be missing.
    let whole = json!({
        "type": "Synced", "status": "True", "reason": "ReconcileSuccess", "message": "",
        "lastUpdateTime": "2026-01-31T12:00:00Z", "lastTransitionTime": "2026-01-31T12:00:00Z",
    });
    let hook = Place::new(names::API_VERSION, "postcreatehooks", "", "a");
    for field in whole.as_object().unwrap().keys() {
        let mut condition = whole.clone();
        condition.as_object_mut().unwrap().remove(field);
        let status = json!({"conditions": [condition], "observedGeneration": 1});
        let error = api::replace_status(&f.client, &hook, &status).await.unwrap_err().to_string();
        assert!(error.contains(&format!("status.conditions[0].{field}: Required value")), "{error}");
    }
    for (status, missing) in
        [(json!({"conditions": []}), "observedGeneration"), (json!({"observedGeneration": 1}), "conditions")]
    {
        let error = api::replace_status(&f.client, &hook, &status).await.unwrap_err().to_string();
        assert!(error.contains(&format!("status.{missing}: Required value")), "{error}");
    }
    f.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_the_operators_and_about_the_object() {
    let f = Fixture::new().await;
    f.create_plane("cp1", json!({"type": "k8s"})).await;
    let cp = f.until_ready("cp1").await;
    let list = api::get_path(&f.client, "/api/v1/namespaces/default/events").await.unwrap();
    let event = list["items"].as_array().unwrap().iter().find(|one| one["reason"] == "SyncSuccess").unwrap();
    let about = &event["involvedObject"];
    assert_eq!(
        (&about["kind"], &about["name"], &about["uid"]),
        (&json!("ControlPlane"), &json!("cp1"), &json!(meta::uid(&cp)))
    );
    assert_eq!(event["source"]["component"], "kubeflex-controlplane-controller");
    assert_eq!((&event["type"], &event["message"]), (&json!("Normal"), &json!("")));
    f.close().await;
}

#[test]
fn a_control_plane_is_found_by_its_namespace() {
    for (namespace, expected) in [
        ("cp1-system", Some("cp1")),
        ("a-system-system", Some("a-system")),
        ("-system", None),
        ("system", None),
    ] {
        assert_eq!(names::control_plane_of(namespace), expected, "{namespace}");
    }
    assert_eq!(names::namespace("cp1"), "cp1-system");
}

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
    assert!(conditions::is_true(&cp["status"], conditions::REFUSED), "only a change can help");
    let ready = conditions::find(&cp["status"], "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["lastTransitionTime"]), (&json!("True"), &since));
    assert_eq!(cp["status"]["observedGeneration"], meta::generation(&cp));
    f.patch("cp1", json!({"spec": {"store": null}})).await.unwrap();
    f.until_condition("cp1", "Synced", "True", "ReconcileSuccess").await;
    let cp = f.plane("cp1").await.unwrap();
    assert_eq!(conditions::find(&cp["status"], conditions::REFUSED), None);
    f.close().await;
}
