//! `init` where there is a cluster.

use std::process::{Command, Stdio};

use end_to_end::binary;
use serde_json::json;

use super::cluster::{Cluster, SYSTEM, eventually};

/// The words of KubeFlex, which always brings a database, and ours.
#[test]
fn init_installs_the_operator_on_a_cluster() {
    let expected = [
        "Checking if OpenShift cluster...",
        "Setting hosting cluster preference in kubeconfig",
        "Ensuring kubeflex-system namespace...",
        "Installing kubeflex operator...",
        "Waiting for kubeflex operator to become ready...",
    ];
    installs("hangar", &["deployments/kubeflex-controller-manager"], &expected);
    let version = format!("Kubeflex v0.9.3.hangar-{} unknown", env!("CARGO_PKG_VERSION"));
    let expected = [
        expected[0],
        &version,
        expected[1],
        expected[2],
        "Installing shared backend DB...",
        "Waiting for shared backend DB to become ready...",
        expected[3],
        expected[4],
    ];
    installs(
        "kflex",
        &["statefulsets/postgres-postgresql", "deployments/kubeflex-controller-manager"],
        &expected,
    );
}

fn installs(program: &str, workloads: &[&str], expected: &[&str]) {
    let cluster = Cluster::start();
    let (kubeconfig, called) = (cluster.dir.path().join("config"), cluster.dir.path().join(program));
    std::fs::copy(&cluster.plane.kubeconfig, &kubeconfig).unwrap();
    std::os::unix::fs::symlink(binary(), &called).unwrap();
    let mut command = Command::new(&called);
    command.arg("--kubeconfig").arg(&kubeconfig);
    command.args(["init", "-d", "planes.example.com", "-p", "443", "-n", "mine-control-plane"]);
    command.env("HOME", cluster.dir.path()).env_remove("KUBECONFIG");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for workload in workloads {
        let path = format!("/apis/apps/v1/namespaces/kubeflex-system/{workload}");
        eventually(workload, || cluster.find(&path));
        cluster.run_pods(&path);
    }
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let said: Vec<&str> = out.lines().map(|line| line.trim_start_matches(['✔', ' '])).collect();
    assert_eq!(said, expected);
    let config = cluster.get(&format!("{SYSTEM}/configmaps/kubeflex-config"));
    let said = json!({
        "domain": "planes.example.com", "externalPort": "443", "hostContainer": "mine-control-plane",
        "isOpenShift": "false",
    });
    assert_eq!(config["data"], said);
    let written = std::fs::read_to_string(&kubeconfig).unwrap();
    assert!(written.contains("hosting-cluster-ctx-name"), "{written}");
    // Once is enough.
    let again = Command::new(&called).arg("--kubeconfig").arg(&kubeconfig).arg("init").output().unwrap();
    assert!(again.status.success());
    assert_eq!(String::from_utf8_lossy(&again.stdout).lines().count(), 1);
}
