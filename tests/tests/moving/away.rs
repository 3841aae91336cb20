//! Stores that are not there when a server starts.

use std::process::Command;

use end_to_end::{Engine, Server};
use serde_json::{Value, json};

use crate::several::{CONTROL_PLANES, Stores, admin_of, condition, eventually, hangar};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn status(server: &Server, name: &str) -> Value {
    server.client().get(&format!("{CONTROL_PLANES}/{name}")).ok()["status"].clone()
}

/// Whether both conditions are so.
fn is(status: &Value, so: &str) -> bool {
    ["Synced", "Ready"].iter().all(|kind| condition(status, kind)["status"] == so)
}

pub fn a_store_that_is_away_at_start_comes_by_itself(store: &str) {
    let stores = Stores::start();
    let mut server = stores.server(Engine::Embedded);
    server.forgive("the store is unavailable");
    let other = if store == "pg" { "etcd" } else { "pg" };
    let planes = [("far", store), ("near", "default"), ("beside", other)];
    for (name, store) in planes {
        hangar(&server, &["create", name, "--store", store, "--no-switch"]).unwrap();
    }
    let clients = planes.map(|(name, _)| (name, admin_of(&server, name)));
    let maps = |name: &str| format!("/control-planes/{name}{MAPS}");
    let map = |name: &str| json!({"metadata": {"name": name}});
    clients.iter().for_each(|(name, client)| drop(client.post(&maps(name), &map("before")).ok()));
    server.stop();
    stores.named(store).kill();
    server.restart();

    let [(far, its), served @ ..] = &clients;
    let answer = its.get(&maps(far));
    assert_eq!(answer.code, 503, "{}", answer.text());
    assert_eq!((answer.header("retry-after"), &answer.json()["kind"]), ("1", &json!("Status")));
    let why = "cannot be reached";
    assert!(answer.text().contains(why), "{}", answer.text());
    for (name, client) in served {
        client.post(&maps(name), &map("meanwhile")).ok();
        assert_eq!(client.get(&maps(name)).ok()["items"].as_array().unwrap().len(), 3);
    }
    eventually("its conditions say so", || {
        let status = status(&server, far);
        let says = |kind| condition(&status, kind)["message"].as_str().is_some_and(|text| text.contains(why));
        is(&status, "False") && says("Synced") && says("Ready")
    });
    for (name, _) in served {
        // What is changed about them is done, and nothing is wrong with them.
        let patch = json!({"spec": {"quota": {"objects": 1000}}});
        server.client().patch(&format!("{CONTROL_PLANES}/{name}"), "merge", &patch).ok();
        eventually("it is as it should be", || {
            let status = status(&server, name);
            status["observedGeneration"] == 2 && is(&status, "True")
        });
    }

    stores.named(store).start_again();
    eventually("it is served", || its.get(&maps(far)).code == 200);
    its.post(&maps(far), &map("after")).ok();
    eventually("its conditions say so", || is(&status(&server, far), "True"));
    // Controllers look after it.
    let namespaces = format!("/control-planes/{far}/api/v1/namespaces");
    its.post(&namespaces, &map("team")).ok();
    its.delete(&format!("{namespaces}/team")).ok();
    eventually("its namespace is gone", || its.get(&format!("{namespaces}/team")).code == 404);
}

pub fn a_store_that_is_wrongly_configured_is_refused() {
    let stores = Stores::start();
    let refused = |with: &str, words: &str| {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new(end_to_end::binary())
            .args(["up", "--listen", "127.0.0.1:0", "--with-store", with])
            .arg("--data-dir")
            .arg(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("hangar: ")).collect();
        assert!(!output.status.success() && lines.len() == 1 && lines[0].contains(words), "{with}: {said}");
        // One thing is said: nothing is tried again that will not change.
        assert!(!said.contains("is away"), "{with}: {said}");
    };
    let postgres = stores.named("pg").url();
    let (server, _) = postgres.rsplit_once('/').unwrap();
    refused(
        &format!("far={server}/nowhere"),
        "the store \"far\" cannot be used: the database \"nowhere\" does not exist",
    );
    let (_, place) = postgres.rsplit_once('@').unwrap();
    refused(&format!("far=postgres://nobody:wrong@{place}"), "does not let user \"nobody\" in");
    refused("far=etcd://no port", "--with-store takes NAME=STORE");
    refused("far=mysql://there", "this version has no store of that kind");
}
