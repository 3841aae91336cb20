//! Taking over what is there, with what is secret of it: nothing in the cloud is touched.

use http::Method;
use serde_json::{Value as Json, json};
use terraform::plugin::Launch;

use super::plane::*;
use super::world::*;

/// A thing with secrets everywhere, which no object is about any more.
async fn left_behind(plane: &Plane, name: &str) -> Json {
    let secret = format!("{name}-secrets");
    let hidden = json!({
        "secret": "of the thing", "lock": [{"password": "of l1"}, {"password": "of l0"}],
        "key": [{"password": "of zebra"}, {"password": "of ant"}], "user": {"ford": {"password": "of ford"}},
    });
    plane.secret(&secret, "resource", hidden).await;
    let spec = json!({
        "resource": {
            "name": name, "size": 7, "lock": [{"label": "l1"}, {"label": "l0"}],
            "key": [{"label": "zebra"}, {"label": "ant"}], "user": {"ford": {"label": "f"}},
        },
        "secretRef": {"name": secret},
    });
    plane.thing(name, spec).await;
    plane.current(THINGS, name).await;
    let retain = json!({"metadata": {"annotations": {"hangar.dev/deletion-policy": "retain"}}});
    plane.patch(THINGS, name, retain).await;
    plane.delete(THINGS, name).await;
    plane.gone(THINGS, name).await;
    let things = plane.world.things();
    things.into_iter().find(|thing| thing["name"] == name).unwrap()
}

/// How often the provider was asked for a change.
fn applies(plane: &Plane) -> usize {
    let calls = std::fs::read_to_string(plane.world.cloud.path().join("calls")).unwrap_or_default();
    calls.lines().filter(|call| *call == "ApplyResourceChange").count()
}

#[tokio::test]
async fn secrets_of_a_set_are_those_of_its_elements() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let thing = left_behind(&plane, "one").await;
    let expected =
        json!([{"label": "ant", "password": "of ant"}, {"label": "zebra", "password": "of zebra"}]);
    assert_eq!(thing["key"], expected);
}

#[tokio::test]
async fn what_is_secret_of_an_import_stays() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let wishes = json!({
        "size": 7, "lock": [{"label": "l1"}, {"label": "l0"}], "key": [{"label": "zebra"}, {"label": "ant"}],
        "user": {"ford": {"label": "f"}},
    });
    for (name, by, mut wishes) in [
        ("by-id", "spec", json!({})),
        ("with-wishes", "hangar.dev/import-id", wishes),
        ("by-state", "hangar.dev/import-state", json!({})),
    ] {
        let before = left_behind(&plane, name).await;
        let mut annotations = json!({});
        match by {
            "spec" => wishes["id"] = before["id"].clone(),
            "hangar.dev/import-state" => {
                let instance = json!({"schema_version": 1, "attributes": before});
                plane.secret("left", "instance", instance).await;
                annotations[by] = json!("left");
            }
            _ => annotations[by] = before["id"].clone(),
        }
        if by != "spec" {
            wishes["name"] = json!(name);
        }
        let asked = applies(&plane);
        let new = format!("{name}-mine");
        let mut object = thing(&new, json!({"resource": wishes}));
        object["metadata"]["annotations"] = annotations;
        // Told beforehand, too.
        let path = "/apis/thing.shelf.kubeform.com/v1alpha1/namespaces/default/things?dryRun=All";
        plane.send(Method::POST, path, &object).await.unwrap();
        plane.create(THINGS, object).await;
        plane.current(THINGS, &new).await;
        for _ in 0..2 {
            plane.look(THINGS, &new).await;
        }
        let object = plane.current(THINGS, &new).await;
        assert_eq!(applies(&plane), asked, "{name} was changed");
        let things = plane.world.things();
        assert!(things.contains(&before), "{name}: {things:#?}");
        // The object names the Secret that holds it, and what a user writes there counts.
        let secret = object["spec"]["secretRef"]["name"].as_str().unwrap_or_default().to_owned();
        let own = plane.get("secrets", &secret).await.unwrap_or_else(|| panic!("{name}: {object:#}"));
        let mut input: Json = serde_json::from_str(&secret_value(&own, "resource").unwrap()).unwrap();
        assert_eq!(input["secret"], "of the thing");
        assert!(input.get("token").is_none(), "only the provider can say it");
        assert!(!object.to_string().contains("of the thing") && !object.to_string().contains("of zebra"));
        input["secret"] = json!("changed");
        let data = json!({"stringData": {"resource": input.to_string()}});
        plane.patch("secrets", &secret, data).await;
        let id = before["id"].clone();
        let changed = |_: Option<&Json>| {
            let things = plane.world.things();
            things.iter().any(|thing| thing["id"] == id && thing["secret"] == "changed")
        };
        plane.until(THINGS, &new, changed).await;
    }
}

