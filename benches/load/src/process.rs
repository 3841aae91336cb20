//! What the server's process has used, as Linux tells it.

use std::time::Duration;

use anyhow::Context;

/// Linux counts the CPU time of processes in hundredths of a second, whatever its own clock.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy)]
pub struct Process {
    id: u32,
}

impl Process {
    /// Fails for a process that is not there.
    pub fn new(id: u32) -> anyhow::Result<Process> {
        let process = Process { id };
        process.cpu_seconds()?;
        Ok(process)
    }

    pub fn own() -> Process {
        Process { id: std::process::id() }
    }

    /// User and system time of all threads since the process began.
    pub fn cpu_seconds(self) -> anyhow::Result<f64> {
        let text = self.read("stat")?;
        // The second field is the program's name in parentheses, and may hold anything.
        let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
        let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        anyhow::ensure!(ticks.len() == 2, "/proc/{}/stat has no CPU times", self.id);
        Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
    }

    /// Memory that the process really has, in KiB.
    pub fn resident_kib(self) -> anyhow::Result<u64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let amount = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        amount.with_context(|| format!("/proc/{}/status has no VmRSS", self.id))
    }

    /// CPU time that the process takes while nobody asks anything of it.
    pub async fn idle_cpu_seconds(self, during: Duration) -> anyhow::Result<f64> {
        let before = self.cpu_seconds()?;
        tokio::time::sleep(during).await;
        Ok(self.cpu_seconds()? - before)
    }

    fn read(self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.id);
        std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {path}: is the server still running?"))
    }
}
