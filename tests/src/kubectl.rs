//! The versions of kubectl on this machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::server::tools_dir;

/// `1.NN`: all that behaviour depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    pub minor: u32,
}

impl Version {
    /// From `1.27`, `v1.27.16`, `1.27+`.
    pub fn parse(text: &str) -> Option<Version> {
        let rest = text.trim().trim_start_matches('v').strip_prefix("1.")?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Version { minor: digits.parse().ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "1.{}", self.minor)
    }
}

#[derive(Clone, Debug)]
pub struct Kubectl {
    pub version: Version,
    pub path: PathBuf,
}

impl Kubectl {
    /// One of each version, oldest first: the one of `cargo xtask test --tools-only`, those named `kubectl.1.NN` beside the
    /// machine's kubectl, and the machine's own if it is of yet another version.
    pub fn all() -> Vec<Kubectl> {
        let mut found = BTreeMap::new();
        let machine = on_path("kubectl").and_then(|path| path.canonicalize().ok());
        let beside = machine.as_deref().and_then(Path::parent).map(versioned).unwrap_or_default();
        let downloaded = tools_dir().join("kubernetes-client/usr/bin/kubectl");
        for path in beside.into_iter().chain(Some(downloaded)).chain(machine) {
            if let Some(version) = asked(&path) {
                found.entry(version).or_insert(Kubectl { version, path });
            }
        }
        found.into_values().collect()
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn versioned(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("kubectl.1."));
    named.map(|entry| entry.path()).collect()
}

fn asked(path: &Path) -> Option<Version> {
    let output = Command::new(path).args(["version", "--client", "--output=json"]).output().ok()?;
    let said: Value = serde_json::from_slice(&output.stdout).ok()?;
    Version::parse(said["clientVersion"]["gitVersion"].as_str()?)
}
