//! A control plane of its own for each test, made and reached as a person would.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Client, Credentials, Server};
use serde_json::{Value, json};

const NAME: &str = "team";
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Tenant {
    pub server: Server,
    pub kubeconfig: PathBuf,
}

impl Tenant {
    pub fn start() -> Tenant {
        let server = Server::start();
        let host = server.client();
        let wanted = json!({
            "apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": NAME}, "spec": {"type": "k8s", "backend": "shared"},
        });
        host.post("/apis/tenancy.kflex.kubestellar.org/v1alpha1/controlplanes", &wanted).ok();
        let began = Instant::now();
        let secret = loop {
            let secret = host.get(&format!("/api/v1/namespaces/{NAME}-system/secrets/admin-kubeconfig"));
            if secret.code == 200 {
                break secret.json();
            }
            assert!(began.elapsed() < PATIENCE, "no kubeconfig after {PATIENCE:?}: {}", secret.text());
            std::thread::sleep(Duration::from_millis(20));
        };
        let config = STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap()).unwrap();
        // As JSON, which is YAML too: the harness reads no other.
        let config: Value = serde_saphyr::from_str(std::str::from_utf8(&config).unwrap()).unwrap();
        let kubeconfig = server.dir().join(format!("{NAME}.kubeconfig"));
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        Tenant { server, kubeconfig }
    }

    /// The administrator of this control plane; [`Tenant::path`] says where.
    pub fn client(&self) -> Client {
        self.server.client_as(Credentials::from_kubeconfig(&self.kubeconfig))
    }

    pub fn path(path: &str) -> String {
        format!("/control-planes/{NAME}{path}")
    }
}
