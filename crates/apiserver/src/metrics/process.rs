//! The process as the operating system sees it, read when asked. Nothing where there is no `/proc`.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::count;

/// What `/proc` counts time in; the same on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(seen) = Seen::now() else { return Ok(()) };
        let help = "User and system CPU time spent, in seconds";
        let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        count(metric, &seen.cpu_seconds)?;
        for (name, help, value) in [
            ("process_open_fds", "Open file descriptors", seen.open_files),
            ("process_max_fds", "How many file descriptors may be open", seen.max_files),
            ("process_resident_memory_bytes", "Resident memory", seen.resident_bytes),
            ("process_virtual_memory_bytes", "Virtual memory", seen.virtual_bytes),
            ("process_threads", "Threads of the operating system", seen.threads),
            ("process_start_time_seconds", "Start of the process, in seconds since 1970", seen.started),
        ] {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

struct Seen {
    cpu_seconds: f64,
    open_files: f64,
    max_files: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    threads: f64,
    started: f64,
}

impl Seen {
    fn now() -> Option<Seen> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program, in parentheses, may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // Numbered from 1 in proc(5), and the first two are before the parenthesis.
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let booted = fs::read_to_string("/proc/stat").ok()?;
        Some(Seen {
            cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count() as f64,
            max_files: after(&limits, "Max open files").unwrap_or(f64::INFINITY),
            resident_bytes: after(&status, "VmRSS:")? * 1_024.0,
            virtual_bytes: after(&status, "VmSize:")? * 1_024.0,
            threads: after(&status, "Threads:")?,
            started: after(&booted, "btime ")? + ticks(22)? / TICKS_PER_SECOND,
        })
    }
}

/// The number that follows a word at the beginning of a line.
fn after(text: &str, word: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_seen() {
        let seen = Seen::now().unwrap();
        assert!(seen.resident_bytes > 1e6 && seen.virtual_bytes >= seen.resident_bytes);
        assert!(seen.open_files >= 3.0 && seen.max_files >= seen.open_files && seen.threads >= 1.0);
        let now = jiff::Timestamp::now().as_second() as f64;
        assert!(seen.started <= now + 1.0 && seen.started > now - 7.0 * 86_400.0, "{}", seen.started);
    }
}
