//! Control planes that the operator made keep to themselves. What is tried at every door and with every forgery
//! stands in `crates/listener/tests/isolation`; here is what a person has: kubeconfigs.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

use end_to_end::{Client, ControlPlane, Server};
use serde_json::json;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NOTE: &str = "/api/v1/namespaces/default/configmaps/note";

/// A control plane with a note in it, and its administrator.
fn with_note(server: &Server, name: &str, text: &str) -> (ControlPlane, Client) {
    let plane = ControlPlane::create(server, name);
    let client = server.client_as(plane.credentials());
    let note = json!({"metadata": {"name": "note"}, "data": {"text": text}});
    client.post(&plane.path(CONFIG_MAPS), &note).ok();
    assert_eq!(client.get(&plane.path(NOTE)).ok()["data"]["text"], text);
    (plane, client)
}

#[test]
fn a_kubeconfig_opens_one_control_plane() {
    let server = Server::start();
    let (a, of_a) = with_note(&server, "a", "only a");
    let (b, of_b) = with_note(&server, "b", "only b");
    let of_host = server.client();
    for (client, path) in [
        (&of_a, b.path(NOTE)),
        (&of_b, a.path(NOTE)),
        (&of_a, NOTE.to_owned()),
        (&of_b, "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes".to_owned()),
        (&of_a, "/api/v1/namespaces/b-system/secrets/admin-kubeconfig".to_owned()),
        // Whoever hosts a control plane has its kubeconfig, but is nobody in it.
        (&of_host, a.path(NOTE)),
        (&of_a, b.path("/version")),
    ] {
        let answer = client.get(&path);
        assert_eq!(answer.code, 401, "{path}: {}", answer.text());
    }
    assert_eq!(of_host.get(NOTE).code, 404, "the same name in the hosting control plane is another object");
}

#[test]
fn a_new_one_of_the_same_name_knows_nothing_of_the_old() {
    let server = Server::start();
    let (old, of_old) = with_note(&server, "b", "old");
    let page = of_old.get(&old.path("/api/v1/configmaps?limit=1")).ok();
    old.delete(&server);
    assert_eq!(of_old.get(&old.path(NOTE)).code, 401, "as at one that is there and does not know it");

    let new = ControlPlane::create(&server, "b");
    let of_new = server.client_as(new.credentials());
    assert_eq!(of_new.get(&new.path(NOTE)).code, 404);
    assert_eq!(of_old.get(&new.path(NOTE)).code, 401);
    assert_eq!(of_old.get(&new.path("/version")).code, 401);
    let next = page["metadata"]["continue"].as_str().unwrap();
    assert_eq!(of_new.get(&new.path(&format!("/api/v1/configmaps?limit=1&continue={next}"))).code, 400);
    assert!(!of_new.get(&new.path("/api/v1/configmaps")).text().contains("old"));
    server_restarts(server, &new, &of_old);
}

/// What was refused stays refused by a server that has forgotten nothing.
fn server_restarts(mut server: Server, new: &ControlPlane, of_old: &Client) {
    server.restart();
    assert_eq!(of_old.get(&new.path(NOTE)).code, 401);
    assert_eq!(server.client_as(new.credentials()).get(&new.path("/api/v1/namespaces/default")).code, 200);
}
