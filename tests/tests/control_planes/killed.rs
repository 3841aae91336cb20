//! A server that is killed in the middle of making, and of unmaking, a hundred control planes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use end_to_end::{Client, Server};
use serde_json::{Value, json};

use super::dedicated::databases;
use super::{CONTROL_PLANES, control_plane, credentials, eventually, hangar, inside, is_true};

const ASKERS: usize = 8;

fn name(index: usize) -> String {
    format!("cp{index:03}")
}

/// Asks for something for each of the hundred, from several sides, until the server is killed when about so many
/// have been answered. What is not answered is asked again later.
fn until_killed(
    server: &mut Server,
    open: &[usize],
    kill_after: usize,
    ask: impl Fn(&Client, usize) -> bool + Sync,
) -> Vec<usize> {
    let (answered, dead) = (AtomicUsize::new(0), AtomicBool::new(false));
    let client = server.client();
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for asker in 0..ASKERS {
            let (client, ask, answered, dead, done) = (&client, &ask, &answered, &dead, &done);
            scope.spawn(move || {
                for index in open.iter().copied().skip(asker).step_by(ASKERS) {
                    if dead.load(Ordering::Relaxed) {
                        return;
                    }
                    if ask(client, index) {
                        answered.fetch_add(1, Ordering::Relaxed);
                        done.lock().unwrap().push(index);
                    }
                }
            });
        }
        eventually("enough is asked", || {
            (answered.load(Ordering::Relaxed) >= kill_after.min(open.len())).then_some(())
        });
        // The controllers are a little behind the requests: in the middle of many of them.
        std::thread::sleep(Duration::from_millis(30));
        dead.store(true, Ordering::Relaxed);
        server.kill();
    });
    done.into_inner().unwrap()
}

fn list(client: &Client, path: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut token = String::new();
    loop {
        let page = client.get(&format!("{path}?limit=500&continue={token}")).ok();
        for item in page["items"].as_array().unwrap() {
            all.insert(item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone());
        }
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return all;
        }
    }
}

