//! Modules in a repository behind a real sshd: with a key from a Secret, and only from a host that is known.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;
use terraform::module::kinds::MODULES;

use super::frameworks::tool;
use super::plane::*;
use super::repositories::{module, names, repository};

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Who runs sshd, and so who can log in. Root would need an account for it to become.
fn account() -> String {
    let own = output("id", &["-un"]);
    if own == "root" { "postgres".to_owned() } else { own }
}

/// A server with one repository and one key that may read it.
struct Sshd {
    directory: TempDir,
    address: String,
}

impl Sshd {
    fn start(repository: &Path) -> Sshd {
        let directory = TempDir::with_prefix("sshd").unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        output("cp", &["-r", repository.to_str().unwrap(), at("net.git").to_str().unwrap()]);
        for key in ["host", "user", "stranger"] {
            output("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", at(key).to_str().unwrap()]);
        }
        let config = format!(
            "HostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\nPasswordAuthentication no\nUsePAM no\n\
             StrictModes no\nPidFile none\n",
            directory.path().display()
        );
        std::fs::write(at("config"), config).unwrap();
        let account = account();
        for own in ["net.git", "host"] {
            output("chown", &["-R", &account, at(own).to_str().unwrap()]);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("{account}@{}", listener.local_addr().unwrap());
        serve(listener, &account, at("config"));
        Sshd { directory, address }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    /// What a client knows of this host, if it has that key.
    fn known_hosts(&self, key: &str) -> String {
        let (_, host) = self.address.split_once('@').unwrap();
        let (host, port) = host.split_once(':').unwrap();
        format!("[{host}]:{port} {}", self.read(&format!("{key}.pub")))
    }

    fn reference(&self) -> String {
        format!("ssh://{}{}/net.git//whole", self.address, self.directory.path().display())
    }
}

/// One process for each connection, as inetd has it; it ends with the connection.
fn serve(listener: TcpListener, account: &str, config: PathBuf) {
    let sshd = tool("openssh-server/usr/sbin/sshd");
    let libraries = tool("libwrap0/usr/lib").read_dir().unwrap().flatten().map(|entry| entry.path());
    let libraries = std::env::join_paths(libraries).unwrap();
    let number = |what: &str| output("id", &[what, account]).parse::<u32>().unwrap();
    let (user, group) = (number("-u"), number("-g"));
    let is_root = output("id", &["-u"]) == "0";
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let input = OwnedFd::from(connection.try_clone().unwrap());
            let mut command = Command::new(&sshd);
            command.arg("-i").arg("-f").arg(&config).env("LD_LIBRARY_PATH", &libraries).current_dir("/");
            command.stdin(input).stdout(OwnedFd::from(connection)).stderr(Stdio::null());
            if is_root {
                command.uid(user).gid(group);
            }
            let mut server = command.spawn().unwrap();
            std::thread::spawn(move || server.wait());
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn by_ssh() {
    let plane = Plane::new().await;
    plane.provider_secret().await;
    let sshd = Sshd::start(&repository(&plane));
    let keys = |user: &str, host: &str| json!({"ssh-privatekey": sshd.read(user), "known_hosts": sshd.known_hosts(host)});
    let secret = |data: serde_json::Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git"}, "stringData": data});
    plane.create("secrets", secret(keys("user", "stranger"))).await;
    let git = json!({"ref": sshd.reference(), "checkOut": "v1", "cred": {"name": "git"}});
    plane.create(MODULES, module(git)).await;
    plane.failed(MODULES, "net", "Host key verification failed").await;
    plane.patch("secrets", "git", json!({"stringData": keys("stranger", "host")})).await;
    plane.failed(MODULES, "net", "Permission denied").await;
    assert!(plane.world.things().is_empty());
    plane.patch("secrets", "git", json!({"stringData": keys("user", "host")})).await;
    let object = plane.current(MODULES, "net").await;
    assert_eq!(names(&plane), ["first"]);
    assert!(!object.to_string().contains("PRIVATE KEY"));
}
