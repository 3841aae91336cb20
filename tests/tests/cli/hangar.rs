//! What people do day by day, what they get wrong, and what is on one machine.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use end_to_end::{Database, Engine, Kubectl, Server};
use serde_json::{Value, json};

use super::{Desk, extension_data, finished};

#[test]
fn a_day_with_control_planes() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    let before = desk.config();
    assert_eq!(desk.hangar("list").ok(), "No control planes found.\n");

    let began = Instant::now();
    let said = desk.hangar("create cp1").ok();
    println!("created in {:?}", began.elapsed());
    assert_eq!(
        said,
        "✔ Current context accesses the hosting cluster, using it\n\
         ✔ Creating new control plane cp1 of type k8s ...\n\
         ✔ Waiting for API server to become ready...\n"
    );
    assert_eq!(desk.current(), "cp1");
    let config = desk.config();
    assert_eq!(extension_data(&config, "cp1"), json!({"controlplane-name": "cp1"}));
    assert_eq!(extension_data(&config, "hangar"), json!({"is-hosting-cluster-ctx": "true"}));
    assert_eq!(config["extensions"][0]["extension"]["data"], json!({"hosting-cluster-ctx-name": "hangar"}));
    desk.others_are_untouched(&before);
    let mode = std::fs::metadata(&desk.kubeconfig).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    assert_eq!(desk.kubectl("create namespace x").ok(), "namespace/x created\n");
    assert!(desk.kubectl("get namespaces").ok().contains("kube-system"));
    assert_eq!(
        desk.kubectl("--context hangar get namespace cp1-system -o name").ok(),
        "namespace/cp1-system\n"
    );

    // From within a control plane's context, the hosting one is found.
    desk.hangar("create cp2 --type vcluster --no-switch").ok();
    assert_eq!(desk.current(), "cp1");
    assert_eq!(desk.named("users", "cp2"), ["cp2-admin"]);
    let listed = desk.hangar("list").ok();
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["Control", "Planes:"]);
    assert_eq!(rows[1], ["NAME", "SYNCED", "READY", "TYPE", "AGE"]);
    assert_eq!(rows[2][..4], ["cp1", "True", "True", "k8s"]);
    assert_eq!(rows[3][..4], ["cp2", "True", "True", "vcluster"]);
    assert_eq!(
        desk.hangar("list -o name").ok(),
        "controlplane.tenancy.kflex.kubestellar.org/cp1\ncontrolplane.tenancy.kflex.kubestellar.org/cp2\n"
    );
    let json: Value = serde_json::from_str(&desk.hangar("list -o json").ok()).unwrap();
    assert_eq!(json["items"][1]["spec"]["type"], "vcluster");
    assert!(desk.hangar("list -o yaml").ok().contains("kind: List\n"));
    assert!(desk.hangar("list -o wide").ok().contains("ENDPOINT"));

    // The kubeconfig on standard output is one that works.
    let file = desk.home.path().join("cp2.yaml");
    std::fs::write(&file, desk.hangar("kubeconfig cp2").ok()).unwrap();
    let through = format!("--kubeconfig {} get namespaces -o name", file.display());
    assert!(desk.kubectl(&through).ok().contains("namespace/kube-system"));
    assert!(!desk.kubectl(&through).ok().contains("namespace/x"), "control planes are apart");

    assert_eq!(desk.hangar("ctx").ok(), "✔ Switching to hosting cluster context...\n");
    assert_eq!(desk.current(), "hangar");
    assert_eq!(desk.hangar("ctx").ok(), "✔ Current context accesses the hosting cluster, using it\n");
    assert_eq!(desk.hangar("ctx cp2").ok(), "✔ Switching to context cp2...\n");
    let contexts = desk.hangar("ctx list").ok();
    assert!(contexts.contains("* cp2                          yes                cp2"), "{contexts}");

    // A context that was lost is fetched again, as a managed one.
    desk.hangar("ctx delete cp1").ok();
    assert!(desk.named("contexts", "cp1").is_empty());
    let said = desk.hangar("ctx cp1");
    assert_eq!(
        said.err,
        "kubeconfig context cp1 not found (context cp1 not found), trying to load from server...\n"
    );
    assert_eq!((said.code, said.out.as_str()), (0, "✔ Switching to context cp1...\n"));
    assert_eq!(extension_data(&desk.config(), "cp1"), json!({"controlplane-name": "cp1"}));
    desk.hangar("ctx cp1 --overwrite-existing-context").ok();

    // A renamed context still belongs to its control plane.
    desk.hangar("ctx rename cp2 other").ok();
    assert_eq!(
        desk.hangar("delete cp2").ok(),
        "✔ Deleting control plane cp2...\n✔ Waiting for control plane cp2 to be deleted...\n"
    );
    assert!(desk.named("contexts", "other").is_empty());
    desk.hangar("delete cp1").ok();
    assert_eq!(desk.current(), "hangar");
    for list in ["clusters", "users", "contexts"] {
        assert!(desk.named(list, "cp").is_empty(), "{list}");
    }
    desk.others_are_untouched(&before);
    assert_eq!(desk.hangar("list").ok(), "No control planes found.\n");
    desk.kubectl("get namespace cp1-system").refused("not found");
}

