//! Keys that are replaced at one server are replaced at all of them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use end_to_end::{Client, ControlPlane, Engine, Server};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(20);
const MAPS: &str = "/control-planes/one/api/v1/namespaces/default/configmaps";

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until both servers say the same of a credential.
fn until(what: &str, clients: &[Client], expected: u16) {
    let began = Instant::now();
    while clients.iter().any(|client| client.get(MAPS).code != expected) {
        assert!(began.elapsed() < PATIENCE, "{what}: not {expected} everywhere");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn all_learn_of_rotated_keys(engine: Engine) {
    let first = Server::start_on(engine);
    let second = first.beside();
    let plane = ControlPlane::create(&first, "one");
    let admins = |plane: &ControlPlane| [&first, &second].map(|server| server.client_as(plane.credentials()));
    let binding = json!({
        "metadata": {"name": "robots"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}],
    });
    let rbac = "/control-planes/one/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    admins(&plane)[0].post(rbac, &binding).ok();
    let token = |at: usize| {
        let path = "/control-planes/one/api/v1/namespaces/default/serviceaccounts/default/token";
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
        let made = admins(&plane)[at].post(path, &body).ok();
        let token = made["status"]["token"].as_str().unwrap().to_owned();
        [&first, &second].map(|server| server.client_as(plane.credentials().with_token(&token)))
    };
    let change = |change: &str| {
        let path = format!("/hangar/v1/control-planes/one/keys/tokens?change={change}");
        first.client().post(&path, &json!({})).ok();
    };
    let old = token(0);
    until("before", &old, 200);
    let watch = old[1].watch(&format!("{MAPS}?watch=1&timeoutSeconds=600"));

    // Both serve writers with the old token while the key changes.
    let (stop, writes) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for (at, client) in old.iter().enumerate() {
            let (stop, writes) = (&stop, &writes);
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::SeqCst) {
                    let map = json!({"metadata": {"name": format!("by-{at}-{number}")}});
                    client.post(MAPS, &map).ok();
                    number += 1;
                    writes.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // Also when an assertion fails.
        let _stop = Stop(&stop);
        let go_on = || {
            let (from, began) = (writes.load(Ordering::SeqCst), Instant::now());
            while writes.load(Ordering::SeqCst) < from + 20 && began.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        go_on();
        change("rotate");
        go_on();
    });
    for at in [0, 1] {
        // Nobody waits until the other server has heard of the new key.
        for client in token(at) {
            client.get(MAPS).ok();
        }
    }
    let new = token(0);
    until("a token of the old key", &old, 200);
    change("finish");
    until("a token of the old key, given up", &old, 401);
    until("a token of the new key", &new, 200);
    let last = watch.to_end(PATIENCE).pop().unwrap();
    assert_eq!(
        (last["type"].as_str(), last["object"]["code"].as_u64()),
        (Some("ERROR"), Some(401)),
        "{last}"
    );
}
