//! We die, or the provider does, in the middle of a change: nothing is made twice, and nothing is lost.

use serde_json::json;

use super::plane::*;
use super::steps::{Step, act, prepared};

/// The call that changes something hangs; then we die, and come back to a provider that works.
#[tokio::test]
async fn we_die_before_the_provider_did_anything() {
    for step in [Step::Update, Step::Delete] {
        let mut plane = prepared(step).await;
        plane.world.fault("ApplyResourceChange: hang");
        act(&plane, step).await;
        plane.until(THINGS, "one", |object| object.unwrap()["status"]["phase"] != "Current").await;
        plane.kill().await;
        plane.world.fault("");
        plane.restart().await;
        match step {
            Step::Delete => {
                plane.gone(THINGS, "one").await;
                assert!(plane.world.things().is_empty());
            }
            _ => {
                plane.until(THINGS, "one", |_| plane.world.things()[0]["size"] == json!(2)).await;
                plane.current(THINGS, "one").await;
                assert_eq!(plane.world.things().len(), 1);
            }
        }
    }
}

/// The provider dies after it did what it was asked and before it said so.
#[tokio::test]
async fn the_provider_dies_after_it_acted() {
    for step in [Step::Update, Step::Delete] {
        let plane = prepared(step).await;
        plane.world.fault("ApplyResourceChange: die-after");
        act(&plane, step).await;
        plane.failed(THINGS, "one", "the provider ended during ApplyResourceChange").await;
        plane.world.fault("");
        match step {
            Step::Delete => drop(plane.gone(THINGS, "one").await),
            _ => drop(plane.current(THINGS, "one").await),
        }
        assert_eq!(plane.world.things().len(), usize::from(step != Step::Delete));
    }
}

/// Nobody knows whether it was made: it is said, and not made again. A user who finds it says which one it is.
#[tokio::test]
async fn a_creation_whose_answer_was_lost() {
    for step in [Step::Create, Step::Replace] {
        let mut plane = prepared(step).await;
        let before = plane.world.things().first().map(|thing| thing["id"].clone());
        // A replacement deletes first; that call has to work.
        if step == Step::Replace {
            plane.world.fault("ApplyResourceChange: die-after-create");
        } else {
            plane.world.fault("ApplyResourceChange: die-after");
        }
        act(&plane, step).await;
        plane.failed(THINGS, "one", "the provider ended during ApplyResourceChange").await;
        plane.world.fault("");
        plane.failed(THINGS, "one", "its answer was lost").await;
        plane.restart().await;
        plane.nudge(THINGS, "one").await;
        plane.rest().await;
        let things = plane.world.things();
        assert_eq!(things.len(), 1, "made once");
        let id = things[0]["id"].clone();
        assert_ne!(Some(&id), before.as_ref());
        plane.patch(THINGS, "one", json!({"metadata": {"annotations": {"hangar.dev/import-id": id}}})).await;
        let object = plane.current(THINGS, "one").await;
        assert_eq!(object["spec"]["resource"]["id"], id);
        assert_eq!(plane.world.things().len(), 1);
        plane.delete(THINGS, "one").await;
        plane.gone(THINGS, "one").await;
        assert!(plane.world.things().is_empty());
    }
}

/// The creation failed half-way: what there is is kept, and replaced by a whole one.
#[tokio::test]
async fn half_a_creation_is_replaced() {
    let plane = prepared(Step::Create).await;
    plane.world.fault("ApplyResourceChange: partial");
    act(&plane, Step::Create).await;
    let object = plane.failed(THINGS, "one", "the shelf is too short").await;
    assert_eq!(plane.world.things().len(), 1);
    let half = object["spec"]["resource"]["id"].clone();
    assert!(half.is_string());
    plane.world.fault("");
    plane.nudge(THINGS, "one").await;
    plane.until(THINGS, "one", |object| object.unwrap()["spec"]["resource"]["id"] != half).await;
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things().len(), 1);
}

/// One that hangs for ever holds up its own objects only.
#[tokio::test]
async fn we_die_while_creating_before_the_provider_was_asked() {
    let mut plane = prepared(Step::Create).await;
    plane.world.fault("PlanResourceChange: hang");
    act(&plane, Step::Create).await;
    plane.until(THINGS, "one", |_| plane.asked("PlanResourceChange") > 0).await;
    plane.kill().await;
    plane.world.fault("");
    plane.restart().await;
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things().len(), 1);
}
