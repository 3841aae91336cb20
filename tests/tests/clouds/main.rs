//! Clouds behind control planes, as a person uses them: AWS against an emulator ([`aws`]), with a server that dies at any
//! call ([`crashes`]), and a Terraform provider that
//! others wrote the framework of ([`terraform`], and Kubeform's own steps in [`kubeform`]), also by modules
//! ([`modules`]) and what exists already ([`queries`]).

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]

mod accounts;
mod aws;
mod chart;
mod crashes;
mod foresight;
mod import;
mod kubeform;
mod mistakes;
mod modules;
mod moto;
mod queries;
mod secrets;
mod states;
mod terraform;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use end_to_end::ControlPlane;
use serde_json::Value;

/// A debug build and an emulator on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// kubectl in a control plane, with something on its standard input.
fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(&plane.kubeconfig)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The same where it must succeed: what it says.
fn good(plane: &ControlPlane, arguments: &[&str], input: &str) -> String {
    let output = kubectl(plane, arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The same where it must not: what it complains of.
fn refused(plane: &ControlPlane, arguments: &[&str], input: &str) -> String {
    let output = kubectl(plane, arguments, input);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

fn object(plane: &ControlPlane, kind: &str, name: &str) -> Value {
    serde_json::from_str(&good(plane, &["get", kind, name, "-o", "json"], "")).unwrap()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|one| one["status"] == "True")
}

fn exists(plane: &ControlPlane, kind: &str, name: &str) -> bool {
    kubectl(plane, &["get", kind, name], "").status.success()
}
