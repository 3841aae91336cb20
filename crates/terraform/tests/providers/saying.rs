//! What a provider says beside its answers: warnings, and that it is too early to ask.

use objects::Value as Json;
use serde_json::json;

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
