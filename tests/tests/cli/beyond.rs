//! What KubeFlex does not have: copies, backups, moments, revocation, the audit log.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Credentials, Server};
use serde_json::{Value, json};

use super::{Desk, finished};

#[test]
fn whole_control_planes() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create one --max-objects 5000").ok();
    desk.kubectl("create configmap kept --from-literal=a=b").ok();
    desk.hangar("fork one two").ok();
    assert_eq!(desk.current(), "two");
    let quota = desk.kubectl("--context hangar get cp two -o jsonpath={.spec.quota.objects}").ok();
    assert_eq!(quota, "5000", "a copy may take as much as the original");
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
    desk.hangar(&format!("restore three {}", file.display()))
        .refused("control plane \"three\" already exists");
    desk.hangar(&format!("backup two {}", desk.home.path().join("none/backup").display()))
        .refused("there is no directory");
    assert!(!desk.home.path().join("none").exists());
    assert_eq!(desk.current(), "two");
    assert_eq!(desk.hangar("diff two three").ok(), "");
    assert_eq!(desk.kubectl("--context three get configmap more -o jsonpath={.data.a}").ok(), "b");

    let top = desk.hangar("top").ok();
    let names: Vec<&str> = top.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["NAME", "host", "one", "three", "two"]);
    let one: Vec<&str> = top.lines().nth(2).unwrap().split_whitespace().collect();
    assert!(one[3].parse::<u64>().unwrap() > 0, "requests that came in are counted: {top}");

    // A backup knows the type of what it is of, and may be told another.
    for (flags, expected) in [("", "k8s"), ("--type vcluster", "vcluster")] {
        desk.hangar(&format!("restore a-{expected} {} --no-switch {flags}", file.display())).ok();
        let found = format!("--context hangar get cp a-{expected} -o jsonpath={{.spec.type}}");
        assert_eq!(desk.kubectl(&found).ok(), expected);
    }

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
fn as_it_was() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar(
        "create one --max-objects 5000 --max-bytes 64Mi --max-requests-per-second 500 --max-watches 50",
    )
    .ok();
    let listed: Value = serde_json::from_str(&desk.hangar("list -o json").ok()).unwrap();
    let quota = json!({"objects": 5000, "bytes": 64 << 20, "requestsPerSecond": 500.0, "watches": 50});
    assert_eq!(listed["items"][0]["spec"]["quota"], quota);
    desk.kubectl("create configmap m --from-literal=v=old").ok();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let between = std::time::SystemTime::now();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    desk.kubectl("patch configmap m -p {\"data\":{\"v\":\"new\"}}").ok();
    let seconds = between.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 1;
    let mut command = Command::new("date");
    command.args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d", &format!("@{seconds}")]);
    let date = finished(command).ok().trim().to_owned();
    desk.hangar(&format!("fork one then --at {date} --no-switch")).ok();
    assert_eq!(desk.kubectl("--context then get configmap m -o jsonpath={.data.v}").ok(), "old");
    desk.hangar("fork one now --at -0s --no-switch").ok();
    assert_eq!(desk.kubectl("--context now get configmap m -o jsonpath={.data.v}").ok(), "new");
    let revision = desk.kubectl("get configmap m -o jsonpath={.metadata.resourceVersion}").ok();
    desk.hangar(&format!("fork one counted --at {revision} --no-switch")).ok();
    assert_eq!(desk.hangar("diff one counted").ok(), "");
    let file = desk.home.path().join("then.backup");
    desk.hangar(&format!("backup one {} --at {date}", file.display())).ok();
    desk.hangar(&format!("restore back {} --no-switch", file.display())).ok();
    assert_eq!(desk.hangar("diff then back").ok(), "");
    desk.hangar("fork one never --at -10h").refused("was not there at that time");
    desk.hangar("fork one never --at soon").refused("is neither a revision, nor a time");
    desk.hangar("fork one never --at 999999999").refused("is in the future");
    desk.hangar("create x --max-bytes lots").refused("is not a size");
}

#[test]
fn what_was_handed_out_is_revoked() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create one").ok();
    let copy = desk.home.path().join("copy");
    std::fs::write(&copy, desk.hangar("kubeconfig one").ok()).unwrap();
    let by_copy = format!("--kubeconfig {} get namespaces", copy.display());
    desk.kubectl(&by_copy).ok();
    assert_eq!(
        desk.hangar("revoke one").ok(),
        "✔ Revoking the credentials of control plane one...\n✔ Waiting for new credentials...\n"
    );
    let refused = desk.kubectl(&by_copy);
    assert!(refused.code == 1 && refused.err.contains("Unauthorized"), "{refused:?}");
    assert!(desk.kubectl("get namespaces").ok().contains("kube-system"), "the context is a new one");
    desk.hangar("revoke one").ok();
    assert!(desk.kubectl("get namespaces").ok().contains("kube-system"));
    desk.hangar("revoke none").refused("control plane not found on server");
    assert_eq!(desk.hangar("create its --type host").code, 0);
    desk.hangar("revoke its").refused("is of type host");
    // Of the hosting control plane it is the account's token that is shown, not the key of whoever asks.
    let config = desk.hangar("kubeconfig its").ok();
    let read: Value = serde_saphyr::from_str(&config).unwrap();
    assert_eq!(read["users"][0]["user"].as_object().unwrap().keys().collect::<Vec<_>>(), ["token"]);
    std::fs::write(&copy, config).unwrap();
    assert!(desk.kubectl(&format!("--kubeconfig {} get cp", copy.display())).ok().contains("its"));
}

