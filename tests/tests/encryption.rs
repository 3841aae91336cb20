//! The installation's key is replaced while the server is used and killed; and keys that are missing or wrong stop a start.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use end_to_end::{Client, ControlPlane, Server, binary, chance};
use rand::RngExt;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);
const KILLS: usize = 6;
/// More rows than one page of the directory takes no time; these make a rotation long enough to be killed in.
const PLANES: usize = 4;
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn key_file(server: &Server) -> PathBuf {
    server.dir().join("data/keys/data.key")
}

/// A start on the data of a server that does not run.
fn refused(server: &Server, expected: &[&str]) {
    let output = Command::new(binary())
        .args(["up", "--listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(server.dir().join("other"))
        .arg("--data-dir")
        .arg(server.dir().join("data"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    for words in expected {
        assert!(said.contains(words), "{said}");
    }
}

fn replace(path: &Path, contents: &[u8]) {
    std::fs::write(path, contents).unwrap();
}

#[test]
fn a_rotation_that_is_killed_loses_nothing_and_ends() {
    let mut rng = chance::seeded();
    let mut server = Server::start();
    let planes: Vec<(ControlPlane, Client)> = (0..PLANES)
        .map(|index| {
            let plane = ControlPlane::create(&server, &format!("p{index}"));
            let client = server.client_as(plane.credentials());
            (plane, client)
        })
        .collect();
    for (plane, client) in &planes {
        client
            .post(&plane.path(SECRETS), &json!({"metadata": {"name": "mark"}, "stringData": {"a": "b"}}))
            .ok();
    }
    let first = std::fs::read(key_file(&server)).unwrap();
    for _ in 0..chance::kills_wanted(KILLS) {
        let wait = Duration::from_millis(rng.random_range(0..60));
        let (client, ended) = (server.client(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    // It is cut off in the end.
                    let _ = client.try_send("POST", "/hangar/v1/keys/data/rotate", None, b"");
                }
            });
            std::thread::sleep(wait);
            ended.store(true, Ordering::SeqCst);
            server.kill();
        });
        server.restart();
        for (plane, _) in &planes {
            let client = server.client_as(plane.credentials());
            assert_eq!(client.get(&plane.path(&format!("{SECRETS}/mark"))).ok()["data"]["a"], "Yg==");
        }
    }
    // What was begun is finished.
    let began = Instant::now();
    while server.client().get("/hangar/v1/keys").ok()["data"]["known"].as_array().unwrap().len() > 1 {
        assert!(began.elapsed() < PATIENCE, "both keys are still known:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = server.client().post("/hangar/v1/keys/data/rotate", &json!({})).ok();
    assert!(done["rewritten"].as_u64().unwrap() > PLANES as u64, "{done}");
    let last = std::fs::read(key_file(&server)).unwrap();
    assert_eq!(last.len(), 32, "it has one key");
    assert_ne!(first, last);

    server.stop();
    replace(&key_file(&server), &first);
    refused(&server, &["encrypted with another key"]);
    assert_eq!(std::fs::read(key_file(&server)).unwrap(), first, "it is not replaced");
    std::fs::remove_file(key_file(&server)).unwrap();
    refused(&server, &["data.key", "it is missing"]);
    assert!(!key_file(&server).exists(), "no other key is made");
    replace(&key_file(&server), &last);

    let authority = server.dir().join("data/keys/serving-authority.pem");
    let pem = std::fs::read(&authority).unwrap();
    std::fs::remove_file(&authority).unwrap();
    refused(&server, &["serving-authority.pem", "it is missing"]);
    assert!(!authority.exists());
    replace(&authority, &pem);
    server.restart();
}

#[test]
fn what_a_start_finds_open_to_others_is_private_then() {
    use std::os::unix::fs::PermissionsExt;
    let mut server = Server::start();
    server.stop();
    let data = server.dir().join("data");
    let set = |path: &str, mode| {
        std::fs::set_permissions(data.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &str| std::fs::metadata(data.join(path)).unwrap().permissions().mode() & 0o777;
    for path in ["", "keys", "store"] {
        set(path, 0o755);
    }
    for path in ["keys/data.key", "keys/serving-authority.pem", "store/hangar.db"] {
        set(path, 0o644);
    }
    server.restart();
    for path in ["", "keys", "store"] {
        assert_eq!(mode(path), 0o700, "{path:?}");
    }
    for path in ["keys/data.key", "keys/serving-authority.pem", "store/hangar.db", "store/hangar.db-wal"] {
        assert_eq!(mode(path), 0o600, "{path}");
    }
}
