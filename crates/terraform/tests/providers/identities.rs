//! Providers that tell resources apart by identities: taken over, found again and upgraded by them.

use auth::Secret;
use serde_json::{Value as Json, json};
use terraform::plugin::Launch;

use super::plane::*;
use super::world::*;

fn launch(version: i64) -> Launch {
    let mut launch = Launch::new(shelf_program());
    launch.environment.insert("IDENTITY".into(), Secret::new(version.to_string()));
    launch
}

async fn plane() -> Plane {
    let plane = Plane::of(World::new(), "shelf", launch(1)).await;
    plane.provider_secret().await;
    plane
}

const RESOURCES: &str = "resources.terraform.hangar.dev";

/// Without any wishes, which only the kind of all types can be.
fn importing(name: &str, identity: &Json) -> Json {
    let annotations = json!({"hangar.dev/import-identity": identity.to_string()});
    json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Resource",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "provider": "shelf", "type": "shelf_thing", "resource": {}, "providerRef": {"name": "shelf"},
        },
    })
}

#[tokio::test]
async fn a_resource_is_taken_over_by_its_identity() {
    let plane = plane().await;
    let lease = plane.world.pool.lease(&launch(1), DIGEST, &plane.world.config()).await.unwrap();
    create(&lease, json!({"name": "old", "size": 3})).await;
    plane.create(RESOURCES, importing("nobody", &json!({"name": "new"}))).await;
    plane.failed(RESOURCES, "nobody", "there is no thing with this id").await;
    plane.create(RESOURCES, importing("mine", &json!({"name": "old"}))).await;
    let object = plane.current(RESOURCES, "mine").await;
    assert_eq!((&object["spec"]["resource"]["size"], plane.applies()), (&json!(3), 1));
    plane.create(RESOURCES, importing("wrong", &json!(7))).await;
    plane.failed(RESOURCES, "wrong", "hangar.dev/import-identity").await;
}

/// The answer of a creation was lost: what it made is found by its identity, and nobody has to be asked.
#[tokio::test]
async fn what_was_made_is_found_again() {
    let mut plane = plane().await;
    plane.world.fault("ApplyResourceChange: die-after");
    plane.thing("one", json!({"resource": {"name": "one", "size": 1}})).await;
    plane.failed(THINGS, "one", "the provider ended during ApplyResourceChange").await;
    plane.world.fault("");
    plane.restart().await;
    let object = plane.current(THINGS, "one").await;
    let things = plane.world.things();
    assert_eq!((things.len(), &things[0]["id"]), (1, &object["spec"]["resource"]["id"]));
    // One that was there before is somebody else's, whatever became of ours.
    let lease = plane.world.pool.lease(&launch(1), DIGEST, &plane.world.config()).await.unwrap();
    create(&lease, json!({"name": "theirs"})).await;
    plane.world.fault("ApplyResourceChange: die");
    plane.thing("two", json!({"resource": {"name": "theirs"}})).await;
    plane.failed(THINGS, "two", "the provider ended during ApplyResourceChange").await;
    plane.world.fault("");
    plane.failed(THINGS, "two", "its answer was lost").await;
    assert_eq!(plane.world.things().len(), 2);
}

/// A provider of a newer version upgrades the identities that an older one gave.
#[tokio::test]
async fn identities_of_an_older_version() {
    let world = World::new();
    let ask = async |version: i64, digest: &str| {
        let lease = world.pool.lease(&launch(version), digest, &world.config()).await.unwrap();
        let state = create(&lease, json!({"name": "one"})).await;
        (lease, state)
    };
    let (old, state) = ask(0, "old").await;
    let schema = old.catalogue().identity(THING).unwrap();
    let json = state.identity.unwrap().to_state_json(&schema.ty).unwrap();
    let (new, state) = ask(1, "new").await;
    assert_eq!(new.upgrade_identity(THING, 0, &json).await.unwrap().answer, state.identity);
}
