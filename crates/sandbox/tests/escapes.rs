//! What a hostile program tries, and that each of it fails; and what an honest one needs, and that it works.
//!
//! Without sandboxes on this machine these tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egress::Policy;
use sandbox::{Egress, Launcher, Limits, Running, Sandbox, Share, Spec, Trees};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

fn intruder() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().parent().unwrap().join("examples/intruder");
    assert!(built.exists(), "{} is not built; run the tests of the whole package", built.display());
    built
}

async fn sandbox(hidden: &[&Path]) -> Option<Sandbox> {
    let launcher = Launcher::program(env!("CARGO_BIN_EXE_sandbox-launcher"));
    let hidden = hidden.iter().map(|path| path.to_path_buf()).collect();
    match Sandbox::probe(launcher, hidden).await {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn spec(attempts: &[&str]) -> Spec {
    Spec {
        program: intruder(),
        arguments: attempts.iter().map(|attempt| (*attempt).to_owned()).collect(),
        environment: vec![("HOME".into(), "/tmp".into())],
        directory: "/tmp".into(),
        shares: Vec::new(),
        trees: Trees::Libraries,
        hidden: Vec::new(),
        network: false,
        limits: Limits { temporary: 1 << 20, ..Limits::default() },
    }
}

fn egress(allowed: &str) -> Egress {
    let policy = Policy::new(allowed.parse().unwrap());
    Egress { policies: Arc::new(policy), control_plane: "a".to_owned() }
}

/// What came of each attempt.
async fn outcomes(sandbox: &Sandbox, spec: Spec, egress: Option<Egress>) -> Vec<String> {
    let attempts = spec.arguments.clone();
    let mut running = sandbox.start(spec, egress).await.unwrap();
    let (mut said, mut errors) = (String::new(), String::new());
    running.child.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
    running.child.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    let status = running.child.wait().await.unwrap();
    assert!(status.success(), "{status}: {said} {errors}");
    let lines: Vec<String> = said.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), attempts.len(), "{said} {errors}");
    let outcome = |(line, attempt): (&String, &String)| {
        line.strip_prefix(attempt.as_str()).unwrap().trim_start_matches(": ").to_owned()
    };
    lines.iter().zip(&attempts).map(outcome).collect()
}

fn all_refused(attempts: &[&str], outcomes: &[String]) {
    for (attempt, outcome) in attempts.iter().zip(outcomes) {
        assert!(outcome.starts_with("refused: "), "{attempt}: {outcome}");
    }
}

#[tokio::test]
async fn files_of_this_machine_are_not_there() {
    let Some(sandbox) = sandbox(&[]).await else { return };
    let directory = TempDir::new().unwrap();
    let key = directory.path().join("data.key");
    std::fs::write(&key, "secret").unwrap();
    let (key, directory) = (key.display().to_string(), directory.path().display().to_string());
    let reads = [format!("read {key}"), format!("list {directory}")];
    let others = [
        "read /proc/1/environ",
        "read /proc/self/environ",
        "read /etc/shadow",
        "list /proc",
        "list /sys",
        "list /home",
        "list /root",
        "list /var",
        "list /run",
        "list /etc/ssl/private",
        "run /bin/sh",
        "run /usr/bin/env",
        "write /etc/passwd",
        "write /file",
        "make /directory",
        "write /usr/lib/file",
        "write /program/intruder",
    ];
    let attempts: Vec<&str> = reads.iter().map(String::as_str).chain(others).collect();
    all_refused(&attempts, &outcomes(&sandbox, spec(&attempts), None).await);
    let found =
        outcomes(&sandbox, spec(&["read /etc/passwd", "list /", "list /tmp", "list /dev"]), None).await;
    assert_eq!(found[0], "done: sandbox:x:1000:1000:sandbox:/tmp:/usr/sbin/nologin");
    for name in found[1].trim_start_matches("done: ").split(' ') {
        let known = ["dev", "etc", "lib", "lib32", "lib64", "program", "tmp", "usr"];
        assert!(known.contains(&name), "{}", found[1]);
    }
    assert_eq!((found[2].as_str(), found[3].as_str()), ("done: ", "done: full null random urandom zero"));
}

#[tokio::test]
async fn the_kernel_does_little_for_it() {
    let Some(sandbox) = sandbox(&[]).await else { return };
    let own = std::process::id().to_string();
    let signal = format!("signal {own}");
    let attempts = ["namespace", "mount", "packets", "signal 2", &signal, "datagram 127.0.0.1:53"];
    all_refused(&attempts, &outcomes(&sandbox, spec(&attempts), None).await);
    let facts = ["capabilities", "privileges", "descriptors", "user", "environment", "write /tmp/file"];
    let found = outcomes(&sandbox, spec(&facts), None).await;
    assert_eq!(found, ["done: 0", "done: true", "done: ", "done: 1000 1", "done: HOME", "done: "]);
}

#[tokio::test]
async fn resources_are_limited() {
    let Some(sandbox) = sandbox(&[]).await else { return };
    let attempts = ["fill /tmp/file", "threads 10000", "allocate 1099511627776"];
    let outcomes = outcomes(&sandbox, spec(&attempts), None).await;
    all_refused(&attempts, &outcomes);
    let after: usize = outcomes[1].split(['r', ':', ' ']).find_map(|word| word.parse().ok()).unwrap();
    assert!(after <= 512, "{}", outcomes[1]);
}

