//! What Kubernetes would do with the template of a pod, done by hand.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::Kubectl;
use serde_json::{Value, json};

use super::cluster::{Cluster, Process};

/// A command line of a pod, with what Kubernetes would mount, say and open for it.
pub struct Pod {
    _process: Process,
    port: u16,
    keys: PathBuf,
}

impl Pod {
    pub fn run(cluster: &Cluster, dir: &Path, deployment: &Value, namespace: &str) -> Pod {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["command"], json!(["hangar"]));
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut places = vec![
            ("0.0.0.0:9444".to_owned(), format!("127.0.0.1:{free}")),
            ("$(POD_IP)".to_owned(), "127.0.0.1".to_owned()),
        ];
        let keys = dir.join("keys");
        for mount in container["volumeMounts"].as_array().unwrap() {
            let volume =
                pod["volumes"].as_array().unwrap().iter().find(|one| one["name"] == mount["name"]).unwrap();
            let place = dir.join(volume["name"].as_str().unwrap());
            std::fs::create_dir_all(&place).unwrap();
            if let Some(name) = volume["secret"]["secretName"].as_str() {
                let secret = cluster.get(&format!("/api/v1/namespaces/{namespace}/secrets/{name}"));
                for (key, text) in secret["data"].as_object().unwrap() {
                    std::fs::write(place.join(key), STANDARD.decode(text.as_str().unwrap()).unwrap())
                        .unwrap();
                }
            }
            places
                .push((mount["mountPath"].as_str().unwrap().to_owned(), place.to_str().unwrap().to_owned()));
        }
        let arguments = container["args"].as_array().unwrap().iter().map(|argument| {
            let text = argument.as_str().unwrap().to_owned();
            // No argument names two of them, and what stands for one may contain another.
            match places.iter().find(|(from, _)| text.contains(from)) {
                Some((from, to)) => text.replace(from, to),
                None => text,
            }
        });
        let arguments: Vec<String> = arguments.collect();
        let process = Process::start(dir.join("log"), &arguments);
        Pod { _process: process, port: free, keys }
    }

    /// kubectl with a kubeconfig of the control plane, at the address it has here.
    pub fn kubectl(&self, mut config: Value, arguments: &[&str]) -> Output {
        config["clusters"][0]["cluster"]["server"] = format!("https://127.0.0.1:{}", self.port).into();
        let path = self.keys.join("kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        let kubectl =
            Kubectl::all().pop().expect("kubectl has to be installed: apt-get install kubernetes-client");
        Command::new(kubectl.path).arg("--kubeconfig").arg(&path).args(arguments).output().unwrap()
    }
}
