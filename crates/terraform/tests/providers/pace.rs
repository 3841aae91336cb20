//! How many calls an account bears: those that reach it.

use provision::Pace;
use serde_json::json;

use super::plane::*;

/// What is checked, planned and upgraded is not done by the cloud, and so takes nothing of what it bears.
#[tokio::test]
async fn what_stays_in_the_provider_waits_for_nobody() {
    let make = async |plane: &Plane| {
        plane.provider_secret().await;
        plane.thing("one", json!({"resource": {"name": "one"}})).await;
        plane.current(THINGS, "one").await;
    };
    let plane = Plane::new().await;
    make(&plane).await;
    plane.rest().await;
    let reaching: usize = ["ReadResource", "ApplyResourceChange", "ImportResourceState"]
        .map(|call| plane.asked(call))
        .iter()
        .sum();
    assert!(plane.asked("PlanResourceChange") > 0 && reaching > 0);
    // So many at once, and no more for hours.
    let mut plane = Plane::new().await;
    plane.pace = Pace { per_second: 0.0001, burst: u32::try_from(reaching).unwrap().into() };
    plane.restart().await;
    make(&plane).await;
    assert_eq!(plane.world.things().len(), 1);
}
