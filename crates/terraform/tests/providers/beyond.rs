//! What Kubeform lacks: outputs, deletion in order, replacements with the new one first, approval.

use serde_json::{Value as Json, json};

use super::plane::*;

#[tokio::test]
async fn outputs_for_others() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let output = |path: &str, kind: &str, name: &str, key: &str| json!({"path": path, "to": {"kind": kind, "name": name, "key": key}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}, "data": {"own": "x"}});
    plane.create("configmaps", map).await;
    let outputs = json!([
        output("privateIPAddress", "ConfigMap", "theirs", "address"),
        output("rule.0.port", "ConfigMap", "theirs", "port"),
        output("token", "Secret", "made", "token"),
    ]);
    plane
        .thing("one", json!({"resource": {"name": "one", "rule": [{"port": 80}]}, "outputs": outputs}))
        .await;
    plane.current(THINGS, "one").await;
    let theirs = plane.get("configmaps", "theirs").await.unwrap();
    assert_eq!(theirs["data"], json!({"own": "x", "address": "10.0.0.1", "port": "80"}));
    assert!(theirs["metadata"].get("ownerReferences").is_none(), "what is there belongs to others");
    let made = plane.get("secrets", "made").await.unwrap();
    assert!(secret_value(&made, "token").unwrap().starts_with("token of thing-"));
    assert_eq!(made["metadata"]["ownerReferences"][0]["name"], "one");
    // Another object's values come beside it; what is already there is left alone.
    plane
        .thing(
            "two",
            json!({"resource": {"name": "two"}, "outputs": [output("note", "ConfigMap", "theirs", "note")]}),
        )
        .await;
    plane.current(THINGS, "two").await;
    plane
        .thing(
            "three",
            json!({"resource": {"name": "three"}, "outputs": [output("note", "ConfigMap", "theirs", "own")]}),
        )
        .await;
    plane.failed(THINGS, "three", "ConfigMap default/theirs has a value of somebody else's").await;
    plane
        .patch(
            THINGS,
            "three",
            json!({"spec": {"outputs": [output("token", "ConfigMap", "theirs", "token")]}}),
        )
        .await;
    let object = plane.failed(THINGS, "three", "token is secret and cannot go into a ConfigMap").await;
    assert!(!object.to_string().contains("token of"));
    let nowhere = json!([output("rule.0.prot", "ConfigMap", "theirs", "port")]);
    plane.patch(THINGS, "three", json!({"spec": {"outputs": nowhere}})).await;
    plane.failed(THINGS, "three", "rule.0.prot is nothing that the resource could have").await;
    // An edit changes what is written, and what is no longer wanted goes.
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"rule": [{"port": 81}]}, "outputs": [output("rule.0.port", "ConfigMap", "theirs", "port")]}})).await;
    let changed =
        |object: Option<&Json>| object.unwrap()["data"] == json!({"own": "x", "port": "81", "note": "none"});
    plane.until("configmaps", "theirs", changed).await;
    plane
        .until("secrets", "made", |secret| {
            secret.is_none_or(|secret| secret_value(secret, "token").is_none())
        })
        .await;
    for name in ["one", "two"] {
        plane.delete(THINGS, name).await;
        plane.gone(THINGS, name).await;
    }
    assert_eq!(plane.get("configmaps", "theirs").await.unwrap()["data"], json!({"own": "x"}));
}

#[tokio::test]
async fn values_of_secrets() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let outputs = json!([{"path": "token", "to": {"kind": "Secret", "name": "made", "key": "token"}}]);
    plane.thing("one", json!({"resource": {"name": "one"}, "outputs": outputs})).await;
    plane.current(THINGS, "one").await;
    let reference = |field: &str, kind: &str, path: &str| json!([{"field": field, "from": {"apiVersion": "v1", "kind": kind, "name": "made", "path": path}}]);
    let references = reference("secret", "Secret", "data.token");
    plane.thing("two", json!({"resource": {"name": "two"}, "references": references})).await;
    let object = plane.current(THINGS, "two").await;
    let things = plane.world.things();
    let two = things.iter().find(|thing| thing["name"] == "two").unwrap();
    assert!(two["secret"].as_str().unwrap().starts_with("token of thing-"), "{two}");
    assert!(!object.to_string().contains("token of"));
    // What would be seen is refused; what is no secret is not.
    let edit = |references: Json| plane.patch(THINGS, "two", json!({"spec": {"references": references}}));
    edit(reference("note", "Secret", "data.token")).await;
    plane.failed(THINGS, "two", "note is not kept secret and cannot come from a Secret").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"note": "plain"}});
    plane.create("configmaps", map).await;
    edit(reference("note", "ConfigMap", "data.note")).await;
    let plain = |object: Option<&Json>| object.unwrap()["spec"]["state"]["note"] == "plain";
    plane.until(THINGS, "two", plain).await;
}

