//! What is to be run, and what it may see. The server sends it to the launcher.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The temporary directory of a sandbox, as the program sees it.
pub const TEMPORARY: &str = "/tmp";
/// Where the program is, if no directory that it is in is shared.
pub(crate) const PROGRAM: &str = "/program";
/// User and group inside.
pub(crate) const INSIDE: u32 = 1000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// On this machine. Inside it has another path, unless it is in a shared directory.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// All of the environment.
    pub environment: Vec<(String, String)>,
    /// The working directory, as the program sees it.
    pub directory: PathBuf,
    pub shares: Vec<Share>,
    pub trees: Trees,
    /// Never visible, also where a shared directory contains it.
    pub hidden: Vec<PathBuf>,
    /// Whether there is a network at all.
    pub network: bool,
    pub limits: Limits,
}

/// A file or directory of this machine that the program sees under the same path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    pub path: PathBuf,
    pub writable: bool,
}

/// What of the operating system is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trees {
    /// Libraries, if the program needs a loader.
    Libraries,
    /// All programs of the system, for one that runs others.
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Private memory that can be written, in bytes.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
    pub open_files: u64,
    /// Of one file, in bytes.
    pub file_size: u64,
    /// Of the temporary directory, in bytes.
    pub temporary: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 4 << 30,
            processes: 512,
            open_files: 4_096,
            file_size: 256 << 20,
            temporary: 256 << 20,
        }
    }
}

/// What the launcher is told to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub spec: Spec,
    /// Without it the program runs as we do, with resource limits only.
    pub isolate: bool,
    /// Everything is set up, and nothing is run.
    pub probe: bool,
    /// Lines of `/etc/resolv.conf` besides the nameserver.
    pub resolver: String,
}

/// From the server to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Run(Box<Job>),
    /// The user and group of the new namespace have been mapped.
    Mapped,
    /// For a connection to a server in the sandbox.
    Connect(std::net::SocketAddr),
}

/// From the launcher to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// In a new user namespace without any users.
    Unshared,
    /// With the temporary directory, and the sockets of the network if there is no error.
    Prepared {
        network: Result<(), String>,
    },
    /// The program runs.
    Started {
        landlock: bool,
    },
    /// With the socket.
    Connected(Result<(), String>),
    Failed(Failure),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub what: String,
    /// Of the system, when the program itself cannot be started.
    pub code: Option<i32>,
}

impl Failure {
    pub fn of(what: &str, error: impl std::fmt::Display) -> Failure {
        Failure { what: format!("{what}: {error}"), code: None }
    }
}

/// From the launcher to the first process of the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Inner {
    pub program: PathBuf,
    pub job: Job,
    /// Where the new root is mounted, if there is one.
    pub root: Option<PathBuf>,
    /// Paths inside that may be executed.
    pub executable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InnerOrder {
    Become(Box<Inner>),
    Go,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InnerReport {
    /// It ends with the launcher.
    Bound,
    /// All that is left is to run the program.
    Confined {
        landlock: bool,
    },
    Failed(Failure),
}
