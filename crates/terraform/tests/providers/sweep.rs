//! Every call of a create, an update, both replacements and a delete is the provider's last, before and after it did what it
//! was asked; with us dying at the same moment, and without. In the end there is exactly what should be.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::plane::*;
use super::steps::{Step, act, prepared};

/// At once: the planes mostly wait for a provider to come back.
const TOGETHER: usize = 6;
/// Six providers at once are started again and again, on a machine that others load as well.
const PATIENCE: Duration = Duration::from_secs(240);

/// With nothing going on: the calls from now on are the step's own.
async fn at_rest(step: Step) -> Plane {
    let plane = prepared(step).await;
    plane.rest().await;
    // Not emptied: the provider, which is another user in its sandbox, makes it.
    let _ = std::fs::remove_file(plane.world.cloud.path().join("calls"));
    plane
}

/// What has to be the case in the end.
fn is_done(step: Step, object: Option<&Json>, things: &[Json]) -> bool {
    if step == Step::Delete {
        return object.is_none() && things.is_empty();
    }
    let Some(object) = object else { return false };
    let [thing] = things else { return false };
    let wished = &object["spec"]["resource"];
    let current = object["status"]["phase"] == "Current"
        && object["status"]["observedGeneration"] == object["metadata"]["generation"];
    current
        && thing["id"] == wished["id"]
        && thing["name"] == wished["name"]
        && thing["size"] == wished["size"]
}

/// What a user does who is told that an answer was lost: looks whether there is one, and says so.
async fn answer(plane: &Plane, object: &Json) {
    let known: Vec<Json> = [
        object["spec"]["resource"]["id"].clone(),
        object.pointer("/metadata/annotations/hangar.dev~1intent").map_or(Json::Null, |text| {
            let intent: Json = serde_json::from_str(text.as_str().unwrap()).unwrap();
            intent["deposed"]["id"].clone()
        }),
    ]
    .into();
    let new: Vec<Json> =
        plane.world.things().into_iter().filter(|thing| !known.contains(&thing["id"])).collect();
    assert!(new.len() <= 1, "made twice: {new:?}");
    let annotations = match new.first() {
        Some(thing) => json!({"hangar.dev/import-id": thing["id"]}),
        None => json!({"hangar.dev/intent": null}),
    };
    plane.patch(THINGS, "one", json!({"metadata": {"annotations": annotations}})).await;
}

async fn survives(step: Step, call: usize, fault: &str, with_us: bool) {
    let what = format!("{step:?}, call {call}, {fault}, with us {with_us}");
    let mut plane = at_rest(step).await;
    std::fs::write(plane.world.cloud.path().join("last"), format!("{fault} {call}")).unwrap();
    act(&plane, step).await;
    let began = tokio::time::Instant::now();
    let mut killed = !with_us;
    loop {
        let reached = plane.calls() >= call;
        if reached && !killed {
            plane.restart().await;
            killed = true;
        }
        let object = plane.get(THINGS, "one").await;
        if is_done(step, object.as_ref(), &plane.world.things()) {
            if reached && killed {
                break;
            }
            // It took fewer calls this time: what is there can be looked at, and what is gone is gone.
            match object {
                Some(_) => plane.nudge(THINGS, "one").await,
                None => break,
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // Once: the condition stands for a moment longer than what it asks about.
        let annotated = |object: &Json, name: &str| object["metadata"]["annotations"].get(name).is_some();
        if let Some(object) = &object
            && message(object, "Stalled").contains("its answer was lost")
            && annotated(object, "hangar.dev/intent")
            && !annotated(object, "hangar.dev/import-id")
        {
            answer(&plane, object).await;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {object:#?} {:#?}", plane.world.things());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Nothing more comes after it.
    if step != Step::Delete {
        plane.look(THINGS, "one").await;
        let object = plane.current(THINGS, "one").await;
        assert!(is_done(step, Some(&object), &plane.world.things()), "{what}: {object:#?}");
        plane.delete(THINGS, "one").await;
        plane.gone(THINGS, "one").await;
    }
    assert_eq!(plane.world.things(), Vec::<Json>::new(), "{what}: left behind");
}

async fn sweep(step: Step) {
    use futures::StreamExt;
    let plane = at_rest(step).await;
    act(&plane, step).await;
    plane.until(THINGS, "one", |object| is_done(step, object, &plane.world.things())).await;
    let calls = plane.calls();
    assert!(calls >= 2, "{step:?} makes {calls} calls");
    let mut cases = Vec::new();
    for call in 1..=calls {
        for fault in ["die", "die-after"] {
            cases.extend([false, true].map(|with_us| (call, fault, with_us)));
        }
    }
    let each = |(call, fault, with_us)| survives(step, call, fault, with_us);
    futures::stream::iter(cases).map(each).buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation() {
    sweep(Step::Create).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update() {
    sweep(Step::Update).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement() {
    sweep(Step::Replace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_with_the_new_one_first() {
    sweep(Step::ReplaceCreateFirst).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion() {
    sweep(Step::Delete).await;
}
