//! The life of one plugin process: start, handshake, connection, end.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use super::call::{self, Caller};
use super::handshake::{Address, COOKIE, Handshake, HandshakeError};
use super::journal::{self, Lines};
use super::stamp::Stamp;
use super::tls::Credentials;
use super::warden::Warden;
use super::{Limits, PluginError};
use crate::protocol::messages::Empty;
use crate::protocol::{Call, Version};

/// What a plugin sees of our environment. Nothing else: credentials of the host are not its tenants' credentials.
pub(crate) const INHERITED: [&str; 11] = [
    "PATH",
    "LANG",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// By default Go plugins write everything they do; 95 MB for 1,000 operations have been measured, at half of the CPU.
const QUIET: [&str; 4] = ["TF_LOG_SDK", "TF_LOG_PROVIDER", "TF_LOG_SDK_PROTO", "TF_LOG_SDK_FRAMEWORK"];

/// Once asked to go, it has this long.
const FAREWELL: Duration = Duration::from_secs(2);

/// The length of a path that a unix socket can have.
const LONGEST_SOCKET_PATH: usize = 107;

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// More of the environment, for providers that take their configuration from there.
    pub environment: BTreeMap<String, Secret<String>>,
    /// What the process may take for its data, in bytes.
    pub memory: Option<u64>,
    /// The level of its own log, such as `DEBUG`; off unless asked for.
    pub log: Option<String>,
    /// Of the program, when its content was looked at.
    pub stamp: Option<Stamp>,
}

impl Launch {
    pub fn new(program: impl Into<PathBuf>) -> Launch {
        Launch {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            memory: None,
            log: None,
            stamp: None,
        }
    }

    /// The program is not the one that was looked at.
    pub fn is_replaced(&self) -> bool {
        self.stamp.is_some() && self.stamp != Stamp::of(&self.program)
    }

    /// In the words of errors and logs.
    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    fn command(&self, directory: &Path, credentials: &Credentials) -> Command {
        let mut command = match self.memory {
            None => Command::new(&self.program),
            Some(bytes) => {
                // The shell sets the limit for itself and then becomes the program.
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(format!("ulimit -d {} && exec \"$0\" \"$@\"", bytes.div_ceil(1024)));
                shell.arg(&self.program);
                shell
            }
        };
        // Go collects more often before it runs into the wall.
        let limit = self.memory.map(|bytes| (bytes / 10 * 9).to_string());
        command.args(&self.arguments).env_clear();
        command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(limit.map(|limit| ("GOMEMLIMIT", limit)));
        for name in QUIET {
            command.env(name, self.log.as_deref().unwrap_or("OFF"));
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value.expose())));
        command
            .env(COOKIE.0, COOKIE.1)
            .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
            .env("PLUGIN_MIN_PORT", "10000")
            .env("PLUGIN_MAX_PORT", "25000")
            .env("PLUGIN_CLIENT_CERT", &credentials.authority_pem)
            .env("PLUGIN_UNIX_SOCKET_DIR", directory)
            .env("TMPDIR", directory)
            .env("HOME", directory);
        command
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its children go with it.
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// A running plugin. It ends when this is dropped.
pub struct Process {
    pub caller: Caller,
    /// Dropping it tells the process's keeper that nobody needs it any more.
    _needed: tokio::sync::oneshot::Sender<()>,
    id: Option<u32>,
}

impl Process {
    /// Starts it in a directory of its own below `parent`, and waits until it can be asked.
    pub async fn start(
        launch: &Launch,
        limits: Limits,
        parent: &Path,
        warden: &Arc<Warden>,
    ) -> Result<Process, PluginError> {
        let program = launch.name();
        let not_started = |reason: String| PluginError::NotStarted { program: program.clone(), reason };
        let directory = private_directory(parent).map_err(|error| not_started(error.to_string()))?;
        let credentials = Credentials::generate().map_err(not_started)?;
        let mut child = match launch.command(&directory.0, &credentials).spawn() {
            Ok(child) => child,
            // ENOEXEC: the kernel has no idea what this is.
            Err(error) if error.raw_os_error() == Some(8) => {
                return Err(PluginError::WrongArchitecture { program, machine: std::env::consts::ARCH });
            }
            Err(error) => return Err(not_started(error.to_string())),
        };
        let id = child.id();
        let watched = Watched::new(warden, id);
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(not_started("it has no output".into()));
        };
        let mut stdout = Lines::new(stdout);
        let mut stderr = Lines::new(stderr);
        let mut said = String::new();
        let handshake = async {
            loop {
                tokio::select! {
                    biased;
                    line = stdout.next() => return line,
                    Some(line) = stderr.next() => said = line,
                }
            }
        };
        let line = match tokio::time::timeout(limits.start, handshake).await {
            Ok(Some(line)) => line,
            Ok(None) => {
                // Why, it says on the other output, perhaps a moment later.
                let last = async {
                    while let Some(line) = stderr.next().await {
                        said = line;
                    }
                };
                let _ = tokio::time::timeout(FAREWELL, last).await;
                let status = end(&mut child, id).await;
                let said = said.chars().take(300).collect::<String>();
                let said = if said.is_empty() { said } else { format!(": {said}") };
                return Err(PluginError::NoHandshake { program, status, said });
            }
            Err(_) => {
                end(&mut child, id).await;
                return Err(PluginError::SlowHandshake { program, after: limits.start });
            }
        };
        tokio::spawn(stdout.follow(program.clone()));
        tokio::spawn(stderr.follow(program.clone()));
        let met = async {
            let handshake = Handshake::parse(&line).map_err(|error| match error {
                HandshakeError::Version(version) => {
                    PluginError::Protocol { program: program.clone(), version }
                }
                error => PluginError::Handshake { program: program.clone(), reason: error.to_string() },
            })?;
            let channel = connect(&handshake, credentials, &directory.0, limits).await;
            let channel =
                channel.map_err(|reason| PluginError::Connect { program: program.clone(), reason })?;
            Ok((handshake.version, channel))
        };
        let (version, channel) = match met.await {
            Ok(met) => met,
            Err(error) => {
                end(&mut child, id).await;
                return Err(error);
            }
        };
        let (ended, watch) = watch::channel(None);
        let caller = Caller::new(channel, version, limits, watch);
        let (needed, not_needed) = tokio::sync::oneshot::channel();
        let output = tokio::spawn(journal::relay(caller.clone(), program.clone())).abort_handle();
        tracing::info!(program, id, ?version, "provider started");
        let keeper = Keeper {
            program,
            child,
            id,
            caller: caller.clone(),
            output,
            _directory: directory,
            _watched: watched,
        };
        tokio::spawn(keeper.keep(not_needed, ended));
        Ok(Process { caller, _needed: needed, id })
    }

    pub fn version(&self) -> Version {
        self.caller.version()
    }

    pub fn id(&self) -> Option<u32> {
        self.id
    }

    pub fn has_ended(&self) -> bool {
        self.caller.ended().is_some()
    }
}

