//! How many calls an account bears: those that reach it.

use provision::Pace;
use serde_json::json;

use super::plane::*;

/// Looks that a busy machine may take.
const MORE: usize = 2;

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
    let asked = |calls: &[&str]| calls.iter().map(|call| plane.asked(call)).sum::<usize>();
    let reaching = asked(&["ReadResource", "ApplyResourceChange", "ImportResourceState"]);
    let staying = asked(&["ValidateResourceTypeConfig", "PlanResourceChange"]);
    assert!(staying > MORE && reaching > 0, "{staying}, {reaching}");
    // So many at once, and no more for hours.
    let mut plane = Plane::new().await;
    plane.pace = Pace { per_second: 0.0001, burst: u32::try_from(reaching + MORE).unwrap().into() };
    plane.restart().await;
    make(&plane).await;
    assert_eq!(plane.world.things().len(), 1);
}
