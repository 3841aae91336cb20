//! What an object follows beside itself, and what it takes for an edit.

use std::time::Duration;

use objects::meta;
use serde_json::{Value as Json, json};

use super::plane::*;

/// Gives the engine time to do what it should not do.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(700)).await;
}

async fn has_event(plane: &Plane, reason: &str) -> bool {
    let events =
        plane.send(http::Method::GET, "/api/v1/namespaces/default/events", &json!({})).await.unwrap();
    events["items"].as_array().unwrap().iter().any(|event| event["reason"] == reason)
}

/// Whoever edits a Secret or a ConfigMap that values come from wants them, whatever is done about drift.
#[tokio::test]
async fn an_edit_of_what_values_come_from_is_no_drift() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.secret("own", "resource", json!({"secret": "hush-one"})).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}, "data": {"note": "a"}});
    plane.create("configmaps", map).await;
    let from = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "path": "data.note"});
    let mut one = thing(
        "one",
        json!({"resource": {"name": "one", "size": 3}, "references": [{"field": "note", "from": from}],
            "secretRef": {"name": "own"}}),
    );
    one["metadata"]["annotations"] = json!({"hangar.dev/drift-policy": "report"});
    plane.create(THINGS, one).await;
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things()[0]["note"], "a");
    plane.patch("configmaps", "notes", json!({"data": {"note": "b"}})).await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["note"] == "b").await;
    let object = plane.current(THINGS, "one").await;
    let edit = json!({"stringData": {"resource": json!({"secret": "hush-two"}).to_string()}});
    plane.patch("secrets", "own", edit).await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["secret"] == "hush-two").await;
    assert!(!plane.get(THINGS, "one").await.unwrap().to_string().contains("hush"));
    assert!(!has_event(&plane, "DriftDetected").await);
    // What nobody edited is still drift.
    let id = object["spec"]["resource"]["id"].as_str().unwrap();
    let file = plane.world.cloud.path().join(format!("{id}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"size\":3", "\"size\":99")).unwrap();
    plane.nudge(THINGS, "one").await;
    plane.until(THINGS, "one", |object| message(object.unwrap(), "Ready").contains("drifted")).await;
    assert_eq!(plane.world.things()[0]["size"], 99);
}

/// Each keeps what is secret of it, and nobody is woken by what it or the other writes.
#[tokio::test]
async fn two_objects_with_one_secret() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.secret("shared", "resource", json!({"secret": "hush-hush"})).await;
    for name in ["one", "two"] {
        plane.thing(name, json!({"resource": {"name": name}, "secretRef": {"name": "shared"}})).await;
    }
    for name in ["one", "two"] {
        plane.current(THINGS, name).await;
        plane.nudge(THINGS, name).await;
    }
    let version = async || meta::resource_version(&plane.get("secrets", "shared").await.unwrap()).to_owned();
    plane.rest().await;
    let before = version().await;
    settle().await;
    assert_eq!(version().await, before, "they rest");
    let mut kept = Vec::new();
    for name in ["shared", "one-shelf-sensitive", "two-shelf-sensitive"] {
        let secret = plane.get("secrets", name).await;
        kept.extend(secret.and_then(|secret| secret_value(&secret, "state")));
    }
    let mut tokens: Vec<Json> = plane.world.things().iter().map(|thing| thing["token"].clone()).collect();
    tokens.retain(|token| kept.iter().any(|kept| kept.contains(token.as_str().unwrap())));
    assert_eq!(tokens.len(), 2, "{kept:?}");
    // An input that both have is an edit of both.
    let edit = json!({"stringData": {"resource": json!({"secret": "hush-again"}).to_string()}});
    plane.patch("secrets", "shared", edit).await;
    let edited = |_: Option<&Json>| plane.world.things().iter().all(|thing| thing["secret"] == "hush-again");
    plane.until(THINGS, "one", edited).await;
}

