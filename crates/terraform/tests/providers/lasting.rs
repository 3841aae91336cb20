//! Changes that take long, or fail again and again: others go on, and nothing is done over and over.

use std::time::Duration;

use serde_json::json;

use super::plane::*;

/// What was made half is replaced by what is made half: with pauses that grow, although each try writes to the object.
#[tokio::test(flavor = "multi_thread")]
async fn what_fails_half_way_is_made_again_after_growing_pauses() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    plane.secret("own", "resource", json!({"secret": "hush-hush"})).await;
    plane.world.fault("ApplyResourceChange: partial");
    plane.thing("one", json!({"resource": {"name": "one", "size": 1}})).await;
    plane.thing("two", json!({"resource": {"name": "two", "size": 1}, "secretRef": {"name": "own"}})).await;
    for name in ["one", "two"] {
        plane.failed(THINGS, name, "the shelf is too short").await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    // The waits double from 10 ms at least: nine tries of each, which delete and create.
    let applies = plane.applies();
    assert!(applies <= 2 * 2 * 9, "{applies}");
    plane.world.fault("");
    for name in ["one", "two"] {
        plane.current(THINGS, name).await;
    }
    assert_eq!(plane.world.things().len(), 2);
}

/// More than there are workers.
const MANY: usize = 140;

#[tokio::test(flavor = "multi_thread")]
async fn creations_that_hang_keep_nobody_else_waiting() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let elsewhere = plane.world.part("elsewhere");
    plane.secret("elsewhere", "provider", json!({"directory": elsewhere})).await;
    plane.world.fault("ApplyResourceChange: hang");
    for number in 0..MANY {
        plane.thing(&format!("sick-{number}"), json!({"resource": {"name": "sick"}})).await;
    }
    let last = format!("sick-{}", MANY - 1);
    plane.until(THINGS, &last, |object| message(object.unwrap(), "Ready").contains("many calls")).await;
    plane.thing("well", json!({"resource": {"name": "well"}, "providerRef": {"name": "elsewhere"}})).await;
    plane.current(THINGS, "well").await;
    assert!(plane.applies() < MANY, "those that were too many have not begun");
}

/// A creation that is under way when we are told to end tells what became of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_what_it_interrupts() {
    let mut plane = Plane::new().await;
    plane.provider_secret().await;
    plane.world.fault("ApplyResourceChange: until-stopped");
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.until(THINGS, "one", |_| plane.applies() == 1).await;
    plane.stop().await;
    let object = plane.get(THINGS, "one").await.unwrap();
    assert!(object["metadata"]["annotations"].get("hangar.dev/intent").is_none(), "{object:#}");
    assert!(message(&object, "Stalled").contains("the shelf is closing"), "{object:#}");
    plane.world.fault("");
    plane.restart().await;
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things().len(), 1);
}

/// How long a change may take is the provider's and the object's to say.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_takes_longer_than_others_may() {
    let mut plane = Plane::new().await;
    plane.provider_secret().await;
    plane.patience = Duration::from_secs(1);
    plane.restart().await;
    plane.world.fault("ApplyResourceChange: slow");
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.current(THINGS, "one").await;
    assert_eq!((plane.world.things().len(), plane.applies()), (1, 1));
}
