//! Kubeform's contract, on a real server with a real provider process: the ten steps of its architecture page, what it
//! leaves behind, and what it lacks.

use http::Method;
use serde_json::{Value as Json, json};

use super::plane::*;

#[tokio::test]
async fn objects_of_the_same_name_have_their_own_secrets() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.current(THINGS, "one").await;
    let other = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Resource", "metadata": {"name": "one"},
        "spec": {
            "provider": "shelf", "type": "shelf_thing", "providerRef": {"name": "shelf"}, "resource": {"name": "two"},
        },
    });
    let resources = "resources.terraform.hangar.dev";
    plane.create(resources, other).await;
    plane.current(resources, "one").await;
    for (kind, secret) in [(THINGS, "one-shelf-sensitive"), (resources, "one-shelf-thing-sensitive")] {
        let id = plane.get(kind, "one").await.unwrap()["spec"]["state"]["id"].clone();
        let secret = plane.get("secrets", secret).await.unwrap();
        let state: Json = serde_json::from_str(&secret_value(&secret, "state").unwrap()).unwrap();
        assert_eq!(state["token"], format!("token of {}", id.as_str().unwrap()), "{kind}");
    }
    plane.delete(resources, "one").await;
    plane.gone(resources, "one").await;
    let left = plane.get("secrets", "one-shelf-sensitive").await.unwrap();
    assert!(secret_value(&left, "state").is_some());
}

#[tokio::test]
async fn the_ten_steps() {
    let plane = Plane::new().await;
    // 1 and 2: the Secrets of the provider and of what is sensitive. 3: the resource.
    plane.provider_secret().await;
    plane.secret("sensitive", "input", json!({"secret": "Test@123"})).await;
    let phases = phases_of(&plane, "one");
    let spec = json!({
        "resource": {"name": "one", "size": 3, "rule": [{"port": 80}], "network": {"subnet": "s"}},
        "secretRef": {"name": "sensitive"},
    });
    plane.thing("one", spec).await;
    // 4 to 6: it is made, by the provider and with the secret value; the object says so.
    let object = plane.current(THINGS, "one").await;
    let things = plane.world.things();
    assert_eq!((things.len(), &things[0]["secret"]), (1, &json!("Test@123")));
    assert_eq!(object["spec"]["resource"]["id"], things[0]["id"]);
    let state = &object["spec"]["state"];
    assert_eq!((&state["note"], &state["rule"][0]["ID"]), (&json!("none"), &json!("r0")));
    assert_eq!(state["network"], json!({"subnet": "s"}));
    assert!(state.get("secret").is_none() && state.get("token").is_none());
    assert_eq!(object["metadata"]["finalizers"], json!(["shelf.kubeform.com/finalizer"]));
    // What is secret of the state stands beside what the user wrote, in the words of that generation.
    let secret = plane.get("secrets", "sensitive").await.unwrap();
    let output: Json = serde_json::from_str(&secret_value(&secret, "output").unwrap()).unwrap();
    assert_eq!(output["secret"], "Test@123");
    assert!(output["token"].as_str().unwrap().starts_with("token of thing-"));
    // 7: an edit. 8: an edit of the Secret. 9 and 10: deletion, and gone only after the destroy.
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"size": 4}}})).await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["size"] == json!(4)).await;
    let object = plane.current(THINGS, "one").await;
    assert_eq!(object["spec"]["state"]["size"], json!(4));
    plane.patch("secrets", "sensitive", json!({"stringData": {"input": "{\"secret\":\"other\"}"}})).await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["secret"] == json!("other")).await;
    plane.current(THINGS, "one").await;
    plane.world.fault("ApplyResourceChange: fail");
    plane.delete(THINGS, "one").await;
    plane.failed(THINGS, "one", "the shelf is out of order").await;
    assert_eq!(plane.world.things().len(), 1);
    plane.world.fault("");
    plane.gone(THINGS, "one").await;
    assert!(plane.world.things().is_empty());
    let secret = plane.get("secrets", "sensitive").await.unwrap();
    assert!(secret_value(&secret, "input").is_some() && secret_value(&secret, "output").is_none());
    let phases = phases.await.unwrap();
    let first: Vec<&str> = phases.iter().map(String::as_str).take(2).collect();
    assert_eq!(first, ["InProgress", "Current"]);
    assert!(phases.contains(&"Terminating".to_owned()), "{phases:?}");
    // Nothing secret anywhere in what was stored of the object.
    assert!(!object.to_string().contains("Test@123") && !object.to_string().contains("token of"));
}

