//! The server's side: starts the launcher, maps the user, and keeps the other end of everything.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

use crate::control;
use crate::dns;
use crate::filter::{Egress, Filter};
use crate::launcher::LAUNCHER;
use crate::spec::{Failure, INSIDE, Job, Order, Report, Spec, TEMPORARY, Trees};

/// The user and group outside that sandboxes of a server that is root run as: one that owns nothing.
const NOBODY: u32 = 65_534;
/// Until the program has taken the place of the launcher.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the launcher is started.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
}

impl Launcher {
    /// This program itself, which calls [`crate::run_as_launcher`] first.
    pub fn own() -> Launcher {
        Launcher::program("/proc/self/exe")
    }

    pub fn program(program: impl Into<PathBuf>) -> Launcher {
        Launcher { program: program.into() }
    }
}

/// Which parts of the isolation the kernel of this machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub landlock: bool,
    /// Why there is no network in sandboxes.
    pub no_network: Option<String>,
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("namespaces, system call filter, resource limits")?;
        if self.landlock {
            f.write_str(", Landlock")?;
        }
        match &self.no_network {
            None => f.write_str(", network filter"),
            Some(_) => f.write_str("; no network"),
        }
    }
}

/// No sandbox can be had on this machine.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no sandbox can be had on this machine: {0}")]
pub struct Unavailable(String);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Sandbox(String),
    /// The system refused to execute the program.
    #[error("{0}")]
    Program(io::Error),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Sandbox(error.to_string())
    }
}

/// Starts programs, isolated or not. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sandbox {
    launcher: Launcher,
    /// None if programs run without isolation.
    parts: Option<Parts>,
    hidden: Arc<[PathBuf]>,
}

impl Sandbox {
    /// Tries what this machine has. `hidden` is what no program may ever see, wherever it is.
    ///
    /// # Errors
    ///
    /// If the kernel or the administrator of this machine does not let us make one.
    pub async fn probe(launcher: Launcher, hidden: Vec<PathBuf>) -> Result<Sandbox, Unavailable> {
        // As the kernel sees them; what is not there yet is hidden by its name.
        let hidden = hidden.into_iter().map(|path| std::fs::canonicalize(&path).unwrap_or(path)).collect();
        let mut sandbox =
            Sandbox { launcher, parts: Some(Parts { landlock: false, no_network: None }), hidden };
        let spec = Spec {
            program: PathBuf::from("/"),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: PathBuf::from("/"),
            shares: Vec::new(),
            trees: Trees::Libraries,
            hidden: Vec::new(),
            network: true,
            limits: crate::Limits::default(),
        };
        let (running, landlock) =
            sandbox.run(spec, None, true).await.map_err(|error| Unavailable(error.to_string()))?;
        sandbox.parts = Some(Parts { landlock, no_network: running.no_network.clone() });
        Ok(sandbox)
    }

    /// Programs run as this server does, with all that it can reach. They still end with it.
    pub fn none(launcher: Launcher) -> Sandbox {
        Sandbox { launcher, parts: None, hidden: Arc::default() }
    }

    /// What is isolated; None if nothing is.
    pub fn parts(&self) -> Option<&Parts> {
        self.parts.as_ref()
    }

    /// The user and group that files must belong to for programs to write them, if not our own.
    pub fn owner(&self) -> Option<(u32, u32)> {
        (self.parts.is_some() && rustix::process::geteuid().is_root()).then_some((NOBODY, NOBODY))
    }

    /// Runs a program. Without egress it has no network.
    ///
    /// # Errors
    ///
    /// If the sandbox cannot be made, or the program cannot be executed in it.
    pub async fn start(&self, mut spec: Spec, egress: Option<Egress>) -> Result<Running, StartError> {
        spec.hidden.extend(self.hidden.iter().cloned());
        spec.network = egress.is_some();
        let (running, _) = self.run(spec, egress, false).await?;
        Ok(running)
    }

    async fn run(
        &self,
        spec: Spec,
        egress: Option<Egress>,
        probe: bool,
    ) -> Result<(Running, bool), StartError> {
        let started = tokio::time::timeout(PATIENCE, self.run_patiently(spec, egress, probe)).await;
        started.unwrap_or_else(|_| Err(StartError::Sandbox("the launcher does not answer".into())))
    }

