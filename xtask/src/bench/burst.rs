//! Very many control planes at once, the server with them after a restart, and the disk with and without them.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::page::told;
use super::{Results, Server, run_command};

/// What a server may still do after its start, and how long it is looked at then.
const STARTING: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(10);
/// Files shrink when nobody writes, in steps; history is kept for ten minutes. A quick look does not wait for that.
const SHRINKING: Duration = Duration::from_secs(720);
const SHRINKING_A_LITTLE: Duration = Duration::from_secs(20);
const MANY: usize = 1_000;

/// Lines as the load generator writes them.
pub fn measure(hangar: &Path, load: &Path, count: usize, scratch: &Path) -> anyhow::Result<String> {
    let (data, measured) = (scratch.join("data-burst"), scratch.join("measured-burst.json"));
    let run = |server: &Server, scenario: &str| {
        let mut load = Command::new(load);
        load.arg("--kubeconfig").arg(&server.kubeconfig).arg("--pid").arg(server.child.id().to_string());
        load.arg("--json").arg(&measured).args(["--burst", &count.to_string(), "--connections", "16"]);
        run_command(load.arg(scenario))
    };
    let (server, _) = Server::start(hangar, &data, None)?;
    let empty = size_of(&data)?;
    run(&server, "burst")?;
    server.stop()?;
    let full = size_of(&data)?;

    let (server, startup) = Server::start(hangar, &data, None)?;
    let id = server.child.id();
    std::thread::sleep(STARTING);
    let starting = cpu_seconds(id)?;
    std::thread::sleep(WINDOW);
    let idle = cpu_seconds(id)? - starting;
    let resident = resident_kib(id)?;
    run(&server, "burst-after")?;
    std::thread::sleep(if count < MANY { SHRINKING_A_LITTLE } else { SHRINKING });
    let deleted = size_of(&data)?;
    server.stop()?;

    let disk = json!({
        "scenario": "burst, restart",
        "up_after_ms": startup.as_secs_f64() * 1e3,
        "cpu_s": starting,
        "idle_cpu_s": idle,
        "resident_mib": resident as f64 / 1024.0,
        "disk_mib_before": mib(empty),
        "disk_mib_with": mib(full),
        "disk_kib_per_control_plane": full.saturating_sub(empty) as f64 / 1024.0 / count.max(1) as f64,
        "disk_mib_after": mib(deleted),
        "disk_left_percent": deleted as f64 * 100.0 / full.max(1) as f64,
    });
    println!("{disk}");
    Ok(std::fs::read_to_string(&measured)? + &disk.to_string() + "\n")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

fn size_of(directory: &Path) -> anyhow::Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += if metadata.is_dir() { size_of(&entry.path())? } else { metadata.len() };
    }
    Ok(size)
}

/// User and system time of a process since it began; Linux counts it in hundredths of a second.
fn cpu_seconds(process: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    Ok(fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

fn resident_kib(process: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).context("a process has no VmRSS")
}

/// What is shown: a row for each number.
const ROWS: &[(&str, &str, &str)] = &[
    ("all accepted after, s", "burst", "/accepted_in_s"),
    ("all Ready after, s", "burst", "/made_in_s"),
    ("made, per second", "burst", "/made_per_second"),
    ("CPU s for 1,000 made", "burst", "/cpu_s_per_1000"),
    ("CPU s in the 10 s after the last was Ready", "burst", "/cpu_s_settling"),
    ("CPU s in the 10 s after those", "burst", "/idle_cpu_s"),
    ("resident before, MiB", "burst", "/resident_mib_before"),
    ("resident with all of them, MiB", "burst", "/resident_mib_with"),
    ("start to \"is up\" with all of them, ms", "burst, restart", "/up_after_ms"),
    ("CPU s in the 10 s after a restart", "burst, restart", "/cpu_s"),
    ("CPU s in the 10 s after those", "burst, restart", "/idle_cpu_s"),
    ("resident 20 s after a restart, MiB", "burst, restart", "/resident_mib"),
    ("deleted, per second", "burst-after", "/deleted_per_second"),
    ("CPU s for 1,000 deleted", "burst-after", "/cpu_s_per_1000"),
    ("data directory before, MiB", "burst, restart", "/disk_mib_before"),
    ("data directory with all of them, MiB", "burst, restart", "/disk_mib_with"),
    ("data directory twelve minutes after their deletion, MiB", "burst, restart", "/disk_mib_after"),
];

pub fn section(results: &Results) -> String {
    let mut page = String::new();
    if !results.scenarios.contains_key("burst") {
        return page;
    }
    let count = told(results.number("burst", "/control_planes"));
    // A string takes whatever is written.
    let _ = writeln!(
        page,
        "\n## A burst of control planes\n\n{count} `ControlPlane`s are created, 64 at a time, without waiting for any; the server is \
         restarted with all of them, and they are deleted.\n\n| | |\n|---|---:|"
    );
    for (what, scenario, pointer) in ROWS {
        let _ = writeln!(page, "| {what} | {} |", told(results.number(scenario, pointer)));
    }
    page
}
