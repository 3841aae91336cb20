//! `cargo xtask tidy`: what must hold of the house itself.
//!
//! Dependencies of our crates point one way; no file grows past reading; nothing half-done is left lying around; what
//! a page says is shown by a test is, and what it links to is there.

mod links;
mod promises;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// Our crates from the purest to the product, as in ARCHITECTURE.md. A crate may know those before it, not those
/// after it.
const ORDER: [&str; 27] = [
    "objects",
    "schemas",
    "rules",
    "apply",
    "wire",
    "builtins",
    "store",
    "store-postgres",
    "store-etcd",
    "egress",
    "sandbox",
    "auth",
    "admission",
    "apiserver",
    "listener",
    "runtime",
    "controllers",
    "tenancy",
    "provision",
    "aws",
    "terraform",
    "hangar",
    "fuzz",
    "databases",
    "emulators",
    "xtask",
    "end-to-end",
];

/// Crates that do no I/O, and what they therefore must not depend on.
const PURE: [&str; 7] = ["objects", "schemas", "rules", "apply", "wire", "builtins", "admission"];
const IMPURE: [&str; 5] = ["tokio", "hyper", "kube", "rustls", "mio"];

/// A file longer than this has a second thing in it.
const LONGEST_FILE: usize = 800;
/// Words of work that was left undone.
const UNDONE: [&str; 4] = ["todo!(", "unimplemented!(", "FIXME", "XXX"];

pub fn run() -> anyhow::Result<()> {
    let mut findings = Vec::new();
    dependencies(&mut findings)?;
    files(&mut findings)?;
    promises::check(&mut findings)?;
    links::check(&mut findings)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} things to tidy up", findings.len());
    }
    println!(
        "tidy: dependencies point one way, files are readable, promises have tests, links lead somewhere"
    );
    Ok(())
}

fn dependencies(findings: &mut Vec<String>) -> anyhow::Result<()> {
    let output = Command::new("cargo").args(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let rank: BTreeMap<&str, usize> = ORDER.iter().enumerate().map(|(i, name)| (*name, i)).collect();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(own) = rank.get(name) else {
            findings.push(format!("crate {name} has no place in the order of crates (xtask/src/tidy.rs)"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            // Tests may look wherever they like.
            let for_tests = dependency["kind"] == "dev";
            if !for_tests && rank.get(other).is_some_and(|other| other >= own) {
                findings.push(format!("crate {name} must not know {other}, which stands below it"));
            }
            if !for_tests && PURE.contains(&name) && IMPURE.contains(&other) {
                findings.push(format!("crate {name} is pure and must not depend on {other}"));
            }
        }
    }
    Ok(())
}

fn files(findings: &mut Vec<String>) -> anyhow::Result<()> {
    for path in listed("*.rs")? {
        if path.starts_with("xtask/src/tidy.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            findings
                .push(format!("{}: {lines} lines, more than a person reads in one sitting", path.display()));
        }
        for (number, line) in text.lines().enumerate() {
            if UNDONE.iter().any(|word| line.contains(word)) {
                findings.push(format!("{}:{}: left undone: {}", path.display(), number + 1, line.trim()));
            }
        }
        heads(&path, &text, findings);
    }
    Ok(())
}

/// Files of the project that are there.
fn listed(pattern: &str) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", pattern])
        .output()?;
    let paths = String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect::<Vec<_>>();
    Ok(paths.into_iter().filter(|path| path.exists()).collect())
}

/// Every library begins by saying what it is.
fn heads(path: &Path, text: &str, findings: &mut Vec<String>) {
    if path.ends_with("src/lib.rs") && !text.starts_with("//!") {
        findings.push(format!("{}: a crate begins with what it is", path.display()));
    }
}