/// kubectl leaves out the path of the server where it is given a whole one.
#[test]
fn whole_paths_are_asked_of_the_control_plane() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create shared").ok();
    desk.hangar("create apart --isolation process").ok();
    for context in ["shared", "apart"] {
        desk.kubectl(&format!("--context {context} create namespace of-{context}")).ok();
        let file = desk.home.path().join("namespace.json");
        for kubectl in Kubectl::all() {
            let run = |line: &str| {
                let mut command = Command::new(&kubectl.path);
                command.args(["--context", context]).args(line.split_whitespace());
                command.env("KUBECONFIG", &desk.kubeconfig).env("HOME", desk.home.path());
                finished(command).ok()
            };
            let found: Value =
                serde_json::from_str(&run(&format!("get --raw /api/v1/namespaces/of-{context}"))).unwrap();
            assert_eq!(found["metadata"]["name"], format!("of-{context}"), "{}", kubectl.version);
            let whole = format!("get --raw /control-planes/{context}/api/v1/namespaces/of-{context}");
            assert_eq!(serde_json::from_str::<Value>(&run(&whole)).unwrap(), found, "{}", kubectl.version);
            let name = format!("by-{}", kubectl.version).replace('.', "-");
            std::fs::write(&file, json!({"metadata": {"name": name}}).to_string()).unwrap();
            run(&format!("create --raw /api/v1/namespaces -f {}", file.display()));
            assert_eq!(run(&format!("get namespace {name} -o name")), format!("namespace/{name}\n"));
        }
    }
    let other = desk.kubectl("--context shared get --raw /control-planes/apart/api/v1/namespaces");
    assert!(other.code == 1 && !other.out.contains("of-apart"), "{other:?}");
}

#[test]
fn what_is_refused_changes_nothing() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create there").ok();
    desk.hangar("ctx").ok();
    let before = std::fs::read(&desk.kubeconfig).unwrap();
    let missing = desk.home.path().join("missing");
    let with_missing = format!("ctx get --kubeconfig {}", missing.display());
    for (line, why) in [
        (
            "create there",
            "error creating instance: controlplanes.tenancy.kflex.kubestellar.org \"there\" already exists",
        ),
        ("create minikube", "context \"minikube\" of the kubeconfig is not a control plane's"),
        ("create Upper", "\"Upper\" cannot be the name of a control plane"),
        ("create a.b", "\"a.b\" cannot be the name of a control plane"),
        ("create x --type nonsense", "unknown control plane type: nonsense"),
        ("create x --type external", "unknown control plane type: external"),
        ("create x --backend-type nonsense", "unknown backend type: nonsense"),
        ("create x -p hook -e novalue", "unexpected expression \"novalue\". Must be in the form 'key=value'"),
        ("create", "required"),
        ("create a b", "unexpected argument 'b'"),
        ("create x --timeout soon", "is not a duration"),
        (
            "delete nothing",
            "control plane not found on server: controlplanes.tenancy.kflex.kubestellar.org \"nothing\" not found",
        ),
        ("list -o nonsense", "unsupported output format: \"nonsense\""),
        ("kubeconfig nothing", "control plane not found on server"),
        ("ctx delete nothing --force", "error deleting context nothing from kubeconfig"),
        ("ctx delete minikube", "error reading user input: EOF"),
        ("ctx rename nothing new", "no context 'nothing' is found in the kubeconfig"),
        ("ctx rename there minikube", "context 'minikube' is already in the kubeconfig"),
        ("config set-hosting nothing", "context 'nothing' must exist within kubeconfig"),
        ("config diagnose -o yaml", "unsupported output format: \"yaml\" (only 'json' is supported)"),
        ("adopt ext", "say which context to adopt"),
        ("adopt ext -c none", "context none not found in the kubeconfig"),
        ("adopt ext -c minikube", "logs in by exec"),
        ("adopt ext -c there -u https://127.0.0.1:1", "invalid server endpoint https://127.0.0.1:1"),
        ("nonsense", "unrecognized subcommand 'nonsense'"),
        ("list --nonsense", "unexpected argument '--nonsense'"),
        (with_missing.as_str(), "does not exist"),
        ("stop", "not running"),
        ("status", "not running"),
    ] {
        desk.hangar(line).refused(why);
        assert_eq!(std::fs::read(&desk.kubeconfig).unwrap(), before, "{line}");
    }
    assert!(!missing.exists());
    assert_eq!(desk.hangar("list -o name").ok(), "controlplane.tenancy.kflex.kubestellar.org/there\n");
    // KubeFlex's own form.
    let said = desk.kflex("create there");
    assert_eq!((said.code, said.err.starts_with("Error: error creating instance: ")), (1, true), "{said:?}");
}

