//! A PostgreSQL of our own, gone with the test.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use terraform::value::Value;

pub struct Server {
    directory: TempDir,
    port: u16,
    process: Child,
}

/// Where Debian puts the server.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max()
}

/// Root cannot run it; then it is run by the user that came with the package.
fn command(program: &Path, directory: &Path) -> Command {
    use std::os::unix::fs::MetadataExt;
    let mut command = Command::new(program);
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let account = passwd.lines().find(|line| line.starts_with("postgres:")).map(|line| line.split(':'));
    if let (true, Some(mut fields)) = (root, account) {
        let user: u32 = fields.nth(2).and_then(|id| id.parse().ok()).unwrap();
        let group: u32 = fields.next().and_then(|id| id.parse().ok()).unwrap();
        std::os::unix::fs::chown(directory, Some(user), Some(group)).unwrap();
        command.uid(user).gid(group);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Server {
    /// None, and a word about it, where PostgreSQL is not installed.
    pub fn start() -> Server {
        let programs = programs().expect("PostgreSQL is not installed: apt-get install postgresql");
        let directory = TempDir::with_prefix("pg").unwrap();
        let data = directory.path().join("data");
        let made = command(&programs.join("initdb"), directory.path())
            .args(["--no-sync", "--auth=trust", "--username=admin", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .status()
            .unwrap();
        assert!(made.success());
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = command(&programs.join("postgres"), directory.path())
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-F", "-k"])
            .arg(directory.path())
            .args(["-p", &port.to_string()])
            .spawn()
            .unwrap();
        let server = Server { directory, port, process };
        while !server.psql("SELECT 1").status.success() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        server
    }

    fn psql(&self, sql: &str) -> std::process::Output {
        let mut psql = Command::new("psql");
        psql.arg("-h").arg(self.directory.path()).args(["-p", &self.port.to_string(), "-U", "admin"]);
        psql.args(["-d", "postgres", "-qAtc", sql]).output().unwrap()
    }

    /// What the database says itself.
    pub fn ask(&self, sql: &str) -> String {
        let output = self.psql(sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub fn url(&self) -> String {
        format!("postgres://admin@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// For a Secret of the provider.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({"host": "127.0.0.1", "port": self.port, "user": "admin"})
    }

    /// For the provider.
    pub fn config(&self) -> Value {
        let fields = [
            ("host", Value::string("127.0.0.1")),
            ("port", Value::number(self.port.into())),
            ("user", Value::string("admin")),
        ];
        Value::Fields(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
