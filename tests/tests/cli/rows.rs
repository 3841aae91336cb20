//! KubeFlex's table of commands, flag by flag, seen in what each leads to.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::Server;
use serde_json::{Value, json};

use super::{Desk, finished};

fn spec(desk: &Desk, name: &str) -> Value {
    let shown = desk.kubectl(&format!("--context hangar get controlplane {name} -o json")).ok();
    serde_json::from_str::<Value>(&shown).unwrap()["spec"].clone()
}

#[test]
fn flags_of_create_reach_the_object() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.kflex("create plain").ok();
    let plain = spec(&desk, "plain");
    assert_eq!((&plain["type"], &plain["backend"]), (&json!("k8s"), &json!("shared")));
    assert_eq!(plain.get("postCreateHook"), None);
    for (name, flags) in [
        ("short", "-t vcluster -b dedicated -p hello -e A=1 -e B=x=y"),
        ("long", "--type vcluster --backend-type dedicated --postcreate-hook hello --set A=1 --set B=x=y"),
    ] {
        // A hook that is missing keeps nobody waiting.
        desk.kflex(&format!("create {name} {flags}")).ok();
        let found = spec(&desk, name);
        assert_eq!((&found["type"], &found["backend"]), (&json!("vcluster"), &json!("dedicated")), "{name}");
        assert_eq!(found["postCreateHook"], "hello", "{name}");
        assert_eq!(found["postCreateHookVars"], json!({"A": "1", "B": "x=y"}), "{name}");
        // Whatever a type calls its entries, here they are called after the control plane.
        for (list, entry) in [("clusters", format!("{name}-cluster")), ("users", format!("{name}-admin"))] {
            assert_eq!(desk.named(list, name), [entry]);
        }
    }
    assert_eq!(desk.current(), "long");
    assert_eq!(
        desk.kflex("delete long").ok(),
        "✔ Deleting control plane long...\n✔ Waiting for control plane long to be deleted...\n"
    );
    assert_eq!(desk.current(), "hangar");
    desk.kubectl("get namespace long-system").refused("not found");
    let said = desk.kflex("delete long");
    assert_eq!((said.code, said.err.contains("control plane not found on server")), (1, true), "{said:?}");
    // Ours: what only a change can help is told at once.
    desk.hangar("create lost --store nowhere").refused("spec.store: there is no store \"nowhere\"");
    desk.hangar("create host").refused("is taken");
    for (line, why) in [
        (
            "create 1a --type vcluster",
            "must consist of lower case alphanumeric characters or '-', start with",
        ),
        ("create kube", "metadata.name: Invalid value: \"object\": the name is taken"),
        ("create small --isolation process --memory-limit 1Mi", "must be a size of at least 64Mi"),
        (
            "create shared --isolation shared --memory-limit 512Mi",
            "only a control plane with a process of its own",
        ),
    ] {
        desk.hangar(line).refused(why);
    }
    // And it is not left behind.
    for name in ["lost", "host", "small", "shared"] {
        desk.hangar(&format!("delete {name}")).refused_or_gone();
    }
    desk.hangar("create lost").ok();
}

#[test]
fn flags_of_adopt_reach_the_object_and_its_secret() {
    let mut server = Server::start();
    // The address that it is told to adopt a cluster at is nobody's.
    server.forgive("client error (Connect)");
    let desk = Desk::beside(&server);
    desk.kflex("create elsewhere").ok();
    let other = desk.home.path().join("other");
    std::fs::copy(&desk.kubeconfig, &other).unwrap();
    desk.kflex("ctx delete elsewhere").ok();
    let line = format!(
        "adopt ext -a {} -c elsewhere -u https://elsewhere.invalid:6443 -x 7200 -p hello -e A=1",
        other.display()
    );
    desk.kflex(&line).ok();
    assert_eq!(desk.current(), "hangar", "the context stays");
    let found = spec(&desk, "ext");
    assert_eq!((&found["type"], &found["tokenExpirationSeconds"]), (&json!("external"), &json!(7200)));
    assert_eq!(
        (&found["postCreateHook"], &found["postCreateHookVars"]),
        (&json!("hello"), &json!({"A": "1"}))
    );
    let secret = "get secret ext-bootstrap -n kubeflex-system -o jsonpath={.data.kubeconfig-incluster}";
    let config = STANDARD.decode(desk.kubectl(secret).ok()).unwrap();
    let config: Value = serde_saphyr::from_str(std::str::from_utf8(&config).unwrap()).unwrap();
    assert_eq!(config["current-context"], "elsewhere");
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://elsewhere.invalid:6443");
    assert!(config["users"][0]["user"]["client-key-data"].is_string(), "everything it takes is inside");
    // A second one of the name gives nobody its credentials.
    let kept = desk
        .kubectl("get secret ext-bootstrap -n kubeflex-system -o jsonpath={.metadata.resourceVersion}")
        .ok();
    desk.kflex(&line).refused("already exists");
    assert_eq!(
        desk.kubectl("get secret ext-bootstrap -n kubeflex-system -o jsonpath={.metadata.resourceVersion}")
            .ok(),
        kept
    );
    // One that was never reached can be given up, and so are its credentials.
    desk.kflex("delete ext").ok();
    desk.kubectl("get secret ext-bootstrap -n kubeflex-system").refused("not found");
}

