//! An etcd of a test's own: on free ports, in a temporary directory, gone with the test.

use std::cell::RefCell;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use store_etcd::{Config, Etcd, Options};

pub struct Server {
    directory: tempfile::TempDir,
    port: u16,
    peer_port: u16,
    arguments: Vec<String>,
    scheme: &'static str,
    process: Option<Child>,
}

fn program() -> PathBuf {
    // `cargo xtask test` unpacks Debian's package beside the build.
    let unpacked = std::env::current_exe().ok().and_then(|exe| {
        let target = exe.parent()?.parent()?.parent()?;
        Some(target.join("test-tools/etcd-server/usr/bin/etcd"))
    });
    let places = unpacked.into_iter().chain(["/usr/bin/etcd", "/usr/local/bin/etcd"].map(PathBuf::from));
    places.filter(|place| place.exists()).next().unwrap_or_else(|| {
        panic!(
            "etcd is not installed: run `cargo xtask test --tools-only`, or install the package etcd-server"
        )
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    pub fn start() -> Server {
        Server::with(|_| vec![], "http")
    }

    /// With more arguments, which may name files in the directory given.
    pub fn with(arguments: impl Fn(&Path) -> Vec<String>, scheme: &'static str) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let arguments = arguments(directory.path());
        let mut server =
            Server { directory, port: free_port(), peer_port: free_port(), arguments, scheme, process: None };
        server.restart();
        server
    }

    /// As if the machine had lost power, but for what the kernel holds.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub fn restart(&mut self) {
        self.kill();
        let client = format!("{}://127.0.0.1:{}", self.scheme, self.port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let log = std::fs::File::options().create(true).append(true).open(self.directory.path().join("log"));
        // It dies with this thread, also when the test is killed.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program())
            .args(["--name", "test", "--log-level", "error", "--data-dir"])
            .arg(self.directory.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("test={peer}")])
            .args(&self.arguments)
            .env_remove("ETCDCTL_API")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        self.process = Some(process);
        let began = Instant::now();
        // Listening is not answering, but `Etcd::open` waits for an answer.
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "etcd does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn config(&self) -> Config {
        Config::parse(&format!("etcd://{}", self.address())).unwrap()
    }

    /// A store below a prefix nobody used before.
    pub fn fresh_config(&self) -> Config {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Config { prefix: format!("/test-{}", NEXT.fetch_add(1, Ordering::Relaxed)), ..self.config() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Small enough that the cases fall out of it, and patient with a machine that does other things.
pub fn options() -> Options {
    Options {
        event_bytes: 64 << 10,
        progress_interval: Duration::from_millis(100),
        compaction_interval: Duration::from_secs(2),
        request_timeout: Duration::from_secs(20),
        connect_timeout: Duration::from_secs(5),
        ..Options::default()
    }
}

pub async fn open(config: &Config) -> Etcd {
    Etcd::open(config, options()).await.unwrap_or_else(|error| panic!("{error}"))
}

thread_local! {
    static OWN: RefCell<Option<Rc<Server>>> = const { RefCell::new(None) };
}

/// The server of this test, which has a thread of its own. Not shared between tests: etcd compacts all it holds.
pub fn own() -> Rc<Server> {
    OWN.with(|own| own.borrow_mut().get_or_insert_with(|| Rc::new(Server::start())).clone())
}
