//! What comes out: one line for each measurement, and the same as JSON.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use serde_json::{Map, Value, json};

use crate::process::Process;
use crate::statistics::{median, rounded};
use crate::work::Done;

/// Where measurements go, and whose process they are about.
pub struct Report {
    json: Option<Mutex<File>>,
    pub server: Process,
}

/// The rounds of one measurement, while they are being done.
pub struct Measurement<'a> {
    report: &'a Report,
    scenario: String,
    done: Done,
    server_cpu: Vec<f64>,
    client_cpu: Vec<f64>,
    details: Map<String, Value>,
}

/// CPU times at the beginning of a round.
pub struct Began {
    server: f64,
    client: f64,
}

impl Report {
    pub fn new(json: Option<&Path>, server: Process) -> anyhow::Result<Report> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map(Mutex::new).with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Report { json: json.map(open).transpose()?, server })
    }

    pub fn measurement(&self, scenario: impl Into<String>) -> Measurement<'_> {
        Measurement {
            report: self,
            scenario: scenario.into(),
            done: Done::default(),
            server_cpu: Vec::new(),
            client_cpu: Vec::new(),
            details: Map::new(),
        }
    }

    pub fn begin(&self) -> anyhow::Result<Began> {
        Ok(Began { server: self.server.cpu_seconds()?, client: Process::own().cpu_seconds()? })
    }

    /// A measurement that consists of nothing but its details.
    pub fn tell(&self, scenario: &str, details: Value) -> anyhow::Result<()> {
        println!("{scenario:<26} {details}");
        let mut line = json!({"scenario": scenario});
        if let (Some(line), Value::Object(details)) = (line.as_object_mut(), details) {
            line.extend(details);
        }
        self.write(&line)
    }

    fn write(&self, line: &Value) -> anyhow::Result<()> {
        if let Some(file) = &self.json {
            let mut file = file.lock().map_err(|_| anyhow::anyhow!("a writer of results panicked"))?;
            writeln!(file, "{line}")?;
        }
        Ok(())
    }
}

impl Measurement<'_> {
    /// Adds a round that began with these CPU times.
    pub fn add(&mut self, began: &Began, done: Done) -> anyhow::Result<()> {
        let thousands = done.operations.max(1) as f64 / 1_000.0;
        let now = self.report.begin()?;
        self.server_cpu.push(rounded((now.server - began.server) / thousands));
        self.client_cpu.push(rounded((now.client - began.client) / thousands));
        self.done.merge(done);
        Ok(())
    }

    pub fn detail(&mut self, name: &str, value: impl Into<Value>) {
        self.details.insert(name.to_owned(), value.into());
    }

    pub fn tell(mut self) -> anyhow::Result<()> {
        let Done { operations, took, latencies, bytes } = &mut self.done;
        let per_second = rounded(*operations as f64 / took.as_secs_f64());
        let (server_cpu, client_cpu) = (median(&self.server_cpu), median(&self.client_cpu));
        let resident = rounded(self.report.server.resident_kib()? as f64 / 1024.0);
        let latency = latencies.summary();
        println!(
            "{:<26} {operations:>6} operations {per_second:>9.1}/s  p50 {:>8.2} p99 {:>8.2} ms  \
             {:>8.4} CPU s per 1,000 {:?}  client {:.4}  {resident:.0} MiB",
            self.scenario,
            latency["p50"].as_f64().unwrap_or_default(),
            latency["p99"].as_f64().unwrap_or_default(),
            server_cpu.unwrap_or_default(),
            self.server_cpu,
            client_cpu.unwrap_or_default(),
        );
        let line = json!({
            "scenario": self.scenario,
            "operations": *operations,
            "operations_per_second": per_second,
            "latency_ms": latency,
            "cpu_s_per_1000": server_cpu,
            "cpu_s_per_1000_of_rounds": self.server_cpu,
            "client_cpu_s_per_1000": client_cpu,
            "bytes_per_answer": *bytes / (*operations).max(1),
            "resident_mib": resident,
            "details": self.details,
        });
        self.report.write(&line)
    }
}