#[test]
fn flags_of_all_commands() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.kflex("create cp1 -s=false").ok();
    let file = desk.kubeconfig.to_str().unwrap();
    let elsewhere = |arguments: &[&str]| {
        let mut command = desk.command("kflex", arguments);
        finished({
            command.env("KUBECONFIG", "/nonexistent/config");
            command
        })
    };
    for arguments in [["-k", file, "ctx", "get"], ["ctx", "get", "--kubeconfig", file]] {
        assert_eq!(elsewhere(&arguments).ok(), "cp1\n", "{arguments:?}");
    }
    assert_eq!(elsewhere(&["ctx", "get"]).ok(), "\n", "no file says nothing");
    // Without either, where kubectl looks.
    let home = desk.home.path().join(".kube");
    std::fs::create_dir(&home).unwrap();
    std::fs::copy(file, home.join("config")).unwrap();
    let mut command: Command = desk.command("kflex", &["ctx", "get"]);
    command.env_remove("KUBECONFIG");
    assert_eq!(finished(command).ok(), "cp1\n");

    let said = desk.kflex("ctx cp1 --overwrite-existing-context");
    assert_eq!(
        (said.err.as_str(), said.out.as_str()),
        ("", "✔ Overwriting existing context for control plane\n✔ Switching to context cp1...\n")
    );
    let said = desk.kflex("ctx cp1 -o -v 1");
    assert_eq!(said.err, "info: trying to load a fresh context cp1 from server...\n");

    // What KubeFlex writes into the file, to the letter.
    let config = desk.config();
    let ours = &config["extensions"][0];
    assert_eq!(ours["name"], "kubeflex");
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&ours["extension"]), ["data", "metadata"]);
    assert_eq!(keys(&ours["extension"]["metadata"]), ["creationTimestamp", "name"]);
}

/// What the kubeconfig alone decides.
#[test]
fn without_a_cluster() {
    let desk = Desk::empty();
    let said = desk.kflex("version");
    assert!(said.out.starts_with("Kubeflex version: v0.9.3."), "{said:?}");
    assert!(said.code == 1 && said.err.contains("Could not connect to a Kubernetes cluster: "), "{said:?}");
    let said = desk.kflex("ctx");
    assert!(said.code == 1 && said.err.contains("ctx --set-current-for-hosting"), "{said:?}");
    // The argument is understood, and what this version does not do is said.
    let said = desk.kflex("init mine --create-kind");
    assert!(said.code == 1 && said.err.contains("kind clusters are not created"), "{said:?}");
    assert!(!desk.kubeconfig.exists());

    let context = json!({"name": "gone", "context": {"cluster": "gone", "user": "gone"}});
    let with = |extension: Value| {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "contexts": [context], "clusters": [], "users": [],
            "extensions": [{"name": "kubeflex", "extension": extension}],
        });
        std::fs::write(&desk.kubeconfig, config.to_string()).unwrap();
    };
    with(json!({"metadata": {"name": "kubeflex"}}));
    let diagnosis: Value = serde_json::from_str(&desk.kflex("config diagnose").ok()).unwrap();
    assert_eq!(
        diagnosis,
        json!({"status": "warning", "message": "Global kubeflex extension is present but empty"})
    );
    // A stored name that is none: a warning, and nothing changes. The old word for it is still read.
    for key in ["hosting-cluster-ctx-name", "kflex-initial-ctx-name"] {
        with(json!({"data": {key: "lost"}, "metadata": {"name": "kubeflex"}}));
        let said = desk.kflex("ctx");
        assert_eq!(said.code, 0, "{key}: {said:?}");
        assert!(said.err.contains("saved hosting cluster context is invalid"), "{key}: {said:?}");
        assert_eq!(desk.kflex("ctx get").ok(), "\n");
    }
    assert_eq!(
        desk.kflex("ctx list").ok(),
        "CONTEXT                        MANAGED BY KFLEX   CONTROLPLANE   \n\
         \x20 gone                                                           \n"
    );
}

#[test]
fn a_deletion_that_is_held_says_by_what() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create held").ok();
    let file = desk.home.path().join("map.json");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "held-system", "finalizers": ["example.com/wait"]},
    });
    std::fs::write(&file, map.to_string()).unwrap();
    desk.kubectl(&format!("--context hangar create -f {}", file.display())).ok();
    desk.hangar("delete held --timeout 5s").refused("example.com/wait");
    let patch = "--context hangar patch configmap m -n held-system --type=merge -p";
    desk.kubectl(&format!("{patch} {{\"metadata\":{{\"finalizers\":null}}}}")).ok();
    desk.kubectl("--context hangar wait --for=delete controlplane/held --timeout=60s").ok();
}
