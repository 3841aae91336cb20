//! One running `hangar up`, or a `hangar serve` beside it, in a directory of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, Credentials};
use crate::database::{Database, Engine};

/// A loaded machine with a debug build is slow; a server that takes longer than this is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Dropped, it is stopped as a service manager would stop it, and has to end well.
pub struct Server {
    dir: TempDir,
    process: Option<Child>,
    address: SocketAddr,
    role: Role,
    /// Further flags.
    flags: Vec<String>,
    database: Option<Arc<Database>>,
    /// What it may log as an error, because the test made it so.
    forgiven: Vec<&'static str>,
    /// Seconds for which it serves on after being asked to end.
    delay: u64,
    /// Bytes that the process may use, if that is limited.
    memory: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Everything.
    Up,
    /// One more API server on the store of another.
    Serve,
}

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Server {
    /// A fresh one on a free port.
    pub fn start() -> Server {
        Server::start_with(|_| Vec::new())
    }

    /// One with further flags, which may be about files in its directory.
    pub fn start_with(flags: impl FnOnce(&Path) -> Vec<String>) -> Server {
        Server::up(Engine::of_this_test(), flags)
    }

    /// One on an engine, whatever the test binary stands for.
    pub fn start_on(engine: Engine) -> Server {
        Server::up(engine, |_| Vec::new())
    }

    /// The same with further flags.
    pub fn start_on_with(engine: Engine, flags: Vec<String>) -> Server {
        Server::up(engine, |_| flags)
    }

    /// One that the system gives no more memory than this.
    pub fn start_with_memory(bytes: u64) -> Server {
        Server::limited(Engine::of_this_test(), |_| Vec::new(), Some(bytes))
    }

    fn up(engine: Engine, flags: impl FnOnce(&Path) -> Vec<String>) -> Server {
        Server::limited(engine, flags, None)
    }

    fn limited(engine: Engine, flags: impl FnOnce(&Path) -> Vec<String>, memory: Option<u64>) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::start(engine).map(Arc::new);
        let flags = flags(dir.path());
        let mut server = Server {
            dir,
            process: None,
            address: ANY_PORT,
            role: Role::Up,
            flags,
            database,
            forgiven: Vec::new(),
            delay: 0,
            memory,
        };
        server.launch();
        server
    }

    /// One more on the same database: it has the same keys, and whoever is known to the one is known to the other.
    pub fn beside(&self) -> Server {
        self.another(Role::Serve)
    }

    /// One that does everything as well.
    pub fn twin(&self) -> Server {
        self.another(Role::Up)
    }

    fn another(&self, role: Role) -> Server {
        assert!(self.database.is_some(), "an embedded store has one server");
        let dir = tempfile::tempdir().unwrap();
        let keys = self.dir().join("data/keys");
        std::fs::create_dir(dir.path().join("data")).unwrap();
        let copied = Command::new("cp").arg("-a").arg(keys).arg(dir.path().join("data")).status();
        assert!(copied.unwrap().success(), "the keys cannot be copied");
        std::fs::copy(self.kubeconfig(), dir.path().join("kubeconfig")).unwrap();
        let address = SocketAddr::new(ANY_PORT.ip(), databases::free_port());
        let (flags, database) = (self.flags.clone(), self.database.clone());
        let mut server = Server {
            dir,
            process: None,
            address,
            role,
            flags,
            database,
            forgiven: Vec::new(),
            delay: 0,
            memory: None,
        };
        server.launch();
        server
    }

    /// What it stores in, if that is not a directory of its own.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_deref()
    }

    /// Stops it and starts it again on the same data and the same port.
    pub fn restart(&mut self) {
        self.stop();
        self.launch();
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Room for a test's own files, gone with the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Leases that it holds, of the store of this name, as its metrics say.
    pub fn leases(&self, store: &str) -> BTreeSet<String> {
        let metrics = self.client().get("/metrics").text();
        let held = format!("hangar_lease_held{{store=\"{store}\",lease=\"");
        let name = |line: &str| Some(line.strip_prefix(&held)?.split_once('"')?.0.to_owned());
        metrics.lines().filter_map(name).collect()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir().join("kubeconfig")
    }

    /// A client with the rights of the kubeconfig's user.
    pub fn client(&self) -> Client {
        self.client_as(Credentials::from_kubeconfig(&self.kubeconfig()))
    }

    pub fn client_as(&self, credentials: Credentials) -> Client {
        Client::new(self.address, credentials)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.dir().join("log")
    }

    fn command(&self) -> Command {
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = match self.memory {
            Some(bytes) => {
                let mut limited = Command::new("prlimit");
                limited.arg(format!("--data={bytes}")).arg(binary());
                limited
            }
            None => Command::new(binary()),
        };
        match self.role {
            Role::Up => command.arg("up").arg("--kubeconfig").arg(self.kubeconfig()),
            Role::Serve => command.arg("serve"),
        };
        command
            .args(["--listen", &self.address.to_string()])
            .arg("--data-dir")
            .arg(self.dir().join("data"))
            .args(["--log-format", "text"])
            .args(["--shutdown-delay", &self.delay.to_string()])
            .args(&self.flags)
            .stderr(log);
        if let Some(database) = &self.database {
            // It may hold a password: not among the arguments, which everybody on the machine can read.
            command.env("HANGAR_STORE", database.url());
        }
        command
    }

    fn launch(&mut self) {
        let spawned = self.command().stdout(Stdio::piped()).spawn();
        let mut process =
            spawned.unwrap_or_else(|error| panic!("cannot start {}: {error}", binary().display()));
        let stdout = process.stdout.take().unwrap();
        self.process = Some(process);
        if self.role == Role::Up {
            let said = first_line(stdout);
            let address =
                said.strip_prefix("Hangar is up at https://").and_then(|address| address.parse().ok());
            self.address =
                address.unwrap_or_else(|| panic!("hangar up said {said:?}; its log:\n{}", self.log()));
        }
        self.await_ready();
    }

    fn await_ready(&self) {
        let client = self.client();
        let began = Instant::now();
        loop {
            // What serves beside another does not say when it listens.
            let answer = client.try_send("GET", "/readyz", None, b"");
            if answer.as_ref().is_ok_and(|answer| answer.code == 200) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not ready after {PATIENCE:?}: {answer:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as a power cut would: no signal handler runs, nothing is flushed. [`Server::restart`] starts it again.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Starts it and kills it again after this time, ready or not.
    pub fn start_and_kill(&mut self, after: Duration) {
        self.kill();
        let mut process = self.command().stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(after);
        assert!(process.try_wait().unwrap().is_none(), "ended by itself:\n{}", self.log());
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Freezes it where it stands, or lets it go on: `STOP` and `CONT`.
    pub fn signal(&self, signal: &str) {
        let id = self.process.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    /// Asks it to end, as systemd and Kubernetes do, and demands that it does so in peace.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let asked = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
            assert!(asked.unwrap().success(), "the server was gone before it was stopped:\n{}", self.log());
            let status = self.await_end(&mut process);
            assert!(status.success(), "stopped with {status}:\n{}", self.log());
        }
    }

    fn await_end(&self, process: &mut Child) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = process.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() > PATIENCE {
                let _ = process.kill();
                panic!("still running {PATIENCE:?} after SIGTERM:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// From its next start on it serves for so many seconds after being asked to end.
    pub fn leave_slowly(&mut self, seconds: u64) {
        self.delay = seconds;
    }

    /// From now on, errors with these words are the test's doing.
    pub fn forgive(&mut self, words: &'static str) {
        self.forgiven.push(words);
    }

    /// What the log says that no correct server says, whatever its clients do.
    fn complaints(&self) -> Vec<String> {
        let log = self.log();
        let bad =
            |line: &&str| line.split_whitespace().nth(1) == Some("ERROR") || line.contains("panicked at");
        let forgiven = |line: &&str| self.forgiven.iter().any(|words| line.contains(words));
        log.lines().filter(|line| bad(line) && !forgiven(line)).map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Some(mut process) = self.process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
            println!("the server's log:\n{}", self.log());
        } else {
            self.stop();
            let complaints = self.complaints();
            assert!(complaints.is_empty(), "the server logged errors:\n{}", complaints.join("\n"));
        }
    }
}

/// Reads on in the background, so that the server never blocks on a full pipe.
fn first_line(stdout: impl std::io::Read + Send + 'static) -> String {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_default()
}

/// `$HANGAR_BIN`, or the one that was built beside these tests.
pub fn binary() -> PathBuf {
    match std::env::var_os("HANGAR_BIN") {
        Some(path) => path.into(),
        None => profile_dir().join("hangar"),
    }
}

/// `target/debug`, from `target/debug/deps/this-test`.
fn profile_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// Where `cargo xtask test --tools-only` puts what it downloads.
pub fn tools_dir() -> PathBuf {
    profile_dir().parent().unwrap().join("test-tools")
}
