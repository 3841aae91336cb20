//! The command line as its users have it: the real binary, a real server, a kubeconfig that others use too.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "how long it took is said")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use end_to_end::{Kubectl, Server, binary};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A person with a home of their own.
struct Desk {
    home: TempDir,
    kubeconfig: PathBuf,
}

/// What a command said, and how it ended.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// One line on standard error, and nothing done.
    #[track_caller]
    fn refused(self, what: &str) {
        assert_eq!(self.code, 1, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        assert!(self.err.contains(what), "{self:?} does not say {what:?}");
    }
}

impl Desk {
    /// With a kubeconfig that has the server's context and another program's, in JSON so that we can read it.
    fn beside(server: &Server) -> Desk {
        let desk = Desk::empty();
        let mut config: Value = serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).unwrap();
        let push =
            |config: &mut Value, list: &str, entry: Value| config[list].as_array_mut().unwrap().push(entry);
        push(
            &mut config,
            "clusters",
            json!({"name": "minikube", "cluster": {"server": "https://192.0.2.1:8443", "x": 1}}),
        );
        push(&mut config, "users", json!({"name": "minikube", "user": {"exec": {"command": "none"}}}));
        push(
            &mut config,
            "contexts",
            json!({"name": "minikube", "context": {
                "cluster": "minikube", "user": "minikube", "extensions": [{"name": "context_info", "extension": {"v": 1}}],
            }}),
        );
        config["x-unknown"] = json!({"kept": [1, 2, 3]});
        std::fs::write(&desk.kubeconfig, config.to_string()).unwrap();
        desk
    }

    fn empty() -> Desk {
        let home = tempfile::tempdir().unwrap();
        symlink(binary(), home.path().join("kflex")).unwrap();
        let kubeconfig = home.path().join("config");
        Desk { home, kubeconfig }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let path = if program == "kflex" { self.home.path().join("kflex") } else { binary() };
        let mut command = Command::new(path);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null());
        command
    }

    fn say(&self, program: &str, line: &str) -> Said {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        finished(self.command(program, &arguments))
    }

    fn hangar(&self, line: &str) -> Said {
        self.say("hangar", line)
    }

    fn kflex(&self, line: &str) -> Said {
        self.say("kflex", line)
    }

    fn config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.kubeconfig).unwrap()).unwrap()
    }

    fn current(&self) -> String {
        self.hangar("ctx get").ok().trim().to_owned()
    }

    fn kubectl(&self, line: &str) -> Said {
        let kubectl = Kubectl::all().pop().unwrap();
        let mut command = Command::new(kubectl.path);
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path());
        finished(command)
    }

    /// Names in a list of the kubeconfig that have this in them.
    fn named(&self, list: &str, part: &str) -> Vec<String> {
        let config = self.config();
        let names = config[list].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
        names.filter(|name| name.contains(part)).map(str::to_owned).collect()
    }

    /// Another program's entries are as they were.
    #[track_caller]
    fn others_are_untouched(&self, before: &Value) {
        let after = self.config();
        assert_eq!(after["x-unknown"], before["x-unknown"]);
        for list in ["clusters", "users", "contexts"] {
            let minikube = |config: &Value| {
                let entries = config[list].as_array().unwrap();
                entries.iter().find(|entry| entry["name"] == "minikube").cloned()
            };
            assert_eq!(minikube(&after), minikube(before), "{list}");
        }
    }
}

fn finished(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn extension_data(config: &Value, context: &str) -> Value {
    let contexts = config["contexts"].as_array().unwrap();
    let entry = contexts.iter().find(|entry| entry["name"] == context).unwrap();
    let extensions = entry["context"]["extensions"].as_array().unwrap();
    let ours = extensions.iter().find(|entry| entry["name"] == "kubeflex").unwrap();
    assert_eq!(ours["extension"]["metadata"]["name"], "kubeflex");
    ours["extension"]["data"].clone()
}

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

#[test]
fn under_the_name_of_kflex() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    let before = desk.config();
    assert_eq!(
        desk.kflex("config diagnose").ok(),
        "{\n  \"status\": \"critical\",\n  \"message\": \"Global kubeflex extension is not present in kubeconfig\"\n}\n"
    );
    assert_eq!(
        desk.kflex("create testcp --type k8s").ok(),
        "✔ Current context accesses the hosting cluster, using it\n\
         ✔ Creating new control plane testcp of type k8s ...\n\
         ✔ Waiting for API server to become ready...\n"
    );
    for (list, name) in [("contexts", "testcp"), ("clusters", "testcp-cluster"), ("users", "testcp-admin")] {
        assert_eq!(desk.named(list, "testcp"), [name]);
    }
    let diagnosis: Value = serde_json::from_str(&desk.kflex("config diagnose -o json").ok()).unwrap();
    assert_eq!(diagnosis["status"], "ok");
    assert_eq!(diagnosis["data"], json!({"hosting-cluster-ctx-name": "hangar"}));
    assert!(diagnosis.get("findings").is_none());

    assert_eq!(
        desk.kflex("ctx rename testcp renamed").ok(),
        "renaming cluster to renamed-cluster\nrenaming user to renamed-admin\n\
         renaming context from testcp to renamed\ncontext testcp is deleted\nswitching to hosting cluster context\n"
    );
    assert_eq!(desk.current(), "hangar");
    assert_eq!(desk.named("contexts", "testcp"), [""; 0]);
    assert_eq!(desk.named("contexts", "renamed"), ["renamed"]);
    assert!(desk.kubectl("--context renamed get namespaces").ok().contains("default"));
    assert_eq!(desk.kflex("ctx delete renamed --force").ok(), "✔ Deleting context\n");
    for list in ["contexts", "clusters", "users"] {
        assert!(desk.named(list, "renamed").is_empty(), "{list}");
    }

    // As it is there: deleting what has no context says so, though the control plane is gone.
    let said = desk.kflex("delete testcp");
    said.refused("no kubeconfig context for testcp was found");
    assert_eq!(desk.kflex("list").ok(), "No control planes found.\n");

    let said = desk.kflex("create old --type ocm").ok();
    assert!(said.contains("WARNING: OCM-type control plane is deprecated and will be removed"), "{said}");
    desk.kflex("delete old").ok();
    assert_eq!(
        desk.kflex("config set-hosting hangar").ok(),
        format!("setting hosting cluster context name to 'hangar' in {}\n", desk.kubeconfig.display())
    );
    let version = desk.kflex("version").ok();
    assert!(version.starts_with("Kubeflex version: v0.9.3."), "{version}");
    assert!(version.contains("\nKubernetes version: v1."), "{version}");
    desk.others_are_untouched(&before);
}

