//! Control planes with databases of their own (`backend: dedicated`): where they are, how they get there and what is left.

use std::collections::BTreeSet;
use std::path::PathBuf;

use end_to_end::{Engine, Server};
use serde_json::{Value, json};

use super::{
    CONFIG_MAPS, CONTROL_PLANES, admin, config_map, create, delete, eventually, everything, hangar, inside,
    ready,
};

fn place(server: &Server) -> PathBuf {
    server.dir().join("data/dedicated")
}

/// The directories of databases, by their numbers.
pub(super) fn databases(server: &Server) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(place(server)).unwrap();
    entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).collect()
}

fn status(server: &Server, name: &str) -> Value {
    server.client().get(&format!("{CONTROL_PLANES}/{name}")).ok()["status"].clone()
}

/// Why one has no database of its own, if it wants one.
fn complaint(server: &Server, name: &str) -> Option<(String, String)> {
    let status = status(server, name);
    let mut conditions = status["conditions"].as_array()?.iter();
    let found = conditions.find(|one| one["type"] == "StoreDedicated")?;
    assert_eq!(found["status"], "False");
    Some((found["reason"].as_str()?.to_owned(), found["message"].as_str()?.to_owned()))
}

#[track_caller]
fn is_in(server: &Server, name: &str, store: &str) {
    eventually(&format!("{name} is in {store}"), || {
        (status(server, name)["store"] == store && ready(server, name)["status"]["store"] == store)
            .then_some(())
    });
    let found = admin(server, name).get(&inside(name, &format!("{CONFIG_MAPS}/m"))).ok();
    assert_eq!(found["data"]["value"], "v", "{name} in {store}");
}

#[test]
fn a_dedicated_backend_is_a_database_of_its_own() {
    let mut server = Server::start_on(Engine::Embedded);
    create(&server, "shared", &json!({"type": "k8s", "backend": "shared"}));
    server.restart();
    ready(&server, "shared");
    assert!(!place(&server).exists(), "nobody asked for one");
    hangar(&server, &["create", "own", "--backend-type", "dedicated", "--no-switch"]);
    create(&server, "other", &json!({"type": "k8s", "backend": "dedicated"}));
    admin(&server, "own").post(&inside("own", CONFIG_MAPS), &config_map("m", "v")).ok();
    is_in(&server, "own", "dedicated");
    assert_eq!(status(&server, "shared")["store"], "default");
    assert_eq!(complaint(&server, "own"), None);
    assert_eq!(databases(&server).len(), 2);

    // Controllers look after it, and it is there after a restart and after a kill.
    let client = admin(&server, "own");
    let namespaces = inside("own", "/api/v1/namespaces");
    client.post(&namespaces, &json!({"metadata": {"name": "team"}})).ok();
    eventually("its account", || {
        let account = format!("{namespaces}/team/serviceaccounts/default");
        (client.get(&account).code == 200).then_some(())
    });
    server.restart();
    is_in(&server, "own", "dedicated");
    server.kill();
    server.restart();
    is_in(&server, "own", "dedicated");
    let client = admin(&server, "own");
    client.delete(&format!("{namespaces}/team")).ok();
    eventually("the namespace goes", || {
        (client.get(&format!("{namespaces}/team")).code == 404).then_some(())
    });

    // A copy of it has a database too; a backup and what is made of it are as of any other.
    hangar(&server, &["fork", "own", "copy", "--no-switch"]);
    is_in(&server, "copy", "dedicated");
    assert_eq!(hangar(&server, &["diff", "own", "copy"]), "");
    let file = server.dir().join("backup").to_str().unwrap().to_owned();
    hangar(&server, &["backup", "own", &file]);
    hangar(&server, &["restore", "again", &file, "--store", "dedicated", "--no-switch"]);
    is_in(&server, "again", "dedicated");
    assert_eq!(hangar(&server, &["diff", "own", "again"]), "");
    assert_eq!(databases(&server).len(), 4);
    let listed = hangar(&server, &["list", "-o", "wide"]);
    let rows = listed.lines().filter(|line| line.split_whitespace().any(|cell| cell == "dedicated"));
    assert_eq!(rows.count(), 4, "{listed}");

    for name in ["own", "other", "copy", "again"] {
        delete(&server, name);
    }
    eventually("the databases go with them", || databases(&server).is_empty().then_some(()));
    assert_eq!(admin(&server, "shared").get(&inside("shared", CONFIG_MAPS)).code, 200);
}

#[test]
fn a_changed_backend_moves_the_control_plane() {
    let server = Server::start_on(Engine::Embedded);
    create(&server, "cp", &json!({"type": "k8s"}));
    let client = admin(&server, "cp");
    client.post(&inside("cp", CONFIG_MAPS), &config_map("m", "v")).ok();
    let before = everything(&client, "cp");
    let spec = |spec: Value| {
        server.client().patch(&format!("{CONTROL_PLANES}/cp"), "merge", &json!({"spec": spec})).ok();
    };
    spec(json!({"backend": "dedicated"}));
    is_in(&server, "cp", "dedicated");
    assert_eq!(databases(&server).len(), 1);
    // Its keys are what they were: the same client is let in.
    let after = everything(&client, "cp");
    assert_eq!(before, after);

    // A store that is named is the one.
    hangar(&server, &["move", "cp", "--store", "default"]);
    is_in(&server, "cp", "default");
    let (reason, message) = complaint(&server, "cp").unwrap();
    assert_eq!((reason.as_str(), message.contains("spec.store names default")), ("StoreNamed", true));
    eventually("its database goes", || databases(&server).is_empty().then_some(()));
    hangar(&server, &["move", "cp", "--store", "dedicated"]);
    is_in(&server, "cp", "dedicated");
    spec(json!({"store": null, "backend": "shared"}));
    is_in(&server, "cp", "default");
    assert_eq!(complaint(&server, "cp"), None);
    assert_eq!(everything(&client, "cp"), before);
}

#[test]
fn on_a_database_of_many_servers_it_is_said_that_there_is_none() {
    let server = Server::start_on(Engine::Postgres);
    create(&server, "cp", &json!({"type": "k8s", "backend": "dedicated"}));
    assert_eq!(status(&server, "cp")["store"], "default");
    let (reason, message) = complaint(&server, "cp").unwrap();
    assert_eq!((reason.as_str(), message.contains("a range of keys")), ("SharedStore", true));
}
