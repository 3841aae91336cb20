//! A server that is killed in the middle of making, of unmaking, and of both with a hundred control planes: most in the
//! server's store, some in databases and a few in processes of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use end_to_end::{Client, Server};
use serde_json::{Value, json};

use super::dedicated::databases;
use super::{CONTROL_PLANES, control_plane, credentials, eventually, hangar, inside, is_true};

const ASKERS: usize = 8;
const COUNT: usize = 100;

/// When the server is killed.
struct Kill {
    /// When about so many requests have been answered,
    answered: usize,
    /// and so many milliseconds later: controllers are a little behind the requests.
    pause: u64,
}

const fn kill(answered: usize, pause: u64) -> Kill {
    Kill { answered, pause }
}

/// What is asked for about one of the hundred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    There,
    Gone,
}

fn name(index: usize) -> String {
    format!("cp{index:03}")
}

fn index(name: &str) -> usize {
    name.trim_start_matches("cp").parse().unwrap()
}

fn has_process(index: usize) -> bool {
    index % 25 == 10
}

fn has_database(index: usize) -> bool {
    index % 5 == 4
}

fn spec(index: usize) -> Value {
    if has_process(index) {
        json!({"type": "k8s", "isolation": "process"})
    } else if has_database(index) {
        json!({"type": "k8s", "backend": "dedicated"})
    } else {
        json!({"type": "k8s"})
    }
}

/// Whether it was acknowledged, or had been before.
fn ask(client: &Client, index: usize, wish: Wish) -> bool {
    let sent = match wish {
        Wish::There => {
            let object = control_plane(&name(index), &spec(index)).to_string();
            client.try_send("POST", CONTROL_PLANES, Some("application/json"), object.as_bytes())
        }
        Wish::Gone => client.try_send("DELETE", &format!("{CONTROL_PLANES}/{}", name(index)), None, b""),
    };
    let good: &[u16] = match wish {
        Wish::There => &[201, 409],
        Wish::Gone => &[200, 202, 404],
    };
    sent.is_ok_and(|answer| good.contains(&answer.code))
}

/// Whether the object, if there is one, is as it was asked for.
fn shows(found: Option<&Value>, wish: Wish) -> bool {
    let stays = found.is_some_and(|one| one["metadata"].get("deletionTimestamp").is_none());
    stays == (wish == Wish::There)
}

/// Asks for everything, from several sides, and kills the server; what was not answered is asked again. All that was
/// acknowledged is seen by the next server.
fn through_kills(server: &mut Server, wishes: impl Iterator<Item = (usize, Wish)>, kills: &[Kill]) {
    let mut open: Vec<(usize, Wish)> = wishes.collect();
    for kill in kills {
        let done = until_killed(server, &open, kill);
        server.restart();
        let there = list(&server.client(), CONTROL_PLANES);
        for (index, wish) in &done {
            let name = name(*index);
            assert!(shows(there.get(&name), *wish), "{name}: {wish:?} was acknowledged, and is not so");
        }
        open.retain(|(index, wish)| !shows(there.get(&name(*index)), *wish));
    }
    let client = server.client();
    assert!(open.iter().all(|(index, wish)| ask(&client, *index, *wish)));
}

fn until_killed(server: &mut Server, open: &[(usize, Wish)], kill: &Kill) -> Vec<(usize, Wish)> {
    let (answered, dead) = (AtomicUsize::new(0), AtomicBool::new(false));
    let client = server.client();
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for asker in 0..ASKERS {
            let (client, answered, dead, done) = (&client, &answered, &dead, &done);
            scope.spawn(move || {
                for (index, wish) in open.iter().copied().skip(asker).step_by(ASKERS) {
                    if dead.load(Ordering::Relaxed) {
                        return;
                    }
                    if ask(client, index, wish) {
                        answered.fetch_add(1, Ordering::Relaxed);
                        done.lock().unwrap().push((index, wish));
                    }
                }
            });
        }
        eventually("enough is asked", || {
            (answered.load(Ordering::Relaxed) >= kill.answered.min(open.len())).then_some(())
        });
        std::thread::sleep(Duration::from_millis(kill.pause));
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
    // One in a process is told of when that answers.
    eventually("they are as the stores have them", || (&tenants(&host) == wanted).then_some(()));
    let own = |of: fn(usize) -> bool| wanted.iter().filter(|name| of(index(name))).cloned().collect();
    let with_databases: BTreeSet<String> = own(has_database);
    eventually("no database is nobody's", || (databases(server).len() == with_databases.len()).then_some(()));
    let with_processes: BTreeSet<String> = own(has_process);
    let rooms = std::fs::read_dir(server.dir().join("data/processes")).unwrap();
    let rooms: BTreeSet<String> =
        rooms.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(rooms, with_processes, "no process is nobody's");
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
        eventually(&format!("{name} answers"), || {
            (admin.get(&inside(name, "/api/v1/namespaces/kube-system")).code == 200).then_some(())
        });
    }
}

#[test]
fn in_the_middle_of_a_hundred() {
    let mut server = Server::start();
    let (even, odd) = (|index: &usize| index.is_multiple_of(2), |index: &usize| !index.is_multiple_of(2));
    let names = |of: fn(&usize) -> bool| (0..COUNT).filter(of).map(name).collect::<BTreeSet<String>>();

    let all = (0..COUNT).map(|index| (index, Wish::There));
    through_kills(&mut server, all, &[kill(10, 0), kill(25, 30), kill(30, 150)]);
    each_is_wholly_there_or_wholly_gone(&server, &names(|_| true));

    // Half of them go; the others stay as they are.
    let half = (0..COUNT).filter(even).map(|index| (index, Wish::Gone));
    through_kills(&mut server, half, &[kill(8, 0), kill(20, 100)]);
    each_is_wholly_there_or_wholly_gone(&server, &names(odd));

    // One half comes again under the old names while the other goes.
    let both = (0..COUNT).map(|index| (index, if even(&index) { Wish::There } else { Wish::Gone }));
    through_kills(&mut server, both, &[kill(20, 10), kill(40, 60)]);
    each_is_wholly_there_or_wholly_gone(&server, &names(even));

    // And the rest, with a start in between that is killed before it is one.
    let rest: Vec<(usize, Wish)> = (0..COUNT).filter(even).map(|index| (index, Wish::Gone)).collect();
    let done = until_killed(&mut server, &rest, &kill(30, 30));
    println!("{} were acknowledged before the last kill", done.len());
    server.start_and_kill(Duration::from_millis(150));
    server.restart();
    through_kills(&mut server, rest.into_iter(), &[]);
    each_is_wholly_there_or_wholly_gone(&server, &names(|_| false));
}
