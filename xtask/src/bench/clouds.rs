//! Cloud resources in many control planes, on a server of their own whose AWS is an emulator in the load generator.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::page::told;
use super::{Build, Results, Server, run_command};

/// How much is measured; what the load is told.
pub const FULL: &[&str] = &["--tenants", "100", "--resources", "1000"];
pub const QUICK: &[&str] = &["--tenants", "10", "--resources", "100"];

/// The measurements, a line each.
pub fn measure(build: &Build, amounts: &[&str], scratch: &Path) -> anyhow::Result<String> {
    let program = build.programs.join("hangar");
    let plain = Server::start(&program, &scratch.join("plain"), None)?.0;
    let mut lines = format!("{}\n", json!({"scenario": "no clouds", "resident_mib": resident_mib(&plain)?}));
    plain.stop()?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("http://127.0.0.1:{port}");
    let flags = ["--aws-endpoint-url", &url, "--aws-region", "us-east-1", "--aws-own-credentials-only"];
    let server = Server::start_with(&program, &scratch.join("clouds"), None, &flags)?.0;
    let measured = scratch.join("clouds.json");
    let mut load = Command::new(&build.load);
    load.arg("--kubeconfig").arg(&server.kubeconfig).arg("--pid").arg(server.child.id().to_string());
    load.arg("--json").arg(&measured).args(["--aws-port", &port.to_string()]).args(amounts);
    run_command(load.arg("clouds"))?;
    server.stop()?;
    lines.push_str(&std::fs::read_to_string(&measured)?);
    Ok(lines)
}

/// Memory that a server has; none where the kernel does not tell.
fn resident_mib(server: &Server) -> anyhow::Result<Option<f64>> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<f64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    Ok(kib.map(|kib| kib / 1024.0))
}

/// Memory of the models of all services, above a server without clouds.
pub fn services_mib(results: &Results) -> Option<f64> {
    let plain = results.number("no clouds", "/resident_mib")?;
    Some(results.number("clouds", "/resident_mib_all_services")? - plain)
}

/// What is shown.
const ROWS: &[(&str, &str)] = &[
    ("all applied after, s", "/applied_in_s"),
    ("all synced after, s", "/synced_in_s"),
    ("calls to AWS for each", "/calls_per_resource"),
    ("CPU s for 1,000", "/cpu_s_per_1000"),
    ("created to the first call about it, p50 ms", "/first_call_ms/p50"),
    ("created to the first call about it, p99 ms", "/first_call_ms/p99"),
    ("resident at the start, MiB", "/resident_mib_start"),
    ("resident with the models of all services, MiB", "/resident_mib_all_services"),
    ("resident with all control planes, MiB", "/resident_mib_before"),
    ("resident with all resources, MiB", "/resident_mib_with"),
    ("KiB for each resource", "/resident_kib_per_resource"),
];

/// The part of the page about them; nothing where they were not measured.
pub fn section(results: &Results) -> String {
    if results.number("clouds", "/resources").is_none() {
        return String::new();
    }
    let at = |pointer: &str| told(results.number("clouds", pointer));
    let mut page = format!(
        "\n## Cloud resources\n\n{} Buckets and Queues, applied in {} control planes with an account each, on a server with all {} \
         services of AWS. AWS is a loopback emulator in the load generator that answers at once, so the numbers are what the server \
         takes; emulators that behave like AWS are what the tests run against. The first call is timed from when the client has the \
         answer to its create. A server without clouds has {} MiB at its start.\n\n| | |\n|---|---:|\n",
        at("/resources"),
        at("/tenants"),
        at("/services"),
        told(results.number("no clouds", "/resident_mib"))
    );
    for (what, pointer) in ROWS {
        let _ = writeln!(page, "| {what} | {} |", at(pointer));
    }
    page
}
