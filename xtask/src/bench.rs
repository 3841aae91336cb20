//! `cargo xtask bench`: measures the server in one run and writes docs/benchmarks.md.
//!
//! The server is the release build on an empty data directory of its own, the load comes from benches/load, and the
//! engine is measured once more in a process of its own with very many tenants. [`page`] is the template: whatever
//! number stands in the document comes from the run, or is named there as the stock server's.

mod burst;
mod clouds;
mod database;
mod machine;
mod neighbours;
mod page;
mod remote;
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
    /// All stores, one after the other, each with its page
    #[arg(long, conflicts_with_all = ["store", "output"])]
    all: bool,
    /// The build to measure: another than release shows that everything works, and nothing else
    #[arg(long, default_value = "release", value_name = "NAME")]
    profile: String,
    /// Where to write the page [default: docs/benchmarks.md, or docs/benchmarks-STORE.md]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How much is measured.
struct Amounts {
    load: &'static [&'static str],
    /// In the engine alone.
    tenants: &'static [usize],
    /// On the whole server, with the embedded store and with others, which take longer to fill.
    existing: &'static [usize],
    existing_elsewhere: &'static [usize],
    /// Control planes that nobody uses.
    idle: usize,
    /// Control planes made at once.
    burst: usize,
    /// How long writes are measured with and without compaction, each.
    compaction_seconds: u64,
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
    ],
    tenants: &[1, 1_000, 10_000],
    existing: &[1, 100, 1_000, 10_000],
    existing_elsewhere: &[1, 100, 1_000],
    idle: 200,
    burst: 10_000,
    compaction_seconds: 30,
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
        "--churn",
        "50",
    ],
    tenants: &[1, 1_000],
    existing: &[1, 100],
    existing_elsewhere: &[1, 10],
    idle: 20,
    burst: 200,
    compaction_seconds: 5,
};

/// What a server is asked for in its life: memory that one measurement leaves behind is not counted in another.
const SITTINGS: [&[&str]; 3] =
    [&["objects", "lists", "watches", "definitions", "tenants"], &["planes"], &["churn"]];

/// All that was measured, by the name of the scenario.
struct Results {
    scenarios: BTreeMap<String, Value>,
    startup: Duration,
    machine: machine::Facts,
    store: Store,
    profile: String,
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
    let build = Build::make(&args.profile)?;
    let stores = if args.all { &Store::ALL[..] } else { &[args.store] };
    for store in stores {
        measure(args, &build, *store).with_context(|| format!("on {}", store.name()))?;
    }
    Ok(())
}

/// The programs that measure and are measured.
struct Build {
    target: PathBuf,
    /// Where this profile's are.
    programs: PathBuf,
    load: PathBuf,
}

impl Build {
    fn make(profile: &str) -> anyhow::Result<Build> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let load_target = target.join("load");
        let build = ["build", "--profile", profile];
        // In one go: built apart, the packages would want different features of what they share, and build it thrice.
        let packages = ["--package", "hangar", "--package", "apiserver", "--package", "terraform", "--bins"];
        let examples = ["compaction", "tenants", "cost", "shelf"].map(|example| ["--example", example]);
        cargo(&[&build[..], &packages, examples.as_flattened()].concat())?;
        let load = ["--manifest-path", "benches/load/Cargo.toml", "--target-dir"];
        run_command(Command::new("cargo").args(build).args(load).arg(&load_target))?;
        // Cargo's own name for where it puts this one.
        let directory = if profile == "dev" { "debug" } else { profile };
        let load = load_target.join(directory).join("load");
        Ok(Build { programs: target.join(directory), target, load })
    }
}