/// Every phase that a watch sees, until the object is gone.
fn phases_of(plane: &Plane, name: &'static str) -> tokio::task::JoinHandle<Vec<String>> {
    use futures::StreamExt;
    let api: kube::Api<kube::core::DynamicObject> = kube::Api::namespaced_with(
        plane.client(),
        "default",
        &kube::core::ApiResource {
            group: "thing.shelf.kubeform.com".into(),
            version: "v1alpha1".into(),
            api_version: "thing.shelf.kubeform.com/v1alpha1".into(),
            kind: "Thing".into(),
            plural: "things".into(),
        },
    );
    tokio::spawn(async move {
        let mut phases: Vec<String> = Vec::new();
        let mut events = std::pin::pin!(api.watch(&Default::default(), "0").await.unwrap());
        while let Some(Ok(event)) = events.next().await {
            match event {
                kube::core::WatchEvent::Added(object) | kube::core::WatchEvent::Modified(object)
                    if object.metadata.name.as_deref() == Some(name) =>
                {
                    let phase = object.data["status"]["phase"].as_str().unwrap_or_default().to_owned();
                    if !phase.is_empty() && phases.last() != Some(&phase) {
                        phases.push(phase);
                    }
                }
                kube::core::WatchEvent::Deleted(_) => break,
                _ => {}
            }
        }
        phases
    })
}

#[tokio::test]
async fn a_secret_is_made_when_none_is_named() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    let object = plane.current(THINGS, "one").await;
    let secret = plane.get("secrets", "one-shelf-sensitive").await.unwrap();
    assert!(secret_value(&secret, "state").unwrap().contains("token of thing-"));
    let owner = &secret["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&object["metadata"]["uid"], &json!(true)));
    // The kept state is not to be read.
    let kept = plane.get("secrets", "one-things.thing.shelf-tfstate").await.unwrap();
    assert!(!secret_value(&kept, "state").unwrap().contains("token of"));
}

#[tokio::test]
async fn replacing() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one"}, "updatePolicy": "DoNotDestroy"})).await;
    let id = plane.current(THINGS, "one").await["spec"]["resource"]["id"].clone();
    // Refused at once, with whatever else the edit wants; other edits are not.
    let two = json!({"spec": {"resource": {"name": "two", "size": 2}}});
    let refused = plane.try_patch(THINGS, "one", two.clone()).await.unwrap_err().to_string();
    let says = "is forbidden: thing \"default/one\" immutable field can't be updated. To update, change \
        spec.updatePolicy to Destroy";
    assert!(refused.contains(says), "{refused}");
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"size": 3}}})).await;
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things()[0]["name"], "one");
    // A provider that cannot be asked keeps nobody from writing; nothing is replaced all the same.
    plane.world.fault("PlanResourceChange: fail");
    plane.patch(THINGS, "one", two).await;
    plane.failed(THINGS, "one", "the shelf is out of order").await;
    plane.world.fault("");
    plane.failed(THINGS, "one", "replace").await;
    assert_eq!(plane.world.things()[0]["name"], "one");
    plane.patch(THINGS, "one", json!({"spec": {"updatePolicy": "Destroy"}})).await;
    let object = plane.current(THINGS, "one").await;
    let things = plane.world.things();
    assert_eq!((things.len(), &things[0]["name"]), (1, &json!("two")));
    assert_ne!(object["spec"]["resource"]["id"], id);
    assert_eq!(object["spec"]["state"]["name"], "two");
}