/// Another Secret, or other names in it: what is said is taken from there, and nothing secret stays where it was.
#[tokio::test]
async fn another_secret() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.secret("first", "resource", json!({"secret": "hush-one"})).await;
    plane.secret("second", "input", json!({"secret": "hush-two"})).await;
    let is = |secret: &'static str| {
        let plane = &plane;
        move |_: Option<&Json>| plane.world.things()[0]["secret"] == secret
    };
    plane.thing("one", json!({"resource": {"name": "one"}, "secretRef": {"name": "first"}})).await;
    plane.current(THINGS, "one").await;
    // The words of the other generation in place of its own.
    let edit = json!({"data": {"resource": null}, "stringData": {"input": json!({"secret": "hush-three"}).to_string()}});
    plane.patch("secrets", "first", edit).await;
    plane.until(THINGS, "one", is("hush-three")).await;
    let kept = async |name: &str, key: &str| {
        let secret = plane.get("secrets", name).await;
        secret.and_then(|secret| secret_value(&secret, key)).is_some()
    };
    assert!(kept("first", "state").await && !kept("first", "output").await);
    for (patch, secret, kept_in, left) in [
        (json!({"name": "second"}), Some("hush-two"), ("second", "output"), ("first", "state")),
        (Json::Null, None, ("one-shelf-sensitive", "state"), ("second", "output")),
        (json!({"name": "first"}), Some("hush-three"), ("first", "output"), ("one-shelf-sensitive", "state")),
    ] {
        plane.patch(THINGS, "one", json!({"spec": {"secretRef": patch}})).await;
        if let Some(secret) = secret {
            plane.until(THINGS, "one", is(secret)).await;
        }
        plane.current(THINGS, "one").await;
        assert!(kept(kept_in.0, kept_in.1).await, "{kept_in:?}");
        assert!(!kept(left.0, left.1).await, "{left:?}");
    }
    for name in ["first", "second"] {
        assert!(kept(name, "input").await, "what a user wrote stays");
    }
}

/// The Secret that was made for an object is as good as one that it names.
#[tokio::test]
async fn the_secret_that_was_made_is_followed() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.current(THINGS, "one").await;
    plane.delete("secrets", "one-shelf-sensitive").await;
    let there = |secret: Option<&Json>| secret.and_then(|secret| secret_value(secret, "state")).is_some();
    plane.until("secrets", "one-shelf-sensitive", there).await;
    let edit = json!({"stringData": {"resource": json!({"secret": "hush-hush"}).to_string()}});
    plane.patch("secrets", "one-shelf-sensitive", edit).await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["secret"] == "hush-hush").await;
    // Once there are arguments in it, the object names it: without it, they would be lost.
    let named = |thing: Option<&Json>| {
        thing.is_some_and(|thing| thing["spec"]["secretRef"]["name"] == "one-shelf-sensitive")
    };
    plane.until(THINGS, "one", named).await;
}

/// A manifest knows nothing of what the controller wrote; the resource is still this object's.
#[tokio::test]
async fn a_manifest_that_replaces_the_object() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one", "size": 1}})).await;
    let before = plane.current(THINGS, "one").await;
    plane.replace(THINGS, "one", thing("one", json!({"resource": {"name": "one", "size": 2}}))).await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["size"] == 2).await;
    let after = plane.current(THINGS, "one").await;
    for field in ["/spec/resource/id", "/metadata/finalizers", "/spec/state/id"] {
        assert_eq!(after.pointer(field), before.pointer(field), "{field}");
    }
    assert!(has_event(&plane, "Reclaimed").await);
    plane.delete(THINGS, "one").await;
    plane.gone(THINGS, "one").await;
    assert!(plane.world.things().is_empty());
}

/// What is only looked at shows what it sees, so that others can refer to it.
#[tokio::test]
async fn what_is_only_looked_at_can_be_referred_to() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("made", json!({"resource": {"name": "made", "note": "of old"}})).await;
    let id = plane.current(THINGS, "made").await["spec"]["resource"]["id"].clone();
    let mut seen = thing("seen", json!({"resource": {"id": id}}));
    seen["metadata"]["annotations"] = json!({"hangar.dev/observe-only": "true"});
    plane.create(THINGS, seen).await;
    plane.current(THINGS, "seen").await;
    let from = json!({"apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing", "name": "seen",
        "path": "spec.state.note"});
    let references = json!([{"field": "note", "from": from}]);
    plane.thing("other", json!({"resource": {"name": "other"}, "references": references})).await;
    let other = plane.current(THINGS, "other").await;
    assert_eq!(other["spec"]["state"]["note"], "of old");
    // A look that finds nothing new writes nothing.
    let before = plane.get(THINGS, "seen").await.unwrap()["metadata"]["generation"].clone();
    plane.nudge(THINGS, "seen").await;
    settle().await;
    assert_eq!(plane.get(THINGS, "seen").await.unwrap()["metadata"]["generation"], before);
}
