//! What is done to a thing, for tests that have something go wrong in the middle of it.

use serde_json::json;

use super::plane::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Create,
    Update,
    Replace,
    ReplaceCreateFirst,
    Delete,
}

/// A control plane with what the step is done to.
pub async fn prepared(step: Step) -> Plane {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    if step != Step::Create {
        act(&plane, Step::Create).await;
        plane.current(THINGS, "one").await;
    }
    if step == Step::ReplaceCreateFirst {
        let annotations = json!({"hangar.dev/replace-policy": "create-first"});
        plane.patch(THINGS, "one", json!({"metadata": {"annotations": annotations}})).await;
        plane.current(THINGS, "one").await;
    }
    plane
}

pub async fn act(plane: &Plane, step: Step) {
    match step {
        Step::Create => drop(plane.thing("one", json!({"resource": {"name": "one", "size": 1}})).await),
        Step::Update => drop(plane.patch(THINGS, "one", json!({"spec": {"resource": {"size": 2}}})).await),
        Step::Replace | Step::ReplaceCreateFirst => {
            drop(plane.patch(THINGS, "one", json!({"spec": {"resource": {"name": "two"}}})).await)
        }
        Step::Delete => plane.delete(THINGS, "one").await,
    }
}
