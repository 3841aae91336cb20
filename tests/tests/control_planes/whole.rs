//! Whole control planes: copied, compared, taken out and put back.

use end_to_end::Server;
use serde_json::{Value, json};

use super::{CONFIG_MAPS, admin, config_map, create, delete, everything, fill, inside, ready};

/// Of many kinds: a definition and objects of it, roles, secrets, accounts, namespaces.
pub(super) fn furnish(server: &Server, name: &str) {
    let client = admin(server, name);
    let post = |path: &str, object: Value| client.post(&inside(name, path), &object).ok();
    post("/api/v1/namespaces", json!({"metadata": {"name": "team"}}));
    post(
        "/api/v1/namespaces/team/secrets",
        json!({"metadata": {"name": "s"}, "stringData": {"password": "p\u{e4}ss"}}),
    );
    post("/api/v1/namespaces/team/serviceaccounts", json!({"metadata": {"name": "robot"}}));
    post(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles",
        json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
    );
    post(
        "/api/v1/namespaces/team/services",
        json!({"metadata": {"name": "svc"}, "spec": {"ports": [{"port": 80}]}}),
    );
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        }),
    );
    let thing = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"},
        "spec": {"depth": {"a": [1, 2.5, null, "x"]}},
    });
    post("/apis/example.com/v1/namespaces/team/things", thing);
}

#[test]
fn a_backup_in_a_fresh_installation_gives_identical_objects() {
    let (one, other) = (Server::start(), Server::start());
    create(&one, "cp1", &json!({"type": "k8s"}));
    furnish(&one, "cp1");
    fill(&admin(&one, "cp1"), "cp1", 300);
    // What controllers still had to do for the new objects is done when two looks show the same.
    let mut before = everything(&admin(&one, "cp1"), "cp1");
    loop {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let again = everything(&admin(&one, "cp1"), "cp1");
        if again == before {
            break;
        }
        before = again;
    }
    let backup = one.client().get("/hangar/v1/control-planes/cp1/export");
    assert_eq!(backup.code, 200);
    let kind = Some("application/octet-stream");
    let restored = other.client().send("POST", "/hangar/v1/control-planes/back/import", kind, &backup.body);
    assert_eq!(restored.code, 200, "{}", restored.text());
    ready(&other, "back");
    let mut after = everything(&admin(&other, "back"), "back");
    assert!(before.len() > 400, "{}", before.len());
    // Where the server is and what it is trusted by are told by each installation itself.
    let own = |key: &str| key.contains("kube-root-ca.crt") || key.ends_with(" default/kubernetes");
    before.retain(|key, _| !own(key));
    after.retain(|key, _| !own(key));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (key, object) in &before {
        assert_eq!(object, &after[key], "{key}");
    }

    // The same once more beside the original, compared by the server itself.
    let again = one.client().send("POST", "/hangar/v1/control-planes/again/import", kind, &backup.body);
    assert_eq!(again.code, 200, "{}", again.text());
    ready(&one, "again");
    let difference = one.client().get("/hangar/v1/control-planes/cp1/diff/again").ok();
    assert_eq!(difference["items"], json!([]));
    // Half a backup is none.
    let half = &backup.body[..backup.body.len() / 2];
    let refused = one.client().send("POST", "/hangar/v1/control-planes/half/import", kind, half);
    assert_eq!(refused.code, 400, "{}", refused.text());
    super::eventually("nothing is left of it", || {
        (one.client().get(&format!("{}/half", super::CONTROL_PLANES)).code == 404).then_some(())
    });
    assert_eq!(one.client().get("/hangar/v1/control-planes/half/usage").code, 404);
}

