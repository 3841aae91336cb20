//! What a control plane may take is all it gets.

use end_to_end::Server;
use serde_json::json;

use super::{CONFIG_MAPS, CONTROL_PLANES, admin, config_map, create, eventually, inside};

#[test]
fn objects_and_bytes() {
    let server = Server::start();
    let host = server.client();
    create(&server, "small", &json!({"type": "k8s"}));
    let client = admin(&server, "small");
    let usage = || host.get("/hangar/v1/control-planes/small/usage").ok();
    let limit = |quota: serde_json::Value| {
        host.patch(&format!("{CONTROL_PLANES}/small"), "merge", &json!({"spec": {"quota": quota}})).ok();
    };
    let (objects, bytes) = (usage()["objects"].as_u64().unwrap(), usage()["bytes"].as_u64().unwrap());
    limit(json!({"objects": objects + 5}));
    let refused = eventually("the quota holds", || {
        let answer = client.post(&inside("small", CONFIG_MAPS), &json!({"metadata": {"generateName": "m-"}}));
        (answer.code == 403).then_some(answer)
    });
    assert!(
        refused.text().contains("exceeded quota of control plane \\\"small\\\": objects"),
        "{}",
        refused.text()
    );
    // Reading, changing and deleting go on, and what is deleted makes room.
    let list = client.get(&inside("small", CONFIG_MAPS)).ok();
    let name = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|one| one["metadata"]["name"].as_str().filter(|name| name.starts_with("m-")))
        .unwrap()
        .to_owned();
    client
        .patch(&inside("small", &format!("{CONFIG_MAPS}/{name}")), "merge", &json!({"data": {"a": "b"}}))
        .ok();
    client.delete(&inside("small", &format!("{CONFIG_MAPS}/{name}"))).ok();
    client.post(&inside("small", CONFIG_MAPS), &config_map("fits", "x")).ok();

    limit(json!({"objects": null, "bytes": bytes + 200_000}));
    let large = "x".repeat(50_000);
    // Until the new quota is known, it is the number of objects that is too large.
    eventually("the bytes are counted", || {
        let object = json!({"metadata": {"generateName": "large-"}, "data": {"value": large}});
        let answer = client.post(&inside("small", CONFIG_MAPS), &object);
        (answer.code == 403 && answer.text().contains(": bytes used")).then_some(())
    });
    assert!(usage()["bytes"].as_u64().unwrap() < bytes + 400_000, "{}", usage());
    limit(json!({"bytes": null}));
    eventually("the limit is lifted", || {
        (client.post(&inside("small", CONFIG_MAPS), &json!({"metadata": {"generateName": "m-"}})).code == 201)
            .then_some(())
    });
}

#[test]
fn requests_and_watches() {
    let server = Server::start();
    create(&server, "slow", &json!({"type": "k8s", "quota": {"requestsPerSecond": 4}}));
    create(&server, "deaf", &json!({"type": "k8s", "quota": {"watches": 2}}));
    create(&server, "other", &json!({"type": "k8s"}));
    let (slow, deaf, other) = (admin(&server, "slow"), admin(&server, "deaf"), admin(&server, "other"));
    let path = "/api/v1/namespaces/default";
    let answers: Vec<_> = (0..60).map(|_| slow.get(&inside("slow", path))).collect();
    let refused = answers.iter().filter(|answer| answer.code == 429).count();
    assert!(refused > 30 && refused < 60, "{refused} of 60 refused");
    assert!(answers.iter().all(|answer| matches!(answer.code, 200 | 429)));
    let told = answers.iter().find(|answer| answer.code == 429).unwrap();
    assert!(!told.header("retry-after").is_empty(), "a client is told when to come again");
    // The neighbour does not feel it.
    assert!((0..60).all(|_| other.get(&inside("other", path)).code == 200));

    let watched = "/api/v1/namespaces?watch=true";
    let open = [deaf.watch(&inside("deaf", watched)), deaf.watch(&inside("deaf", watched))];
    assert_eq!(deaf.get(&inside("deaf", watched)).code, 429);
    assert_eq!(deaf.get(&inside("deaf", path)).code, 200, "requests are not watches");
    other.watch(&inside("other", watched));
    let usage = server.client().get("/hangar/v1/control-planes/deaf/usage").ok();
    assert_eq!(usage["watches"], 2);
    drop(open);
}
