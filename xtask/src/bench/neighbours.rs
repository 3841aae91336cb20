//! A quiet control plane beside one that floods the server.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::database::Database;
use super::page::told;
use super::{Results, Server, run_command};

/// The p99 of the quiet control plane beside a flood, as a multiple of its undisturbed value in the same run.
const GOAL: f64 = 5.0;

/// What its user does, by the name of the measurement.
const FLOODS: [(&str, &str); 7] = [
    ("neighbour a", "20 clients write objects of 3 MiB (dry runs)"),
    ("neighbour b", "64 lists of 100 MB that nobody reads"),
    ("neighbour c", "600 bodies that do not end"),
    ("neighbour d", "10,000 watches, a hundred of them from the beginning, again and again"),
    ("neighbour e", "16 clients run CEL with regular expressions, 16 list with selectors of 9,000 values"),
    ("neighbour f", "32 clients list 20,000 objects, by label and as tables"),
    ("neighbour g", "100 clients wait for a conversion webhook that hangs"),
];

/// Divides clients and objects in a quick look.
pub const QUICK_SCALE: usize = 10;

/// Lines as the load generator writes them.
pub fn measure(
    hangar: &Path,
    load: &Path,
    database: &Database,
    scale: usize,
    scratch: &Path,
) -> anyhow::Result<String> {
    let (data, measured) = (scratch.join("data-neighbours"), scratch.join("measured-neighbours.json"));
    // The webhook that hangs is on this machine.
    let flags = ["--egress-allow", "127.0.0.1/32"];
    let (server, _) = Server::start_with(hangar, &data, database.url(), &flags)?;
    let mut load = Command::new(load);
    load.arg("--kubeconfig").arg(&server.kubeconfig).arg("--pid").arg(server.child.id().to_string());
    load.arg("--json").arg(&measured).args(["--neighbour-scale", &scale.to_string(), "neighbours"]);
    run_command(&mut load)?;
    server.stop()?;
    Ok(std::fs::read_to_string(&measured)?)
}

pub fn section(results: &Results) -> String {
    let mut page = String::new();
    // A string takes whatever is written.
    let _ = writeln!(
        page,
        "\n## A noisy neighbour\n\nA quiet control plane reads and writes small objects, one request after the other. Beside it a user of \
         another one, who is not its administrator, floods the server. All requests of the quiet control plane succeed, and the \
         administrator of the other one logs in, creates and deletes meanwhile; otherwise there is no result. Times in ms. Goal: a p99 \
         of at most {GOAL} times the undisturbed one.\n\n\
         | flood | p50 | p99 | p50 beside it | p99 beside it | times | goal | answers 429 | resident, MiB |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for (name, what) in FLOODS {
        let number = |pointer| told(results.number(name, pointer));
        let _ = writeln!(
            page,
            "| {what} | {} | {} | {} | {} | {} | {GOAL} | {} | {} |",
            number("/undisturbed_ms/p50"),
            number("/undisturbed_ms/p99"),
            number("/beside_ms/p50"),
            number("/beside_ms/p99"),
            number("/p99_ratio"),
            told(Some(results.number(name, "/answers/429").unwrap_or_default())),
            number("/peak_resident_mib"),
        );
    }
    page
}
