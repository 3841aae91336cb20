//! A cluster without nodes, the operator on it, and what pods and their controllers would do.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Client, ControlPlane, Kubectl, Server, binary};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const CONTROL_PLANES: &str = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes";
pub const SYSTEM: &str = "/api/v1/namespaces/kubeflex-system";

pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A process of ours that has to end well when it is asked to.
pub struct Process {
    child: Child,
    log: PathBuf,
    /// It has ended, and the test knows how.
    ended: bool,
}

impl Process {
    pub fn start(log: PathBuf, arguments: &[String]) -> Process {
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = Command::new(binary());
        command.args(arguments).stdout(Stdio::null()).stderr(file);
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HANGAR_STORE", "HANGAR_DATA_DIR"] {
            command.env_remove(variable);
        }
        Process { child: command.spawn().unwrap(), log, ended: false }
    }

    /// It ends by itself, and says why.
    #[track_caller]
    pub fn ends_with_failure(mut self, why: &str) {
        let ended = eventually("the end of the process", || self.child.try_wait().unwrap());
        self.ended = true;
        assert_eq!(ended.code(), Some(1), "{}", self.said());
        assert!(self.said().contains(why), "{}", self.said());
    }

    /// As a node that is gone: nothing is given back.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if std::thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            println!("{}:\n{}", self.log.display(), self.said());
            return;
        }
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(
            asked.unwrap().success(),
            "{} was gone before it was stopped:\n{}",
            self.child.id(),
            self.said()
        );
        let ended = eventually("the end of the process", || self.child.try_wait().unwrap());
        let said = self.said();
        assert!(ended.success(), "ended with {ended}:\n{said}");
        let errors: Vec<&str> =
            said.lines().filter(|line| line.contains(" ERROR ") || line.contains("panicked at")).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

/// A cluster without nodes, and how its administrator reaches it.
pub struct Cluster {
    pub plane: ControlPlane,
    pub client: Client,
    pub dir: TempDir,
    _server: Server,
}

impl Cluster {
    pub fn start() -> Cluster {
        let server = Server::start();
        let plane = ControlPlane::create(&server, "hosting");
        let client = server.client_as(plane.credentials());
        Cluster { plane, client, dir: tempfile::tempdir().unwrap(), _server: server }
    }

    /// With the operator's manifests applied as a person would apply them.
    pub fn installed(options: &[&str]) -> Cluster {
        let cluster = Cluster::start();
        let manifests = manifests(options);
        cluster.apply(&manifests);
        cluster
    }

    /// Server-side, and not one unknown field.
    pub fn apply(&self, yaml: &[u8]) -> String {
        let kubectl =
            Kubectl::all().pop().expect("kubectl has to be installed: apt-get install kubernetes-client");
        let mut command = Command::new(kubectl.path);
        command.arg("--kubeconfig").arg(&self.plane.kubeconfig);
        command.args(["apply", "--server-side", "--validate=strict", "-f", "-"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(yaml).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The operator as its pod would run it: with the rights of its account and no others.
    pub fn operator(&self, options: &[&str]) -> Process {
        self.operator_named("operator", options)
    }

    /// One of several.
    pub fn operator_named(&self, name: &str, options: &[&str]) -> Process {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let path = self.plane.path(&format!("{SYSTEM}/serviceaccounts/kubeflex-controller-manager/token"));
        let answer = self.client.post(&path, &request).ok();
        let mut config: Value =
            serde_json::from_slice(&std::fs::read(&self.plane.kubeconfig).unwrap()).unwrap();
        config["users"][0]["user"] = json!({"token": answer["status"]["token"]});
        let kubeconfig = self.dir.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let kubeconfig = kubeconfig.to_str().unwrap();
        let mut arguments = vec!["operator", "--kubeconfig", kubeconfig];
        if !options.contains(&"--image") {
            arguments.extend(["--image", "example/hangar:1"]);
        }
        arguments.extend(options);
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        Process::start(self.dir.path().join(format!("{name}.log")), &arguments)
    }

    pub fn find(&self, path: &str) -> Option<Value> {
        let answer = self.client.get(&self.plane.path(path));
        (answer.code != 404).then(|| answer.ok())
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        self.find(path).unwrap_or_else(|| panic!("{path} is not there"))
    }

    pub fn patch(&self, path: &str, patch: Value) {
        self.client.patch(&self.plane.path(path), "merge", &patch).ok();
    }

    pub fn delete(&self, path: &str) {
        self.client.delete(&self.plane.path(path)).ok();
    }

    pub fn create(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": name}, "spec": spec,
        });
        self.client.post(&self.plane.path(CONTROL_PLANES), &object).ok();
    }

    /// Status, reason and message of a condition.
    pub fn condition(&self, name: &str, kind: &str) -> Option<(String, String, String)> {
        let plane = self.get(&format!("{CONTROL_PLANES}/{name}"));
        let condition =
            plane["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)?.clone();
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    pub fn await_condition(&self, name: &str, kind: &str, status: &str) -> (String, String) {
        eventually(&format!("{kind}={status} of {name}"), || {
            let (found, reason, message) = self.condition(name, kind)?;
            (found == status).then_some((reason, message))
        })
    }

    /// What a kubelet and the controllers of workloads would say once its pods run.
    pub fn run_pods(&self, path: &str) {
        let live = self.get(path);
        let replicas = &live["spec"]["replicas"];
        let status = json!({
            "observedGeneration": live["metadata"]["generation"], "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
        });
        self.patch(&format!("{path}/status"), json!({ "status": status }));
    }

    pub fn secret(&self, namespace: &str, name: &str, key: &str) -> String {
        let secret = self.get(&format!("/api/v1/namespaces/{namespace}/secrets/{name}"));
        let text = secret["data"][key].as_str().unwrap_or_else(|| panic!("{name} has no {key}"));
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    }

    pub fn kubeconfig(&self, namespace: &str, name: &str, key: &str) -> Value {
        serde_saphyr::from_str(&self.secret(namespace, name, key)).unwrap()
    }
}

pub fn manifests(options: &[&str]) -> Vec<u8> {
    let output = Command::new(binary()).args(["operator", "manifests"]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

pub fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}