#[test]
fn whole_control_planes() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create one").ok();
    desk.kubectl("create configmap kept --from-literal=a=b").ok();
    desk.hangar("fork one two").ok();
    assert_eq!(desk.current(), "two");
    assert_eq!(desk.hangar("diff one two").ok(), "");
    desk.kubectl("create configmap more --from-literal=a=b").ok();
    desk.kubectl("patch configmap kept -p {\"data\":{\"a\":\"c\"}}").ok();
    assert_eq!(
        desk.hangar("diff one two").ok(),
        "~ configmaps default/kept /data/a\n+ configmaps default/more\n"
    );

    let file = desk.home.path().join("backup");
    desk.hangar(&format!("backup two {}", file.display())).ok();
    desk.hangar(&format!("restore three {} --no-switch", file.display())).ok();
    assert_eq!(desk.current(), "two");
    assert_eq!(desk.hangar("diff two three").ok(), "");
    assert_eq!(desk.kubectl("--context three get configmap more -o jsonpath={.data.a}").ok(), "b");

    let top = desk.hangar("top").ok();
    let names: Vec<&str> = top.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["NAME", "host", "one", "three", "two"]);

    let before = std::fs::read(&desk.kubeconfig).unwrap();
    std::fs::write(&file, "no backup").unwrap();
    desk.hangar(&format!("restore four {}", file.display())).refused("error restoring: ");
    desk.hangar(&format!("restore one {}", file.display())).refused("already exists");
    desk.hangar("fork none five").refused("control plane not found on server");
    desk.hangar("diff one none").refused("error comparing control planes: ");
    let unwritten = desk.home.path().join("unwritten");
    desk.hangar(&format!("backup none {}", unwritten.display())).refused("error backing up: ");
    assert!(!unwritten.exists());
    let left = std::fs::read_dir(desk.home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".new")));
    assert_eq!(std::fs::read(&desk.kubeconfig).unwrap(), before);
}

#[test]
fn a_cluster_is_adopted() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create elsewhere").ok();
    let said = desk.kflex("adopt ext --adopted-context elsewhere --expiration-seconds 7200").ok();
    assert!(said.ends_with("✔ Adopting control plane ext of type external ...\n"), "{said}");
    assert_eq!(desk.current(), "elsewhere", "the context stays");
    let listed: Value = serde_json::from_str(&desk.hangar("list -o json").ok()).unwrap();
    let spec = &listed["items"][1]["spec"];
    assert_eq!((&spec["type"], &spec["tokenExpirationSeconds"]), (&json!("external"), &json!(7200)));
    let bootstrap = json!({"name": "ext-bootstrap", "namespace": "kubeflex-system", "inClusterKey": "kubeconfig-incluster"});
    assert_eq!(spec["bootstrapSecretRef"], bootstrap);
    desk.hangar("delete ext").ok();
    assert_eq!(desk.named("contexts", "elsewhere"), ["elsewhere"]);
}

#[test]
fn help_is_no_failure() {
    let desk = Desk::empty();
    for (program, line) in [
        ("kflex", ""),
        ("kflex", "config"),
        ("kflex", "init name --help"),
        ("kflex", "help"),
        ("kflex", "create -h"),
        ("hangar", ""),
        ("hangar", "config"),
        ("hangar", "--help"),
        ("hangar", "help create"),
    ] {
        let said = desk.say(program, line).ok();
        assert!(said.contains("Usage:"), "{program} {line}: {said}");
    }
    assert!(desk.kflex("completion bash").ok().contains("_kflex"));
    assert!(desk.hangar("completion zsh").ok().contains("#compdef hangar"));
    assert!(desk.hangar("version").ok().starts_with("hangar "));
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
    let stop = Stop(&desk);
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
    desk.hangar("list").refused("cannot be used");
}

/// Whatever happens, no server outlives its test.
struct Stop<'a>(&'a Desk);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let said = self.0.hangar("stop");
        if !std::thread::panicking() {
            assert!(said.ok().contains("✔ Stopping hangar"));
        }
    }
}
