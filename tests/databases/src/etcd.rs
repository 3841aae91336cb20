//! etcd, alone or as a cluster.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use crate::free_port;

pub struct Server {
    directory: tempfile::TempDir,
    name: String,
    port: u16,
    peer_port: u16,
    /// `NAME=URL` of all members.
    cluster: String,
    arguments: Vec<String>,
    scheme: &'static str,
    process: Option<Child>,
}

/// How a server is to be.
#[derive(Default)]
pub struct Wish {
    pub arguments: Vec<String>,
    pub tls: bool,
}

fn program() -> PathBuf {
    // `cargo xtask test` unpacks Debian's package beside the build.
    let unpacked = crate::target_dir().join("test-tools/etcd-server/usr/bin/etcd");
    let mut places = [unpacked, "/usr/bin/etcd".into(), "/usr/local/bin/etcd".into()].into_iter();
    places.find(|place| place.exists()).expect(
        "etcd is not installed: run `cargo xtask test --tools-only`, or install the package etcd-server",
    )
}

impl Server {
    pub fn start() -> Server {
        Server::with(|_| Wish::default())
    }

    /// As wished, which may name files in the directory given.
    pub fn with(wish: impl Fn(&Path) -> Wish) -> Server {
        let mut server = Server::member("alone", free_port(), wish);
        server.cluster = format!("alone=http://127.0.0.1:{}", server.peer_port);
        server.restart();
        server.wait();
        server
    }

    /// Several that are one.
    pub fn cluster(size: usize) -> Vec<Server> {
        let member = |index| Server::member(&format!("m{index}"), free_port(), |_| Wish::default());
        let mut members: Vec<Server> = (0..size).map(member).collect();
        let urls =
            members.iter().map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.peer_port));
        let cluster = urls.collect::<Vec<_>>().join(",");
        for member in &mut members {
            member.cluster = cluster.clone();
            member.restart();
        }
        members.iter().for_each(Server::wait);
        members
    }

    fn member(name: &str, peer_port: u16, wish: impl Fn(&Path) -> Wish) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let Wish { arguments, tls } = wish(directory.path());
        let scheme = if tls { "https" } else { "http" };
        let (name, cluster) = (name.to_owned(), String::new());
        Server { directory, name, port: free_port(), peer_port, cluster, arguments, scheme, process: None }
    }

    /// As if the machine had lost power, but for what the kernel holds.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Freezes it, or lets it go on.
    pub fn signal(&self, signal: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
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
            .args(["--name", &self.name, "--log-level", "error", "--data-dir"])
            .arg(self.directory.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.cluster])
            .args(&self.arguments)
            .env_remove("ETCDCTL_API")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    /// Until it listens. That is not answering yet.
    pub fn wait(&self) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "etcd does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks as tools do that know nothing of us: etcd's JSON gateway.
    pub fn ask(&self, path: &str, body: &str) -> String {
        let length = body.len();
        self.speak(&format!("POST {path} HTTP/1.1\r\nContent-Length: {length}"), body)
    }

    fn speak(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "{head}\r\nHost: etcd\r\nConnection: close\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{head} {body}: {answer}");
        answer
    }

    /// Messages of clients so far: requests, and what is said on streams.
    pub fn messages(&self) -> u64 {
        let metrics = self.speak("GET /metrics HTTP/1.1", "");
        let counts = metrics.lines().filter(|line| line.starts_with("grpc_server_msg_received_total"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// All keys that begin with a prefix.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let (key, end) = (BASE64.encode(prefix), BASE64.encode(end));
        let body = format!(r#"{{"key":"{key}","range_end":"{end}","keys_only":true}}"#);
        let answer = self.ask("/v3/kv/range", &body);
        let keys = answer.split(r#""key":""#).skip(1).map(|rest| rest.split('"').next().unwrap());
        keys.map(|key| String::from_utf8(BASE64.decode(key).unwrap()).unwrap()).collect()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("etcd://{}", self.address())
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
