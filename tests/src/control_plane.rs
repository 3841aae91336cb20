//! Control planes of a running server, made and reached as a person would.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::Credentials;
use crate::server::Server;

const CONTROL_PLANES: &str = "/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes";
const PATIENCE: Duration = Duration::from_secs(30);

pub struct ControlPlane {
    name: String,
    /// Its administrator's, as the control plane hands it out.
    pub kubeconfig: PathBuf,
}

impl ControlPlane {
    pub fn create(server: &Server, name: &str) -> ControlPlane {
        ControlPlane::create_as(server, name, &json!({"type": "k8s", "backend": "shared"}))
    }

    pub fn create_as(server: &Server, name: &str, spec: &Value) -> ControlPlane {
        let host = server.client();
        let wanted = json!({
            "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": name}, "spec": spec,
        });
        host.post(CONTROL_PLANES, &wanted).ok();
        let path = format!("/api/v1/namespaces/{name}-system/secrets/admin-kubeconfig");
        let secret =
            eventually("a kubeconfig", || Some(host.get(&path)).filter(|answer| answer.code == 200)).json();
        let config = STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap()).unwrap();
        // As JSON, which is YAML too: nothing else here reads any other.
        let config: Value = serde_saphyr::from_str(std::str::from_utf8(&config).unwrap()).unwrap();
        let kubeconfig =
            server.dir().join(format!("{}.kubeconfig", secret["metadata"]["uid"].as_str().unwrap()));
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        ControlPlane { name: name.to_owned(), kubeconfig }
    }

    /// Deletes it and waits until nothing is left of it.
    pub fn delete(&self, server: &Server) {
        let (host, path) = (server.client(), format!("{CONTROL_PLANES}/{}", self.name));
        host.delete(&path).ok();
        eventually("its end", || (host.get(&path).code == 404).then_some(()));
        let namespace = format!("/api/v1/namespaces/{}-system", self.name);
        eventually("the end of its namespace", || (host.get(&namespace).code == 404).then_some(()));
    }

    pub fn credentials(&self) -> Credentials {
        Credentials::from_kubeconfig(&self.kubeconfig)
    }

    /// Where a path of this control plane is on the server.
    pub fn path(&self, path: &str) -> String {
        format!("/control-planes/{}{path}", self.name)
    }
}

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
