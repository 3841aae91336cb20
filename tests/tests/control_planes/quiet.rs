//! What the log says of control planes that come and go: nothing that somebody should look at.

use end_to_end::{Engine, Server};
use serde_json::{Value, json};

use super::{CONFIG_MAPS, CONTROL_PLANES, admin, control_plane, create, eventually, fill, inside};

const GROUP: &str = "quiet.example.com";

/// A kind with objects that own others, so that every controller has something to do when all of it goes.
fn use_it(server: &Server, name: &str) {
    let client = admin(server, name);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.post(&inside(name, definitions), &definition).ok();
    client.post(&inside(name, "/api/v1/namespaces"), &json!({"metadata": {"name": "team"}})).ok();
    let things = inside(name, &format!("/apis/{GROUP}/v1/namespaces/team/things"));
    let owner = eventually("the kind is served", || {
        let thing =
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "metadata": {"name": "owner"}});
        let made = client.post(&things, &thing);
        (made.code == 201).then(|| made.json())
    });
    let reference = json!([{
        "apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    for index in 0..20 {
        let owned = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("owned{index}"), "ownerReferences": reference},
        });
        client.post(&inside(name, "/api/v1/namespaces/team/configmaps"), &owned).ok();
    }
    fill(&client, name, 50);
    client.delete(&format!("{things}/owner")).ok();
    client.delete(&inside(name, &format!("{CONFIG_MAPS}/m00001"))).ok();
}

fn alarms(server: &Server) -> Vec<String> {
    let log = server.log();
    let is_alarm = |line: &&str| matches!(line.split_whitespace().nth(1), Some("WARN" | "ERROR"));
    log.lines().filter(is_alarm).map(str::to_owned).collect()
}

/// They go while their controllers are still at work in them.
#[test]
fn control_planes_come_and_go_without_an_alarm() {
    let mut server = Server::start_on(Engine::Embedded);
    let kinds: [(&str, Value); 7] = [
        ("k8s", json!({"type": "k8s"})),
        ("vcluster", json!({"type": "vcluster"})),
        ("k3s", json!({"type": "k3s"})),
        ("ocm", json!({"type": "ocm"})),
        ("dedicated", json!({"type": "k8s", "backend": "dedicated"})),
        ("process", json!({"type": "k8s", "isolation": "process"})),
        ("fork", json!({"type": "k8s", "source": {"controlPlane": "original"}})),
    ];
    create(&server, "original", &json!({"type": "k8s"}));
    create(&server, "hosting", &json!({"type": "host"}));
    for round in 0..2 {
        for (kind, spec) in &kinds {
            create(&server, &format!("{kind}{round}"), spec);
        }
        for (kind, _) in &kinds {
            use_it(&server, &format!("{kind}{round}"));
        }
        let host = server.client();
        for (kind, _) in &kinds {
            host.delete(&format!("{CONTROL_PLANES}/{kind}{round}")).ok();
        }
        // One that goes while it comes.
        host.post(CONTROL_PLANES, &control_plane("brief", &json!({"type": "k8s"}))).ok();
        host.delete(&format!("{CONTROL_PLANES}/brief")).ok();
        eventually("all are gone", || {
            let left = host.get(CONTROL_PLANES).ok()["items"].as_array().unwrap().len();
            (left == 2).then_some(())
        });
    }
    assert_eq!(alarms(&server), Vec::<String>::new());
    server.restart();
    assert_eq!(alarms(&server), Vec::<String>::new());
}