#[tokio::test]
async fn what_kubeform_left_is_taken_over_without_a_change() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    // What is there, and what Kubeform wrote about it.
    plane.thing("maker", json!({"resource": {"name": "old", "size": 7, "rule": [{"port": 1}]}})).await;
    let made = plane.current(THINGS, "maker").await;
    let annotations = json!({"annotations": {"hangar.dev/deletion-policy": "retain"}});
    plane.patch(THINGS, "maker", json!({"metadata": annotations})).await;
    plane.delete(THINGS, "maker").await;
    plane.gone(THINGS, "maker").await;
    let before = plane.world.things();
    assert_eq!(before.len(), 1);
    plane.secret("old-sensitive", "output", json!({"token": before[0]["token"]})).await;
    let mut object = thing(
        "old",
        json!({
            "resource": {"name": "old", "size": 7, "rule": [{"port": 1}], "id": made["spec"]["resource"]["id"]},
            "state": made["spec"]["state"],
            "secretRef": {"name": "old-sensitive"},
        }),
    );
    object["metadata"]["finalizers"] = json!(["shelf.kubeform.com/finalizer"]);
    plane.world.fault("ApplyResourceChange: die");
    plane.create(THINGS, object).await;
    plane.current(THINGS, "old").await;
    assert_eq!(plane.world.things(), before);
}

#[tokio::test]
async fn imports() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("maker", json!({"resource": {"name": "x", "size": 7}})).await;
    let id = plane.current(THINGS, "maker").await["spec"]["resource"]["id"].clone();
    plane
        .patch(
            THINGS,
            "maker",
            json!({"metadata": {"annotations": {"hangar.dev/deletion-policy": "retain"}}}),
        )
        .await;
    plane.delete(THINGS, "maker").await;
    plane.gone(THINGS, "maker").await;
    let mut object = thing("mine", json!({"resource": {"name": "x", "size": 8}}));
    object["metadata"]["annotations"] = json!({"hangar.dev/import-id": id});
    plane.create(THINGS, object).await;
    let mine = plane.current(THINGS, "mine").await;
    let things = plane.world.things();
    assert_eq!((things.len(), &things[0]["size"]), (1, &json!(8)));
    assert_eq!(mine["spec"]["resource"]["id"], id);
    // One that is not there is not made.
    let mut object = thing("none", json!({"resource": {"name": "y"}}));
    object["metadata"]["annotations"] = json!({"hangar.dev/import-id": "nothing"});
    plane.create(THINGS, object).await;
    plane.failed(THINGS, "none", "there is no thing with this id").await;
    assert_eq!(plane.world.things().len(), 1);
    // A wish that it would have to be replaced for may be a slip.
    let before = plane.world.things();
    let mut object = thing("slip", json!({"resource": {"name": "z", "size": 8}}));
    object["metadata"]["annotations"] = json!({"hangar.dev/import-id": id});
    plane.create(THINGS, object).await;
    for _ in 0..2 {
        plane.failed(THINGS, "slip", "spec.resource.name cannot be changed in place").await;
        assert_eq!(plane.world.things(), before);
        plane.look(THINGS, "slip").await;
    }
    plane.patch(THINGS, "slip", json!({"spec": {"resource": {"name": "x"}}})).await;
    plane.current(THINGS, "slip").await;
    // With nothing but its id, the object is filled in with what is there.
    let retain = json!({"metadata": {"annotations": {"hangar.dev/deletion-policy": "retain"}}});
    for name in ["mine", "slip"] {
        plane.patch(THINGS, name, retain.clone()).await;
        plane.delete(THINGS, name).await;
        plane.gone(THINGS, name).await;
    }
    plane.thing("filled", json!({"resource": {"id": id}})).await;
    let filled = plane.current(THINGS, "filled").await;
    assert_eq!(
        (&filled["spec"]["resource"]["name"], &filled["spec"]["resource"]["size"]),
        (&json!("x"), &json!(8))
    );
    assert_eq!(plane.world.things().len(), 1);
}

#[tokio::test]
async fn drift_is_found_and_repaired() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one", "size": 3}})).await;
    let object = plane.current(THINGS, "one").await;
    let file =
        plane.world.cloud.path().join(format!("{}.json", object["spec"]["resource"]["id"].as_str().unwrap()));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"size\":3", "\"size\":99")).unwrap();
    plane.nudge(THINGS, "one").await;
    plane.until(THINGS, "one", |_| plane.world.things()[0]["size"] == json!(3)).await;
    // Gone altogether: made again.
    std::fs::remove_file(&file).unwrap();
    plane.nudge(THINGS, "one").await;
    plane.until(THINGS, "one", |_| plane.world.things().len() == 1).await;
    let made = plane.world.things()[0]["id"].clone();
    plane.until(THINGS, "one", |object| object.unwrap()["spec"]["resource"]["id"] == made).await;
}

