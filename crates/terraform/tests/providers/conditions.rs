//! What a user sees when a provider or what it is given is at fault: one clear condition, nothing made, others unaffected,
//! and recovery by itself when the cause is gone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use terraform::plugin::{Launch, Limits};
use terraform::providers::RESOURCE;

use super::plane::*;
use super::world::*;

/// At once: they mostly wait.
const TOGETHER: usize = 4;

fn impatient() -> World {
    World::with(|settings| {
        // Enough for 100 MB, and for a provider that starts on a loaded machine.
        let look = Duration::from_secs(12);
        settings.limits = Limits { look, change: look, answer_bytes: 64 << 20, ..settings.limits };
        scripts(settings);
    })
}

/// Faults of one call, and what is said of them on the object.
const FAULTS: [(&str, &str); 11] = [
    ("ValidateResourceTypeConfig: die", "the provider ended during ValidateResourceConfig (exit status: 42)"),
    (
        "ValidateResourceTypeConfig: garbage",
        "the provider answered ValidateResourceConfig with what is no answer",
    ),
    ("PlanResourceChange: die", "the provider ended during PlanResourceChange (exit status: 42)"),
    ("PlanResourceChange: hang", "the provider did not answer PlanResourceChange within 12 seconds"),
    ("PlanResourceChange: fail", "the provider failed in PlanResourceChange: the shelf is out of order"),
    ("PlanResourceChange: garbage", "the provider answered PlanResourceChange with what is no answer"),
    ("PlanResourceChange: bad-msgpack", "found a byte that means nothing"),
    ("PlanResourceChange: huge", "the provider answered PlanResourceChange with more than 67108864 bytes"),
    ("PlanResourceChange: panic", "PlanResourceChange"),
    ("ApplyResourceChange: die", "the provider ended during ApplyResourceChange (exit status: 42)"),
    ("ApplyResourceChange: unknown", "values in it are still unknown"),
];

/// Before anything is there; beside one that has the same provider with another configuration, and one that has the
/// very same process if that survives.
async fn at_a_creation(fault: &str, says: &str) {
    let plane = Plane::of(impatient(), "shelf", Launch::new(shelf_program())).await;
    plane.provider_secret().await;
    let elsewhere = plane.world.part("elsewhere");
    plane.secret("elsewhere", "provider", json!({"directory": elsewhere})).await;
    plane.world.fault(fault);
    plane.thing("sick", json!({"resource": {"name": "sick"}})).await;
    let sick = plane.failed(THINGS, "sick", says).await;
    assert_eq!(message(&sick, "Ready"), message(&sick, "Stalled"), "one reason");
    assert!(plane.world.things().is_empty(), "{fault}: something was made");
    plane.thing("well", json!({"resource": {"name": "well"}, "providerRef": {"name": "elsewhere"}})).await;
    plane.current(THINGS, "well").await;
    plane.world.fault("");
    // Whether a call that changes something was carried out is not known, if its answer is none: a user says so.
    if fault.starts_with("ApplyResourceChange") {
        plane.failed(THINGS, "sick", "its answer was lost").await;
        let annotations = json!({"hangar.dev/intent": null});
        plane.patch(THINGS, "sick", json!({"metadata": {"annotations": annotations}})).await;
    }
    plane.current(THINGS, "sick").await;
    assert_eq!(plane.world.things().len(), 1, "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_call() {
    let each = |(fault, says)| at_a_creation(fault, says);
    futures::stream::iter(FAULTS).map(each).buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
}

/// While it is there: what it is stays as it was.
async fn at_a_look(fault: &str, says: &str) {
    let plane = Plane::of(impatient(), "shelf", Launch::new(shelf_program())).await;
    plane.provider_secret().await;
    plane.thing("one", json!({"resource": {"name": "one", "size": 1}})).await;
    plane.current(THINGS, "one").await;
    let before = plane.world.things();
    plane.world.fault(fault);
    plane.nudge(THINGS, "one").await;
    plane.failed(THINGS, "one", says).await;
    assert_eq!(plane.world.things(), before, "{fault}");
    plane.world.fault("");
    plane.current(THINGS, "one").await;
    assert_eq!(plane.world.things(), before, "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_look() {
    let faults = [
        ("ReadResource: die", "the provider ended during ReadResource (exit status: 42)"),
        ("ReadResource: hang", "the provider did not answer ReadResource within 12 seconds"),
        ("ReadResource: garbage", "the provider answered ReadResource with what is no answer"),
        ("ReadResource: huge", "the provider answered ReadResource with more than 67108864 bytes"),
        ("ReadResource: panic", "ReadResource"),
    ];
    let each = |(fault, says)| at_a_look(fault, says);
    futures::stream::iter(faults).map(each).buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
}

pub fn program(path: &Path, content: &[u8]) {
    // In one step: a program that is being written cannot be started.
    let half = path.with_extension("half");
    std::fs::write(&half, content).unwrap();
    std::fs::set_permissions(&half, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(half, path).unwrap();
}

/// The shelf with something wrong from the start, as a program of its own.
fn faulty_program(fault: &str) -> Vec<u8> {
    format!("#!/bin/sh\nFAULT='{fault}' exec {}\n", shelf_program().display()).into_bytes()
}

async fn provider(plane: &Plane, name: &str, path: &Path) {
    let object = json!({
        "apiVersion": "terraform.hangar.dev/v1alpha1", "kind": "Provider", "metadata": {"name": name},
        "spec": {"path": path},
    });
    plane.create(RESOURCE, object).await;
}

fn is_ready(object: Option<&Json>, status: &str, says: &str) -> bool {
    object.is_some_and(|object| {
        object.pointer("/status/conditions/0/status") == Some(&json!(status))
            && message(object, "Ready").contains(says)
    })
}

/// A program that cannot be served, until there is one in the same place that can.
async fn of_a_program(content: Vec<u8>, says: &str) {
    let plane = Plane::bare_in(impatient()).await;
    plane.provider_secret().await;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("terraform-provider-shelf");
    program(&path, &content);
    provider(&plane, "sick", &path).await;
    plane.until(RESOURCE, "sick", |object| is_ready(object, "False", says)).await;
    let made = plane.try_create(THINGS, thing("one", json!({"resource": {"name": "one"}}))).await;
    assert!(made.is_err(), "{says}: its kinds are served");
    // Another one is not held up.
    provider(&plane, "well", &shelf_program()).await;
    plane.until(RESOURCE, "well", |object| is_ready(object, "True", "")).await;
    plane.thing("one", json!({"resource": {"name": "one"}})).await;
    plane.current(THINGS, "one").await;
    program(&path, &faulty_program(""));
    plane.until(RESOURCE, "sick", |object| is_ready(object, "True", "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_program() {
    // An ELF header of a machine that nobody has.
    let mut foreign = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    foreign.resize(64, 0xee);
    let faults = [
        (foreign, "is not a program for this machine"),
        (faulty_program("protocol-4"), "speaks plugin protocol 4; this host speaks 5 and 6"),
        (faulty_program("not-a-plugin"), "its first line is not a handshake"),
        (faulty_program("exit"), "before it said where it listens: the shelf is closed"),
        (faulty_program("GetSchema: huge"), "answered GetProviderSchema with more than 67108864 bytes"),
        (faulty_program("GetSchema: hang"), "did not answer GetProviderSchema within 12 seconds"),
        (faulty_program("GetSchema: panic"), "GetProviderSchema"),
    ];
    let each = |(content, says)| of_a_program(content, says);
    futures::stream::iter(faults).map(each).buffer_unordered(TOGETHER).collect::<Vec<()>>().await;
}