/// A server that answers everything once, and how often it was asked.
fn server(address: &str) -> (u16, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let mut asked = [0; 4];
            let _ = stream.read_exact(&mut asked);
            let _ = stream.write_all(b"pong");
        }
    });
    (port, count)
}

#[tokio::test]
async fn connections_follow_the_policy() {
    let Some(sandbox) = sandbox(&[]).await else { return };
    if let Some(reason) = &sandbox.parts().unwrap().no_network {
        eprintln!("skipped: {reason}");
        return;
    }
    let asked = |count: &std::sync::atomic::AtomicUsize| count.load(std::sync::atomic::Ordering::SeqCst);
    for (address, allowed) in [("127.0.0.1:0", "127.0.0.0/8"), ("[::1]:0", "::1")] {
        let (port, count) = server(address);
        let host = address.strip_suffix(":0").unwrap();
        let attempt = format!("connect {host}:{port}");
        let refused = outcomes(&sandbox, spec(&[&attempt]), Some(egress(""))).await;
        all_refused(&[&attempt], &refused);
        all_refused(&[&attempt], &outcomes(&sandbox, spec(&[&attempt]), None).await);
        assert_eq!(asked(&count), 0);
        let done = outcomes(&sandbox, spec(&[&attempt, &attempt]), Some(egress(allowed))).await;
        assert_eq!((done, asked(&count)), (vec!["done: pong".to_owned(); 2], 2));
    }
    let names = ["resolve localhost", "resolve nowhere.invalid", "datagram 127.0.0.1:54"];
    let found = outcomes(&sandbox, spec(&names), Some(egress("127.0.0.0/8"))).await;
    assert!(found[0].starts_with("done: Some("), "{}", found[0]);
    all_refused(&names[1..], &found[1..]);
}

#[tokio::test]
async fn shared_directories_are_seen_without_what_is_hidden() {
    let shared = TempDir::new().unwrap();
    std::fs::set_permissions(shared.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    for part in ["data", "other"] {
        std::fs::create_dir(shared.path().join(part)).unwrap();
        std::fs::write(shared.path().join(part).join("file"), part).unwrap();
    }
    std::fs::write(shared.path().join("kubeconfig"), "secret").unwrap();
    std::os::unix::fs::symlink(shared.path().join("data/file"), shared.path().join("link")).unwrap();
    let at = |name: &str| shared.path().join(name);
    let Some(sandbox) = sandbox(&[&at("data"), &at("kubeconfig")]).await else { return };
    for writable in [false, true] {
        let attempts = ["read", "read", "read", "write", "read"];
        let places = ["data/file", "link", "kubeconfig", "new", "other/file"];
        let attempts: Vec<String> = attempts
            .iter()
            .zip(places)
            .map(|(what, place)| format!("{what} {}", at(place).display()))
            .collect();
        let mut spec = spec(&attempts.iter().map(String::as_str).collect::<Vec<_>>());
        spec.shares = vec![Share { path: shared.path().to_owned(), writable }];
        let found = outcomes(&sandbox, spec, None).await;
        assert!(found[0].starts_with("refused: ") && found[1].starts_with("refused: "), "{found:?}");
        assert!(!found[2].contains("secret"), "{found:?}");
        assert_eq!((found[3].starts_with("done: "), found[4].as_str()), (writable, "done: other"));
        assert_eq!(at("new").exists(), writable);
    }
}

async fn waiting(sandbox: &Sandbox) -> Running {
    let mut running = sandbox.start(spec(&["wait"]), None).await.unwrap();
    let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("waiting"));
    running
}

/// The processes below one.
fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|one| one.parse().ok()).collect()
}

fn is_there(process: u32) -> bool {
    // One that nobody has waited for is not.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// The socket of the launcher closes when the server dies; or the launcher itself is killed.
#[tokio::test]
async fn it_ends_with_the_server_and_with_the_launcher() {
    let Some(isolated) = sandbox(&[]).await else { return };
    let plain = Sandbox::none(Launcher::program(env!("CARGO_BIN_EXE_sandbox-launcher")));
    for sandbox in [isolated, plain] {
        let with_us = waiting(&sandbox).await;
        let own = with_us.child.id().unwrap();
        let below = children(own);
        assert_eq!(below.len(), 1);
        let mut child = with_us.child;
        drop(with_us.inside);
        child.wait().await.unwrap();
        assert!(!is_there(below[0]));
        let mut killed = waiting(&sandbox).await;
        let below = children(killed.child.id().unwrap());
        killed.child.start_kill().unwrap();
        killed.child.wait().await.unwrap();
        while is_there(below[0]) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_said() {
    let Some(sandbox) = sandbox(&[]).await else { return };
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("program");
    for (text, expected) in [("#!/bin/sh\n", "its loader or interpreter"), ("nonsense", "Exec format error")]
    {
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let refused =
            sandbox.start(Spec { program: program.clone(), ..spec(&[]) }, None).await.err().unwrap();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    let missing = Spec { program: directory.path().join("missing"), ..spec(&[]) };
    let refused = sandbox.start(missing, None).await.err().unwrap().to_string();
    assert!(refused.contains("No such file or directory"), "{refused}");
}
