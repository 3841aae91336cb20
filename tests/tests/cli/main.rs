//! The command line as its users have it: the real binary, a real server, a kubeconfig that others use too.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap hides where it failed")]
#![allow(clippy::print_stdout, reason = "how long it took is said")]

mod beyond;
mod engines;
mod files;
mod hangar;
mod kflex;
mod rows;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use end_to_end::{Kubectl, Server, binary};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A person with a home of their own.
struct Desk {
    home: TempDir,
    kubeconfig: PathBuf,
}

/// What a command said, and how it ended.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// KubeFlex takes a context that is not found for a failure, when all else is done.
    #[track_caller]
    fn refused_or_done(self) {
        assert!(self.code == 0 || self.err.contains("no kubeconfig context"), "{self:?}");
    }

    /// It is gone, or going.
    #[track_caller]
    fn refused_or_gone(self) {
        assert!(self.code == 0 || self.err.contains("not found on server"), "{self:?}");
    }

    /// One line on standard error, and nothing done.
    #[track_caller]
    fn refused(self, what: &str) {
        assert_eq!(self.code, 1, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        assert!(self.err.contains(what), "{self:?} does not say {what:?}");
    }
}

impl Desk {
    /// With a kubeconfig that has the server's context and another program's, in JSON so that we can read it.
    fn beside(server: &Server) -> Desk {
        let desk = Desk::empty();
        let mut config: Value = serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).unwrap();
        let push =
            |config: &mut Value, list: &str, entry: Value| config[list].as_array_mut().unwrap().push(entry);
        push(
            &mut config,
            "clusters",
            json!({"name": "minikube", "cluster": {"server": "https://192.0.2.1:8443", "x": 1}}),
        );
        push(&mut config, "users", json!({"name": "minikube", "user": {"exec": {"command": "none"}}}));
        push(
            &mut config,
            "contexts",
            json!({"name": "minikube", "context": {
                "cluster": "minikube", "user": "minikube", "extensions": [{"name": "context_info", "extension": {"v": 1}}],
            }}),
        );
        config["x-unknown"] = json!({"kept": [1, 2, 3]});
        std::fs::write(&desk.kubeconfig, config.to_string()).unwrap();
        desk
    }

    fn empty() -> Desk {
        let home = tempfile::tempdir().unwrap();
        symlink(binary(), home.path().join("kflex")).unwrap();
        let kubeconfig = home.path().join("config");
        Desk { home, kubeconfig }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let path = if program == "kflex" { self.home.path().join("kflex") } else { binary() };
        let mut command = Command::new(path);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null());
        command
    }

    fn say(&self, program: &str, line: &str) -> Said {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        finished(self.command(program, &arguments))
    }

    fn hangar(&self, line: &str) -> Said {
        self.say("hangar", line)
    }

    fn kflex(&self, line: &str) -> Said {
        self.say("kflex", line)
    }

    fn config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.kubeconfig).unwrap()).unwrap()
    }

    fn current(&self) -> String {
        self.hangar("ctx get").ok().trim().to_owned()
    }

    fn kubectl(&self, line: &str) -> Said {
        let kubectl = Kubectl::all().pop().unwrap();
        let mut command = Command::new(kubectl.path);
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path());
        finished(command)
    }

    /// Names in a list of the kubeconfig that have this in them.
    fn named(&self, list: &str, part: &str) -> Vec<String> {
        let config = self.config();
        let names = config[list].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
        names.filter(|name| name.contains(part)).map(str::to_owned).collect()
    }

    /// Another program's entries are as they were.
    #[track_caller]
    fn others_are_untouched(&self, before: &Value) {
        let after = self.config();
        assert_eq!(after["x-unknown"], before["x-unknown"]);
        for list in ["clusters", "users", "contexts"] {
            let minikube = |config: &Value| {
                let entries = config[list].as_array().unwrap();
                entries.iter().find(|entry| entry["name"] == "minikube").cloned()
            };
            assert_eq!(minikube(&after), minikube(before), "{list}");
        }
    }
}

fn finished(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn extension_data(config: &Value, context: &str) -> Value {
    let contexts = config["contexts"].as_array().unwrap();
    let entry = contexts.iter().find(|entry| entry["name"] == context).unwrap();
    let extensions = entry["context"]["extensions"].as_array().unwrap();
    let ours = extensions.iter().find(|entry| entry["name"] == "kubeflex").unwrap();
    assert_eq!(ours["extension"]["metadata"]["name"], "kubeflex");
    ours["extension"]["data"].clone()
}