/// Keys of a control plane are replaced by command: contexts get new credentials, and copies of old ones are good until
/// that is finished.
#[test]
fn keys_are_rotated() {
    let server = Server::start();
    let desk = Desk::beside(&server);
    desk.hangar("create one").ok();
    let copy = desk.home.path().join("copy");
    std::fs::write(&copy, desk.hangar("kubeconfig one").ok()).unwrap();
    let by_copy = format!("--kubeconfig {} get namespaces", copy.display());
    let token = desk.kubectl("create token default").ok();
    let by_token = |token: &str| {
        let plane =
            server.client_as(Credentials::from_kubeconfig(&server.kubeconfig()).with_token(token.trim()));
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        plane.post("/control-planes/one/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).code
    };
    assert_eq!(by_token(&token), 201);
    assert_eq!(
        desk.hangar("keys rotate clients one").ok(),
        "✔ Changing keys of control plane one...\n✔ Waiting for new credentials...\n"
    );
    desk.kubectl(&by_copy).ok();
    desk.kubectl("get namespaces").ok();
    desk.hangar("keys rotate tokens one").ok();
    let newer = desk.kubectl("create token default").ok();
    assert_eq!((by_token(&token), by_token(&newer)), (201, 201));
    desk.hangar("keys rotate clients one --finish").ok();
    let refused = desk.kubectl(&by_copy);
    assert!(refused.err.contains("Unauthorized"), "{refused:?}");
    desk.kubectl("get namespaces").ok();
    desk.hangar("keys rotate tokens one --finish").ok();
    assert_eq!((by_token(&token), by_token(&newer)), (401, 201));
    // A token that lives in a Secret is written anew when the key that signed it is gone.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "kept", "annotations": {"kubernetes.io/service-account.name": "default"}},
    });
    let file = desk.home.path().join("secret.json");
    std::fs::write(&file, secret.to_string()).unwrap();
    desk.kubectl(&format!("apply -f {}", file.display())).ok();
    let kept = || {
        for _ in 0..100 {
            let said = desk.kubectl("get secret kept -o jsonpath={.data.token}").ok();
            if !said.is_empty() {
                return String::from_utf8(STANDARD.decode(said).unwrap()).unwrap();
            }
        }
        panic!("no token is written into the Secret");
    };
    let before = kept();
    desk.hangar("revoke one --tokens").ok();
    assert_eq!((by_token(&newer), by_token(&before)), (401, 401));
    let after = kept();
    assert_ne!(after, before);
    assert_eq!(by_token(&after), 201);
    desk.hangar("keys rotate tokens none").refused("control plane not found on server");
}

/// The administrator's certificate is one that the server keeps good, and that can be revoked.
#[test]
fn the_administrator_of_the_hosting_control_plane_is_revoked() {
    let server = Server::start();
    let desk = Desk::empty();
    let file = server.kubeconfig();
    let hangar = |line: &str| desk.hangar(&format!("--kubeconfig {} {line}", file.display()));
    let copy = desk.home.path().join("copy");
    let by_copy = || {
        let said = desk.kubectl(&format!("--kubeconfig {} get controlplanes", copy.display()));
        // kubectl has other words for 401 while it asks what there is.
        (said.code, said.err.contains("Unauthorized") || said.err.contains("must be logged in"))
    };
    std::fs::copy(&file, &copy).unwrap();
    assert_eq!(
        hangar("revoke --hosting").ok(),
        "✔ Revoking the credentials of the hosting control plane...\n✔ Waiting for new credentials...\n"
    );
    assert_eq!(by_copy(), (1, true));
    hangar("list").ok();
    std::fs::copy(&file, &copy).unwrap();
    hangar("keys rotate clients").ok();
    assert_ne!(std::fs::read(&file).unwrap(), std::fs::read(&copy).unwrap());
    assert_eq!(by_copy(), (0, false));
    hangar("keys rotate clients --finish").ok();
    assert_eq!(by_copy(), (1, true));
    hangar("list").ok();
}

#[test]
fn who_did_what() {
    let server =
        Server::start_with(|dir| vec!["--audit-log".into(), dir.join("audit.log").display().to_string()]);
    let desk = Desk::beside(&server);
    desk.hangar("create one").ok();
    desk.hangar("create two --no-switch").ok();
    desk.kubectl("create configmap noted --from-literal=a=b").ok();
    desk.kubectl("--context two create configmap elsewhere --from-literal=a=b").ok();
    let said = desk.hangar("logs --audit one").ok();
    let line = said.lines().find(|line| line.contains(" create ") && line.contains("/configmaps")).unwrap();
    assert!(line.contains(" kubernetes-admin create ") && line.ends_with(" 201"), "{line}");
    let events = desk.hangar("logs --audit one -o json").ok();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["annotations"]["hangar.dev/control-plane"], "one");
    }
    assert!(events.contains("noted") && !events.contains("elsewhere"));
    assert_eq!(desk.hangar("logs --audit one --since -0s").ok(), "");
    // What went before under the same name is not told.
    desk.hangar("delete one").ok();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    desk.hangar("create one").ok();
    assert!(!desk.hangar("logs --audit one -o json").ok().contains("noted"));
    desk.hangar("logs one").refused("say --audit");
    desk.hangar("logs --audit none").refused("there is no control plane \"none\"");
    desk.hangar("logs --audit one --since 17").refused("wants a time");

    let silent = Server::start();
    let desk = Desk::beside(&silent);
    desk.hangar("create one").ok();
    desk.hangar("logs --audit one").refused("there is no audit log: start the server with --audit-log FILE");
}