#[test]
fn without_a_server_or_a_kubeconfig() {
    let desk = Desk::empty();
    desk.hangar("create x").refused("the hosting cluster context is not known!");
    desk.hangar("list").refused("the hosting cluster context is not known!");
    desk.hangar("ctx").refused("the hosting cluster context is not known!");
    desk.hangar("--kubeconfig /nonexistent/config list").refused("/nonexistent/config does not exist");
    assert_eq!(desk.hangar("ctx list").ok(), "No contexts found.\n");
    assert_eq!(desk.kflex("version").code, 1);
    assert!(!desk.kubeconfig.exists());
    std::fs::write(&desk.kubeconfig, "[not a kubeconfig").unwrap();
    desk.hangar("ctx list").refused("is not a kubeconfig");
    desk.hangar("create x").refused("is not a kubeconfig");
}

#[test]
fn many_at_once_on_one_file() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    let before = desk.config();
    let names: Vec<String> = (0..6).map(|number| format!("at-once-{number}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = desk.command("hangar", &["create", name]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(desk.named("contexts", "at-once").len(), names.len());
    assert_eq!(desk.named("clusters", "at-once").len(), names.len());
    assert_eq!(desk.named("users", "at-once").len(), names.len());
    desk.others_are_untouched(&before);
    for name in &names {
        assert!(desk.kubectl(&format!("--context {name} get namespaces")).ok().contains("default"));
    }
    assert!(!desk.home.path().join("config.lock").exists());
}

#[test]
fn several_kubeconfig_files() {
    let server = Server::start();
    let mut desk = Desk::beside(&server);
    let second = desk.home.path().join("second");
    std::fs::write(
        &second,
        "contexts:\n- {name: old, context: {cluster: old-cluster, user: old-admin}}\nx: z\n",
    )
    .unwrap();
    let first = std::mem::replace(&mut desk.kubeconfig, PathBuf::new());
    desk.kubeconfig = PathBuf::from(format!("{}:/nonexistent/file:{}", first.display(), second.display()));
    desk.hangar("create cp1").ok();
    desk.hangar("ctx rename old new").ok();
    let text = std::fs::read_to_string(&second).unwrap();
    assert!(text.contains("name: new") && !text.contains("cp1") && text.contains("x: z"), "{text}");
    assert!(!Path::new("/nonexistent/file").exists());
    desk.kubeconfig = first;
    assert_eq!(desk.named("contexts", "cp1"), ["cp1"]);
}

#[test]
fn a_machine_of_its_own() {
    let desk = Desk::empty();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stop = Stop(&desk, "stop");
    let said = desk.hangar(&format!("init -p {port}")).ok();
    assert_eq!(
        said,
        "✔ Starting Hangar on this machine...\n✔ Setting hosting cluster preference in kubeconfig\n"
    );
    assert!(
        desk.hangar("init").ok().contains("Setting hosting cluster preference"),
        "once more changes nothing"
    );
    let status = desk.hangar("status").ok();
    assert!(status.contains(&format!("at https://127.0.0.1:{port}")), "{status}");
    assert_eq!(desk.current(), "hangar");

    // With no kubeconfig at all, what runs on this machine is found, and the new file is kubectl's form.
    std::fs::remove_file(&desk.kubeconfig).unwrap();
    desk.hangar("create cp1").ok();
    let text = std::fs::read_to_string(&desk.kubeconfig).unwrap();
    assert!(text.starts_with("apiVersion: v1\nclusters:\n"), "{text}");
    assert!(desk.kubectl("get namespaces").ok().contains("kube-system"));
    assert!(desk.hangar("status").ok().contains("control planes  1 (1 ready)"));

    // What another program did to the hosting context is found and put right.
    desk.kubectl("config use-context hangar").ok();
    desk.kubectl("config set-context cp1 --user=lost").ok();
    let findings = desk.hangar("config diagnose").ok();
    assert!(findings.contains("authInfo lost not found for context cp1"), "{findings}");
    let tidied = desk.hangar("config tidy").ok();
    assert!(tidied.contains("removed context \"cp1\""), "{tidied}");
    assert_eq!(desk.hangar("config tidy").ok(), "nothing to tidy\n");

    drop(stop);
    desk.hangar("status").refused("not running");
    desk.hangar("list").refused(&format!("the server at https://127.0.0.1:{port} does not answer"));
}

/// What runs is found by its data directory, wherever its store is, and is started again on the same.
#[test]
fn a_machine_with_its_store_elsewhere() {
    for (engine, by_flag) in [(Engine::Postgres, true), (Engine::Postgres, false), (Engine::Embedded, true)] {
        let desk = Desk::empty();
        let database = Database::start(engine);
        let elsewhere = format!("embedded:{}", desk.home.path().join("elsewhere").display());
        let store = database.as_ref().map_or(elsewhere.as_str(), |database| database.url());
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = port.to_string();
        let mut command = desk.command("hangar", &["init", "-p", &port, "--shutdown-delay", "0"]);
        match by_flag {
            true => command.args(["--store", store]),
            false => command.env("HANGAR_STORE", store),
        };
        let stop = Stop(&desk, "stop");
        finished(command).ok();
        assert!(desk.hangar("status").ok().contains("hangar is running"), "{engine:?}");
        assert!(desk.hangar("init").ok().contains("already running"), "{engine:?}");
        let name = format!("cp{port}");
        desk.hangar(&format!("create {name}")).ok();
        drop(stop);
        desk.hangar("status").refused("not running");
        let _stop = Stop(&desk, "stop");
        desk.hangar("init --embedded").ok();
        assert!(desk.hangar("list").ok().contains(&name), "{engine:?}: it is the same store");
    }
}

#[test]
fn what_a_machine_is_told_is_remembered() {
    let desk = Desk::empty();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let home = desk.home.path();
    // In a directory of one's own, about files there.
    let init = |flags: &str| {
        let line = format!("init --data-dir data {flags}");
        let mut command = desk.command("hangar", &line.split_whitespace().collect::<Vec<_>>());
        command.current_dir(home);
        finished(command)
    };
    // What it cannot be started with is not remembered.
    init(&format!("-p {port} --audit-policy missing")).refused("add --audit-log FILE");
    init(&format!("-p {port} --audit-log audit --log-format nonsense")).refused("nonsense");
    init(&format!("-p {port} --audit-log audit --with-store near=embedded")).ok();
    let stop = Stop(&desk, "stop --data-dir data");
    let audited = |name: &str| {
        desk.hangar(&format!("create {name} --store near")).ok();
        desk.kubectl(&format!("create configmap noted-{name}")).ok();
        let log = desk.hangar(&format!("logs --audit {name} -o json")).ok();
        assert!(log.contains(&format!("noted-{name}")), "{log}");
    };
    audited("one");

    // What is new while it runs is for the next time, and that is said.
    desk.hangar("ctx").ok();
    std::fs::write(home.join("token"), "a-long-enough-token\n").unwrap();
    let next = "✔ What is new is for its next start: `hangar stop`, then `hangar init`\n";
    assert!(init("--admin-token-file token").ok().contains(next));
    assert!(!init("").ok().contains("What is new"));
    drop(stop);
    init("").ok();
    let _stop = Stop(&desk, "stop --data-dir data");
    audited("two");
    let log = std::fs::read_to_string(home.join("audit")).unwrap();
    assert!(log.contains("noted-one") && log.contains("noted-two"), "it writes on where it wrote");
    let by_token = format!(
        "--kubeconfig /dev/null --server https://127.0.0.1:{port} --insecure-skip-tls-verify --token a-long-enough-token"
    );
    let found = desk.kubectl(&format!("{by_token} get controlplane one -o name")).ok();
    assert_eq!(found, "controlplane.tenancy.kflex.kubestellar.org/one\n");
    let mode = std::fs::metadata(home.join("data/config.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Whatever happens, no server outlives its test.
struct Stop<'a>(&'a Desk, &'a str);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let mut command = self.0.command("hangar", &self.1.split_whitespace().collect::<Vec<_>>());
        command.current_dir(self.0.home.path());
        let said = finished(command);
        if !std::thread::panicking() {
            assert!(said.ok().contains("✔ Stopping hangar"));
        }
    }
}
