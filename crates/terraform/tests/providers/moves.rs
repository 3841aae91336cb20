//! Resources that get another address in their module, or another type: they stay what they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use terraform::module::kinds::MODULES;
use terraform::plugin::Launch;

use super::calls::{left, sealed};
use super::plane::*;
use super::world::*;

const RESOURCES: &str = "resources.terraform.hangar.dev";

/// A shelf with a second type.
async fn plane() -> Plane {
    let mut launch = Launch::new(shelf_program());
    launch.environment.insert("TYPES".into(), auth::Secret::new("2".to_owned()));
    let plane = Plane::of(World::new(), "shelf", launch).await;
    plane.provider_secret().await;
    plane
}

fn things(plane: &Plane) -> Vec<Json> {
    let mut things = plane.world.things();
    things.sort_by_key(|thing| thing["id"].to_string());
    things
}

/// A resource under an address, and one that stands on it.
fn module(address: &str, more: &str) -> String {
    let (type_name, name) = address.split_once('.').unwrap();
    format!(
        "resource \"{type_name}\" \"{name}\" {{\n  name = \"a\"\n}}\n\
         resource \"shelf_thing\" \"top\" {{\n  name = \"top\"\n  note = {address}.id\n}}\n{more}"
    )
}

fn moved(from: &str, to: &str) -> String {
    format!("moved {{\n  from = {from}\n  to   = {to}\n}}\n")
}

/// The name of the object at an address, once the module is settled with it.
async fn settled_at(plane: &Plane, address: &str) -> String {
    let at = |object: &Json| {
        let all = object["status"]["resources"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["address"] == address && one["phase"] == "Current");
        found.and_then(|one| one["name"].as_str().map(str::to_owned))
    };
    let settled = |object: Option<&Json>| {
        object.is_some_and(|object| object["status"]["phase"] == "Current" && at(object).is_some())
    };
    at(&plane.until(MODULES, "shop", settled).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_resource_keeps_itself_under_another_address() {
    let plane = plane().await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
        "data": {"main.tf": module("shelf_thing.old", "")},
    });
    plane.create("configmaps", map).await;
    let object = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module", "metadata": {"name": "shop"},
        "spec": {"providerRef": {"name": "shelf"}, "moduleRef": {"configMap": {"name": "shop"}}},
    });
    plane.create(MODULES, object).await;
    let name = settled_at(&plane, "shelf_thing.old").await;
    let (before, asked) = (things(&plane), plane.applies());
    let write = async |text: String| {
        plane.patch("configmaps", "shop", json!({"data": {"main.tf": text}})).await;
    };

    write(module("shelf_thing.new", &moved("shelf_thing.old", "shelf_thing.new"))).await;
    assert_eq!(settled_at(&plane, "shelf_thing.new").await, name, "it is the same object");
    let child = plane.get(RESOURCES, &name).await.unwrap();
    assert_eq!(child["metadata"]["annotations"]["terraform.hangar.dev/address"], "shelf_thing.new");
    assert_eq!((things(&plane), plane.applies()), (before.clone(), asked));

    // Of another type: the provider says what it is as one of that.
    let kind = "shelf_kind1_thing.new";
    let as_kind = module(kind, &moved("shelf_thing.new", kind));
    write(as_kind.clone()).await;
    assert_eq!(settled_at(&plane, kind).await, name);
    let child = plane.current(RESOURCES, &name).await;
    assert_eq!(child["spec"]["type"], "shelf_kind1_thing");
    assert_eq!((things(&plane), plane.applies()), (before.clone(), asked));
    assert!(plane.asked("MoveResourceState") > 0);

    // What the provider cannot move is left alone, and said.
    write(module("shelf_thing.back", &moved(kind, "shelf_thing.back"))).await;
    plane.failed(MODULES, "shop", "this cannot be moved").await;
    assert_eq!((things(&plane), plane.applies()), (before.clone(), asked));
    write(as_kind).await;
    assert_eq!(settled_at(&plane, kind).await, name);

    // With the block gone, the old address is free for another.
    let other = "resource \"shelf_thing\" \"old\" {\n  name = \"other\"\n}\n";
    write(module(kind, other)).await;
    let second = settled_at(&plane, "shelf_thing.old").await;
    assert_ne!(second, name);
    let now = things(&plane);
    assert!(now.len() == 3 && before.iter().all(|thing| now.contains(thing)), "{now:#?}");

    // Count comes, and goes again.
    let counted = other.replace("  name", "  count = 1\n  name");
    write(module(kind, &counted)).await;
    assert_eq!(settled_at(&plane, "shelf_thing.old[0]").await, second);
    write(module(kind, other)).await;
    assert_eq!(settled_at(&plane, "shelf_thing.old").await, second);
    assert_eq!(things(&plane), now);

    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}

/// An object of the kind of all types whose type is edited: never taken for a resource of the other type.
#[tokio::test]
async fn an_object_of_another_type() {
    let plane = plane().await;
    let object = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Resource", "metadata": {"name": "one"},
        "spec": {
            "provider": "shelf", "type": "shelf_kind1_thing", "resource": {"name": "one"},
            "providerRef": {"name": "shelf"},
        },
    });
    plane.create(RESOURCES, object).await;
    plane.current(RESOURCES, "one").await;
    let before = things(&plane);
    plane.patch(RESOURCES, "one", json!({"spec": {"type": "shelf_thing"}})).await;
    plane.failed(RESOURCES, "one", "this cannot be moved").await;
    assert_eq!(things(&plane), before);
    plane.patch(RESOURCES, "one", json!({"spec": {"type": "shelf_kind1_thing"}})).await;
    plane.current(RESOURCES, "one").await;
    assert_eq!(things(&plane), before);
}

