//! What a server does with the kubeconfig that its users work with.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

/// As another program left it. Its token is nowhere else.
const OTHERS: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: {server: 'https://127.0.0.1:1', x-unknown: [1, 2]}
users:
- name: prod
  user: {token: only-copy}
contexts:
- name: prod
  context: {cluster: prod, user: prod, namespace: shop}
current-context: prod
x-unknown: kept
";

fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn entry(config: &Value, list: &str, name: &str) -> Value {
    let entries = config[list].as_array().unwrap();
    entries.iter().find(|entry| entry["name"] == name).cloned().unwrap_or_default()
}

/// Starts a server on a file, waits until it serves, and stops it.
fn start_and_stop(desk: &Desk, file: &Path) {
    let data = desk.home.path().join("data").display().to_string();
    let file = file.display().to_string();
    let line = ["up", "--listen", "127.0.0.1:0", "--data-dir", &data, "--kubeconfig", &file];
    let mut command = desk.command("hangar", &line);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    let mut said = std::io::BufReader::new(process.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    let asked = Command::new("kill").args(["-TERM", &process.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert!(process.wait().unwrap().success());
    assert!(line.starts_with("Hangar is up"), "{line}");
}

#[test]
fn a_start_leaves_the_entries_of_others_alone() {
    let desk = Desk::empty();
    let file = desk.home.path().join("shared");
    std::fs::write(&file, OTHERS).unwrap();
    start_and_stop(&desk, &file);
    let (before, after) = (serde_saphyr::from_str::<Value>(OTHERS).unwrap(), read(&file));
    for list in ["clusters", "users", "contexts"] {
        assert_eq!(entry(&after, list, "prod"), entry(&before, list, "prod"));
        assert!(entry(&after, list, "hangar").is_object(), "{after}");
    }
    assert_eq!(after["x-unknown"], "kept");
    assert_eq!(after["current-context"], "prod");

    let copy = desk.home.path().join("shared.bak");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), OTHERS);
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!desk.home.path().join("shared.lock").exists());

    // A file with nobody's current context gets one.
    let empty = desk.home.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    start_and_stop(&desk, &empty);
    assert_eq!(read(&empty)["current-context"], "hangar");
}

#[test]
fn a_start_does_not_touch_what_it_cannot_read_or_must_not_replace() {
    let desk = Desk::empty();
    let file = desk.home.path().join("shared");
    let data = desk.home.path().join("data").display().to_string();
    let refused = |text: &str, why: &str| {
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let line = ["up", "--listen", "127.0.0.1:0", "--data-dir", &data, "--kubeconfig", &file];
        let said = finished(desk.command("hangar", &line));
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(why), "{said:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        assert!(!Path::new(&format!("{file}.bak")).exists());
    };
    refused("[not a kubeconfig", "shared is not a kubeconfig");
    refused(&OTHERS.replace("name: prod", "name: hangar"), "context \"hangar\" already exists");
    refused(
        &OTHERS
            .replace("- name: prod\n  cluster", "- name: hangar\n  cluster")
            .replace("{cluster: prod", "{cluster: hangar"),
        "are used by context \"prod\"",
    );
}

/// What a control plane's user works with survives starts, and a start that changes nothing writes nothing.
#[test]
fn a_restart_keeps_contexts() {
    let mut server = Server::start();
    let desk = Desk::empty();
    let with = |line: &str| desk.hangar(&format!("--kubeconfig {} {line}", server.kubeconfig().display()));
    with("create src").ok();
    assert_eq!(with("ctx get").ok(), "src\n");
    let file = server.kubeconfig();
    let before = (std::fs::read(&file).unwrap(), file.metadata().unwrap().modified().unwrap());
    // Nobody can take the lock: it is not needed.
    let lock = server.dir().join("kubeconfig.lock");
    std::fs::write(&lock, "").unwrap();
    server.restart();
    std::fs::remove_file(&lock).unwrap();
    assert_eq!((std::fs::read(&file).unwrap(), file.metadata().unwrap().modified().unwrap()), before);
    let with = |line: &str| desk.hangar(&format!("--kubeconfig {} {line}", file.display()));
    assert_eq!(with("ctx get").ok(), "src\n");
    assert!(with("list").ok().contains("src"), "the hosting one is found behind it");
    assert!(
        desk.kubectl(&format!("--kubeconfig {} get namespaces", file.display())).ok().contains("kube-system")
    );
}

#[test]
fn a_server_that_is_down_is_named() {
    let mut server = Server::start();
    let desk = Desk::empty();
    let file = server.kubeconfig();
    let silent = format!("the server at https://{} does not answer", server.address());
    server.stop();
    // The file does not say which context is the hosting one; that nobody answers is the reason all the same.
    for line in ["list", "backup x /dev/null", "fork x y"] {
        desk.hangar(&format!("--kubeconfig {} {line}", file.display())).refused(&silent);
    }
    // A cluster that answers and hosts nothing is what KubeFlex's message is for.
    server.restart();
    let plane = end_to_end::ControlPlane::create(&server, "other");
    desk.hangar(&format!("--kubeconfig {} list", plane.kubeconfig.display()))
        .refused("the hosting cluster context is not known!");
}
