//! PostgreSQL: gone with the last test that uses it.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

pub const USER: &str = "hangar";
pub const PASSWORD: &str = "pass word";

pub struct Server {
    directory: tempfile::TempDir,
    port: u16,
    postmaster: Mutex<Option<Child>>,
}

/// Who runs the server: never root, it refuses.
#[derive(Clone, Copy)]
struct Account {
    user: u32,
    group: u32,
}

/// None when we are not root ourselves.
fn account() -> Option<Account> {
    let own = Command::new("id").arg("-u").output().unwrap();
    if String::from_utf8_lossy(&own.stdout).trim() != "0" {
        return None;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with("postgres:"));
    let line =
        line.expect("root cannot run PostgreSQL, and there is no user postgres: apt-get install postgresql");
    let fields: Vec<&str> = line.split(':').collect();
    Some(Account { user: fields[2].parse().unwrap(), group: fields[3].parse().unwrap() })
}

/// Where the newest installed server is.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("postgres").exists() && bin.join("initdb").exists())
        .collect();
    versions.sort();
    let newest = versions.pop();
    newest.expect("PostgreSQL is not installed, and these tests run a real one: apt-get install postgresql").1
}

fn as_account(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(Account { user, group }) = account() {
        command.uid(user).gid(group);
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn owned(directory: &Path) {
    if let Some(Account { user, group }) = account() {
        std::os::unix::fs::chown(directory, Some(user), Some(group)).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp failed");
}

/// An empty cluster, made once and copied for every server: that is quicker than making it.
fn template() -> PathBuf {
    let kept = crate::target_dir().join("tmp");
    std::fs::create_dir_all(&kept).unwrap();
    let lock = File::create(kept.join("postgres.lock")).unwrap();
    fs4::FileExt::lock(&lock).unwrap();
    let version = programs().parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let template = kept.join(format!("postgres-{version}"));
    if !template.exists() {
        let scratch = tempfile::tempdir().unwrap();
        owned(scratch.path());
        let mut password = File::create(scratch.path().join("password")).unwrap();
        writeln!(password, "{PASSWORD}").unwrap();
        owned(&scratch.path().join("password"));
        let made = as_account(&programs().join("initdb"))
            .args(["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C"])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256", "--username", USER, "--pwfile"])
            .arg(scratch.path().join("password"))
            .arg("--pgdata")
            .arg(scratch.path().join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        // Under another name first: a half-made one must not be taken for whole.
        let half = kept.join(format!("postgres-{version}.half"));
        let _ = std::fs::remove_dir_all(&half);
        copy(&scratch.path().join("data"), &half);
        std::fs::rename(half, &template).unwrap();
    }
    template
}

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Server {
    /// The one that tests of one process share, each with a schema of its own.
    pub fn shared() -> Arc<Server> {
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Server::new(&["fsync=off", "full_page_writes=off"]));
        *shared = Arc::downgrade(&server);
        server
    }

    /// One for a test that does it harm.
    pub fn new(settings: &[&str]) -> Server {
        let server = Server::prepared(settings);
        server.start();
        server
    }

    /// Made, and not started.
    pub fn prepared(settings: &[&str]) -> Server {
        let directory = tempfile::tempdir().unwrap();
        owned(directory.path());
        copy(&template(), &directory.path().join("data"));
        let port = crate::free_port();
        let mut configuration =
            File::options().append(true).open(directory.path().join("data/postgresql.conf")).unwrap();
        let ours = [
            format!("port = {port}"),
            "listen_addresses = '127.0.0.1'".into(),
            format!("unix_socket_directories = '{}'", directory.path().display()),
            "max_connections = 200".into(),
            "shared_buffers = 32MB".into(),
        ];
        for line in ours.into_iter().chain(settings.iter().map(ToString::to_string)) {
            writeln!(configuration, "{line}").unwrap();
        }
        Server { directory, port, postmaster: Mutex::new(None) }
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A file among the server's own, which only it can read.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let file = self.data().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        owned(&file);
        file
    }

    /// Starts it, and waits until it takes connections.
    pub fn start(&self) {
        let log = self.directory.path().join("log");
        let until = Instant::now() + Duration::from_secs(60);
        // After a kill, what is left of the old one may keep the new one from starting for a moment.
        loop {
            let out = File::create(&log).unwrap();
            let mut child = as_account(&programs().join("postgres"))
                .arg("-D")
                .arg(self.data())
                .stdout(out.try_clone().unwrap())
                .stderr(out)
                .spawn()
                .unwrap();
            loop {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                if said.contains("ready to accept") {
                    *self.postmaster.lock().unwrap() = Some(child);
                    return;
                }
                if child.try_wait().unwrap().is_some() {
                    assert!(Instant::now() < until, "PostgreSQL does not start: {said}");
                    break;
                }
                assert!(Instant::now() < until, "PostgreSQL does not come up: {said}");
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// kill -9, of all of it: what serves a connection would go on for a moment without the rest.
    pub fn kill(&self) {
        if let Some(mut child) =
            self.postmaster.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
        {
            let children = children_of(child.id());
            let _ = child.kill();
            let _ = child.wait();
            if !children.is_empty() {
                let _ = Command::new("kill").arg("-KILL").args(&children).stderr(Stdio::null()).status();
            }
            while children.iter().any(|pid| Path::new("/proc").join(pid).join("exe").exists()) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// `STOP` or `CONT`, to all of it.
    pub fn signal(&self, signal: &str) {
        let postmaster = self.postmaster.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(child) = postmaster.as_ref() else { return };
        let all = [vec![child.id().to_string()], children_of(child.id())].concat();
        // One that has just ended is no fault.
        let _ = Command::new("kill").arg(format!("-{signal}")).args(all).stderr(Stdio::null()).status();
    }

    /// Transactions so far, of everybody; a statement that stands alone is one.
    pub fn transactions(&self) -> u64 {
        let asked = as_account(&programs().join("psql"))
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--command"])
            .arg("SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database")
            .arg(self.url())
            .output()
            .unwrap();
        let (said, wrong) = (String::from_utf8_lossy(&asked.stdout), String::from_utf8_lossy(&asked.stderr));
        said.trim().parse().unwrap_or_else(|_| panic!("psql: {said}{wrong}"))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        self.url_by(self.port)
    }

    /// The address by way of another port.
    pub fn url_by(&self, port: u16) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{port}/postgres", PASSWORD.replace(' ', "%20"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        // Its children end when they notice; the directory can only be removed when they have.
        let lock = self.data().join("postmaster.pid");
        let _ = std::fs::remove_file(lock);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn children_of(parent: u32) -> Vec<String> {
    let line = format!("PPid:\t{parent}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| {
            let status = std::fs::read_to_string(process.path().join("status")).unwrap_or_default();
            status.lines().any(|of| of == line)
        })
        .map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}