#[tokio::test]
async fn what_others_refer_to_goes_after_them() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("net", json!({"resource": {"name": "net"}})).await;
    plane.current(THINGS, "net").await;
    let from = |name: &str| json!({"apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing", "name": name});
    let references = |name: &str| json!([{"field": "note", "from": from(name)}]);
    plane.thing("one", json!({"resource": {"name": "one"}, "references": references("net")})).await;
    plane.current(THINGS, "one").await;
    plane.delete(THINGS, "net").await;
    let says = |text: &'static str| {
        move |object: Option<&Json>| object.is_some_and(|object| message(object, "Ready").contains(text))
    };
    plane.until(THINGS, "net", says("default/one still refers to it")).await;
    assert_eq!(plane.world.things().len(), 2);
    plane.delete(THINGS, "one").await;
    plane.gone(THINGS, "net").await;
    assert!(plane.world.things().is_empty());
    // In a circle, nobody waits for the other.
    plane.thing("hen", json!({"resource": {"name": "hen"}})).await;
    plane.current(THINGS, "hen").await;
    plane.thing("egg", json!({"resource": {"name": "egg"}, "references": references("hen")})).await;
    plane.current(THINGS, "egg").await;
    plane.patch(THINGS, "hen", json!({"spec": {"references": references("egg")}})).await;
    plane.current(THINGS, "hen").await;
    for name in ["hen", "egg"] {
        plane.delete(THINGS, name).await;
    }
    for name in ["hen", "egg"] {
        plane.gone(THINGS, name).await;
    }
    assert!(plane.world.things().is_empty());
}

#[tokio::test]
async fn the_new_one_first() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let mut object = thing("one", json!({"resource": {"name": "one"}}));
    object["metadata"]["annotations"] = json!({"hangar.dev/replace-policy": "create-first"});
    plane.create(THINGS, object).await;
    let old = plane.current(THINGS, "one").await["spec"]["resource"]["id"].clone();
    // Nothing comes of the new one: the old one stays.
    plane.world.fault("ApplyResourceChange: refuse-create");
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"name": "two"}}})).await;
    plane.failed(THINGS, "one", "the shelf is full").await;
    assert_eq!(plane.world.things()[0]["id"], old);
    // It is made, and the old one cannot be deleted: both are there, and known.
    plane.world.fault("ApplyResourceChange: refuse-delete");
    plane.failed(THINGS, "one", "the shelf is high").await;
    let things = plane.world.things();
    assert_eq!(things.len(), 2);
    plane.world.fault("");
    plane.nudge(THINGS, "one").await;
    let object = plane.current(THINGS, "one").await;
    let things = plane.world.things();
    assert_eq!((things.len(), &things[0]["name"]), (1, &json!("two")));
    assert_ne!(things[0]["id"], old);
    assert_eq!(object["spec"]["resource"]["id"], things[0]["id"]);
    plane.delete(THINGS, "one").await;
    plane.gone(THINGS, "one").await;
    assert!(plane.world.things().is_empty());
}

#[tokio::test]
async fn nothing_without_approval() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let mut object = thing("one", json!({"resource": {"name": "one", "size": 1}}));
    object["metadata"]["annotations"] = json!({"hangar.dev/approval": "required"});
    plane.create(THINGS, object).await;
    let approve = async || {
        let waits = |object: Option<&Json>| {
            object.is_some_and(|object| message(object, "Advisory").contains("to approve"))
        };
        let object = plane.until(THINGS, "one", waits).await.unwrap();
        let said = message(&object, "Advisory");
        let fingerprint = said.rsplit(" to ").nth(1).unwrap().rsplit(' ').next().unwrap().to_owned();
        let annotations = json!({"hangar.dev/approved-plan": fingerprint});
        plane.patch(THINGS, "one", json!({"metadata": {"annotations": annotations}})).await;
        plane.current(THINGS, "one").await;
    };
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(plane.world.things().is_empty());
    approve().await;
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"size": 2}}})).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(plane.world.things()[0]["size"], json!(1));
    approve().await;
    assert_eq!(plane.world.things()[0]["size"], json!(2));
}
