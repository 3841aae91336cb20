//! Flags of what clients may take of the server.

use std::path::Path;

use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// More than one machine is likely to serve, and below what its sockets take of memory.
const MAX_CONNECTIONS: usize = 100_000;
/// Where the system does not tell how much memory there is.
const DEFAULT_REQUEST_MEMORY: usize = 1 << 30;
/// The largest body, and what is made of it, has to fit.
const MIN_REQUEST_MEMORY: usize = 64 << 20;

#[derive(Args, Clone, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitOptions {
    /// Connections of clients at most; the limit of open files, less a reserve, counts too [default: 100000]
    #[arg(long, value_name = "N", env = "HANGAR_MAX_CONNECTIONS")]
    pub max_connections: Option<usize>,
    /// Connections from one source address at most, such as a load balancer's [default: half of all]
    #[arg(long, value_name = "N", env = "HANGAR_MAX_CONNECTIONS_PER_ADDRESS")]
    pub max_connections_per_address: Option<usize>,
    /// Memory for bodies, objects and answers of requests in flight, in MiB [default: a quarter of what the process may use]
    #[arg(long, value_name = "MIB", env = "HANGAR_REQUEST_MEMORY")]
    pub request_memory: Option<usize>,
}

impl LimitOptions {
    /// These, and where they say nothing, the others.
    pub fn over(self, other: LimitOptions) -> LimitOptions {
        LimitOptions {
            max_connections: self.max_connections.or(other.max_connections),
            max_connections_per_address: self
                .max_connections_per_address
                .or(other.max_connections_per_address),
            request_memory: self.request_memory.or(other.request_memory),
        }
    }

    pub fn requests(&self) -> apiserver::Limits {
        let memory = match self.request_memory {
            Some(mebibytes) => mebibytes.saturating_mul(1 << 20),
            None => usable_memory().map_or(DEFAULT_REQUEST_MEMORY, |bytes| bytes / 4),
        };
        apiserver::Limits { memory: memory.max(MIN_REQUEST_MEMORY), ..apiserver::Limits::default() }
    }

    pub fn connections(&self) -> listener::Limits {
        let mut limits =
            listener::Limits::within_open_files(self.max_connections.unwrap_or(MAX_CONNECTIONS).max(1));
        if let Some(most) = self.max_connections_per_address {
            limits.max_per_address = most.clamp(1, limits.max_connections);
        }
        limits
    }
}

/// The memory that this process may use: the least of the machine's, its control groups' and its own limits.
fn usable_memory() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let machine = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of_process = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    let group = |path: &Path| std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok();
    let bytes =
        of_process.into_iter().flatten().chain(of_machine(&machine)).chain(of_groups(&groups, group)).min();
    bytes.and_then(|bytes| usize::try_from(bytes).ok())
}

/// The memory of the machine, from `/proc/meminfo`.
fn of_machine(text: &str) -> Option<u64> {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse().ok().map(|kibibytes: u64| kibibytes << 10)
}

/// The least limit of the control groups, of version 2, that the process is in, from `/proc/self/cgroup`.
fn of_groups(text: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limits = Path::new(own).ancestors().map(|group| read(&group.join("memory.max")));
    limits.filter_map(|limit| limit?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_machine_and_groups() {
        assert_eq!(of_machine("MemTotal:       16384 kB\nMemFree:  1 kB\n"), Some(16 << 20));
        assert_eq!(of_machine(""), None);
        let read = |path: &Path| match path.to_str()? {
            "a.slice/b.service/memory.max" => Some("max\n".to_owned()),
            "a.slice/memory.max" => Some("536870912\n".to_owned()),
            "memory.max" => Some("1073741824\n".to_owned()),
            _ => None,
        };
        assert_eq!(of_groups("0::/a.slice/b.service\n", read), Some(512 << 20));
        assert_eq!(of_groups("0::/\n", read), Some(1 << 30));
        assert_eq!(of_groups("3:memory:/x\n", read), None);
    }
}
