//! A server whose data directory is on a full disk starts, serves what it has, takes deletions, and says how it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use end_to_end::{Engine, Server};
use serde_json::json;

/// A file system of its own, gone with this.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path, mebibytes: u32) -> Option<Mounted> {
        std::fs::create_dir_all(path).unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Mounted(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_survived() {
    if Engine::of_this_test() != Engine::Embedded {
        return;
    }
    let mut mounted = None;
    let mut server = Server::start_with(|dir| {
        mounted = Mounted::at(&dir.join("data"), 48);
        Vec::new()
    });
    let Some(mounted) = mounted else {
        println!("skipped: a file system cannot be mounted here");
        return;
    };
    server.forgive("the disk is full");
    let client = server.client();
    let configmaps = "/api/v1/namespaces/default/configmaps";
    let configmap = |index: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{index:04}")},
               "data": {"p": "x".repeat(100_000)}})
    };
    let mut written = 0;
    let refused = loop {
        let answer = client.post(configmaps, &configmap(written));
        if answer.code != 201 {
            break answer;
        }
        written += 1;
        assert!(written < 2_000, "the disk has no end");
    };
    assert_eq!(refused.code, 503, "{}", refused.text());
    assert!(refused.text().contains("the disk is full"), "{}", refused.text());
    assert_eq!(client.get("/readyz").code, 500);
    assert_eq!(client.get("/livez").code, 200);
    let metrics = client.get("/metrics").text();
    assert!(metrics.contains("hangar_store_healthy{store=\"default\"} 0"), "{metrics}");
    for _ in 0..20 {
        assert_eq!(client.post(configmaps, &configmap(written)).code, 503);
    }
    let told = server.log().lines().filter(|line| line.contains("ERROR")).count();
    assert!(told <= 2, "each request is an error of the log:\n{}", server.log());

    // Killed, it starts again, and what is left of the disk goes to somebody else.
    server.kill();
    let _ = std::fs::write(mounted.0.join("filler"), vec![0; 64 << 20]);
    let before = starts(&server);
    server.start_and_kill(Duration::from_secs(10));
    assert!(starts(&server) > before, "it did not start:\n{}", server.log());

    std::fs::remove_file(mounted.0.join("filler")).unwrap();
}

/// How often it has said that it serves.
fn starts(server: &Server) -> usize {
    server.log().lines().filter(|line| line.contains(" serving ")).count()
}
