//! The life of one plugin process: start, handshake, connection, end.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sandbox::{Egress, Inside, Running, Share, Spec, StartError, Trees};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use super::call::{self, Caller};
use super::handshake::{Address, COOKIE, Handshake, HandshakeError};
use super::isolation::Isolation;
use super::journal::{self, Lines};
use super::stamp::Stamp;
use super::tls::Credentials;
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
    /// The name of the provider, by which the operator gives it paths and trust.
    pub provider: Option<String>,
    /// The control plane that it works for; none for what no tenant has a part in.
    pub control_plane: Option<String>,
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
            provider: None,
            control_plane: None,
        }
    }

    /// The same on behalf of a control plane.
    #[must_use]
    pub fn on_behalf_of(&self, control_plane: &str) -> Launch {
        Launch { control_plane: Some(control_plane.to_owned()), ..self.clone() }
    }

    /// The program is not the one that was looked at.
    pub fn is_replaced(&self) -> bool {
        self.stamp.is_some() && self.stamp != Stamp::of(&self.program)
    }

    /// In the words of errors and logs.
    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    /// All that it is told, and all that it may see and take.
    fn spec(&self, directory: &Path, credentials: &Credentials, mut shares: Vec<Share>) -> Spec {
        let mut environment = inherited(&mut shares);
        let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
        // Go collects more often before it runs into the wall.
        self.memory.map(|bytes| set("GOMEMLIMIT", (bytes / 10 * 9).to_string()));
        for name in QUIET {
            set(name, self.log.clone().unwrap_or_else(|| "OFF".to_owned()));
        }
        for (name, value) in &self.environment {
            set(name, value.expose().clone());
        }
        set(COOKIE.0, COOKIE.1.to_owned());
        set("PLUGIN_PROTOCOL_VERSIONS", "5,6".to_owned());
        set("PLUGIN_MIN_PORT", "10000".to_owned());
        set("PLUGIN_MAX_PORT", "25000".to_owned());
        set("PLUGIN_CLIENT_CERT", credentials.authority_pem.clone());
        for name in ["PLUGIN_UNIX_SOCKET_DIR", "TMPDIR", "HOME"] {
            set(name, directory.display().to_string());
        }
        let mut limits = sandbox::Limits::default();
        limits.memory = self.memory.unwrap_or(limits.memory);
        Spec {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            environment: environment.into_iter().collect(),
            directory: directory.to_owned(),
            shares,
            trees: Trees::Libraries,
            hidden: Vec::new(),
            network: true,
            limits,
        }
    }
}

/// What it sees of our environment; and the authorities that are named there, with their files.
pub(crate) fn inherited(shares: &mut Vec<Share>) -> BTreeMap<String, String> {
    let value = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    let environment: BTreeMap<String, String> = INHERITED.iter().filter_map(value).collect();
    let files = environment.get("SSL_CERT_FILE").into_iter().map(String::as_str);
    let directories = environment.get("SSL_CERT_DIR").into_iter().flat_map(|all| all.split(':'));
    let paths =
        files.chain(directories).map(PathBuf::from).filter(|path| path.is_absolute() && path.exists());
    shares.extend(paths.map(|path| Share { path, writable: false }));
    environment
}

/// A running plugin. It ends when this is dropped.
pub struct Process {
    pub caller: Caller,
    /// Dropping it tells the process's keeper that nobody needs it any more.
    _needed: tokio::sync::oneshot::Sender<()>,
    /// Of the launcher, which ends with it.
    id: Option<u32>,
}

