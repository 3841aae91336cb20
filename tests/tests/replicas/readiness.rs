//! When a server is ready: a load balancer is told when there is no database to serve from, and one that could open nothing
//! there does not begin.

use std::process::Command;
use std::time::{Duration, Instant};

use end_to_end::{Credentials, Engine, Server};

/// For a server to notice, and for a database to come up on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn readiness_follows_the_database(engine: Engine) {
    let mut server = Server::start_on(engine);
    server.forgive("the store is unavailable");
    let credentials = Credentials::from_kubeconfig(&server.kubeconfig());
    // As a kubelet asks, and never before: nothing is remembered of it.
    let anybody = server.client_as(credentials.anonymous()).patient_for(Duration::from_secs(1));
    let code = |path: &str| anybody.try_send("GET", path, None, b"").map_or(0, |answer| answer.code);
    let until = |path: &str, expected: u16, when: &str| {
        let began = Instant::now();
        while code(path) != expected {
            assert!(began.elapsed() < PATIENCE, "{path} does not become {expected} {when}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let database = server.database().unwrap();
    for frozen in [true, false] {
        let when = if frozen { "with a frozen database" } else { "without a database" };
        if frozen {
            database.signal("STOP");
        } else {
            until("/readyz", 200, "before the database is killed");
            database.kill();
        }
        until("/readyz/store", 500, when);
        let told = anybody.get("/readyz");
        assert_eq!((told.code, told.text().contains("[-]store failed")), (500, true), "{}", told.text());
        for path in ["/livez", "/livez/store", "/healthz", "/readyz/ping", "/readyz?exclude=store"] {
            assert_eq!(code(path), 200, "{path} {when}");
        }
        if frozen {
            database.signal("CONT");
        } else {
            database.start_again();
        }
        until("/readyz", 200, "when the database is back");
    }
}

pub fn other_keys_are_refused(engine: Engine) {
    let server = Server::start_on(engine);
    for command in ["up", "serve"] {
        let data = tempfile::tempdir().unwrap();
        let output = Command::new(end_to_end::binary())
            .args([command, "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data.path())
            .env("HANGAR_STORE", server.database().unwrap().url())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let keys = data.path().join("keys").display().to_string();
        let told = said.lines().any(|line| line.starts_with("hangar: ") && line.contains(&keys));
        assert!(!output.status.success() && told, "{command}: {said}");
    }
}
