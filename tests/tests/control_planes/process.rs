//! A control plane in a process of its own, and what happens when that process, or the server's, is killed.

use std::path::PathBuf;
use std::process::{Command, Output};

use end_to_end::{Engine, Kubectl, Server};
use serde_json::{Value, json};

use super::{
    CONFIG_MAPS, CONTROL_PLANES, admin, config_map, create, delete, eventually, hangar, inside, ready,
};

/// The process that its status names.
fn process(server: &Server, name: &str) -> Option<u32> {
    let object = server.client().get(&format!("{CONTROL_PLANES}/{name}")).ok();
    let conditions = object["status"]["conditions"].as_array()?;
    let condition =
        conditions.iter().find(|one| one["type"] == "ProcessRunning" && one["status"] == "True")?;
    condition["message"].as_str()?.strip_prefix("process ")?.split(';').next()?.parse().ok()
}

fn runs(id: u32) -> bool {
    // One that has ended and that nobody has asked about yet is no process any more.
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn kill(id: u32) {
    assert!(Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap().success());
}

fn room(server: &Server, name: &str) -> PathBuf {
    server.dir().join("data/processes").join(name)
}

/// kubectl with the kubeconfig that the control plane hands out.
fn kubectl(server: &Server, name: &str, line: &str) -> Output {
    let kubeconfig = server.dir().join(format!("{name}.kubeconfig"));
    std::fs::write(&kubeconfig, hangar(server, &["kubeconfig", name])).unwrap();
    let kubectl =
        Kubectl::all().pop().expect("kubectl has to be installed: apt-get install kubernetes-client");
    let mut command = Command::new(kubectl.path);
    command.arg("--kubeconfig").arg(&kubeconfig).env("HOME", server.dir());
    command.args(line.split_whitespace()).output().unwrap()
}

#[track_caller]
fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_process_that_wants_more_memory_than_it_may_have_ends_alone() {
    let mut server = Server::start_on(Engine::Embedded);
    // Whatever a program says that is given no memory.
    for words in ["memory", "panicked at"] {
        server.forgive(words);
    }
    let limited =
        |size: &str| json!({"type": "k8s", "isolation": "process", "process": {"memoryLimit": size}});
    create(&server, "small", &limited("64Mi"));
    create(&server, "large", &apart());
    let large = eventually("its process is named", || process(&server, "large"));
    let admin = admin(&server, "small");
    let (path, much) = (inside("small", CONFIG_MAPS), "x".repeat(900_000));
    let mut acknowledged = Vec::new();
    for number in 0.. {
        assert!(number < 1_000, "there is no limit");
        let name = format!("m{number}");
        let object = config_map(&name, &much).to_string();
        match admin.try_send("POST", &path, Some("application/json"), object.as_bytes()) {
            Ok(answer) if answer.code == 201 => acknowledged.push(name),
            _ => break,
        }
        // The whole list at once is more than it may hold.
        let _ = admin.try_send("GET", &path, None, b"");
    }
    // With more room all that was acknowledged is there, and nobody else has noticed anything.
    let more = json!({"spec": {"process": {"memoryLimit": "1Gi"}}});
    server.client().patch(&format!("{CONTROL_PLANES}/small"), "merge", &more).ok();
    for name in acknowledged {
        let path = format!("{path}/{name}");
        eventually(&name, || {
            admin.try_send("GET", &path, None, b"").ok().filter(|answer| answer.code == 200)
        });
    }
    ready(&server, "small");
    assert_eq!(process(&server, "large"), Some(large));
}

fn apart() -> Value {
    json!({"type": "k8s", "isolation": "process", "process": {"memoryLimit": "1Gi"}})
}

#[test]
fn it_is_a_control_plane_like_others_and_outlives_every_kill() {
    let mut server = Server::start_on(Engine::Embedded);
    create(&server, "shared", &json!({"type": "k8s"}));
    create(&server, "apart", &apart());
    let first = eventually("its process is named", || process(&server, "apart"));
    assert!(runs(first));

    said(kubectl(&server, "apart", "create namespace x"));
    said(kubectl(&server, "apart", "create configmap kept --namespace x --from-literal=a=b"));
    said(kubectl(
        &server,
        "apart",
        "create clusterrolebinding all --clusterrole=view --serviceaccount=x:default",
    ));
    let wait = "wait --for=jsonpath={.status.phase}=Active namespace/x --timeout=60s";
    said(kubectl(&server, "apart", wait));
    // Its own controllers are at work, and its own authority and its own policy judge.
    said(kubectl(&server, "apart", "wait --for=create serviceaccount/default --namespace x --timeout=60s"));
    let can = |line: &str| String::from_utf8(kubectl(&server, "apart", line).stdout).unwrap();
    assert_eq!(can("auth can-i list pods --as=system:serviceaccount:x:default"), "yes\n");
    assert_eq!(can("auth can-i delete pods --as=system:serviceaccount:x:default"), "no\n");
    let stranger = admin(&server, "shared");
    assert_eq!(stranger.get(&inside("apart", "/api/v1/namespaces")).code, 401);
    assert_eq!(admin(&server, "apart").get(&inside("shared", "/api/v1/namespaces")).code, 401);
    // Watches come through, event by event.
    let own = admin(&server, "apart");
    let watch = own.watch(&inside("apart", &format!("{CONFIG_MAPS}?watch=true")));
    own.post(&inside("apart", CONFIG_MAPS), &config_map("seen", "1")).ok();
    eventually("the watch sees it", || {
        let event = watch.next();
        (event["object"]["metadata"]["name"] == "seen").then_some(())
    });
    drop(watch);

    // What can be asked of whole control planes.
    assert!(hangar(&server, &["top"]).lines().any(|line| line.starts_with("apart ")));
    let file = server.dir().join("backup");
    hangar(&server, &["backup", "apart", file.to_str().unwrap()]);
    hangar(&server, &["restore", "again", file.to_str().unwrap(), "--no-switch"]);
    let kept = said(kubectl(&server, "again", "get configmap kept --namespace x -o jsonpath={.data.a}"));
    assert_eq!(kept, "b");
    // Copied, as it is and as it was, it shares the server's process.
    let before = admin(&server, "apart").get(&inside("apart", "/api/v1/namespaces/x")).ok();
    let before = before["metadata"]["resourceVersion"].as_str().unwrap();
    hangar(&server, &["fork", "apart", "copy", "--no-switch"]);
    hangar(&server, &["fork", "apart", "past", "--at", before, "--no-switch"]);
    for (name, there) in [("copy", true), ("past", false)] {
        assert!(said(kubectl(&server, name, "get namespace x -o name")).contains("namespace/x"));
        let found = kubectl(&server, name, "get configmap kept --namespace x -o jsonpath={.data.a}");
        assert_eq!(found.stdout == b"b", there, "{name}: {found:?}");
    }
    // Compared, it makes no difference where either of the two is.
    for (one, other) in [("apart", "copy"), ("again", "apart"), ("apart", "apart")] {
        assert_eq!(hangar(&server, &["diff", one, other]), "", "{one} {other}");
    }
    said(kubectl(&server, "apart", "create configmap more --namespace x --from-literal=a=b"));
    said(kubectl(&server, "apart", "patch configmap kept --namespace x -p {\"data\":{\"a\":\"c\"}}"));
    let changed = "~ configmaps x/kept /data/a\n";
    assert_eq!(hangar(&server, &["diff", "copy", "apart"]), format!("{changed}+ configmaps x/more\n"));
    assert_eq!(hangar(&server, &["diff", "apart", "copy"]), format!("{changed}- configmaps x/more\n"));
    said(kubectl(&server, "apart", "patch configmap kept --namespace x -p {\"data\":{\"a\":\"b\"}}"));
    assert_eq!(server.client().get("/hangar/v1/control-planes/apart/diff/nobody").code, 404);

    // Its process is killed: another one takes its place, with all that was there.
    let is_kept = |server: &Server| {
        let output = kubectl(server, "apart", "get configmap kept --namespace x -o jsonpath={.data.a}");
        (output.stdout == b"b").then_some(())
    };
    kill(first);
    eventually("it serves again", || is_kept(&server));
    let second = eventually("another process", || process(&server, "apart").filter(|id| *id != first));
    assert!(!runs(first) && runs(second));
    ready(&server, "apart");

    // The server is killed: its process does not outlive it, and the next server starts another.
    server.kill();
    eventually("no process is left", || (!runs(second)).then_some(()));
    server.restart();
    eventually("it serves again", || is_kept(&server));
    ready(&server, "apart");
    let third = eventually("another process", || process(&server, "apart").filter(|id| *id != second));
    assert!(runs(third));

    // Stopped in peace, they end together.
    server.restart();
    assert!(!runs(third));
    eventually("it serves again", || is_kept(&server));
    ready(&server, "apart");

    delete(&server, "apart");
    assert!(!room(&server, "apart").exists());
    assert_eq!(own.get(&inside("apart", "/api/v1/namespaces")).code, 401);
    // The name is free, and nothing comes back.
    create(&server, "apart", &apart());
    let found = kubectl(&server, "apart", "get namespace x");
    assert!(!found.status.success(), "{found:?}");
    assert_eq!(own.get(&inside("apart", "/api/v1/namespaces")).code, 401);
}

#[test]
fn limits_quotas_and_revocation_reach_the_process() {
    let server = Server::start_on(Engine::Embedded);
    let host = server.client();
    let path = format!("{CONTROL_PLANES}/apart");
    let line = ["create", "apart", "--isolation", "process", "--memory-limit", "1Gi", "--no-switch"];
    hangar(&server, &line);
    let first = eventually("its process is named", || process(&server, "apart"));
    let limits = std::fs::read_to_string(format!("/proc/{first}/limits")).unwrap();
    let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert!(data.contains(&(1u64 << 30).to_string()), "{data}");

    // Another quota is another start.
    host.patch(&path, "merge", &json!({"spec": {"quota": {"objects": 10}}})).ok();
    let next = eventually("another process", || process(&server, "apart").filter(|id| *id != first));
    let mut tried = 0;
    eventually("its quota holds", || {
        tried += 1;
        let object = config_map(&format!("m{tried}"), "1");
        let answer = admin(&server, "apart").post(&inside("apart", CONFIG_MAPS), &object);
        (answer.code == 403).then_some(())
    });
    host.patch(&path, "merge", &json!({"spec": {"quota": null}})).ok();
    eventually("another process", || process(&server, "apart").filter(|id| *id != next));

    let before = admin(&server, "apart");
    eventually("it answers", || {
        (before.get(&inside("apart", "/api/v1/namespaces")).code == 200).then_some(())
    });
    hangar(&server, &["revoke", "apart"]);
    eventually("what was handed out is worthless", || {
        (before.get(&inside("apart", "/api/v1/namespaces")).code == 401).then_some(())
    });
    eventually("what is handed out now is not", || {
        (admin(&server, "apart").get(&inside("apart", "/api/v1/namespaces")).code == 200).then_some(())
    });

    // What cannot be done is said.
    let refused = host.patch(&path, "merge", &json!({"spec": {"isolation": "shared"}}));
    assert_eq!(refused.code, 422, "{refused:?}");
    let small = json!({"type": "k8s", "isolation": "process", "process": {"memoryLimit": "1Mi"}});
    let refused = host.post(CONTROL_PLANES, &super::control_plane("small", &small));
    assert!(refused.code == 422 && refused.text().contains("at least 64Mi"), "{refused:?}");
    for (name, spec, why) in [
        (
            "copy",
            json!({"type": "k8s", "source": {"controlPlane": "apart", "revision": 1_000_000}}),
            "spec.source: ",
        ),
        (
            "begun",
            json!({"type": "k8s", "isolation": "process", "source": {"controlPlane": "apart"}}),
            "does not begin as a copy",
        ),
    ] {
        host.post(CONTROL_PLANES, &super::control_plane(name, &spec)).ok();
        eventually(&format!("{name}: {why}"), || {
            let object = host.get(&format!("{CONTROL_PLANES}/{name}")).ok();
            let conditions = object["status"]["conditions"].as_array()?.clone();
            let synced = conditions.into_iter().find(|one| one["type"] == "Synced")?;
            synced["message"].as_str()?.contains(why).then_some(())
        });
        delete(&server, name);
    }
}
