//! Python's clients: scripts in `tests/python`, each with a control plane of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use end_to_end::{Client, tools_dir};
use serde_json::{Value, json};

use super::tenant::Tenant;

/// What a handler of an operator may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// A program of the virtual environment, with the kubeconfig and nothing else of ours.
fn program(name: &str, tenant: &Tenant) -> Command {
    let path = tools_dir().join("venv/bin").join(name);
    assert!(path.exists(), "{} is not there: run `cargo xtask test --tools-only`", path.display());
    let mut command = Command::new(path);
    command
        .env("KUBECONFIG", &tenant.plane.kubeconfig)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HOME", tenant.server.dir())
        .current_dir(scripts())
        .stdin(Stdio::null());
    command
}

/// Runs a script to its end; all of its checks have to be said to be good.
fn check(script: &str) {
    let tenant = Tenant::start();
    let output = program("python", &tenant).arg(script).output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{script} ended with {}:\n{said}", output.status);
    let source = std::fs::read_to_string(scripts().join(script)).unwrap();
    let mut functions = source.split("@check\ndef ").skip(1).filter_map(|rest| rest.split('(').next());
    assert!(source.contains("@check"), "{script} checks nothing");
    assert!(
        functions.all(|name| said.contains(&format!("ok {name}\n"))),
        "{script} left something out:\n{said}"
    );
}

fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

#[test]
fn kubernetes() {
    check("kubernetes_client.py");
}

#[test]
fn lightkube() {
    check("lightkube_client.py");
}

/// `kopf run`, ended with the test.
struct Operator {
    process: Child,
    log: PathBuf,
}

impl Operator {
    fn start(tenant: &Tenant) -> Operator {
        let log = tenant.server.dir().join("operator.log");
        let file = std::fs::File::create(&log).unwrap();
        let process = program("kopf", tenant)
            .args(["run", "--all-namespaces", "--verbose", "kopf_operator.py"])
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Operator { process, log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn eventually<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = probe() {
                return found;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{what}: not within {PATIENCE:?}; the operator:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sprocket(name: &str, size: u32, colour: &str) -> Value {
    json!({
        "apiVersion": "clients.example.com/v1", "kind": "Sprocket",
        "metadata": {"name": name}, "spec": {"size": size, "colour": colour},
    })
}

fn define_sprockets(tenant: &Tenant, client: &Client) {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "grey"},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sprockets.clients.example.com"},
        "spec": {
            "group": "clients.example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "sprockets", "singular": "sprocket", "kind": "Sprocket"},
        },
    });
    client
        .post(&tenant.plane.path("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), &definition)
        .ok();
}

#[test]
fn kopf() {
    let tenant = Tenant::start();
    let client = tenant.client();
    define_sprockets(&tenant, &client);
    let operator = Operator::start(&tenant);
    let sprockets = tenant.plane.path("/apis/clients.example.com/v1/namespaces/default/sprockets");

    client.post(&sprockets, &sprocket("s", 4, "red")).ok();
    let path = format!("{sprockets}/s");
    let handled = operator.eventually("the create handler", || {
        let object = client.get(&path).ok();
        (object["status"]["created"]["handled"] == "create").then_some(object)
    });
    assert_eq!(handled["status"]["teeth"], 8, "{handled:#}");
    assert_eq!(handled["metadata"]["finalizers"], json!(["clients.example.com/finalizer"]));
    assert_eq!(handled["metadata"]["generation"], 1, "a status is no change of generation: {handled:#}");
    operator.eventually("the event it posts", || {
        let events = client.get(&tenant.plane.path("/api/v1/namespaces/default/events")).ok();
        let mut items = events["items"].as_array().unwrap().iter();
        items.find(|e| e["reason"] == "Greased" && e["involvedObject"]["name"] == "s").cloned()
    });

    client.patch(&path, "merge", &json!({"spec": {"size": 10}})).ok();
    operator.eventually("the update handler", || {
        let status = client.get(&path).ok()["status"].clone();
        (status["teeth"] == 20 && status["was"] == 8).then_some(())
    });
    operator
        .eventually("the timer", || (client.get(&path).ok()["status"]["turns"].as_i64()? > 2).then_some(()));

    // One that was there before it is asked about, and one of another kind that asks.
    client.post(&sprockets, &sprocket("t", 1, "blue")).ok();
    operator.eventually("t", || client.get(&format!("{sprockets}/t")).ok()["status"]["teeth"].as_i64());
    let question = json!({"metadata": {"name": "q", "labels": {"ask": "colours"}}});
    client.post(&tenant.plane.path("/api/v1/namespaces/default/configmaps"), &question).ok();
    operator.eventually("an answer from the index", || {
        let asked = client.get(&tenant.plane.path("/api/v1/namespaces/default/configmaps/q")).ok();
        (asked["metadata"]["annotations"]["answer"] == "s,t").then_some(())
    });

    let deleting = client.delete(&path).ok();
    assert!(deleting["metadata"]["deletionTimestamp"].is_string(), "the finalizer holds it: {deleting:#}");
    operator.eventually("the delete handler", || (client.get(&path).code == 404).then_some(()));
    let log = operator.log();
    assert!(log.contains("not yet") && log.contains("s is gone for good"), "{log}");
    assert_eq!(client.get(&format!("{sprockets}/t")).code, 200, "the other one stays");
}