#[test]
fn a_fork_of_many_objects_is_whole_and_goes_its_own_way() {
    const COUNT: usize = 3_000;
    let server = Server::start();
    create(&server, "one", &json!({"type": "k8s"}));
    let one = admin(&server, "one");
    fill(&one, "one", COUNT);
    furnish(&server, "one");
    let source = json!({"type": "k8s", "source": {"controlPlane": "one"}});
    create(&server, "two", &source);
    let two = admin(&server, "two");
    let host = server.client();
    let diff = |a: &str, b: &str| {
        let found = host.get(&format!("/hangar/v1/control-planes/{a}/diff/{b}")).ok();
        let items = found["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|item| format!("{} {}", item["change"].as_str().unwrap(), item["name"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(diff("one", "two"), [""; 0]);
    assert_eq!(everything(&two, "two").len(), everything(&one, "one").len());

    // Each goes its own way, also where the copy still reads what the original has.
    let object = |name: &str| format!("{CONFIG_MAPS}/{name}");
    two.patch(&inside("two", &object("m00007")), "merge", &json!({"data": {"value": "two's"}})).ok();
    two.delete(&inside("two", &object("m02999"))).ok();
    one.patch(&inside("one", &object("m01500")), "merge", &json!({"data": {"value": "one's"}})).ok();
    one.delete(&inside("one", &object("m00001"))).ok();
    one.post(&inside("one", CONFIG_MAPS), &config_map("new", "x")).ok();
    assert_eq!(
        diff("one", "two"),
        ["added m00001", "changed m00007", "changed m01500", "removed m02999", "removed new"]
    );
    assert_eq!(two.get(&inside("two", &object("m01500"))).ok()["data"]["value"], "value 1500");

    // A copy of the copy, and the end of the original: nothing that was copied goes with it.
    create(&server, "three", &json!({"type": "k8s", "source": {"controlPlane": "two"}}));
    assert_eq!(diff("two", "three"), [""; 0]);
    delete(&server, "one");
    delete(&server, "two");
    let three = admin(&server, "three");
    let left = three.get(&inside("three", CONFIG_MAPS)).ok();
    // Those of the copy, and the one with the certificate.
    assert_eq!(left["items"].as_array().unwrap().len(), COUNT);
    assert_eq!(three.get(&inside("three", &object("m00007"))).ok()["data"]["value"], "two's");
    assert_eq!(three.get(&inside("three", &object("m00001"))).ok()["data"]["value"], "value 1");
    assert_eq!(three.get(&inside("three", &object("m02999"))).code, 404);
    let thing = three.get(&inside("three", "/apis/example.com/v1/namespaces/team/things/t")).ok();
    assert_eq!(thing["spec"]["depth"]["a"], json!([1, 2.5, null, "x"]));

    // One of the hosting control plane, or of what is not there, is refused in words.
    for (name, source, why) in [("h", "host", "cannot be copied"), ("n", "one", "there is no control plane")]
    {
        let spec = json!({"type": "k8s", "source": {"controlPlane": source}});
        host.post(super::CONTROL_PLANES, &super::control_plane(name, &spec)).ok();
        let message = super::eventually("it is told", || {
            let found = host.get(&format!("{}/{name}", super::CONTROL_PLANES)).ok();
            let conditions = found["status"]["conditions"].as_array()?.clone();
            let synced =
                conditions.into_iter().find(|one| one["type"] == "Synced" && one["status"] == "False")?;
            Some(synced["message"].as_str()?.to_owned())
        });
        assert!(message.contains(why), "{message}");
        delete(&server, name);
    }
}

/// Controllers had begun something in the original: in a copy of that moment they go on with it.
#[test]
fn what_was_under_way_goes_on_in_a_copy() {
    let server = Server::start();
    create(&server, "one", &json!({"type": "k8s"}));
    let (host, one) = (server.client(), admin(&server, "one"));
    let path = |path: &str| inside("one", path);
    one.post(&path("/api/v1/namespaces"), &json!({"metadata": {"name": "ending"}})).ok();
    one.post(&path("/api/v1/namespaces/ending/configmaps"), &config_map("in-it", "x")).ok();
    let owner = one.post(&path(CONFIG_MAPS), &config_map("owner", "x")).ok();
    let mut garbage = config_map("garbage", "x");
    garbage["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    let made = one.post(&path(CONFIG_MAPS), &garbage).ok();
    let since = made["metadata"]["resourceVersion"].as_str().unwrap();
    let watched =
        |path: &str| one.watch(&inside("one", &format!("{path}?watch=true&resourceVersion={since}")));
    let revision = |event: &Value| {
        event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };

    // The moment when the namespace is to go, and the last one that has what belongs to nobody any more.
    let namespaces = watched("/api/v1/namespaces");
    one.delete(&path("/api/v1/namespaces/ending")).ok();
    let ending = super::eventually("the namespace is to go", || {
        let event = namespaces.next();
        event["object"]["metadata"]["deletionTimestamp"].is_string().then(|| revision(&event))
    });
    let maps = watched(CONFIG_MAPS);
    one.delete(&path(&format!("{CONFIG_MAPS}/owner"))).ok();
    let gone_at = |name: &str| {
        super::eventually(&format!("{name} is deleted"), || {
            let event = maps.next();
            let its = event["type"] == "DELETED" && event["object"]["metadata"]["name"] == name;
            its.then(|| revision(&event))
        })
    };
    let (orphaned, collected) = (gone_at("owner"), gone_at("garbage"));
    assert!(orphaned < collected);

    let gone = |plane: &str, what: &str| {
        let client = admin(&server, plane);
        super::eventually(&format!("{what} is gone in {plane}"), || {
            (client.get(&inside(plane, what)).code == 404).then_some(())
        });
    };
    for (name, at, what) in [
        ("ended", ending, "/api/v1/namespaces/ending".to_owned()),
        ("clean", collected - 1, format!("{CONFIG_MAPS}/garbage")),
    ] {
        create(&server, name, &json!({"type": "k8s", "source": {"controlPlane": "one", "revision": at}}));
        gone(name, &what);
        let backup = host.get(&format!("/hangar/v1/control-planes/one/export?revision={at}"));
        assert_eq!(backup.code, 200);
        let restored = format!("{name}-restored");
        let into = format!("/hangar/v1/control-planes/{restored}/import");
        let answer = host.send("POST", &into, Some("application/octet-stream"), &backup.body);
        assert_eq!(answer.code, 200, "{}", answer.text());
        ready(&server, &restored);
        gone(&restored, &what);
    }
}
