//! How long one tracked write takes. A measurement, to be run by hand in an optimised build:
//! `cargo test --release -p apply speed -- --ignored --nocapture`

use std::time::Instant;

use serde_json::json;

use super::fixture::{NOW, Same};
use crate::*;

#[test]
#[ignore = "a measurement"]
fn a_tracked_update_of_a_small_config_map() {
    let reset = FieldSet::new();
    let write = Write { manager: "kubectl", api_version: "v1", subresource: "", now: NOW, reset: &reset };
    let versions = Same("ConfigMap");
    let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default", "uid": "6f1c", "labels": {"app": "web"}},
        "data": {"a": "x".repeat(300), "b": "y".repeat(300), "c": "z".repeat(300), "d": "1", "e": "2"}});
    track_update(None, &mut live, &write, &versions);
    let mut changed = live.clone();
    changed["data"]["d"] = json!("3");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
        "data": {"d": "4"}});

    const ROUNDS: u32 = 20_000;
    let measure = |name: &str, round: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| round());
        println!("{name}: {:?}", start.elapsed() / ROUNDS);
    };
    let mut new = changed.clone();
    let other = Write { manager: "other", ..write };
    measure("update with a change", &mut || {
        new["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
        track_update(Some(&live), &mut new, &other, &versions);
    });
    measure("the copy that the line above includes", &mut || {
        new["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
    });
    let mut same = live.clone();
    measure("update without a change", &mut || track_update(Some(&live), &mut same, &write, &versions));
    measure("apply with a change", &mut || {
        std::hint::black_box(apply(Some(&live), &config, true, &other, &versions).unwrap());
    });
}
