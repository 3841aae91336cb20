//! `cargo xtask bench`: measures the server in one run and writes docs/benchmarks.md.
//!
//! The server is the release build on an empty data directory of its own, the load comes from benches/load, and the
//! engine is measured once more in a process of its own with very many tenants. [`page`] is the template: whatever
//! number stands in the document comes from the run, or is named there as the stock server's.

mod database;
mod machine;
mod page;
mod terraform;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use database::{Database, Store};
use serde_json::Value;

#[derive(clap::Args)]
pub struct Args {
    /// Fewer operations and tenants: to see that everything works, and roughly where things stand
    #[arg(long)]
    quick: bool,
    /// What the server stores in; a database keeps its files in $TMPDIR, which should be on a disk
    #[arg(long, default_value = "embedded")]
    store: Store,
    /// Where to write the page [default: docs/benchmarks.md, or docs/benchmarks-STORE.md]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How much is measured.
struct Amounts {
    load: &'static [&'static str],
    /// In the engine alone.
    tenants: &'static [usize],
    /// On the whole server; the same as the load is told.
    existing: &'static [usize],
}

const FULL: Amounts = Amounts {
    load: &[
        "--operations",
        "3000",
        "--rounds",
        "5",
        "--events",
        "100",
        "--definitions",
        "20",
        "--tenants",
        "300",
        "--existing",
        "1,100,1000,10000",
    ],
    tenants: &[1, 1_000, 10_000],
    existing: &[1, 100, 1_000, 10_000],
};
const QUICK: Amounts = Amounts {
    load: &[
        "--operations",
        "1000",
        "--rounds",
        "3",
        "--events",
        "25",
        "--definitions",
        "5",
        "--tenants",
        "50",
        "--existing",
        "1,100",
    ],
    tenants: &[1, 1_000],
    existing: &[1, 100],
};

/// All that was measured, by the name of the scenario.
struct Results {
    scenarios: BTreeMap<String, Value>,
    startup: Duration,
    machine: machine::Facts,
    store: Store,
}

impl Results {
    /// One number of a scenario, by its path in the scenario's line.
    fn number(&self, scenario: &str, pointer: &str) -> Option<f64> {
        self.scenarios.get(scenario)?.pointer(pointer)?.as_f64()
    }

    fn add(&mut self, lines: &str) -> anyhow::Result<()> {
        for line in lines.lines() {
            let line: Value =
                serde_json::from_str(line).with_context(|| format!("not a measurement: {line}"))?;
            let scenario = line["scenario"].as_str().context("a measurement without a name")?.to_owned();
            self.scenarios.insert(scenario, line);
        }
        Ok(())
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let amounts = if args.quick { QUICK } else { FULL };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let load_target = target.join("load");
    cargo(&["build", "--release", "--package", "hangar"])?;
    cargo(&["build", "--release", "--package", "apiserver", "--example", "tenants"])?;
    cargo(&["build", "--release", "--package", "terraform", "--example", "cost", "--example", "shelf"])?;
    let load = ["build", "--release", "--manifest-path", "benches/load/Cargo.toml", "--target-dir"];
    run_command(Command::new("cargo").args(load).arg(&load_target))?;

    // Beside the build, and so on a disk: temporary directories often are in memory, where syncing costs nothing.
    let scratch = tempfile::tempdir_in(&target)?;
    let facts = machine::Facts::gather(scratch.path())?;
    let database = Database::start(args.store);
    let (server, startup) =
        Server::start(&target.join("release/hangar"), &scratch.path().join("data"), database.url())?;
    let mut results = Results { scenarios: BTreeMap::new(), startup, machine: facts, store: args.store };

    let measured = scratch.path().join("measured.json");
    let mut load = Command::new(load_target.join("release/load"));
    load.arg("--kubeconfig").arg(&server.kubeconfig).arg("--pid").arg(server.child.id().to_string());
    run_command(load.arg("--json").arg(&measured).args(amounts.load))?;
    results.add(&std::fs::read_to_string(&measured)?)?;
    server.stop()?;
    drop(database);

    // The engine alone is always on the embedded store.
    let tenants = if args.store == Store::Embedded { amounts.tenants } else { &[] };
    for count in tenants {
        let mut engine = Command::new(target.join("release/examples/tenants"));
        let output =
            engine.arg(scratch.path().join(format!("engine-{count}"))).arg(count.to_string()).output()?;
        if !output.status.success() {
            bail!("{engine:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let lines = String::from_utf8(output.stdout)?;
        print!("{lines}");
        results.add(&lines)?;
    }
    if args.store == Store::Embedded {
        let amounts = if args.quick { terraform::QUICK } else { terraform::FULL };
        let lines = terraform::measure(&target.join("release"), amounts)?;
        print!("{lines}");
        results.add(&lines)?;
    }
    let quick = if args.quick { " --quick" } else { "" };
    let command = format!("cargo xtask bench{quick}{}", args.store.option());
    let page = page::write(&results, &command, tenants, amounts.existing) + &terraform::section(&results);
    let output = args.output.clone().unwrap_or_else(|| args.store.page().into());
    std::fs::write(&output, page).with_context(|| format!("cannot write {}", output.display()))?;
    println!("\nwritten: {}", output.display());
    Ok(())
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ cargo {}", arguments.join(" "));
    run_command(Command::new("cargo").args(arguments))
}

fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// The server under test; it goes when this does.
struct Server {
    child: Child,
    kubeconfig: PathBuf,
}

impl Server {
    /// Also tells how long it took until the server said that it is up.
    fn start(program: &Path, data: &Path, store: Option<String>) -> anyhow::Result<(Server, Duration)> {
        let began = Instant::now();
        let mut command = Command::new(program);
        command.args(["up", "--listen", "127.0.0.1:0", "--log-level", "warn", "--data-dir"]).arg(data);
        command.envs(store.map(|url| ("HANGAR_STORE", url)));
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("the server has no standard output")?;
        let server = Server { child, kubeconfig: data.join("kubeconfig") };
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said)?;
        anyhow::ensure!(said.contains("is up"), "the server did not start");
        Ok((server, began.elapsed()))
    }

    /// Stops it as an operator would, and sees that it ends well.
    fn stop(mut self) -> anyhow::Result<()> {
        run_command(Command::new("kill").arg(self.child.id().to_string()))?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the server did not end well: {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to do about a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
