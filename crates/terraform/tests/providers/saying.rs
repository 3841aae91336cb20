//! What a provider says beside its answers: warnings, and that it is too early to ask.

use objects::Value as Json;
use serde_json::json;
use terraform::module::kinds::MODULES;

use super::plane::*;

async fn warnings(plane: &Plane) -> Vec<Json> {
    let events =
        plane.send(http::Method::GET, "/api/v1/namespaces/default/events", &json!({})).await.unwrap();
    let events = events["items"].as_array().unwrap().iter();
    events.filter(|event| event["reason"] == "ProviderWarning").cloned().collect()
}

/// As Terraform shows them; once, however often a resource is looked at, and without secrets.
#[tokio::test]
async fn warnings_are_events() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.secret("own", "resource", json!({"secret": "hush-hush"})).await;
    let calls = ["ValidateResourceTypeConfig", "PlanResourceChange", "ApplyResourceChange", "ReadResource"];
    plane.world.fault(&calls.map(|call| format!("{call}: warn")).join("\n"));
    let spec = json!({"resource": {"name": "one", "size": 1}, "secretRef": {"name": "own"}});
    plane.thing("one", spec).await;
    plane.current(THINGS, "one").await;
    for _ in 0..2 {
        plane.look(THINGS, "one").await;
        plane.rest().await;
    }
    let told = warnings(&plane).await;
    let mut messages: Vec<&str> = told.iter().map(|event| event["message"].as_str().unwrap()).collect();
    messages.sort_unstable();
    let expected = ["applied", "planned", "read", "validated"];
    let expected = expected.map(|when| format!("spec.resource.size: {when}: (sensitive) is old"));
    assert_eq!(messages, expected);
    for event in told {
        assert_eq!((&event["type"], &event["count"]), (&json!("Warning"), &json!(1)), "{event:#}");
        assert_eq!(
            (&event["involvedObject"]["kind"], &event["involvedObject"]["name"]),
            (&json!("Thing"), &json!("one"))
        );
    }
}

/// Also of what is taken over, by its id or as another version of the provider left it.
#[tokio::test]
async fn warnings_of_imports_and_upgrades() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("first", json!({"resource": {"name": "one", "size": 1}})).await;
    plane.current(THINGS, "first").await;
    let retain = json!({"metadata": {"annotations": {"hangar.dev/deletion-policy": "retain"}}});
    plane.patch(THINGS, "first", retain).await;
    plane.delete(THINGS, "first").await;
    plane.gone(THINGS, "first").await;
    let there = plane.world.things().remove(0);
    plane.secret("left", "instance", json!({"schema_version": 0, "attributes": there})).await;
    for (call, annotation, value, says) in [
        ("ImportResourceState", "hangar.dev/import-id", there["id"].as_str().unwrap(), "imported"),
        ("UpgradeResourceState", "hangar.dev/import-state", "left", "upgraded"),
    ] {
        plane.world.fault(&format!("{call}: warn"));
        let mut object = thing(says, json!({"resource": {"name": "one", "size": 1}}));
        let annotations = json!({annotation: value, "hangar.dev/deletion-policy": "retain"});
        object["metadata"]["annotations"] = annotations;
        plane.create(THINGS, object).await;
        plane.current(THINGS, says).await;
        plane.delete(THINGS, says).await;
        plane.gone(THINGS, says).await;
        let told = warnings(&plane).await;
        let own = told.iter().find(|event| event["involvedObject"]["name"] == says).unwrap();
        assert_eq!(own["message"], format!("spec.resource.size: {says}: nothing is old"));
    }
    assert_eq!(plane.world.things(), [there]);
}

/// Those of data are told on the module that reads it.
#[tokio::test]
async fn warnings_of_data() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.world.fault("ReadDataSource: warn");
    let text =
        "data \"shelf_count\" \"all\" {}\noutput \"count\" {\n  value = data.shelf_count.all.count\n}\n";
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"main.tf": text},
    });
    plane.create("configmaps", map).await;
    let module = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "shop"},
        "spec": {"providerRef": {"name": "shelf"}, "moduleRef": {"configMap": {"name": "shop"}}},
    });
    plane.create(MODULES, module).await;
    plane.current(MODULES, "shop").await;
    let before = plane.asked("ReadDataSource");
    plane.nudge(MODULES, "shop").await;
    plane.until(MODULES, "shop", |_| plane.asked("ReadDataSource") > before).await;
    plane.rest().await;
    let told = warnings(&plane).await;
    let [event] = told.as_slice() else { panic!("{told:#?}") };
    assert_eq!(event["message"], "data.shelf_count.all: size: counted: nothing is old");
    let about = &event["involvedObject"];
    assert_eq!(
        (&about["kind"], &about["name"], &event["count"]),
        (&json!("Module"), &json!("shop"), &json!(1))
    );
}

/// A provider may put off what it is asked: that is said, nothing is done, and it is asked again.
#[tokio::test]
async fn what_is_put_off_is_asked_again() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let waits = |call: &'static str| {
        move |object: Option<&Json>| {
            let says = format!("the provider puts {call} off: something that it needs does not exist yet");
            let ready = |object: &Json| {
                let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                all.into_iter().find(|one| one["type"] == "Ready").unwrap_or_default()
            };
            object.is_some_and(|object| {
                ready(object)["reason"] == "Waiting" && message(object, "Ready").contains(&says)
            })
        }
    };
    plane.world.fault("PlanResourceChange: defer");
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.until(THINGS, "one", waits("PlanResourceChange")).await;
    assert!(plane.world.things().is_empty());
    plane.world.fault("");
    // By itself: nobody touches the object.
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things().len(), 1);
    // What cannot be looked at is not taken for gone.
    plane.world.fault("ReadResource: defer");
    plane.delete(THINGS, "one").await;
    plane.until(THINGS, "one", waits("ReadResource")).await;
    assert_eq!(plane.world.things().len(), 1);
    plane.world.fault("");
    plane.nudge(THINGS, "one").await;
    plane.gone(THINGS, "one").await;
    assert!(plane.world.things().is_empty());
}