/// A provider that can tell what a user would have written is believed: what it filled in itself is left to it.
#[tokio::test]
async fn what_is_written_of_an_import() {
    for generates in [false, true] {
        let mut launch = Launch::new(shelf_program());
        if generates {
            launch.environment.insert("GENERATE".into(), auth::Secret::new("1".to_owned()));
        }
        let plane = Plane::of(World::new(), "shelf", launch).await;
        plane.provider_secret().await;
        let before = left_behind(&plane, "one").await;
        let asked = applies(&plane);
        plane.thing("mine", json!({"resource": {"id": before["id"]}})).await;
        plane.current(THINGS, "mine").await;
        plane.look(THINGS, "mine").await;
        let object = plane.current(THINGS, "mine").await;
        let written = &object["spec"]["resource"];
        assert_eq!((&written["id"], &written["size"]), (&before["id"], &json!(7)));
        for filled_in in ["note", "zones"] {
            assert_eq!(written.get(filled_in).is_none(), generates, "{filled_in}: {written:#}");
        }
        let secret = object["spec"]["secretRef"]["name"].as_str().unwrap();
        let secret = plane.get("secrets", secret).await.unwrap();
        assert!(secret_value(&secret, "resource").unwrap().contains("of the thing"));
        assert_eq!((plane.world.things(), applies(&plane)), (vec![before], asked));
    }
}

#[tokio::test]
async fn a_state_of_an_older_provider() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let before = left_behind(&plane, "old").await;
    let state = json!({
        "id": before["id"], "name": "old", "size": 7, "noSuchField": "x", "goneBlock": [{"a": 1}], "rule": "one",
    });
    let mut object = thing(
        "taken",
        json!({
            "resource": {
                "id": before["id"], "name": "old", "size": 7, "lock": [{"label": "l1"}, {"label": "l0"}],
                "key": [{"label": "ant"}, {"label": "zebra"}], "user": {"ford": {"label": "f"}},
            },
            "state": state, "secretRef": {"name": "kept"},
        }),
    );
    let hidden = json!({
        "secret": "of the thing", "lock": [{"password": "of l1"}, {"password": "of l0"}],
        "key": [{"password": "of ant"}, {"password": "of zebra"}], "user": {"ford": {"password": "of ford"}},
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept"},
        "stringData": {
            "resource": hidden.to_string(), "state": json!({"token": before["token"], "gone": "y"}).to_string(),
        },
    });
    plane.create("secrets", secret).await;
    object["metadata"]["finalizers"] = json!(["shelf.kubeform.com/finalizer"]);
    plane.world.fault("ApplyResourceChange: die");
    plane.create(THINGS, object).await;
    let object = plane.current(THINGS, "taken").await;
    assert_eq!(plane.world.things(), [before]);
    assert!(object["spec"]["state"].get("noSuchField").is_none(), "the state is the provider's");
}

#[tokio::test]
async fn a_provider_that_breaks_its_promises() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.world.fault("PlanResourceChange: strict\nApplyResourceChange: other-size");
    plane.thing("one", json!({"resource": {"name": "one", "size": 3}})).await;
    let says = |object: Option<&Json>| {
        let Some(object) = object else { return false };
        let ready = message(object, "Ready");
        ready.contains("Provider produced inconsistent result after apply: spec.resource.size")
            && message(object, "Advisory").contains("not written again")
    };
    plane.until(THINGS, "one", says).await;
    // It is told, and not tried for ever.
    let asked = applies(&plane);
    for _ in 0..2 {
        plane.look(THINGS, "one").await;
    }
    assert_eq!(applies(&plane), asked);
    plane.until(THINGS, "one", says).await;
    // What the old type system does is no broken promise.
    plane.world.fault("");
    plane.patch(THINGS, "one", json!({"spec": {"resource": {"size": 4}}})).await;
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things()[0]["size"], json!(4));
}

#[tokio::test]
async fn what_is_sensitive_is_exported_as_variables() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let hidden = json!({"secret": "of the thing", "user": {"ford": {"password": "of ford"}}});
    plane.secret("hidden", "resource", hidden).await;
    let resource = json!({"name": "one", "user": {"ford": {"label": "f"}}});
    let mut object = thing("one", json!({"resource": resource, "secretRef": {"name": "hidden"}}));
    object["metadata"]["annotations"] = json!({"hangar.dev/export-state": "exported"});
    plane.create(THINGS, object).await;
    let exported = plane.until("secrets", "exported", |secret| secret.is_some()).await.unwrap();
    let main = secret_value(&exported, "main.tf").unwrap();
    for line in [
        "secret = var.secret\n",
        "password = var.user_ford_password\n",
        "variable \"secret\" {\n  sensitive = true\n}",
    ] {
        assert!(main.contains(line), "{main}");
    }
    assert!(!main.contains("of the thing") && !main.contains("of ford"), "{main}");
    let values = secret_value(&exported, "secrets.auto.tfvars").unwrap();
    assert_eq!(values, "secret = \"of the thing\"\nuser_ford_password = \"of ford\"\n");
}