    async fn run_patiently(
        &self,
        spec: Spec,
        egress: Option<Egress>,
        probe: bool,
    ) -> Result<(Running, bool), StartError> {
        let isolate = self.parts.is_some();
        let (own, its) = control::pair()?;
        rustix::io::ioctl_fionbio(&own, true).map_err(io::Error::from)?;
        let mut command = Command::new(&self.launcher.program);
        command
            .arg(OsString::from(LAUNCHER))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(its))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its children go with it.
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn();
        // It holds the launcher's end of the socket, too.
        drop(command);
        let child =
            child.map_err(|error| StartError::Sandbox(format!("cannot start the launcher: {error}")))?;
        let socket = UnixStream::from_std(std::os::unix::net::UnixStream::from(own))?;
        let channel = Channel { socket, turn: tokio::sync::Mutex::default() };
        let job = Job { spec, isolate, probe, resolver: dns::resolver_options() };
        channel.send(&Order::Run(Box::new(job)))?;
        let mut temporary = None;
        let (mut filter, mut no_network) = (None, None);
        let landlock = loop {
            let (report, mut descriptors) = channel.receive().await?;
            match report {
                Report::Unshared => {
                    map_user(child.id().unwrap_or_default())?;
                    channel.send(&Order::Mapped)?;
                }
                Report::Prepared { network } => {
                    no_network = network.err();
                    if isolate && !descriptors.is_empty() {
                        temporary = Some(descriptors.remove(0));
                    }
                    if let Some(egress) = egress.clone()
                        && no_network.is_none()
                        && isolate
                    {
                        filter = Some(Filter::start(descriptors, egress)?);
                    }
                }
                Report::Started { landlock } => break landlock,
                Report::Failed(Failure { code: Some(code), .. }) => {
                    return Err(StartError::Program(io::Error::from_raw_os_error(code)));
                }
                Report::Failed(failure) => return Err(StartError::Sandbox(failure.what)),
                Report::Connected(_) => {
                    return Err(StartError::Sandbox("the launcher answers what nobody asked".into()));
                }
            }
        };
        let inside = Arc::new(Inside { channel, temporary });
        Ok((Running { child, inside, no_network, _filter: filter }, landlock))
    }
}

/// Maps the one user and group of the launcher's new namespace: to ours, or to nobody if we are root.
fn map_user(launcher: u32) -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let outside = if user.is_root() { (NOBODY, NOBODY) } else { (user.as_raw(), group.as_raw()) };
    let write = |file: &str, text: String| {
        let path = format!("/proc/{launcher}/{file}");
        std::fs::write(&path, text).map_err(|error| io::Error::other(format!("cannot write {path}: {error}")))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{INSIDE} {} 1", outside.0))?;
    write("gid_map", format!("{INSIDE} {} 1", outside.1))
}

/// A program that runs. It ends when this is dropped.
pub struct Running {
    /// The launcher, which ends as the program does.
    pub child: Child,
    pub inside: Arc<Inside>,
    /// Why it has no network, if it was to have one.
    pub no_network: Option<String>,
    _filter: Option<Filter>,
}

/// The way to servers in a sandbox.
pub struct Inside {
    channel: Channel,
    temporary: Option<OwnedFd>,
}

impl Inside {
    /// Connects to a socket in the temporary directory of the sandbox.
    ///
    /// # Errors
    ///
    /// If there is no such socket, or it is a link to something else.
    pub async fn connect_unix(&self, path: &Path) -> io::Result<UnixStream> {
        let Some(temporary) = &self.temporary else { return UnixStream::connect(path).await };
        let inside = path.strip_prefix(TEMPORARY).map_err(io::Error::other)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A link would be followed among our own files.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let socket = openat2(temporary, inside, flags, Mode::empty(), resolve)?;
        UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd())).await
    }

    /// Connects to a port of the sandbox's own loopback interface.
    ///
    /// # Errors
    ///
    /// If nothing listens there.
    pub async fn connect_tcp(&self, address: SocketAddr) -> io::Result<TcpStream> {
        if self.temporary.is_none() {
            return TcpStream::connect(address).await;
        }
        let _turn = self.channel.turn.lock().await;
        self.channel.send(&Order::Connect(address))?;
        let (report, descriptors) = self.channel.receive().await?;
        match (report, descriptors.into_iter().next()) {
            (Report::Connected(Ok(())), Some(socket)) => {
                let stream = std::net::TcpStream::from(socket);
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)
            }
            (Report::Connected(Err(error)), _) => Err(io::Error::other(error)),
            _ => Err(io::Error::other("the launcher answers what nobody asked")),
        }
    }
}

/// The socket of the launcher.
struct Channel {
    socket: UnixStream,
    /// One question at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Channel {
    fn send(&self, order: &Order) -> io::Result<()> {
        control::send(&self.socket, order, &[])
    }

    async fn receive(&self) -> io::Result<(Report, Vec<OwnedFd>)> {
        let received = self.socket.async_io(Interest::READABLE, || control::receive(&self.socket)).await?;
        received.ok_or_else(|| io::Error::other("the launcher ended"))
    }
}