#[tokio::test]
async fn what_can_be_wrong_is_said_and_passes() {
    let plane = Plane::new().await;
    let spec = json!({"resource": {"name": "one"}});
    plane.thing("one", spec.clone()).await;
    plane.failed(THINGS, "one", "Secret default/shelf does not exist").await;
    plane.secret("shelf", "other", json!({})).await;
    plane.failed(THINGS, "one", "Secret default/shelf has no key \"provider\"").await;
    let directory = plane.world.cloud.path().to_str().unwrap().to_owned();
    let config = |password: &str| json!({"directory": directory, "password": password}).to_string();
    plane.patch("secrets", "shelf", json!({"stringData": {"provider": config("wrong")}})).await;
    // What is sensitive is taken out of what the provider says.
    plane.failed(THINGS, "one", "the password is (sensitive)").await;
    let careless = json!({"directory": "/nowhere", "account_key": "AKIA-1234"}).to_string();
    plane.patch("secrets", "shelf", json!({"stringData": {"provider": careless}})).await;
    let object = plane.failed(THINGS, "one", "no such directory of the account (sensitive)").await;
    assert!(!object.to_string().contains("AKIA-1234"));
    plane.patch("secrets", "shelf", json!({"stringData": {"provider": config("hunter22")}})).await;
    plane.current(THINGS, "one").await;
    plane.patch(THINGS, "one", json!({"spec": {"secretRef": {"name": "none"}}})).await;
    plane.failed(THINGS, "one", "Secret default/none does not exist").await;
    plane.secret("none", "resource", json!({"no_such": 1})).await;
    plane.failed(THINGS, "one", "no_such: the provider has no such attribute").await;
    plane.patch(THINGS, "one", json!({"spec": {"secretRef": null}})).await;
    plane.current(THINGS, "one").await;
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"rule": [{"port": 0}]}}})).await;
    plane.failed(THINGS, "one", "0 is no port (spec.resource.rule[0].port)").await;
    assert_eq!(plane.world.things().len(), 1);
    // Fields that the provider has not are refused or dropped before anybody is asked.
    let wrong = plane.try_create(THINGS, thing("two", json!({"resource": {"size": "many"}}))).await;
    assert!(wrong.is_err());
    let gone = plane.send(Method::GET, "/apis/thing.shelf.kubeform.com/v1alpha1", &json!({})).await.unwrap();
    assert_eq!(gone["resources"][0]["name"], "things");
}

#[tokio::test]
async fn values_of_other_objects() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let from = json!({"apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing", "name": "net"});
    let spec = json!({
        "resource": {"name": "one"},
        "references": [{"field": "network.subnet", "from": from}, {"field": "note", "from": {
            "apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing", "name": "net", "path": "spec.state.note",
        }}],
    });
    plane.thing("one", spec).await;
    let object = plane.waits(THINGS, "one", "Thing net does not exist yet").await;
    assert_eq!(message(&object, "Stalled"), "");
    plane.thing("net", json!({"resource": {"name": "net", "note": "first"}})).await;
    let net = plane.current(THINGS, "net").await;
    let one = plane.current(THINGS, "one").await;
    assert_eq!(one["spec"]["state"]["network"]["subnet"], net["spec"]["resource"]["id"]);
    assert!(one["spec"]["resource"].get("network").is_none(), "what is wished stays as it was written");
    // A change of the one is a change of the other.
    plane.patch(THINGS, "net", json!({"spec": {"resource": {"note": "second"}}})).await;
    let changed = |object: Option<&Json>| object.unwrap()["spec"]["state"]["note"] == "second";
    plane.until(THINGS, "one", changed).await;
    // What is required can come from elsewhere; without any source it is missed at once.
    let from = json!({"apiVersion": "thing.shelf.kubeform.com/v1alpha1", "kind": "Thing", "name": "net"});
    let references = json!([{"field": "name", "from": from}]);
    assert!(plane.try_create(THINGS, thing("named", json!({"resource": {}}))).await.is_err());
    plane.thing("named", json!({"resource": {}, "references": references})).await;
    let named = plane.current(THINGS, "named").await;
    assert_eq!(named["spec"]["state"]["name"], net["spec"]["resource"]["id"]);
}