/// Control planes that the store has, whatever objects say.
fn tenants(client: &Client) -> BTreeSet<String> {
    let all = client.get("/hangar/v1/control-planes").ok();
    let names = all["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
    names.filter(|name| name != "host").collect()
}

/// Every control plane that is asked for is wholly there, and of all others there is nothing.
#[track_caller]
fn each_is_wholly_there_or_wholly_gone(server: &Server, wanted: &BTreeSet<String>) {
    let host = server.client();
    let objects = eventually("all are ready, and none is stuck", || {
        let objects = list(&host, CONTROL_PLANES);
        let settled = objects
            .values()
            .all(|one| is_true(one, "Ready") && one["metadata"].get("deletionTimestamp").is_none());
        (settled && objects.len() == wanted.len()).then_some(objects)
    });
    assert_eq!(&objects.keys().cloned().collect::<BTreeSet<_>>(), wanted);
    assert_eq!(&tenants(&host), wanted, "as the store has them");
    let namespaces: BTreeSet<String> = list(&host, "/api/v1/namespaces")
        .into_keys()
        .filter_map(|name| name.strip_suffix("-system").map(str::to_owned))
        .filter(|name| name.starts_with("cp"))
        .collect();
    assert_eq!(&namespaces, wanted, "as namespaces");
    let listed = hangar(server, &["list", "-o", "name"]);
    let listed: BTreeSet<String> =
        listed.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(&listed, wanted, "as the command line shows them");
    for name in wanted {
        let uid = &objects[name]["metadata"]["uid"];
        for path in [
            format!("/api/v1/namespaces/{name}-system"),
            format!("/api/v1/namespaces/{name}-system/secrets/admin-kubeconfig"),
            format!("/api/v1/namespaces/{name}-system/secrets/cm-kubeconfig"),
            format!("/api/v1/namespaces/{name}-system/secrets/k8s-certs"),
            format!("/api/v1/namespaces/{name}-system/services/{name}"),
            format!("/apis/networking.k8s.io/v1/namespaces/{name}-system/ingresses/{name}"),
            format!("/apis/apps/v1/namespaces/{name}-system/deployments/kube-apiserver"),
            format!("/apis/apps/v1/namespaces/{name}-system/deployments/kube-controller-manager"),
        ] {
            assert_eq!(&host.get(&path).ok()["metadata"]["ownerReferences"][0]["uid"], uid, "{path}");
        }
        // Its door is open to whom its Secret says, and it is alive inside.
        let admin = server.client_as(credentials(&host, name).unwrap());
        assert_eq!(admin.get(&inside(name, "/api/v1/namespaces/kube-system")).code, 200, "{name}");
    }
}

#[test]
fn in_the_middle_of_a_hundred() {
    in_the_middle_of(&mut Server::start(), 100, &json!({"type": "k8s"}));
}

/// No directory is left that belongs to nobody, either.
#[test]
fn in_the_middle_of_some_with_databases_of_their_own() {
    let mut server = Server::start();
    in_the_middle_of(&mut server, 24, &json!({"type": "k8s", "backend": "dedicated"}));
    assert_eq!(databases(&server).len(), 0);
}

fn in_the_middle_of(server: &mut Server, count: usize, spec: &Value) {
    // When to kill, for a hundred.
    let part = |of_a_hundred: usize| of_a_hundred * count / 100;
    let is_dedicated = spec["backend"] == "dedicated";
    let post = |client: &Client, index: usize| {
        let object = control_plane(&name(index), spec).to_string();
        let sent = client.try_send("POST", CONTROL_PLANES, Some("application/json"), object.as_bytes());
        sent.is_ok_and(|answer| matches!(answer.code, 201 | 409))
    };
    let mut open: Vec<usize> = (0..count).collect();
    for kill_after in [10, 25, 30] {
        let done = until_killed(server, &open, part(kill_after), post);
        server.restart();
        let there = list(&server.client(), CONTROL_PLANES);
        for index in &done {
            assert!(there.contains_key(&name(*index)), "{} was acknowledged and is not there", name(*index));
        }
        open.retain(|index| !there.contains_key(&name(*index)));
    }
    let client = server.client();
    assert!(open.iter().all(|index| post(&client, *index)));
    let all: BTreeSet<String> = (0..count).map(name).collect();
    each_is_wholly_there_or_wholly_gone(server, &all);
    if is_dedicated {
        assert_eq!(databases(server).len(), count);
    }

    // Half of them go, and the server is killed while they do; the others stay as they are.
    let mut wanted: BTreeSet<String> = (0..count).filter(|index| index % 2 == 1).map(name).collect();
    let mut open: Vec<usize> = (0..count).filter(|index| index % 2 == 0).collect();
    let delete = |client: &Client, index: usize| {
        let sent = client.try_send("DELETE", &format!("{CONTROL_PLANES}/{}", name(index)), None, b"");
        sent.is_ok_and(|answer| matches!(answer.code, 200 | 202 | 404))
    };
    for kill_after in [8, 20] {
        let done = until_killed(server, &open, part(kill_after), delete);
        server.restart();
        let there = list(&server.client(), CONTROL_PLANES);
        for index in &done {
            let left = there.get(&name(*index));
            let going = left.is_none_or(|one| one["metadata"]["deletionTimestamp"].is_string());
            assert!(going, "{} was asked to go, and that was acknowledged", name(*index));
        }
        open.retain(|index| {
            there.get(&name(*index)).is_some_and(|one| one["metadata"].get("deletionTimestamp").is_none())
        });
    }
    let client = server.client();
    assert!(open.iter().all(|index| delete(&client, *index)));
    each_is_wholly_there_or_wholly_gone(server, &wanted);

    // And the rest, with a start in between that is killed before it is one.
    let rest: Vec<usize> = (0..count).filter(|index| index % 2 == 1).collect();
    let done = until_killed(server, &rest, part(30), delete);
    println!("{} were acknowledged before the last kill", done.len());
    server.start_and_kill(Duration::from_millis(150));
    server.restart();
    let client = server.client();
    assert!(rest.iter().all(|index| delete(&client, *index)));
    wanted.clear();
    each_is_wholly_there_or_wholly_gone(server, &wanted);
}
