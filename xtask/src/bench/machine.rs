//! The machine that is measured on, and what exactly is measured.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

pub struct Facts {
    pub processor: String,
    pub cores: usize,
    pub memory_gib: f64,
    pub kernel: String,
    /// Milliseconds to make 4 KiB durable: median and the slowest of a hundred.
    pub sync_ms: (f64, f64),
    /// What else the machine was doing when the run began.
    pub load_average: String,
    pub commit: String,
    pub date: String,
    pub compiler: String,
}

impl Facts {
    /// `directory` is where the server's data will be.
    pub fn gather(directory: &Path) -> anyhow::Result<Facts> {
        let changed = !output("git", &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let commit = output("git", &["rev-parse", "--short", "HEAD"])?;
        Ok(Facts {
            processor: field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: memory_kib()? / 1024.0 / 1024.0,
            kernel: output("uname", &["-sr"])?,
            sync_ms: sync_ms(directory)?,
            load_average: std::fs::read_to_string("/proc/loadavg")?.split(' ').take(1).collect(),
            commit: if changed { format!("{commit} with uncommitted changes") } else { commit },
            date: output("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
            compiler: output("rustc", &["--version"])?,
        })
    }
}

fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    anyhow::ensure!(output.status.success(), "{program} {arguments:?} failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The first line of this name, in files of lines like `name : value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_kib() -> anyhow::Result<f64> {
    let total = field("/proc/meminfo", "MemTotal").context("/proc/meminfo has no total")?;
    total.split(' ').next().unwrap_or_default().parse().context("/proc/meminfo has no number")
}

fn sync_ms(directory: &Path) -> anyhow::Result<(f64, f64)> {
    const TIMES: usize = 100;
    let mut file = File::create(directory.join("sync"))?;
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_unstable_by(f64::total_cmp);
    Ok((took[TIMES / 2], took[TIMES - 1]))
}