/// The same of an object whose state lies in a backend; only what it wrote itself is taken for its own there.
#[tokio::test]
async fn a_state_in_a_backend() {
    let plane = plane().await;
    plane.secret("backend", "kubernetes", json!({"secret_suffix": "state"})).await;
    let object = |kind: &str, name: &str, type_name: &str| {
        let mut spec = json!({
            "resource": {"name": "one"}, "providerRef": {"name": "shelf"}, "backendRef": {"name": "backend"},
        });
        if kind == "Resource" {
            (spec["provider"], spec["type"]) = (json!("shelf"), json!(type_name));
        }
        let group = if kind == "Resource" { "terraform.hangar.dev" } else { "kind1.shelf.kubeform.com" };
        json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": {"name": name}, "spec": spec})
    };
    let lies_there = async || {
        let secret = plane.get("secrets", "tfstate-default-state").await.unwrap();
        let packed = STANDARD.decode(secret["data"]["tfstate"].as_str().unwrap()).unwrap();
        let state: Json = serde_json::from_reader(flate2::read::GzDecoder::new(packed.as_slice())).unwrap();
        (state["lineage"].clone(), state["resources"][0]["type"].clone())
    };
    plane.create(RESOURCES, object("Resource", "one", "shelf_thing")).await;
    plane.current(RESOURCES, "one").await;
    let (before, asked, (lineage, _)) = (things(&plane), plane.applies(), lies_there().await);
    // Another object of that name, which never wrote it.
    const KIND: &str = "things.kind1.shelf.kubeform.com";
    plane.create(KIND, object("Thing", "one", "")).await;
    plane.failed(KIND, "one", "it is of shelf_thing.one and not of shelf_kind1_thing.one").await;
    plane.delete(KIND, "one").await;
    plane.gone(KIND, "one").await;

    plane.patch(RESOURCES, "one", json!({"spec": {"type": "shelf_kind1_thing"}})).await;
    plane.current(RESOURCES, "one").await;
    assert_eq!(lies_there().await, (lineage.clone(), json!("shelf_kind1_thing")));
    plane.patch(RESOURCES, "one", json!({"spec": {"type": "shelf_thing"}})).await;
    plane.failed(RESOURCES, "one", "this cannot be moved").await;
    assert_eq!(lies_there().await, (lineage, json!("shelf_kind1_thing")));
    plane.patch(RESOURCES, "one", json!({"spec": {"type": "shelf_kind1_thing"}})).await;
    plane.current(RESOURCES, "one").await;
    assert_eq!((things(&plane), plane.applies()), (before, asked));
    plane.delete(RESOURCES, "one").await;
    plane.gone(RESOURCES, "one").await;
    assert!(plane.world.things().is_empty() && plane.get("secrets", "tfstate-default-state").await.is_none());
}

/// What Kubeform left is found under the address, and as the type, that it has by now.
#[tokio::test]
async fn what_kubeform_left_moves_too() {
    let plane = plane().await;
    for name in ["a", "b"] {
        let mut object = thing(name, json!({"resource": {"name": name}}));
        object["metadata"]["annotations"] = json!({"hangar.dev/deletion-policy": "retain"});
        plane.create(THINGS, object).await;
        plane.current(THINGS, name).await;
        plane.delete(THINGS, name).await;
        plane.gone(THINGS, name).await;
    }
    let before = things(&plane);
    let named = |name: &str| before.iter().find(|thing| thing["name"] == name).unwrap().clone();
    let key = [7_u8; 32];
    let state = [left("old", [(json!("k"), named("a"))]), left("second", [(Json::Null, named("b"))])];
    let text = [
        "resource \"shelf_thing\" \"new\" {\n  for_each = toset([\"k\"])\n  name = \"a\"\n}\n",
        "resource \"shelf_kind1_thing\" \"second\" {\n  name = \"b\"\n}\n",
        &moved("shelf_thing.old", "shelf_thing.new"),
        &moved("shelf_thing.second", "shelf_kind1_thing.second"),
    ]
    .concat();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"main.tf": text},
    });
    plane.create("configmaps", map).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kubeform"},
        "stringData": {"secret-key": STANDARD.encode(key)},
    });
    plane.create("secrets", secret).await;
    plane.world.fault("ApplyResourceChange: die");
    let object = json!({
        "apiVersion": "tf.kubeform.com/v1alpha1", "kind": "Module",
        "metadata": {
            "name": "shop", "finalizers": ["kfc.io"],
            "annotations": {"terraform.hangar.dev/kubeform-key-from": "kubeform"},
        },
        "spec": {
            "providerRef": {"name": "shelf"}, "moduleRef": {"configMap": {"name": "shop"}},
            "state": sealed(&state, &key),
        },
    });
    plane.create(MODULES, object).await;
    settled_at(&plane, "shelf_thing.new[\"k\"]").await;
    settled_at(&plane, "shelf_kind1_thing.second").await;
    plane.until(MODULES, "shop", |object| object.unwrap()["spec"].get("state").is_none()).await;
    assert_eq!(things(&plane), before, "nothing in the cloud was touched");
    plane.world.fault("");
    plane.delete(MODULES, "shop").await;
    plane.gone(MODULES, "shop").await;
    assert!(plane.world.things().is_empty());
}
