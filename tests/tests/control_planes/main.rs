//! Control planes of a real server from beginning to end: what KubeFlex's users do ([`kubeflex`]), a server that is
//! killed while it makes and unmakes a hundred of them ([`killed`]), copies and backups ([`whole`]), what comes from
//! elsewhere ([`kine`]), what keeps two of them apart and what is left of one that is gone ([`apart`], [`ways`]), what one may take
//! ([`quotas`]), what the log says of them ([`quiet`]), and those that have processes ([`process`]) or databases ([`dedicated`]) of their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "what was found is said")]

mod apart;
mod dedicated;
mod killed;
mod kine;
mod kubeflex;
mod process;
mod quiet;
mod quotas;
mod ways;
mod whole;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Client, Credentials, Server, binary};
use serde_json::{Value, json};

const CONTROL_PLANES: &str = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A debug build on a loaded machine, with a hundred control planes to make.
const PATIENCE: Duration = Duration::from_secs(180);

fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn control_plane(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}

/// Creates one and waits until it is ready.
fn create(server: &Server, name: &str, spec: &Value) -> Value {
    server.client().post(CONTROL_PLANES, &control_plane(name, spec)).ok();
    ready(server, name)
}

fn ready(server: &Server, name: &str) -> Value {
    let host = server.client();
    eventually(&format!("{name} is ready"), || {
        Some(host.get(&format!("{CONTROL_PLANES}/{name}")).ok()).filter(|object| is_true(object, "Ready"))
    })
}

fn delete(server: &Server, name: &str) {
    let host = server.client();
    host.delete(&format!("{CONTROL_PLANES}/{name}")).ok();
    eventually(&format!("{name} is gone"), || {
        (host.get(&format!("{CONTROL_PLANES}/{name}")).code == 404).then_some(())
    });
}

/// What the Secret of a control plane says about how to enter it.
fn credentials(host: &Client, name: &str) -> Option<Credentials> {
    let object = host.get(&format!("{CONTROL_PLANES}/{name}"));
    let reference = object.json()["status"]["secretRef"].clone();
    let at = |field: &str, default: &str| reference[field].as_str().unwrap_or(default).to_owned();
    let (secret, key) = (at("name", "admin-kubeconfig"), at("key", "kubeconfig"));
    let secret = host.get(&format!("/api/v1/namespaces/{name}-system/secrets/{secret}"));
    if secret.code != 200 {
        return None;
    }
    let config = STANDARD.decode(secret.json()["data"][key].as_str()?).ok()?;
    let config: Value = serde_saphyr::from_str(std::str::from_utf8(&config).ok()?).ok()?;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config.to_string()).unwrap();
    Some(Credentials::from_kubeconfig(file.path()))
}

/// Its administrator.
fn admin(server: &Server, name: &str) -> Client {
    server
        .client_as(credentials(&server.client(), name).unwrap_or_else(|| panic!("{name} has no kubeconfig")))
}

fn inside(name: &str, path: &str) -> String {
    format!("/control-planes/{name}{path}")
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

/// Many at once: one after the other they would take as long as the disk takes for each.
fn fill(client: &Client, control_plane: &str, count: usize) {
    const WRITERS: usize = 16;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for index in (writer..count).step_by(WRITERS) {
                    let object = config_map(&format!("m{index:05}"), &format!("value {index}"));
                    client.post(&inside(control_plane, CONFIG_MAPS), &object).ok();
                }
            });
        }
    });
}

/// Every path that lists something. The prefix says in which control plane; it is empty for the hosting one.
fn collections(client: &Client, prefix: &str) -> Vec<String> {
    let get = |path: &str| client.get(&format!("{prefix}{path}")).ok();
    let mut versions = vec!["/api/v1".to_owned()];
    for group in get("/apis")["groups"].as_array().unwrap() {
        versions.push(format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str().unwrap()));
    }
    let mut paths = Vec::new();
    for version in versions {
        for resource in get(&version)["resources"].as_array().unwrap() {
            if resource["verbs"].as_array().unwrap().iter().any(|verb| verb == "list") {
                paths.push(format!("{version}/{}", resource["name"].as_str().unwrap()));
            }
        }
    }
    paths
}

/// Every object that the API shows, by the path it is listed at and its names; without what only tells when.
fn everything(client: &Client, control_plane: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for path in collections(client, &inside(control_plane, "")) {
        // These come and go by themselves while we look.
        if path.ends_with("/events") || path.ends_with("/leases") {
            continue;
        }
        let list = client.get(&inside(control_plane, &path)).ok();
        for mut item in list["items"].as_array().unwrap().clone() {
            let metadata = item["metadata"].as_object_mut().unwrap();
            metadata.remove("resourceVersion");
            let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
            all.insert(format!("{path} {}/{}", text("namespace"), text("name")), item);
        }
    }
    all
}

/// `hangar`, as the administrator of the hosting control plane.
fn hangar(server: &Server, arguments: &[&str]) -> String {
    let output = run(server, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    run_at(tempfile::tempdir().unwrap().path(), server, arguments)
}

/// By whoever has this home.
fn run_at(home: &Path, server: &Server, arguments: &[&str]) -> Output {
    let kubeconfig = home.join("config");
    std::fs::copy(server.kubeconfig(), &kubeconfig).unwrap();
    let mut command = Command::new(binary());
    command.args(arguments).env("HOME", home).env("KUBECONFIG", &kubeconfig);
    command.output().unwrap()
}