#[tokio::test]
async fn not_to_be_terminated() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one"}, "terminationPolicy": "DoNotTerminate"})).await;
    plane.current(THINGS, "one").await;
    let refused = plane.try_delete(THINGS, "one").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    let says =
        "thing \"default/one\" can't be terminated. To delete, change spec.terminationPolicy to Delete";
    assert!(refused.to_string().contains(says), "{refused}");
    // The kind of all types is no way around it.
    let kind = "resources.terraform.hangar.dev";
    let object = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Resource", "metadata": {"name": "two"},
        "spec": {
            "provider": "shelf", "type": "shelf_thing", "providerRef": {"name": "shelf"},
            "resource": {"name": "two"}, "terminationPolicy": "DoNotTerminate",
        },
    });
    plane.create(kind, object).await;
    assert!(plane.try_delete(kind, "two").await.is_err());
    assert!(plane.get(THINGS, "one").await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    plane.patch(THINGS, "one", json!({"spec": {"terminationPolicy": "Delete"}})).await;
    plane.delete(THINGS, "one").await;
    plane.gone(THINGS, "one").await;
}

#[tokio::test]
async fn one_kind_for_all_types() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let object = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Resource", "metadata": {"name": "one"},
        "spec": {
            "provider": "shelf", "type": "shelf_thing", "providerRef": {"name": "shelf"},
            "resource": {"name": "one", "size": 5},
        },
    });
    let kind = "resources.terraform.hangar.dev";
    plane.create(kind, object.clone()).await;
    let created = plane.current(kind, "one").await;
    assert_eq!(created["spec"]["state"]["privateIPAddress"], "10.0.0.1");
    // What the schema of its type would refuse is refused at once, and what is sensitive is not taken in plain sight.
    for (resource, says) in [
        (
            json!({"name": "x", "secret": "hunter22"}),
            "spec.resource.secret: Forbidden: this is sensitive; it belongs into a Secret",
        ),
        (
            json!({"name": "x", "key": [{"label": "l", "password": "hunter22"}]}),
            "spec.resource.key[0].password: Forbidden",
        ),
        (json!({"nmae": "x"}), "spec.resource.nmae: Forbidden: the provider has no such field"),
        (
            json!({"name": "x", "size": "many"}),
            "spec.resource.size: Invalid value: \"many\": expected a number",
        ),
    ] {
        let mut wrong = object.clone();
        wrong["metadata"]["name"] = json!("two");
        wrong["spec"]["resource"] = resource.clone();
        let refused = plane.try_create(kind, wrong).await.unwrap_err();
        assert!(matches!(&refused, kube::Error::Api(status) if status.code == 422), "{refused}");
        let refused = refused.to_string();
        assert!(refused.contains(says) && !refused.contains("hunter22"), "{refused}");
        let edit = plane.try_patch(kind, "one", json!({"spec": {"resource": resource}})).await;
        assert!(edit.is_err());
    }
    // No provider is asked for what lacks something that it requires, wherever that should have come from.
    let before = plane.world.things();
    plane
        .secret("locks", "resource", json!({"lock": [{"password": "hush-one"}, {"password": "hush-two"}]}))
        .await;
    for (resource, says) in [
        (json!({"size": 1}), "this is required (spec.resource.name)"),
        (
            json!({"name": "x", "rule": [{"port": 1}, {"cidr": "y"}]}),
            "this is required (spec.resource.rule[1].port)",
        ),
        (json!({"name": "x", "lock": [{"label": "a"}]}), "this is required (spec.resource.lock[1].label)"),
    ] {
        let mut lacking = object.clone();
        lacking["metadata"]["name"] = json!("lacking");
        if resource.get("lock").is_some() {
            lacking["spec"]["secretRef"] = json!({"name": "locks"});
        }
        lacking["spec"]["resource"] = resource;
        plane.create(kind, lacking).await;
        plane.failed(kind, "lacking", says).await;
        plane.delete(kind, "lacking").await;
        plane.gone(kind, "lacking").await;
    }
    assert_eq!(plane.world.things(), before);
    plane.patch(kind, "one", json!({"spec": {"type": "shelf_other"}})).await;
    plane.failed(kind, "one", "the provider has no resource type \"shelf_other\"").await;
    plane.patch(kind, "one", json!({"spec": {"type": "shelf_thing"}})).await;
    plane.current(kind, "one").await;
    plane.delete(kind, "one").await;
    plane.gone(kind, "one").await;
    assert!(plane.world.things().is_empty());
}
