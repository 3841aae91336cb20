//! The controllers run at one server at a time, and go on at another when that one is gone.

use std::time::{Duration, Instant};

use end_to_end::{Client, ControlPlane, Engine};
use serde_json::json;

use crate::load::Fleet;

/// A lease expires, and then there is work to do.
const PATIENCE: Duration = Duration::from_secs(90);

pub fn the_controllers_go_on_elsewhere(engine: Engine) {
    let fleet = Fleet::start(engine, 2);
    a_namespace_comes_and_goes(fleet.client(1), "before");
    fleet.server(0).kill();
    a_namespace_comes_and_goes(fleet.client(1), "without-the-first");
    fleet.server(0).restart();
    // What only the first does is done by the first, whoever does the rest.
    ControlPlane::create(&fleet.server(0), "made-again");
    fleet.server(1).kill();
    a_namespace_comes_and_goes(fleet.client(0), "without-the-second");
    fleet.server(1).restart();
    // Given back, not left to expire: the other goes on at once.
    fleet.server(0).stop();
    a_namespace_comes_and_goes(fleet.client(1), "after-a-stop");
    fleet.server(0).restart();
}

/// Its end takes a controller that empties it.
fn a_namespace_comes_and_goes(client: &Client, name: &str) {
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).ok();
    let path = format!("/api/v1/namespaces/{name}");
    client.post(&format!("{path}/configmaps"), &json!({"metadata": {"name": "content"}})).ok();
    client.delete(&path).ok();
    let began = Instant::now();
    while client.get(&path).code != 404 {
        assert!(
            began.elapsed() < PATIENCE,
            "{name} is not gone after {PATIENCE:?}: {}",
            client.get(&path).text()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
