//! A load generator for Kubernetes API servers: a kubeconfig in, measurements out.
//!
//! Any server that speaks HTTPS, HTTP/2 and JSON will do. Workers send their next request when the last one is
//! answered (a closed loop), so a slow server is asked less, not buried. The figure to compare between servers and
//! between machines that are busy with other things is the server's CPU time per 1,000 operations: name its process
//! with `--pid`. Everything is measured in rounds, and the median of the rounds is told.
//!
//! [`scenarios`] is the table of what can be measured; [`work`] is the loop; [`report`] what comes out: a line for
//! people on standard output, and one of JSON for `cargo xtask bench`. A scenario of which one request fails has no
//! result: the program ends with the server's words.

mod emulator;
mod process;
mod report;
mod scenarios;
mod statistics;
mod target;
mod work;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;

use process::Process;
use report::Report;
use scenarios::{SCENARIOS, Session};
use target::Target;

#[derive(Parser)]
#[command(about = "Puts load on a Kubernetes API server and measures what it costs")]
pub struct Settings {
    /// Whom to ask, and as whom: the current context of this file
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// The server's process, on this machine: its CPU time and memory are measured
    #[arg(long)]
    pid: u32,
    /// Append one line of JSON for each measurement to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Operations in each round of the scenarios about single objects
    #[arg(long, default_value_t = 2_000)]
    operations: usize,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Requests under way at once
    #[arg(long, default_value_t = 16)]
    workers: usize,
    /// Connections that workers share
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Bytes in each object; with metadata and managed fields, 512 make objects of about 1 kB
    #[arg(long, default_value_t = 512)]
    payload: usize,
    /// Objects in the collection that is listed
    #[arg(long, default_value_t = 10_000)]
    collection: usize,
    /// Watchers of one collection; several numbers are measured one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000])]
    watchers: Vec<usize>,
    /// Events that each watcher receives
    #[arg(long, default_value_t = 100)]
    events: usize,
    /// Clients that create, update and delete while as many watch; several numbers are measured one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [50, 200, 1_000])]
    churn: Vec<usize>,
    /// How many events a second these watchers are to receive together, which says how fast the clients write; they
    /// are measured once more without a pace
    #[arg(long, default_value_t = 50_000)]
    churn_deliveries: usize,
    /// Definitions of custom resources to make
    #[arg(long, default_value_t = 10)]
    definitions: usize,
    /// Control planes to make
    #[arg(long, default_value_t = 200)]
    tenants: usize,
    /// Divides the clients and the objects of the floods that a quiet control plane is measured beside
    #[arg(long, default_value_t = 1)]
    neighbour_scale: usize,
    /// Control planes that are there while one more is made; several numbers are measured one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 1_000])]
    existing: Vec<usize>,
    /// Control planes to make at once
    #[arg(long, default_value_t = 1_000)]
    burst: usize,
    /// Where the server under test looks for AWS on this machine: the emulator listens there
    #[arg(long, value_name = "PORT")]
    aws_port: Option<u16>,
    /// Buckets and queues to make, in all control planes together
    #[arg(long, default_value_t = 1_000)]
    resources: usize,
    /// What to measure, in this order; all of it if nothing is named
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(SCENARIOS.iter().map(|scenario| scenario.name)))]
    scenarios: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let settings = Settings::parse();
    // One thread: on a small machine the client must not take the cores that the server is measured on.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async move { tokio::spawn(measure(settings)).await? })
}

async fn measure(settings: Settings) -> anyhow::Result<()> {
    let target = Arc::new(Target::load(&settings.kubeconfig)?);
    let server = Process::new(settings.pid)?;
    let report = Report::new(settings.json.as_deref(), server)?;
    let session = Session::open(target, settings, report).await?;
    for scenario in SCENARIOS {
        let asked = &session.settings.scenarios;
        if asked.is_empty() || asked.iter().any(|name| name == scenario.name) {
            (scenario.run)(&session).await.with_context(|| format!("scenario {}", scenario.name))?;
        }
    }
    session.leave().await
}