fn measure(args: &Args, build: &Build, store: Store) -> anyhow::Result<()> {
    let amounts = if args.quick { QUICK } else { FULL };
    // Beside the build, and so on a disk: temporary directories often are in memory, where syncing costs nothing.
    let scratch = tempfile::tempdir_in(&build.target)?;
    let facts = machine::Facts::gather(scratch.path())?;
    let hangar = build.programs.join("hangar");
    let (scenarios, profile) = (BTreeMap::new(), args.profile.clone());
    let mut results = Results { scenarios, startup: Duration::ZERO, machine: facts, store, profile };

    let existing = if store == Store::Embedded { amounts.existing } else { amounts.existing_elsewhere };
    for (number, scenarios) in SITTINGS.iter().enumerate() {
        // Each begins anew: what one leaves behind to be removed is not to be felt by the next.
        let (data, database) = (scratch.path().join(format!("data-{number}")), Database::start(store));
        let (server, startup) = Server::start(&hangar, &data, database.url())?;
        let measured = scratch.path().join(format!("measured-{number}.json"));
        let mut load = Command::new(&build.load);
        load.arg("--kubeconfig").arg(&server.kubeconfig).arg("--pid").arg(server.child.id().to_string());
        let levels: Vec<String> = existing.iter().map(usize::to_string).collect();
        load.arg("--json").arg(&measured).args(amounts.load).args(["--existing", &levels.join(",")]);
        run_command(load.args(*scenarios))?;
        results.add(&std::fs::read_to_string(&measured)?)?;
        if number == 0 {
            results.startup = startup;
            if let Some(idle) = remote::idle(&hangar, &server, &database, amounts.idle, scratch.path())? {
                results.add(&idle.to_string())?;
            }
        }
        server.stop()?;
    }

    let database = Database::start(store);
    let scale = if args.quick { neighbours::QUICK_SCALE } else { 1 };
    results.add(&neighbours::measure(&hangar, &build.load, &database, scale, scratch.path())?)?;
    drop(database);

    let database = Database::start(store);
    let mut compaction = Command::new(build.programs.join("examples/compaction"));
    compaction.arg(database.url().unwrap_or_else(|| scratch.path().join("compaction").display().to_string()));
    results.add(&output_of(compaction.arg(amounts.compaction_seconds.to_string()))?)?;
    drop(database);

    // The engine alone is always on the embedded store.
    let tenants = if store == Store::Embedded { amounts.tenants } else { &[] };
    for count in tenants {
        let mut engine = Command::new(build.programs.join("examples/tenants"));
        engine.arg(scratch.path().join(format!("engine-{count}"))).arg(count.to_string());
        results.add(&output_of(&mut engine)?)?;
    }
    if store == Store::Embedded {
        results.add(&burst::measure(&hangar, &build.load, amounts.burst, scratch.path())?)?;
        let amounts = if args.quick { terraform::QUICK } else { terraform::FULL };
        let lines = terraform::measure(&build.programs, amounts)?;
        print!("{lines}");
        results.add(&lines)?;
        let amounts = if args.quick { clouds::QUICK } else { clouds::FULL };
        results.add(&clouds::measure(build, amounts, scratch.path())?)?;
    }
    let quick = if args.quick { " --quick" } else { "" };
    let command = format!("cargo xtask bench{quick}{}", store.option());
    let page = page::write(&results, &command, tenants, existing)
        + &neighbours::section(&results)
        + &burst::section(&results)
        + &clouds::section(&results)
        + &terraform::section(&results);
    let output = args.output.clone().unwrap_or_else(|| store.page().into());
    std::fs::write(&output, page).with_context(|| format!("cannot write {}", output.display()))?;
    println!("\nwritten: {}", output.display());
    Ok(())
}

/// What a program prints, which is also shown.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let lines = String::from_utf8(output.stdout)?;
    print!("{lines}");
    Ok(lines)
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
        Server::start_with(program, data, store, &[])
    }

    /// The same with more flags.
    fn start_with(
        program: &Path,
        data: &Path,
        store: Option<String>,
        flags: &[&str],
    ) -> anyhow::Result<(Server, Duration)> {
        let began = Instant::now();
        let mut command = Command::new(program);
        command
            .args(["up", "--listen", "127.0.0.1:0", "--log-level", "warn", "--data-dir"])
            .arg(data)
            .args(flags);
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