impl Process {
    /// Starts it, and waits until it can be asked. Without egress it has no network.
    pub async fn start(
        launch: &Launch,
        limits: Limits,
        isolation: &Isolation,
        egress: Option<Egress>,
    ) -> Result<Process, PluginError> {
        let program = launch.name();
        let not_started = |reason: String| PluginError::NotStarted { program: program.clone(), reason };
        let sandbox = isolation.sandbox().map_err(|reason| PluginError::NoSandbox { reason })?;
        std::fs::metadata(&launch.program).map_err(|error| not_started(error.to_string()))?;
        // In a sandbox it has one of its own.
        let own = sandbox.parts().is_none().then(|| private_directory(isolation.directory())).transpose();
        let own = own.map_err(|error| not_started(error.to_string()))?;
        let directory = own.as_ref().map_or(Path::new(sandbox::TEMPORARY), PrivateDirectory::path).to_owned();
        let credentials = Credentials::generate().map_err(not_started)?;
        let shares = isolation.shares(launch.provider.as_deref());
        let has_network = egress.is_some();
        let started = sandbox.start(launch.spec(&directory, &credentials, shares), egress).await;
        let mut running = started.map_err(|error| match error {
            // ENOEXEC: the kernel has no idea what this is.
            StartError::Program(error) if error.raw_os_error() == Some(8) => {
                PluginError::WrongArchitecture { program: program.clone(), machine: std::env::consts::ARCH }
            }
            error => not_started(error.to_string()),
        })?;
        if let Some(reason) = running.no_network.as_deref().filter(|_| has_network) {
            tracing::warn!(program, reason, "the provider has no network");
        }
        let child = &mut running.child;
        let id = child.id();
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
                // The launcher, whose child we wait for, ends a moment later.
                let status = match tokio::time::timeout(FAREWELL, running.child.wait()).await {
                    Ok(Ok(status)) => status.to_string(),
                    _ => end(&mut running, id).await,
                };
                let said = said.chars().take(300).collect::<String>();
                let said = if said.is_empty() { said } else { format!(": {said}") };
                return Err(PluginError::NoHandshake { program, status, said });
            }
            Err(_) => {
                end(&mut running, id).await;
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
            let channel = connect(&handshake, credentials, &directory, running.inside.clone(), limits).await;
            let channel =
                channel.map_err(|reason| PluginError::Connect { program: program.clone(), reason })?;
            Ok((handshake.version, channel))
        };
        let (version, channel) = match met.await {
            Ok(met) => met,
            Err(error) => {
                end(&mut running, id).await;
                return Err(error);
            }
        };
        let (ended, watch) = watch::channel(None);
        let caller = Caller::new(channel, version, limits, watch);
        let (needed, not_needed) = tokio::sync::oneshot::channel();
        let output = tokio::spawn(journal::relay(caller.clone(), program.clone())).abort_handle();
        tracing::info!(program, id, ?version, "provider started");
        let keeper = Keeper { program, running, id, caller: caller.clone(), output, _directory: own };
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
    running: Running,
    id: Option<u32>,
    caller: Caller,
    /// Passes on what it writes.
    output: AbortHandle,
    _directory: Option<PrivateDirectory>,
}

impl Keeper {
    async fn keep(
        mut self,
        not_needed: tokio::sync::oneshot::Receiver<()>,
        ended: watch::Sender<Option<String>>,
    ) {
        let status = tokio::select! {
            status = self.running.child.wait() => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                tracing::warn!(program = self.program, id = self.id, status, "provider ended by itself");
                status
            }
            // Only ever closed, never sent on.
            _ = not_needed => {
                // A server that ends only after its last call would wait for this one.
                self.output.abort();
                let goodbye = self.caller.unary::<_, Empty>(Call::Shutdown, Empty {}, FAREWELL);
                let politely = async { goodbye.await.ok(); self.running.child.wait().await.ok() };
                let status = match tokio::time::timeout(FAREWELL, politely).await {
                    Ok(Some(status)) => status.to_string(),
                    _ => end(&mut self.running, self.id).await,
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
async fn end(running: &mut Running, id: Option<u32>) -> String {
    kill_group(id);
    let _ = running.child.start_kill();
    running.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string())
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
    inside: Arc<Inside>,
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
        let (address, tls, inside) = (address.clone(), tls.clone(), inside.clone());
        async move { open(&inside, &address, tls).await.map(TokioIo::new) }
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

async fn open(
    inside: &Inside,
    address: &Address,
    tls: Option<Arc<rustls::ClientConfig>>,
) -> std::io::Result<Box<dyn Stream>> {
    let stream: Box<dyn Stream> = match address {
        Address::Unix(path) => Box::new(inside.connect_unix(path).await?),
        Address::Tcp(socket) => {
            let stream = inside.connect_tcp(*socket).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
    };
    let Some(tls) = tls else { return Ok(stream) };
    let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
    Ok(Box::new(TlsConnector::from(tls).connect(name, stream).await?))
}