/// Waits for the end of a process, or brings it about.
struct Keeper {
    program: String,
    child: Child,
    id: Option<u32>,
    caller: Caller,
    /// Passes on what it writes.
    output: AbortHandle,
    _directory: PrivateDirectory,
    _watched: Watched,
}

/// Known to the warden for as long as this lives.
struct Watched {
    warden: Arc<Warden>,
    id: Option<u32>,
}

impl Watched {
    fn new(warden: &Arc<Warden>, id: Option<u32>) -> Watched {
        warden.watch(id);
        Watched { warden: warden.clone(), id }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.warden.forget(self.id);
    }
}

impl Keeper {
    async fn keep(
        mut self,
        not_needed: tokio::sync::oneshot::Receiver<()>,
        ended: watch::Sender<Option<String>>,
    ) {
        let status = tokio::select! {
            status = self.child.wait() => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                tracing::warn!(program = self.program, id = self.id, status, "provider ended by itself");
                status
            }
            // Only ever closed, never sent on.
            _ = not_needed => {
                // A server that ends only after its last call would wait for this one.
                self.output.abort();
                let goodbye = self.caller.unary::<_, Empty>(Call::Shutdown, Empty {}, FAREWELL);
                let politely = async { goodbye.await.ok(); self.child.wait().await.ok() };
                let status = match tokio::time::timeout(FAREWELL, politely).await {
                    Ok(Some(status)) => status.to_string(),
                    _ => end(&mut self.child, self.id).await,
                };
                tracing::info!(program = self.program, id = self.id, status, "provider stopped");
                status
            }
        };
        // What it started itself goes too.
        kill_group(self.id);
        ended.send_replace(Some(status));
    }
}

/// Kills it with all its children.
async fn end(child: &mut Child, id: Option<u32>) -> String {
    kill_group(id);
    let _ = child.start_kill();
    child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string())
}

pub(crate) fn kill_group(id: Option<u32>) {
    let group = id.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // It may well be gone.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Nobody else looks into it, and it goes when the process does.
pub(crate) struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn private_directory(parent: &Path) -> std::io::Result<PrivateDirectory> {
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    if !parent.exists() {
        builder.recursive(true).create(parent)?;
    }
    let name: u64 = rand::random();
    let path = parent.join(format!("{name:016x}"));
    // Room for the name that the plugin gives to its socket.
    if path.as_os_str().len() + 20 > LONGEST_SOCKET_PATH {
        let problem = format!("the directory {} is too long a path for sockets", parent.display());
        return Err(std::io::Error::other(problem));
    }
    builder.recursive(false).create(&path)?;
    Ok(PrivateDirectory(path))
}

async fn connect(
    handshake: &Handshake,
    credentials: Credentials,
    directory: &Path,
    limits: Limits,
) -> Result<Channel, String> {
    let private = matches!(&handshake.address, Address::Unix(path) if path.starts_with(directory));
    let tls = match &handshake.certificate {
        Some(certificate) => Some(Arc::new(credentials.client(certificate.clone(), private)?)),
        None if private => None,
        None => return Err("it offers no TLS on a socket that others can reach".into()),
    };
    let address = handshake.address.clone();
    let connector = tower::service_fn(move |_: http::Uri| {
        let (address, tls) = (address.clone(), tls.clone());
        async move { open(&address, tls).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost")
        .connect_timeout(limits.start)
        .initial_stream_window_size(Some(1 << 20))
        .initial_connection_window_size(Some(4 << 20));
    let connected = endpoint.connect_with_connector(connector).await;
    connected.map_err(|error| call::causes(&error))
}

/// A connection, with or without TLS.
trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for S {}

async fn open(address: &Address, tls: Option<Arc<rustls::ClientConfig>>) -> std::io::Result<Box<dyn Stream>> {
    let stream: Box<dyn Stream> = match address {
        Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Address::Tcp(socket) => {
            let stream = TcpStream::connect(socket).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
    };
    let Some(tls) = tls else { return Ok(stream) };
    let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
    Ok(Box::new(TlsConnector::from(tls).connect(name, stream).await?))
}
